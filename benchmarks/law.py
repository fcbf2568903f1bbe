"""How time grows with size: a fixed cost, stated apart, and a power of the size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

POWERS = np.arange(0.3, 2.5, 0.005)
"""Exponents that are tried."""
FEWEST = 4
"""Sizes from which a fixed cost can be told from a power, with one to spare."""


@dataclass(frozen=True)
class Law:
    """time = fixed + rate · size^power, with the smallest relative errors.

    Attributes
    ----------
    fixed : seconds, whatever the size.
    rate : seconds for size 1.
    raw : slope of log time on log size, the fixed cost included.
    off : largest relative difference between the law and a measured time.
    """

    fixed: float
    rate: float
    power: float
    raw: float
    off: float

    def __str__(self) -> str:
        raw = f"raw exponent {self.raw:.2f}"
        if np.isnan(self.power):
            return f"{raw}; too few sizes to tell a fixed cost from it"
        return (
            f"{self.fixed:.3g} s + {self.rate:.3g} s · n^{self.power:.2f} (within {self.off:.0%} of every time; {raw})"
        )


def law(times: Mapping[int, float]) -> Law:
    """Of seconds by size.

    >>> found = law({10**k: 0.5 + 2e-7 * 10**k for k in range(5, 9)})
    >>> round(found.fixed, 3), round(found.power, 2), round(found.raw, 2)
    (0.5, 1.0, 0.53)
    """
    sizes, seconds = (np.array(values, dtype=float) for values in zip(*sorted(times.items()), strict=True))
    raw = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0]) if len(sizes) > 1 else np.nan
    if len(sizes) < FEWEST:
        return Law(0.0, np.nan, np.nan, raw, np.nan)
    largest = sizes.max()

    def tried(power: float) -> tuple[float, np.ndarray]:
        parts = np.column_stack([np.ones(len(sizes)), (sizes / largest) ** power])
        found, error = nnls(parts / seconds[:, None], np.ones(len(sizes)))
        return error, found

    power = min(POWERS, key=lambda power: tried(power)[0])
    fixed, rate = tried(power)[1]
    off = float(np.abs((fixed + rate * (sizes / largest) ** power) / seconds - 1).max())
    return Law(float(fixed), float(rate / largest**power), float(power), raw, off)
