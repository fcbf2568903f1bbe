"""Laplace noise of which what is released was clamped to the bounds of the data: two atoms, and a continuum between them.

A number at the lower bound L stands for all draws at or below it. On the grid of step h on which noise is drawn, with α = e^(−h/b),

    inside    u − α/(1 − α)² · (u(w + h) − 2u(w) + u(w − h)), which is u − b² u″ to 5e-9
    at L      u(L) − α/(1 − α) · (u(L + h) − u(L)), which is u(L) − b u′(L) to order h
    at U      u(U) − α/(1 − α) · (u(U − h) − u(U)), likewise u(U) + b u′(U)

are averaged to u(z) for every z within the bounds: Σ_w Pr(w | z) u*(w) telescopes, because the chance of a tail, α^k/(1 + α), falls by α with
every step, as the chance of a point does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pramana.arrays import Column, Columns, Float, Words
from pramana.errors import DataError, MechanismError, quoted
from pramana.kernels.additive import laplace_stencil
from pramana.mechanism.channel import Document, Nodes
from pramana.mechanism.channels.additive_noise import OFF_GRID, GridNoise
from pramana.mechanism.draws.keystream import Keystream

if TYPE_CHECKING:
    from pramana.mechanism.channels.noise import LaplaceNoise


@dataclass(frozen=True)
class ClampedLaplaceNoise(GridNoise):
    """Laplace noise, added to numbers within bounds and clamped to the same bounds afterwards; `LaplaceNoise(scale, bounds=...).clamped()`.

    >>> from pramana import LaplaceNoise
    >>> LaplaceNoise(2.0, bounds=(18, 98)).clamped().epsilon
    40.0
    """

    inner: LaplaceNoise

    def __post_init__(self) -> None:
        if self.inner.bounds is None:
            raise MechanismError("LaplaceNoise has no bounds to clamp to: give bounds=(lowest, highest)")

    @property
    def scale(self) -> float:
        return self.inner.scale

    @property
    def bounds(self) -> tuple[float, float] | None:  # type: ignore[override]
        return self.inner.bounds

    @property
    def grid(self) -> float:
        return self.inner.grid

    @property
    def cuts(self) -> Words:
        return self.inner.cuts

    @property
    def spread(self) -> float:
        return self.inner.spread

    @property
    def clamps(self) -> bool:
        return True

    @property
    def law(self) -> str:
        low, high = self.ends
        return f"{self.inner.law}, with what came out clamped to {low:g} to {high:g},"

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest number that is released: grid points within the bounds."""
        low, high = self.true_steps(np.array(self.bounds)) * self.grid
        return float(low), float(high)

    @property
    def jump(self) -> float:
        """α/(1 − α)."""
        return float(1 / np.expm1(self.grid / self.scale))

    @property
    def surest(self) -> float:
        """Of a true value at a bound, which half of all noise leaves there."""
        chances = self.chances
        return float(chances[: chances.size // 2 + 1].sum())

    @property
    def epsilon(self) -> float:
        return self.inner.epsilon

    @property
    def bounded(self) -> bool:
        return True

    def unbiased(self, released: Float) -> tuple[Float, Float]:
        """About L − b and U + b stand for what was released at the ends; (w*)² − (z²)* is that of all noise inside, and half of it there."""
        low, high = self.ends
        outwards = (released >= high - OFF_GRID * self.grid).astype(float) - (released <= low + OFF_GRID * self.grid)
        return released + self.jump * self.grid * outwards, self.spread**2 * (1 - np.abs(outwards) / 2)

    def perturb(self, encoded: Column, context: Columns, stream: Keystream) -> Column:
        return np.clip(self.inner.perturb(encoded, context, stream), *self.ends)

    def check_released(self, encoded: Column, context: Columns) -> None:  # noqa: ARG002
        low, high = self.inner.bounds or self.ends
        beyond = np.flatnonzero((encoded < low) | (encoded > high))
        if beyond.size:
            raise DataError(
                f"{beyond.size} of {encoded.size} released values lie beyond the bounds {low:g} and {high:g}, first in row {beyond[0]} "
                f"({quoted(f'{encoded[beyond[0]]:.10g}')}): they were not clamped to them after the noise, as the mechanism says; if none were, it is "
                f"LaplaceNoise({self.scale:g}, bounds=...) without clamped()"
            )

    def revert(self, encoded: Column, context: Columns) -> Nodes:
        """By nodes: five inside, and two at either end."""
        self.check_released(encoded, context)
        values, grid = np.asarray(encoded, dtype=float), self.inner.grid
        offsets, weights = laplace_stencil()
        row = np.zeros(values.size, dtype=np.int64)
        nodes = values + self.scale * offsets[:, None]
        bounds = self.inner.bounds or self.ends
        for place, (end, bound, inwards) in enumerate(zip(self.ends, bounds, (grid, -grid), strict=True), start=1):
            at = np.minimum(np.abs(values - end), np.abs(values - bound)) < OFF_GRID * grid
            row[at] = place
            nodes[:, at] = values[at]
            nodes[1, at] += inwards
        ends = [0.0, -self.jump, 1 + self.jump, 0.0, 0.0]
        return Nodes(tuple(nodes), np.array([weights, ends, ends]), row, np.full(3, 2))

    def document(self) -> Document:
        return {**self.inner.document(), "channel": "clamped_laplace_noise"}
