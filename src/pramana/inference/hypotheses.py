"""Linear hypotheses written as text, and their Wald tests."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float
from pramana.errors import FormulaError, suggestion


@dataclass(frozen=True)
class WaldTest:
    """A test of `R β = r`: chi-square, or F where the variance has few degrees of freedom.

    Attributes
    ----------
    statistic : gapᵀ V⁻¹ gap; F is this over `df`.
    df : equations.
    denominator : degrees of freedom of the variance, or None for the chi-square.
    """

    hypothesis: str
    statistic: float
    df: int
    p_value: float
    denominator: float | None = None

    def __str__(self) -> str:
        found = f"chi2({self.df}) = {self.statistic:.4g}"
        if self.denominator is not None:
            found = f"F({self.df}, {self.denominator:g}) = {self.statistic / self.df:.4g}"
        return f"Wald test of {self.hypothesis}: {found}, p = {self.p_value:.4g}"


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
        return f"Specification test: chi2({self.df}) = {self.statistic:.4g}, p = {self.p_value:.4g}\n{self.advice}"


def wald_test(
    hypothesis: str, parameters: Sequence[str], estimate: Float, covariance: Float, df: float | None = None
) -> WaldTest:
    """Test equations separated by commas, as in "age = 0, edu[T.high] = 2 * edu[T.mid]".

    Parameters
    ----------
    df : degrees of freedom of the covariance; None for the chi-square.
    """
    from scipy.stats import chi2
    from scipy.stats import f as fisher

    if not isinstance(hypothesis, str):
        raise FormulaError(f"hypothesis {hypothesis!r} must be text, such as '{parameters[-1]} = 0'")
    rows, values = restrictions(hypothesis, parameters)
    gap = rows @ estimate - values
    spread, count = rows @ covariance @ rows.T, len(rows)
    if np.linalg.matrix_rank(rows) < count:
        raise FormulaError(f"the hypotheses {hypothesis!r} are not independent of each other: drop the redundant ones")
    known = float(count if df is None else df)
    if count > known or np.linalg.matrix_rank(spread) < count:
        raise FormulaError(
            f"the variance shows too few directions ({known:g} degrees of freedom) to test {count} equations together, as it has "
            "too few clusters or records: test fewer at a time"
        )
    statistic = float(gap @ np.linalg.solve(spread, gap))
    p = chi2.sf(statistic, count) if df is None else fisher.sf(statistic / count, count, df)
    return WaldTest(hypothesis, statistic, count, float(p), df)


def restrictions(hypothesis: str, parameters: Sequence[str]) -> tuple[Float, Float]:
    """Matrix R and vector r of the hypothesis."""
    masked = _mask(hypothesis, parameters)
    rows, values = [], []
    for part in masked.split(","):
        sides = part.split("=")
        if len(sides) > 2:
            raise FormulaError(f"hypothesis {hypothesis!r} has too many '=' in {_unmask(part, parameters)!r}")
        expression = f"({sides[0]}) - ({sides[1]})" if len(sides) == 2 else sides[0]
        row, constant = _affine(expression, len(parameters), hypothesis, parameters)
        rows.append(row)
        values.append(-constant)
    return np.array(rows), np.array(values)


def _mask(text: str, parameters: Sequence[str]) -> str:
    """Parameter names hold brackets and colons: replace the longest first by plain identifiers."""
    order = sorted(range(len(parameters)), key=lambda i: -len(parameters[i]))
    pattern = "|".join(rf"(?<![\w.]){re.escape(parameters[i])}(?![\w\[])" for i in order)
    lookup = {parameters[i]: f"p_{i}_" for i in order}
    return re.sub(pattern, lambda m: lookup[m.group(0)], text)


def _unmask(text: str, parameters: Sequence[str]) -> str:
    return re.sub(r"p_(\d+)_", lambda m: parameters[int(m.group(1))], text).strip()


def _affine(expression: str, d: int, hypothesis: str, parameters: Sequence[str]) -> tuple[Float, float]:
    """Coefficients and constant of an affine expression, found by evaluating it at zero and at the unit vectors."""
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
        value = _evaluator(tree)
        zero = np.zeros(d)
        constant = value(zero)
        row = np.array([value(unit) - constant for unit in np.eye(d)])
        probe = np.arange(1, d + 1) / 7.0
        linear = np.isclose(value(probe), row @ probe + constant)
    except (SyntaxError, KeyError, ZeroDivisionError):
        raise FormulaError(
            f"hypothesis {hypothesis!r} could not be read at {_unmask(expression, parameters)!r}: "
            f"{suggestion(hypothesis.split('=')[0].strip(), parameters)}"
        ) from None
    if not linear or not np.any(row):
        raise FormulaError(f"hypothesis {hypothesis!r} is not linear in the parameters")
    return row, float(constant)


_BINARY: dict[type, Callable[[float, float], float]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}


def _evaluator(node: ast.AST) -> Callable[[Float], float]:
    """Numbers, parameters, + − × ÷ and brackets; nothing else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        number = float(node.value)
        return lambda _beta: number
    if isinstance(node, ast.Name) and re.fullmatch(r"p_\d+_", node.id):
        index = int(node.id[2:-1])
        return lambda beta: float(beta[index])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _evaluator(node.operand)
        return lambda beta: -inner(beta)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left, right, combine = _evaluator(node.left), _evaluator(node.right), _BINARY[type(node.op)]
        return lambda beta: combine(left(beta), right(beta))
    raise KeyError(ast.dump(node))
