"""Odds ratios, risk ratios and risk differences of two columns with two levels each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pramana.arrays import Float
from pramana.errors import quoted
from pramana.estimating.cells import Factor, cell_labels, distinct, factors_of, names_of, two_levels
from pramana.estimating.equation import Note
from pramana.estimating.function import Question
from pramana.estimating.moment_functions import OfShares, SmoothFunction
from pramana.estimating.rounding import settled_values
from pramana.frames import Schema, Table
from pramana.parameters.tables import negative_cells

FARTHEST = 120.0
"""Largest logarithm of a ratio that is told from an infinite one."""


@dataclass(frozen=True)
class Measure:
    """A measure of association of stratified 2 × 2 tables p (strata, exposed, success), summed over strata as Mantel and
    Haenszel do; one stratum gives the plain measure.

    Attributes
    ----------
    value : p ↦ the measure.
    gap : p and a value ↦ 0 where the measure has that value, without division.
    positive : p ↦ what must be positive, by name, when there are several strata.
    alone : the same, when there is one; None for every cell.
    logarithm : the value is the logarithm of what the title names.
    """

    title: str
    value: Callable[[Any], Any]
    gap: Callable[[Any, float], Any]
    positive: Callable[[Any], dict[str, Any]]
    alone: Callable[[Any], dict[str, Any]] | None = None
    logarithm: bool = True


def _odds(p: Any) -> tuple[Any, Any]:
    """Σ_s p11 p00 / p_s and Σ_s p10 p01 / p_s."""
    size = p.sum(axis=(1, 2))
    return (p[:, 1, 1] * p[:, 0, 0] / size).sum(), (p[:, 1, 0] * p[:, 0, 1] / size).sum()


def _risks(p: Any) -> tuple[Any, Any, Any]:
    """Σ_s of the risk of the exposed and of the unexposed, times the weights p1 p0 / p_s; and Σ_s of those weights."""
    unexposed, exposed = p[:, 0].sum(axis=1), p[:, 1].sum(axis=1)
    size = unexposed + exposed
    above, below = p[:, 1, 1] * unexposed / size, p[:, 0, 1] * exposed / size
    return above.sum(), below.sum(), (unexposed * exposed / size).sum()


def _log_odds_ratio(p: Any) -> Any:
    up, down = _odds(p)
    return np.log(up) - np.log(down)


def _log_risk_ratio(p: Any) -> Any:
    exposed, unexposed, _ = _risks(p)
    return np.log(exposed) - np.log(unexposed)


def _risk_difference(p: Any) -> Any:
    exposed, unexposed, weight = _risks(p)
    return (exposed - unexposed) / weight


def _ratio_gap(terms: Callable[[Any], tuple[Any, ...]], p: Any, value: float) -> Any:
    """Numerator less ratio times denominator, both over the root of the ratio; ratios beyond 1e52 are as good as infinite."""
    above, below, *_ = terms(p)
    root = np.exp(np.clip(value, -FARTHEST, FARTHEST) / 2)
    return above / root - below * root


def _difference_gap(p: Any, value: float) -> Any:
    exposed, unexposed, weight = _risks(p)
    return exposed - unexposed - value * weight


def _quotient(terms: Callable[[Any], tuple[Any, ...]], p: Any) -> dict[str, Any]:
    names = ("the Mantel–Haenszel numerator", "the Mantel–Haenszel denominator")
    return dict(zip(names, terms(p), strict=False))


def _weights(p: Any) -> dict[str, Any]:
    return {"the Mantel–Haenszel weights": _risks(p)[2]}


def _margins(p: Any) -> dict[str, Any]:
    return {"the unexposed": p[0, 0].sum(), "the exposed": p[0, 1].sum()}


def _successes(p: Any) -> dict[str, Any]:
    return {**_margins(p), "the success of the unexposed": p[0, 0, 1], "the success of the exposed": p[0, 1, 1]}


ODDS_RATIO = Measure("odds ratio", _log_odds_ratio, partial(_ratio_gap, _odds), partial(_quotient, _odds))
RISK_RATIO = Measure("risk ratio", _log_risk_ratio, partial(_ratio_gap, _risks), partial(_quotient, _risks), _successes)
RISK_DIFFERENCE = Measure("risk difference", _risk_difference, _difference_gap, _weights, _margins, False)


@dataclass(frozen=True)
class Ratio(Question):
    """Question of `odds_ratio`, `risk_ratio` and `risk_difference`."""

    measure: Measure
    row: str
    column: str
    strata: tuple[str, ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        return (*self.strata, self.row, self.column)

    @property
    def log_scale(self) -> bool:
        return self.measure.logarithm

    def prepare(self, table: Table, schema: Schema) -> SmoothFunction:
        factors = factors_of(self.variables, table, schema)
        for factor in factors[-2:]:
            two_levels(factor, f"the {self.measure.title}")
        return SmoothFunction(RatioTarget(self.measure, factors))


@dataclass(frozen=True)
class RatioTarget(OfShares):
    """The measure as a function of the shares of all cells, strata first."""

    measure: Measure
    factors: tuple[Factor, ...]

    @property
    def parameters(self) -> tuple[str, ...]:
        return (f"{'log ' if self.measure.logarithm else ''}{self.exponentials[0]}",)

    @property
    def exponentials(self) -> tuple[str, ...]:
        *strata, row, column = (f.name for f in self.factors)
        given = f" | {', '.join(strata)}" if strata else ""
        return (f"{self.measure.title}({row}, {column}{given})",)

    def value(self, mu: Any) -> Any:
        return np.stack([self.measure.value(mu.reshape(-1, 2, 2))])

    def gap(self, mu: Any, value: float, place: int) -> Any:  # noqa: ARG002 - there is one
        return self.measure.gap(mu.reshape(-1, 2, 2), value)

    def refusal(self, mu: Float, sizes: Float) -> str | None:
        gone = _not_positive(self._stratum_sizes, mu, sizes) or _not_positive(self._required, mu, sizes)
        if not gone:
            return None
        return (
            f"{self.parameters[0]!r} is at or beyond its boundary: the estimated share of {', '.join(gone)} is not positive. Use "
            f"more records, merge levels or strata, {self._otherwise}or table_em() for a table that stays in the simplex"
        )

    def _stratum_sizes(self, mu: Any) -> dict[str, Any]:
        return dict(zip(self._strata(), mu.reshape(-1, 2, 2).sum(axis=(1, 2)), strict=True))

    def _required(self, mu: Any) -> dict[str, Any]:
        p = mu.reshape(-1, 2, 2)
        if len(p) > 1:
            return self.measure.positive(p)
        return dict(zip(self.moments, mu, strict=True)) if self.measure.alone is None else self.measure.alone(p)

    def divisors(self, mu: Any) -> dict[str, Any]:
        return {**self._stratum_sizes(mu), **self._required(mu)}

    @property
    def _otherwise(self) -> str:
        return "" if self.measure == RISK_DIFFERENCE else "risk_difference(), "

    def _strata(self) -> list[str]:
        return [f"stratum {label}" for label in cell_labels(self.factors[:-2])]

    def remarks(self, theta: Float, mu: Float, errors: Float) -> list[Note]:  # noqa: ARG002
        return [*negative_cells(mu, self.moments), *self._one_sided(mu.reshape(-1, 2, 2))]

    def _one_sided(self, p: Float) -> list[Note]:
        """Strata in which one of the arms is empty: the Mantel–Haenszel sums pass over them."""
        empty = np.abs(p.sum(axis=2)) < 1e-12
        found = [name for name, arms in zip(self._strata(), empty, strict=True) if arms.any()]
        if not found:
            return []
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        message = (
            f"{', '.join(found[:5])}{more} holds no exposed or no unexposed records and adds nothing to the comparison"
        )
        return [("empty-arm", "info", message)]


def _not_positive(shares: Callable[[Any], dict[str, Any]], mu: Float, sizes: Float) -> list[str]:
    values = settled_values(lambda m: np.stack(list(shares(m).values())), mu, sizes)
    return [f"{quoted(name)} ({share:.4g})" for name, share in zip(shares(mu), values, strict=True) if share <= 0]


def odds_ratio(row: str, column: str, *, strata: str | Sequence[str] | None = None) -> Ratio:
    """The logarithm of the odds ratio of two columns with two levels; with strata, Mantel–Haenszel's common odds ratio.

    The second level of a column is the exposed, or the success. Any of the columns may be perturbed, the strata too.
    Intervals are symmetric on the logarithm; `result.to_frame(exponentiate=True)` shows the ratio. Standard errors take
    the strata for few and large, since the noise adds to the products within a stratum.

    >>> import pramana as pr
    >>> table = {"case": [1, 1, 0, 0], "exposed": [1, 0, 1, 0], "count": [215, 1449, 668, 4296]}
    >>> mechanism = pr.Mechanism({"exposed": pr.TransitionMatrix.binary(sensitivity=0.78, specificity=0.99)})
    >>> result = pr.fit(pr.odds_ratio("exposed", "case"), table, mechanism, frequencies="count")
    >>> result.parameters
    ('log odds ratio(exposed, case)',)
    >>> row = result.to_dicts(exponentiate=True)[0]
    >>> [round(row[c], 4) for c in ("estimate", "conf_low", "conf_high")]
    [0.9491, 0.7896, 1.1408]
    """
    return _ratio(ODDS_RATIO, row, column, names_of(strata, "strata"))


def risk_ratio(row: str, column: str, *, strata: str | Sequence[str] | None = None) -> Ratio:
    """The logarithm of Pr(column | exposed) / Pr(column | unexposed), where `row` holds the exposure; with strata, of Mantel
    and Haenszel's common ratio Σ_s a_s m_s / n_s over Σ_s c_s l_s / n_s, with a of l exposed and c of m unexposed successes.

    >>> import pramana as pr
    >>> table = {"case": [1, 1, 0, 0], "exposed": [1, 0, 1, 0], "count": [4558, 3428, 46305, 46085]}
    >>> mechanism = pr.Mechanism({"case": pr.TransitionMatrix.binary(sensitivity=0.53, specificity=0.99)})
    >>> result = pr.fit(pr.risk_ratio("exposed", "case"), table, mechanism, frequencies="count")
    >>> round(result.to_dicts(exponentiate=True)[0]["estimate"], 4)
    1.344

    Folic acid and twins, with a stratum (in vitro fertilisation) that is known with error:

    >>> twins = {"folic": [1, 1, 0, 0] * 2, "twins": [1, 0, 1, 0] * 2, "ivf": [1] * 4 + [0] * 4,
    ...          "count": [565, 3583, 781, 21958, 754, 34471, 4860, 383588]}
    >>> mechanism = pr.Mechanism({"ivf": pr.TransitionMatrix.binary(sensitivity=0.78, specificity=0.96)})
    >>> result = pr.fit(pr.risk_ratio("folic", "twins", strata="ivf"), twins, mechanism, frequencies="count")
    >>> result.parameters, round(result.to_dicts(exponentiate=True)[0]["estimate"], 4)
    (('log risk ratio(folic, twins | ivf)',), 1.7259)
    """
    return _ratio(RISK_RATIO, row, column, names_of(strata, "strata"))


def risk_difference(row: str, column: str, *, strata: str | Sequence[str] | None = None) -> Ratio:
    """Pr(column | exposed) − Pr(column | unexposed), where `row` holds the exposure; with strata, the mean of their
    differences with Mantel and Haenszel's weights l_s m_s / n_s, for l exposed and m unexposed of n.

    Where the differences of the strata differ, the mean weighs them so; its standard error counts that the weights are
    estimated too, which Greenland and Robins' (1985) does not.

    >>> import pramana as pr
    >>> table = {"case": [1, 1, 0, 0], "exposed": [1, 0, 1, 0], "count": [30, 20, 70, 80]}
    >>> round(float(pr.fit(pr.risk_difference("exposed", "case"), table, None, frequencies="count").estimate[0]), 6)
    0.1
    >>> sites = {"case": [1, 1, 0, 0] * 2, "exposed": [1, 0, 1, 0] * 2, "site": ["a"] * 4 + ["b"] * 4,
    ...          "count": [30, 20, 70, 80, 30, 20, 20, 30]}
    >>> result = pr.fit(pr.risk_difference("exposed", "case", strata="site"), sites, None, frequencies="count")
    >>> round(float(result.estimate[0]), 6)  # weights 50 and 25 of the differences 0.1 and 0.2
    0.133333
    """
    return _ratio(RISK_DIFFERENCE, row, column, names_of(strata, "strata"))


def _ratio(measure: Measure, row: str, column: str, strata: tuple[str, ...]) -> Ratio:
    distinct(*names_of(row, "row"), *names_of(column, "column"), *strata)
    return Ratio(measure, row, column, strata)
