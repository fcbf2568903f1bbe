"""How far long work is, for whoever watches it."""

from __future__ import annotations

from collections.abc import Callable

Tell = Callable[[int, int], None]
"""Called with how much is done, and of how much."""


def silent(done: int, total: int) -> None:
    """Nobody watches."""


def part_of(tell: Tell, index: int, parts: int) -> Tell:
    """The progress of one of several equal parts, as progress of the whole.

    >>> seen = []
    >>> part_of(lambda done, total: seen.append(done / total), 1, 4)(5, 10)
    >>> seen
    [0.375]
    """
    return lambda done, total: tell(index * total + done, parts * total)
