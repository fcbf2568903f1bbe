"""Correlations: Pearson's r from moments, Cramér's V and Kendall's tau-b from the joint table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pramana.arrays import Float
from pramana.errors import FormulaError, suggestion
from pramana.estimating.cells import Factor, distinct, factors_of, refuse_unordered
from pramana.estimating.equation import Note
from pramana.estimating.function import Question
from pramana.estimating.generalized_linear import as_numbers
from pramana.estimating.moment_functions import Features, OfShares, Smooth, SmoothFunction, curvature
from pramana.estimating.records import Records, broadcast
from pramana.estimating.rounding import ROUNDING, settled, settled_values
from pramana.frames import Schema, Table, decode
from pramana.parameters.tables import negative_cells

CorrelationKind = Literal["pearson", "cramer", "kendall"]


@dataclass(frozen=True)
class Correlation(Question):
    """Question of `correlation(x, y, kind)`."""

    x: str
    y: str
    kind: CorrelationKind = "pearson"
    corrected: bool = False

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.x, self.y)

    def prepare(self, table: Table, schema: Schema) -> SmoothFunction:
        if self.kind == "pearson":
            return SmoothFunction(Pearson.of(self.x, self.y, table, schema))
        factors = factors_of(self.variables, table, schema)
        for factor in factors:
            _refuse_unsuited(factor, self.kind)
        return SmoothFunction(TableCorrelation(factors, self.kind, self.corrected))


def correlation(x: str, y: str, kind: CorrelationKind = "pearson", *, corrected: bool = False) -> Correlation:
    """The correlation of two columns, either or both perturbed.

    Parameters
    ----------
    kind : "pearson" for numbers, "cramer" (V) for levels in any order, "kendall" (tau-b) for ordered levels: numbers, or
        levels whose mechanism says kind="ordinal", or an ordered pandas or polars category.
    corrected : take its bias out of Cramér's V, as estimated with the covariance of the shares, however they were sampled and
        perturbed. It is taken off V², and V is 0 where nothing is left. Clean tables near independence lose the
        (r − 1)(c − 1) / n of Bergsma (2013) from their chi-square over n. Standard errors, and limits from resampling, stay
        those of the plain V.

    Cramér's V is a norm: chance and the randomisation both add to it, by ½ tr(V″ Σ) to first order, with Σ the covariance of
    the estimated shares; this bias is of order 1/n and grows with the table. V cannot be negative, so near independence its
    interval means nothing, corrected or not (the diagnostic `near-boundary` says when): test that with `table_em`.

    >>> import pramana as pr
    >>> mechanism = pr.Mechanism({"a": pr.TransitionMatrix.binary(0.9, 0.9)})
    >>> table = {"a": [0, 0, 1, 1], "b": [0, 1, 0, 1], "n": [400, 200, 100, 300]}
    >>> [round(float(pr.fit(pr.correlation("a", "b", k), table, mechanism, frequencies="n").estimate[0]), 4)
    ...  for k in ("pearson", "cramer", "kendall")]
    [0.5164, 0.5164, 0.5164]
    >>> table = {"a": [0, 0, 0, 1, 1, 1], "b": [0, 1, 2, 0, 1, 2], "n": [60, 70, 70, 40, 30, 30]}
    >>> [round(float(pr.fit(pr.correlation("a", "b", "cramer", corrected=c), table, mechanism, frequencies="n").estimate[0]), 4)
    ...  for c in (False, True)]
    [0.1296, 0.1071]
    """
    if kind not in ("pearson", "cramer", "kendall"):
        raise FormulaError(f"kind {kind!r} is unknown: {suggestion(str(kind), ['pearson', 'cramer', 'kendall'])}")
    if corrected and kind != "cramer":
        raise FormulaError(f"corrected=True is for kind='cramer', whose noise does not average out, not for {kind!r}")
    distinct(x, y)
    return Correlation(x, y, kind, corrected)


def _refuse_unsuited(factor: Factor, kind: str) -> None:
    if len(factor.levels) < 2:
        raise FormulaError(f"column {factor.name!r} has {len(factor.levels)} level(s): a correlation needs at least 2")
    if kind == "kendall":
        refuse_unordered(factor, "Kendall's tau-b", "kind='cramer'")


@dataclass(frozen=True)
class Pearson(Smooth):
    """r from the moments of x and y about fixed numbers near their centres, which change nothing but rounding."""

    x: str
    y: str
    centre: tuple[float, float]
    scale: tuple[float, float]
    moments: tuple[str, ...] = ("x", "y", "x²", "y²", "xy")

    @classmethod
    def of(cls, x: str, y: str, table: Table, schema: Schema) -> Pearson:
        places = [_place(name, table, schema) for name in (x, y)]
        (cx, sx), (cy, sy) = places
        return cls(x, y, (cx, cy), (sx, sy))

    @property
    def parameters(self) -> tuple[str, ...]:
        return (f"correlation({self.x}, {self.y})",)

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.x, self.y)

    def degree(self, name: str) -> int:  # noqa: ARG002
        return 2

    def collect(self, records: Records) -> Features:
        values, products = 0.0, 0.0
        weights, (rows, columns) = records.weights.T, np.triu_indices(len(self.moments))
        for k, weight in enumerate(weights):
            t = _features((self._pair(records, k) - self.centre) / self.scale)
            values = values + weight[:, None] * t
            products = products + weight[:, None] * t[:, rows] * t[:, columns]
        return Features(np.asarray(values), np.asarray(products))

    def _pair(self, records: Records, node: int) -> Float:
        columns = records.at(node)
        return np.column_stack([as_numbers(broadcast(columns[v], records.n), v) for v in self.variables])

    def value(self, mu: Any) -> Any:
        (vx, vy), covariance = _variances(mu), mu[4] - mu[0] * mu[1]
        return np.stack([covariance / np.sqrt(vx * vy)])

    def gap(self, mu: Any, value: float, place: int) -> Any:  # noqa: ARG002 - there is one
        (vx, vy), covariance = _variances(mu), mu[4] - mu[0] * mu[1]
        return covariance - value * np.sqrt(vx * vy)

    def refusal(self, mu: Float, sizes: Float) -> str | None:
        variances = settled_values(lambda m: np.stack(_variances(m)), mu, sizes)
        gone = [name for name, variance in zip(self.variables, variances, strict=True) if variance <= 0]
        if not gone:
            return None
        return (
            f"the reverted variance of {', '.join(map(repr, gone))} is not positive (a constant column, or noise that outweighs "
            "the data): a correlation does not exist; use more records"
        )

    def divisors(self, mu: Any) -> dict[str, Any]:
        return {f"the variance of {name!r}": v for name, v in zip(self.variables, _variances(mu), strict=True)}

    def remarks(self, theta: Float, mu: Float, errors: Float) -> list[Note]:  # noqa: ARG002
        return _beyond_one(self.parameters[0], float(theta[0]))


def _place(name: str, table: Table, schema: Schema) -> tuple[float, float]:
    """Centre and largest distance from it, of the levels where there are any and of the records elsewhere."""
    levels = schema[name].levels if name in schema else None
    values = as_numbers(table.column(name) if levels is None else decode(np.arange(len(levels)), levels), name)
    centre = float(values.mean())
    return centre, max(float(np.abs(values - centre).max()), 1e-100)


def _features(pair: Float) -> Float:
    x, y = pair.T
    return np.column_stack([x, y, x**2, y**2, x * y])


def _variances(mu: Any) -> tuple[Any, Any]:
    return mu[2] - mu[0] ** 2, mu[3] - mu[1] ** 2


def _beyond_one(name: str, value: float) -> list[Note]:
    if abs(value) <= 1 + ROUNDING:
        return []
    return [("outside-range", "warning", f"{name} = {value:.4g} lies outside [-1, 1]: noise outweighs the data")]


@dataclass(frozen=True)
class TableCorrelation(OfShares):
    """Cramér's V or Kendall's tau-b as a function of the shares of the cells."""

    factors: tuple[Factor, ...]
    kind: CorrelationKind
    corrected: bool = False

    @property
    def parameters(self) -> tuple[str, ...]:
        title = "Cramér's V" if self.kind == "cramer" else "Kendall's tau-b"
        return (f"{'corrected ' if self.corrected else ''}{title}({', '.join(self.variables)})",)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(f.levels) for f in self.factors)

    def value(self, mu: Any) -> Any:
        p = mu.reshape(self.shape)
        if self.kind == "kendall":
            return np.stack([_tau(p)])
        return np.stack([np.sqrt(_inertia(p) / (min(self.shape) - 1))])

    def refusal(self, mu: Float, sizes: Float) -> str | None:
        p, size = mu.reshape(self.shape), sizes.reshape(self.shape)
        for axis, factor in enumerate(self.factors):
            margin, most = settled(p.sum(axis=1 - axis), size.sum(axis=1 - axis)), size.sum(axis=1 - axis)
            gone = [f"{label} ({v:.4g})" for label, v in zip(factor.labels, margin, strict=True) if v <= 0]
            if self.kind == "cramer" and gone:
                return (
                    f"{self.parameters[0]!r} needs positive shares, and that of {', '.join(gone)} is not: merge levels"
                )
            if self.kind == "kendall" and 1 - np.sum(margin**2) <= ROUNDING * (1 + 2 * np.abs(margin) @ most):
                return (
                    f"{self.parameters[0]!r} does not exist: {factor.name!r} is constant, or noise outweighs the data"
                )
        gaps, most = _gaps(p), size + 2 * size.sum(axis=1)[:, None] * size.sum(axis=0)
        if self.kind == "cramer" and not np.any(settled(gaps, most)):
            return f"{self.parameters[0]!r} is exactly 0, where it has no standard error: test independence with table_em()"
        return None

    def divisors(self, mu: Any) -> dict[str, Any]:
        p, found = mu.reshape(self.shape), {}
        for axis, factor in enumerate(self.factors):
            margin = p.sum(axis=1 - axis)
            if self.kind == "kendall":
                found[f"the spread of {factor.name!r}"] = 1 - (margin**2).sum()
            else:
                found.update(zip((f"the share of {label}" for label in factor.labels), margin, strict=True))
        return found

    def debiased(self, theta: Float, mu: Float, covariance: Float) -> Float:
        """V less ½ tr(V″ Σ), on the scale of V²: away from 0 the two agree to first order, and this one stays real."""
        if not self.corrected:
            return theta
        return np.sqrt(np.clip(theta**2 - theta * curvature(self.value, mu, covariance), 0.0, None))

    def remarks(self, theta: Float, mu: Float, errors: Float) -> list[Note]:
        found = [*_beyond_one(self.parameters[0], float(theta[0])), *negative_cells(mu, self.moments)]
        # At independence V is the length of df noises of about its standard error each.
        df = (self.shape[0] - 1) * (self.shape[1] - 1)
        if self.kind == "cramer" and theta[0] < (np.sqrt(df) + 2) * errors[0]:
            message = (
                f"{self.parameters[0].removeprefix('corrected ')} = {theta[0]:.3g} is within the noise of 0, its smallest value: it "
                "is too large on average (corrected=True takes out most of that), and its interval means nothing; test "
                "independence with table_em()"
            )
            found.append(("near-boundary", "warning", message))
        return found


def _inertia(p: Any) -> Any:
    """Σ (p_ij − p_i p_j)² / (p_i p_j), Pearson's chi-square over n."""
    return (_gaps(p) ** 2 / (p.sum(axis=1)[:, None] * p.sum(axis=0))).sum()


def _gaps(p: Any) -> Any:
    """p_ij − p_i p_j, all of them 0 where the columns are independent."""
    return p - p.sum(axis=1)[:, None] * p.sum(axis=0)


def _tau(p: Any) -> Any:
    """(concordant − discordant) over the geometric mean of the untied pairs of each column."""
    rows, columns = (np.sign(np.subtract.outer(np.arange(k), np.arange(k))) for k in p.shape)
    excess = (p * (rows @ p @ columns.T)).sum()
    ties = (1 - (p.sum(axis=1) ** 2).sum()) * (1 - (p.sum(axis=0) ** 2).sum())
    return excess / np.sqrt(ties)
