"""The Gini coefficient and the at-risk-of-poverty rate, within domains that may be perturbed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float
from pramana.errors import DataError, FormulaError
from pramana.estimating.cells import distinct, factors_of, names_of
from pramana.estimating.distribution import Distribution, DistributionFunction, Functional, Knots, kernel, support_of
from pramana.estimating.equation import Note
from pramana.estimating.function import ColumnQuestion
from pramana.estimating.rounding import ROUNDING, settled
from pramana.frames import Schema, Table
from pramana.parameters.quantiles import (
    crossings,
    density,
    described_width,
    distribution_at,
    rearranged_quantile,
    width,
)


@dataclass(frozen=True)
class Gini(ColumnQuestion):
    """Question of `gini(column, by)`."""

    column: str
    by: tuple[str, ...] = ()

    def prepare(self, table: Table, schema: Schema) -> DistributionFunction:
        _refuse_perturbed(self.column, table, schema, "gini")
        negative = int(np.sum(table.column(self.column) < 0))
        if negative:
            raise DataError(
                f"column {self.column!r} has {negative} negative value(s): a Gini coefficient needs amounts ≥ 0"
            )
        by = factors_of(self.by, table, schema)
        return DistributionFunction(GiniFunctional(f"gini({self.column})"), self.column, by, None, smooth=True)


def gini(column: str, by: str | Sequence[str] | None = None) -> Gini:
    """The Gini coefficient of a clean column, of everyone or within domains that may be perturbed.

    G = E|Y − Y′| / 2μ compares pairs of records and is no sum over records. It is computed from the reverted distribution
    with weights that multiply over a pair: exact for pairs of different records, whose draws are independent, while a record
    paired with itself has |Y − Y| = 0. Standard errors take its influence function (E|y − Y′| − G(μ + y)) / μ with the
    estimated distribution in it.

    >>> import pramana as pr
    >>> round(float(pr.fit(pr.gini("income"), {"income": [1, 1, 1, 1, 6]}, None).estimate[0]), 6)
    0.4
    """
    names = names_of(by, "by")
    distinct(column, *names)
    return Gini(column, names)


@dataclass(frozen=True)
class GiniFunctional(Functional):
    """Pseudo-values: ψ = G + influence − β."""

    name: str
    plausible: tuple[float, float] | None = (0.0, 1.0)
    reason: str = "the reverted mean is not positive"

    def solve(self, measure: Distribution, weights: Float) -> Float:
        order = np.argsort(measure.values, kind="stable")
        parts = [_gini(measure.values[order], measure.masses(weights, g)[:, order]) for g in range(measure.count)]
        return np.stack(parts, axis=1)

    def pieces(self, measure: Distribution, beta: Float, reference: Float) -> list[tuple[int | None, Float]]:
        masses = [measure.masses(reference[None], g)[0] for g in range(measure.count)]
        return [
            (g, _pseudo_values(measure.values, mass) - b) for g, (mass, b) in enumerate(zip(masses, beta, strict=True))
        ]


def _gini(sorted_values: Float, masses: Float) -> Float:
    """Σ_ij v_i v_j |y_i − y_j| / (2 μ M²) (B,), from F and 1 − F between neighbouring values."""
    total = masses.sum(axis=1)
    total = np.where(total > 0, total, np.nan)
    share = np.cumsum(masses, axis=1)[:, :-1] / total[:, None]
    mean = settled(masses @ sorted_values, np.abs(masses) @ sorted_values) / total
    return np.asarray((share * (1 - share)) @ np.diff(sorted_values) / np.where(mean > 0, mean, np.nan))


def _pseudo_values(values: Float, mass: Float) -> Float:
    """G + (E|y − Y′| − G(μ + y)) / μ (S,)."""
    order = np.argsort(values, kind="stable")
    y, v = values[order], mass[order] / mass.sum()
    g, mean = float(_gini(y, v[None])[0]), float(v @ y)
    below, amount = np.cumsum(v), np.cumsum(v * y)
    distance = np.empty_like(values)
    distance[order] = y * (2 * below - 1) + mean - 2 * amount
    return np.asarray(g + (distance - g * (mean + values)) / mean)


@dataclass(frozen=True)
class PovertyRate(ColumnQuestion):
    """Question of `poverty_rate(column, threshold, by)`."""

    column: str
    threshold: float = 0.6
    by: tuple[str, ...] = ()
    bandwidth: float | None = None

    def prepare(self, table: Table, schema: Schema) -> DistributionFunction:
        _refuse_perturbed(self.column, table, schema, "poverty_rate")
        by = factors_of(self.by, table, schema)
        functional = PovertyFunctional(self.column, self.threshold, self.bandwidth)
        return DistributionFunction(functional, self.column, by, None)


def poverty_rate(
    column: str, threshold: float = 0.6, by: str | Sequence[str] | None = None, *, bandwidth: float | None = None
) -> PovertyRate:
    """The at-risk-of-poverty rate: the share below `threshold` times the median of everyone, also within domains.

    The median is estimated in the same system and shown first; it must be positive. The column must be clean; the domains may
    be perturbed.
    Distribution functions are smoothed as in `quantile`, and standard errors come from `Resampling`.

    >>> import pramana as pr
    >>> data = {"income": range(1, 201), "edu": ["low"] * 100 + ["high"] * 100}
    >>> result = pr.fit(pr.poverty_rate("income", by="edu"), data, None, inference=pr.Resampling(50, seed=1))
    >>> [(p, round(float(b), 2)) for p, b in zip(result.parameters, result.estimate)]
    [('median(income)', 100.5), ('poverty_rate(income)[edu=high]', 0.0), ('poverty_rate(income)[edu=low]', 0.6)]
    """
    names = names_of(by, "by")
    distinct(column, *names)
    if not 0 < threshold < np.inf:
        raise FormulaError(f"threshold={threshold!r} must be positive: it multiplies the median")
    if bandwidth is not None and not 0 < bandwidth < np.inf:
        raise FormulaError(f"bandwidth={bandwidth!r} must be positive: it is a half-width in units of {column!r}")
    return PovertyRate(column, float(threshold), names, bandwidth)


@dataclass(frozen=True)
class PovertyFunctional(Functional):
    """ψ = 1/2 − K((m − y)/h) of everyone, then K((c·m − y)/h) − β of each domain."""

    column: str
    threshold: float
    bandwidth: float | None = None
    plausible: tuple[float, float] | None = None
    reason: str = (
        "the median of everyone is not positive, and a share of such a median is no poverty line (or the reverted distribution "
        "is empty); give the column as amounts, or use proportions() below a line of your own"
    )

    def names(self, domains: tuple[str, ...]) -> tuple[str, ...]:
        rate = f"poverty_rate({self.column})"
        return (f"median({self.column})", *(tuple(f"{rate}[{d}]" for d in domains) or (rate,)))

    def solve(self, measure: Distribution, weights: Float) -> Float:
        h = width(measure, self.bandwidth)
        middle = rearranged_quantile(Knots.of(measure.values, h), measure.masses(weights, None), 0.5)
        above = middle > ROUNDING * (np.abs(measure.values.min()) + h)  # the length that the median was measured along
        line = np.where(above, self.threshold * middle, np.nan)
        rates = [distribution_at(measure.values, measure.masses(weights, g), line, h) for g in range(measure.count)]
        return np.stack([middle, *rates], axis=1)

    def pieces(self, measure: Distribution, beta: Float, reference: Float) -> list[tuple[int | None, Float]]:  # noqa: ARG002
        h, y = width(measure, self.bandwidth), measure.values
        below = kernel(self.threshold * beta[0] - y, h)
        return [(None, 0.5 - kernel(beta[0] - y, h)), *((g, below - b) for g, b in enumerate(beta[1:]))]

    def slope(self, measure: Distribution, beta: Float, weights: Float) -> Float:
        h, c = width(measure, self.bandwidth), self.threshold
        out = np.zeros((beta.size, beta.size))
        out[0, 0] = -density(measure, None, beta[0], h, weights)
        for g in range(measure.count):
            out[g + 1, 0] = c * density(measure, g, c * beta[0], h, weights)
            out[g + 1, g + 1] = -float(measure.masses(weights[None], g).sum())
        return out

    def facts(self, measure: Distribution) -> dict[str, str]:
        return {
            "Poverty line": f"{self.threshold:g} times the median of everyone",
            "Bandwidth": described_width(measure, self.bandwidth),
        }

    def notes(self, measure: Distribution, beta: Float, weights: Float) -> list[Note]:
        h = width(measure, self.bandwidth)
        out = [
            f"{p} = {b:.4g}"
            for p, b in zip(self.names(measure.domains)[1:], beta[1:], strict=True)
            if not -ROUNDING <= b <= 1 + ROUNDING
        ]
        notes: list[Note] = []
        if out:
            text = f"{', '.join(out)} lies outside [0, 1]: noise outweighs the data"
            notes.append(("outside-range", "warning", text))
        if crossings(Knots.of(measure.values, h), measure.masses(weights[None], None), 0.5) > 1:
            notes.append(
                ("rearranged", "info", "the distribution function crosses 1/2 more than once: it was rearranged")
            )
        return notes


def _refuse_perturbed(column: str, table: Table, schema: Schema, name: str) -> None:
    if support_of(column, table, schema) is not None or column in schema:
        raise DataError(
            f"column {column!r} is perturbed, and {name}() needs the amounts themselves: only its domains may be perturbed; "
            f"use quantile({column!r}, q) or proportions({column!r})"
        )
