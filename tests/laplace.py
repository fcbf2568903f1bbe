"""A Laplace channel, to show that a Channel carries more than transition matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pramana.frames import Kind
from pramana.mechanism import Channel, Nodes

SECOND_DERIVATIVE = np.array([2.0, -27.0, 270.0, -490.0, 270.0, -27.0, 2.0]) / 180
"""Central stencil of sixth order."""
STEP = 0.05
"""Truncation h⁶/560 · u⁽⁸⁾ ≈ 3e-11 · u⁽⁸⁾ and rounding 5 · 2⁻⁵³/h² ≈ 2e-13 · u are both far below 1e-8."""


@dataclass(frozen=True)
class LaplaceChannel(Channel):
    """Additive noise of scale b: the reversion of u is u − b² u″."""

    scale: float
    kind: Kind = "numeric"
    levels: None = None
    epsilon: float = float("inf")

    def encode(self, columns: Sequence[Any], names: Sequence[str]) -> Any:  # noqa: ARG002
        return np.asarray(columns[0], dtype=float)

    def perturb(self, encoded: Any, context: Mapping[str, Any], stream: Any) -> Any:  # noqa: ARG002
        uniform = (stream.words(encoded.size).astype(float) + 0.5) * 2.0**-64 - 0.5
        return encoded - self.scale * np.sign(uniform) * np.log1p(-2 * np.abs(uniform))

    def revert(self, encoded: Any, context: Mapping[str, Any]) -> Nodes:  # noqa: ARG002
        row = -((self.scale / STEP) ** 2) * SECOND_DERIVATIVE
        row[3] += 1
        values = tuple(encoded + k * STEP for k in range(-3, 4))
        return Nodes(values, row[None], np.zeros(encoded.size, dtype=int), np.array([3]))

    def document(self) -> dict[str, Any]:
        return {"channel": "laplace", "scale": self.scale}
