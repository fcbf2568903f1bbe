"""EstimatingFunction: U(β; columns), and the generic equation that works for every one of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, cast

import numpy as np

from pramana.arrays import Columns, Float
from pramana.errors import DataError, FormulaError
from pramana.estimating.equation import Equation, OfFunction, Records, broadcast
from pramana.frames import Schema, Table


class EstimatingFunction(Protocol):
    """E{U(β)} = 0 defines the parameter.

    `variables` are the columns that U uses; `response` names a variable in which U is linear and which can therefore
    be summed out of the nodes beforehand (None when there is none).
    """

    @property
    def parameters(self) -> tuple[str, ...]: ...
    @property
    def variables(self) -> tuple[str, ...]: ...
    @property
    def response(self) -> str | None: ...
    @property
    def smooth(self) -> bool: ...

    def response_values(self, values: Any) -> Float:
        """Numbers (k,) that U sees for values of the response."""

    def equation(self, records: Records) -> Equation:
        """Bind to records."""


class Plan(Protocol):
    """Something that becomes an estimating function once columns and levels are known."""

    @property
    def variables(self) -> tuple[str, ...]: ...

    def prepare(self, table: Table, schema: Schema) -> EstimatingFunction: ...


@dataclass(frozen=True)
class CallableFunction:
    """A user's own U. See `from_callable`."""

    u: Callable[..., Any]
    parameters: tuple[str, ...]
    variables: tuple[str, ...]
    slope: Callable[..., Any] | None = None
    derivative: Literal["central", "jax"] = "central"
    smooth: bool = True
    initial: tuple[float, ...] | None = None
    response: str | None = None
    log_scale: ClassVar[bool] = True  # only its author knows

    def prepare(self, table: Table, schema: Schema) -> CallableFunction:
        for name in self.variables:
            if name not in schema:
                table.column(name)
        return self

    def response_values(self, values: Any) -> Float:
        raise NotImplementedError("a user's function sums nothing out")

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
        _refuse_coupled_rows(self, records, equation.start)
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
class NodeEquation(OfFunction):
    """The slow and obvious equation: evaluate U at every node, weight, add."""

    function: CallableFunction
    records: Records
    _columns: list[Columns] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        records = self.records
        filled = [{v: broadcast(c, records.n) for v, c in records.at(k).items()} for k in range(len(records.nodes))]
        object.__setattr__(self, "_columns", filled)

    @property
    def smooth(self) -> bool:
        return self.function.smooth

    @property
    def start(self) -> Float:
        initial = self.function.initial
        return np.zeros(len(self.parameters)) if initial is None else np.array(initial)

    def influence(self, beta: Float) -> Float:
        terms = zip(self._columns, self.records.weights.T, strict=True)
        total = np.zeros((self.n, len(self.parameters)))
        for columns, weight in terms:
            total += weight[:, None] * self.function.evaluate(beta, columns)
        return total

    def score(self, betas: Float, weights: Float) -> Float:
        return np.stack([w @ self.influence(b) for b, w in zip(betas, weights, strict=True)])

    def score_and_slope(self, betas: Float, weights: Float) -> tuple[Float, Float]:
        slopes = [w @ self._record_slopes(b).reshape(self.n, -1) for b, w in zip(betas, weights, strict=True)]
        d = len(self.parameters)
        return self.score(betas, weights), np.stack(slopes).reshape(-1, d, d)

    def clean_outer(self, beta: Float, weights: Float) -> Float:
        total = np.zeros((len(self.parameters),) * 2)
        for columns, weight in zip(self._columns, self.records.weights.T, strict=True):
            u = self.function.evaluate(beta, columns)
            total += (u * (weight * weights)[:, None]).T @ u
        return total

    def record_slope(self, beta: Float, left: Float, right: Float) -> Float:
        return np.einsum("j,njk,k->n", left, self._record_slopes(beta), right)

    def under(self, records: Records) -> NodeEquation:
        return NodeEquation(self.function, records)

    def _record_slopes(self, beta: Float) -> Float:
        """∂φ_i/∂β (n, d, d)."""
        first = self.function.slopes(beta, self._columns[0])
        if first is None:
            return central_slopes(self.influence, beta)
        total = self.records.weights[:, 0, None, None] * first
        for columns, weight in zip(self._columns[1:], self.records.weights.T[1:], strict=True):
            slopes = self.function.slopes(beta, columns)
            assert slopes is not None
            total = total + weight[:, None, None] * slopes
        return total


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
