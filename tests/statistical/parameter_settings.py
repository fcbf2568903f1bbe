"""Populations for parameters beyond regressions and means; every truth is exact, in closed form or by quadrature."""

from __future__ import annotations

from typing import Any

import numpy as np
from montecarlo import Data, Setting
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import expit, ndtr, ndtri
from settings import keep, mechanisms

import pramana as pr

LEVELS = np.array(["low", "mid", "high"])


def _classes(rng: np.random.Generator, n: int, slopes: np.ndarray) -> Data:
    x = rng.normal(size=n)
    eta = np.column_stack([np.zeros(n), 0.2 + slopes[0] * x, -0.2 + slopes[1] * x])
    return {"y": LEVELS[np.argmax(eta + rng.gumbel(size=eta.shape), axis=1)], "x": x}


def multinomial() -> Setting:
    """Three classes that depend on a number; the response is perturbed."""
    slopes = np.array([0.5, 1.0])
    truth = (0.2, 0.5, -0.2, 1.0)
    return Setting(
        lambda rng: _classes(rng, 2000, slopes), *mechanisms({"y": keep(LEVELS, 0.85)}), pr.multinomial("y ~ x"), truth
    )


def ordinal() -> Setting:
    """Proportional odds; response and a two-level covariate are perturbed."""

    def generate(rng: np.random.Generator) -> Data:
        n = 2000
        x, g = rng.normal(size=n), rng.integers(0, 2, n)
        hidden = x + 1.2 * g + rng.logistic(size=n)
        return {"y": LEVELS[np.digitize(hidden, [-0.5, 1.0])], "x": x, "g": g}

    ordered = pr.TransitionMatrix.randomized_response(LEVELS.tolist(), keep=0.85, kind="ordinal")
    channels = {"y": ordered, "g": pr.TransitionMatrix.binary(0.9, 0.9)}
    return Setting(generate, *mechanisms(channels), pr.ordinal("y ~ x + g"), (-0.5, 1.0, 1.0, 1.2))


def _incomes(rng: np.random.Generator, n: int) -> Data:
    """Log-normal incomes, whose location and spread depend on the group."""
    g = rng.choice(2, n, p=[0.6, 0.4])
    return {"income": np.exp(0.5 * g + (0.4 + 0.2 * g) * rng.normal(size=n)), "g": np.array(["a", "b"])[g]}


def quantiles(q: float, n: int = 1000) -> Setting:
    """A quantile within perturbed groups."""
    truth = tuple(float(np.exp(m + s * ndtri(q))) for m, s in ((0.0, 0.4), (0.5, 0.6)))
    channels = mechanisms({"g": keep(["a", "b"], 0.85)})
    return Setting(lambda rng: _incomes(rng, n), *channels, pr.quantile("income", q, by="g"), truth)


LAPLACE = pr.LaplaceNoise(1.0)


def kept_quantiles(q: float, *, by: bool, weighted: bool, noise: Any = LAPLACE) -> Setting:
    """Incomes of which six in ten are released as they are, and the others with noise of their own size; a sample that prefers one of two
    perturbed groups, with its weights. Wrong is to believe that nearly nine in ten are kept."""
    right = pr.Mechanism({"income": pr.KeepOrNoise(0.6, noise), "g": keep(["a", "b"], 0.85)})
    wrong = pr.Mechanism({"income": pr.KeepOrNoise(0.88, noise), "g": keep(["a", "b"], 0.85)})
    groups = ((0.0, 0.4, 0.6), (0.5, 0.6, 0.4))

    def generate(rng: np.random.Generator) -> Data:
        n = 4000
        g = rng.choice(2, n, p=[0.3, 0.7] if weighted else [0.6, 0.4])
        income = np.exp(0.5 * g + (0.4 + 0.2 * g) * rng.normal(size=n))
        return {"income": income, "g": np.array(["a", "b"])[g], "w": np.where(g == 0, 0.6 / 0.3, 0.4 / 0.7)}

    def below(t: float) -> float:
        return sum(share * ndtr((np.log(t) - m) / s) for m, s, share in groups) - q

    truth = tuple(float(np.exp(m + s * ndtri(q))) for m, s, _ in groups) if by else (float(brentq(below, 0.1, 20)),)
    options = {"weights": "w"} if weighted else {}
    return Setting(generate, right, wrong, pr.quantile("income", q, by="g" if by else None), truth, options)


def gini() -> Setting:
    """G of a log-normal is 2Φ(σ/√2) − 1."""
    truth = tuple(float(2 * ndtr(s / np.sqrt(2)) - 1) for s in (0.4, 0.6))
    channels = mechanisms({"g": keep(["a", "b"], 0.85)})
    return Setting(lambda rng: _incomes(rng, 3000), *channels, pr.gini("income", by="g"), truth)


def poverty() -> Setting:
    """The share below 60 % of the median of a mixture, found by bisection; one group is much poorer."""
    from scipy.optimize import brentq

    centre, spread = np.array([0.0, 1.0]), np.array([0.4, 0.5])

    def generate(rng: np.random.Generator) -> Data:
        g = rng.integers(0, 2, 1500)
        return {"income": np.exp(centre[g] + spread[g] * rng.normal(size=1500)), "g": np.array(["a", "b"])[g]}

    middle = float(brentq(lambda t: float(ndtr((t - centre) / spread).mean()) - 0.5, -3, 3))
    rates = ndtr((np.log(0.6) + middle - centre) / spread)
    channels = mechanisms({"g": keep(["a", "b"], 0.85)})
    truth = (float(np.exp(middle)), *map(float, rates))
    return Setting(generate, *channels, pr.poverty_rate("income", by="g"), truth)


def instruments() -> Setting:
    """A perturbed endogenous treatment with a clean and a perturbed instrument, more than are needed."""

    def generate(rng: np.random.Generator) -> Data:
        n = 3000
        z, z2, w, u = rng.integers(0, 2, n), rng.normal(size=n), rng.normal(size=n), rng.normal(size=n)
        x = (1.5 * z + 0.8 * z2 + u + rng.normal(size=n) > 0.7).astype(int)
        return {"x": x, "z": z, "z2": z2, "w": w, "y": 1 + 2 * x - 0.5 * w + u + rng.normal(size=n)}

    binary = pr.TransitionMatrix.binary(0.9, 0.85)
    plan = pr.two_stage_least_squares("y ~ x + w | z + z2 + w")
    return Setting(generate, *mechanisms({"x": binary, "z": binary}), plan, (1.0, 2.0, -0.5))


def effect(estimator: Any, perturbed: str) -> Setting:
    """A treatment that depends on a confounder; the treatment, or a binary outcome, is perturbed."""

    def risk(x: float, t: int) -> float:
        return float(expit(-0.5 + 1.6 * t + 0.7 * x))

    def generate(rng: np.random.Generator) -> Data:
        n = 2000
        x = rng.normal(size=n)
        t = (rng.random(n) < expit(0.6 * x)).astype(int)
        sick = (rng.random(n) < expit(-0.5 + 1.6 * t + 0.7 * x)).astype(int)
        return {"x": x, "t": t, "y": 1 + 2 * t + x + rng.normal(size=n) if perturbed == "t" else sick}

    difference = quad(lambda x: (risk(x, 1) - risk(x, 0)) * np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi), -8, 8)[0]
    truth, family = ((2.0,), "gaussian") if perturbed == "t" else ((difference,), "binomial")
    plan = pr.average_treatment_effect("y", "t", ["x"], estimator, family=family)  # type: ignore[arg-type]
    return Setting(generate, *mechanisms({perturbed: pr.TransitionMatrix.binary(0.85, 0.85)}), plan, truth)


def quantile_regression(q: float) -> Setting:
    """A perturbed group that moves location and spread."""

    def generate(rng: np.random.Generator) -> Data:
        n = 2000
        x, g = rng.normal(size=n), rng.integers(0, 2, n)
        return {"y": 1 + x + g + (1 + 0.5 * g) * rng.normal(size=n), "x": x, "g": g}

    tail = float(ndtri(q))
    truth = (1 + tail, 1.0, 1 + 0.5 * tail)
    channels = mechanisms({"g": pr.TransitionMatrix.binary(0.85, 0.85)})
    return Setting(generate, *channels, pr.quantile_regression("y ~ x + g", q), truth)


def log_link(family: str) -> Setting:
    """A positive response, of a kind for each family with a logarithmic link, on a number and a perturbed group.

    The score of an inverse Gaussian weighs small means most: under the wrong matrix, some samples with larger effects have
    no root.
    """
    size = 0.4 if family == "inverse-gaussian" else 0.7

    def generate(rng: np.random.Generator) -> Data:
        n = 2000
        x, g = rng.normal(size=n), rng.choice(3, n, p=[0.4, 0.35, 0.25])
        mean = np.exp(0.2 + 0.3 * x + np.array([0.0, size, -size])[g])
        draw = {
            "poisson": lambda: rng.poisson(mean),
            "negative binomial": lambda: rng.poisson(mean * rng.gamma(2.0, 0.5, n)),
            "gamma": lambda: rng.gamma(2.0, mean / 2),
            "inverse-gaussian": lambda: rng.wald(mean, 2.0),
        }
        return {"y": draw[family](), "x": x, "g": LEVELS[g]}

    chosen = pr.negative_binomial(0.5) if family == "negative binomial" else family
    both = mechanisms({"g": keep(LEVELS, 0.9)})
    return Setting(generate, *both, "y ~ x + g", (0.2, 0.3, size, -size), {"family": chosen})


NEW = {"x": [-1.0, 1.0], "g": [1, 0]}
"""Records to predict."""


def predictions() -> Setting:
    """Logistic regression on a perturbed group; the truth is the mean of the new records."""

    def generate(rng: np.random.Generator) -> Data:
        n = 2000
        x, g = rng.normal(size=n), rng.integers(0, 2, n)
        return {"y": (rng.random(n) < expit(-0.5 + 1.6 * g + x)).astype(int), "x": x, "g": g}

    truth = tuple(float(expit(-0.5 + 1.6 * g + x)) for x, g in zip(*NEW.values(), strict=True))
    channels = mechanisms({"g": pr.TransitionMatrix.binary(0.85, 0.85)})
    return Setting(generate, *channels, "y ~ x + g", truth, {"family": "binomial"})


def median_level() -> Setting:
    """The median of a perturbed number with three levels: 47.5 % have the lowest, so it is the middle one, and an analyst
    who is off by 0.05 believes in more than half."""

    def generate(rng: np.random.Generator) -> Data:
        return {"z": rng.choice([0, 10, 20], 100_000, p=[0.475, 0.325, 0.2])}

    channel = pr.TransitionMatrix.randomized_response([0, 10, 20], keep=0.6, kind="numeric")
    return Setting(generate, *mechanisms({"z": channel}), pr.median("z"), (10.0,))


def margins() -> Setting:
    """The average effect of a perturbed two-level covariate in a logistic regression."""

    def change(x: float) -> float:
        return float(expit(1.1 + x) - expit(-0.5 + x))

    def generate(rng: np.random.Generator) -> Data:
        n = 2000
        x, g = rng.normal(size=n), rng.integers(0, 2, n)
        return {"y": (rng.random(n) < expit(-0.5 + 1.6 * g + x)).astype(int), "x": x, "g": g}

    truth = quad(lambda x: change(x) * np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi), -8, 8)[0]
    channels = mechanisms({"g": pr.TransitionMatrix.binary(0.85, 0.85)})
    return Setting(generate, *channels, pr.margins("y ~ x + g", "g", "binomial"), (float(truth),))
