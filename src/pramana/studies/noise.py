"""Studies c1 to c6: numbers with noise, reports, and a P that was measured, analysed by `fit`, beside analysts who are wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pramana.arrays import Float
from pramana.mechanism import GaussianNoise, GeometricNoise, KeepOrNoise, LaplaceNoise, Mechanism, TransitionMatrix
from pramana.mechanism.channels.additive_noise import AdditiveNoise
from pramana.mechanism.channels.encodings.unary import UnaryEncoding
from pramana.parameters.means import mean
from pramana.studies.scenario import Analyst, Generate, Scenario
from pramana.studies.simulation import Study, Way

Noise = Callable[[float], Mechanism]
"""Scale ↦ mechanism."""
OFF = 1.1
"""Times the true scale is what the analyst believes who is 10 % off."""
RATIO = "noise/signal"
"""The standard deviation of the noise in x over that of x."""
WRONG_SCALE = "scale 10 % off"
AS_KNOWN = "P̂ taken as known"
KEPT = TransitionMatrix.binary(sensitivity=0.9, specificity=0.9)


def _study(name: str, title: str, about: str, cells: Sequence[Scenario], noise: Noise, *, naive: bool = True) -> Study:
    """A noisy column x and another perturbed one: the user, the naive, one with a scale 10 % off, and each column alone."""
    x, other = cells[0].mechanism.columns
    alone = {column: f"only {column}" for column in (x, other)}
    wrong = Analyst(WRONG_SCALE, believes=lambda s: noise(OFF * float(str(s.label["scale"]))), by="wald")
    methods: tuple[Way, ...] = (Analyst("reversion"), "true data", *(["naive"] if naive else []), wrong)
    methods += tuple(Analyst(label, columns=[column], by="point") for column, label in alone.items())
    prices = {column: {label: 1, "true data": -1} for column, label in alone.items()}
    prices["interaction"] = {"reversion": 1, **dict.fromkeys(alone.values(), -1), "true data": 1}
    prices["all"] = {"reversion": 1, "true data": -1}
    return Study(name, title, tuple(cells), methods, prices=prices, page="noise", about=about)


def _cells(
    generate: Generate,
    noise: Noise,
    signal: float,
    grid: Sequence[tuple[float, int]],
    what: tuple[str, str, tuple[float, ...]],
) -> list[Scenario]:
    """A scenario for each scale and number of records; `signal` is the standard deviation of x."""
    formula, family, truth = what

    def cell(scale: float, n: int) -> Scenario:
        label = {"scale": scale, RATIO: round(_spread(noise(scale)) / signal, 2)}
        return Scenario(generate, noise(scale), formula, truth, n, family, label=label)

    return [cell(*place) for place in grid]


def _spread(mechanism: Mechanism) -> float:
    """Standard deviation of the noise in x."""
    channel = next(a.channel for a in mechanism.assignments if a.columns == ("x",))
    assert isinstance(channel, AdditiveNoise)
    return float(np.sqrt(channel.chances @ channel.values**2))


def _yes(rng: np.random.Generator, eta: Float) -> Any:
    return (rng.random(eta.size) < 1 / (1 + np.exp(-eta))).astype(np.int64)


def _coin(rng: np.random.Generator, n: int) -> Any:
    return (rng.random(n) < 0.5).astype(np.int64)


def c1() -> Study:
    def generate(rng: np.random.Generator, n: int) -> Mapping[str, Any]:
        x, g = rng.normal(size=n), _coin(rng, n)
        return {"x": x, "g": g, "y": _yes(rng, -0.5 + x + 0.8 * g)}

    def noise(scale: float) -> Mechanism:
        return Mechanism({"x": LaplaceNoise(scale), "g": KEPT})

    about = (
        "Pr(y = 1) = expit(−0.5 + x + 0.8 g), x standard normal with Laplace noise of the given scale (its standard deviation is √2 "
        "times that), g a fair coin that is kept with probability 0.9."
    )
    what = ("y ~ x + g", "binomial", (-0.5, 1.0, 0.8))
    cells = _cells(generate, noise, 1.0, [(0.3, 2000), (0.5, 4000)], what)
    return _study(
        "c1", "C1: logistic regression with a Laplace covariate and a perturbed covariate", about, cells, noise
    )


def c2() -> Study:
    def generate(rng: np.random.Generator, n: int) -> Mapping[str, Any]:
        z = rng.normal(size=n)
        x = 0.5 * z + 0.75**0.5 * rng.normal(size=n)
        return {"x": x, "z": z, "y": rng.poisson(np.exp(0.2 + 0.4 * x - 0.3 * z))}

    def noise(scale: float) -> Mechanism:
        return Mechanism({"x": GaussianNoise(scale), "z": GaussianNoise(scale)})

    about = (
        "y is a Poisson count with mean exp(0.2 + 0.4 x − 0.3 z); x and z are standard normal with correlation 0.5, and each gets normal "
        "noise whose standard deviation is the given scale."
    )
    what = ("y ~ x + z", "poisson", (0.2, 0.4, -0.3))
    cells = _cells(generate, noise, 1.0, [(0.3, 2000), (0.6, 2000), (0.6, 5000)], what)
    return _study("c2", "C2: Poisson regression on two numbers with normal noise", about, cells, noise)


def c3() -> Study:
    def generate(rng: np.random.Generator, n: int) -> Mapping[str, Any]:
        x, g = rng.binomial(6, 0.5, n), _coin(rng, n)
        return {"x": x, "g": g, "y": rng.binomial(5, 0.1 + 0.1 * x + 0.1 * g)}

    def noise(scale: float) -> Mechanism:
        score = TransitionMatrix.randomized_response(list(range(6)), keep=0.8, kind="numeric")
        return Mechanism({"x": GeometricNoise(scale), "y": score})

    about = (
        "y is a score from 0 to 5, binomial with mean 0.5 + 0.5 x + 0.5 g, which is kept with probability 0.8 and else drawn from the "
        "other scores; x is a count from 0 to 6, binomial around 3, with geometric noise of the given scale; g is a fair coin."
    )
    what = ("y ~ x + g", "gaussian", (0.5, 0.5, 0.5))
    cells = _cells(generate, noise, 1.5**0.5, [(0.5, 2000), (1.0, 2000), (1.0, 5000)], what)
    return _study("c3", "C3: linear regression on geometric counts, with a perturbed response", about, cells, noise)


def c4() -> Study:
    def generate(rng: np.random.Generator, n: int) -> Mapping[str, Any]:
        x, g = rng.normal(size=n), _coin(rng, n)
        return {"x": x, "g": g, "y": _yes(rng, -0.5 + 0.8 * x + 0.8 * g)}

    def noise(scale: float) -> Mechanism:
        return Mechanism({"x": GaussianNoise(scale), "y": KEPT})

    about = (
        "Pr(y = 1) = expit(−0.5 + 0.8 x + 0.8 g), y kept with probability 0.9; x standard normal with normal noise whose standard deviation is "
        "the given scale; g a fair coin."
    )
    what = ("y ~ x + g", "binomial", (-0.5, 0.8, 0.8))
    cells = _cells(generate, noise, 1.0, [(0.3, 2000), (0.5, 4000)], what)
    return _study("c4", "C4: logistic regression with normal noise and a perturbed response", about, cells, noise)


def c5() -> Study:
    ways, effect = np.array(["bus", "car", "walk"]), np.array([0.0, 1.0, -1.0])

    def generate(rng: np.random.Generator, n: int) -> Mapping[str, Any]:
        way, x = rng.integers(0, 3, n), rng.binomial(6, 0.5, n)
        return {"x": x, "travel": ways[way], "y": 1 + 0.5 * x + effect[way] + rng.normal(size=n)}

    def noise(scale: float) -> Mechanism:
        bits = UnaryEncoding.optimized(ways.tolist(), epsilon=3.0)
        return Mechanism({"x": KeepOrNoise(0.5, GeometricNoise(scale)), "travel": bits})

    about = (
        "y is normal around 1 + 0.5 x + (0, 1 or −1 for bus, car or walk), with standard deviation 1. travel is reported by optimised unary "
        "encoding at ε = 3; x, a count from 0 to 6, binomial around 3, is kept with probability 0.5 and else gets geometric noise of the "
        "given scale. The naive analysis does not exist: a report is no level."
    )
    what = ("y ~ x + travel", "gaussian", (1.0, 0.5, 1.0, -1.0))
    cells = _cells(generate, noise, 1.5**0.5, [(0.8, 2000), (1.2, 3000)], what)
    return _study("c5", "C5: regression on unary reports and on keep-or-noise counts", about, cells, noise, naive=False)


EDU = ("low", "mid", "high")
SLOPES = (-0.5, 0.8, 0.6, 1.2)
"""Of y, in logits, on x, edu = mid and edu = high; and of income in units."""
MEASURED = {
    "y": TransitionMatrix((0, 1), [[0.88, 0.14], [0.12, 0.86]]),
    "ill": TransitionMatrix((0, 1), [[0.88, 0.14], [0.12, 0.86]]),
    "edu": TransitionMatrix(EDU, [[0.8, 0.1, 0.05], [0.15, 0.8, 0.15], [0.05, 0.1, 0.8]]),
}
"""By column, what its validation studies are about."""


def patients(rng: np.random.Generator, n: int) -> Mapping[str, Any]:
    """Records with illness of prevalence 0.35, and a logit and an income on a number and education."""
    x, edu = rng.normal(size=n), rng.integers(0, 3, n)
    eta = SLOPES[0] + SLOPES[1] * x + SLOPES[2] * (edu == 1) + SLOPES[3] * (edu == 2)
    ill = (rng.random(n) < 0.35).astype(np.int64)
    income = eta + rng.normal(size=n)
    return {"x": x, "edu": np.array(EDU)[edu], "income": income, "y": _yes(rng, eta), "ill": ill}


def validated_matrix(rng: np.random.Generator, column: str, size: int) -> TransitionMatrix:
    """P̂ of a validation study of its own: so many people of every true level."""
    matrix = MEASURED[column]
    counts = np.stack([rng.multinomial(size, chances) for chances in matrix.matrix.T], axis=1)
    return TransitionMatrix.from_validation(counts, levels=matrix.levels)


def _measured(scenario: Scenario, rng: np.random.Generator) -> Mechanism:
    size = int(str(scenario.label["validated"]))
    return Mechanism({column: validated_matrix(rng, column, size) for column in scenario.mechanism.columns})


def _as_known(scenario: Scenario, rng: np.random.Generator) -> Mechanism:
    """The same estimates of P without their uncertainty."""
    size = int(str(scenario.label["validated"]))
    return Mechanism(
        {column: validated_matrix(rng, column, size).measured(None) for column in scenario.mechanism.columns}
    )


def c6() -> Study:
    models: dict[str, tuple[Any, str, int, tuple[float, ...]]] = {
        "prevalence": (mean("ill"), "ill", 200, (0.35,)),
        "linear": ("income ~ x + edu", "edu", 150, SLOPES),
    }
    cells = tuple(
        Scenario(patients, Mechanism({c: MEASURED[c]}), what, truth, 2000, label={"model": name, "validated": size})
        for name, (what, c, size, truth) in models.items()
    )
    methods = (
        Analyst("reversion", measures=_measured),
        "true data",
        Analyst(AS_KNOWN, measures=_as_known),
        Analyst("true P", by="point"),
    )
    prices = {
        "perturbation": {"true P": 1, "true data": -1},
        "measured P": {"reversion": 1, "true P": -1},
        "all": {"reversion": 1, "true data": -1},
    }
    about = (
        "P is known from a validation study alone, drawn anew with every data set: so many people of every true level. prevalence: the share "
        "0.35 of an illness found by a test. linear: an income on a number and education in three levels, which is perturbed."
    )
    title = "C6: a P that was measured by a validation study"
    return Study("c6", title, cells, methods, prices=prices, page="noise", about=about)


STUDIES: Mapping[str, Callable[[], Study]] = {"c1": c1, "c2": c2, "c3": c3, "c4": c4, "c5": c5, "c6": c6}
