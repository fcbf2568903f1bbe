"""Zero up to rounding: what is left of a sum whose signed terms cancel.

Reverted weights have both signs, so that a share which is exactly 0 comes out as 1e-17 of either sign. A sum is taken for 0 where
it is below `ROUNDING` of the sum of the absolute values of its terms. That is far more than rounding leaves (1e-16 times the
condition number of P) and far less than its standard error (at least 1/√n of that sum), so that nothing which can be told from
zero is lost; a sum of terms of one sign is never touched, however small it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pramana.arrays import Float

ROUNDING = 1e-10
SCREEN = 1e-8
"""Of the absolute terms: what exceeds this is not asked for its gradient."""


def settled(sums: Float, sizes: Float) -> Float:
    """Sums, with 0 for those that are 0 up to rounding; `sizes` are the sums of the absolute values of their terms.

    >>> settled(np.array([0.1 + 0.2 - 0.3, 1e-17, -0.2]), np.array([0.6, 1e-17, 0.4]))
    array([ 0.e+00,  1.e-17, -2.e-01])
    """
    return np.where(np.abs(sums) <= ROUNDING * sizes, 0.0, sums)


def settled_values(function: Callable[[Any], Any], mu: Float, sizes: Float) -> Float:
    """g(μ) (k,), with 0 for what moments μ (m,) that are known up to rounding of their sizes (m,) do not tell from 0."""
    values = np.asarray(function(mu))
    if np.all(np.abs(values) > SCREEN * sizes.sum()):
        return values
    return settled(values, np.abs(gradient(function, mu)) @ sizes)


def gradient(function: Callable[[Any], Any], mu: Float) -> Float:
    """g′(μ) (k, m) by complex steps, exact to rounding.

    >>> gradient(lambda m: np.stack([np.log(m[0]) - np.log(m[1])]), np.array([2.0, 4.0]))
    array([[ 0.5 , -0.25]])
    """
    step = 1e-30
    columns = [np.imag(function(mu + 1j * step * unit)) / step for unit in np.eye(mu.size)]
    return np.stack(columns, axis=-1)
