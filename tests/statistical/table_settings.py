"""Populations for tables, domains, ratios and correlations; every truth is computed from the cells' probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from montecarlo import Data, Setting
from settings import keep, mechanisms

import pramana as pr

EDU = np.array(["low", "mid", "high"])
SCORES = np.array([0, 1, 3])
JOINT = np.array([[0.25, 0.10, 0.05], [0.08, 0.15, 0.07], [0.04, 0.08, 0.18]])
"""Shares of (edu, score)."""
RISK = np.array([[[0.14, 0.06], [0.10, 0.10]], [[0.20, 0.10], [0.13, 0.17]]])
"""Shares of (region, exposed, ill)."""


def _cells(rng: np.random.Generator, shares: np.ndarray, n: int) -> tuple[np.ndarray, ...]:
    return np.unravel_index(rng.choice(shares.size, n, p=shares.ravel()), shares.shape)


def graded(what: Any, truth: Any, n: int = 2000, perturbed: tuple[str, ...] = ("edu", "score")) -> Setting:
    """Education and a score with three levels each, both perturbed unless said otherwise."""

    def generate(rng: np.random.Generator) -> Data:
        edu, score = _cells(rng, JOINT, n)
        return {"edu": EDU[edu], "score": SCORES[score]}

    edu = pr.TransitionMatrix.randomized_response(EDU.tolist(), keep=0.85, kind="ordinal")
    score = pr.TransitionMatrix.randomized_response(SCORES.tolist(), keep=0.9, kind="numeric")
    channels = {name: channel for name, channel in (("edu", edu), ("score", score)) if name in perturbed}
    return Setting(generate, *mechanisms(channels), what, tuple(np.ravel(truth).tolist()))  # type: ignore[arg-type]


def exposure(what: Any, truth: float, n: int = 4000) -> Setting:
    """Exposure, illness and region with two levels each, all perturbed."""

    def generate(rng: np.random.Generator) -> Data:
        region, exposed, ill = _cells(rng, RISK, n)
        return {"region": np.array(["n", "s"])[region], "exposed": exposed, "ill": ill}

    channels = {"region": keep(["n", "s"], 0.9), "exposed": keep([0, 1], 0.85), "ill": keep([0, 1], 0.9)}
    return Setting(generate, *mechanisms(channels), what, (truth,))


def conditional() -> Any:
    return JOINT / JOINT.sum(axis=1, keepdims=True)


def domain_means() -> Any:
    return conditional() @ SCORES


def log_odds_ratio(strata: bool) -> float:
    tables = RISK if strata else RISK.sum(axis=0)[None]
    size = tables.sum(axis=(1, 2))
    up, down = (tables[:, 1, 1] * tables[:, 0, 0] / size).sum(), (tables[:, 1, 0] * tables[:, 0, 1] / size).sum()
    return float(np.log(up / down))


def pooled_risks() -> tuple[float, float]:
    """Mantel and Haenszel's log risk ratio and risk difference over regions."""
    arms = RISK.sum(axis=2)
    weights = arms.prod(axis=1) / arms.sum(axis=1)
    unexposed, exposed = weights @ (RISK[:, :, 1] / arms) / weights.sum()
    return float(np.log(exposed / unexposed)), float(exposed - unexposed)


def risks() -> Any:
    """Of the unexposed and the exposed."""
    table = RISK.sum(axis=0)
    return table[:, 1] / table.sum(axis=1)


def cramer(shares: np.ndarray) -> float:
    table = shares.reshape(3, 3)
    return float(np.sqrt(((table**2 / np.outer(table.sum(axis=1), table.sum(axis=0))).sum() - 1) / 2))


def bias_of_v(n: int) -> float:
    """½ tr(V″ Σ), with Σ the covariance of the reverted shares of n records."""
    edu, score = (keep(levels, p) for levels, p in ((EDU, 0.85), (SCORES, 0.9)))
    undo = np.kron(edu.inverse, score.inverse)
    released = np.kron(edu.matrix, score.matrix) @ JOINT.ravel()
    covariance = undo @ (np.diag(released) - np.outer(released, released)) @ undo.T / n
    h = 1e-4
    steps = h * np.eye(9)
    second = [
        [sum(s * t * cramer(JOINT.ravel() + s * a + t * b) for s in (-1, 1) for t in (-1, 1)) for a in steps]
        for b in steps
    ]
    return float(0.5 * np.sum(np.array(second) / (4 * h**2) * covariance))


def correlation(kind: str) -> float:
    rows, columns = JOINT.sum(axis=1), JOINT.sum(axis=0)
    if kind == "cramer":
        return cramer(JOINT.ravel())
    if kind == "pearson":
        x = SCORES  # of a column with the levels of the scores in the rows
        mean_x, mean_y = rows @ x, columns @ SCORES
        covariance = x @ JOINT @ SCORES - mean_x * mean_y
        return float(covariance / np.sqrt((rows @ x**2 - mean_x**2) * (columns @ SCORES**2 - mean_y**2)))
    sign = np.sign(np.subtract.outer(np.arange(3), np.arange(3)))
    excess = (JOINT * (sign @ JOINT @ sign.T)).sum()
    return float(excess / np.sqrt((1 - rows @ rows) * (1 - columns @ columns)))


def weak_association(what: Any, n: int = 1000) -> Setting:
    """Two perturbed columns with five levels, equal in a tenth of the records and unrelated in the others: V is a tenth."""

    def generate(rng: np.random.Generator) -> Data:
        first, other = rng.integers(0, 5, (2, n))
        return {"a": first, "b": np.where(rng.random(n) < 0.1, first, other)}

    return Setting(generate, *mechanisms({c: keep(range(5), 0.9) for c in "ab"}), what, (0.1,))


def two_scores(n: int = 3000) -> Setting:
    """Pearson's r of two perturbed scores."""

    def generate(rng: np.random.Generator) -> Data:
        first, second = _cells(rng, JOINT, n)
        return {"a": SCORES[first], "b": SCORES[second]}

    channels = {c: pr.TransitionMatrix.randomized_response(SCORES.tolist(), keep=0.9, kind="numeric") for c in "ab"}
    return Setting(generate, *mechanisms(channels), pr.correlation("a", "b"), (correlation("pearson"),))


@dataclass(frozen=True)
class LikelihoodSetting(Setting):
    """Fitted by maximum likelihood instead."""

    def fit(self, released: Data, mechanism: pr.Mechanism | None = None, **options: Any) -> pr.Result:
        return pr.table_em(["edu", "score"], released, mechanism or self.mechanism, **options)


def likelihood_table(n: int = 2000) -> LikelihoodSetting:
    base = graded(None, JOINT, n)
    return LikelihoodSetting(base.generate, base.mechanism, base.wrong, None, base.truth)


def independent_table(n: int = 500) -> LikelihoodSetting:
    """The same margins without association."""
    shares = np.outer(JOINT.sum(axis=1), JOINT.sum(axis=0))

    def generate(rng: np.random.Generator) -> Data:
        edu, score = _cells(rng, shares, n)
        return {"edu": EDU[edu], "score": SCORES[score]}

    base = graded(None, shares)
    return LikelihoodSetting(generate, base.mechanism, base.wrong, None, tuple(shares.ravel().tolist()))
