"""Stabilised reversion: a plug-in whose probabilities stay in the simplex, and a step back to reversion as far as the data ask for it.

A regression of the released levels on everything that was not perturbed gives q_i, P⁻¹ turns it into probabilities of the true levels, and p_i is
the nearest point of the simplex. The plug-in m solves Σ_i Σ_k p_ik U_k(m) = 0, whose weights are not negative, so that it has a root where reversion
has none. One Newton step D leads from m to reversion, and T, the size of D in units of what it would be by chance, says how far to go:
b = m + w D with w = T/(T + 2d). Since q is fitted in released space, where the released levels are what they seem, the reverted moments stay exact as
long as nothing is projected: with a canonical link m is then reversion, D = 0 and w = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Self

import numpy as np

from pramana.analysis.task import Inference, Task
from pramana.arrays import Bool, Column, Columns, Float, Int
from pramana.diagnostic import Diagnostic
from pramana.engines import Engine, LocalEngine, Sampling
from pramana.errors import DataError, MechanismError, PramanaError, SolveError, listing, too_few
from pramana.estimating import Equation, Records
from pramana.estimators.estimate import multiplied, shown_only
from pramana.estimators.free_parameters import Free
from pramana.estimators.method import Method
from pramana.estimators.remarks import few_clusters, too_few_clusters, wholly_outside
from pramana.estimators.reversion import reverted_records, spread_over
from pramana.inference import Sandwich, solve
from pramana.inference.few_units import small_sample
from pramana.inference.limits import Limits, on_t
from pramana.inference.sandwich import Linear, bread, sandwich_covariance
from pramana.kernels.blocks import by_group
from pramana.kernels.simplex import onto_simplex
from pramana.mechanism import Assignment
from pramana.models.multinomial import MultinomialEquation
from pramana.models.prediction import Prediction
from pramana.numbers import count
from pramana.result import Result

STRENGTHS = (1.0, 10.0, 100.0, 1000.0)
"""Of the ridge, in units of records; AIC chooses."""
MANY = 20_000
"""Records from which the regression of the released levels starts at that of a quarter of so many."""
LEVELS = 30
"""Most released combinations of levels that are regressed on the clean variables."""
ROOM = 2.0
"""Records for each coefficient of that regression, below which it is made smaller."""
ALIASED = 1e-7
"""Share of a column that the others leave over, below which they say the same."""
FLOOR = 1e-3
"""Share of reversion's variance that is added to that of the step, which can be known exactly."""
PULL = 2.0
"""T for each parameter at which plug-in and step weigh the same."""
OUT = 2.0
"""Standard errors from the estimate to where they are computed anew, about the ends of an interval of 95 %."""
LARGE = 0.6
"""Weight of the step from which the data are said to object to the plug-in; by chance T is about d, and w about 1/3."""
SINGULAR = 1e-9
"""Share of the largest eigenvalue below which a direction of the step does not exist, as for shares that add up to 1."""


@dataclass(frozen=True)
class StabilizedResult(Result):
    """A `Result` with what it was made of.

    Attributes
    ----------
    plug_in, one_step : m and o = m + D (d,).
    evidence : T, the squared size of the step D; about the number of parameters by chance.
    weight : w, the share of the step that was taken.
    projected : share of the records whose probabilities left the simplex.
    """

    plug_in: Float = field(default_factory=lambda: np.empty(0))
    one_step: Float = field(default_factory=lambda: np.empty(0))
    evidence: float = float("nan")
    weight: float = float("nan")
    projected: float = float("nan")

    def to_dict(self, *, exponentiate: bool = False, level: float | None = None) -> dict[str, Any]:
        parts = {
            "plug_in": self.plug_in.tolist(),
            "one_step": self.one_step.tolist(),
            "evidence": self.evidence,
            "weight": self.weight,
            "projected": self.projected,
        }
        return super().to_dict(exponentiate=exponentiate, level=level) | {"stabilized": parts}


@dataclass(frozen=True)
class Hull(Limits):
    """From the lower to the upper end of two intervals, each from an estimate less t e + c t² to one plus t e + c t², e its standard error.

    Attributes
    ----------
    centers, errors, df : of both (2, d).
    growth : c (2, 2, d), of each the one of its lower and of its upper end: half of what the error grows by on a standard error's way, and never negative.
    """

    centers: Float
    errors: Float
    df: Float
    growth: Float
    level: float = 0.95
    kind: str = "hull"

    def at(self, level: float) -> Float:
        from scipy.special import stdtrit

        t = stdtrit(self.df, (1 + level) / 2)
        reach = t[:, None] * (self.errors[:, None] + self.growth * t[:, None])
        return np.column_stack([(self.centers - reach[:, 0]).min(axis=0), (self.centers + reach[:, 1]).max(axis=0)])

    def zero(self, df: Float) -> Float:
        """By the larger of the two p-values, each that of the level at which an end is 0; 1 where 0 lies between the estimates."""
        from scipy.special import stdtr

        away = np.abs(self.centers)
        growth = np.where(self.centers > 0, self.growth[:, 0], self.growth[:, 1])
        with np.errstate(all="ignore"):
            t = 2 * away / (self.errors + np.sqrt(self.errors**2 + 4 * growth * away))
            p = 2 * stdtr(self.df, -t)
        return on_t(np.where(np.prod(self.centers, axis=0) > 0, p.max(axis=0), 1.0), df)

    def of(self, kept: Sequence[int]) -> Self:
        return self._with(lambda values: values[..., list(kept)])

    def alone(self, place: int) -> Self:
        """One of the two."""
        return self._with(lambda values: values[place : place + 1])

    def times(self, size: float) -> Self:
        return replace(self, centers=self.centers * size, errors=self.errors * size, growth=self.growth * size)

    def _with(self, part: Callable[[Float], Float]) -> Self:
        whole = (self.centers, self.errors, self.df, self.growth)
        centers, errors, df, growth = (part(values) for values in whole)
        return replace(self, centers=centers, errors=errors, df=df, growth=growth)


@dataclass(frozen=True)
class Stabilized(Method):
    """Reversion for few records or strong noise: never without a root, and at or below its mean squared error.

    For one perturbed variable with levels, or several with few combinations of them; numbers with noise have no levels. The interval is the hull of
    those around the estimate and around the one-step estimate, each with reversion's sandwich error, which around the estimate may grow
    outwards. As the records grow in number nothing is projected any more, and the estimate has reversion's limit.

    Parameters
    ----------
    splines, products : whether the regression of the released levels has natural splines of the numbers, and products of pairs; both are shrunk by a
        ridge whose strength AIC chooses. Without them it has main effects alone.
    ridge : a strength of your own, 0 for none.

    >>> import numpy as np, pramana as pr
    >>> P = pr.TransitionMatrix.binary(sensitivity=0.7, specificity=0.7)
    >>> k = np.arange(400)
    >>> x = -2 + 0.01 * k
    >>> y = (k * 0.618 % 1 < 1 / (1 + np.exp(1 - 2 * x))).astype(int)
    >>> data = {"x": x, "y": np.where(k * 0.377 % 1 < 0.3, 1 - y, y)}
    >>> result = pr.fit("y ~ x", data, pr.Mechanism({"y": P}), family="binomial", method="stabilized")
    >>> bool(0 < result.weight < 1), bool(0 < result.projected < 1)
    (True, True)
    """

    splines: bool = True
    products: bool = True
    ridge: float | None = None
    label: str = "stabilized"

    def __post_init__(self) -> None:
        given = self.ridge
        if given is not None and not (isinstance(given, int | float) and 0 <= given < np.inf):
            raise PramanaError(
                f"ridge={given!r} of Stabilized must be a number from 0 on, or None for the one that AIC chooses"
            )

    @property
    def one_by_one(self) -> bool:
        return True

    def suited(self, inference: Inference | None) -> Inference | None:
        """It has an interval of its own."""
        return inference if isinstance(inference, Sandwich) and inference.interval in ("auto", "wald") else None

    def estimate(self, task: Task) -> StabilizedResult:
        """Regress, project, solve, and step back."""
        task = task.weighing()
        options = _sandwich(task)
        channels = _channels(self, task)
        records = reverted_records(task.function, task.mechanism, task.table, collapse=False)
        reverted = task.engine(task.function.equation(records)).learned()
        _refuse_unsuited(reverted)
        released = ReleasedLevels.of(channels, task)
        plan = Regressors.of(self, records.columns, released, task.sampling)
        regression = released_regression(plan, released, task.sampling, self.ridge)
        plugged = PlugIn.of(reverted, records, released, regression, task)
        return _result(self, task, plugged, options)


# The question and its channels.


def _sandwich(task: Task) -> Sandwich:
    """The options of the standard errors; the interval is the method's own."""
    options = Sandwich() if task.options.inference is None else task.options.inference
    if task.sampling.replicates is not None:
        raise PramanaError(
            "the stabilized estimator knows no replicate weights: use a SurveyDesign with strata and clusters, or method='reversion'"
        )
    if not isinstance(options, Sandwich) or options.interval not in ("auto", "wald"):
        kind = options.interval if isinstance(options, Sandwich) else type(options).__name__
        raise PramanaError(
            f"the stabilized estimator has an interval of its own, the hull around two estimates, and no {kind!r}: leave inference= out, or "
            "use method='reversion'"
        )
    return options


def _channels(method: Stabilized, task: Task) -> list[Assignment]:
    """The perturbed columns in use, all of them with levels."""
    function, mechanism = task.function, task.mechanism
    used = [] if mechanism is None else mechanism.used_by(function.variables)
    if not used:
        raise MechanismError(
            f"the {method.label} estimator regresses a perturbed column on the others, and none of {listing(function.variables)} is perturbed: use "
            "method='reversion'"
        )
    if Free.of(mechanism, function.variables, ()) is not None:
        raise MechanismError(
            f"the {method.label} estimator needs a transition matrix without free parameters: use method='reversion'"
        )
    for assignment in used:
        assignment.refuse_reports(f"the {method.label} estimator has a model of the released levels")
        if assignment.channel.levels is None:
            raise MechanismError(
                f"the {method.label} estimator needs levels, and {listing(assignment.columns)} is a number with noise "
                f"({assignment.channel.title}): use method='reversion'"
            )
    return used


def _refuse_unsuited(engine: Engine) -> None:
    about, held = engine.about, min(engine.n, engine.sampling.present)
    if not about.smooth or about.whole:
        raise PramanaError(
            f"the stabilized estimator takes a step along the slope of the equation, and that of {about.parameters[0]!r} is a step function or rests on "
            "ranks: use method='reversion'"
        )
    if held <= engine.d:
        raise too_few(held, engine.d)


@dataclass(frozen=True)
class ReleasedLevels:
    """Which combination of levels each record was released with, and how each is reverted.

    Attributes
    ----------
    code : (n,), among the K combinations that occur.
    stratum : (n,), among the S strata of the mechanism; zeros where it has none.
    reversion : (S, K, C), signed weights of the true combinations.
    """

    code: Int
    stratum: Int
    reversion: Float

    @classmethod
    def of(cls, channels: Sequence[Assignment], task: Task) -> ReleasedLevels:
        table, variables = task.table, task.function.variables
        encoded = [assignment.encoded(table) for assignment in channels]
        code, first = _codes(encoded, table.n)
        present = [own[first] for own in encoded]
        _refuse_many_levels(channels, len(first))
        context = {name: table.column(name) for a in channels for name in a.channel.context}
        size = len(first)
        stratum, first = _codes(list(context.values()), table.n)
        strata = len(first)
        tried = Records.clean(strata * size, {})
        for levels, assignment in zip(present, channels, strict=True):
            own = {name: np.repeat(context[name][first], size) for name in assignment.channel.context}
            nodes = assignment.channel.revert(np.tile(levels, strata), own)
            tried = spread_over(tried, assignment, nodes, variables)
        return cls(code, stratum, tried.weights.reshape(strata, size, -1))

    @property
    def k(self) -> int:
        return self.reversion.shape[1]

    def of_truth(self, shares: Float) -> Float:
        """Σ_r q_r Q[r, c] (n, C) for probabilities q (n, K) of the released combinations."""
        if len(self.reversion) == 1:
            return np.asarray(shares @ self.reversion[0])
        return np.einsum("nk,nkc->nc", shares, self.reversion[self.stratum])

    def columns(self, j: int) -> Float:
        """Q[j, ·] of every record, (1 or n, C)."""
        return self.reversion[:, j] if len(self.reversion) == 1 else self.reversion[self.stratum, j]


def _codes(columns: Sequence[Column], n: int) -> tuple[Int, Int]:
    """Codes (n,) of the combinations of values in the columns, and a record of each of them."""
    import pandas as pd

    code = np.zeros(n, dtype=np.int64)
    for values in columns:
        own = pd.factorize(values, sort=True)[0]
        code = pd.factorize(code * (own.max() + 1) + own, sort=True)[0]
    place = np.empty(code.max() + 1, dtype=np.int64)
    place[code] = np.arange(n)
    return np.asarray(code), place


def _refuse_many_levels(channels: Sequence[Assignment], size: int) -> None:
    if size > LEVELS:
        names = " × ".join(c for a in channels for c in a.columns)
        raise DataError(
            f"{names} was released with {size} combinations of levels, above the limit of {LEVELS} for a regression of them: use method='reversion', fewer "
            "perturbed columns, or merged levels"
        )


# The regression of the released levels.


@dataclass(frozen=True)
class Regressors:
    """Z: intercept and main effects, by stratum of the mechanism, then what a ridge shrinks.

    Attributes
    ----------
    design : (n, q). shrunk : which columns the ridge shrinks (q,).
    words : what it is made of. left : what was left out, and why; empty where nothing was.
    """

    design: Float
    shrunk: Bool
    words: str
    left: str = ""

    @classmethod
    def of(cls, method: Stabilized, columns: Columns, released: ReleasedLevels, sampling: Sampling) -> Regressors:
        counts = np.ones(sampling.rows) if sampling.frequencies is None else sampling.frequencies
        sources = [Source.of(name, values, counts) for name, values in columns.items()]
        main = _by_stratum([column for source in sources for column in source.main], released, len(counts))
        kept = _independent(main)
        room = sampling.n / ROOM / max(released.k - 1, 1)
        if kept.sum() > room:
            raise DataError(
                f"{released.k} released levels and {int(kept.sum())} columns of clean variables ask for {(released.k - 1) * int(kept.sum())} coefficients of "
                f"{count(sampling.n)} records, and {ROOM:g} records are needed for each: merge levels, use fewer variables, or method='reversion'"
            )
        left = [f"{int(np.sum(~kept))} collinear column(s)"] if not kept.all() else []
        extra: list[Float] = []
        size, told = int(kept.sum()), ["main effects" + ("" if len(released.reversion) == 1 else " by stratum")]
        wanted = {"splines": method.splines, "products": method.products}
        made = {
            "splines": [c for s in sources for c in s.bends(_knots(sampling.n), counts)] if method.splines else [],
            "products": _products(sources, counts) if method.products else [],
        }
        for name, parts in made.items():
            if wanted[name] and parts and size + len(parts) > room:
                left.append(f"{name} ({len(parts)} columns)")
            elif parts:
                extra, size = extra + parts, size + len(parts)
                told.append(f"{name} ({len(parts)} columns)")
        design = np.column_stack([main[:, kept], *extra])
        shrunk = np.arange(design.shape[1]) >= kept.sum()
        return cls(np.ascontiguousarray(design), shrunk, ", ".join(told), " and ".join(left))

    @property
    def all_shrunk(self) -> Regressors:
        """With everything but one intercept shrunk, so that no separation leads anywhere."""
        return replace(self, shrunk=np.arange(len(self.shrunk)) > 0)


def _knots(n: float) -> int:
    """Of a spline with df = max(3, round(n^0.2)), the ends among them."""
    return max(3, round(n**0.2)) + 1


@dataclass(frozen=True)
class Source:
    """A clean variable: columns of mean 0 and variance 1, and the numbers behind them, where they are numbers."""

    main: tuple[Float, ...]
    numbers: Float | None

    @classmethod
    def of(cls, name: str, values: Column, counts: Float) -> Source:
        if values.dtype.kind in "iufb":
            x = values.astype(float)
            if not np.all(np.isfinite(x)):
                raise DataError(f"column {name!r} holds infinite or missing values: clean the data")
            return cls(tuple(_scaled(x, counts)), x)
        import pandas as pd

        codes, levels = pd.factorize(values, sort=False)
        if len(levels) > counts.sum() / ROOM:
            raise DataError(
                f"column {name!r} has {len(levels)} values, too many for a regression on {count(counts.sum())} records: recode it, or use method='reversion'"
            )
        return cls(tuple(c for k in range(1, len(levels)) for c in _scaled((codes == k).astype(float), counts)), None)

    def bends(self, knots: int, counts: Float) -> Iterator[Float]:
        """A natural cubic spline less its straight line: columns of mean 0 and variance 1, from smooth to wiggly. Few values are knots all of them."""
        if self.numbers is None:
            return
        x = self.numbers
        weights = None if counts.min() == counts.max() else counts
        places = np.unique(np.quantile(x, np.linspace(0, 1, knots), method="inverted_cdf", weights=weights))
        some = np.unique(x[:2000])
        if len(some) <= knots:
            every = np.unique(x)
            places = every if len(every) <= knots else places
        if len(places) < 3:
            return
        from scipy.interpolate import CubicSpline

        unit = (places - places[0]) / (places[-1] - places[0])
        at_knots = np.linalg.qr(np.vander(unit, increasing=True))[0][
            :, 2:
        ]  # what no straight line through the knots is
        found = CubicSpline(places, at_knots, bc_type="natural")(x)
        for column in found.T:
            yield from _scaled(column, counts)


def _scaled(column: Float, counts: Float) -> Iterator[Float]:
    """The column with mean 0 and variance 1; nothing where it is constant."""
    total = counts.sum()
    centred = column - counts @ column / total
    spread = float(np.sqrt(counts @ centred**2 / total))
    if spread > ALIASED * max(float(np.abs(column).max()), 1e-300):
        yield centred / spread


def _products(sources: Sequence[Source], counts: Float) -> list[Float]:
    pairs = ((a, b) for one, two in combinations(sources, 2) for a in one.main for b in two.main)
    return [column for a, b in pairs for column in _scaled(a * b, counts)]


def _by_stratum(main: Sequence[Float], released: ReleasedLevels, n: int) -> Float:
    """Intercept and main effects (n, ·), for each stratum of the mechanism its own: there q has another P to obey."""
    whole = np.column_stack([np.ones(n), *main])
    if len(released.reversion) == 1:
        return whole
    return np.hstack([whole, *(whole * (released.stratum == s)[:, None] for s in range(1, len(released.reversion)))])


def _independent(design: Float) -> Bool:
    """Columns (q,) that those before them do not give already."""
    r = np.abs(np.diag(np.linalg.qr(design, mode="r"))) if len(design) >= design.shape[1] else np.zeros(0)
    r = np.pad(r, (0, design.shape[1] - len(r)))
    return np.asarray(r > ALIASED * np.sqrt(np.sum(design**2, axis=0)))


@dataclass(frozen=True)
class RidgedLogit(MultinomialEquation):
    """A multinomial logit with a ridge on some columns.

    Attributes
    ----------
    ridge : (q,), strength for each column of the design and for each record, so that those of two blocks add.
    """

    ridge: Float = field(default_factory=lambda: np.zeros(1))

    @property
    def pull(self) -> Float:
        """The ridge as a matrix (m, m): 2 Σ_k |γ_k − γ̄|² over all levels, so that none of them is special; γ² where there are two."""
        return pulled(self.classes, self.n * self.ridge)

    def score_and_slope(self, betas: Float, weights: Float, rows: Int | None = None) -> tuple[Float, Float]:
        score, slope = super().score_and_slope(betas, weights, rows)
        return score - betas @ self.pull, slope - self.pull

    def objective(self, betas: Float, weights: Float) -> Float:
        return super().objective(betas, weights) - np.einsum("bi,ij,bj->b", betas, self.pull, betas) / 2

    def recession(self, direction: Float, weights: Float, reach: float) -> Float:
        """A ridge loses more than any direction gains."""
        moved = np.abs(direction) > 1e-7 * np.abs(direction).max()
        gain, _, size, count = super().recession(direction, weights, reach)
        held = np.any(moved & (np.tile(self.ridge, self.classes) > 0))
        return np.array([gain, np.inf if held else 0.0, size, count])


def pulled(classes: int, ridge: Float) -> Float:
    """2 (I − 11ᵀ/K) of the K − 1 levels but the first, for each column of the design the ridge (q,) times that."""
    return np.asarray(np.kron(2 * (np.eye(classes) - 1 / (classes + 1)), np.diag(ridge)), dtype=float)


@dataclass(frozen=True)
class ReleasedRegression:
    """The fitted regression.

    Attributes
    ----------
    shares : q (n, K). residual : indicators less q, of all levels but the first (n, K − 1).
    inverse : of the information with its ridge (m, m), for row weights `scale` times those of the records.
    """

    plan: Regressors
    shares: Float
    residual: Float
    inverse: Float
    scale: float
    strength: float
    shrunk_all: bool = False

    @property
    def words(self) -> str:
        ridge = f"; ridge {self.strength:g}" if self.plan.shrunk.any() and self.strength else ""
        return f"{self.plan.words}{ridge}"


def released_regression(
    plan: Regressors, released: ReleasedLevels, sampling: Sampling, ridge: float | None
) -> ReleasedRegression:
    """The strength of the ridge by AIC; where main effects separate the levels they are shrunk too."""
    weights = sampling.row_weights
    scale = sampling.n / float(weights.sum())  # weights of mean 1, so that a ridge means the same in any unit
    if released.k == 1:
        n = len(weights)
        return ReleasedRegression(plan, np.ones((n, 1)), np.empty((n, 0)), np.empty((0, 0)), scale, 0.0)
    try:
        return _by_aic(plan, released, weights * scale, scale, ridge)
    except SolveError:
        own = max(ridge or 0.0, STRENGTHS[0])
        return replace(_by_aic(plan.all_shrunk, released, weights * scale, scale, own), shrunk_all=True)


def _by_aic(
    plan: Regressors, released: ReleasedLevels, weights: Float, scale: float, ridge: float | None
) -> ReleasedRegression:
    """Strengths are compared by an expansion around the solution for one of them, until that one is the best."""
    names = tuple(str(k) for k in range(plan.design.shape[1]))
    indicators = np.eye(released.k)[released.code]
    plain = RidgedLogit(names, plan.design, indicators, Records.clean(len(weights), {}))
    tried = STRENGTHS if ridge is None and plan.shrunk.any() else (ridge or 0.0,)
    unit = pulled(released.k - 1, np.where(plan.shrunk, 1.0, 0.0))

    def at(strength: float) -> LocalEngine:
        return LocalEngine.of(replace(plain, ridge=strength * plan.shrunk / len(weights)), weights=weights)

    strength, beta = tried[len(tried) // 2], None
    if len(weights) >= MANY:
        beta = _of_some(at(strength))
        if beta is not None:
            strength, beta = _preferred(tried, strength, beta, at(strength), unit)[:2]
    for _ in tried:
        engine, fitted = at(strength), strength
        root = solve(engine, start=beta).beta
        strength, beta, information = _preferred(tried, fitted, root, engine, unit)
        if strength == fitted:
            break
    shares = plain.probabilities(root)
    residual = indicators[:, 1:] - shares[:, 1:]
    inverse = np.asarray(np.linalg.inv(information), dtype=float)
    return ReleasedRegression(plan, shares, residual, inverse, scale, fitted)


def _of_some(engine: LocalEngine) -> Float | None:
    """The regression of some of the records, which is near that of all of them where these are very many."""
    whole, weights = engine.equation, engine.sampling.row_weights
    assert isinstance(whole, RidgedLogit)
    some = slice(None, None, 4 * len(weights) // MANY)
    design, indicators = np.ascontiguousarray(whole.design[some]), whole.indicators[some]
    fewer = RidgedLogit(whole.names, design, indicators, Records.clean(len(design), {}), ridge=whole.ridge)
    with suppress(SolveError):
        return solve(LocalEngine.of(fewer, weights=weights[some])).beta
    return None


def _preferred(
    tried: Sequence[float], strength: float, beta: Float, engine: LocalEngine, ridge: Float
) -> tuple[float, Float, Float]:
    """The strength with the smallest AIC, −2 log L + 2 tr((H + S)⁻¹ H), log L as far as its slope and curvature H at or near the solution for one
    strength tell; about where its own solution is; and the information there, ridge and all. The ridge (m, m) is that of strength 1."""
    scores, slopes = engine.score_and_slope(beta[None], engine.own)
    score, information = scores[0], -slopes[0]
    if len(tried) == 1:
        return tried[0], beta, information
    bend, pull = information - strength * ridge, ridge @ beta
    climb = score + strength * pull

    def expanded(other: float) -> tuple[float, Float]:
        inverse = np.linalg.inv(bend + other * ridge)
        move = inverse @ (climb - other * pull)
        return float(2 * np.sum(inverse * bend) - 2 * climb @ move + move @ bend @ move), move

    found = {other: expanded(other) for other in tried}
    best = min(tried, key=lambda other: found[other][0])
    return best, beta + found[best][1], information


# The plug-in, and the step back.


@dataclass(frozen=True)
class PlugIn:
    """The root m of Σ p U, and what leads from there to reversion.

    Attributes
    ----------
    reverted, plugged : the sums of φ and of Σ_k p_k U_k. shares : p (n, C).
    phi, psi : (n, d) at m; psi with what the regression's error adds.
    """

    reverted: Engine
    plugged: Engine
    truth: Float
    shares: Float
    m: Float
    phi: Float
    psi: Float
    regression: ReleasedRegression

    @classmethod
    def of(
        cls, reverted: Engine, records: Records, released: ReleasedLevels, regression: ReleasedRegression, task: Task
    ) -> PlugIn:
        truth = released.of_truth(regression.shares)
        shares = onto_simplex(truth)
        plugged = task.engine(reverted.equation.under(records.reweighted(shares))).learned()
        try:
            m = solve(plugged, start=task.start).beta
        except SolveError as error:
            raise SolveError(f"the plug-in equation has no root: {error.marked}") from None
        phi, psi, lever = _sums_over_nodes(reverted.equation, m, truth, shares, released, regression)
        psi = psi + _through_regression(lever, regression, task.sampling.row_weights)
        return cls(reverted, plugged, truth, shares, m, phi, psi, regression)

    def slope(self, beta: Float) -> Float:
        """Σ w Σ_k p_k ∂U_k (d, d)."""
        if self.reverted.about.sums:
            return -np.eye(self.reverted.d)
        return self.plugged.score_and_slope(beta[None], self.plugged.own)[1][0]

    @property
    def sketch(self) -> PlugIn:
        """The sums over some of the records, where these are very many."""
        return replace(self, reverted=self.reverted.sketch()[0], plugged=self.plugged.sketch()[0])

    @cached_property
    def inverse(self) -> Float:
        """J⁻¹ at m, J = −Σ w p ∂U."""
        totals = replace(self.reverted.totals(self.m), slope=-self.slope(self.m))
        return bread(totals, self.reverted.about.parameters)

    @cached_property
    def step(self) -> Float:
        """D."""
        weights = self.reverted.sampling.row_weights
        return np.asarray(self.inverse @ (weights @ self.phi - (self.m if self.reverted.about.sums else 0.0)))

    @cached_property
    def evidence(self) -> tuple[float, int]:
        """T, and the number of directions that it was summed over: parameters, less those that follow from the others."""
        d, sampling = self.reverted.d, self.reverted.sampling
        own = unit_variance(self.phi @ self.inverse.T, sampling, d)
        variance = unit_variance((self.phi - self.psi) @ self.inverse.T, sampling, d) + FLOOR * own
        scale = np.sqrt(np.diag(variance))
        scale = np.where(scale > 0, scale, 1.0)
        values, axes = np.linalg.eigh(variance / np.outer(scale, scale))
        there = values > SINGULAR * max(values[-1], 1e-300)
        along = axes.T[there] @ (self.step / scale)
        return float(np.sum(along**2 / values[there])), int(there.sum())

    @property
    def weight(self) -> float:
        t, d = self.evidence
        return t / (t + PULL * d) if d else 0.0

    @property
    def moved(self) -> float:
        """Share of the records, by their weights, that were projected."""
        weights = self.reverted.sampling.row_weights
        return float(weights @ (self.truth.min(axis=1) < 0) / weights.sum())


def _sums_over_nodes(
    equation: Equation,
    beta: Float,
    truth: Float,
    shares: Float,
    released: ReleasedLevels,
    regression: ReleasedRegression,
) -> tuple[Float, Float, Float]:
    """φ = Σ_c Q[c, y*] U_c and Σ_c p_c U_c (n, d), and Σ_c U_c ∂p_c/∂η_j (K − 1, n, d), η the linear predictors of the regression.

    ∂q_r/∂η_j = q_r (1{r = j} − q_j), so that Qq moves by q_j (Q[j, ·] − Qq); on a face of the simplex the mean of the coordinates that are left is
    taken off, and the others stay 0.
    """
    inside = shares > 0
    left, rows = inside.sum(axis=1), released.code
    reverted = (
        released.reversion[released.stratum, rows] if len(released.reversion) > 1 else released.reversion[0][rows]
    )
    moves = []
    for j in range(1, released.k):
        move = np.where(inside, released.columns(j) - truth, 0.0)
        move -= np.where(inside, (move.sum(axis=1) / left)[:, None], 0.0)
        moves.append(regression.shares[:, j, None] * move)
    phi, psi = np.zeros((2, len(truth), equation.d))
    lever = np.zeros((len(moves), len(truth), equation.d))
    for c in range(truth.shape[1]):
        u = equation.at_node(beta, c)
        phi += reverted[:, c, None] * u
        psi += shares[:, c, None] * u
        for j, move in enumerate(moves):
            lever[j] += move[:, c, None] * u
    return phi, psi, lever


def _through_regression(lever: Float, regression: ReleasedRegression, weights: Float) -> Float:
    """G·IF of every record (n, d), for a weight of 1: G = Σ w Σ_c U_c ∂p_c/∂γ."""
    design, classes = regression.plan.design, len(lever)
    if not classes:
        return np.zeros((1, lever.shape[2]))
    weighted = design * weights[:, None]
    g = np.hstack([part.T @ weighted for part in lever])  # (d, (K − 1) q)
    path = np.split(g @ regression.inverse * regression.scale, classes, axis=1)
    return np.asarray(sum(regression.residual[:, j, None] * (design @ path[j].T) for j in range(classes)))


def unit_variance(values: Float, sampling: Sampling, d: int) -> Float:
    """The variance of Σ w v for rows v (n, d): squares of records, clusters or sampling units around their mean."""
    if sampling.clusters is not None:
        sums = by_group(values * sampling.row_weights[:, None], sampling.clusters, sampling.groups or 0)
        if sampling.strata is not None:
            return sampling.strata.between(sums)
        centred = sums - sums.mean(axis=0)
        return np.asarray(centred.T @ centred * len(sums) / (len(sums) - 1))
    own, counts = (np.ones(len(values)) if v is None else v for v in (sampling.weights, sampling.frequencies))
    n, rows = counts.sum(), values * own[:, None]
    centred = rows - counts @ rows / n
    return np.asarray((centred * counts[:, None]).T @ centred * n / (n - d))


# The result.


@dataclass(frozen=True)
class _Error:
    """Reversion's sandwich at some value: covariance (d, d) and degrees of freedom (d,)."""

    covariance: Float
    df: Float
    corrected: bool

    @property
    def errors(self) -> Float:
        return np.sqrt(np.clip(np.diag(self.covariance), 0.0, None))


def _linear_at(plugged: PlugIn, beta: Float) -> Linear:
    """With the bread of p, which is well conditioned where reversion's own is not."""
    totals = plugged.reverted.totals(beta, plugged.slope(beta))
    return Linear(totals, bread(totals, plugged.reverted.about.parameters))


def _error_at(plugged: PlugIn, beta: Float, options: Sandwich) -> _Error:
    engine, linear = plugged.reverted, _linear_at(plugged, beta)
    small = small_sample(engine, beta, linear, always=options.correction == "HC2") if options.small_sample else None
    design = engine.sampling.degrees_of_freedom
    if small is not None:
        return _Error(small.blanked(small.covariance), small.df, True)
    df = np.full(engine.d, np.inf if design is None else design)
    return _Error(sandwich_covariance(linear.totals, linear.inverse, engine, options), df, False)


def _growth(plugged: PlugIn, beta: Float, errors: Float) -> Float:
    """Half of what a standard error (d,) grows by on the way of one of them, downwards and upwards (2, d); 0 where it does not grow.

    An estimate that happens to be small can have an error that is too small to reach back. With an error that depends on the parameter the end of an
    interval is where ∫ dβ/se = t: to second order that is t times the mean of the errors here and there. The other parameters move along as they do
    by chance.
    """
    part, out = plugged.sketch, np.zeros((2, len(beta)))
    if part.reverted.about.sums:
        return out
    with suppress(SolveError, np.linalg.LinAlgError):
        covariance = _linear_at(part, beta).covariance
        for j in np.flatnonzero(np.diag(covariance) > 0).tolist():
            move = OUT * errors[j] * covariance[:, j] / covariance[j, j]
            grown = [_grown(part, beta + sign * move, j, covariance[j, j]) for sign in (-1.0, 1.0)]
            out[:, j] = np.array(grown) * errors[j] / (2 * OUT)
    return out


def _grown(plugged: PlugIn, beta: Float, j: int, variance: float) -> float:
    """By which share the error of a parameter is larger at another value than the root of a variance; 0 where it is not, or has no value."""
    with suppress(SolveError, np.linalg.LinAlgError):
        ratio = float(_linear_at(plugged, beta).covariance[j, j]) / variance
        return max(np.sqrt(ratio) - 1, 0.0) if np.isfinite(ratio) and ratio > 0 else 0.0
    return 0.0


def _result(method: Stabilized, task: Task, plugged: PlugIn, options: Sandwich) -> StabilizedResult:
    engine, about = plugged.reverted, plugged.reverted.about
    (t, size), w = plugged.evidence, plugged.weight
    b, o = plugged.m + w * plugged.step, plugged.m + plugged.step
    own, other = _error_near(plugged, b, options), _error_near(plugged, o, options)
    growth = _growth(plugged, b, own.errors)
    limits = Hull(
        np.stack([b, o]),
        np.stack([own.errors, other.errors]),
        np.stack([own.df, other.df]),
        np.stack([growth, np.zeros_like(growth)]),
        options.level,
    )
    result = StabilizedResult(
        parameters=about.parameters,
        estimate=b,
        covariance=own.covariance,
        n=engine.n,
        method=method.label,
        inference=_in_words(engine, own, options),
        interval_kind=limits.kind,
        diagnostics=(*task.notes, *_remarks(plugged, own, options, b)),
        unsplit="that takes method='reversion'",
        limits=limits,
        facts={
            **task.plan.facts,
            **task.facts,
            **about.facts,
            "Released levels on": plugged.regression.words,
            "Records projected": f"{plugged.moved:.1%}",
            "Weight of the step": f"w = {w:.3f} (T = {t:.3g}, {size} directions)",
        },
        frame_kind=task.table.kind,
        df=None if np.isinf(own.df).all() else own.df,
        exponentials=about.exponentials,
        log_scale=task.plan.log_scale,
        model=Prediction.of(task.function.prediction),
        plug_in=plugged.m,
        one_step=o,
        evidence=t,
        weight=w,
        projected=plugged.moved,
    )
    return _shown(result, engine)


def _error_near(plugged: PlugIn, beta: Float, options: Sandwich) -> _Error:
    """The error at a value, or at the plug-in where a long step has led to one at which U has no slope, as for thresholds out of order."""
    with suppress(SolveError, np.linalg.LinAlgError):
        found = _error_at(plugged, beta, options)
        if np.any(np.isfinite(found.errors)):
            return found
    return _error_at(plugged, plugged.m, options)


def _shown(result: StabilizedResult, engine: Engine) -> StabilizedResult:
    """In the unit and for the parameters that a result lists, with m and o among its facts."""
    about = engine.about
    size = 1.0 if about.size is None else about.size
    found: Any = result if about.size is None else multiplied(result, size)
    found = found if about.shown is None else shown_only(found, about.shown)
    kept = [result.parameters.index(name) for name in found.parameters]
    m, o = result.plug_in[kept] * size, result.one_step[kept] * size
    facts = {**found.facts, "Plug-in m": _listed(found.parameters, m), "One step o": _listed(found.parameters, o)}
    found = replace(found, plug_in=m, one_step=o, facts=facts)
    return replace(found, diagnostics=(*found.diagnostics, *wholly_outside(engine, found)))


def _listed(names: Sequence[str], values: Float, most: int = 6) -> str:
    shown = ", ".join(f"{name} {value:.4g}" for name, value in zip(names[:most], values, strict=False))
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _in_words(engine: Engine, error: _Error, options: Sandwich) -> str:
    sampling = engine.sampling
    by = "" if sampling.groups is None else f", {sampling.groups} clusters"
    if sampling.strata is not None:
        kind = f"linearised for the design ({len(sampling.strata.fraction)} strata, {sampling.groups} sampling units)"
    else:
        name = options.correction or ("HC2" if error.corrected else "HC0")
        kind = f"reversion's sandwich ({name.replace('HC', 'CR') if by else name}{by})"
    return f"{kind}, hull of the intervals around estimate and one step"


def _remarks(plugged: PlugIn, own: _Error, options: Sandwich, b: Float) -> list[Diagnostic]:
    """What the analyst should know."""
    engine, plan, w = plugged.reverted, plugged.regression.plan, plugged.weight
    out = [Diagnostic(*note) for note in engine.remarks(b, own.covariance)]  # type: ignore[arg-type]
    if plan.left:
        message = f"the regression of the released levels was made smaller, for {count(engine.n)} records: without {plan.left}"
        out.append(Diagnostic("smaller-regression", "info", message))
    if plugged.regression.shrunk_all:
        message = (
            "the clean variables separate the released levels, so that their main effects were shrunk too (ridge "
            f"{plugged.regression.strength:g}): some levels are rare, or a variable tells them apart"
        )
        out.append(Diagnostic("separation", "warning", message))
    if w > LARGE:
        message = (
            f"the released data object to the plug-in (T = {plugged.evidence[0]:.3g} in {plugged.evidence[1]} directions, w = {w:.2f}): the estimate is "
            "close to reversion's one step, and little is gained over method='reversion'"
        )
        out.append(Diagnostic("plug-in-rejected", "info", message))
    if engine.sampling.strata is not None:
        return out
    groups = engine.sampling.live_groups
    return out + (
        too_few_clusters(groups) if options.small_sample else few_clusters(groups, "use inference=pr.Sandwich()")
    )
