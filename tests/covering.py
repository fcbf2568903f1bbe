"""Which cases of a grid run every time: all cases are part of `make verify`, and a few hold every pair of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any

import pytest


def pairs_first(*lists: Sequence[Any], name: Callable[[tuple[Any, ...]], str] | None = None) -> list[Any]:
    """Every combination of the lists; those that are not needed for every pair of values to occur are marked `verify`."""
    kept = covering([len(values) for values in lists])
    label = name or (lambda case: " · ".join(map(str, case)))
    return [
        pytest.param(*case, id=label(case), marks=() if places in kept else pytest.mark.verify)
        for places in product(*(range(len(values)) for values in lists))
        for case in [tuple(values[k] for values, k in zip(lists, places, strict=True))]
    ]


def covering(sizes: Sequence[int]) -> set[tuple[int, ...]]:
    """Few combinations in which every pair of places occurs: each time the one with most new pairs."""
    open_pairs = {
        ((i, a), (j, b))
        for i, j in combinations(range(len(sizes)), 2)
        for a in range(sizes[i])
        for b in range(sizes[j])
    }
    cases = list(product(*map(range, sizes)))
    kept: set[tuple[int, ...]] = set()
    while open_pairs:
        best = max(cases, key=lambda case: len(open_pairs & _pairs(case)))
        kept.add(best)
        open_pairs -= _pairs(best)
    return kept


def _pairs(case: tuple[int, ...]) -> set[tuple[tuple[int, int], ...]]:
    return set(combinations(enumerate(case), 2))
