"""The populations and mechanisms of the statistical tests; every truth is known in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
from montecarlo import Data, Setting
from numpy.typing import ArrayLike
from scipy.special import expit

import pramana as pr

SHIFT = 0.05
GROUPS = np.array(["a", "b", "c", "d"])
MIX = np.array([0.3, 0.3, 0.2, 0.2])
EFFECT = np.array([0.0, 0.5, -0.5, 1.0])
TILT = np.array([0.0, -0.3, 0.3, 0.2])


def off_by(matrix: pr.TransitionMatrix, shift: float = SHIFT) -> pr.TransitionMatrix:
    """The same matrix with every keep probability lower by `shift`, spread over the other levels."""
    size = len(matrix)
    lower = shift * (np.ones((size, size)) - size * np.eye(size)) / (size - 1)
    return pr.TransitionMatrix.from_columns(matrix.levels, matrix.matrix + lower, kind=matrix.kind)


def mechanisms(channels: dict[str | tuple[str, ...], pr.TransitionMatrix]) -> tuple[pr.Mechanism, pr.Mechanism]:
    """The true mechanism and the one that an analyst off by 0.05 believes in."""
    return pr.Mechanism(channels), pr.Mechanism({k: off_by(v) for k, v in channels.items()})


def keep(levels: ArrayLike, probability: float) -> pr.TransitionMatrix:
    return pr.TransitionMatrix.randomized_response(np.asarray(levels).tolist(), keep=probability)


def three_levels(what: str) -> Setting:
    """A response with three numeric levels through an asymmetric matrix; its mean, total, proportions or counts."""
    share = np.array([0.5, 0.3, 0.2])
    matrix = pr.TransitionMatrix([0, 1, 2], [[0.8, 0.15, 0.1], [0.15, 0.75, 0.2], [0.05, 0.1, 0.7]], kind="numeric")

    def generate(rng: np.random.Generator) -> Data:
        return {"y": rng.choice(3, 1000, p=share)}

    plans: dict[str, tuple[Any, tuple[float, ...]]] = {
        "mean": (pr.mean("y"), (0.7,)),
        "total": (pr.total("y"), (700.0,)),
        "proportions": (pr.proportions("y"), tuple(share)),
        "counts": (pr.counts("y"), tuple(1000 * share)),
    }
    return Setting(generate, *mechanisms({"y": matrix}), *plans[what])


def _covariates(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes of a four-level group, a number that depends on it, and a linear predictor with their interaction."""
    group = rng.choice(4, n, p=MIX)
    x = 0.3 * group + rng.normal(size=n)
    return group, x, -0.3 + 0.4 * x + EFFECT[group] + TILT[group] * x


def four_level_covariate(family: str, n: int) -> Setting:
    """Linear (with unequal variances) or logistic regression on a perturbed group, a number and their interaction."""

    def generate(rng: np.random.Generator) -> Data:
        group, x, eta = _covariates(rng, n)
        linear = eta + (0.7 + 0.3 * np.abs(x)) * rng.normal(size=n)
        y = linear if family == "gaussian" else (rng.random(n) < expit(eta)).astype(int)
        return {"y": y, "x": x, "g": GROUPS[group]}

    truth = (-0.3, 0.4, *EFFECT[1:], *TILT[1:])
    return Setting(generate, *mechanisms({"g": keep(GROUPS, 0.85)}), "y ~ x + g + x:g", truth, {"family": family})


def response_and_covariate() -> Setting:
    """Logistic regression in which response and covariate are both perturbed."""
    edu = np.array(["low", "mid", "high"])
    effect = np.array([0.0, 0.6, 1.2])

    def generate(rng: np.random.Generator) -> Data:
        n = 4000
        level = rng.choice(3, n, p=[0.4, 0.35, 0.25])
        age = 0.4 * (level - 1) + rng.normal(size=n)
        yes = rng.random(n) < expit(-0.5 + 0.5 * age + effect[level])
        return {"job": np.where(yes, "yes", "no"), "age": age, "edu": edu[level]}

    job = pr.TransitionMatrix.binary(0.9, 0.85, levels=("no", "yes"))
    both = mechanisms({"job": job, "edu": keep(edu, 0.85)})
    return Setting(generate, *both, "job ~ age + edu", (-0.5, 0.5, 0.6, 1.2), {"family": "binomial"})


def joint_channel() -> Setting:
    """Two columns through one matrix that is no product: a swap of sex goes with a swap of region."""
    levels = [(sex, region) for sex in ("f", "m") for region in ("n", "s", "w")]
    distance = np.array([[(a != c) + (b != d) for c, d in levels] for a, b in levels])
    closeness = np.array([0.0, 0.5, 2.0])[distance]
    matrix = 0.8 * np.eye(6) + 0.2 * closeness / closeness.sum(axis=0)
    both = mechanisms({("sex", "region"): pr.TransitionMatrix(levels, matrix)})

    def generate(rng: np.random.Generator) -> Data:
        n = 2000
        male, region = rng.random(n) < 0.45, rng.choice(3, n, p=[0.5, 0.3, 0.2])
        x = 0.5 * male + rng.normal(size=n)
        y = 1 + 0.5 * x + 0.8 * male + np.array([0.0, -0.4, 0.6])[region] + rng.normal(size=n)
        return {"y": y, "x": x, "sex": np.where(male, "m", "f"), "region": np.array(["n", "s", "w"])[region]}

    return Setting(generate, *both, "y ~ x + sex + region", (1, 0.5, 0.8, -0.4, 0.6))


def stratified_channel() -> Setting:
    """More noise in one region, which is tied to the perturbed column but not in the formula."""
    regions = {"north": 0.95, "south": 0.75}
    channels = {region: keep(GROUPS[:3], p) for region, p in regions.items()}
    wrong = {region: off_by(channel) for region, channel in channels.items()}
    effect = np.array([0.0, 0.7, -0.7])

    def generate(rng: np.random.Generator) -> Data:
        n = 3000
        south = rng.random(n) < 0.4
        group = np.where(south, rng.choice(3, n, p=[0.2, 0.3, 0.5]), rng.choice(3, n, p=[0.5, 0.3, 0.2]))
        x = rng.normal(size=n) + 0.5 * south
        y = (rng.random(n) < expit(0.2 - 0.5 * x + effect[group])).astype(int)
        return {"y": y, "x": x, "g": GROUPS[group], "region": np.where(south, "south", "north")}

    both = (pr.Mechanism({"g": pr.Stratified("region", c)}) for c in (channels, wrong))
    return Setting(generate, *both, "y ~ x + g", (0.2, -0.5, 0.7, -0.7), {"family": "binomial"})


def clustered(clusters: int = 300) -> Setting:
    """Clusters of 2 to 10 records with a shared effect, a covariate of the cluster and one of the record."""

    def generate(rng: np.random.Generator) -> Data:
        cluster = np.repeat(np.arange(clusters), rng.integers(2, 11, clusters))
        n = cluster.size
        level, shared = rng.normal(size=clusters)[cluster], rng.normal(size=clusters)[cluster]
        group = (rng.random(n) < expit(0.8 * level)).astype(int)
        y = 1 + 0.5 * level + 0.7 * group + 0.8 * shared + rng.normal(size=n)
        return {"y": y, "level": level, "g": GROUPS[group], "cluster": cluster}

    both = mechanisms({"g": keep(GROUPS[:2], 0.8)})
    return Setting(generate, *both, "y ~ level + g", (1, 0.5, 0.7), {"clusters": "cluster"})


def panel(persons: int = 600, waves: int = 6) -> Setting:
    """Six records a person, whose hidden group is given one draw."""

    def generate(rng: np.random.Generator) -> Data:
        person = np.repeat(np.arange(persons), waves)
        group, own = rng.integers(0, 2, persons)[person], rng.normal(size=persons)[person]
        x = rng.normal(size=person.size)
        y = 1 + 0.5 * x + 0.7 * group + own + rng.normal(size=person.size)
        return {"y": y, "x": x, "g": GROUPS[group], "person": person}

    right, wrong = mechanisms({"g": keep(GROUPS[:2], 0.85)})
    return Setting(generate, right.with_unit("person"), wrong.with_unit("person"), "y ~ x + g", (1, 0.5, 0.7))


def weighted(n: int = 4000) -> Setting:
    """Units enter with a probability that depends on the response; the weights undo it."""

    def generate(rng: np.random.Generator) -> Data:
        group = rng.choice(3, n, p=[0.5, 0.3, 0.2])
        x = 0.4 * group + rng.normal(size=n)
        y = 1 + 0.5 * x + EFFECT[group] + rng.normal(size=n)
        chance = 0.1 + 0.8 * expit(y)
        enters = rng.random(n) < chance
        data = {"y": y, "x": x, "g": GROUPS[group], "w": 1 / chance}
        return {name: column[enters] for name, column in data.items()}

    both = mechanisms({"g": keep(GROUPS[:3], 0.8)})
    return Setting(generate, *both, "y ~ x + g", (1, 0.5, *EFFECT[1:3]), {"weights": "w"})


def rare_covariate(effect: float) -> Setting:
    """Simulation B's linear model at prevalence 0.1, keep 0.6 and n = 1000: hardly identified."""

    def generate(rng: np.random.Generator) -> Data:
        x = (rng.random(1000) < 0.1).astype(int)
        return {"y": -1 + effect * x + rng.normal(size=1000), "x": x}

    return Setting(generate, *mechanisms({"x": pr.TransitionMatrix.binary(0.6, 0.6)}), "y ~ x", (-1, effect))


def simulation_a1(p: float, n: int) -> Setting:
    """Simulation A1 of the paper."""

    def generate(rng: np.random.Generator) -> Data:
        x = rng.normal(0.5, 1, n)
        return {"y": (rng.random(n) < expit(-1 + 1.5 * x)).astype(int), "x": x}

    both = mechanisms({"y": pr.TransitionMatrix.binary(p, p)})
    return Setting(generate, *both, "y ~ x", (-1, 1.5), {"family": "binomial"})


def two_level_covariate(n: int) -> Setting:
    """Poisson regression on a perturbed binary covariate and a number."""

    def generate(rng: np.random.Generator) -> Data:
        group, x = (rng.random(n) < 0.4).astype(int), rng.normal(size=n)
        return {"y": rng.poisson(np.exp(0.2 + 0.3 * x + 0.5 * group)), "x": x, "g": GROUPS[group]}

    both = mechanisms({"g": keep(GROUPS[:2], 0.85)})
    return Setting(generate, *both, "y ~ x + g", (0.2, 0.3, 0.5), {"family": "poisson"})


def counted_cells(n: int) -> Setting:
    """A released contingency table with n records in all, held as distinct cells with their counts."""
    cells = [(y, g) for y in (0, 1) for g in range(3)]
    counts = np.round(n * np.array([0.25, 0.15, 0.15, 0.12, 0.15, 0.18])).astype(int)
    table = {"y": np.array([y for y, _ in cells]), "g": GROUPS[[g for _, g in cells]], "count": counts}
    both = mechanisms({"g": keep(GROUPS[:3], 0.85)})
    return Setting(lambda _rng: table, *both, "y ~ g", (), {"family": "binomial", "frequencies": "count"})


def laplace_and_matrix() -> Setting:
    """Logistic regression on a number with Laplace noise and a binary covariate through a matrix: two kinds composed."""

    def generate(rng: np.random.Generator) -> Data:
        n = 5000
        group, x = (rng.random(n) < 0.4).astype(int), rng.normal(size=n)
        return {"y": (rng.random(n) < expit(-0.5 + x + 0.8 * group)).astype(int), "x": x, "g": group}

    right, wrong = (
        pr.Mechanism({"x": pr.LaplaceNoise(0.5), "g": pr.TransitionMatrix.binary(p, p)}) for p in (0.85, 0.85 - SHIFT)
    )
    return Setting(generate, right, wrong, "y ~ x + g", (-0.5, 1, 0.8), {"family": "binomial"})


def noisy_covariate(family: str, noise: str) -> Setting:
    """A number with noise of half its spread, and a perturbed binary response or covariate; wrong is a scale 10 % off."""

    def channels(scale: float) -> dict[str | tuple[str, ...], Any]:
        made = {
            "gaussian": pr.GaussianNoise(0.5 * scale),
            "geometric": pr.GeometricNoise(scale),
            "laplace": pr.LaplaceNoise(0.5 * scale),
            "uniform": pr.UniformNoise(2.0 * scale),
            "kept": pr.KeepOrNoise(0.6, pr.LaplaceNoise(0.8 * scale)),
            "kept or normal": pr.KeepOrNoise(0.6, pr.GaussianNoise(1.2 * scale)),
            "kept or uniform": pr.KeepOrNoise(0.55, pr.UniformNoise(4.0 * scale)),
        }
        return {"x": made[noise], ("y" if family == "binomial" else "g"): pr.TransitionMatrix.binary(0.9, 0.9)}

    def generate(rng: np.random.Generator) -> Data:
        n = 4000
        g, x = rng.integers(0, 2, n), rng.normal(size=n)
        x = np.round(2 * x) if noise == "geometric" else x
        eta = -0.2 + 0.6 * x + 0.4 * g
        means = {"gaussian": eta + rng.normal(size=n), "binomial": (rng.random(n) < expit(eta)).astype(int)}
        y = rng.poisson(np.exp(eta)) if family == "poisson" else means[family]
        return {"y": y, "x": x, "g": g}

    right, wrong = (pr.Mechanism(channels(scale)) for scale in (1.0, 1.3))
    return Setting(generate, right, wrong, "y ~ x + g", (-0.2, 0.6, 0.4), {"family": family})


def shared_noise() -> Setting:
    """A logit on two numbers that share their noise, and a perturbed response; wrong is a standard deviation 30 % off."""

    def generate(rng: np.random.Generator) -> Data:
        n = 4000
        x = rng.normal(size=n)
        v = 0.5 * x + rng.normal(size=n)
        return {"y": (rng.random(n) < expit(-0.2 + 0.6 * x - 0.4 * v)).astype(int), "x": x, "v": v}

    binary = pr.TransitionMatrix.binary(0.9, 0.9)
    covariance = np.array([[0.3, 0.2], [0.2, 0.4]])
    right, wrong = (
        pr.Mechanism({("x", "v"): pr.JointGaussianNoise(scale * covariance), "y": binary}) for scale in (1.0, 1.3**2)
    )
    return Setting(generate, right, wrong, "y ~ x + v", (-0.2, 0.6, -0.4), {"family": "binomial"})


def strong_noise(sd: float) -> Setting:
    """A logit with normal noise beyond the eight components, of a standard deviation sd on the scale of the linear predictor; wrong is 15 % too small."""

    def generate(rng: np.random.Generator) -> Data:
        n = 4000
        g, x = rng.integers(0, 2, n), 1.5 * rng.normal(size=n)
        return {"y": (rng.random(n) < expit(-0.2 + x + 0.5 * g)).astype(int), "x": x, "g": g}

    right, wrong = (pr.Mechanism({"x": pr.GaussianNoise(scale * sd)}) for scale in (1.0, 0.85))
    return Setting(generate, right, wrong, "y ~ x + g", (-0.2, 1.0, 0.5), {"family": "binomial"})


def beyond_the_mixture() -> Setting:
    """A logit with normal noise of 1.2 on the scale of the linear predictor, near the end of reversion; wrong is an sd 15 % too small."""

    def generate(rng: np.random.Generator) -> Data:
        n = 3000
        g, x = rng.integers(0, 2, n), rng.normal(size=n)
        return {"y": (rng.random(n) < expit(-0.2 + 1.2 * x + 0.5 * g)).astype(int), "x": x, "g": g}

    binary = pr.TransitionMatrix.binary(0.95, 0.95)
    right, wrong = (pr.Mechanism({"x": pr.GaussianNoise(sd), "g": binary}) for sd in (1.0, 0.85))
    options = {"family": "binomial", "method": "conditional-score"}
    return Setting(generate, right, wrong, "y ~ x + g", (-0.2, 1.2, 0.5), options)


def within_a_subset(what: str) -> Setting:
    """A share and a regression among those of a perturbed group, some of them with a number above zero."""

    def generate(rng: np.random.Generator) -> Data:
        n = 1500
        group = rng.choice(3, n, p=[0.3, 0.4, 0.3])
        x, smokes = rng.uniform(-1, 2, n), (rng.random(n) < 0.1 + 0.4 * group).astype(int)
        y = 1 + 3 * group + (0.5 + 0.5 * (group == 2)) * x + rng.normal(size=n)
        return {"g": GROUPS[group], "x": x, "smokes": smokes, "y": y}

    channels = {"g": keep(GROUPS[:3], 0.8), "smokes": pr.TransitionMatrix.binary(0.9, 0.85)}
    plans: dict[str, tuple[Any, tuple[float, ...], str]] = {
        "share": ("mean(smokes)", (0.9,), "g == 'c'"),
        "regression": ("y ~ x", (7.0, 1.0), "g == 'c' and x > 0"),
    }
    plan, truth, subset = plans[what]
    return Setting(generate, *mechanisms(channels), plan, truth, {"subset": subset})  # type: ignore[arg-type]
