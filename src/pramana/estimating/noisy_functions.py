"""A user's own U of columns with noise, undone without candidate values for them.

    Laplace noise    U* = Π_j (1 − b_j² ∂²/∂z_j²) U: second derivatives that the user supplies, or JAX
    normal noise     U* = E U(w + iV), V a copy of the noise: e^{−σ²D²/2} U, for a U that is entire in its columns, by the rule of
                     Gauss and Hermite; half of its points are enough, for U is real where its columns are

Both are linear in U, so that they also give the reversions of its slope and of UUᵀ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, combinations, product
from typing import Any, TypeAlias

import numpy as np

from pramana.arrays import Columns, Float
from pramana.errors import FormulaError, SolveError, listing
from pramana.estimating.equation import About, Equation, Note, central_slopes
from pramana.estimating.function import CallableFunction, NodeEquation
from pramana.estimating.noisy import NoisyRecords, drowned
from pramana.kernels.additive import Operator, laplace_stencil, stencil_weights

OfColumns: TypeAlias = Callable[[Columns], Any]
"""From columns to an array (n, …)."""
POINTS, FEWER = 32, 24
"""Of the rule of Gauss and Hermite, and of the one it is compared with at the root: exact in e^{sz} to 1e-8 for sσ up to 5."""
AGREED = 1e-6
"""Largest difference of the two, relative to what they sum."""
TRIED, SEEN = 50, 1e-3
"""Records on which a supplied derivative is tried, and how far off, relative to the largest, it is seen."""
MOST_NORMAL = 2
"""Independent normal noises in one function: 16 · 32 values of it for each record."""
MOST_LAPLACE = 2
"""Columns with Laplace noise in one function: U, two second derivatives and one by both. The square of a third one is lost in rounding where it is
undone by nodes close to the released value."""


@dataclass(frozen=True)
class NoisyFunction(Equation):
    """U* of records whose columns in `noisy` are as released; other channels have their nodes."""

    naive: NodeEquation
    records: NoisyRecords

    @classmethod
    def of(cls, function: CallableFunction, records: NoisyRecords) -> NoisyFunction:
        function.check(records)
        found = cls(NodeEquation(function, records), records)
        _refuse_many(found)
        for name in () if function.derivative == "jax" else found.laplace:
            _refuse_other_derivative(found, name)
        return found

    @property
    def function(self) -> CallableFunction:
        return self.naive.function

    @property
    def about(self) -> About:
        return self.naive.about

    def rows(self, rows: slice) -> NoisyFunction:
        records = self.records.rows(rows)
        return NoisyFunction(NodeEquation(self.function, records), records)

    def under(self, records: NoisyRecords) -> NoisyFunction:
        return NoisyFunction(NodeEquation(self.function, records), records)

    def start(self, weights: Float) -> Float:
        return self.naive.start(weights)

    def remarks(self, beta: Float, weights: Float, covariance: Float, squares: Float) -> list[Note]:  # noqa: ARG002
        return drowned(self.records, weights)

    @cached_property
    def laplace(self) -> dict[str, Operator]:
        """The columns with Laplace noise, which no other noise moves."""
        records = self.records
        return {n: o for n, o in zip(records.noisy, records.operators, strict=True) if not np.any(o.variance)}

    @cached_property
    def normal(self) -> list[int]:
        """Places of the independent normal noises."""
        return [k for k, operator in enumerate(self.records.operators) if np.any(operator.variance)]

    def influence(self, beta: Float) -> Float:
        return self._undone(self._u(beta), lambda f: self._exact(f, beta))

    def _slopes(self, beta: Float) -> Float:
        """∂φ_i/∂β (n, d, d)."""
        if self.function.derivative != "jax":
            return central_slopes(self.influence, beta)
        import jax

        return self._undone(
            lambda columns: jax.jacfwd(lambda b: self.function.called(b, columns))(jax.numpy.asarray(beta)),
            self._by_jax,
        )

    def slope(self, beta: Float, weights: Float) -> Float:
        return np.asarray(np.tensordot(weights, self._slopes(beta), axes=1))

    def record_slopes_along(self, beta: Float, lefts: Float, rights: Float) -> Float:
        return np.einsum("bj,njk,bk->bn", lefts, self._slopes(beta), rights, optimize=True)

    def clean_outer(self, beta: Float, weights: Float) -> Float:
        u = self._u(beta)

        def square(columns: Columns) -> Any:
            value = u(columns)
            return value[:, :, None] * value[:, None, :]

        def way(f: OfColumns) -> OfColumns:
            return self._by_jax(f) if self.function.derivative == "jax" else self._by_stencil(f)

        found = np.tensordot(weights, self._undone(square, way), axes=1)
        if self.normal:
            self._refuse_unsettled(found, np.tensordot(weights, self._undone(square, way, FEWER), axes=1))
            phi, rough = (self._undone(u, lambda f: self._exact(f, beta), points) for points in (POINTS, FEWER))
            self._refuse_unsettled(weights @ np.abs(phi), weights @ (np.abs(phi) + phi - rough))
        return np.asarray(found)

    def _u(self, beta: Float) -> OfColumns:
        """U of columns, as JAX follows it where it is asked to."""
        own = self.function.called if self.function.derivative == "jax" else self.function.evaluate
        return lambda columns: own(beta, columns)

    def _undone(self, f: OfColumns, way: Callable[[OfColumns], OfColumns], points: int = POINTS) -> Float:
        """Reversion (n, …) of a function, over the nodes of the other channels; `way` undoes its Laplace noise."""
        share, undone = self.records.share, way(f) if self.laplace else f
        total: Any = 0.0
        with self.function.precision():
            for columns, weight in zip(self.naive.columns, self.records.weights.T, strict=True):
                value = self._imaginary(undone, self._numbers(columns), points)
                if share != 1:
                    value = (1 - share) * np.asarray(f(columns)) + share * value
                total = total + _by_record(weight, value) * value
        return np.asarray(total)

    def _numbers(self, columns: Columns) -> Columns:
        return {**columns, **{name: np.asarray(columns[name], dtype=float) for name in self.records.noisy}}

    def _imaginary(self, f: OfColumns, columns: Columns, points: int) -> Any:
        """E f(w + iV) over the normal noise V."""
        if not self.normal:
            return np.asarray(f(columns))
        records = self.records
        total: Any = 0.0
        sds = [np.sqrt(records.operators[k].variance) for k in self.normal]
        for places, mass in _half_rule(len(self.normal), points):
            parts = [sd * place for sd, place in zip(sds, places, strict=True)]
            moved = dict(columns)
            for name in self._normal_columns:
                row = records.mixing[records.noisy.index(name), self.normal]
                moved[name] = columns[name] + 1j * sum(r * part for r, part in zip(row, parts, strict=True))
            value = np.asarray(f(moved))
            if value.dtype.kind != "c":
                raise FormulaError(
                    f"the estimating function returned real numbers for complex values of {listing(self._normal_columns)}, in which it was said to be "
                    "entire: let it pass complex numbers on, without abs(), real() or comparisons, or leave the column out of entire="
                )
            total = total + mass * value.real
        return total

    @property
    def _normal_columns(self) -> list[str]:
        moved = self.records.mixing[:, self.normal]
        return [name for name, row in zip(self.records.noisy, moved, strict=True) if np.any(row)]

    def _exact(self, f: OfColumns, beta: Float) -> OfColumns:
        """U with its Laplace noise undone, by JAX or the derivatives supplied."""
        if self.function.derivative == "jax":
            return self._by_jax(f)
        terms = [(self.function.evaluate, ())] + [
            (self.function.supplied(names), names) for names in _subsets(tuple(self.laplace)) if names
        ]

        def undone(columns: Columns) -> Any:
            total: Any = 0.0
            for derivative, names in terms:
                value = derivative(beta, columns)
                for name in names:
                    value = value * _by_record(-self._square(name), value)
                total = total + value
            return total

        return undone

    def _square(self, name: str) -> Float:
        """b² of a column, () or (n,): half the variance of its noise."""
        return np.asarray(self.laplace[name].spread) ** 2 / 2

    def _by_jax(self, f: OfColumns) -> OfColumns:
        for name in self.laplace:
            f = _less_second(f, name, self._square(name))
        return f

    def _by_stencil(self, f: OfColumns) -> OfColumns:
        """Without derivatives of f: by five nodes of each column."""
        rules = [
            [(np.sqrt(self._square(name)) * p, w) for p, w in zip(*laplace_stencil(), strict=True)]
            for name in self.laplace
        ]

        def undone(columns: Columns) -> Any:
            total: Any = 0.0
            for combination in product(*rules):
                moved = {name: columns[name] + move for name, (move, _) in zip(self.laplace, combination, strict=True)}
                total = total + float(np.prod([w for _, w in combination])) * np.asarray(f({**columns, **moved}))
            return total

        return undone

    def _refuse_unsettled(self, fine: Float, rough: Float) -> None:
        """An error where the number of points matters: U then has no reversion, or too few of them were used."""
        off = float(np.abs(fine - rough).max() / max(float(np.abs(fine).max()), 1e-300))
        if not off <= AGREED:
            names = self._normal_columns
            raise SolveError(
                f"the estimating function, or its square, at {listing(names)} + i·noise differs by {off:.2g} of its size between {POINTS} and {FEWER} points, and "
                f"{AGREED:g} is allowed: it is not entire in {listing(names)}, grows too fast, or varies too much within the noise; use less "
                "noise, or LaplaceNoise in its place"
            )


def _refuse_many(equation: NoisyFunction) -> None:
    if len(equation.normal) > MOST_NORMAL:
        raise FormulaError(
            f"the function reads {len(equation.normal)} columns with normal noise, and it is undone in at most {MOST_NORMAL} of them at once: leave out "
            "some, or state degree={column: degree} if it is a polynomial"
        )
    if len(equation.laplace) > MOST_LAPLACE:
        raise FormulaError(
            f"the function reads {len(equation.laplace)} columns with Laplace noise ({listing(equation.laplace)}), and derivatives undo it in at most "
            f"{MOST_LAPLACE} of them at once: leave out some, or state degree={{column: degree}} if it is a polynomial"
        )
    if equation.function.derivative != "jax":
        for names in _subsets(tuple(equation.laplace)):
            if names:
                equation.function.supplied(names)


def _refuse_other_derivative(equation: NoisyFunction, name: str) -> None:
    """A supplied derivative must be that of U, on a few records: at the start and beside it, where two stencils agree on it."""
    some = equation.rows(slice(0, TRIED))
    columns, scale = some._numbers(some.naive.columns[0]), np.sqrt(some._square(name))
    for beta in (some.function.start_at(), some.function.start_at() + 0.1):
        with np.errstate(all="ignore"):
            supplied = some.function.supplied((name,))(beta, columns)
            wide, narrow = (_second_difference(some._u(beta), columns, name, scale / steps) for steps in (64, 128))
        size = np.abs(narrow).max(initial=0.0) + np.abs(supplied).max(initial=0.0)
        if np.all(np.abs(wide - narrow) <= SEEN / 10 * size) and np.any(np.abs(supplied - narrow) > SEEN * size):
            worst = np.unravel_index(np.argmax(np.abs(supplied - narrow)), supplied.shape)
            raise FormulaError(
                f"second[{name!r}] is not the second derivative of u by {name!r}: at beta = {beta.tolist()} it is {supplied[worst]:.4g} for one of the "
                f"records, and differences of u give {narrow[worst]:.4g}; correct it, or leave it out"
            )


def _second_difference(f: OfColumns, columns: Columns, name: str, step: Float) -> Float:
    values = [np.asarray(f({**columns, name: columns[name] + k * step})) for k in range(-2, 3)]
    total = sum(w * v for w, v in zip(stencil_weights(4), values, strict=True))
    return np.asarray(total / _by_record(step, total) ** 2)


def _less_second(f: OfColumns, name: str, square: Float) -> OfColumns:
    """f − b² ∂²f by a column: rows do not depend on each other, so that one direction serves all of them."""
    from jax import jvp, numpy

    def undone(columns: Columns) -> Any:
        z = numpy.asarray(columns[name])
        ones = numpy.ones_like(z)

        def along(z: Any) -> Any:
            return f({**columns, name: z})

        second = jvp(lambda z: jvp(along, (z,), (ones,))[1], (z,), (ones,))[1]
        return along(z) - _by_record(square, second) * second

    return undone


def _subsets(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    return list(chain.from_iterable(combinations(names, k) for k in range(len(names) + 1)))


def _by_record(factor: Any, value: Any) -> Any:
    """A factor () or (n,) that multiplies values (n, …)."""
    factor = np.asarray(factor)
    return factor.reshape(factor.shape + (1,) * (np.ndim(value) - 1)) if factor.ndim else factor


@lru_cache(maxsize=8)
def _half_rule(dimension: int, points: int) -> tuple[tuple[tuple[float, ...], float], ...]:
    """Points and weights of a standard normal vector: those with a first coordinate above 0, twice."""
    places, weights = np.polynomial.hermite_e.hermegauss(points)
    weights = weights / weights.sum()
    rule = zip(product(places.tolist(), repeat=dimension), product(weights.tolist(), repeat=dimension), strict=True)
    return tuple((place, 2 * float(np.prod(mass))) for place, mass in rule if place[0] > 0)
