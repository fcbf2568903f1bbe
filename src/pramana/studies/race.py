"""Study d1: nine estimators on the same data sets of many kinds, to see when `method="stabilized"` helps, and where it loses.

The cells were written down before any of them was run, in pairs of one kind: the first of each pair (an even place in `CELLS`) is for exploring, the second
for confirming. Whatever was chosen while the estimator was built was chosen on the first half; what is published comes from the second.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pramana.analysis.question import question
from pramana.analysis.sampling import SamplingArguments
from pramana.analysis.task import Task
from pramana.arrays import Float
from pramana.errors import PramanaError, PramanaWarning
from pramana.estimators import ModelDependent, Naive, Stabilized, StabilizedResult
from pramana.estimators.estimate import solved
from pramana.estimators.stabilized import Hull
from pramana.frames import Table
from pramana.inference import Sandwich
from pramana.mechanism import Mechanism, TransitionMatrix
from pramana.models.multinomial import multinomial
from pramana.parameters.means import proportions
from pramana.pipeline import fit
from pramana.result import Result
from pramana.studies.scenario import Generate, Scenario
from pramana.studies.simulation import NumbersByName, ReplicateEstimates, Study
from pramana.studies.summary import NORMAL_975, Row, StudyResult

TrueColumns = Mapping[str, Any]
FAR = 5.0
"""Asymptotic standard deviations at which an error is cut off; a sample without a root counts as so many."""
LARGE = 100_000
"""Records from which reversion's asymptotic standard deviations are taken."""
TWO = ("reversion", "stabilized", "plug-in", "one step")
"""Those that the promises are about: two, and what the second is made of."""
RIVALS = 300
"""Data sets of a cell, the first ones, on which the others run too."""
KEPT = ("estimate", "low", "high", "error", "seconds")
NAMES = (*TWO, "likelihood", "Model 1", "Model 1 clipped", "naive", "true data")


@dataclass(frozen=True)
class Cell(Scenario):
    """A scenario with what `fit` is told of the sampling."""

    options: Mapping[str, Any] = field(default_factory=dict)


# Populations.


def _expit(eta: Any) -> Any:
    return 1 / (1 + np.exp(-eta))


def _yes(rng: np.random.Generator, chance: Float) -> Any:
    return (rng.random(chance.size) < chance).astype(np.int64)


def _drawn(rng: np.random.Generator, eta: Float) -> Any:
    """Classes 0 … K − 1 by a multinomial logit with predictors (n, K)."""
    return np.argmax(eta + rng.gumbel(size=eta.shape), axis=1)


GRID = 4001


def _normal_grid() -> Float:
    from scipy.special import ndtri

    return np.asarray(ndtri((np.arange(GRID) + 0.5) / GRID))


def best_logit(design: Float, chance: Float) -> tuple[float, ...]:
    """What a logit converges to that is not the truth: the root of Σ x (p − expit(xᵀβ)) over a grid of the population."""
    beta = np.zeros(design.shape[1])
    for _ in range(60):
        mu = _expit(design @ beta)
        bend = (design * (mu * (1 - mu))[:, None]).T @ design
        beta = beta + np.linalg.solve(bend, design.T @ (chance - mu))
    return tuple(beta.tolist())


@dataclass(frozen=True)
class PopulationKind:
    """A population with the question asked of it, perturbed with a keep probability."""

    generate: Generate
    what: Any
    truth: tuple[float, ...]
    levels: Mapping[str, Sequence[Any]]
    family: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def cell(self, name: str, keep: float, n: int) -> Cell:
        kept: Any = {c: TransitionMatrix.randomized_response(list(v), keep=keep) for c, v in self.levels.items()}
        label = {"setting": name, "keep": keep}
        return Cell(
            self.generate,
            Mechanism(kept),
            self.what,
            self.truth,
            n,
            self.family,
            label=label,
            options=self.options,
        )


BINARY = {"y": (0, 1)}
G3, G5 = np.array(list("abc")), np.array(list("abcde"))


def _one_x(mean: float, chance: Callable[[Float], Float], **options: Any) -> PopulationKind:
    """A logit on one normal number, right or wrong."""

    def generate(rng: np.random.Generator, n: int) -> TrueColumns:
        x = rng.normal(mean, 1.0, n)
        return {"x": x, "y": _yes(rng, chance(x))}

    grid = mean + _normal_grid()
    truth = best_logit(np.column_stack([np.ones(GRID), grid]), chance(grid))
    return PopulationKind(generate, "y ~ x", truth, BINARY, "binomial", **options)


def _logit() -> PopulationKind:
    kind = _one_x(0.5, lambda x: _expit(-1 + 1.5 * x))
    return replace(kind, truth=(-1.0, 1.5))


def _linear() -> PopulationKind:
    def generate(rng: np.random.Generator, n: int) -> TrueColumns:
        x = _yes(rng, np.full(n, 0.5))
        return {"x": x, "y": rng.normal(-1.0 + x, 1.0)}

    return PopulationKind(generate, "y ~ x", (-1.0, 1.0), {"x": (0, 1)})


def _four() -> PopulationKind:
    beta = (-0.5, 0.8, -0.6, 0.7, 0.5)

    def generate(rng: np.random.Generator, n: int) -> TrueColumns:
        a, b, c, d = rng.normal(size=n), rng.normal(size=n), _yes(rng, np.full(n, 0.5)), _yes(rng, np.full(n, 0.3))
        eta = beta[0] + beta[1] * a + beta[2] * b + beta[3] * c + beta[4] * d
        return {"a": a, "b": b, "c": c, "d": d, "y": _yes(rng, _expit(eta))}

    return PopulationKind(generate, "y ~ a + b + c + d", beta, BINARY, "binomial")


def _classes(names: Any, slopes: Sequence[float]) -> PopulationKind:
    """A multinomial logit: intercept and slope of every class but the first."""
    pairs = np.array(slopes).reshape(-1, 2)

    def generate(rng: np.random.Generator, n: int) -> TrueColumns:
        x = rng.normal(size=n)
        eta = np.column_stack([np.zeros(n), pairs[:, 0] + np.outer(x, pairs[:, 1])])
        return {"x": x, "y": names[_drawn(rng, eta)]}

    return PopulationKind(generate, multinomial("y ~ x"), tuple(slopes), {"y": names.tolist()})


def _interaction(formula: str) -> PopulationKind:
    """A product of a number and a coin, which the formula has or leaves out."""

    def chance(x: Float, z: Any) -> Float:
        return np.asarray(_expit(-0.5 + 0.8 * x + 0.5 * z - 1.2 * x * z))

    def generate(rng: np.random.Generator, n: int) -> TrueColumns:
        x, z = rng.normal(size=n), _yes(rng, np.full(n, 0.5))
        return {"x": x, "z": z, "y": _yes(rng, chance(x, z))}

    x, z = np.tile(_normal_grid(), 2), np.repeat([0.0, 1.0], GRID)
    columns = [np.ones(2 * GRID), x, z, *([x * z] if "*" in formula else [])]
    truth = best_logit(np.column_stack(columns), chance(x, z))
    return PopulationKind(generate, formula, truth, BINARY, "binomial")


def _group(rng: np.random.Generator, x: Float) -> Any:
    """Codes of three groups that depend on a number."""
    return _drawn(rng, np.column_stack([0 * x, 0.2 + 0.6 * x, -0.3 - 0.5 * x]))


def _skewed() -> PopulationKind:
    effect = np.array([0.0, 0.8, -0.6])

    def generate(rng: np.random.Generator, n: int) -> TrueColumns:
        x = rng.normal(size=n)
        g = _group(rng, x)
        return {"x": x, "g": G3[g], "y": 1 + 0.5 * x + effect[g] + rng.exponential(size=n) - 1}

    return PopulationKind(generate, "y ~ x + g", (1.0, 0.5, 0.8, -0.6), {"g": G3.tolist()})


def _in_a_logit() -> PopulationKind:
    effect = np.array([0.0, 1.0, -0.8])

    def generate(rng: np.random.Generator, n: int) -> TrueColumns:
        x = rng.normal(size=n)
        g = _group(rng, x)
        return {"x": x, "g": G3[g], "y": _yes(rng, _expit(-0.3 + 0.6 * x + effect[g]))}

    return PopulationKind(generate, "y ~ x + g", (-0.3, 0.6, 1.0, -0.8), {"g": G3.tolist()}, "binomial")


def _five_levels() -> PopulationKind:
    effect, share = np.array([0.0, 0.5, 1.0, -0.5, 1.5]), np.array([0.35, 0.3, 0.2, 0.1, 0.05])

    def generate(rng: np.random.Generator, n: int) -> TrueColumns:
        g = rng.choice(5, n, p=share)
        return {"g": G5[g], "y": 1 + effect[g] + rng.normal(size=n)}

    return PopulationKind(generate, "y ~ g", (1.0, *effect[1:].tolist()), {"g": G5.tolist()})


def _curved() -> PopulationKind:
    """A linear model without the bend that there is, and a coin that goes with it."""

    def generate(rng: np.random.Generator, n: int) -> TrueColumns:
        x = rng.uniform(-1.5, 1.5, n)
        g = _yes(rng, _expit(2 * x**2 - 1))
        return {"x": x, "g": g, "y": x + x**2 + 0.7 * g + rng.normal(size=n)}

    x = -1.5 + 3 * (np.arange(GRID) + 0.5) / GRID
    share, bend = _expit(2 * x**2 - 1), x + x**2
    rows = np.vstack([np.column_stack([np.ones(GRID), x, np.full(GRID, g)]) for g in (0.0, 1.0)])
    weight, y = np.concatenate([1 - share, share]), np.concatenate([bend, bend + 0.7])
    truth = np.linalg.solve((rows * weight[:, None]).T @ rows, rows.T @ (weight * y))
    return PopulationKind(generate, "y ~ x + g", tuple(truth.tolist()), {"g": (0, 1)})


SIZE = 10
"""Records of a cluster."""


def _clustered() -> PopulationKind:
    """A logit whose records share luck within clusters, which leaves the margins as they are."""

    def generate(rng: np.random.Generator, n: int) -> TrueColumns:
        from scipy.special import ndtr

        c = np.arange(n) // SIZE
        x, luck = rng.normal(size=n), rng.normal(size=c[-1] + 1)[c]
        u = ndtr(0.3**0.5 * luck + 0.7**0.5 * rng.normal(size=n))
        return {"x": x, "c": c, "y": (u < _expit(-0.5 + x)).astype(np.int64)}

    return PopulationKind(generate, "y ~ x", (-0.5, 1.0), BINARY, "binomial", {"clusters": "c"})


def _clustered_covariate() -> PopulationKind:
    def generate(rng: np.random.Generator, n: int) -> TrueColumns:
        c = np.arange(n) // SIZE
        g = _yes(rng, np.full(n, 0.4))
        return {"g": g, "c": c, "y": -1 + g + 0.7 * rng.normal(size=c[-1] + 1)[c] + rng.normal(size=n)}

    return PopulationKind(generate, "y ~ g", (-1.0, 1.0), {"g": (0, 1)}, options={"clusters": "c"})


def _weighted() -> PopulationKind:
    """A bent truth, sampled with chances that depend on the number: weights tell which straight line is meant."""

    def chance(x: Float) -> Float:
        return np.asarray(_expit(-0.3 + x - 0.4 * x**2))

    def generate(rng: np.random.Generator, n: int) -> TrueColumns:
        x = np.empty(0)
        while x.size < n:
            more = rng.normal(size=2 * n)
            x = np.concatenate([x, more[rng.random(2 * n) < np.where(more > 0, 0.8, 0.3)]])
        x = x[:n]
        return {"x": x, "w": np.where(x > 0, 1 / 0.8, 1 / 0.3), "y": _yes(rng, chance(x))}

    grid = _normal_grid()
    truth = best_logit(np.column_stack([np.ones(GRID), grid]), chance(grid))
    return PopulationKind(generate, "y ~ x", truth, BINARY, "binomial", {"weights": "w"})


def _shares() -> PopulationKind:
    share = (0.45, 0.3, 0.15, 0.08, 0.02)

    def generate(rng: np.random.Generator, n: int) -> TrueColumns:
        return {"g": G5[rng.choice(5, n, p=share)]}

    return PopulationKind(generate, proportions("g"), share, {"g": G5.tolist()})


def _counts() -> PopulationKind:
    def generate(rng: np.random.Generator, n: int) -> TrueColumns:
        x, g = rng.normal(size=n), _yes(rng, np.full(n, 0.4))
        return {"x": x, "g": g, "y": rng.poisson(np.exp(0.3 + 0.3 * x + 0.5 * g))}

    return PopulationKind(generate, "y ~ x + g", (0.3, 0.3, 0.5), {"g": (0, 1)}, "poisson")


def _both() -> PopulationKind:
    def generate(rng: np.random.Generator, n: int) -> TrueColumns:
        x, g = rng.normal(size=n), _yes(rng, np.full(n, 0.5))
        return {"x": x, "g": g, "y": _yes(rng, _expit(-0.5 + 0.8 * x + 0.7 * g))}

    return PopulationKind(generate, "y ~ x + g", (-0.5, 0.8, 0.7), {"y": (0, 1), "g": (0, 1)}, "binomial")


Pairs = tuple[tuple[tuple[float, int], tuple[float, int]], ...]
"""Keep probability and records of the cell that explores, and of the one that confirms."""

KINDS: Mapping[str, tuple[Callable[[], PopulationKind], Pairs]] = {
    "logit (A1)": (
        _logit,
        (
            ((0.75, 300), (0.7, 300)),
            ((0.6, 1000), (0.62, 1000)),
            ((0.65, 2000), (0.65, 1000)),
            ((0.85, 1000), (0.8, 1000)),
            ((0.9, 4000), (0.95, 2000)),
        ),
    ),
    "linear (B1)": (_linear, (((0.65, 500), (0.7, 500)), ((0.8, 1000), (0.6, 1000)))),
    "four covariates": (_four, (((0.75, 1000), (0.7, 1000)), ((0.9, 600), (0.85, 500)), ((0.65, 3000), (0.62, 2000)))),
    "three classes": (
        lambda: _classes(G3, (-0.3, 0.8, 0.2, -0.7)),
        (((0.7, 1000), (0.75, 800)), ((0.6, 1500), (0.62, 2000))),
    ),
    "five classes": (
        lambda: _classes(G5, (0.2, 0.5, -0.2, -0.5, 0.3, 0.2, -0.4, 0.4)),
        (((0.75, 2000), (0.8, 1500)), ((0.65, 3000), (0.6, 4000))),
    ),
    "step": (
        lambda: _one_x(0.5, lambda x: np.where(x > 0.5, 0.8, 0.15)),
        (((0.75, 1000), (0.8, 1000)), ((0.65, 1500), (0.62, 1500)), ((0.9, 4000), (0.85, 8000))),
    ),
    "bent": (
        lambda: _one_x(0.0, lambda x: np.asarray(_expit(-0.3 + x - 0.5 * x**2))),
        (((0.75, 2000), (0.7, 1500)), ((0.65, 2000), (0.65, 1500))),
    ),
    "interaction left out": (lambda: _interaction("y ~ x + z"), (((0.75, 2000), (0.8, 1500)),)),
    "interaction": (lambda: _interaction("y ~ x * z"), (((0.8, 2000), (0.75, 2000)),)),
    "rare": (
        lambda: _one_x(0.0, lambda x: np.asarray(_expit(-3.8 + 0.8 * x))),
        (((0.9, 2000), (0.95, 1000)), ((0.85, 4000), (0.9, 3000))),
    ),
    "structural zeros": (
        lambda: _one_x(0.0, lambda x: 1 - np.exp(-0.6 * np.maximum(x + 0.5, 0.0))),
        (((0.8, 2000), (0.75, 1500)),),
    ),
    "structural zeros, jump": (
        lambda: _one_x(0.0, lambda x: np.where(x > 0, 0.6, 0.0)),
        (((0.8, 2000), (0.75, 1000)), ((0.8, 16000), (0.85, 16000))),
    ),
    "skewed, covariate": (_skewed, (((0.75, 1000), (0.7, 800)), ((0.62, 2000), (0.65, 1500)))),
    "covariate in a logit": (_in_a_logit, (((0.75, 1000), (0.8, 600)), ((0.65, 2000), (0.62, 1500)))),
    "covariate of five levels": (_five_levels, (((0.75, 1000), (0.7, 1500)),)),
    "covariate, bend left out": (_curved, (((0.75, 1000), (0.8, 1500)),)),
    "clusters": (_clustered, (((0.75, 1000), (0.7, 1000)), ((0.65, 2000), (0.62, 1500)))),
    "clusters, covariate": (_clustered_covariate, (((0.75, 600), (0.7, 800)),)),
    "weights": (_weighted, (((0.8, 1000), (0.75, 1000)), ((0.65, 2000), (0.65, 1500)))),
    "shares": (_shares, (((0.6, 300), (0.65, 400)),)),
    "counts, covariate": (_counts, (((0.7, 500), (0.65, 600)),)),
    "response and covariate": (_both, (((0.85, 1500), (0.8, 1500)),)),
}


def race_cells() -> list[Cell]:
    """All of them, exploring ones at even places and confirming ones at odd places."""
    made = []
    for name, (make, pairs) in KINDS.items():
        kind = make()
        made += [kind.cell(name, keep, n) for pair in pairs for keep, n in pair]
    return made


# One data set.


class _Counted(Sandwich):
    """What `fit` gives, at the level that is counted alone."""

    @property
    def tabled(self) -> tuple[float, ...]:
        return (0.95,)


def replicates(cell: Scenario, indices: Sequence[int], seed: int) -> ReplicateEstimates:
    """What every estimator finds in each data set."""
    assert isinstance(cell, Cell)
    found = [_answers(cell, *cell.data(seed, [r]), rivals=r < RIVALS) for r in indices]
    values = {name: {key: np.stack([one[name][key] for one in found]) for key in found[0][name]} for name in found[0]}
    names = tuple(str(k) for k in range(len(cell.truth)))
    return ReplicateEstimates(names, values)


def _answers(cell: Cell, truth: Table, released: Table, *, rivals: bool) -> dict[str, NumbersByName]:
    def fitted(
        method: Any, table: Table = released, mechanism: Mechanism = cell.mechanism, inference: Sandwich | None = None
    ) -> Result:
        return fit(cell.what, table, mechanism, family=cell.family, method=method, inference=inference, **cell.options)

    asked: dict[str, Callable[[], Result | Float]] = {
        "likelihood": lambda: fitted("likelihood"),
        "Model 1": lambda: _model_1(cell, released, clip=False),
        "Model 1 clipped": lambda: _model_1(cell, released, clip=True),
        "naive": lambda: fitted("naive"),
        "true data": lambda: fitted(Naive(), truth, cell.mechanism.of_truth),
    }
    nothing: NumbersByName = dict.fromkeys(KEPT, np.full(len(cell.truth), np.nan))
    return {
        "reversion": _timed(cell, lambda: fitted("reversion", inference=_Counted())),
        **_stabilized(cell, lambda: fitted(Stabilized())),
        **{name: _timed(cell, answer) if rivals else nothing for name, answer in asked.items()},
    }


def _model_1(cell: Cell, released: Table, *, clip: bool) -> Float:
    """The estimate alone: its errors take hundreds of fits."""
    task = Task.read(
        question(cell.what, cell.family, None), released, cell.mechanism, SamplingArguments(**cell.options)
    )
    return solved(ModelDependent(clip=clip), task).root.beta[: len(cell.truth)]


def _timed(cell: Cell, answer: Callable[[], Result | Float]) -> NumbersByName:
    """Estimate, limits and processor time; NaN where there is no answer."""
    begun, nothing = time.process_time(), np.full(len(cell.truth), np.nan)
    found: Result | Float | None = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PramanaWarning)
        try:
            found = answer()
        except PramanaError:
            found = None
    numbers: NumbersByName = dict.fromkeys(KEPT, nothing)
    if isinstance(found, Result):
        low, high = found.interval().T
        numbers = {"estimate": found.estimate, "low": low, "high": high, "error": found.standard_errors}
    elif found is not None:
        numbers["estimate"] = found
    numbers["seconds"] = np.full(len(cell.truth), time.process_time() - begun)
    return numbers


def _stabilized(cell: Cell, answer: Callable[[], Result]) -> dict[str, NumbersByName]:
    """The estimator, the plug-in that it starts from, and the one step on its way, with the interval around that alone."""
    kept: list[Result] = []

    def keeping() -> Result:
        kept.append(answer())
        return kept[0]

    own = _timed(cell, keeping)
    parts: NumbersByName = dict.fromkeys(("weight", "projected"), np.full(len(cell.truth), np.nan))
    if not kept:
        return {"stabilized": own | parts, "plug-in": own, "one step": own}
    found = kept[0]
    assert isinstance(found, StabilizedResult)
    assert isinstance(found.limits, Hull)
    low, high = found.limits.alone(1).at(0.95).T
    same = np.ones(len(cell.truth))
    parts = {"weight": found.weight * same, "projected": found.projected * same}
    plug_in = dict.fromkeys(KEPT, np.nan * same) | {"estimate": found.plug_in, "seconds": own["seconds"]}
    one_step = own | {"estimate": found.one_step, "low": low, "high": high, "error": found.limits.errors[1]}
    return {"stabilized": own | parts, "plug-in": plug_in, "one step": one_step}


# A cell.


def asymptotic_errors(cell: Cell) -> Float:
    """Reversion's standard deviations (d,) at the cell's n, from one large data set."""
    large = replace(cell, n=LARGE)
    released = large.data(0, [0])[1]
    found = fit(cell.what, released, cell.mechanism, family=cell.family, **cell.options)
    return np.asarray(found.standard_errors * np.sqrt(LARGE / cell.n))


def summary(cell: Scenario, found: ReplicateEstimates) -> StudyResult:
    """A row for each estimator; errors in units of reversion's asymptotic standard deviations, and all coefficients together."""
    assert isinstance(cell, Cell)
    truth, unit = np.asarray(cell.truth), asymptotic_errors(cell)
    own = Errors.of(found.values["reversion"], truth, unit)
    base = {**cell.label, "n": cell.n}
    rows = []
    for name in NAMES:
        one = Errors.of(found.values[name], truth, unit)
        if name not in TWO:
            one = one.first(RIVALS)
        if not one.absent:
            rows.append(base | {"method": name, **one.row(), **one.beside(own.first(len(one.z)))})
    return StudyResult(tuple(rows))


@dataclass(frozen=True)
class Errors:
    """An estimator's errors z (R, d), NaN without an answer, limits less the truth and standard errors (R, d), all in units, and seconds (R,)."""

    z: Float
    low: Float
    high: Float
    error: Float
    seconds: Float

    @classmethod
    def of(cls, numbers: NumbersByName, truth: Float, unit: Float) -> Errors:
        z, low, high = ((numbers[key] - truth) / unit for key in ("estimate", "low", "high"))
        return cls(z, low, high, numbers["error"] / unit, numbers["seconds"][:, 0])

    def first(self, size: int) -> Errors:
        """Those in the first so many data sets."""
        return Errors(self.z[:size], self.low[:size], self.high[:size], self.error[:size], self.seconds[:size])

    @property
    def answered(self) -> Any:
        return np.isfinite(self.z).all(axis=1)

    @property
    def absent(self) -> bool:
        """It does not know the question."""
        return not self.answered.any()

    @property
    def cut(self) -> Float:
        return np.clip(np.where(self.answered[:, None], self.z, FAR), -FAR, FAR)

    @property
    def squares(self) -> Float:
        """(R,)."""
        return np.asarray(np.mean(self.cut**2, axis=1))

    @property
    def covered(self) -> Float:
        """Share of the coefficients that the intervals hold (R,); NaN without an interval."""
        known = np.isfinite(self.z).all(axis=1) & ~np.isnan(self.low).any(axis=1)
        return np.where(known, np.mean((self.low <= 0) & (self.high >= 0), axis=1), np.nan)

    def row(self) -> Row:
        size = len(self.z)
        cut = self.cut
        bias = cut.mean(axis=0)
        worst = int(np.argmax(np.abs(bias)))
        row: Row = {
            "replicates": size,
            "rootless": float(np.mean(~self.answered)),
            "rmse": float(np.sqrt(self.squares.mean())),
        }
        row |= {"median_error": float(np.median(np.abs(cut))), "bias": float(bias[worst])}
        row |= {
            "bias_mcse": float(cut[:, worst].std(ddof=1) / np.sqrt(size)),
            "seconds": float(np.median(self.seconds)),
        }
        held = ~np.isnan(self.covered)
        if not held.any():
            return row
        inside = ((self.low <= 0) & (self.high >= 0))[held]
        row |= {"coverage": float(inside.mean()), "coverage_mcse": _mcse(self.covered[held])}
        row |= {"worst_coverage": float(inside.mean(axis=0).min())}
        row |= {"missed_below": float(np.mean(self.high[held] < 0)), "missed_above": float(np.mean(self.low[held] > 0))}
        row["wald_coverage"] = float(np.mean((np.abs(self.z) <= NORMAL_975 * self.error)[held]))
        return row | {"length": float(np.median((self.high - self.low)[held]) / (2 * NORMAL_975))}

    def beside(self, other: Errors) -> Row:
        """Next to another on the same data sets: ratio of root mean squares, and difference of coverages."""
        a, b = self.squares, other.squares
        ratio = float(np.sqrt(a.mean() / b.mean()))
        row: Row = {"ratio": ratio, "ratio_mcse": ratio / 2 * _mcse(a / a.mean() - b / b.mean())}
        gap = self.covered - other.covered
        gap = gap[~np.isnan(gap)]
        return row | ({"gap": float(gap.mean()), "gap_mcse": _mcse(gap)} if len(gap) > 1 else {})


def _mcse(values: Float) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


# The studies.


def _half(name: str, words: str, first: int) -> Study:
    title = f"D1: a race of nine estimators, {words}"
    return Study(
        name, title, tuple(race_cells()[first::2]), NAMES, block=50, page="race", replicates=replicates, summary=summary
    )


def confirming() -> Study:
    return _half("d1", "on fresh cells", 1)


def exploring() -> Study:
    return _half(EXPLORING, "on the cells that it was tried on", 0)


EXPLORING = "d1-exploring"
"""The half that nothing is published of."""
STUDIES: Mapping[str, Callable[[], Study]] = {"d1": confirming, EXPLORING: exploring}
