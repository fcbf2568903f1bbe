"""Numbers as people read them: one format for all numbers of a column, counts in thousands, p-values down to a limit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MOST_DECIMALS = 8
"""More are not read any more: the column is written with powers of ten."""
ROUNDING = 1e-12
"""What is smaller, as a part of the largest number of a column, is a zero that rounding left over."""
GROUPED = 10_000
"""Numbers from here on have a comma at every thousand; a year has none."""


class PValue(float):
    """A number that is shown as a p-value: to four decimals, and as less than the least of these."""

    decimals = 4


def count(number: float) -> str:
    """How many; with the decimals that it has, where weights have been added.

    >>> count(1952), count(5e6), count(12345.5)
    ('1952', '5,000,000', '12,345.5')
    """
    if not math.isfinite(number):
        return str(number)
    whole = number == int(number)
    made = _plain(number, 0 if whole else 4, abs(number) >= GROUPED)
    return made if whole else made.rstrip("0")


def p_value(p: float, decimals: int = PValue.decimals) -> str:
    """A p-value.

    >>> p_value(0.0321), p_value(3e-9), p_value(3e-9, 2)
    ('0.0321', '<0.0001', '<0.01')
    """
    if not math.isfinite(p):
        return str(float(p))
    least = 10.0**-decimals
    return f"<{least:.{decimals}f}" if p < least else f"{p:.{decimals}f}"


def told_p(p: float) -> str:
    """A p-value within a sentence.

    >>> told_p(0.0321), told_p(3e-9)
    ('p = 0.0321', 'p < 0.0001')
    """
    shown = p_value(p)
    return f"p < {shown[1:]}" if shown.startswith("<") else f"p = {shown}"


@dataclass(frozen=True)
class Format:
    """How all numbers of a column are written.

    Attributes
    ----------
    decimals : how many; None for powers of ten with `digits` digits.
    grouped : with a comma at every thousand.
    """

    decimals: int | None
    digits: int
    grouped: bool

    @classmethod
    def of(cls, values: Iterable[float], digits: int = 4, *, fixed: bool = False) -> Format:
        """The one that suits all of the numbers: `digits` decimals, fewer where a number has more than three places before them, and more where
        the least number would be lost, unless they are `fixed`. Where eight do not suffice, all have powers of ten."""
        sizes = [abs(value) for value in values if math.isfinite(value) and value != 0]
        largest = max(sizes, default=0.0)
        return cls(digits if fixed or not sizes else _decimals(sizes, largest, digits), digits, largest >= GROUPED)

    def __call__(self, value: float) -> str:
        """One number.

        >>> Format.of([-1234567.891, 2.0])(2), Format.of([0.5])(-0.00001), Format.of([1e-30])(2e-29)
        ('2', '0.0000', '2.000e-29')
        """
        if not math.isfinite(value):
            return str(float(value))
        if self.decimals is None:
            return f"{value:.{max(self.digits - 1, 0)}e}"
        return _plain(value, self.decimals, self.grouped)


def _decimals(sizes: Sequence[float], largest: float, digits: int) -> int | None:
    least = min(size for size in sizes if size >= ROUNDING * largest)
    found = max(digits - max(math.floor(math.log10(largest)) - 2, 0), 0)
    if round(least, found) == 0:
        found = 1 - math.floor(math.log10(least))
    return None if found > MOST_DECIMALS or largest >= 1e15 else found


def column(values: Sequence[object], digits: int = 4, *, fixed: bool = False) -> list[str | None]:
    """Texts of the numbers of a column, all in one format; None where there is no number.

    >>> column([0.12345, -3.0, None, "a"]), column([640178.1125, 1.172e6]), column([0.5, 2.5e-5])
    (['0.1235', '-3.0000', None, None], ['640,178', '1,172,000'], ['0.500000', '0.000025'])
    >>> column([1e-20, 3.0]), column([2.5e-11, 1e-9]), column([2006, 12_000]), column([2006, 2008])
    (['0.0000', '3.0000'], ['2.500e-11', '1.000e-09'], ['2,006', '12,000'], ['2006', '2008'])
    """
    floats = [v for v in values if isinstance(v, float) and not isinstance(v, PValue)]
    whole = [v for v in values if isinstance(v, int) and not isinstance(v, bool)]
    broken, counted = Format.of(floats, digits, fixed=fixed), Format.of(map(float, whole), 0, fixed=True)
    return [_text(value, broken, counted) for value in values]


def _text(value: object, broken: Format, counted: Format) -> str | None:
    if isinstance(value, PValue):
        return p_value(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return counted(value) if isinstance(value, int) else broken(value)


def _plain(value: float, decimals: int, grouped: bool) -> str:
    made = f"{value:,.{decimals}f}" if grouped else f"{value:.{decimals}f}"
    return made.removeprefix("-") if made.startswith("-") and not made.strip("-0.,") else made
