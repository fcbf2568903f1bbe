"""Sums over the records of one generalised linear equation in the memory of a device, through JAX, chunk by chunk.

The sums are those of `products.sums`, which these must equal: `Σ_c x_c a (S_c − W_c μ)` by record, spread over nodes c. A chunk's
sums are matrix products, so that any number of coefficients, of parameter values and of weight draws is served by one program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from pramana.arrays import Float, Int, Words
from pramana.errors import PramanaError
from pramana.kernels.accelerator import curve_at, exponentials, factor_at, mean_at, memory, wide
from pramana.kernels.products import Products, ProductSums

CHUNK_ENTRIES = 2**27
"""Numbers that a chunk of records takes while its sums are formed: 1 GB."""
LARGEST_CHUNK, SMALLEST_CHUNK = 2**23, 2**10
FEW = 32
"""Coefficients up to which a linear predictor is written out."""
FREE = 0.9
"""Share of the device's memory that records may fill."""
ChunkSums: TypeAlias = Callable[[Any, Any], Any]
"""(first row, which rows are new) of a chunk ↦ its sums."""


class RowWeights(NamedTuple):
    """Weights of the rows: given ones (B, n), or the streams of drawn ones by their starting words (B,); 1 where both are empty."""

    given: Any
    keys: Any

    @classmethod
    def of(cls, given: Float | None = None, keys: Words | None = None) -> RowWeights:
        with wide():
            first = np.empty((0, 0)) if given is None else given
            return cls(*jax.device_put((first, np.empty(0, dtype=np.uint64) if keys is None else keys)))

    @property
    def draws(self) -> int:
        return max(len(self.given), len(self.keys), 1)

    def at(self, draws: Int, size: int) -> RowWeights:
        """Those of some draws, filled up to a size that few programs are compiled for."""
        return RowWeights(*(own[_filled(draws, size)] if own.size else own for own in self))

    @property
    def squared(self) -> RowWeights:
        return RowWeights(self.given**2, self.keys)


def _filled(positions: Int, size: int) -> Int:
    """Positions, the last one repeated up to a size."""
    return np.concatenate([positions, np.repeat(positions[-1:], size - len(positions))])


class HeldRecords(NamedTuple):
    """The arrays of `Products` on the device; `straight` designs, (0,) places, are the clean parts themselves."""

    clean: Any
    place: Any
    node: Any
    table: Any
    row: Any
    y1: Any
    y2: Any
    offset: Any


@dataclass(frozen=True)
class DeviceRecords:
    """Records on the device.

    Attributes
    ----------
    held : all of them.
    known : code and shape of the curve.
    """

    held: HeldRecords
    known: dict[str, Any]

    @classmethod
    def of(cls, p: Products) -> DeviceRecords:
        own = slice(p.begin, p.end)
        straight = len(p.node) == 1 and bool(np.all(p.node == 1.0)) and np.array_equal(p.place, np.arange(len(p.clean)))
        rows = np.empty(0, dtype=np.int32) if len(p.table) == 1 else p.row[own].astype(np.int32)
        place = np.empty(0, dtype=np.int64) if straight else p.place
        moments = (values[:, own] for values in (p.y1, p.y2, p.offset))
        arrays = HeldRecords(p.clean[:, own], place, p.node, p.table, rows, *moments)
        _refuse_too_large(sum(a.nbytes for a in arrays))
        with wide():
            return cls(HeldRecords(*jax.device_put(tuple(arrays))), {"code": p.curve.code, "shape": p.curve.shape})

    @property
    def n(self) -> int:
        return int(self.held.clean.shape[1])

    @property
    def d(self) -> int:
        return int(self.held.node.shape[1])

    def score_and_slope(self, betas: Float, weights: RowWeights, draws: Int | None = None) -> tuple[Float, Float]:
        """Σ w φ (B, d) and Σ w ∂φ (B, d, d), for B values, B draws, or both; `draws` names the draw of each value."""
        batch = max(len(betas), weights.draws if draws is None else 1)
        size = 1 << (batch - 1).bit_length()
        pairs = self.d * (self.d + 1) // 2 if batch > 1 else self.d
        with wide():
            chunk = self._chunk(4 * size + pairs + 2 * self.d)
            own = weights if weights.draws == 1 else weights.at(np.arange(batch) if draws is None else draws, size)
            values = jnp.asarray(betas if len(betas) == 1 else betas[_filled(np.arange(batch), size)])
            score, slope = _score_and_slope(self.held, values, own, chunk=chunk, **self.known)
            return np.asarray(score)[:batch], np.asarray(slope)[:batch]

    def sums(self, beta: Float, weights: RowWeights, squares: RowWeights) -> ProductSums:
        """Everything that a variance is made of, at one value (d,)."""
        with wide():
            chunk = self._chunk(5 * self.d)
            found = _sums(self.held, jnp.asarray(beta), weights, squares, chunk=chunk, **self.known)
            return ProductSums(*map(np.asarray, found))

    def _chunk(self, width: int) -> int:
        """Records of a chunk, from what one of them takes: a power of 2, or all."""
        fitting = 2 ** int(np.log2(CHUNK_ENTRIES / width))
        return min(self.n, max(SMALLEST_CHUNK, min(LARGEST_CHUNK, fitting)))


def _refuse_too_large(size: int) -> None:
    limit = memory()
    if limit is not None and size > FREE * limit:
        raise PramanaError(
            f"the records take {size / 1e9:.1f} GB, and the device has {limit / 1e9:.1f} GB: use fewer columns or fewer records, or "
            "leave out the device"
        )


_program = partial(jax.jit, static_argnames=("code", "shape", "chunk"))


@_program
def _score_and_slope(
    held: HeldRecords, betas: Any, weights: RowWeights, *, code: int, shape: float, chunk: int
) -> tuple[Any, Any]:
    d = betas.shape[1]
    batch = max(len(betas), weights.draws)
    rows, cols = np.triu_indices(d)

    def part(low: Any, new: Any) -> tuple[Any, Any]:
        w, score, slope = _weighed(weights, low, new), 0.0, 0.0
        for x, weight, first, _second, offset in _nodes(held, low, chunk):
            eta = _predicted(betas, x) + offset
            force, bend = curve_at(eta, weight, first, code, shape)
            if batch == 1:  # the records are read once for both
                both = jnp.concatenate([w * force, (w * bend) * x]) @ x.T
                score, slope = score + both[:1], slope + both[1:]
            else:
                score += (w * force) @ x.T
                slope += (w * bend) @ (x[rows] * x[cols]).T
        return score, slope

    score, slope = _added(part, held.clean.shape[1], chunk)
    if batch == 1:
        return score, slope[None]
    index = np.zeros((d, d), dtype=np.int64)
    index[rows, cols] = index[cols, rows] = np.arange(len(rows))
    return score, slope[:, index]


@_program
def _sums(
    held: HeldRecords, beta: Any, weights: RowWeights, squares: RowWeights, *, code: int, shape: float, chunk: int
) -> tuple[Any, ...]:
    def part(low: Any, new: Any) -> tuple[Any, ...]:
        w, w2 = (_weighed(own, low, new) for own in (weights, squares))
        phi: Any = 0.0
        slope, clean = 0.0, 0.0
        for x, weight, first, second, offset in _nodes(held, low, chunk):
            eta = beta @ x + offset
            force, bend = curve_at(eta, weight, first, code, shape)
            mu, a = mean_at(eta, code), factor_at(eta, code, shape)
            phi += force * x
            slope += ((w * bend) * x) @ x.T
            clean += ((w2 * a**2 * (second - 2 * mu * first + mu**2 * weight)) * x) @ x.T
        return jnp.sum(w * phi, axis=1), slope, (w2 * phi) @ phi.T, clean, jnp.sum((w2 * phi**2) ** 2, axis=1)

    return _added(part, held.clean.shape[1], chunk)


def _predicted(betas: Any, x: Any) -> Any:
    """Linear predictors (B, m); at one value as a sum of few columns, which needs no pass of its own."""
    if len(betas) > 1 or len(x) > FEW:
        return betas @ x
    return sum(betas[:, j, None] * x[j] for j in range(len(x)))


def _added(part: ChunkSums, n: int, chunk: int) -> Any:
    """The sums of all chunks. The last one reaches back into the one before it, whose rows it does not count again."""

    def step(total: Any, number: Any) -> tuple[Any, None]:
        low = jnp.minimum(number * chunk, n - chunk)
        new = low + jnp.arange(chunk) >= number * chunk
        return jax.tree.map(jnp.add, total, part(low, new)), None

    shapes = jax.eval_shape(part, 0, jnp.ones(chunk, dtype=bool))
    nothing = jax.tree.map(lambda sum_: jnp.zeros(sum_.shape, sum_.dtype), shapes)
    return jax.lax.scan(step, nothing, jnp.arange(-(-n // chunk)))[0]


def _weighed(weights: RowWeights, low: Any, new: Any) -> Any:
    """Of a chunk's rows (B or 1, m), 0 for those that were counted before."""
    if weights.keys.size:
        return exponentials(weights.keys, new.size, low) * new
    if weights.given.size:
        return jax.lax.dynamic_slice_in_dim(weights.given, low, new.size, axis=1) * new
    return new.astype(jnp.float64)[None]


def _nodes(held: HeldRecords, low: Any, chunk: int) -> list[tuple[Any, ...]]:
    """At each node: design (d, m), weight, its products with the response and its square, and offset (m,) or a number."""

    def rows(values: Any) -> Any:
        return jax.lax.dynamic_slice_in_dim(values, low, chunk, axis=values.ndim - 1)

    clean, y1, y2, offset = (rows(values) for values in (held.clean, held.y1, held.y2, held.offset))
    table = jnp.take(held.table, rows(held.row), axis=0).T if held.row.size else held.table.T
    out = []
    for c in range(len(held.node)):
        x = clean[held.place] * held.node[c][:, None] if held.place.size else clean
        moments = (table[c] * moment[c if len(moment) > 1 else 0] for moment in (y1, y2))
        out.append((x, table[c], *moments, offset[c if len(offset) > 1 else 0] if len(offset) else 0.0))
    return out
