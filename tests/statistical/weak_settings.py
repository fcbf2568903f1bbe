"""Settings from healthy to hopeless: perturbed responses and covariates, rare levels, domains, strata with noise of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from montecarlo import Data
from scipy.special import expit, logit

import pramana as pr


@dataclass(frozen=True)
class Faint:
    """A column z behind a coin that keeps it, and what is asked.

    Attributes
    ----------
    draw : (rng, n) ↦ the true columns, z among them.
    truth : the parameter (d,).
    """

    draw: Callable[[np.random.Generator, int], Data]
    what: Any
    truth: tuple[float, ...]
    keep: float
    n: int
    family: str | None = None

    @property
    def mechanism(self) -> pr.Mechanism:
        return pr.Mechanism({"z": _coin(self.keep)})

    def released(self, rng: np.random.Generator) -> Data:
        true = self.draw(rng, self.n)
        flipped = rng.random(self.n) >= self.kept(true)
        return {**true, "z": np.where(flipped, 1 - true["z"], true["z"])}

    def kept(self, true: Data) -> Any:  # noqa: ARG002
        return self.keep

    def fit(self, released: Data, **options: Any) -> pr.Result:
        return pr.fit(
            self.what, released, self.mechanism, **({"family": self.family} if self.family else {}), **options
        )


@dataclass(frozen=True)
class Stratified(Faint):
    """A second region where the coin keeps 0.15 more often."""

    @property
    def mechanism(self) -> pr.Mechanism:
        return pr.Mechanism({"z": pr.Stratified("region", {"n": _coin(self.keep), "s": _coin(self.keep + 0.15)})})

    def kept(self, true: Data) -> Any:
        return np.where(true["region"] == "s", self.keep + 0.15, self.keep)


def _coin(keep: float) -> pr.TransitionMatrix:
    return pr.TransitionMatrix.binary(keep, keep)


def _yes(rng: np.random.Generator, probability: Any, n: int) -> np.ndarray:
    return (rng.random(n) < probability).astype(int)


def response(keep: float, n: int, effect: float, share: float = 0.5, *, binary: bool = False) -> Faint:
    """A logistic regression of the perturbed z on a clean x."""
    base = float(logit(share))

    def draw(rng: np.random.Generator, n: int) -> Data:
        x = rng.integers(0, 2, n) if binary else rng.normal(size=n)
        return {"x": x, "z": _yes(rng, expit(base + effect * x), n)}

    return Faint(draw, "z ~ x", (base, effect), keep, n, "binomial")


def covariate(
    keep: float, n: int, effect: float, share: float, family: str = "gaussian", *, beside: bool = False
) -> Faint:
    """A regression on the perturbed z, perhaps beside a clean x that depends on it."""

    def draw(rng: np.random.Generator, n: int) -> Data:
        z = _yes(rng, share, n)
        x = rng.normal(size=n) + 0.5 * z
        eta = effect * z + (x if beside else 0)
        y = {
            "gaussian": lambda: 1 + eta + rng.normal(size=n),
            "binomial": lambda: _yes(rng, expit(-0.5 + eta), n),
            "poisson": lambda: rng.poisson(np.exp(0.5 + eta)),
        }[family]()
        return {"z": z, "y": y, "x": x, "region": rng.choice(["n", "s"], n)}

    start = {"gaussian": 1.0, "binomial": -0.5, "poisson": 0.5}[family]
    truth = (start, effect, 1.0) if beside else (start, effect)
    return Faint(draw, "y ~ z + x" if beside else "y ~ z", truth, keep, n, family)


def stratified(keep: float, n: int, effect: float, share: float) -> Stratified:
    return Stratified(**vars(covariate(keep, n, effect, share)))


def domain(keep: float, n: int, effect: float, share: float) -> Faint:
    plain = covariate(keep, n, effect, share)
    return Faint(plain.draw, pr.mean("y", by="z"), (1.0, 1.0 + effect), keep, n)


def ratio(make: Callable[[str, str], Any], keep: float, n: int, share: float, risks: tuple[float, float]) -> Faint:
    """A measure of how a clean y depends on the perturbed z: the risks of the unexposed and of the exposed."""
    low, high = risks
    mean = share * high + (1 - share) * low
    truths = {
        pr.risk_difference: high - low,
        pr.risk_ratio: float(np.log(high / low)),
        pr.odds_ratio: float(logit(high) - logit(low)),
        pr.correlation: float((high - low) * np.sqrt(share * (1 - share) / (mean * (1 - mean)))),
    }

    def draw(rng: np.random.Generator, n: int) -> Data:
        z = _yes(rng, share, n)
        return {"z": z, "y": _yes(rng, np.where(z == 1, high, low), n)}

    return Faint(draw, make("z", "y"), (truths[make],), keep, n)  # type: ignore[index]


MEASURES = (pr.risk_difference, pr.risk_ratio, pr.odds_ratio, pr.correlation)
TABLES = {
    "keep 0.7, n 1000, 10 % exposed": (0.7, 1000, 0.1, (0.3, 0.6)),
    "keep 0.8, n 1000, 10 % exposed": (0.8, 1000, 0.1, (0.3, 0.6)),
    "keep 0.9, n 1000, 10 % exposed": (0.9, 1000, 0.1, (0.3, 0.6)),
    "keep 0.9, n 500, 5 % exposed": (0.9, 500, 0.05, (0.3, 0.6)),
    "keep 0.9, n 2000, 10 % exposed": (0.9, 2000, 0.1, (0.2, 0.3)),
    "keep 0.8, n 2000, 30 % exposed": (0.8, 2000, 0.3, (0.3, 0.5)),
}

GRID: dict[str, Faint] = {
    "response, keep 0.6, n 1200, slope 0.8": response(0.6, 1200, 0.8),
    "response, keep 0.6, n 1200, slope 0": response(0.6, 1200, 0.0),
    "response, keep 0.6, n 1200, slope 1.5": response(0.6, 1200, 1.5),
    "response, keep 0.6, n 4000, slope 0.8": response(0.6, 4000, 0.8),
    "response, keep 0.7, n 300, slope 0.8": response(0.7, 300, 0.8),
    "response, keep 0.7, n 1000, slope 0.8": response(0.7, 1000, 0.8),
    "response, keep 0.7, n 1000, slope 2": response(0.7, 1000, 2.0),
    "response, keep 0.9, n 200, slope 1": response(0.9, 200, 1.0),
    "response, keep 0.9, n 1000, slope 1": response(0.9, 1000, 1.0),
    "response, keep 0.9, n 3000, slope 0.5": response(0.9, 3000, 0.5),
    "rare response, keep 0.7, n 1000": response(0.7, 1000, 0.8, 0.1),
    "rare response, keep 0.8, n 1000": response(0.8, 1000, 0.8, 0.1),
    "rare response, keep 0.9, n 500": response(0.9, 500, 0.8, 0.05),
    "rare response, two groups, keep 0.8, n 1000": response(0.8, 1000, 0.8, 0.1, binary=True),
    "rare covariate, keep 0.6, n 1000, effect 0": covariate(0.6, 1000, 0.0, 0.1),
    "rare covariate, keep 0.6, n 1000, effect 1": covariate(0.6, 1000, 1.0, 0.1),
    "rare covariate, keep 0.6, n 1000, effect 2.5": covariate(0.6, 1000, 2.5, 0.1),
    "rare covariate, keep 0.8, n 300, effect 2.5": covariate(0.8, 300, 2.5, 0.1),
    "rare covariate, keep 0.8, n 1000, effect 2.5": covariate(0.8, 1000, 2.5, 0.1),
    "rare covariate, keep 0.9, n 200, effect 2.5": covariate(0.9, 200, 2.5, 0.05),
    "rare covariate, keep 0.9, n 1000, effect 2.5": covariate(0.9, 1000, 2.5, 0.05),
    "even covariate, keep 0.6, n 300, effect 1": covariate(0.6, 300, 1.0, 0.5),
    "even covariate, keep 0.8, n 300, effect 2.5": covariate(0.8, 300, 2.5, 0.5),
    "even covariate, keep 0.9, n 1000, effect 1": covariate(0.9, 1000, 1.0, 0.5),
    "covariate beside a clean one, keep 0.7, n 1000": covariate(0.7, 1000, 1.0, 0.1, beside=True),
    "covariate of a logit, keep 0.8, n 1000": covariate(0.8, 1000, 1.5, 0.1, "binomial"),
    "covariate of a logit, keep 0.7, n 400": covariate(0.7, 400, 1.0, 0.5, "binomial"),
    "covariate of counts, keep 0.7, n 400": covariate(0.7, 400, 1.0, 0.5, "poisson"),
    "covariate of counts, keep 0.8, n 400": covariate(0.8, 400, 1.0, 0.1, "poisson"),
    "covariate of counts, keep 0.9, n 2000": covariate(0.9, 2000, 0.5, 0.3, "poisson"),
    "stratified coin, keep 0.65, n 1000": stratified(0.65, 1000, 2.5, 0.1),
    "stratified coin, keep 0.8, n 2000": stratified(0.8, 2000, 1.0, 0.4),
    "domain, keep 0.7, n 1000": domain(0.7, 1000, 1.0, 0.1),
    "domain, keep 0.9, n 2000": domain(0.9, 2000, 1.0, 0.3),
}
