"""An estimating function bound to records: every hook that solver and inference may call, with its default."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias, final

import numpy as np

from pramana.arrays import Float, Int
from pramana.kernels.blocks import gram
from pramana.kernels.predictor import Grouped

Note: TypeAlias = tuple[str, str, str]
"""Code, severity and message of a diagnostic."""


@dataclass(frozen=True)
class About:
    """What an equation says of itself: to whoever looks for its root, weighs its variance, adds up its records, or shows its result.

    Attributes
    ----------
    parameters : names (d).
    shown : the parameters that a result lists; the others are nuisance, whose uncertainty stays in the covariance.

    Of the root:

    smooth : has a derivative; a step function has none and is resampled.
    rising : the parameters that must rise from one to the next, as thresholds do, or None.
    fades : the score may also vanish at infinity, where its slope does: that is no root.
    patched : the score is made of several approximations, one after the other as β grows, and its slope leaves out how one gives way to the next.
    reach : how far noise can be undone, for whoever searches a root in vain; empty where there is no end to it.
    thinned : a first root of some of the records, as `rows` with a step gives them, pays where there are very many.
    curved : a batch of draws gains from the curvature of the score at their common start, as smooth sums do that are quick to
        evaluate there.

    Of the variance:

    sums : the parameters are the sums Σ w φ themselves, of a φ without β; their variance is around the mean of the units.
    of_means : gives the terms of the records, where the parameters are functions of their means; None elsewhere.
    profiled : every parameter can be tested with the others solved for, which score intervals need.
    inverted : the direct solution knows where the score takes other values than zero, as Woodruff's intervals of quantiles ask.
    sharp : the equation by whose score a variance is summed: the one without a kernel that served to find the root; None where it is this one.
    averaged : for a score that bends within a standard error of its root, covariance (d, d) of normal deviations of β ↦ the equation whose
        score is averaged over them, of which the slope is taken; None for other scores.
    curvatures : blocks of parameters whose slope would be negative definite without noise, as in a regression, and which tell
        whether the noise has left anything to estimate. (None,): the whole slope, of either sign, where it is symmetric.
    judge : the equation by which identification is judged: another one with the same regressors, where more records tell
        about them; None where it is this one.

    Of the records:

    nodes : candidate true values that sums run over within a record; with the number of parameters it says how large a block
        of records may be to fit a cache.
    whole : needs all records at once (ranks, sorted values); other equations add up over blocks of records.
    ranked : the parameters are quantiles of the records' own numbers: sums in bins and the records near the quantiles tell them too.

    scale : what is learned from a sum over the released records, and would be from some of them else; None where nothing is.

    Of the result:

    facts : what was chosen and how, for the head.
    size : the known size of a population that the result is multiplied by, or None.
    plausible : smallest and largest value that makes sense, or None.
    tables : consecutive groups of this many shown parameters are shares, or counts, of one table; None elsewhere.
    exponentials : what the exponentials of the shown parameters are called, where their names change; else None.
    linear : U = x (y − xᵀβ) with an intercept among the x, so that R² can be told.
    free : parameters of the mechanism that are estimated along with those of the question, and listed after them.
    """

    parameters: tuple[str, ...]
    shown: tuple[str, ...] | None = None

    smooth: bool = True
    rising: slice | None = None
    fades: bool = False
    patched: bool = False
    reach: str = ""
    thinned: bool = False
    curved: bool = False

    sums: bool = False
    of_means: Callable[[], Quotients | OfMeans] | None = None
    profiled: bool = True
    inverted: bool = False
    sharp: Equation | None = None
    averaged: Callable[[Float], Equation] | None = None
    curvatures: tuple[slice | None, ...] = (None,)
    judge: Equation | None = None

    nodes: int = 1
    whole: bool = False
    ranked: bool = False
    scale: LearnedScale | None = None

    facts: Mapping[str, str] = field(default_factory=dict)
    size: float | None = None
    plausible: tuple[float, float] | None = None
    tables: int | None = None
    exponentials: tuple[str, ...] | None = None
    linear: bool = False
    free: tuple[str, ...] = ()


@dataclass(frozen=True)
class Quotients:
    """Parameters Σ w a* / Σ w b* of terms a* and b* (n, d); sums are W times the mean of a*, with b* = 1."""

    above: Float
    below: Float


Constraint: TypeAlias = Callable[[Any, float], Any]
"""Means (m,) and a value ↦ a number that is 0 where the parameter has that value; written so that it also takes complex means."""


@dataclass(frozen=True)
class OfMeans:
    """Parameters that are smooth functions of the means of terms (n, m), within a domain where there is one.

    Attributes
    ----------
    constraints : one for each parameter that is shown.
    member : how much of a record is in the domain (n,); None where everything counts.
    """

    terms: Float
    constraints: tuple[Constraint, ...]
    member: Float | None = None


@dataclass(frozen=True)
class Regression:
    """Regressors (n, p) and a response (n,) with weights (n,), which are 0 for records that do not count."""

    x: Float
    y: Float
    weights: Float


@dataclass(frozen=True)
class LearnedScale:
    """A scale that is learned from released records: the spread of the residuals of least squares.

    Attributes
    ----------
    regression : row weights (n,) ↦ what the residuals are of.
    told : the spread, and of how many records ↦ the equation with that scale.
    """

    regression: Callable[[Float], Regression]
    told: Callable[[float, float], Equation]


class Direct(ABC):
    """A root without iteration, from sums over records."""

    @abstractmethod
    def moments(self, weights: Float) -> Float:
        """Sums (B, k) under row weights (B, n); those of two blocks add. An equation that needs all records returns what it
        likes, for there is one block."""

    @abstractmethod
    def solution(self, moments: Float) -> Float:
        """Roots (B, d); NaN where there is none."""

    @abstractmethod
    def refusal(self, moments: Float) -> str:
        """Why moments (k,) have no root."""

    def inverted(self, scores: Float, moments: Float) -> Float:
        """β (m, d) at which the score takes given values (m, d) under moments (k,), for parameters of which each has a score of its own that
        falls as it rises; infinite where it takes them nowhere. For equations that say so."""
        raise NotImplementedError("the score of this equation is not inverted")

    def divisors(self, beta: Float, covariance: Float) -> dict[str, float]:  # noqa: ARG002
        """What a function of moments divides by or takes the logarithm of, in standard errors from zero at the root, whose covariance
        is (d, d), by name; empty where the slope tells how well the parameters are identified."""
        return {}

    def debiased(self, beta: Float, covariance: Float) -> Float:  # noqa: ARG002
        """β without the bias that its curvature and covariance imply, where the plan asks for that."""
        return beta


class Ascent(ABC):
    """The concave objective whose gradient the score is."""

    @abstractmethod
    def objective(self, betas: Float, weights: Float) -> Float:
        """(B,)."""

    @abstractmethod
    def reach(self, direction: Float) -> float:
        """The farthest that a linear predictor of these records moves along the direction."""

    @abstractmethod
    def recession(self, direction: Float, weights: Float, reach: float) -> Float:
        """Far out along the direction: sums of what the objective gains, what it loses, the size of both, and how many records
        move at all, which is more than rounding next to `reach`, that of all records. Gain that is never below loss means that
        no finite root exists."""


@dataclass(frozen=True)
class FirstStage:
    """An easier equation over the same records, from whose root a search starts.

    Attributes
    ----------
    sums : (root, row weights) ↦ sums over the records; those of two blocks add. None where the root is enough, be it that of some of the records.
    completed : (root, sums, or no numbers) ↦ a starting value (d,), or a SolveError that says why there is no other root.
    needed : without its root there is none of the whole.
    """

    equation: Equation
    sums: Callable[[Float, Float], Float] | None = None
    completed: Callable[[Float, Float], Float] = lambda root, _: root
    needed: bool = False


class Equation(ABC):
    """φ_i(β) of some records, and sums of them. B is the number of weight draws at once.

    A subclass must say what it is `about`, how to be cut into blocks (`rows`) and put `under` another measure, and its
    `influence`; every other method has a default that follows from these, to be replaced where something faster or more exact
    is known. All sums of two blocks add.
    """

    records: Any
    """The measure over nodes that the equation is bound to; it can be softened towards the naive one."""

    @property
    @abstractmethod
    def about(self) -> About: ...

    @property
    @final
    def n(self) -> int:
        return int(self.records.n)

    @property
    @final
    def d(self) -> int:
        return len(self.about.parameters)

    @abstractmethod
    def rows(self, rows: slice) -> Self:
        """The equation of some of the records; a step other than 1 is asked of those alone that say they can be `thinned`."""

    @abstractmethod
    def under(self, records: Any) -> Self:
        """The equation of the same records and nodes under another measure; what was learned or linearised from this one is kept
        until it is `learned` anew."""

    @final
    def softened(self, t: float) -> Self:
        """A share t of the noise undone: t = 0 is the naive equation, t = 1 this one."""
        return self.under(self.records.softened(t))

    @abstractmethod
    def influence(self, beta: Float) -> Float:
        """φ (n, d): the sum over a record's nodes, taken before any outer product."""

    @final
    def at_node(self, beta: Float, k: int) -> Float:
        """U (n, d) with the records' k-th combination of hidden values for the truth; φ is their sum under signed weights."""
        return self.under(self.records.pinned(k)).influence(beta)

    def learned(self, weights: Float, size: float) -> Self:  # noqa: ARG002
        """With what is learned from the released records (bandwidths, where the search starts), at row weights (n,) that are
        worth `size` equal records."""
        return self

    def taught(self, by: Self) -> Self:  # noqa: ARG002
        """With what an equation of other records has `learned`."""
        return self

    @property
    def first(self) -> FirstStage | None:
        """What is solved before, or None."""
        return None

    def start(self, weights: Float) -> Float:  # noqa: ARG002
        """A starting value (d,) where nothing was solved before."""
        return np.zeros(self.d)

    @property
    def direct(self) -> Direct | None:
        """The way to the root without iteration, or None."""
        return None

    @property
    def ascent(self) -> Ascent | None:
        """The concave objective, or None where the score is not the gradient of one."""
        return None

    def grouped(self, groups: int) -> Grouped | None:  # noqa: ARG002
        """The records as so many data sets of one size that lie one after the other, for kernels that sum all of them at once, here
        or on a device; None where there are no such kernels."""
        return None

    @final
    def means(self) -> Quotients | OfMeans:
        """The terms of the records, for parameters that are functions of their means."""
        assert self.about.of_means is not None
        return self.about.of_means()

    @final
    def score(self, betas: Float, weights: Float) -> Float:
        """Σ w φ, (B, d) for betas (B, d) and row weights (B, n)."""
        with np.errstate(all="ignore"):
            return np.stack([w @ self.influence(b) for b, w in zip(betas, weights, strict=True)])

    def slope(self, beta: Float, weights: Float) -> Float:
        """Σ w ∂φ/∂β (d, d), by central differences unless a subclass knows better; to be asked for through `score_and_slope`, which may be
        all that a subclass knows."""
        return central_slopes(lambda b: np.asarray(weights @ self.influence(b)), beta)

    def score_and_slope(self, betas: Float, weights: Float, rows: Int | None = None) -> tuple[Float, Float]:
        """(B, d) and (B, d, d); `rows` picks the rows of the weights that belong to the betas, all of them by default. One β
        serves all weights."""
        betas, weights = paired(betas, weights, rows)
        slopes = [self.slope(b, w) for b, w in zip(betas, weights, strict=True)]
        return self.score(betas, weights), np.stack(slopes)

    def outer(self, beta: Float, weights: Float) -> Float:
        """Σ w φφᵀ (d, d)."""
        with np.errstate(all="ignore"):
            return gram(self.influence(beta), weights)

    def clean_outer(self, beta: Float, weights: Float) -> Float:
        """Reverted Σ w U Uᵀ (d, d); where nothing is reverted, Σ w φφᵀ."""
        return self.outer(beta, weights)

    def sums(self, beta: Float, weights: Float, squares: Float) -> tuple[Float, Float, Float, Float, Float]:
        """Σ w φ (d,), Σ w ∂φ, Σ w₂ φφᵀ and the reverted Σ w₂ UUᵀ (d, d), for row weights w and w₂ (n,); and Σ (w₂ φ²)² (d,), which
        tells how few records a variance may rest on."""
        phi = self.influence(beta)
        slope = self.score_and_slope(beta[None], weights[None])[1][0]
        with np.errstate(all="ignore"):
            fourth = np.sum((phi**2 * squares[:, None]) ** 2, axis=0)
        return weights @ phi, slope, gram(phi, squares), self.clean_outer(beta, squares), fourth

    @final
    def record_slopes(self, beta: Float) -> Float:
        """∂φ_i/∂β (n, d, d)."""
        units = np.eye(self.d)
        pairs = self.record_slopes_along(beta, np.repeat(units, self.d, axis=0), np.tile(units, (self.d, 1)))
        return np.ascontiguousarray(pairs.T).reshape(self.n, self.d, self.d)

    def record_slopes_along(self, beta: Float, lefts: Float, rights: Float) -> Float:
        """leftᵀ (∂φ_i/∂β) right (k, n) for several pairs of directions (k, d), by central differences unless a subclass knows better."""
        out, scale = np.empty((len(lefts), self.n)), np.maximum(np.abs(beta), 0.1)
        places: dict[bytes, list[int]] = {}
        for k, right in enumerate(rights):
            places.setdefault(right.tobytes(), []).append(k)
        with np.errstate(all="ignore"):
            for own in places.values():
                right = rights[own[0]]
                step = 1e-5 / max(float(np.max(np.abs(right) / scale)), 1e-300)
                moved = (self.influence(beta + step * right) - self.influence(beta - step * right)) / (2 * step)
                out[own] = lefts[own] @ moved.T
        return out

    def slope_parts(self, beta: Float) -> tuple[Float, Float] | None:  # noqa: ARG002
        """Vectors x (n, q, d) and values v (n, q) with ∂φ_i/∂β = Σ v x xᵀ, for equations whose records have slopes of so low a rank."""
        return None

    def left_slopes(self, betas: Float, lefts: Float, weights: Float) -> Float:
        """Σ w leftᵀ ∂φ/∂β (B, d) at several values (B, d), each with a direction of its own (B, d), for row weights (n,)."""
        alike = np.zeros(len(betas), dtype=np.int64)
        slopes = self.score_and_slope(betas, weights[None], alike)[1]
        return np.asarray(np.einsum("bi,bik->bk", lefts, slopes))

    def remarks(self, beta: Float, weights: Float, covariance: Float, squares: Float) -> list[Note]:  # noqa: ARG002
        """What the analyst should know at the root, whose covariance is (d, d); `squares` are the weights of the rows in a variance (n,)."""
        return []


def paired(betas: Float, weights: Float, rows: Int | None) -> tuple[Float, Float]:
    """Parameter values (B, d) with the row weights (B, n) of each; one value serves all weights."""
    weights = weights if rows is None else weights[rows]
    return np.broadcast_to(betas, (len(weights), betas.shape[1])), weights


def central_slopes(function: Callable[[Float], Float], beta: Float) -> Float:
    """Central differences with one Richardson step: error of order h⁴."""
    out = np.empty((*function(beta).shape, beta.size))
    for j in range(beta.size):
        step = 1e-3 * max(abs(beta[j]), 0.1)
        coarse, fine = _central(function, beta, j, step), _central(function, beta, j, step / 2)
        out[..., j] = (4 * fine - coarse) / 3
    return out


def _central(function: Callable[[Float], Float], beta: Float, j: int, step: float) -> Float:
    move = np.zeros_like(beta)
    move[j] = step
    difference: Float = (function(beta + move) - function(beta - move)) / (2 * step)
    return difference
