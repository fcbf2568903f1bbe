"""Bias, spread, coverage and relative efficiency, each with its Monte Carlo error."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from pramana.arrays import Bool, Float
from pramana.render import Sheet, render
from pramana.studies.scenario import Scenario
from pramana.studies.simulation import ReplicateEstimates, Way, run_replicates

NORMAL_975 = 1.959963984540054
Row = dict[str, Any]


@dataclass(frozen=True)
class StudyResult:
    """One row for each scenario, method and parameter; `replicates` holds the numbers behind them after `simulate`."""

    rows: tuple[Row, ...]
    replicates: ReplicateEstimates | None = field(default=None, repr=False)

    def __add__(self, other: StudyResult) -> StudyResult:
        return StudyResult(self.rows + other.rows)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for row in self.rows for name in row))

    def where(self, **conditions: object) -> list[Row]:
        """Rows with the given values."""
        return [r for r in self.rows if all(r.get(k) == v for k, v in conditions.items())]

    def to_csv(self) -> str:
        """Every number with ten significant digits, so that equal runs give equal bytes."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        for row in self.rows:
            writer.writerow([_cell(row.get(name)) for name in self.columns])
        return out.getvalue()

    @classmethod
    def from_csv(cls, text: str) -> StudyResult:
        """What `to_csv` wrote.

        >>> StudyResult.from_csv("n,method,bias\\n100,naive,0.5\\n100,true data,\\n").rows
        ({'n': 100, 'method': 'naive', 'bias': 0.5}, {'n': 100, 'method': 'true data'})
        """
        found = list(csv.DictReader(io.StringIO(text)))
        columns = {name: _typed([row[name] for row in found]) for name in (found[0] if found else ())}
        rows = ({name: values[k] for name, values in columns.items()} for k in range(len(found)))
        return cls(tuple({name: value for name, value in row.items() if value is not None} for row in rows))

    def summary(self, style: str = "text") -> str:
        rows = tuple(tuple(row.get(c) for c in self.columns) for row in self.rows)
        return render(Sheet(self.columns, rows, data=list(self.rows)), style)

    def __str__(self) -> str:
        return self.summary()


def _typed(cells: Sequence[str]) -> Sequence[Any]:
    """Cells of a column as whole numbers, else as numbers, else as text; None where they are empty."""
    for kind in (int, float):
        try:
            return [kind(cell) if cell else None for cell in cells]
        except ValueError:
            continue
    return [cell or None for cell in cells]


def simulate(
    scenario: Scenario,
    methods: Sequence[Way] = ("reversion", "true data", "naive"),
    replicates: int | Sequence[int] = 1000,
    seed: int = 1,
    *,
    reference: str | None = None,
    **options: Any,
) -> StudyResult:
    """Run a scenario and summarise it: bias, SD, standard errors, coverage, MSE and failures with their Monte Carlo errors.

    Parameters
    ----------
    methods : as in `fit`, "true data" for the estimate from the true data, and `Analyst`s.
    replicates : how many, or which indices; a replicate's numbers depend on its index alone.
    reference : label of a method for the relative efficiency MSE(reversion) / MSE(reference).
    options : `inference`, `inferred` and `device` as in `run_replicates`.
    """
    found = run_replicates(scenario, methods, replicates, seed, **options)
    return replace(summarize(scenario, found, reference), replicates=found)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def summarize(
    scenario: Scenario,
    replicates: ReplicateEstimates,
    reference: str | None = None,
    prices: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
) -> StudyResult:
    """Statistics of every method and parameter; relative efficiency is MSE(reversion) / MSE(reference).

    Each of the `prices` is a sum of variances, by the methods' labels, over that from the true data."""
    truth = np.asarray(scenario.truth, dtype=float)
    rows = []
    for method, numbers in replicates.values.items():
        for j, name in enumerate(replicates.parameters):
            base: Row = {
                **scenario.label,
                "n": scenario.n,
                "method": method,
                "parameter": name,
                "truth": float(truth[j]),
            }
            column = {k: v[:, j] for k, v in numbers.items()}
            rows.append(base | _statistics(column, float(truth[j])))
    found = _with_prices(StudyResult(tuple(rows)), replicates, prices)
    return found if reference is None else _with_efficiency(found, replicates, truth, reference)


def _statistics(column: Mapping[str, Float], truth: float) -> Row:
    good = np.isfinite(column["estimate"])
    error = column["estimate"][good] - truth
    size = len(error)
    row: Row = {"replicates": len(good), "failures": int(np.sum(~good))}
    row |= {"bias": _mean(error), "bias_mcse": float(_spread(error) / np.sqrt(max(size, 1)))}
    row |= {"sd": float(_spread(error)), "sd_mcse": jackknife(_sd, error)}
    row |= {"mse": _mean(error**2), "mse_mcse": float(_spread(error**2) / np.sqrt(max(size, 1)))}
    for name in ("se_iqr", "se_sandwich", "se_one_step", "se_sd", "se_fit"):
        if name in column:
            values = column[name][good & np.isfinite(column[name])]
            row |= {name: _mean(values), f"{name}_mcse": float(_spread(values) / np.sqrt(max(len(values), 1)))}
            row[f"{name}_median"] = float(np.median(values)) if len(values) else float("nan")
    row |= _coverages(column, truth, good)
    if "rootless" in column:
        row["rootless"] = int(np.nansum(column["rootless"]))
        row["rootless_sets"] = int(np.sum(column["rootless"] > 0))
    return row


def _mean(values: Float) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _spread(values: Float) -> float:
    """Standard deviation; NaN for fewer than two values."""
    return float(values.std(ddof=1)) if len(values) > 1 else float("nan")


def _coverages(column: Mapping[str, Float], truth: float, good: Bool) -> Row:
    row: Row = {}
    estimate = column["estimate"]
    for name in ("iqr", "sandwich", "sd"):
        if f"se_{name}" in column:
            reach = NORMAL_975 * column[f"se_{name}"]
            row |= _coverage(f"cp_wald_{name}", np.abs(estimate - truth)[good] <= reach[good])
    for ending, name in (("", "cp_percentile"), ("_fit", "cp_fit")):
        if f"low{ending}" in column:
            inside = (column[f"low{ending}"] <= truth) & (truth <= column[f"high{ending}"])
            row |= _coverage(name, inside[good])
    return row


def _coverage(name: str, covered: Bool) -> Row:
    share = _mean(covered.astype(float))
    return {name: share, f"{name}_mcse": float(np.sqrt(max(share * (1 - share), 1e-12) / max(len(covered), 1)))}


def _with_efficiency(found: StudyResult, replicates: ReplicateEstimates, truth: Float, reference: str) -> StudyResult:
    rows = []
    for row in found.rows:
        if row["method"] == "reversion" and reference in replicates.values:
            j = replicates.parameters.index(row["parameter"])
            pair = np.column_stack(
                [replicates.values[m]["estimate"][:, j] - truth[j] for m in ("reversion", reference)]
            )
            pair = pair[np.isfinite(pair).all(axis=1)]
            row = {**row, "re": _efficiency(pair), "re_mcse": jackknife_pairs(pair)}
        rows.append(row)
    return StudyResult(tuple(rows))


def _with_prices(
    found: StudyResult, replicates: ReplicateEstimates, prices: Mapping[str, Mapping[str, int]]
) -> StudyResult:
    rows = []
    for row in found.rows:
        if row["method"] == "reversion":
            j = replicates.parameters.index(row["parameter"])
            column = {method: numbers["estimate"][:, j] for method, numbers in replicates.values.items()}
            for name, terms in prices.items():
                value, error = variances_over_true(column, terms)
                row = {**row, f"price_{name}": value, f"price_{name}_mcse": error}
        rows.append(row)
    return StudyResult(tuple(rows))


def variances_over_true(estimates: Mapping[str, Float], terms: Mapping[str, int]) -> tuple[float, float]:
    """Σ c_m Var(m) / Var(true data) with its Monte Carlo error (delta method), over the replicates that all of them have.

    The methods see the same replicates, and a ratio of their variances is known better than either."""
    good = np.isfinite([estimates[m] for m in (*terms, "true data")]).all(axis=0)
    squares = {m: (v[good] - v[good].mean()) ** 2 for m, v in estimates.items() if m in terms or m == "true data"}
    total, base = sum(c * squares[m] for m, c in terms.items()), squares["true data"]
    ratio = float(np.mean(total) / base.mean())
    return ratio, float(_spread((total - ratio * base) / base.mean()) / np.sqrt(good.sum()))


def _sd(sums: Float, squares: Float, size: int) -> Float:
    return np.asarray(np.sqrt(np.maximum(squares - sums**2 / size, 0) / (size - 1)))


def jackknife(statistic: Callable[[Float, Float, int], Float], values: Float) -> float:
    """Jackknife standard error of a statistic of the sum and the sum of squares: honest under heavy tails."""
    size = len(values)
    if size < 3:
        return float("nan")
    left_out = statistic(values.sum() - values, np.sum(values**2) - values**2, size - 1)
    return float(np.sqrt((size - 1) / size * np.sum((left_out - left_out.mean()) ** 2)))


def _efficiency(pair: Float) -> float:
    a, b = np.sum(pair**2, axis=0)
    return float(a / b)


def jackknife_pairs(pair: Float) -> float:
    """Jackknife standard error of a ratio of mean squares over the same replicates."""
    squares = pair**2
    totals = squares.sum(axis=0)
    left_out = (totals[0] - squares[:, 0]) / (totals[1] - squares[:, 1])
    size = len(pair)
    return float(np.sqrt((size - 1) / size * np.sum((left_out - left_out.mean()) ** 2)))


def combine(results: Sequence[StudyResult]) -> StudyResult:
    """All rows, in order."""
    return StudyResult(tuple(row for result in results for row in result.rows))
