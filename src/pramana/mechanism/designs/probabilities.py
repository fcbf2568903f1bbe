"""The numbers a person gives to a design, checked once: frequencies, keep probabilities, epsilon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pramana.arrays import Float
from pramana.errors import MechanismError, listing, quoted
from pramana.frames import Level
from pramana.frames.levels import is_number
from pramana.mechanism.channels.transition import Frequencies

Keep: TypeAlias = "float | Sequence[float] | npt.NDArray[np.float64] | Mapping[Any, float]"
SUM_TOLERANCE = 1e-9


def checked_frequencies(frequencies: Frequencies, levels: Sequence[Level]) -> Float:
    """Positive frequencies in the order of the levels, summing to one; what rounding left is shared out (K,)."""
    values = _in_order(frequencies, levels, "frequencies")
    if values.min() <= 0:
        level = levels[int(np.argmin(values))]
        raise MechanismError(
            f"the frequency of level {quoted(repr(level))} is {values.min():.6g}: frequencies must be positive; leave out a level that never "
            "occurs, or give it a small share"
        )
    if abs(values.sum() - 1) > SUM_TOLERANCE:
        raise MechanismError(
            f"the frequencies sum to {values.sum():.10g}, not 1 (tolerance {SUM_TOLERANCE:.0e}): divide counts by their total"
        )
    return values / values.sum()


def checked_keep(keep: Keep, levels: Sequence[Level]) -> Float:
    """Keep probabilities in the order of the levels, one number standing for all (K,)."""
    if is_number(keep):
        keep = np.full(len(levels), keep)
    values = _in_order(keep, levels, "keep probabilities")
    outside = np.flatnonzero(~((values >= 0) & (values <= 1)))
    if outside.size:
        raise MechanismError(
            f"keep={values[outside[0]]:.6g} of level {quoted(repr(levels[outside[0]]))} must be a probability: probabilities lie between 0 and 1"
        )
    return values


def checked_floor(keep: object) -> float:
    """One keep probability for all levels."""
    if not (is_number(keep) and 0 < keep <= 1):  # type: ignore[operator]
        raise MechanismError(f"keep={keep!r} must be one probability, above 0 and at most 1")
    return float(keep)  # type: ignore[arg-type]


def checked_epsilon(epsilon: object) -> float:
    if not (is_number(epsilon) and 0 < epsilon < 700):  # type: ignore[operator]
        raise MechanismError(f"epsilon={epsilon!r} must be positive and below 700")
    return float(epsilon)  # type: ignore[arg-type]


def _in_order(values: Any, levels: Sequence[Level], what: str) -> Float:
    if isinstance(values, Mapping):
        absent = [level for level in levels if level not in values]
        unknown = [level for level in values if level not in levels]
        if absent or unknown:
            problem = (
                f"lack level(s) {quoted(listing(absent))}"
                if absent
                else f"name {listing(unknown)}, which are no levels"
            )
            raise MechanismError(f"the {what} {problem}: give one for each of {quoted(listing(levels, 10))}")
        values = [values[level] for level in levels]
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise MechanismError(f"the {what} must be numbers, one a level in the order of the levels") from None
    if array.shape != (len(levels),):
        raise MechanismError(
            f"there are {array.size} {what} for {len(levels)} levels: give one a level, in their order"
        )
    if not np.all(np.isfinite(array)):
        raise MechanismError(f"one of the {what} is not a finite number: give a probability for every level")
    return array
