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


def fitted(
    data: dict[str, Any], column: str, what: Any, options: dict[str, Any]
) -> tuple[pr.Result, pr.Result, pr.Result]:
    """Combined, reverted, and of the validated alone."""
    truth = data[f"{column}_true"]
    known = ~np.isnan(truth)
    counts = np.array([[np.sum((data[column] == i) & (truth == j)) for j in (0, 1)] for i in (0, 1)])
    mechanism = pr.Mechanism({column: pr.TransitionMatrix.from_validation(counts, internal=True)})
    own = {name: values[known] for name, values in data.items()} | {column: truth[known].astype(int)}
    return (
        pr.fit(what, data, mechanism, method=pr.Validated({column: f"{column}_true"}), **options),
        pr.fit(what, data, mechanism, **options),
        pr.fit(what, own, None, **options),
    )


@pytest.mark.parametrize(
    ("asked", "replicates"),
    [
        ("share", 70),
        ("linear", 30),
        *(pytest.param(name, 2000, marks=pytest.mark.verify) for name in QUESTIONS),
    ],
)
def test_the_combination_covers_and_varies_least(asked: str, replicates: int, record_property: Log) -> None:
    """Where people were chosen by their released value instead, the bias is seen, and a flag says so."""
    what, truth, options = QUESTIONS[asked]
    column = "ill" if asked == "share" else "trait"
    children = np.random.SeedSequence(1970).spawn(replicates)
    results = [fitted(sample(np.random.default_rng(c), 2000, False), column, what, options) for c in children]
    combined, reverted, validated = (gather([r[k] for r in results], truth) for k in range(3))
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
        wrong = [fitted(sample(np.random.default_rng(c), 2000, True), column, what, options)[0] for c in children[:40]]
        found = gather(wrong, truth)
        assert abs(found.bias[0] / found.bias_error[0]) > CLEAR
        flagged = [any(d.code == "validated-unlike" for d in r.diagnostics) for r in wrong]
        assert np.mean(flagged) == 1
        assert np.mean([any(d.code == "validated-unlike" for d in r[0].diagnostics) for r in results]) < 0.05
