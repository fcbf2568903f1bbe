"""Results side by side are lined up by the names of their terms."""

from __future__ import annotations

import numpy as np
import pytest

import pramana as pr

DATA = {
    "y": [1.0, 2.0, 2.5, 4.0, 5.5, 3.0, 7.5, 6.0],
    "age": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
    "gender": [1, 0, 0, 1, 1, 0, 1, 0],
    "edu": [0, 0, 1, 1, 0, 1, 0, 1],
}


def models(*formulas: str) -> dict[str, pr.Result]:
    return {formula: pr.fit(formula, DATA, None) for formula in formulas}


@pytest.mark.parametrize(
    ("formulas", "terms"),
    [
        (("y ~ age + gender", "y ~ gender + age"), ("Intercept", "age", "gender")),
        (("y ~ age", "y ~ gender + age + edu"), ("Intercept", "age", "gender", "edu")),
        (("y ~ age + gender + edu", "y ~ edu"), ("Intercept", "age", "gender", "edu")),
        (("y ~ age", "mean(y)", "y ~ 0 + edu"), ("Intercept", "age", "mean(y)", "edu")),
    ],
)
def test_every_cell_stands_beside_its_own_term(formulas: tuple[str, ...], terms: tuple[str, ...]) -> None:
    results = models(*formulas)
    comparison = pr.Comparison(results)
    assert comparison.parameters == terms
    for term, *cells in comparison.sheet().rows:
        for cell, result in zip(cells, results.values(), strict=True):
            if term not in result.parameters:
                assert cell is None
                continue
            row = result[str(term)]
            assert cell == f"{row.estimate:.4f} ({row.std_error:.4f})"
    assert "None" not in comparison.summary()
    assert "nan" not in comparison.summary("latex")


def drawn(figure: object) -> list[dict[str, float]]:
    """Term ↦ estimate, of every series of a picture of coefficients."""
    (axes,) = figure.axes  # type: ignore[attr-defined]
    places, names = axes.get_yticks(), [label.get_text() for label in axes.get_yticklabels()]
    out = []
    for line in axes.lines:
        x, y = (np.asarray(v, dtype=float) for v in line.get_data())
        if len(x) == len(names):
            nearest = [names[int(np.argmin(np.abs(places - height)))] for height in y]
            out.append({n: v for n, v in zip(nearest, x, strict=True) if np.isfinite(v)})
    return out


@pytest.mark.parametrize("others", [("y ~ gender + age",), ("y ~ gender", "y ~ edu + gender + age"), ("mean(y)",)])
def test_points_of_a_picture_stand_beside_their_own_term(others: tuple[str, ...]) -> None:
    first, *rest = models("y ~ age + gender", *others).values()
    shown = drawn(first.plot(*rest, intercept=True))
    for points, result in zip(shown, (first, *rest), strict=True):
        assert points == dict(zip(result.parameters, result.estimate, strict=True))


def test_facts_that_differ_are_told_for_each() -> None:
    comparison = pr.Comparison({"a": pr.fit("y ~ age", DATA, None), "b": pr.fit("y ~ edu", DATA, None)})
    facts = dict(comparison.sheet().facts)
    assert facts["Formula"] == "a: y ~ age; b: y ~ edu"
    assert facts["Family"] == "gaussian, identity link"


def test_a_comparison_of_nothing_is_refused() -> None:
    with pytest.raises(pr.PramanaError, match="at least one"):
        pr.Comparison({})


def test_a_comparison_says_which_standard_errors_were_resampled() -> None:
    plain, drawn = pr.fit("y ~ age", DATA, None), pr.fit("y ~ age", DATA, None, inference=pr.Resampling(40, seed=1))
    assert "Standard errors" not in str(pr.Comparison({"a": plain, "b": plain}))
    assert "Standard errors: a: sandwich; b: resampling, 40 exponential draws\n" in str(
        pr.Comparison({"a": plain, "b": drawn})
    )
