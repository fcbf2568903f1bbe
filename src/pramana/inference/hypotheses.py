"""Linear hypotheses written as text, and their tests: Wald's, or that of one parameter which its interval goes by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float
from pramana.errors import FormulaError, suggestion
from pramana.formulas.language import TextReader
from pramana.formulas.tree import Literal, Name, Node, Operation
from pramana.numbers import told_p


@dataclass(frozen=True)
class WaldTest:
    """A test of `R β = r`: chi-square, or F where the variance has few degrees of freedom.

    Attributes
    ----------
    statistic : gapᵀ V⁻¹ gap; F is this over `df`.
    df : equations.
    denominator : degrees of freedom of the variance, or None for the chi-square.
    kind : "Wald", or of an `IntervalTest` the interval whose test it is.
    """

    hypothesis: str
    statistic: float
    df: int
    p_value: float
    denominator: float | None = None

    @property
    def kind(self) -> str:
        return "Wald"

    def __str__(self) -> str:
        found = f"chi2({self.df}) = {self.statistic:.4g}"
        if self.denominator is not None:
            found = f"F({self.df}, {self.denominator:g}) = {self.statistic / self.df:.4g}"
        named = "Wald test" if self.kind == "Wald" else f"Test behind the {self.kind} interval"
        return f"{named} of {self.hypothesis}: {found}, {told_p(self.p_value)}"


@dataclass(frozen=True)
class IntervalTest(WaldTest):
    """The test of one parameter against 0 behind its interval ("score", "mid-p", …): the p-value is the one that the table shows, and
    `statistic` the square of its t."""

    interval: str = "wald"

    @property
    def kind(self) -> str:
        return self.interval


@dataclass(frozen=True)
class SpecificationTest:
    """Reversion against maximum likelihood, as a chi-square.

    Attributes
    ----------
    advice : what the outcome means for the choice of a method.
    """

    statistic: float
    df: int
    p_value: float
    advice: str

    def __str__(self) -> str:
        return f"Specification test: chi2({self.df}) = {self.statistic:.4g}, {told_p(self.p_value)}\n{self.advice}"


def wald_test(
    hypothesis: str, parameters: Sequence[str], estimate: Float, covariance: Float, degrees: Float
) -> WaldTest:
    """Test equations separated by commas, as in "age = 0, edu[T.high] = 2 * edu[T.mid]".

    Parameters
    ----------
    degrees : degrees of freedom of the variance of each parameter (d,), of which the smallest one that is involved counts;
        infinite for the chi-square.
    """
    from scipy.stats import chi2
    from scipy.stats import f as fisher

    rows, values = restrictions(hypothesis, parameters)
    gap = rows @ estimate - values
    used = np.any(rows != 0, axis=0)  # a parameter whose variance is not known does not matter elsewhere
    spread, count = rows[:, used] @ covariance[np.ix_(used, used)] @ rows[:, used].T, len(rows)
    if not np.all(np.isfinite(spread)):
        raise FormulaError(
            f"{hypothesis!r} names a parameter that has no standard error: see the diagnostics of the fit"
        )
    smallest = float(degrees[used].min())
    df = None if np.isinf(smallest) else smallest
    if np.linalg.matrix_rank(rows) < count:
        raise FormulaError(f"the hypotheses {hypothesis!r} are not independent of each other: drop the redundant ones")
    known = float(count if df is None else df)
    if count > np.ceil(known) or np.linalg.matrix_rank(spread) < count:
        raise FormulaError(
            f"the variance shows too few directions ({known:g} degrees of freedom) to test {count} equations together, as it has "
            "too few clusters or records: test fewer at a time"
        )
    statistic = float(gap @ np.linalg.solve(spread, gap))
    p = chi2.sf(statistic, count) if df is None else fisher.sf(statistic / count, count, df)
    return WaldTest(hypothesis, statistic, count, float(p), df)


def alone_at_zero(hypothesis: str, parameters: Sequence[str]) -> int | None:
    """The place of the one parameter that a hypothesis sets to 0; None for every other hypothesis."""
    rows, values = restrictions(hypothesis, parameters)
    named = np.flatnonzero(rows[0])
    return int(named[0]) if len(rows) == 1 and named.size == 1 and values[0] == 0 else None


def refuse_other_than_text(hypothesis: object, parameters: Sequence[str]) -> None:
    if not isinstance(hypothesis, str):
        raise FormulaError(
            f"hypothesis {hypothesis!r} must be text, such as '{parameters[-1]} = 0', with commas between several equations"
        )


def restrictions(hypothesis: str, parameters: Sequence[str]) -> tuple[Float, Float]:
    """Matrix R and vector r of the hypothesis."""
    refuse_other_than_text(hypothesis, parameters)
    reader = TextReader(hypothesis, "hypothesis", known=parameters)
    sides = Sides(hypothesis, tuple(parameters))
    rows, values = [], []
    while True:
        start = reader.next.start
        row = sides.read(reader)
        if reader.at("="):
            reader.take()
            row = row - sides.read(reader)
        if reader.at("="):
            raise FormulaError(
                f"hypothesis {hypothesis!r} has too many '=' in {hypothesis[start:].partition(',')[0]!r}"
            )
        if not np.any(row[1:]):
            raise FormulaError(f"hypothesis {hypothesis!r} is not linear in the parameters")
        rows.append(row[1:])
        values.append(-row[0])
        if not reader.at(","):
            reader.finish()
            return np.array(rows), np.array(values)
        reader.take()


@dataclass(frozen=True)
class Sides:
    """Reads one side of an equation: numbers, parameters, + − × ÷ and brackets; nothing else."""

    hypothesis: str
    parameters: tuple[str, ...]

    def read(self, reader: TextReader) -> Float:
        """One side of an equation."""
        try:
            return self.affine(reader.expression())
        except FormulaError as error:
            raise FormulaError(f"{error}; {self._known}") from None

    @property
    def _known(self) -> str:
        return suggestion(self.hypothesis.split("=")[0].strip()[:80], self.parameters)

    def affine(self, node: Node) -> Float:
        """The constant, and one coefficient for every parameter (1 + d)."""
        out = np.zeros(1 + len(self.parameters))
        match node:
            case Literal(value=int() | float() as number):
                out[0] = number
                return out
            case Name(name=name, quoted=False) if name in self.parameters:
                out[1 + self.parameters.index(name)] = 1.0
                return out
            case Operation(marks=("-",), operands=(inside,)):
                return -self.affine(inside)
            case Operation(marks=("+" | "-" | "*" | "/" as mark,), operands=(left, right)):
                return self._combined(mark, self.affine(left), self.affine(right), node)
        raise self._unread(node)

    def _combined(self, mark: str, left: Float, right: Float, node: Node) -> Float:
        if mark in "+-":
            return left + right if mark == "+" else left - right
        if mark == "/" and not np.any(right):
            raise self._unread(node)
        if np.any(right[1:]) and (mark == "/" or np.any(left[1:])):
            raise FormulaError(f"hypothesis {self.hypothesis!r} is not linear in the parameters")
        if mark == "/":
            return left / right[0]
        return left * right[0] if not np.any(right[1:]) else right * left[0]

    def _unread(self, node: Node) -> FormulaError:
        piece = self.hypothesis[slice(*node.span)]
        return FormulaError(f"hypothesis {self.hypothesis!r} could not be read at {piece!r}")
