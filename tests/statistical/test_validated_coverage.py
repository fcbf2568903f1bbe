"""Validated records used twice: the combined answer covers as it should, and varies less than either of its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from montecarlo import BOUND, CLEAR, check_coverage, check_spread, gather

import pramana as pr

Log = Callable[[str, object], None]
QUESTIONS: dict[str, tuple[Any, tuple[float, ...], dict[str, Any]]] = {
    "share": (pr.mean("ill"), (0.3,), {}),
    "logit": ("trait ~ x", (-0.5, 1.0), {"family": "binomial"}),
    "linear": ("income ~ trait + x", (1.0, 2.0, 1.0), {}),
}


def sample(rng: np.random.Generator, n: int, by_released: bool) -> dict[str, Any]:
    """Two measured columns, of which every fifth record, or those released as 1 rather, have their truth."""
    x, ill = rng.normal(size=n), rng.random(n) < 0.3
    trait = rng.random(n) < 1 / (1 + np.exp(0.5 - x))
    out: dict[str, Any] = {"x": x, "income": 1 + 2 * trait + x + rng.normal(size=n)}
    for name, true in (("ill", ill), ("trait", trait)):
        seen = np.where(rng.random(n) < np.where(true, 0.14, 0.1), ~true, true)
        known = rng.random(n) < (np.where(seen, 0.35, 0.1) if by_released else 0.2)
        out |= {name: seen.astype(int), f"{name}_true": np.where(known, true, np.nan)}
    return out


def combined_fit(data: dict[str, Any], column: str, what: Any, options: dict[str, Any], **method: Any) -> pr.Result:
    truth = data[f"{column}_true"]
    counts = np.array([[np.sum((data[column] == i) & (truth == j)) for j in (0, 1)] for i in (0, 1)])
    mechanism = pr.Mechanism({column: pr.TransitionMatrix.from_validation(counts, internal=True)})
    method = method or {"method": pr.Validated({column: f"{column}_true"})}
    return pr.fit(what, data, mechanism, **method, **options)


def validated_fit(data: dict[str, Any], column: str, what: Any, options: dict[str, Any]) -> pr.Result:
    """Of the true values alone."""
    truth = data[f"{column}_true"]
    known = ~np.isnan(truth)
    own = {name: values[known] for name, values in data.items()} | {column: truth[known].astype(int)}
    return pr.fit(what, own, None, **options)


@pytest.mark.parametrize(
    ("asked", "replicates"),
    [
        ("share", 50),
        ("linear", 20),
        *(pytest.param(name, 2000, marks=pytest.mark.verify) for name in QUESTIONS),
    ],
)
def test_the_combination_covers_and_varies_least(asked: str, replicates: int, record_property: Log) -> None:
    """Where people were chosen by their released value instead, the bias is seen, and a flag says so."""
    what, truth, options = QUESTIONS[asked]
    column = "ill" if asked == "share" else "trait"
    children = np.random.SeedSequence(1970).spawn(replicates)
    samples = [sample(np.random.default_rng(child), 2000, False) for child in children]
    found = [combined_fit(data, column, what, options) for data in samples]
    combined = gather(found, truth)
    reverted = gather([combined_fit(data, column, what, options, method="reversion") for data in samples], truth)
    validated = gather([validated_fit(data, column, what, options) for data in samples], truth)
    rows = combined.rows()
    for row, one, other in zip(rows, reverted.spread, validated.spread, strict=True):
        row |= {"SD, reverted": one, "SD, validated alone": other}
    record_property("rows", rows)
    assert np.all(np.abs(combined.bias) < 0.2 * combined.spread + BOUND * combined.bias_error)
    check_coverage(combined)
    check_spread(combined, allowance=0.05)
    # Spreads of the same samples: their ratio has a relative error of about 1/√R.
    least = np.minimum(reverted.spread, validated.spread)
    assert np.all(combined.spread < least * (1 + 1 / np.sqrt(replicates)))
    if asked == "share":
        others = [sample(np.random.default_rng(child), 2000, True) for child in children[:25]]
        wrong = [combined_fit(data, column, what, options) for data in others]
        off = gather(wrong, truth)
        assert abs(off.bias[0] / off.bias_error[0]) > CLEAR
        assert all(unlike(result) for result in wrong)
        assert np.mean([unlike(result) for result in found]) < 0.05


def unlike(result: pr.Result) -> bool:
    return any(note.code == "validated-unlike" for note in result.diagnostics)
