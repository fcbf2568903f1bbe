"""Columns perturbed together, and one design for each stratum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from pramana.arrays import Float
from pramana.errors import MechanismError, confidential, listing, quoted
from pramana.frames import Level, checked_levels, read
from pramana.frames.table import require_columns
from pramana.mechanism.channels.stratified import Stratified
from pramana.mechanism.channels.transition import TransitionMatrix

COMBINATION_LIMIT = 2000


def linked(
    combinations: Sequence[tuple[Level, ...]],
    keep: float | None = None,
    *,
    epsilon: float | None = None,
    channels: Sequence[TransitionMatrix] | None = None,
) -> TransitionMatrix:
    """One matrix for several columns at once: combinations that are not listed can never be released.

    Parameters
    ----------
    combinations : the possible tuples of values, one value a column.
    keep, epsilon : randomised response over the combinations, by its keep probability or its privacy loss.
    channels : instead, one matrix a column: their product, restricted to the combinations and rescaled to columns that sum
        to 1, so that values change about as each column's own matrix says.

    >>> pairs = [("child", "single"), ("adult", "single"), ("adult", "married")]
    >>> linked(pairs, keep=0.9).matrix.round(3)
    array([[0.9 , 0.05, 0.05],
           [0.05, 0.9 , 0.05],
           [0.05, 0.05, 0.9 ]])
    """
    levels = _checked_combinations(combinations)
    given = [option for option in (keep, epsilon, channels) if option is not None]
    if len(given) != 1:
        raise MechanismError(f"linked columns need one of keep, epsilon and channels, not {len(given)} of them")
    if keep is not None:
        return TransitionMatrix.randomized_response(levels, keep)
    if epsilon is not None:
        return TransitionMatrix.from_epsilon(levels, epsilon)
    assert channels is not None
    return TransitionMatrix.from_columns(levels, _product_over(levels, channels))


@confidential
def observed_combinations(data: Any, columns: Sequence[str]) -> list[tuple[Level, ...]]:
    """The combinations that occur in a frame or file, in the order of each column's levels; rows with a missing value are left out.

    Publishing them tells that each of them occurs.
    """
    table = read(data)
    require_columns(table, columns, "the linked design")
    present = ~table.missing(columns)
    parts = [table.column(name)[present].tolist() for name in columns]
    places = [{level: place for place, level in enumerate(table.levels(name))} for name in columns]
    found = sorted(
        set(zip(*parts, strict=True)), key=lambda values: [own[v] for own, v in zip(places, values, strict=True)]
    )
    if len(found) > COMBINATION_LIMIT:
        raise MechanismError(
            f"columns {listing(columns)} have {len(found)} combinations, above the limit of {COMBINATION_LIMIT}: link fewer columns or "
            "coarsen them"
        )
    return found


def by_stratum(
    by: str,
    levels: Sequence[Level],
    designs: Mapping[Any, TransitionMatrix | Mapping[str, Any]],
    *,
    build: Callable[..., TransitionMatrix] = TransitionMatrix.randomized_response,
) -> Stratified:
    """One design for each value of an unperturbed column: a matrix, or the options of `build(levels, ...)`.

    >>> by_stratum("region", ["a", "b"], {"north": {"keep": 0.9}, "south": {"keep": 0.7}}).epsilon.__round__(3)
    2.197
    """
    made: dict[Level, TransitionMatrix] = {}
    for value, design in designs.items():
        try:
            made[value] = design if isinstance(design, TransitionMatrix) else build(levels, **design)
        except TypeError as error:
            raise MechanismError(f"stratum {value!r} of {by!r}: {error}") from None
        except MechanismError as error:
            raise MechanismError(f"stratum {value!r} of {by!r}: {error.marked}") from None
    return Stratified(by, made)


def _checked_combinations(combinations: Sequence[tuple[Level, ...]]) -> tuple[tuple[Level, ...], ...]:
    levels = checked_levels(combinations)
    widths = {len(level) if isinstance(level, tuple) else 0 for level in levels}
    if widths == {0} or widths == {1} or len(widths) > 1:
        raise MechanismError(
            f"combinations {quoted(listing(levels, 3))} must be tuples of equal length, one value for each of at least 2 columns"
        )
    return levels  # type: ignore[return-value]


def _product_over(levels: Sequence[tuple[Level, ...]], channels: Sequence[TransitionMatrix]) -> Float:
    width = len(levels[0])
    if len(channels) != width:
        raise MechanismError(f"{len(channels)} channels for combinations of {width} columns: give one a column")
    parts = []
    for position, channel in enumerate(channels):
        codes = _positions([level[position] for level in levels], channel, position)
        parts.append(channel.matrix[np.ix_(codes, codes)])
    product = reduce(np.multiply, parts)
    return product / product.sum(axis=0)


def _positions(values: Sequence[Level], channel: TransitionMatrix, position: int) -> list[int]:
    unknown = [value for value in dict.fromkeys(values) if value not in channel.levels]
    if unknown:
        raise MechanismError(
            f"{quoted(listing(unknown))} in column {position + 1} of the combinations are no levels of its channel, which has "
            f"{listing(channel.levels, 10)}"
        )
    return [channel.levels.index(value) for value in values]
