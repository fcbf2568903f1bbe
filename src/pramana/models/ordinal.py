"""Proportional odds: logit Pr(y ≤ k | x) = θ_k − xᵀβ, with thresholds θ_1 < … < θ_{K−1}."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from pramana.arrays import Float, Int
from pramana.errors import FormulaError, SolveError, quoted
from pramana.estimating.cells import factor_of, refuse_unordered
from pramana.estimating.products import FromColumns
from pramana.estimating.system import StackedFunction, System
from pramana.formulas.design import FormulaDesign
from pramana.formulas.functions import Functions, own_functions
from pramana.frames import Schema, Table
from pramana.models.classes import ClassQuestion
from pramana.models.prediction import ClassPrediction


@dataclass(frozen=True)
class OrdinalSystem(System):
    """Scores of the thresholds and of the coefficients, for one class at a time.

    Attributes
    ----------
    levels : names of the classes in order (K).
    terms : names of the design's columns, without an intercept (q).
    design_of, code_of : columns ↦ (n, q) and ↦ positions of the response among the levels (n,).
    """

    levels: tuple[str, ...]
    terms: tuple[str, ...]
    design_of: FromColumns
    code_of: Callable[[Mapping[str, object], int], Int]

    @property
    def prediction(self) -> ClassPrediction | None:
        """None for a design that did not come from a formula."""
        if not isinstance(self.design_of, Slopes):
            return None
        whole, nothing = self.design_of.design, (frozenset[str](),)
        reads = (*(nothing * self.cuts), *(whole.parts[j].reads for j in self.design_of.kept))
        return ClassPrediction(whole, self.levels, ordered=True, reads=reads)

    @property
    def parameters(self) -> tuple[str, ...]:
        pairs = zip(self.levels[:-1], self.levels[1:], strict=True)
        return (*(f"{low}|{high}" for low, high in pairs), *self.terms)

    @property
    def cuts(self) -> int:
        return len(self.levels) - 1

    @property
    def rising(self) -> slice:
        return slice(self.cuts)

    @property
    def curvatures(self) -> tuple[slice, ...]:
        return (slice(None),)

    def arrays(self, columns: Mapping[str, object], n: int) -> dict[str, Float]:
        return {"design": self.design_of(columns, n), "code": self.code_of(columns, n).astype(float)}

    @property
    def designs(self) -> dict[str, tuple[str, ...]]:
        return {"design": self.terms} if self.terms else {}

    def start(self, arrays: Mapping[str, Float], weights: Float) -> Float:
        """No effect, and thresholds at the reverted cumulative shares."""
        shares = np.bincount(arrays["code"].astype(int), weights, minlength=len(self.levels)) / weights.sum()
        if np.any(shares <= 0):
            k = int(np.argmin(shares))
            raise SolveError(
                f"the reverted share of level {quoted(repr(self.levels[k]))} is {shares[k]:.3g}, so that its thresholds would be out of "
                "order: merge it with a neighbour, or use more data"
            )
        return np.concatenate([logit(np.cumsum(shares)[:-1]), np.zeros(len(self.terms))])

    def u(self, beta: Float, arrays: Mapping[str, Float]) -> Float:
        """Gradient of log p_y; not a number where thresholds are out of order, so that no step ends there."""
        upper, lower, p = self._ends(beta, arrays)
        rows, code = np.arange(len(p)), arrays["code"].astype(int)
        above, below = _density(upper) / p, -_density(lower) / p
        out = np.zeros((len(p), self.cuts + 2))
        out[rows, code + 1] = above  # the first and the last of these columns stand for the thresholds ±∞
        out[rows, code] = below
        return np.column_stack([out[:, 1:-1], -(above + below)[:, None] * arrays["design"]])

    def slope(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        upper, lower, p = self._ends(beta, arrays)
        above, below = _density(upper) / p, -_density(lower) / p
        bends = (_bend(upper) / p - above**2, -_bend(lower) / p - below**2, -above * below)
        aa, bb, ab = (weights * bend for bend in bends)
        code, x, q = arrays["code"].astype(int), arrays["design"], len(self.terms)
        size = self.cuts + 2
        full = np.zeros((size + q, size + q))
        for k in range(len(self.levels)):
            here = code == k
            full[k + 1, k + 1] += aa[here].sum()
            full[k, k] += bb[here].sum()
            full[k, k + 1] = full[k + 1, k] = ab[here].sum()
            full[k + 1, size:] -= (aa + ab)[here] @ x[here]
            full[k, size:] -= (bb + ab)[here] @ x[here]
        full[size:, :size] = full[:size, size:].T
        full[size:, size:] = (x * (aa + bb + 2 * ab)[:, None]).T @ x
        kept = np.r_[1 : size - 1, size : size + q]
        return full[np.ix_(kept, kept)]

    def facts(self) -> dict[str, str]:
        return {"Model": "proportional odds, " + " < ".join(self.levels)}

    def _ends(self, beta: Float, arrays: Mapping[str, Float]) -> tuple[Float, Float, Float]:
        """Where each record's class begins and ends on the scale of the link, and its probability."""
        cuts = np.concatenate([[-np.inf], beta[: self.cuts], [np.inf]])
        eta, code = arrays["design"] @ beta[self.cuts :], arrays["code"].astype(int)
        upper, lower = cuts[code + 1] - eta, cuts[code] - eta
        if np.any(np.diff(cuts) <= 0):
            return upper, lower, np.full(len(eta), np.nan)
        flip = lower > 0  # the same difference on the side where it does not cancel
        p = np.where(flip, expit(-lower) - expit(-upper), expit(upper) - expit(lower))
        return upper, lower, np.maximum(p, 1e-300)


def _density(t: Float) -> Float:
    return np.asarray(expit(t) * expit(-t))


def _bend(t: Float) -> Float:
    """Derivative of the density."""
    return np.asarray(_density(t) * (expit(-t) - expit(t)))


@dataclass(frozen=True)
class Ordinal(ClassQuestion):
    """Question of `ordinal(formula)`."""

    def prepare(self, table: Table, schema: Schema) -> StackedFunction:
        classes, design = self.learned(table, schema)
        refuse_unordered(factor_of(classes.column, table, schema), "ordinal()", "multinomial()")
        slopes = Slopes.of(self.formula, design)
        levels = tuple(str(level) for level in classes.levels)
        return StackedFunction(OrdinalSystem(levels, slopes.names, slopes, classes.codes), self.variables)


def ordinal(formula: str, *, functions: Functions | None = None) -> Ordinal:
    """Ordinal logit (proportional odds): logit Pr(y ≤ k | x) = θ_k − xᵀβ, for three or more ordered levels.

    The order must be known: numbers have one, levels of a perturbed column have one where the mechanism says kind="ordinal",
    and text has one as an ordered pandas category or a polars Enum; other levels are refused. Thresholds are named
    "low|mid"; they take the place of the intercept. A perturbed response is reverted with the whole inverse of its
    transition matrix.

    >>> import pramana as pr
    >>> levels = ["low", "mid", "high"]
    >>> mechanism = pr.Mechanism({"health": pr.TransitionMatrix.randomized_response(levels, keep=0.8, kind="ordinal")})
    >>> data = {"health": levels * 40 + ["high"] * 30, "age": [5, 4, 3, 2, 1] * 30}
    >>> result = pr.fit(ordinal("health ~ age"), data, mechanism)
    >>> result.parameters
    ('low|mid', 'mid|high', 'age')
    """
    return Ordinal(formula, own_functions(functions))


@dataclass(frozen=True)
class Slopes:
    """A design without its intercept."""

    design: FormulaDesign
    kept: tuple[int, ...]

    @classmethod
    def of(cls, formula: str, design: FormulaDesign) -> Slopes:
        if "Intercept" not in design.names:
            raise FormulaError(f"formula {formula!r} drops the intercept, whose place the thresholds take: leave it in")
        kept = tuple(j for j, name in enumerate(design.names) if name != "Intercept")
        if not kept:
            raise FormulaError(f"formula {formula!r} has no term: use proportions(...) for the shares of the levels")
        return cls(design, kept)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.design.names[j] for j in self.kept)

    def __call__(self, columns: Mapping[str, object], n: int) -> Float:
        return np.ascontiguousarray(self.design(columns, n)[:, list(self.kept)])
