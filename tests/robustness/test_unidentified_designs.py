"""Designs that leave their parameters unknown, and what a matrix with free parameters cannot do: clear messages."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr

LIE = pr.designs.stochastic_lie_detector
CHEAT = pr.designs.cheating_detection
GOOD = CHEAT("g", {"a": 0.25, "b": 0.75})
EYE = np.eye(2)


def says(*parts: str) -> str:
    """A pattern that needs every part, in order."""
    return ".*".join(re.escape(part) for part in parts)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LIE("g", {"a": 0.2}), says("1 group(s) of 'g'", "1 number(s), and 2 are unknown", "more groups")),
        (lambda: LIE("g", {}), says("dictionary from the values of 'g'")),
        (lambda: LIE("g", [0.2, 0.8]), says("stochastic lie detector needs a dictionary")),  # type: ignore[arg-type]
        (lambda: LIE("g", {"a": 0.4, "b": 0.4}), says("'honest'", "matrices are the same", "limit is")),
        (lambda: CHEAT("g", {"a": 0.25, "b": 0.25}), says("'honest'", "matrices are the same", "chances that differ")),
        (lambda: CHEAT("g", {"a": 0, "b": 0}), says("'honest'", "matrices are the same")),
        (lambda: CHEAT("g", {"a": 0.2, "b": 0.7}, {"a": 0.1}), says("yes= is of groups", "no= of", "every group")),
        (lambda: LIE("g", {"a": 1.2, "b": 0.4}), says("group 'a'=1.2 must be a probability")),
        (lambda: LIE("g", {"a": 0.2, "b": 0.8}, levels=[0, 1, 2]), says("shape (2, 2)", "3 levels")),
        (lambda: pr.FreeMatrix("g", {"a": (EYE,), "b": (EYE,)}, ["t"]), says("group 'a' needs 2 matrices", "'t'")),
        (lambda: pr.FreeMatrix("g", {"a": (EYE, EYE), "b": (EYE, EYE)}, "t"), says("must be a list of names", "['t']")),
        (lambda: pr.FreeMatrix("g", {"a": (EYE, EYE), "b": (EYE, EYE)}, []), says("one or more different names")),
        (lambda: pr.FreeMatrix("g", {"a": (EYE, EYE), "b": (EYE, EYE)}, ["a b"]), says("'a b'", "different names")),
        (
            lambda: pr.FreeMatrix("g", {"a": (EYE, EYE), "b": (EYE, EYE)}, ["t"]),
            says("cannot tell 't'", "the same", "smallest singular value"),
        ),
        (
            lambda: pr.FreeMatrix("g", {"a": (EYE, [[0.5, 0.5], [0.2, 0.5]]), "b": (EYE, EYE)}, ["t"]),
            says("column 0", "sums to 0.7, not 1"),
        ),
        (
            lambda: pr.FreeMatrix("g", dict.fromkeys("abc", (EYE, EYE[::-1], EYE[::-1])), ["s", "t"]),
            says("3 group(s)", "'s', 't'"),
        ),
        (lambda: GOOD.at(), says("at() needs 'honest', and not nothing")),
        (lambda: GOOD.at(honest=1.2), says("{'honest': 1.2} must be shares")),
        (lambda: GOOD.at(cheaters=0.2), says("at() needs 'honest', and not 'cheaters'")),
    ],
)
def test_designs_that_tell_nothing(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(pr.MechanismError, match=message):
        make()


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    n = 1200
    columns = {"z": rng.integers(0, 2, n), "g": rng.choice(["a", "b"], n), "x": rng.normal(size=n)}
    return pd.DataFrame(columns).assign(up=rng.integers(0, 2, n), y=np.exp(rng.normal(size=n)), person=np.arange(n))


MEASURED = pr.TransitionMatrix.from_validation(sensitivity=(90, 100), specificity=(90, 100))
LOGIT = {"family": "binomial"}


@pytest.mark.parametrize(
    ("what", "others", "options", "message"),
    [
        ("z ~ g", {}, LOGIT, says("'g' is the group", "at random", "leave it out")),
        (pr.mean("z", by="g"), {}, {}, says("'g' is the group")),
        (
            "z ~ x",
            {},
            {**LOGIT, "subset": "g == 'a'"},
            says("no record of group 'b' of 'g'", "'honest' cannot be told"),
        ),
        ("y ~ x", {}, {"subset": "z == 1"}, says("no subset is made by it", "by=")),
        ("z ~ up", {"up": MEASURED}, LOGIT, says("that of 'up' was measured", "measured(None)")),
        ("z ~ up", {"up": GOOD}, LOGIT, says("that of 'up' has as well", "matrix.at(...)")),
        (pr.total("z"), {}, {}, says("'total(z)' is a sum", "ask for means", "band")),
        (pr.median("y", by="z"), {}, {}, says("is a step function", "band")),
        (pr.quantile_regression("y ~ z"), {}, {}, says("is a step function")),
        (pr.gini("y", by="z"), {}, {}, says("is a function of moments", "matrix.at(...)")),
        ("z ~ x", {}, {**LOGIT, "method": "likelihood"}, says("free parameters ('honest')", "use method='reversion'")),
        ("z ~ x", {}, {**LOGIT, "method": "model1"}, says("free parameters ('honest')", "method='reversion'")),
        ("z ~ x", {}, {**LOGIT, "inference": pr.Sandwich(interval="score")}, says("score intervals")),
        (pr.mean("z"), {}, {"inference": pr.Sandwich(interval="lang-reiczigel")}, says("measured on other people")),
    ],
)
def test_what_cannot_be_asked(
    what: Any, others: dict[str, Any], options: dict[str, Any], message: str, data: pd.DataFrame
) -> None:
    with pytest.raises(pr.PramanaError, match=message):
        pr.fit(what, data, pr.Mechanism({"z": GOOD, **others}), **options)


def test_records_that_tell_nothing(data: pd.DataFrame) -> None:
    mechanism = pr.Mechanism({"z": GOOD})
    with pytest.raises(pr.DataError, match=says("nobody in group 'a' of 'g' answered 1 to z", "no standard error")):
        pr.fit(pr.mean("z"), data.assign(z=0), mechanism)
    with pytest.raises(pr.DataError, match=says("column 'g' has 1200 value(s) that are not levels", "'c'")):
        pr.fit(pr.mean("z"), data.assign(g="c"), mechanism)
    with pytest.raises(pr.DataError, match="column 'g' is not in the data"):
        pr.fit(pr.mean("z"), data.drop(columns="g"), mechanism)
    shared = pr.Mechanism({"z": GOOD}, unit="person")
    with pytest.raises(pr.PramanaError, match=says("records of a 'person' share their draws", "keep one record")):
        pr.fit(pr.mean("z"), data, shared)


def test_doubtful_parameters_are_said_to_be_so(data: pd.DataFrame) -> None:
    """People who say yes more often where they are told to less: no share of honest people does that."""
    rng = np.random.default_rng(1)
    odd = data.assign(z=(rng.random(len(data)) < np.where(data["g"] == "a", 0.6, 0.2)).astype(int))
    found = pr.fit(pr.mean("z"), odd, pr.Mechanism({"z": GOOD}))
    assert re.search(r"honest = -\d.* lies outside \[0, 1\], by more than 2 standard errors", str(found))
    near = pr.fit(pr.mean("z"), data, pr.Mechanism({"z": CHEAT("g", {"a": 0.25, "b": 0.3})}))
    assert re.search(r"the groups hardly tell honest: its standard error is \d", str(near))
    assert "free-parameter-outside" in [d.code for d in found.diagnostics]
    assert "free-parameter-vague" in [d.code for d in near.diagnostics]


@pytest.mark.parametrize(
    "use",
    [
        lambda d, m, _p: m.perturb(d),
        lambda d, m, _p: pr.risk(d, m),
        lambda d, m, _p: pr.table_em("z", d, m),
        lambda d, m, _p: pr.specification_test("up ~ z", d, m, **LOGIT),
        lambda _d, m, p: pr.release(p / "in.csv", p / "out.csv", m),
    ],
)
def test_what_needs_known_chances_says_so(use: Callable[..., Any], data: pd.DataFrame, tmp_path: Path) -> None:
    data.to_csv(tmp_path / "in.csv", index=False)
    with pytest.raises(pr.MechanismError, match=r"matrix\.at\("):
        use(data, pr.Mechanism({"z": GOOD}), tmp_path)
    assert not (tmp_path / "out.csv").exists()


def test_designs_that_cannot_be_are_refused() -> None:
    with pytest.raises(pr.MechanismError, match=r"yes with probability 0.7 and no with 0.6"):
        pr.designs.cheating_detection("g", {"a": 0.7, "b": 0.2}, {"a": 0.6, "b": 0.2})
    with pytest.raises(pr.MechanismError, match="name of the column"):
        pr.designs.cheating_detection(5, {"a": 0.7, "b": 0.2})  # type: ignore[arg-type]
    pairs = {g: ([[p, 1], [1 - p, 0]], [[p, 0], [1 - p, 1]]) for g, p in (("a", 0.2), ("b", 0.7))}
    for names in (5, None):
        with pytest.raises(pr.MechanismError, match="list of names"):
            pr.FreeMatrix("g", pairs, names)  # type: ignore[arg-type]
    with pytest.raises(pr.MechanismError, match="must be shares"):
        pr.FreeMatrix("g", pairs, ["h"]).at(h="x")  # type: ignore[arg-type]


def test_a_column_is_not_its_own_truth() -> None:
    matrix = pr.TransitionMatrix.from_validation([[37, 3], [3, 37]], internal=True)
    with pytest.raises(pr.PramanaError, match="its own truth"):
        pr.fit(pr.mean("a"), {"a": [0, 1] * 50}, pr.Mechanism({"a": matrix}), method=pr.Validated({"a": "a"}))
