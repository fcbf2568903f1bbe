"""Quantile regression with a smoothed score: the check loss has a kink, and reverted weights make it non-convex."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from pramana.arrays import Float, Int
from pramana.errors import FormulaError
from pramana.estimating import family_of
from pramana.estimating.collinearity import refuse_collinear
from pramana.estimating.distribution import SHARP, default_bandwidth, robust_spread
from pramana.estimating.least_squares import EXACT, ROUNDING
from pramana.estimating.products import FromColumns
from pramana.estimating.system import StackedFunction, System
from pramana.formulas.design import regressors
from pramana.formulas.functions import Functions, Own, own_functions
from pramana.formulas.parsed import FormulaQuestion, parse_plain
from pramana.formulas.response import Response
from pramana.frames import Schema, Table
from pramana.kernels.newton import newton


@dataclass(frozen=True)
class Kernel:
    """A Gaussian kernel, in units of the response.

    Attributes
    ----------
    h : standard deviation.
    spread : of the residuals of least squares; kernels this wide start the search.
    """

    h: float
    spread: float

    @classmethod
    def of(cls, x: Float, y: Float, weights: Float, size: float, bandwidth: float | None) -> Kernel:
        """For weighted records (n,) that are worth `size` records of equal weight."""
        residual = y - x @ _least_squares(x, y, weights)
        spread = robust_spread(residual, weights, floor=ROUNDING * max(float(np.abs(y[weights > 0]).max()), 1e-300))
        if spread is None:
            raise FormulaError(EXACT)
        return cls.wide(spread, size, bandwidth)

    @classmethod
    def wide(cls, spread: float, size: float, bandwidth: float | None) -> Kernel:
        """For residuals of this spread."""
        return cls(default_bandwidth(spread, size) if bandwidth is None else bandwidth, spread)


@dataclass(frozen=True)
class QuantileSystem(System):
    """U = x {q − Φ((xᵀβ − y)/h)}, the score of the check loss convolved with a Gaussian kernel.

    `bandwidth` is the h that was asked for, or None where the data choose it. `around` is the covariance of normal deviations of β (d, d)
    over which the score is averaged, or None.
    """

    terms: tuple[str, ...]
    q: float
    kernel: Kernel
    design_of: FromColumns
    response_of: FromColumns
    bandwidth: float | None = None
    functions: Own = ()
    around: Float | None = None

    @property
    def h(self) -> float:
        return self.kernel.h

    @property
    def rough(self) -> bool:
        return True

    def tuned(self, arrays: Mapping[str, Float], weights: Float, size: float) -> QuantileSystem:
        return replace(self, kernel=Kernel.of(arrays["x"], arrays["y"], weights, size, self.bandwidth))

    def regressed(self, arrays: Mapping[str, Float]) -> tuple[Float, Float]:
        return arrays["x"], arrays["y"]

    def scaled(self, spread: float, size: float) -> QuantileSystem:
        return replace(self, kernel=Kernel.wide(spread, size, self.bandwidth))

    @property
    def parameters(self) -> tuple[str, ...]:
        return self.terms

    @property
    def curvatures(self) -> tuple[slice, ...]:
        return (slice(None),)

    def judge(self) -> QuantileSystem:
        """Under the widest kernel: the records near the quantile are few, but all of them tell about the regressors."""
        return replace(self, kernel=replace(self.kernel, h=max(self.kernel.spread, self.h)))

    def averaged(self, covariance: Float) -> QuantileSystem:
        return replace(self, around=covariance)

    def sharp(self) -> QuantileSystem:
        """The check loss itself: what the default kernel takes off the variance is of the order that a sandwich neglects elsewhere, in the
        other direction. A bandwidth that was asked for is part of the question."""
        return self if self.bandwidth is not None else replace(self, kernel=replace(self.kernel, h=SHARP * self.h))

    def arrays(self, columns: Mapping[str, object], n: int) -> dict[str, Float]:
        return {"x": self.design_of(columns, n), "y": self.response_of(columns, n)}

    def start(self, arrays: Mapping[str, Float], weights: Float) -> Float:
        """Least squares, then the roots under kernels that narrow down to the one asked for."""
        x, y = arrays["x"], arrays["y"]
        beta = _least_squares(x, y, np.clip(weights, 0.0, None))
        scale = 1 / np.sqrt(np.maximum(np.sum((x * weights[:, None]) ** 2, axis=0), 1e-300))
        for width in np.geomspace(max(self.kernel.spread, self.h), self.h, 5):

            def evaluate(betas: Float, _rows: Int, width: float = float(width)) -> tuple[Float, Float]:
                score = weights @ _score(betas[0], x, y, self.q, width)
                return score[None], _slope(betas[0], x, y, weights, width)[None]

            found = newton(evaluate, beta[None], scale)
            beta = found.beta[0] if np.all(np.isfinite(found.beta)) else beta
        return beta

    def u(self, beta: Float, arrays: Mapping[str, Float]) -> Float:
        return _score(beta, arrays["x"], arrays["y"], self.q, self._widths(arrays["x"]))

    def slope(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        return _slope(beta, arrays["x"], arrays["y"], weights, self._widths(arrays["x"]))

    def _widths(self, x: Float) -> Float | float:
        """Of the kernel: a normal deviation δ of β moves xᵀβ by a normal xᵀδ, which widens a Gaussian kernel. Never beyond the widest."""
        if self.around is None:
            return self.h
        squares = np.einsum("ij,ij->i", x @ self.around, x)
        return np.sqrt(np.clip(self.h**2 + squares, self.h**2, max(self.kernel.spread, self.h) ** 2))

    def facts(self) -> dict[str, str]:
        return {"Quantile": f"{self.q:g}", "Bandwidth": f"{self.h:.4g}, standard deviation of a Gaussian kernel"}


def _least_squares(x: Float, y: Float, weights: Float) -> Float:
    root = np.sqrt(weights)
    return np.asarray(np.linalg.lstsq(x * root[:, None], y * root, rcond=None)[0], dtype=float)


def _score(beta: Float, x: Float, y: Float, q: float, h: Float | float) -> Float:
    return np.asarray(x * (q - ndtr((x @ beta - y) / h))[:, None])


def _slope(beta: Float, x: Float, y: Float, weights: Float, h: Float | float) -> Float:
    t = (x @ beta - y) / h
    bend = weights * np.exp(-0.5 * t**2) / (h * np.sqrt(2 * np.pi))
    return np.asarray(-(x * bend[:, None]).T @ x)


@dataclass(frozen=True)
class QuantileRegression(FormulaQuestion):
    """Question of `quantile_regression(formula, q)`."""

    formula: str
    q: float
    bandwidth: float | None = None
    functions: Own = ()

    def prepare(self, table: Table, schema: Schema) -> StackedFunction:
        parsed = parse_plain(self.formula, self.functions)
        design = regressors(parsed, table, schema)
        response = Response.fit(parsed, table, schema, family_of("gaussian", None))
        released = {name: table.column(name) for name in self.variables}
        x, y = design(released, table.n), response(released, table.n)
        refuse_collinear([x], design.names)
        kernel = Kernel.of(x, y, np.ones(table.n), table.n, self.bandwidth)
        system = QuantileSystem(design.names, self.q, kernel, design, response, self.bandwidth)
        return StackedFunction(system, self.variables)


def quantile_regression(
    formula: str, q: float = 0.5, *, bandwidth: float | None = None, functions: Functions | None = None
) -> QuantileRegression:
    """The q-quantile of the response as a linear function of the covariates, any of which may be perturbed.

    The score of the check loss is smoothed by a Gaussian kernel and solved by Newton's method; reverted weights are signed, so
    that the loss is not convex and no linear programme applies. Being smooth, it takes the sandwich, whose slope is the
    score's on average over two standard errors around the root (the least-squares slope of Zeng and Lin 2008) and not that of the kernel
    at the root, which is too steep there.

    Parameters
    ----------
    q : between 0 and 1.
    bandwidth : standard deviation of the kernel, in units of the response. By default n^(−1/3) times a robust standard
        deviation of the residuals of least squares on the released data; the result's facts state the number used.
        Frequencies and sampling weights enter as in `quantile`.

    >>> import pramana as pr
    >>> data = {"wage": [w + (w % 7) for w in range(100)], "age": range(100)}
    >>> result = pr.fit(pr.quantile_regression("wage ~ age", 0.5), data, None)
    >>> [round(float(b), 1) for b in result.estimate]
    [2.8, 1.0]
    """
    if isinstance(q, bool) or not isinstance(q, int | float) or not 0 < q < 1:
        raise FormulaError(f"q={q!r} must be a number between 0 and 1, both excluded")
    if bandwidth is not None and not 0 < bandwidth < np.inf:
        raise FormulaError(f"bandwidth={bandwidth!r} must be positive: it is in units of the response")
    return QuantileRegression(formula, float(q), bandwidth, own_functions(functions))
