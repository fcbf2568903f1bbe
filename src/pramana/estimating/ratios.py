"""Odds ratios, risk ratios and risk differences of two columns with two levels each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pramana.arrays import Float
from pramana.estimating.cells import Factor, cell_labels, distinct, factors_of, names_of, reverted_cells, two_levels
from pramana.estimating.equation import Records
from pramana.estimating.quotients import Remark
from pramana.estimating.smooth import Moments, SmoothFunction
from pramana.estimating.tables import negative_cells
from pramana.frames import Schema, Table


@dataclass(frozen=True)
class Measure:
    """A measure of association of stratified 2 × 2 tables p (strata, 2, 2): its name, its value and what must be positive."""

    title: str
    value: Callable[[Any], Any]
    positive: Callable[[Any], dict[str, Any]]


def _log_odds_ratio(p: Any) -> Any:
    up, down = _mantel_haenszel(p)
    return np.log(up) - np.log(down)


def _mantel_haenszel(p: Any) -> tuple[Any, Any]:
    """Σ_s p11 p00 / p_s and Σ_s p10 p01 / p_s; one stratum gives the plain odds ratio."""
    size = p.sum(axis=(1, 2))
    return (p[:, 1, 1] * p[:, 0, 0] / size).sum(), (p[:, 1, 0] * p[:, 0, 1] / size).sum()


def _odds_bounds(p: Any) -> dict[str, Any]:
    if len(p) == 1:
        return {}  # every cell, which has a name of its own
    up, down = _mantel_haenszel(p)
    return {"the Mantel–Haenszel numerator": up, "the Mantel–Haenszel denominator": down}


def _risks(p: Any) -> tuple[Any, Any]:
    """Pr(second column's level | row level) of the unexposed and the exposed."""
    return p[0, 0, 1] / p[0, 0].sum(), p[0, 1, 1] / p[0, 1].sum()


def _log_risk_ratio(p: Any) -> Any:
    unexposed, exposed = _risks(p)
    return np.log(exposed) - np.log(unexposed)


def _risk_difference(p: Any) -> Any:
    unexposed, exposed = _risks(p)
    return exposed - unexposed


def _margins(p: Any) -> dict[str, Any]:
    return {"the share of the unexposed": p[0, 0].sum(), "the share of the exposed": p[0, 1].sum()}


def _successes(p: Any) -> dict[str, Any]:
    return {**_margins(p), "the success of the unexposed": p[0, 0, 1], "the success of the exposed": p[0, 1, 1]}


ODDS_RATIO = Measure("log odds ratio", _log_odds_ratio, _odds_bounds)
RISK_RATIO = Measure("log risk ratio", _log_risk_ratio, _successes)
RISK_DIFFERENCE = Measure("risk difference", _risk_difference, _margins)


@dataclass(frozen=True)
class Ratio:
    """Plan of `odds_ratio`, `risk_ratio` and `risk_difference`."""

    measure: Measure
    row: str
    column: str
    strata: tuple[str, ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        return (*self.strata, self.row, self.column)

    def prepare(self, table: Table, schema: Schema) -> SmoothFunction:
        factors = factors_of(self.variables, table, schema)
        for factor in factors[-2:]:
            two_levels(factor, f"a {self.measure.title.removeprefix('log ')}")
        return SmoothFunction(RatioTarget(self.measure, factors))


@dataclass(frozen=True)
class RatioTarget:
    """The measure as a function of the shares of all cells, strata first."""

    measure: Measure
    factors: tuple[Factor, ...]

    @property
    def parameters(self) -> tuple[str, ...]:
        *strata, row, column = (f.name for f in self.factors)
        given = f" | {', '.join(strata)}" if strata else ""
        return (f"{self.measure.title}({row}, {column}{given})",)

    @property
    def moments(self) -> tuple[str, ...]:
        return tuple(cell_labels(self.factors))

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.factors)

    def collect(self, records: Records) -> Moments:
        cells = reverted_cells(records, self.factors)
        return Moments(cells, lambda w: np.diag(w @ cells))

    def value(self, mu: Any) -> Any:
        return np.stack([self.measure.value(mu.reshape(-1, 2, 2))])

    def refusal(self, mu: Float) -> str | None:
        p = mu.reshape(-1, 2, 2)
        required = {f"stratum {s}": v for s, v in zip(self._strata(), p.sum(axis=(1, 2)), strict=True)}
        if self.measure is ODDS_RATIO and len(p) == 1:
            required |= dict(zip(self.moments, mu, strict=True))
        gone = [f"{name} ({v:.4g})" for name, v in required.items() if v <= 0]
        if not gone:
            gone = [f"{name} ({v:.4g})" for name, v in self.measure.positive(p).items() if v <= 0]
        if not gone:
            return None
        return (
            f"{self.parameters[0]!r} is at or beyond its boundary: the estimated share of {', '.join(gone)} is not positive. Use "
            "more records, merge levels or strata, risk_difference(), or table_em() for a table that stays in the simplex"
        )

    def _strata(self) -> list[str]:
        return cell_labels(self.factors[:-2])

    def remarks(self, theta: Float, mu: Float, errors: Float) -> list[Remark]:  # noqa: ARG002
        return negative_cells(mu, self.moments)


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


def risk_ratio(row: str, column: str) -> Ratio:
    """The logarithm of Pr(column | exposed) / Pr(column | unexposed), where `row` holds the exposure.

    >>> import pramana as pr
    >>> table = {"case": [1, 1, 0, 0], "exposed": [1, 0, 1, 0], "count": [4558, 3428, 46305, 46085]}
    >>> mechanism = pr.Mechanism({"case": pr.TransitionMatrix.binary(sensitivity=0.53, specificity=0.99)})
    >>> result = pr.fit(pr.risk_ratio("exposed", "case"), table, mechanism, frequencies="count")
    >>> round(result.to_dicts(exponentiate=True)[0]["estimate"], 4)
    1.344
    """
    return _ratio(RISK_RATIO, row, column)


def risk_difference(row: str, column: str) -> Ratio:
    """Pr(column | exposed) − Pr(column | unexposed), where `row` holds the exposure.

    >>> import pramana as pr
    >>> table = {"case": [1, 1, 0, 0], "exposed": [1, 0, 1, 0], "count": [30, 20, 70, 80]}
    >>> round(float(pr.fit(pr.risk_difference("exposed", "case"), table, None, frequencies="count").estimate[0]), 6)
    0.1
    """
    return _ratio(RISK_DIFFERENCE, row, column)


def _ratio(measure: Measure, row: str, column: str, strata: tuple[str, ...] = ()) -> Ratio:
    distinct(*names_of(row, "row"), *names_of(column, "column"), *strata)
    return Ratio(measure, row, column, strata)
