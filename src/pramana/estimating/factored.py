"""Many perturbed covariates without the product of their levels.

When every design column reads the perturbed variables of one component only, the reverted score factors: components are
independent under the signed measure, so sums run over the levels of each component (ΣK), and pairs of components for
slopes ((ΣK)²), never over all combinations. Gaussian with identity link first; log links below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pramana.arrays import Float, Int
from pramana.estimating.equation import About, Equation, FirstStage, paired
from pramana.estimating.function import EstimatingFunction
from pramana.estimating.generalized_linear import GeneralizedLinear
from pramana.estimating.records import ResponseMoments, softened
from pramana.kernels.blocks import EVERY, gram, runs


@dataclass(frozen=True)
class Component:
    """Perturbed variables that occur together, as one variable with K levels.

    Records with the same released value have the same signed measure, so the measures are a table with a row for each
    released value (R of them), and what depends on nothing else is computed once a row.

    Attributes
    ----------
    weights : (R, K), signed measures.
    row : (n,), the measure of each record.
    released : (R,), the level that stands for the released value.
    design : (n, K, p), or (1, K, p) where no clean column takes part.
    columns : (p,), positions of its columns in the whole design.
    """

    weights: Float
    row: Int
    released: Int
    design: Float
    columns: Int

    @property
    def alone(self) -> bool:
        """True when everything about the component is a table by released value."""
        return self.design.shape[0] == 1

    @cached_property
    def place(self) -> slice | Int:
        """`columns`, as a slice where they are neighbours, which is quicker to address."""
        first, count = int(self.columns[0]), len(self.columns)
        neighbours = np.array_equal(self.columns, np.arange(first, first + count))
        return slice(first, first + count) if neighbours else self.columns

    def table(self, values: Float) -> Float:
        """Mean over levels under the signed measures of values (R, K, ...) or (1, K, ...), or by record (n, K, ...)."""
        if values.shape[0] == 1:
            return np.tensordot(self.weights, values[0], axes=1)
        weights = self.weights if self.alone else self.weights[self.row]
        return np.einsum("rk,rk...->r...", weights, values)

    def by_record(self, table: Float, rows: slice = EVERY) -> Float:
        """One entry a record (n, ...), or for some of the records."""
        by_value = len(table) == len(self.weights) and self.alone
        return table.take(self.row[rows], axis=0) if by_value else table[rows]

    def total(self, weights: Float, table: Float) -> Float:
        """Σ_i w_i table_i."""
        if not self.alone:
            return np.tensordot(weights, table, axes=1)
        return np.tensordot(np.bincount(self.row, weights=weights, minlength=len(self.weights)), table, axes=1)

    def expect(self, values: Float) -> Float:
        """`table`, one entry a record."""
        out = self.table(values)
        return out.take(self.row, axis=0) if self.alone or values.shape[0] == 1 else out

    def linear(self, beta: Float) -> Float:
        """The component's part of the linear predictor at each level, (1 or n, K)."""
        return self.design @ beta[self.columns]

    def softened(self, t: float) -> Component:
        return replace(self, weights=softened(self.weights, self.released, t))

    def pinned(self, level: int) -> Component:
        """One level for everybody."""
        weights, row = np.eye(self.weights.shape[1])[[level]], np.zeros_like(self.row)
        return replace(self, weights=weights, row=row, released=np.array([level]))

    def rows(self, rows: slice) -> Component:
        """Of some of the records."""
        return replace(self, row=self.row[rows], design=self.design if self.alone else self.design[rows])


@dataclass(frozen=True)
class FactoredRecords:
    """n records: clean design columns, components, response moments, offset."""

    n: int
    clean: Float
    clean_columns: Int
    components: tuple[Component, ...]
    response: ResponseMoments
    offset: Float

    @property
    def d(self) -> int:
        return len(self.clean_columns) + sum(len(c.columns) for c in self.components)

    @property
    def _sizes(self) -> tuple[int, ...]:
        return (*(c.weights.shape[1] for c in self.components), self.response.combinations)

    @property
    def combinations(self) -> int:
        """Values that all hidden variables of a record can have together."""
        return math.prod(self._sizes)

    def pinned(self, k: int) -> FactoredRecords:
        """The records with the k-th combination for their truth, all of them."""
        *levels, value = np.unravel_index(k, self._sizes)
        components = tuple(c.pinned(int(level)) for c, level in zip(self.components, levels, strict=True))
        return replace(self, components=components, response=self.response.pinned(int(value)))

    def mass(self, k: int, records: Int) -> Float:
        """Signed weights (m,) of the k-th combination for some records (m,)."""
        *levels, value = np.unravel_index(k, self._sizes)
        out = self.response.mass(int(value), records)
        for c, level in zip(self.components, levels, strict=True):
            out = out * c.weights[c.row[records], level]
        return out

    def softened(self, t: float) -> FactoredRecords:
        """A share t of the noise undone, as in `Records.softened`."""
        components = tuple(c.softened(t) for c in self.components)
        return replace(self, components=components, response=self.response.softened(t))

    def rows(self, rows: slice) -> FactoredRecords:
        """Some of the records."""
        clean, offset = self.clean[rows], self.offset[rows]
        components, response = tuple(c.rows(rows) for c in self.components), self.response.rows(rows)
        return replace(self, n=len(clean), clean=clean, offset=offset, components=components, response=response)

    @cached_property
    def design(self) -> Float:
        """Reverted design (n, d)."""
        out = np.empty((self.n, self.d))
        out[:, self.clean_columns] = self.clean
        for component in self.components:
            out[:, component.place] = component.expect(component.design)
        return out

    @cached_property
    def squares(self) -> list[Float]:
        """Reverted products of the columns within each component, by released value or by record (R or n, p, p)."""
        return [c.table(c.design[..., :, None] * c.design[..., None, :]) for c in self.components]


@dataclass(frozen=True)
class FactoredLinear(Equation):
    """Gaussian with identity link: φ = X* e* − cov*(x, f), where e* = y* − X*β and f a component's own predictor."""

    function: EstimatingFunction
    records: FactoredRecords

    @property
    def about(self) -> About:
        return About(self.function.parameters, curvatures=(slice(None),), linear=self._intercept)

    @cached_property
    def _intercept(self) -> bool:
        """There is an intercept, and no offset."""
        return "Intercept" in self.function.parameters and not np.any(self.records.offset)

    def rows(self, rows: slice) -> FactoredLinear:
        return FactoredLinear(self.function, self.records.rows(rows))

    def under(self, records: FactoredRecords) -> FactoredLinear:
        return FactoredLinear(self.function, records)

    def start(self, weights: Float) -> Float:
        """One step from zero lands on the root: the equation is linear."""
        score, slope = self.score_and_slope(np.zeros((1, self.records.d)), weights[None])
        try:
            return np.asarray(-np.linalg.solve(slope[0], score[0]))
        except np.linalg.LinAlgError:
            return np.zeros(self.records.d)

    @cached_property
    def _response(self) -> Float:
        return self.records.response.first - self.records.offset

    @cached_property
    def _unit_slope(self) -> Float:
        return self._slope(np.ones(self.n))

    def _slope(self, weights: Float) -> Float:
        """−Σ w (xxᵀ)*: products of reverted columns, except within a component; it does not depend on β."""
        x = self.records.design
        slope = -gram(x, weights)
        for component, squares in zip(self.records.components, self.records.squares, strict=True):
            block = np.ix_(component.columns, component.columns)
            slope[block] = -component.total(weights, squares)
        return slope

    def score_and_slope(self, betas: Float, weights: Float, rows: Int | None = None) -> tuple[Float, Float]:
        betas, weights = paired(betas, weights, rows)
        slopes = np.stack([self._unit_slope if np.all(w == 1) else self._slope(w) for w in weights])
        constant = (weights * self._response) @ self.records.design
        return constant + np.einsum("bij,bj->bi", slopes, betas), slopes

    def _within(self, beta: Float) -> list[tuple[Float, Float]]:
        """For each component, by released value or record: its predictor less its own mean at each level (·, K), and
        cov*(x, f) (·, p)."""
        out = []
        for c in self.records.components:
            f = c.linear(beta)
            centred = f - c.table(f)[:, None]
            out.append((centred, c.table(c.design * centred[:, :, None])))
        return out

    def influence(self, beta: Float) -> Float:
        x, within = self.records.design, self._within(beta)
        phi, residual = np.empty_like(x), self._response - x @ beta
        for rows in runs(self.n):
            phi[rows] = x[rows] * residual[rows, None]
            for component, (_, covariance) in zip(self.records.components, within, strict=True):
                phi[rows, component.place] -= component.by_record(covariance, rows)
        return phi

    def record_slopes_along(self, beta: Float, lefts: Float, rights: Float) -> Float:  # noqa: ARG002
        x = self.records.design
        total = (lefts @ x.T) * (rights @ x.T)
        for component in self.records.components:
            a, b = (component.design @ sides[:, component.columns].T for sides in (lefts, rights))  # (1 or n, K, k)
            covariance = component.table(a * b) - component.table(a) * component.table(b)
            total += component.by_record(covariance).T
        return -total

    def clean_outer(self, beta: Float, weights: Float) -> Float:
        """Σ w (x xᵀ e²)*: e = m − Σ g_v with m the reverted residual and g_v independent, of mean zero."""
        r, x = self.records, self.records.design
        m = self._response - x @ beta
        moments = ComponentMoments.of(r, self._within(beta))
        variances = [c.by_record(v) for c, v in zip(r.components, moments.variances, strict=True)]
        noise = r.response.second - r.response.first**2 + sum(variances, start=np.zeros(r.n))
        half, pairs = np.zeros((2, r.d, r.d))
        for rows in runs(r.n):
            h, c = moments.halves(r, rows, m, m**2 + noise)
            w = weights[rows, None]
            half += x[rows].T @ (w * h)
            pairs += c.T @ (w * c)
        out = half + half.T + 2 * pairs
        for k, component in enumerate(r.components):
            block = component.total(weights * (m**2 + noise - variances[k]), r.squares[k])
            block += component.total(weights, moments.fourth[k]) - 2 * component.total(weights * m, moments.third[k])
            out[np.ix_(component.columns, component.columns)] = block
        return out


@dataclass(frozen=True)
class ComponentMoments:
    """Moments of each component's columns x with its centred predictor g: E g², E xg, E xg², E xxᵀg, E xxᵀg²."""

    variances: list[Float]
    first: list[Float]
    second: list[Float]
    third: list[Float]
    fourth: list[Float]

    @classmethod
    def of(cls, records: FactoredRecords, within: list[tuple[Float, Float]]) -> ComponentMoments:
        made: list[tuple[Float, ...]] = []
        for c, (g, covariance) in zip(records.components, within, strict=True):
            pairs = c.design[..., :, None] * c.design[..., None, :]
            square = g**2
            second = c.table(c.design * square[:, :, None])
            third, fourth = (c.table(pairs * h[:, :, None, None]) for h in (g, square))
            made.append((c.table(square), covariance, second, third, fourth))
        return cls(*(list(column) for column in zip(*made, strict=True)))

    def halves(self, records: FactoredRecords, rows: slice, m: Float, square: Float) -> tuple[Float, Float]:
        """For some records: h with E xxᵀe² = hxᵀ + xhᵀ + 2ccᵀ between components, and c = E xg, by design column.

        h = x E e²/2 + E xg² − x E g² − 2m E xg, where the moments of g are zero for clean columns.
        """
        x = records.design[rows]
        h, c = x * (square[rows, None] / 2), np.zeros_like(x)
        for k, component in enumerate(records.components):
            first, second, variance = (
                component.by_record(t[k], rows) for t in (self.first, self.second, self.variances)
            )
            own = component.place
            c[:, own] = first
            h[:, own] += second - x[:, own] * variance[:, None] - 2 * m[rows, None] * first
        return h, c


@dataclass(frozen=True)
class FactoredLog(Equation):
    """Poisson (p = 1), gamma (p = 2) and inverse Gaussian (p = 3) with log link."""

    function: GeneralizedLinear
    records: FactoredRecords
    power: float

    @property
    def about(self) -> About:
        return About(self.function.parameters, curvatures=(slice(None),))

    def rows(self, rows: slice) -> FactoredLog:
        return replace(self, records=self.records.rows(rows))

    def under(self, records: FactoredRecords) -> FactoredLog:
        return replace(self, records=records)

    @property
    def first(self) -> FirstStage | None:
        """Poisson's score for the inverse Gaussian, as in `PredictorEquation`."""
        return FirstStage(replace(self, power=1.0)) if self.power == 3 else None

    def start(self, weights: Float) -> Float:  # noqa: ARG002
        """Coefficients whose linear predictor is about constant at the log of the mean response."""
        x = self.records.design
        mean = float(self.records.response.first.mean())
        target = self.function.family.start(mean) - self.records.offset
        return np.asarray(np.linalg.solve(x.T @ x, x.T @ target))

    def influence(self, beta: Float) -> Float:
        low, high = (Tilted(self.records, beta, s) for s in (1 - self.power, 2 - self.power))
        return low.singles() * self.records.response.first[:, None] - high.singles()

    def slope(self, beta: Float, weights: Float) -> Float:
        y, p = self.records.response.first, self.power
        total = -(2 - p) * Tilted(self.records, beta, 2 - p).pairs(weights)
        if p != 1:
            total += (1 - p) * Tilted(self.records, beta, 1 - p).pairs(weights * y)
        return total

    def clean_outer(self, beta: Float, weights: Float) -> Float:
        y, p = self.records.response, self.power
        parts = ((2 - 2 * p, y.second), (3 - 2 * p, -2 * y.first), (4 - 2 * p, np.ones(self.n)))
        out = np.zeros((self.records.d, self.records.d))
        for s, moment in parts:
            out += Tilted(self.records, beta, s).pairs(weights * moment)
        return out

    def record_slopes_along(self, beta: Float, lefts: Float, rights: Float) -> Float:
        y, p = self.records.response.first, self.power
        total = -(2 - p) * Tilted(self.records, beta, 2 - p).quadratics(lefts, rights)
        if p != 1:
            total += (1 - p) * y * Tilted(self.records, beta, 1 - p).quadratics(lefts, rights)
        return total


class Tilted:
    """The records with weights multiplied by e^(sη) at one parameter value."""

    def __init__(self, records: FactoredRecords, beta: Float, s: float) -> None:
        self._records = records
        with np.errstate(over="ignore"):
            self._base = np.exp(s * (records.clean @ beta[records.clean_columns] + records.offset))
            self._grown = [np.exp(s * c.linear(beta)) for c in records.components]
        self._factors = [c.expect(g) for c, g in zip(records.components, self._grown, strict=True)]
        self._means = [c.expect(c.design * g[:, :, None]) for c, g in zip(records.components, self._grown, strict=True)]

    def _without(self, *left_out: int) -> Float:
        """Base times the factors of all components but some."""
        product = self._base.copy()
        for k, factor in enumerate(self._factors):
            if k not in left_out:
                product *= factor
        return product

    def singles(self) -> Float:
        """(x e^(sη))*, (n, d)."""
        r = self._records
        out = np.empty((r.n, r.d))
        out[:, r.clean_columns] = r.clean * self._without()[:, None]
        for others, component, mean in zip(self._leaving_one_out(), r.components, self._means, strict=True):
            out[:, component.columns] = mean * others[:, None]
        return out

    def _leaving_one_out(self) -> list[Float]:
        """Prefix times suffix products: one pass each way, exact also where a factor is zero."""
        before, after = [self._base], [np.ones(self._records.n)]
        for factor in self._factors[:-1]:
            before.append(before[-1] * factor)
        for factor in reversed(self._factors[1:]):
            after.append(after[-1] * factor)
        return [b * a for b, a in zip(before, reversed(after), strict=True)]

    def pairs(self, weights: Float) -> Float:
        """Σ w (x xᵀ e^(sη))*, (d, d)."""
        r = self._records
        out = np.zeros((r.d, r.d))
        clean = r.clean_columns
        out[np.ix_(clean, clean)] = (r.clean * (weights * self._without())[:, None]).T @ r.clean
        for u, (cu, others) in enumerate(zip(r.components, self._leaving_one_out(), strict=True)):
            products = cu.design[..., :, None] * cu.design[..., None, :] * self._grown[u][:, :, None, None]
            out[np.ix_(cu.columns, cu.columns)] = cu.total(weights * others, cu.table(products))
            mixed = (r.clean * (weights * others)[:, None]).T @ self._means[u]
            _place(out, clean, cu.columns, mixed)
            for v in range(u + 1, len(r.components)):
                scale = (weights * self._without(u, v))[:, None]
                _place(out, cu.columns, r.components[v].columns, (self._means[u] * scale).T @ self._means[v])
        return out

    def quadratics(self, lefts: Float, rights: Float) -> Float:
        """`quadratic` of several pairs of directions, (k, n)."""
        return np.stack([self.quadratic(*pair) for pair in zip(lefts, rights, strict=True)])

    def quadratic(self, left: Float, right: Float) -> Float:
        """(leftᵀx xᵀright e^(sη))*, (n,): products of two sums over columns, component by component."""
        r = self._records
        a, b = (r.clean @ side[r.clean_columns] for side in (left, right))
        ones = [(m @ left[c.columns], m @ right[c.columns]) for c, m in zip(r.components, self._means, strict=True)]
        total = a * b * self._without()
        for u, (cu, others) in enumerate(zip(r.components, self._leaving_one_out(), strict=True)):
            both = cu.expect(cu.linear(left) * cu.linear(right) * self._grown[u])
            total += others * (both + a * ones[u][1] + b * ones[u][0])
            for v in range(u + 1, len(r.components)):
                total += self._without(u, v) * (ones[u][0] * ones[v][1] + ones[v][0] * ones[u][1])
        return total


def _place(out: Float, rows: Any, columns: Any, block: Float) -> None:
    out[np.ix_(rows, columns)] = block
    out[np.ix_(columns, rows)] = block.T
