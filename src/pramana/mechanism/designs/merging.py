"""Levels that few people hold, put together with others: a published list of levels must not point at anyone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pramana.arrays import Column
from pramana.errors import DataError
from pramana.frames import Level
from pramana.frames.levels import is_number

OTHER = "other"


def people(values: Sequence[Any], units: Column | None) -> dict[Any, int]:
    """How many hold each value: records, or different units."""
    import pandas as pd

    held = pd.DataFrame({"value": pd.Series(list(values), dtype=object), "unit": np.arange(len(values))})
    if units is not None:
        held["unit"] = units
        held = held.drop_duplicates()
    return {value: int(count) for value, count in held["value"].value_counts(sort=False).items()}


def merged(
    column: str, levels: Sequence[Level], held: dict[Any, int], below: int, *, ordered: bool, other: Level
) -> tuple[tuple[Level, ...], dict[Any, Level]]:
    """The levels that stay, and where the values of the others go: on a scale to the nearest level, else to `other`, or where too
    few would be there, to the smallest level.

    Values that the list lacks and few hold are merged too; levels that nobody holds stay, for they point at nobody.
    """
    if ordered or (levels and is_number(levels[0])):
        kept, where = _to_the_nearest(levels, held, below)
    else:
        kept, where = _to_the_rest(levels, held, below, other)
    if len(kept) < 2:
        raise DataError(
            f"{len(kept)} level(s) of column {column!r} remain when those of fewer than {below} are merged: merge fewer, or drop it"
        )
    return tuple(kept), where


def _to_the_rest(
    levels: Sequence[Level], held: dict[Any, int], below: int, other: Level
) -> tuple[list[Level], dict[Any, Level]]:
    rare = [v for v in dict.fromkeys([*levels, *held]) if 0 < held.get(v, 0) < below and v != other]
    kept = [level for level in levels if level not in set(rare) and level != other]
    if not rare:
        return list(levels), {}
    if sum(held[v] for v in rare) + held.get(other, 0) >= below:
        return [*kept, other], dict.fromkeys(rare, other)
    # The rest would point at people too: they count with the smallest level, and nobody else's is lost.
    rare += [other] if held.get(other) else []
    smallest = min((level for level in kept if held.get(level, 0)), key=lambda v: held[v], default=None)
    return (kept, dict.fromkeys(rare, smallest)) if smallest is not None else ([], {})


def _to_the_nearest(levels: Sequence[Level], held: dict[Any, int], below: int) -> tuple[list[Level], dict[Any, Level]]:
    numbers = is_number(levels[0])
    scale = sorted({*levels, *held}) if numbers else [*levels, *(v for v in held if v not in levels)]
    place = {v: float(v) if numbers else float(k) for k, v in enumerate(scale)}
    listed, rare = set(levels), [v for v in scale if 0 < held.get(v, 0) < below]
    few = set(rare)
    kept = [level for level in scale if level in listed and level not in few]
    full = [level for level in kept if held.get(level, 0)]  # nobody is merged with a level that nobody holds
    if not full:
        return [], {}
    places = np.array([place[v] for v in full])
    after = np.searchsorted(places, [place[v] for v in rare]).clip(1, max(len(full) - 1, 1))
    where = {}
    for v, right in zip(rare, after.tolist(), strict=True):
        near = full[max(right - 1, 0) : right + 1]
        where[v] = min(near, key=lambda level: abs(place[level] - place[v]))
    return kept, where
