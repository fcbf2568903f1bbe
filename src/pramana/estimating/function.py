"""EstimatingFunction: U(β; columns), and the generic equation that works for every one of them."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from math import comb
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from pramana.arrays import Columns, Float
from pramana.errors import DataError, FormulaError, listing
from pramana.estimating.equation import About, Equation, central_slopes
from pramana.estimating.records import Records, broadcast
from pramana.frames import Schema, Table

TRIED = 50
"""Records on which it is tried whether a function is the polynomial that it is said to be."""
ROUNDING = 1e-9


class Traits:
    """What is asked of U before it is evaluated: how noise in a column can be undone in it, and whose means it predicts."""

    @property
    def rough(self) -> bool:
        """Whether U is a step function made smooth by a narrow kernel: it has a derivative, but no noise is undone by
        that, and it bends within a standard error of the root."""
        return False

    @property
    def grows(self) -> bool:
        """Whether U is an exponential of covariates far out, which has no average over heavy-tailed noise for large coefficients."""
        return False

    @property
    def prediction(self) -> Any:
        """The generalised linear model whose means can be predicted for new records, or None."""
        return None


class EstimatingFunction(Traits, ABC):
    """E{U(β)} = 0 defines the parameter. It holds what was learned from the data (levels, knots, scales), and no records.

    Attributes
    ----------
    parameters : names (d).
    variables : the columns that U uses.
    response : a variable in which U is linear, so that it can be summed out of the nodes beforehand; None when there is none.
    smooth : False for a step function, which has no derivative.
    """

    if TYPE_CHECKING:  # to be read; a subclass has a field or a property

        @property
        def parameters(self) -> tuple[str, ...]: ...
        @property
        def variables(self) -> tuple[str, ...]: ...
        @property
        def response(self) -> str | None: ...
        @property
        def smooth(self) -> bool: ...
    else:
        response = None
        smooth = True

    @abstractmethod
    def equation(self, records: Records) -> Equation:
        """Bind to records."""

    def response_values(self, values: Any) -> Float:
        """Numbers (k,) that U sees for values of the response."""
        raise NotImplementedError("this function sums no response out")

    def noisy_response_values(self, values: Any) -> Float:
        """The same for a response with noise, which may lie where no true one can."""
        return self.response_values(values)

    def degree(self, name: str) -> int | None:  # noqa: ARG002
        """Degree of U as a polynomial in a column; None where it is none, or nobody said so."""
        return None

    @property
    def numbers(self) -> tuple[str, ...]:
        """Columns that are used as numbers, and not by their levels."""
        return () if self.response is None else (self.response,)

    @property
    def grid(self) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
        """Of the cells of a table its columns with their levels, the last running fastest; else None."""
        return None


class Question(ABC):
    """A question that becomes an estimating function once columns and levels are known. It can be pickled, and holds no data.

    Attributes
    ----------
    variables : the columns that the question uses.
    """

    if TYPE_CHECKING:  # to be read; a subclass has a field or a property

        @property
        def variables(self) -> tuple[str, ...]: ...

    @abstractmethod
    def prepare(self, table: Table, schema: Schema) -> EstimatingFunction:
        """Learn levels, knots and scales from the table."""

    @property
    def label(self) -> str:
        """What the question is called in a table of several."""
        return ", ".join(self.variables)

    @property
    def facts(self) -> dict[str, str]:
        """What was asked for, for the head of the result."""
        return {"Parameter": self.label}

    @property
    def formulas(self) -> tuple[Any, ...]:
        """The parsed formulas that it is asked by, whose functions may learn from all records."""
        return ()

    @property
    def log_scale(self) -> bool:
        """Whether the parameters are logarithms, so that their exponentials are ratios."""
        return False

    @property
    def sums(self) -> bool:
        """Whether the parameters are sums over records, to which those outside of a subset add zeros."""
        return False

    @property
    def likelihood(self) -> Question:
        """The question that maximum likelihood answers in its place: itself, or an error that says why there is none."""
        return self

    def margins(
        self,
        variables: Sequence[str],  # noqa: ARG002
        estimate: Float,  # noqa: ARG002
        at: Mapping[str, Any] | None = None,  # noqa: ARG002
    ) -> Question | None:
        """The average marginal effects of some variables, of a fit with these estimates, others held at values, as a question of
        their own; None where there is no formula."""
        return None


class ColumnQuestion(Question):
    """A question about one column, of everyone or within the cells of others."""

    if TYPE_CHECKING:  # to be read; a subclass has fields

        @property
        def column(self) -> str: ...
        @property
        def by(self) -> tuple[str, ...]: ...

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.column, *self.by)


@dataclass(frozen=True)
class CallableFunction(EstimatingFunction, Question):
    """A user's own U. See `from_callable`."""

    u: Callable[..., Any]
    parameters: tuple[str, ...]
    variables: tuple[str, ...]
    slope: Callable[..., Any] | None = None
    derivative: Literal["central", "jax"] = "central"
    smooth: bool = True
    initial: tuple[float, ...] | None = None
    second: Mapping[tuple[str, ...], Callable[..., Any]] = field(default_factory=dict)
    degrees: Mapping[str, int] = field(default_factory=dict)
    entire: tuple[str, ...] = ()

    @property
    def log_scale(self) -> bool:
        """Only its author knows."""
        return True

    def degree(self, name: str) -> int | None:
        return self.degrees.get(name)

    def twice_differentiated(self, name: str) -> bool:
        """Whether the second derivative by a column is known."""
        return self.smooth and (self.derivative == "jax" or (name,) in self.second)

    def prepare(self, table: Table, schema: Schema) -> CallableFunction:
        for name in self.variables:
            if name not in schema:
                table.column(name)
        return self

    def precision(self) -> AbstractContextManager[Any]:
        """In which U is to be called."""
        return _double_precision() if self.derivative == "jax" else nullcontext()

    def called(self, beta: Any, columns: Columns) -> Any:
        """U as the user returns it."""
        return self.u(beta, **{v: columns[v] for v in self.variables})

    def evaluate(self, beta: Float, columns: Columns) -> Float:
        """U (n, d), checked for shape."""
        with self.precision():
            return self._checked("the estimating function", self.called(beta, columns), columns)

    def supplied(self, names: tuple[str, ...]) -> Callable[[Float, Columns], Float]:
        """U differentiated twice by each of some columns, as the user wrote it."""
        written = next((f for key, f in self.second.items() if set(key) == set(names)), None)
        if written is None:
            key = repr(names[0]) if len(names) == 1 else repr(names)
            raise FormulaError(
                f"Laplace noise in {listing(names)} at once is undone by u differentiated twice by each of them: supply it as second={{{key}: "
                "function}, or write u in jax.numpy and say derivative='jax'"
            )
        name = f"second[{names[0]!r}]" if len(names) == 1 else f"second[{names!r}]"
        return lambda beta, columns: self._checked(
            name, written(beta, **{v: columns[v] for v in self.variables}), columns
        )

    def _checked(self, name: str, returned: Any, columns: Columns) -> Float:
        """Numbers (n, d), complex where a column is."""
        beyond = any(np.iscomplexobj(columns[v]) for v in self.variables)
        try:
            value = np.asarray(returned) if beyond else np.asarray(returned, dtype=float)
        except (TypeError, ValueError):
            raise FormulaError(
                f"{name} returned what are no numbers, or rows of different lengths: it must return one number for each record and parameter"
            ) from None
        n = len(columns[self.variables[0]])
        if value.shape != (n, len(self.parameters)):
            raise FormulaError(
                f"{name} returned shape {value.shape} for {n} records and {len(self.parameters)} "
                f"parameters: it must return {(n, len(self.parameters))}"
            )
        return value

    def slopes(self, beta: Float, columns: Columns) -> Float | None:
        """∂U/∂β (n, d, d) where the user supplied it or asked for JAX."""
        arguments = {v: columns[v] for v in self.variables}
        if self.slope is not None:
            value = np.asarray(self.slope(beta, **arguments), dtype=float)
            shape = (len(columns[self.variables[0]]), len(self.parameters), len(self.parameters))
            if value.shape != shape:
                raise FormulaError(f"slope returned shape {value.shape}: it must return (n, d, d) = {shape}")
            return value
        return _jax_slopes(self.u, beta, arguments) if self.derivative == "jax" else None

    def start_at(self) -> Float:
        """Starting values (d,)."""
        return np.zeros(len(self.parameters)) if self.initial is None else np.array(self.initial)

    def check(self, records: Records) -> None:
        """Refuse what is no sum over records, or not what was said of it."""
        _refuse_coupled_rows(self, records, self.start_at())
        for name, degree in self.degrees.items():
            _refuse_other_degrees(self, records, name, degree)

    def equation(self, records: Records) -> Equation:
        self.check(records)
        return NodeEquation(self, records)


def from_callable(
    u: Callable[..., Any],
    parameters: Sequence[str],
    *,
    slope: Callable[..., Any] | None = None,
    derivative: Literal["central", "jax"] = "central",
    smooth: bool = True,
    start: Sequence[float] | None = None,
    second: Mapping[str | tuple[str, ...], Callable[..., Any]] | None = None,
    degree: Mapping[str, int] | None = None,
    entire: str | Sequence[str] = (),
) -> CallableFunction:
    """An estimating function from `u(beta, a, b, ...)`, whose other arguments are column names.

    Parameters
    ----------
    u : returns an array (n, d); columns arrive as NumPy arrays of level values, never codes.
    parameters : names of the d parameters.
    slope : ∂u/∂β with the same arguments, (n, d, d); by default central differences, or JAX with derivative="jax".
    smooth : False for a step function; it needs no derivative and takes `Resampling`.
    start : starting values; zeros by default.
    second : for columns with Laplace noise, from a column to ∂²u/∂column², a function like u; for two of them also from the tuple of both to
        ∂⁴u/∂a²∂b². With derivative="jax" these are known. Without either, u is evaluated close to the released value instead.
    degree : from a column to the degree of u as a polynomial in it: every noise is then undone exactly.
    entire : columns in which u is an entire function (a combination of polynomials, exponentials, sines) that takes complex numbers: normal
        noise is then undone.

    >>> import numpy as np
    >>> log_mean = from_callable(lambda beta, y: (np.log(y) - beta[0])[:, None], ["log mean"])
    >>> log_mean.variables
    ('y',)
    """
    if not callable(u):
        raise FormulaError(f"u is a {type(u).__name__}: give a function of beta and columns, def u(beta, income): ...")
    signature = inspect.signature(u).parameters
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in signature.values()):
        raise FormulaError("u must name its columns one by one, without * or **: def u(beta, income): ...")
    arguments = list(signature)
    if len(arguments) < 2:
        raise FormulaError("u must take beta and at least one column: def u(beta, income): ...")
    if derivative not in ("central", "jax"):
        raise FormulaError(f"derivative={derivative!r} is unknown: use 'central' or 'jax', or supply slope=")
    names = (parameters,) if isinstance(parameters, str) else tuple(parameters)
    if not names or len(set(names)) < len(names):
        raise FormulaError(f"parameters {names} must name each parameter once, and at least one")
    if start is not None and len(start) != len(names):
        raise FormulaError(f"start has {len(start)} values for {len(names)} parameters")
    initial = None if start is None else tuple(float(v) for v in start)
    known, columns = _said_of_columns(arguments[1:], second, degree, entire)
    return CallableFunction(
        u, names, tuple(arguments[1:]), slope, derivative, smooth, initial, known, dict(degree or {}), columns
    )


def _said_of_columns(
    arguments: Sequence[str], second: Any, degree: Any, entire: Any
) -> tuple[dict[tuple[str, ...], Callable[..., Any]], tuple[str, ...]]:
    """What was said of u as a function of its columns, by the columns' names."""
    known = {(key,) if isinstance(key, str) else tuple(key): f for key, f in (second or {}).items()}
    columns = (entire,) if isinstance(entire, str) else tuple(entire)
    strange = [
        name for name in (*(n for key in known for n in key), *(degree or {}), *columns) if name not in arguments
    ]
    if strange:
        raise FormulaError(f"{strange[0]!r} is no column of u: it takes {listing(arguments)}")
    wrong = [f for f in known.values() if not callable(f)]
    if wrong:
        raise FormulaError(f"second holds a {type(wrong[0]).__name__}: give functions of beta and columns, like u")
    for name, power in (degree or {}).items():
        if isinstance(power, bool) or not isinstance(power, int) or power < 0:
            raise FormulaError(
                f"degree[{name!r}]={power!r} must be a whole number: the degree of u as a polynomial in {name!r}"
            )
    return known, columns


@dataclass(frozen=True)
class NodeEquation(Equation):
    """The slow and obvious equation: evaluate U at every node, weight, add."""

    function: CallableFunction
    records: Records

    @property
    def about(self) -> About:
        return About(self.function.parameters, smooth=self.function.smooth, nodes=len(self.records.nodes))

    def rows(self, rows: slice) -> NodeEquation:
        return NodeEquation(self.function, self.records.rows(rows))

    def under(self, records: Records) -> NodeEquation:
        node = records.sole
        return NodeEquation(self.function, records if node is None else records.only(node))

    @cached_property
    def columns(self) -> list[Columns]:
        """Of every node, each (n,)."""
        records = self.records
        return [{v: broadcast(c, records.n) for v, c in records.at(k).items()} for k in range(len(records.nodes))]

    @cached_property
    def _node_weights(self) -> Float:
        return self.records.weights.T

    @property
    def initial(self) -> Float:
        return self.function.start_at()

    def start(self, weights: Float) -> Float:  # noqa: ARG002
        return self.initial

    def influence(self, beta: Float) -> Float:
        terms = zip(self.columns, self._node_weights, strict=True)
        total = np.zeros((self.n, self.d))
        for columns, weight in terms:
            total += weight[:, None] * self.function.evaluate(beta, columns)
        return total

    def slope(self, beta: Float, weights: Float) -> Float:
        return np.asarray(weights @ self._slopes(beta).reshape(self.n, -1)).reshape(self.d, self.d)

    def clean_outer(self, beta: Float, weights: Float) -> Float:
        total = np.zeros((self.d, self.d))
        for columns, weight in zip(self.columns, self._node_weights, strict=True):
            u = self.function.evaluate(beta, columns)
            total += (u * (weight * weights)[:, None]).T @ u
        return total

    def record_slopes_along(self, beta: Float, lefts: Float, rights: Float) -> Float:
        return np.einsum("bj,njk,bk->bn", lefts, self._slopes(beta), rights, optimize=True)

    def _slopes(self, beta: Float) -> Float:
        """∂φ_i/∂β (n, d, d)."""
        first = self.function.slopes(beta, self.columns[0])
        if first is None:
            return central_slopes(self.influence, beta)
        total = self._node_weights[0][:, None, None] * first
        for columns, weight in zip(self.columns[1:], self._node_weights[1:], strict=True):
            slopes = self.function.slopes(beta, columns)
            assert slopes is not None
            total = total + weight[:, None, None] * slopes
        return total


def _double_precision() -> AbstractContextManager[Any]:
    """JAX's 64-bit mode, switched on for one call alone; without it a root cannot be found to 1e-10."""
    from pramana.kernels.accelerator import wide

    return cast(AbstractContextManager[Any], wide())


def _jax_slopes(u: Callable[..., Any], beta: Float, arguments: dict[str, Any]) -> Float:
    """Forward-mode derivative in 64 bits."""
    import jax

    with _double_precision():
        return np.asarray(jax.jacfwd(lambda b: u(b, **arguments))(jax.numpy.asarray(beta)))


def _refuse_coupled_rows(function: CallableFunction, records: Records, beta: Float) -> None:
    """U must treat records one by one: its halves must give what the whole gives."""
    columns = {name: broadcast(value, records.n) for name, value in records.at(0).items()}
    half = records.n // 2
    if half == 0:
        return
    whole = function.evaluate(beta, columns)
    broken = int(np.sum(~np.isfinite(whole).all(axis=1)))
    if broken:
        raise DataError(
            f"the estimating function is infinite or not a number for {broken} of {records.n} records at the starting value "
            f"{beta.tolist()}: clean the data, or give start="
        )
    parts = [function.evaluate(beta, {k: v[s] for k, v in columns.items()}) for s in (slice(half), slice(half, None))]
    if not np.allclose(whole, np.concatenate(parts), rtol=1e-9, atol=1e-12, equal_nan=True):
        raise FormulaError(
            "the estimating function's rows depend on each other (half of the data gives other values than the whole): "
            "compute means, ranks and the like as parameters of their own, or before the fit"
        )


def _refuse_other_degrees(function: CallableFunction, records: Records, name: str, degree: int) -> None:
    """A polynomial has no differences beyond its degree, at the start and beside it."""
    some = slice(0, TRIED)
    columns = {key: broadcast(value, records.n)[some] for key, value in records.at(0).items()}
    values = np.asarray(columns[name], dtype=float)
    if not values.size:
        return
    step = max(float(np.ptp(values)), 1.0) / 4
    signs = [(-1) ** k * comb(degree + 1, k) for k in range(degree + 2)]
    for beta in (function.start_at(), function.start_at() + 0.1):
        with np.errstate(all="ignore"):
            terms = [
                sign * function.evaluate(beta, {**columns, name: values + (k - degree / 2) * step})
                for k, sign in enumerate(signs)
            ]
        left, size = np.abs(sum(terms)), np.sum(np.abs(terms), axis=0)
        if np.isfinite(size).all() and np.any(left > ROUNDING * size.max(axis=0)):
            raise FormulaError(
                f"the estimating function is no polynomial of degree {degree} in {name!r}, as degree= says: its differences of order {degree + 1} "
                "are not zero; state the right degree, or leave it out"
            )
