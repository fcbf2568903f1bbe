"""Randomised-response designs with an unknown, estimated along: intervals hold their level, and a wrong design is seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from montecarlo import BOUND, CLEAR, check_coverage, check_spread, gather

import pramana as pr

Log = Callable[[str, object], None]
DESIGNS: dict[str, tuple[Callable[..., pr.FreeMatrix], dict[str, float], float]] = {
    "stochastic lie detector": (pr.designs.stochastic_lie_detector, {"a": 0.2, "b": 0.8}, 0.8),
    "cheating detection": (pr.designs.cheating_detection, {"a": 0.25, "b": 0.75}, 0.85),
    "unrelated question": (pr.designs.unrelated_question_unknown, {"a": 0.3, "b": 0.8}, 0.8),
}
SHARE = 0.3
QUESTIONS: dict[str, tuple[Any, tuple[float, ...], dict[str, Any]]] = {
    "share": (pr.mean("z"), (SHARE,), {}),
    "trait as response": ("trait ~ x", (-0.5, 1.0), {"family": "binomial"}),
    "trait as covariate": ("income ~ trait + x", (1.0, 2.0, 1.0), {}),
}


def sample(rng: np.random.Generator, channel: pr.FreeMatrix, t: float, n: int) -> dict[str, Any]:
    """Answers to two questions by one design: z, which depends on nothing, and the trait, which depends on x."""
    x, group = rng.normal(size=n), rng.integers(0, 2, n)
    z, trait = rng.random(n) < SHARE, rng.random(n) < 1 / (1 + np.exp(0.5 - x))
    yes = channel.chances(np.array([t]))[:, 1]
    said = {name: (rng.random(n) < yes[group, v.astype(int)]).astype(int) for name, v in (("z", z), ("trait", trait))}
    return {**said, "x": x, "income": 1 + 2 * trait + x + rng.normal(size=n), "g": np.array(["a", "b"])[group]}


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize(
    ("asked", "replicates", "n"),
    [
        ("share", 60, 2000),
        pytest.param("share", 2000, 3000, marks=pytest.mark.verify),
        pytest.param("trait as response", 2000, 3000, marks=pytest.mark.verify),
        pytest.param("trait as covariate", 2000, 3000, marks=pytest.mark.verify),
    ],
)
def test_intervals_cover_and_a_wrong_design_is_seen(
    design: str, asked: str, replicates: int, n: int, record_property: Log
) -> None:
    """Bias below 0.2 standard errors; where one group's chance is believed to be 0.06 off, the share's bias is beyond doubt."""
    make, chances, t = DESIGNS[design]
    what, truth, options = QUESTIONS[asked]
    channel, wrong = make("g", chances), make("g", {**chances, "b": chances["b"] - 0.06})
    column = "z" if asked == "share" else "trait"
    results: tuple[list[pr.Result], list[pr.Result]] = ([], [])
    for child in np.random.SeedSequence(1212).spawn(replicates):
        data = sample(np.random.default_rng(child), channel, t, n)
        results[0].append(pr.fit(what, data, pr.Mechanism({column: channel}), **options))
        if asked == "share":
            results[1].append(pr.fit(what, data, pr.Mechanism({column: wrong}), **options))
    found = gather(results[0], (*truth, t))
    record_property("rows", [{"design": design, **row} for row in found.rows()])
    assert np.all(np.abs(found.bias) < 0.2 * found.spread + BOUND * found.bias_error)
    check_coverage(found)
    check_spread(found, allowance=0.05)
    if asked == "share":
        other = gather(results[1], (*truth, t))
        assert np.abs(other.bias / other.bias_error).max() > CLEAR
