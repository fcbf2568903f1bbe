"""The population of study c6 with more parameters: a P that was measured. Its uncertainty belongs in the intervals; left out, they cover too little."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from montecarlo import BOUND, Data, Replicates, check_coverage, check_spread, gather, perturb

import pramana as pr
from pramana.inference.shares import Screened, lang_reiczigel
from pramana.studies.noise import MEASURED, SLOPES, patients, validated_matrix

Log = Callable[[str, object], None]


def sample(rng: np.random.Generator, n: int) -> Data:
    """Released data; half of the records on either side."""
    true = {**patients(rng, n), "side": np.where(np.arange(n) % 2 == 0, "left", "right")}
    return perturb(pr.Mechanism(MEASURED), true, int(rng.integers(2**63)))


def plain(*columns: str, size: int) -> Callable[[np.random.Generator], pr.Mechanism]:
    return lambda rng: pr.Mechanism({c: validated_matrix(rng, c, size) for c in columns})


def by_side(rng: np.random.Generator) -> pr.Mechanism:
    """A study for each side, the left one larger."""
    sides = {"left": validated_matrix(rng, "ill", 400), "right": validated_matrix(rng, "ill", 150)}
    return pr.Mechanism({"ill": pr.Stratified("side", sides)})


LOGIT = {"family": "binomial"}
SETTINGS: dict[str, tuple[Any, Any, tuple[float, ...], dict[str, Any]]] = {
    "prevalence": (pr.mean("ill"), plain("ill", size=200), (0.35,), {}),
    "prevalence, resampled": (
        pr.mean("ill"),
        plain("ill", size=200),
        (0.35,),
        {"inference": pr.Resampling(draws=400, seed=1)},
    ),
    "prevalence, a study a stratum": (pr.mean("ill"), by_side, (0.35,), {}),
    "linear model, measured covariate": ("income ~ x + edu", plain("edu", size=150), SLOPES, {}),
    "logit, measured response and covariate": ("y ~ x + edu", plain("y", "edu", size=400), SLOPES, LOGIT),
}


def known(mechanism: pr.Mechanism) -> pr.Mechanism:
    """The same estimates of P, taken as known."""

    def part(channel: Any) -> Any:
        if isinstance(channel, pr.Stratified):
            return pr.Stratified(channel.by, {value: m.measured(None) for value, m in channel.strata.items()})
        return channel.measured(None)

    return pr.Mechanism({a.columns[0]: part(a.channel) for a in mechanism.assignments})


def replicated(name: str, replicates: int, n: int = 2000) -> tuple[Replicates, Replicates]:
    """With the uncertainty of P, and without it."""
    what, mechanism, truth, options = SETTINGS[name]
    results: tuple[list[pr.Result], list[pr.Result]] = ([], [])
    for child in np.random.SeedSequence(612).spawn(replicates):
        rng = np.random.default_rng(child)
        data, measured = sample(rng, n), mechanism(rng)
        results[0].append(pr.fit(what, data, measured, **options))
        results[1].append(pr.fit(what, data, known(measured), **options))
    return gather(results[0], truth), gather(results[1], truth)


@pytest.mark.parametrize(
    ("name", "replicates"),
    [
        ("prevalence", 120),
        ("linear model, measured covariate", 40),
        *(pytest.param(name, 2000, marks=pytest.mark.verify) for name in SETTINGS),
    ],
)
def test_intervals_cover_with_the_uncertainty_of_p_and_not_without(
    name: str, replicates: int, record_property: Log
) -> None:
    """P̂ comes anew with every sample; the bias of a quotient by its determinant stays below 0.2 standard errors."""
    found, without = replicated(name, replicates)
    rows = found.rows()
    for row, coverage, ratio in zip(rows, without.coverage, without.spread_ratio, strict=True):
        row |= {"coverage, P as known": coverage, "SE / SD, P as known": ratio}
    record_property("rows", rows)
    assert np.all(np.abs(found.bias) < 0.2 * found.spread + BOUND * found.bias_error)
    check_coverage(found)
    check_spread(found, allowance=0.04)
    # Where P's part is large enough to matter, leaving it out must be seen.
    worst = int(np.argmin(without.coverage))
    gap = found.coverage[worst] - without.coverage[worst]
    assert gap > 0
    assert replicates < 100 or gap > 2 * np.sqrt(0.05 * 0.95 / replicates)


@pytest.mark.parametrize("replicates", [1500, pytest.param(20_000, marks=pytest.mark.verify)])
@pytest.mark.parametrize(
    ("true", "n", "people", "accuracy"),
    [(0.05, 300, 30, (0.85, 0.9)), (0.95, 300, 40, (0.9, 0.85)), (0.35, 2000, 200, (0.86, 0.88))],
)
def test_lang_and_reiczigel_cover_near_the_boundary_and_with_small_studies(
    true: float, n: int, people: int, accuracy: tuple[float, float], replicates: int, record_property: Log
) -> None:
    rng = np.random.default_rng(77)
    se, sp = accuracy
    positive = rng.binomial(n, true * se + (1 - true) * (1 - sp), replicates)
    found, right = rng.binomial(people, se, replicates), rng.binomial(people, sp, replicates)
    covered, wald = 0, 0
    for x, a, b in zip(positive / n, found / people, right / people, strict=True):
        low, high = lang_reiczigel(Screened(x, n, (a, people), (b, people)), 0.95)
        covered += low <= true <= high
        mean, det = (x + b - 1) / (a + b - 1), a + b - 1
        spread = x * (1 - x) / n + mean**2 * a * (1 - a) / people + (1 - mean) ** 2 * b * (1 - b) / people
        wald += abs(mean - true) <= 1.959964 * np.sqrt(spread) / det
    share, plain = covered / replicates, wald / replicates
    row = {"true share": true, "n": n, "people": people, "coverage": share, "Wald's": plain, "replicates": replicates}
    record_property("rows", [row])
    error = np.sqrt(0.95 * 0.05 / replicates)
    assert 0.945 - BOUND * error < share < 0.97 + BOUND * error
    if people < 100:  # where normal theory fails, it must be seen
        assert plain < 0.93 + BOUND * error < share + BOUND * error
