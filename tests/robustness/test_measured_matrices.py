"""Wrong validation studies and published accuracies, and what a measured matrix cannot do: clear messages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr

P = pr.TransitionMatrix
GOOD = P.from_validation(sensitivity=(204, 242), specificity=(71, 89))


def says(*parts: str) -> str:
    """A pattern that needs every part, in order."""
    return ".*".join(re.escape(part) for part in parts)


def cross(counts: Any, released: Any, true: Any) -> pd.DataFrame:
    return pd.DataFrame(counts, index=released, columns=true)


COUNTS = [[71, 38], [18, 204]]


@pytest.mark.parametrize(
    ("counts", "options", "message"),
    [
        ([[71, 0], [18, 0]], {}, says("nobody of true level 1 was validated", "validate some", "merge")),
        ([[71, 38], [-18, 204]], {}, says("true level 0 released as 1 is -18", "whole numbers")),
        ([[0.8, 0.2], [0.2, 0.8]], {}, says("true level 0 released as 0 is 0.8", "not shares")),
        ([[71, np.nan], [18, 204]], {}, says("true level 1 released as 0 is nan")),
        ([[1, 2, 3], [4, 5, 6]], {"levels": "abc"}, says("shape (2, 3)", "3 levels", "3 × 3")),
        (np.ones((3, 3)), {}, says("shape (3, 3) without levels", "give levels=")),
        (COUNTS, {"levels": ["a", "b", "c"]}, says("shape (2, 2)", "3 levels")),
        ("many", {}, says("table of numbers")),
        ([["x", "y"], ["z", "w"]], {}, says("table of numbers")),
        (None, {}, says("a table of counts, or sensitivity=(204, 242)")),
        (COUNTS, {"sensitivity": (204, 242)}, says("a table of counts, or sensitivity=(204, 242)")),
        (None, {"sensitivity": (204, 242)}, says("specificity=None", "pair of counts")),
        (None, {"sensitivity": (242, 204), "specificity": (71, 89)}, says("sensitivity=(242, 204)", "pair of counts")),
        (None, {"sensitivity": 0.9, "specificity": 0.8}, says("specificity=0.8", "from_published")),
        (None, {"sensitivity": (9.5, 12), "specificity": (71, 89)}, says("true level 1 released as 0 is 2.5", "whole")),
        (
            cross(COUNTS, ["no", "maybe"], ["no", "yes"]),
            {},
            says("the rows", "'no', 'maybe'", "not the levels 'no', 'yes'"),
        ),
        (cross(COUNTS, [0, 1], [0, 1]), {"levels": ["no", "yes"]}, says("rows", "0, 1", "'no', 'yes'")),
        (cross([[1, 2, 3]] * 3, [0, 1, "All"], [0, 1, "All"]), {}, says("mix number and text")),
        (cross([["x", 1], [2, 3]], [0, 1], [0, 1]), {}, says("something else than numbers")),
        ({"no": 3, "yes": 4}, {}, says("one for each true level", "'no': {'no': 71")),
        ({"no": {"no": 5}, "yes": {"perhaps": 3}}, {}, says("rows", "'perhaps'")),
        (
            {"no": {"no": 5, "yes": 1}},
            {"levels": ["no", "yes"]},
            says("the columns", "'no', not the levels 'no', 'yes'"),
        ),
        (COUNTS, {"prior": -1}, says("prior=-1", "at least 0")),
        (COUNTS, {"prior": [1, 2, 3]}, says("prior=[1, 2, 3]", "2 × 2")),
        (COUNTS, {"prior": "jeffreys"}, says("prior='jeffreys'", "number")),
        (COUNTS, {"chosen_by": "released"}, says("by their released level", "Pr(true | released)", "from_columns")),
        (COUNTS, {"chosen_by": "chance"}, says("chosen_by='chance'", "'neither'")),
        (
            [[6, 4], [4, 6]],
            {},
            says("may be singular", "0.2 ± 0.22, 0.9 standard errors", "limit is 2", "validate more"),
        ),
        ([[50, 50], [50, 50]], {}, says("is singular")),
    ],
)
def test_a_wrong_validation_study_says_what_is_wrong(counts: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(pr.MechanismError, match=message):
        P.from_validation(counts, **options)


@pytest.mark.parametrize(
    ("sensitivity", "options", "message"),
    [
        ((0.94, (0.95, 0.97)), {}, says("sensitivity", "(0.95, 0.97) must hold the estimate 0.94")),
        ((0.94, (0.97, 0.90)), {}, says("(0.97, 0.9)", "lower limit first")),
        ((0.94, (0.90, 1.2)), {}, says("between 0 and 1")),
        ((0.94, (0.94, 0.94)), {}, says("must hold the estimate")),
        ((0.94, (0.90,)), {}, says("must hold the estimate")),
        ((0.94, ("low", "high")), {}, says("must hold the estimate")),
        ((0.94, 0), {}, says("0 people")),
        ((0.94, 12.5), {}, says("12.5 people", "whole")),
        (94, {}, says("sensitivity=94 must be a probability", "(0.94, (0.90, 0.97))")),
        ((0.94, 0.90, 0.97), {}, says("must be a probability")),
        ((0.5, (0.0, 1.0)), {}, says("(0.0, 1.0) around 0.5 is wider")),
        ((1.0, (0.0, 1.0)), {}, says("from 0 to 1 says nothing")),
        ((0.94, (0.90, 0.97)), {"level": 95}, says("level=95", "0.95")),
        ((0.94, (0.90, 0.97)), {"levels": ["no", "yes", "maybe"]}, says("3 levels")),
    ],
)
def test_a_wrong_accuracy_says_what_is_wrong(sensitivity: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(pr.MechanismError, match=message):
        P.from_published(sensitivity, 0.97, **options)


def test_levels_that_are_not_those_of_the_column_are_named() -> None:
    with pytest.raises(pr.DataError, match=says("'y'", "levels are numbers")):
        pr.fit(pr.mean("y"), {"y": ["no", "yes"] * 20}, pr.Mechanism({"y": GOOD}))
    with pytest.raises(pr.DataError, match=says("'y'", "2")):
        pr.fit(pr.mean("y"), {"y": [0, 1, 2] * 20}, pr.Mechanism({"y": GOOD}))


def test_what_needs_a_known_matrix_refuses_a_measured_one(tmp_path: Path) -> None:
    frame = pd.DataFrame({"y": [0, 1] * 50, "x": np.linspace(-1, 1, 100)})
    frame.to_csv(tmp_path / "true.csv", index=False)
    mechanism = pr.Mechanism({"y": GOOD})
    known = says("'y' was measured", "measured(None)")
    with pytest.raises(pr.MechanismError, match=known):
        pr.release(tmp_path / "true.csv", tmp_path / "public.csv", mechanism)
    assert not (tmp_path / "public.csv").exists()
    with pytest.raises(pr.MechanismError, match=known):
        pr.specification_test("y ~ x", frame, mechanism)
    with pytest.raises(pr.MechanismError, match=known):
        pr.Scenario(lambda rng, n: {"y": rng.integers(0, 2, n)}, mechanism, pr.mean("y"), [0.5], 100)


@pytest.mark.parametrize("method", ["likelihood", "forward", "model1"])
def test_methods_that_take_p_as_known_say_so(method: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=400)
    data = {"x": x, "y": (rng.random(400) < 1 / (1 + np.exp(-x))).astype(int)}
    few = pr.Resampling(draws=20, seed=1) if method == "model1" else None
    result = pr.fit("y ~ x", data, pr.Mechanism({"y": GOOD}), family="binomial", method=method, inference=few)
    assert "matrix-taken-as-known" in result.flags


def test_others_do_not_say_so() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=400)
    data = {"x": x, "y": (rng.random(400) < 1 / (1 + np.exp(-x))).astype(int)}
    for other in ("reversion", "backward", "naive"):
        result = pr.fit("y ~ x", data, pr.Mechanism({"y": GOOD}), family="binomial", method=other)
        assert "matrix-taken-as-known" not in result.flags
    assert "matrix-taken-as-known" in pr.table_em("y", data, pr.Mechanism({"y": GOOD})).flags
    unused = pr.fit("x ~ 1", data, pr.Mechanism({"y": GOOD}), method="likelihood")
    assert "matrix-taken-as-known" not in unused.flags


def test_a_matrix_that_is_nearly_singular_within_its_uncertainty_is_flagged() -> None:
    data = {"y": [1] * 60 + [0] * 60}
    faint = P.from_validation(sensitivity=(14, 20), specificity=(14, 20))
    result = pr.fit(pr.mean("y"), data, pr.Mechanism({"y": faint}))
    note = next(d for d in result.diagnostics if d.code == "matrix-nearly-singular")
    assert "0.4 ± 0.14, 2.8 standard errors" in note.message
    assert "matrix-nearly-singular" not in pr.fit(pr.mean("y"), data, pr.Mechanism({"y": GOOD})).flags


@pytest.mark.parametrize(
    ("sizes", "message"),
    [([89.0], "1 numbers for 2 levels"), ([89.0, 0.0], "sizes"), ([89.0, -3.0], "sizes"), ("many", "sizes")],
)
def test_a_broken_description_is_refused(sizes: Any, message: str) -> None:
    from pramana.mechanism.description.document import from_document

    document = pr.Mechanism({"y": GOOD}).document()
    document["pram"]["channels"][0]["randomization"]["sizes"] = sizes
    with pytest.raises(pr.MechanismError, match=message):
        from_document(document, "here")
