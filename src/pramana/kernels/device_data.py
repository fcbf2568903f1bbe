"""Data sets that are made on a device from counter-based bits, perturbed there, and laid out for its solvers: no record travels.

The slow version that this must equal makes the same data sets on the CPU (`CountedVariates.of`, the draws of the mechanism), binds
them there and sends them over (`DeviceSets.of`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import mul
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np

from pramana.arrays import Float, Words
from pramana.errors import PramanaError, listing
from pramana.kernels.accelerator import FILLED, Arrays, DeviceSets, Layout, wide
from pramana.kernels.variates import CountedVariates, Variates, perturbing

_LAST = np.uint64(2**64 - 2)
"""The last word is taken for its neighbour, as `mechanism.draws.drawing` does, so a cut there is never passed."""


class Outline(NamedTuple):
    """What an equation is made of, apart from the records.

    Attributes
    ----------
    clean : for each clean part that varies, the columns whose product it is.
    layout : the design columns as products, and the curve.
    """

    clean: tuple[tuple[str, ...], ...]
    layout: Layout


@dataclass(frozen=True)
class MadeSets:
    """G data sets of `size` records on the device, filled up with records that nobody reads.

    Attributes
    ----------
    columns : what was made, by name (G, n).
    codes : (G, n), the perturbed column, true or as released.
    """

    columns: Mapping[str, Any]
    codes: Any
    size: int

    def limits(self, name: str) -> Float:
        """The smallest and the largest value of a column (2,)."""
        with wide():
            values = self.columns[name][:, : self.size]
            return np.array([jnp.min(values), jnp.max(values)])

    def summed(self, outline: Outline, values: Float) -> DeviceSets:
        """With a response that is a function of the code, its values (K,) given: one node a record, of weight 1."""
        with wide():
            first = _by_code(self.codes, jnp.asarray(values)[:, None])
            return self._laid_out(outline, None, first)

    def spread(self, outline: Outline, weight: Any, response: str | Float) -> DeviceSets:
        """With weights (G, C, n) of the nodes, and a response that is a column or a number for each node (C,)."""
        with wide():
            y = self.columns[response][:, None] if isinstance(response, str) else jnp.asarray(response)[:, None]
            return self._laid_out(outline, weight, weight * y)

    def as_response(self, outline: Outline) -> DeviceSets:
        """With the code itself for a response."""
        with wide():
            return self._laid_out(outline, None, self.codes[:, None].astype(jnp.float64))

    def weighed(self, table: Float) -> Any:
        """Weights of the nodes (G, C, n), a row of the table (K, C) for each code."""
        with wide():
            return _by_code(self.codes, jnp.asarray(table))

    def posterior(self, chances: Any, likelihood: Float, reversion: Float, *, clip: bool) -> Any:
        """p(z | z*, x) as weights (G, K, n), by Bayes' rule.

        Parameters
        ----------
        chances : (G, n), Pr(z* = 1 | x), of two released levels.
        likelihood : (K, K), p(z* | z), a row for each released level; reversion : (K, K), its inverse, likewise.
        clip : cut p(z | x) to [0, 1] first.
        """
        with wide():
            return _posterior(self.codes, chances, jnp.asarray(likelihood), jnp.asarray(reversion), clip=clip)

    def _laid_out(self, outline: Outline, weight: Any | None, first: Any) -> DeviceSets:
        arrays = _laid_out(dict(self.columns), weight, first, clean=outline.clean, size=self.size)
        return DeviceSets(arrays, outline.layout)


def make(
    columns: Callable[[Variates], Mapping[str, Any]],
    starts: Words,
    size: int,
    column: str,
    levels: Sequence[float],
    cuts: Words,
) -> tuple[MadeSets, MadeSets]:
    """Data sets of `size` records each, one for each starting word (G,): true, and as released.

    Parameters
    ----------
    column, levels : the perturbed column, and its K levels.
    cuts : (K, K − 1), cut points of the draws, a row for each true level.
    """
    with wide():
        known, rows = np.asarray(levels, dtype=np.float64), size + -size % FILLED
        try:
            found, true, released, strange = _made(starts, cuts, known, columns=columns, column=column, rows=rows)
        except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
            raise PramanaError(
                f"the population cannot be made on a device, which says: {str(error).splitlines()[0]}; write it in arithmetic, comparisons "
                "and the functions of Variates, without NumPy's and without if, or use device='cpu'"
            ) from None
        if int(strange):
            raise PramanaError(
                f"{int(strange)} values of {column!r} that were generated are none of its levels {listing(levels)}: "
                "generate levels of the mechanism alone"
            )
    return MadeSets(found, true, size), MadeSets(found, released, size)


@partial(jax.jit, static_argnames=("columns", "column", "rows"))
def _made(
    starts: Any,
    cuts: Any,
    levels: Any,
    *,
    columns: Callable[[Variates], Mapping[str, Any]],
    column: str,
    rows: int,
) -> tuple[dict[str, Any], Any, Any, Any]:
    """Columns (G, n), true and released codes (G, n), and how many values are no level."""
    draw = CountedVariates(starts, jnp.arange(rows, dtype=jnp.uint64), jax.scipy.special)
    shape = (len(starts), rows)
    found = {name: jnp.broadcast_to(v, shape).astype(jnp.float64) for name, v in columns(draw).items()}
    is_level = found[column][..., None] == levels
    true = jnp.argmax(is_level, axis=-1)
    words = jnp.minimum(draw.words(perturbing(0, 0)), _LAST)
    released = jnp.sum(words[..., None] >= jnp.asarray(cuts)[true], axis=-1)
    return found, true, released, jnp.sum(~is_level.any(axis=-1))


@partial(jax.jit, static_argnames=("clean", "size"))
def _laid_out(
    columns: dict[str, Any], weight: Any | None, first: Any, *, clean: tuple[tuple[str, ...], ...], size: int
) -> Arrays:
    groups, _, rows = first.shape
    present = jnp.arange(rows) < size

    def filled(values: Any) -> Any:
        return jnp.where(present, values, 0.0)

    parts = [reduce(mul, (columns[name] for name in names)) for names in clean]
    varying = jnp.stack(parts, axis=1) if parts else jnp.zeros((groups, 0, rows))
    none = jnp.zeros((groups, 0, 0))
    return Arrays(filled(varying), none if weight is None else filled(weight), filled(first), none, jnp.asarray(size))


@jax.jit
def _by_code(codes: Any, table: Any) -> Any:
    """Rows (G, C, n) of a table (K, C)."""
    return jnp.moveaxis(table[codes], -1, 1)


@partial(jax.jit, static_argnames=("clip",))
def _posterior(codes: Any, chances: Any, likelihood: Any, reversion: Any, *, clip: bool) -> Any:
    fitted = jnp.stack([1 - chances, chances], axis=1)
    truth = jnp.einsum("gkn,kc->gcn", fitted, reversion)
    if clip:
        truth = jnp.clip(truth, 1e-12, 1.0)
    joint = _by_code(codes, likelihood) * truth
    return joint / jnp.sum(joint, axis=1, keepdims=True)
