"""Log links with V(μ) = μ^p over many perturbed covariates: e^(sη) is a product over components.

U = x (y e^((1−p)η) − e^((2−p)η)), so everything is a sum of reverted `x e^(sη)` and `x xᵀ e^(sη)`, in which the components
that a column does not read enter through one factor each. Factors can be zero: products leave components out by prefix
and suffix products, never by division.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pramana.arrays import Float
from pramana.estimating.equation import OfFunction, OneByOne
from pramana.estimating.factored import FactoredRecords


@dataclass(frozen=True)
class FactoredLog(OfFunction, OneByOne):
    """Poisson (p = 1), gamma (p = 2) and inverse Gaussian (p = 3) with log link."""

    function: Any
    records: FactoredRecords
    power: float
    smooth: bool = True

    @property
    def curvatures(self) -> tuple[slice, ...]:
        return (slice(None),)

    @property
    def start(self) -> Float:
        """Coefficients whose linear predictor is about constant at the log of the mean response."""
        x = self.records.design
        mean = float(self.records.response.first.mean())
        target = self.function.family.start(mean) - self.records.offset
        start: Float = np.linalg.solve(x.T @ x, x.T @ target)
        return start

    @property
    def easier(self) -> FactoredLog | None:
        """As in `PredictorEquation`."""
        return replace(self, power=1.0) if self.power == 3 else None

    def influence(self, beta: Float) -> Float:
        low, high = (Tilted(self.records, beta, s) for s in (1 - self.power, 2 - self.power))
        return low.singles() * self.records.response.first[:, None] - high.singles()

    def _slope(self, beta: Float, weights: Float) -> Float:
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

    def record_slope(self, beta: Float, left: Float, right: Float) -> Float:
        y, p = self.records.response.first, self.power
        total = -(2 - p) * Tilted(self.records, beta, 2 - p).quadratic(left, right)
        if p != 1:
            total = total + (1 - p) * y * Tilted(self.records, beta, 1 - p).quadratic(left, right)
        return total

    def under(self, records: Any) -> FactoredLog:
        return replace(self, records=records)


class Tilted:
    """The records with e^(sη) attached, at one parameter value."""

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
