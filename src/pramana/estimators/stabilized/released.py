"""The released levels, how they are reverted, and their regression on everything that was not perturbed: a multinomial logit with a ridge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from pramana.analysis.task import Task
from pramana.arrays import Bool, Column, Columns, Float, Int
from pramana.engines import LocalEngine, Sampling
from pramana.errors import DataError, SolveError
from pramana.estimating import Equation, Records
from pramana.estimators.reversion import spread_over
from pramana.inference import solve
from pramana.mechanism import Assignment
from pramana.models.multinomial import MultinomialEquation
from pramana.numbers import count

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
APART = 1e-5
"""Share of a regressor of the question that main effects leave over, below which it is none of its own."""
SOME = 2000
"""Records that tell whether U moves by the same at every value of the parameters."""
NEAR = 1e-3
"""Way to another value of the parameters at which U is asked whether it moves by the same."""


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

    @property
    def exact(self) -> bool:
        """Whether every released combination tells the true one, as where P is the identity: then there is nothing to guess."""
        return bool(np.all((self.reversion == 0) | (self.reversion == 1)) and np.all(self.reversion.sum(axis=2) == 1))

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


# The clean variables.


@dataclass(frozen=True)
class Regressors:
    """Z: intercept, main effects and the question's own regressors, by stratum of the mechanism, then what a ridge shrinks.

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
    def of(
        cls,
        columns: Columns,
        released: ReleasedLevels,
        sampling: Sampling,
        *,
        splines: bool,
        products: bool,
        moves: Iterable[Float] = (),
    ) -> Regressors:
        """`moves` are columns (n, ·) of the question's own, as `moved_along` finds them."""
        counts = np.ones(sampling.rows) if sampling.frequencies is None else sampling.frequencies
        sources = [CleanVariable.of(name, values, counts) for name, values in columns.items()]
        effects = [column for source in sources for column in source.main]
        own = _beyond(effects, moves, counts)
        room = sampling.n / ROOM / (released.k - 1) if released.k > 1 else np.inf
        main = _by_stratum([*effects, *own], released, len(counts))
        kept, left, told = _independent(main), [], ["main effects"]
        if own and kept.sum() > room:
            left.append(f"the question's own regressors ({len(own)} columns)")
            own, main = [], _by_stratum(effects, released, len(counts))
            kept = _independent(main)
        if kept.sum() > room:
            raise DataError(
                f"{released.k} released levels and {int(kept.sum())} columns of clean variables ask for {(released.k - 1) * int(kept.sum())} coefficients of "
                f"{count(sampling.n)} records, and {ROOM:g} records are needed for each: merge levels, use fewer variables, or method='reversion'"
            )
        if not kept.all():
            left.append(f"{int(np.sum(~kept))} collinear column(s)")
        extra: list[Float] = []
        size = int(kept.sum())
        told[0] += f" and the question's own regressors ({len(own)} columns)" if own else ""
        told[0] += "" if len(released.reversion) == 1 else " by stratum"
        made = {
            "splines": [c for s in sources for c in s.bends(_knots(sampling.n), counts)] if splines else [],
            "products": _products(sources, counts) if products else [],
        }
        for name, parts in made.items():
            if parts and size + len(parts) > room:
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

    @property
    def independent(self) -> Regressors:
        """Without columns that those before them give, which only a ridge can tell apart."""
        kept = _independent(self.design)
        return self if kept.all() else replace(self, design=self.design[:, kept], shrunk=self.shrunk[kept])


def _knots(n: float) -> int:
    """Of a spline with df = max(3, round(n^0.2)), the ends among them."""
    return max(3, round(n**0.2)) + 1


@dataclass(frozen=True)
class CleanVariable:
    """A clean variable: columns of mean 0 and variance 1, and the numbers behind them, where they are numbers.

    Attributes
    ----------
    main : without one of the levels. factors : what products are made of; all levels, so that the ridge treats none of them as another.
    """

    main: tuple[Float, ...]
    factors: tuple[Float, ...]
    numbers: Float | None

    @classmethod
    def of(cls, name: str, values: Column, counts: Float) -> CleanVariable:
        if values.dtype.kind in "iufb":
            x = values.astype(float)
            if not np.all(np.isfinite(x)):
                raise DataError(f"column {name!r} holds infinite or missing values: clean the data")
            main = tuple(_scaled(x, counts))
            return cls(main, main, x)
        import pandas as pd

        codes, levels = pd.factorize(values, sort=False)
        if len(levels) > counts.sum() / ROOM:
            raise DataError(
                f"column {name!r} has {len(levels)} values, too many for a regression on {count(counts.sum())} records: recode it, or use method='reversion'"
            )
        first, *others = (tuple(_scaled((codes == k).astype(float), counts)) for k in range(len(levels)))
        main = tuple(column for other in others for column in other)
        return cls(main, (*first, *main) if len(main) > 1 else main, None)

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
        bent = np.linalg.qr(np.vander(unit, increasing=True))[0][:, 2:]  # what no straight line through the knots is
        found = CubicSpline(places, bent, bc_type="natural")(x)
        for column in found.T:
            yield from _scaled(column, counts)


def _scaled(column: Float, counts: Float) -> Iterator[Float]:
    """The column with mean 0 and variance 1; nothing where it is constant."""
    total = counts.sum()
    centred = column - counts @ column / total
    spread = float(np.sqrt(counts @ centred**2 / total))
    if spread > ALIASED * max(float(np.abs(column).max()), 1e-300):
        yield centred / spread


def moved_along(equation: Equation, beta: Float, combinations: int) -> Iterator[Float]:
    """What U moves by from the first of the true combinations to each of the others (n, d), where that is the same at every β; nothing elsewhere.

    These are the regressors of a formula whose response is perturbed and whose link is canonical. With them in Z, unshrunk, Σ (1{y*} − q) times them is 0, and the
    plug-in is reversion as long as nothing is projected.
    """
    nodes = range(1, combinations)

    def moves(of: Equation, at: Float) -> Iterator[Float]:
        first = of.at_node(at, 0)
        return (of.at_node(at, c) - first for c in nodes)

    some, other = equation.rows(slice(0, SOME)), beta + NEAR * (1 + np.abs(beta))
    with np.errstate(all="ignore"):
        for here, there in zip(moves(some, beta), moves(some, other), strict=True):
            if not np.abs(here - there).max(initial=0.0) <= ALIASED * NEAR * np.abs(here).max(initial=0.0):
                return
        yield from moves(equation, beta)


def _beyond(effects: Sequence[Float], moves: Iterable[Float], counts: Float) -> list[Float]:
    """The columns among the moves, of mean 0 and variance 1, that neither main effects nor those before them give."""
    out: list[Float] = []
    basis: Float | None = None
    for column in (c for several in moves for own in several.T for c in _scaled(own, counts)):
        if basis is None:
            plain = np.column_stack([np.ones(len(counts)), *effects])
            basis = np.linalg.qr(plain[:, _independent(plain)])[0]
        left = column - basis @ (basis.T @ column)
        left -= basis @ (basis.T @ left)
        if np.linalg.norm(left) > APART * np.linalg.norm(column):
            out.append(column)
            basis = np.column_stack([basis, left / np.linalg.norm(left)])
    return out


def _products(sources: Sequence[CleanVariable], counts: Float) -> list[Float]:
    pairs = ((a, b) for one, two in combinations(sources, 2) for a in one.factors for b in two.factors)
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


# The regression.


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
    if released.k == 1 or released.exact:
        known, size = np.eye(released.k)[released.code], (released.k - 1) * plan.design.shape[1]
        return ReleasedRegression(plan, known, 0 * known[:, 1:], np.zeros((size, size)), scale, 0.0)
    try:
        return _by_aic(plan.independent if ridge == 0 else plan, released, weights * scale, scale, ridge)
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
