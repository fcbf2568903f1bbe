"""A design whose clean columns are plain numbers is made once; its rows are those of the general road."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from formulaic.errors import FactorEvaluationError

import pramana as pr
from pramana.formulas.design import KEPT, FormulaDesign, NumbersDesign
from pramana.formulas.parsed import parse
from pramana.frames import read

MECHANISM = pr.Mechanism(
    {
        "g": pr.TransitionMatrix.randomized_response(["a", "b", "c"], 0.8),
        "z": pr.TransitionMatrix.binary(0.8, 0.9),
    }
)
FORMULAS = ["y ~ x", "y ~ x + g", "y ~ x*g", "y ~ C(g) + z:x:w", "y ~ 0 + g:z + 2:x", "y ~ isin(g, ['a', 'b']):x + w"]


def records(rng: np.random.Generator, n: int = 9) -> dict[str, Any]:
    numbers = {"x": rng.normal(size=n), "w": rng.integers(1, 9, n), "y": rng.normal(size=n)}
    return {**numbers, "g": rng.choice(["a", "b", "c"], n), "z": rng.integers(0, 2, n)}


@pytest.mark.parametrize("formula", FORMULAS)
def test_rows_are_those_of_the_general_road(formula: str) -> None:
    rng = np.random.default_rng(3)
    for _ in range(3):
        data = records(rng)
        design = FormulaDesign.fit(parse(formula), read(data), MECHANISM.schema)
        assert isinstance(design, NumbersDesign)
        for node in (data, {**data, "g": "b", "z": 1}):
            np.testing.assert_allclose(design(node, 9), FormulaDesign.__call__(design, node, 9), rtol=1e-14)


def test_another_table_of_the_same_kind_has_the_same_design_and_another_kind_has_not() -> None:
    rng = np.random.default_rng(4)
    one, two = (FormulaDesign.fit(parse("y ~ x*z"), read(records(rng)), MECHANISM.schema) for _ in range(2))
    assert one is two
    truth = pr.Mechanism({"z": pr.TransitionMatrix.randomized_response([False, True], 0.8)})
    marks = {**records(rng), "z": rng.random(9) < 0.5}
    other = FormulaDesign.fit(parse("y ~ x*z"), read(marks), truth.schema)
    assert other is not one
    assert other.names != one.names
    text = {**records(rng), "x": ["u", "v", "u"] * 3}
    learned = FormulaDesign.fit(parse("y ~ x + g"), read(text), MECHANISM.schema)
    assert not isinstance(learned, NumbersDesign)


def test_what_is_kept_is_bounded() -> None:
    rng = np.random.default_rng(5)
    design = FormulaDesign.fit(parse("y ~ x + g"), read(records(rng)), MECHANISM.schema)
    assert isinstance(design, NumbersDesign)
    for _ in range(3 * KEPT):
        design(records(rng), 9)
    assert len(design._kept) <= KEPT


@pytest.mark.parametrize("values", [["u", "v"], np.array(["2020-01-01"] * 2, dtype="M8[D]")])
def test_new_records_without_numbers_are_refused(values: Any) -> None:
    fitted = pr.fit("y ~ x", {"x": [1.0, 2, 3, 4], "y": [1.0, 2, 2, 4]}, None)
    with pytest.raises(pr.PramanaError):
        fitted.predict({"x": values})


@pytest.mark.parametrize("kind", [SystemError, FactorEvaluationError])
@pytest.mark.parametrize("disturbed", [1, 3])
def test_threads_that_trip_over_pythons_count_of_trees_ask_again(
    disturbed: int, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads that parse at once can be told of a "recursion depth mismatch" with which neither has anything to do."""
    from formulaic import ModelSpec

    data = {"y": np.arange(40.0), "g": np.resize(["a", "b"], 40)}
    expected, plain, calls = pr.fit("y ~ C(g)", data, None), ModelSpec.get_model_matrix, []

    def asked(self: ModelSpec, *args: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) <= disturbed:
            raise kind("AST constructor recursion depth mismatch (before=75, after=73)")
        return plain(self, *args, **options)

    monkeypatch.setattr(ModelSpec, "get_model_matrix", asked)
    found = pr.fit("y ~ C(g)", {**data, "y": data["y"] + 1}, None)
    assert len(calls) > disturbed
    np.testing.assert_allclose(found.estimate - expected.estimate, [1, 0], atol=1e-12)

    monkeypatch.setattr(
        ModelSpec, "get_model_matrix", lambda *_args, **_options: (_ for _ in ()).throw(SystemError("x"))
    )
    with pytest.raises(pr.FormulaError, match="could not be evaluated"):
        pr.fit("y ~ C(g)", {**data, "y": data["y"] + 2}, None)


@pytest.mark.parametrize("categories", [None, ["v", "u", "w"]])
def test_columns_of_text_with_the_same_levels_have_the_same_design(categories: list[str] | None) -> None:
    def learned(texts: list[str], formula: str = "y ~ x:t + g") -> FormulaDesign:
        values = pd.Categorical(texts, categories=categories) if categories else texts
        frame = pd.DataFrame({**records(np.random.default_rng(len(texts))), "t": values})
        return FormulaDesign.fit(parse(formula), read(frame), MECHANISM.schema)

    one = learned(["u", "v", "u"] * 3)
    assert learned(["v", "v", "u"] * 3) is one
    assert [name for name in one.names if ":" in name] == [f"x:t[{level}]" for level in ("vu" if categories else "uv")]
    assert learned(["v", "v", "u"] * 3, "y ~ t + g") is not one
    assert learned(["u", "v", "w"] * 3) is not one
