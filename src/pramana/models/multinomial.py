"""Multinomial logit: U = (indicator(y) − p(x)) ⊗ x, linear in the indicators of the response."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from pramana.arrays import Float, Int
from pramana.estimating.collinearity import refuse_collinear
from pramana.estimating.equation import About, Ascent, Equation, paired
from pramana.estimating.function import EstimatingFunction
from pramana.estimating.records import Records
from pramana.formulas.design import FormulaDesign
from pramana.formulas.functions import Functions, own_functions
from pramana.frames import Schema, Table
from pramana.models.classes import Classes, ClassQuestion
from pramana.models.prediction import ClassPrediction

IndicatorsOf: TypeAlias = Callable[[Records], tuple[Float, Float]]
"""Records ↦ reverted indicators (m, K) and masses (m,) of the design's rows."""


@dataclass(frozen=True)
class MultinomialEquation(Equation, Ascent):
    """The first level is the reference; coefficients run class by class.

    Attributes
    ----------
    design : (m, q), m = n·C: the C nodes of a record (candidate values of perturbed covariates) lie next to each other.
    indicators : (m, K), reverted indicators of the response; entries may be negative.
    labels : names of the classes after the first; numbers by default.
    mass : (m,), the sums of the indicators' rows: the nodes' signed weights; 1 by default.
    spread : recomputes indicators and masses for records under another measure.
    """

    names: tuple[str, ...]
    design: Float
    indicators: Float
    records: Records
    labels: tuple[str, ...] | None = None
    mass: Float | None = None
    spread: IndicatorsOf | None = None

    @property
    def about(self) -> About:
        labels = self.labels or tuple(str(k + 1) for k in range(self.classes))
        names = tuple(f"{label}:{name}" for label in labels for name in self.names)
        return About(names, fades=True, nodes=len(self.design) // self.n)

    def rows(self, rows: slice) -> MultinomialEquation:
        low, high, _ = rows.indices(self.n)
        copies = len(self.design) // self.n
        nodes = slice(low * copies, high * copies)
        mass = None if self.mass is None else self.mass[nodes]
        design, indicators = self.design[nodes], self.indicators[nodes]
        return replace(self, records=self.records.rows(rows), design=design, indicators=indicators, mass=mass)

    @property
    def classes(self) -> int:
        return self.indicators.shape[1] - 1

    @property
    def ascent(self) -> Ascent | None:
        """Signed indicators leave the objective concave; signed masses do not."""
        return self if self.mass is None or bool(np.all(self.mass >= 0)) else None

    def eta(self, beta: Float) -> Float:
        """Linear predictors (K, m), the reference's being zero."""
        return np.vstack([np.zeros(len(self.design)), beta.reshape(self.classes, -1) @ self.design.T])

    def probabilities(self, beta: Float) -> Float:
        """(m, K)."""
        return self._shares(beta).T

    def _shares(self, beta: Float) -> Float:
        """Probabilities class by class (K, m): sums over classes then run through memory in order."""
        return _softmax(self.eta(beta))[0]

    def influence(self, beta: Float) -> Float:
        phi = _outer(self._residual(self._shares(beta)), self.design).reshape(self.n, -1, beta.size)
        return phi[:, 0] if phi.shape[1] == 1 else phi.sum(axis=1)

    def score_and_slope(self, betas: Float, weights: Float, rows: Int | None = None) -> tuple[Float, Float]:
        scores, slopes = [], []
        betas, weights = paired(betas, weights, rows)
        for beta, weight in zip(betas, weights, strict=True):
            p, w = self._shares(beta), self._rows(weight)
            scores.append(self._score(p, w))
            slopes.append(-self._bend(p[1:], w if self.mass is None else w * self.mass))
        return np.stack(scores), np.stack(slopes)

    def _residual(self, p: Float) -> Float:
        """Indicators less probabilities (K − 1, m)."""
        return np.asarray(self.indicators.T[1:] - (p[1:] if self.mass is None else p[1:] * self.mass))

    def _score(self, p: Float, w: Float) -> Float:
        return np.asarray(((self._residual(p) * w) @ self.design).ravel())

    def _bend(self, p: Float, w: Float) -> Float:
        """Σ w (diag(p) − ppᵀ) ⊗ xxᵀ."""
        return by_class(self.design, len(p), lambda j, k: w * p[j] * ((1 - p[j]) if j == k else -p[k]))

    def clean_outer(self, beta: Float, weights: Float) -> Float:
        """An indicator is its own square, so (UUᵀ)* needs the indicators alone."""
        p, w, e = self._shares(beta)[1:], self._rows(weights), self.indicators.T[1:]
        mass = 1.0 if self.mass is None else self.mass

        def square(j: int, k: int) -> Float:
            own = e[j] if j == k else 0.0
            return np.asarray(w * (mass * p[j] * p[k] - e[j] * p[k] - e[k] * p[j] + own))

        return by_class(self.design, len(p), square)

    def record_slopes_along(self, beta: Float, lefts: Float, rights: Float) -> Float:
        p = self._shares(beta)[1:]
        return np.stack([self._slope_along(p, *pair) for pair in zip(lefts, rights, strict=True)])

    def _slope_along(self, p: Float, left: Float, right: Float) -> Float:
        a = left.reshape(self.classes, -1) @ self.design.T
        b = right.reshape(self.classes, -1) @ self.design.T
        rows = np.sum(a * p, axis=0) * np.sum(b * p, axis=0) - np.sum(a * b * p, axis=0)
        rows = rows if self.mass is None else rows * self.mass
        return np.asarray(rows.reshape(self.n, -1).sum(axis=1))

    def slope_parts(self, beta: Float) -> tuple[Float, Float]:
        """diag(p) − ppᵀ is the square of diag(√p) (I − c √p √pᵀ), whose columns ⊗ x are the vectors."""
        p = self._shares(beta)
        root, rest = np.sqrt(p[1:]).T, np.maximum(1 - p[0], 1e-300)
        inner = np.eye(self.classes) - ((1 - np.sqrt(p[0])) / rest)[:, None, None] * root[:, :, None] * root[:, None, :]
        factor = (root[:, :, None] * inner).transpose(0, 2, 1)  # (m, K − 1, K − 1), a column in each row
        vectors = factor[:, :, :, None] * self.design[:, None, None, :]
        values = np.full(p[1:].T.shape, -1.0) if self.mass is None else np.repeat(-self.mass[:, None], self.classes, 1)
        return vectors.reshape(self.n, -1, beta.size), values.reshape(self.n, -1)

    def objective(self, betas: Float, weights: Float) -> Float:
        """Σ w (Σ_k e_k η_k − log Σ_k e^η_k), (B,)."""
        values = []
        for beta, weight in zip(betas, weights, strict=True):
            eta = self.eta(beta)
            values.append(self._gain(eta, _softmax(eta)[1], self._rows(weight)))
        return np.array(values)

    def reach(self, direction: Float) -> float:
        return float(np.abs(self.eta(direction)).max())

    def recession(self, direction: Float, weights: Float, reach: float) -> Float:
        """Far out, log Σ e^η grows like the largest η."""
        eta = self.eta(direction)
        size = np.abs(eta)
        eta = np.where(size < 1e-7 * reach, 0.0, eta)
        w = self._rows(weights)
        total = float(w @ size.max(axis=0))
        return np.array([self._gain(eta, eta.max(axis=0), w), 0.0, total, float(total > 0)])

    def _gain(self, eta: Float, top: Float, w: Float) -> float:
        seen = np.einsum("mk,km->m", self.indicators, eta)
        return float(w @ (seen - (top if self.mass is None else top * self.mass)))

    def under(self, records: Records) -> MultinomialEquation:
        if self.spread is None:
            return replace(self, records=records)
        indicators, mass = self.spread(records)
        return replace(self, records=records, indicators=indicators, mass=None if self.mass is None else mass)

    def _rows(self, weights: Float) -> Float:
        """Row weights, one a node."""
        copies = len(self.design) // self.n
        return weights if copies == 1 else np.repeat(weights, copies)


def by_class(design: Float, classes: int, weights: Callable[[int, int], Float]) -> Float:
    """Σ w_jk xxᵀ over rows x of the design (m, q), for weights (m,) of every pair of classes: symmetric, class by class."""
    q = design.shape[1]
    out = np.empty((classes, q, classes, q))
    for j in range(classes):
        for k in range(j, classes):
            out[j, :, k] = (design.T * weights(j, k)) @ design
            out[k, :, j] = out[j, :, k].T
    return out.reshape(classes * q, -1)


def _softmax(eta: Float) -> tuple[Float, Float]:
    """Probabilities (K, m) and log Σ e^η (m,), without overflow."""
    top = eta.max(axis=0)
    grown = np.exp(eta - top)
    total = grown.sum(axis=0)
    return grown / total, top + np.log(total)


def _outer(left: Float, design: Float) -> Float:
    """Rows left_j ⊗ design, (m, (K − 1) q)."""
    return np.asarray((left.T[:, :, None] * design[:, None, :]).reshape(len(design), -1))


@dataclass(frozen=True)
class Multinomial(ClassQuestion):
    """Question of `multinomial(formula)`."""

    def prepare(self, table: Table, schema: Schema) -> MultinomialFunction:
        return MultinomialFunction(self.variables, *self.learned(table, schema))


def multinomial(formula: str, *, functions: Functions | None = None) -> Multinomial:
    """Multinomial logit: log Pr(y = k | x) / Pr(y = first | x) = xᵀβ_k, for a response with three or more levels.

    The first level is the reference, in the order of the mechanism (or of the categories, or sorted). A perturbed
    response is reverted with the whole inverse of its transition matrix, all classes at once. Parameters are named
    "level:term".

    >>> import pramana as pr
    >>> levels = ["walk", "bus", "car"]
    >>> mechanism = pr.Mechanism({"mode": pr.TransitionMatrix.randomized_response(levels, keep=0.8)})
    >>> data = {"mode": levels * 60 + ["car"] * 40, "far": [0, 0, 1, 1] * 55}
    >>> result = pr.fit(multinomial("mode ~ far"), data, mechanism)
    >>> result.parameters
    ('bus:Intercept', 'bus:far', 'car:Intercept', 'car:far')
    """
    return Multinomial(formula, own_functions(functions))


@dataclass(frozen=True)
class MultinomialFunction(EstimatingFunction):
    """U = (indicator(y) − p(x)) ⊗ x."""

    variables: tuple[str, ...]
    classes: Classes
    design: FormulaDesign

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(f"{label}:{name}" for label in self._labels for name in self.design.names)

    @property
    def prediction(self) -> ClassPrediction:
        reads = tuple(part.reads for part in self.design.parts) * len(self._labels)
        return ClassPrediction(self.design, tuple(self.classes.levels), reads=reads)

    @property
    def _labels(self) -> tuple[str, ...]:
        return tuple(str(level) for level in self.classes.levels[1:])

    def equation(self, records: Records) -> MultinomialEquation:
        """Nodes that differ in the response alone share a row of the design."""
        places, settings = _covariate_nodes(records, self.classes.column)
        parts = [self.design({**records.columns, **setting}, records.n) for setting in settings]
        design = np.stack(parts, axis=1).reshape(-1, len(self.design.names))
        refuse_collinear([design], self.design.names)

        def spread(under: Records) -> tuple[Float, Float]:
            return _reverted(under, self.classes, places, len(settings))

        indicators, mass = spread(records)
        clean = len(settings) == 1 and records.domain is None
        return MultinomialEquation(
            self.design.names, design, indicators, records, self._labels, None if clean else mass, spread
        )


def _covariate_nodes(records: Records, response: str) -> tuple[Int, list[Mapping[str, object]]]:
    """For every node, its place among the settings of the covariates, and those settings."""
    settings: list[Mapping[str, object]] = []
    seen: dict[tuple[object, ...], int] = {}
    places = np.empty(len(records.nodes), dtype=np.int64)
    for k, node in enumerate(records.nodes):
        setting = {name: value for name, value in node.items() if name != response}
        key = tuple(id(v) if isinstance(v, np.ndarray) else v for v in setting.values())
        if key not in seen:
            seen[key] = len(settings)
            settings.append(setting)
        places[k] = seen[key]
    return places, settings


def _reverted(records: Records, classes: Classes, places: Int, size: int) -> tuple[Float, Float]:
    """Reverted indicators (n·size, K) and masses (n·size,)."""
    out = np.zeros((records.n, size, len(classes.levels)))
    rows = np.arange(records.n)
    for k, weight in enumerate(records.weights.T):
        value = records.nodes[k].get(classes.column)
        if value is None or isinstance(value, np.ndarray):
            np.add.at(out, (rows, places[k], classes.codes(records.at(k), records.n)), weight)
        else:
            out[:, places[k], classes.levels.index(value)] += weight
    flat = out.reshape(-1, len(classes.levels))
    return flat, flat.sum(axis=1)
