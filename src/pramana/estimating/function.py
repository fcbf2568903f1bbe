"""EstimatingFunction: U(β; columns), and the generic equation that works for every one of them."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from pramana.arrays import Columns, Float
from pramana.errors import DataError, FormulaError
from pramana.estimating.equation import About, Equation, Solve, central_slopes
from pramana.estimating.records import Records, broadcast
from pramana.frames import Schema, Table


class EstimatingFunction(ABC):
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
    def rough(self) -> bool:
        """Whether U is a step function made smooth by a narrow kernel: it has a derivative, but no noise is undone by that."""
        return False

    @property
    def grows(self) -> bool:
        """Whether U is an exponential of covariates far out, which has no average over heavy-tailed noise for large coefficients."""
        return False

    @property
    def numbers(self) -> tuple[str, ...]:
        """Columns that are used as numbers, and not by their levels."""
        return () if self.response is None else (self.response,)

    @property
    def prediction(self) -> Any:
        """The generalised linear model whose means can be predicted for new records, or None."""
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

    def margins(self, variables: Sequence[str], estimate: Float) -> Question | None:  # noqa: ARG002
        """The average marginal effects of some variables, of a fit with these estimates, as a question of their own; None
        where there is no formula."""
        return None


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

    @property
    def log_scale(self) -> bool:
        """Only its author knows."""
        return True

    def prepare(self, table: Table, schema: Schema) -> CallableFunction:
        for name in self.variables:
            if name not in schema:
                table.column(name)
        return self

    def evaluate(self, beta: Float, columns: Columns) -> Float:
        """U (n, d), checked for shape."""
        with _double_precision() if self.derivative == "jax" else nullcontext():
            value = np.asarray(self.u(beta, **{v: columns[v] for v in self.variables}), dtype=float)
        n = len(columns[self.variables[0]])
        if value.shape != (n, len(self.parameters)):
            raise FormulaError(
                f"the estimating function returned shape {value.shape} for {n} records and {len(self.parameters)} "
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

    def equation(self, records: Records) -> Equation:
        equation = NodeEquation(self, records)
        _refuse_coupled_rows(self, records, equation.initial)
        return equation


def from_callable(
    u: Callable[..., Any],
    parameters: Sequence[str],
    *,
    slope: Callable[..., Any] | None = None,
    derivative: Literal["central", "jax"] = "central",
    smooth: bool = True,
    start: Sequence[float] | None = None,
) -> CallableFunction:
    """An estimating function from `u(beta, a, b, ...)`, whose other arguments are column names.

    Parameters
    ----------
    u : returns an array (n, d); columns arrive as NumPy arrays of level values, never codes.
    parameters : names of the d parameters.
    slope : ∂u/∂β with the same arguments, (n, d, d); by default central differences, or JAX with derivative="jax".
    smooth : False for a step function; it needs no derivative and takes `Resampling`.
    start : starting values; zeros by default.

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
    return CallableFunction(u, names, tuple(arguments[1:]), slope, derivative, smooth, initial)


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
        return NodeEquation(self.function, records)

    @cached_property
    def _columns(self) -> list[Columns]:
        records = self.records
        return [{v: broadcast(c, records.n) for v, c in records.at(k).items()} for k in range(len(records.nodes))]

    @cached_property
    def _node_weights(self) -> Float:
        return self.records.weights.T

    @property
    def initial(self) -> Float:
        given = self.function.initial
        return np.zeros(self.d) if given is None else np.array(given)

    def start(self, weights: Float, solve: Solve) -> Float:  # noqa: ARG002
        return self.initial

    def influence(self, beta: Float) -> Float:
        terms = zip(self._columns, self._node_weights, strict=True)
        total = np.zeros((self.n, self.d))
        for columns, weight in terms:
            total += weight[:, None] * self.function.evaluate(beta, columns)
        return total

    def at_node(self, beta: Float, k: int) -> Float:
        return self.function.evaluate(beta, self._columns[k])

    def slope(self, beta: Float, weights: Float) -> Float:
        return np.asarray(weights @ self.record_slopes(beta).reshape(self.n, -1)).reshape(self.d, self.d)

    def clean_outer(self, beta: Float, weights: Float) -> Float:
        total = np.zeros((self.d, self.d))
        for columns, weight in zip(self._columns, self._node_weights, strict=True):
            u = self.function.evaluate(beta, columns)
            total += (u * (weight * weights)[:, None]).T @ u
        return total

    def record_slope(self, beta: Float, left: Float, right: Float) -> Float:
        return np.einsum("j,njk,k->n", left, self.record_slopes(beta), right)

    def record_slopes(self, beta: Float) -> Float:
        """∂φ_i/∂β (n, d, d)."""
        first = self.function.slopes(beta, self._columns[0])
        if first is None:
            return central_slopes(self.influence, beta)
        total = self._node_weights[0][:, None, None] * first
        for columns, weight in zip(self._columns[1:], self._node_weights[1:], strict=True):
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
