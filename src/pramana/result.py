"""Result: what a fit gives back. It holds no rows of data."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pramana.arrays import Float
from pramana.diagnostic import Diagnostic
from pramana.errors import FormulaError, PramanaError, PramanaWarning, released, suggestion
from pramana.familiar import Familiar
from pramana.frames import FrameKind, build
from pramana.inference.hypotheses import (
    IntervalTest,
    WaldTest,
    alone_at_zero,
    refuse_other_than_text,
    restrictions,
    wald_test,
)
from pramana.inference.limits import Limits, shown_t
from pramana.inference.options import check_level
from pramana.inference.resampling import Draws
from pramana.models.prediction import AnyPrediction
from pramana.numbers import PValue, column, count
from pramana.render import CrossedEstimates, Sheet, Shown, plain, render, visible

COLUMNS = ("term", "estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high")


@dataclass(frozen=True)
class Shares:
    """The parameters are cells of tables: each run of `size` of them adds up to `total`."""

    size: int
    total: float


@dataclass(frozen=True)
class Coefficient:
    """One row of the table."""

    term: str
    estimate: float
    std_error: float
    statistic: float
    p_value: float
    conf_low: float
    conf_high: float


@dataclass(frozen=True, repr=False)
class Result(Shown, Familiar):
    """Estimates with their uncertainty.

    Attributes
    ----------
    parameters : names (d).
    estimate, covariance : (d,) and (d, d).
    n : records.
    privacy : the part of the covariance that the randomisation costs (d, d), or None where it has no meaning.
    measurement : the part of the covariance that comes from a measured transition matrix (d, d), or None where P is known.
    draws : resampled values, or None.
    limits : intervals that are not Wald's or those of the draws, or None.
    facts : what was fitted and how, as shown above the table.
    model : what `predict` needs of a model that was fitted by a formula, or None.
    log_scale : whether the parameters are logarithms, so that `exponentiate` makes ratios of them.
    exponentials : names of the exponentials of the parameters, where they change; None elsewhere.
    free : parameters of the mechanism that were estimated along; they are shares, whatever the scale of the others.
    shares : which parameters are the cells of one table, or None.
    df : degrees of freedom of t intervals and tests, one number or one for each parameter (d,); None for the normal.
    unsplit : why there is no `privacy`; empty where there is.
    grid : of a cross table its columns with their levels, the last running fastest; None elsewhere.
    explained : share of the true response's variance that a linear model explains; None where that is not known.
    again : fits another plan to data as this one was fitted, or None where there was no formula.
    """

    parameters: tuple[str, ...]
    estimate: Float
    covariance: Float
    n: float
    method: str
    inference: str
    interval_kind: str = "wald"
    diagnostics: tuple[Diagnostic, ...] = ()
    privacy: Float | None = field(default=None, repr=False)
    sampling: Float | None = field(default=None, repr=False)
    measurement: Float | None = field(default=None, repr=False)
    draws: Draws | None = field(default=None, repr=False)
    limits: Limits | None = field(default=None, repr=False)
    facts: Mapping[str, str] = field(default_factory=dict)
    frame_kind: FrameKind = "pandas"
    model: AnyPrediction | None = field(default=None, repr=False)
    df: float | Float | None = None
    log_scale: bool = True
    exponentials: tuple[str, ...] | None = None
    free: tuple[str, ...] = ()
    shares: Shares | None = None
    unsplit: str = ""
    grid: tuple[tuple[str, tuple[str, ...]], ...] | None = None
    explained: float | None = None
    again: Callable[..., Result] | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        numbers = column(self.estimate[:4].tolist())
        shown = ", ".join(f"{term} = {number}" for term, number in zip(self.parameters, numbers, strict=False))
        more = f" and {len(self.parameters) - 4} more" if len(self.parameters) > 4 else ""
        return visible(f"<{type(self).__name__} by {self.method}, {count(self.n)} records: {shown}{more}>")

    @property
    def standard_errors(self) -> Float:
        return np.sqrt(np.clip(np.diag(self.covariance), 0.0, None))

    def __getitem__(self, term: str) -> Coefficient:
        if term not in self.parameters:
            raise PramanaError(f"there is no term {term!r}: {suggestion(term, self.parameters)}")
        row = self._rows(None)[self.parameters.index(term)]
        return Coefficient(*row)

    def interval(self, level: float | None = None) -> Float:
        """Confidence limits (d, 2), of the kind chosen with the fit; at 95 % unless they were asked for at another level."""
        level = self.shown_level(level)
        if self.limits is None:
            return self._usual(level)
        own = self.limits.at(level)
        return np.where(np.isnan(own), self._usual(level), own) if np.isnan(own).any() else own

    def _usual(self, level: float) -> Float:
        """Limits (d, 2) from the draws, or Wald's."""
        if self.interval_kind == "percentile" and self.draws is not None:
            return self._percentiles(level)
        reach = self._quantile((1 + level) / 2) * self.standard_errors
        return np.column_stack([self.estimate - reach, self.estimate + reach])

    def _percentiles(self, level: float) -> Float:
        """Of the draws (d, 2), which are about normal; drawn out to t around the estimate where degrees of freedom are few.

        Draws of units within strata have few values then, and their percentiles reach less far than those of a normal.
        """
        from scipy.special import ndtri

        assert self.draws is not None
        found = np.quantile(self.draws.values, [(1 - level) / 2, (1 + level) / 2], axis=0).T
        if self.df is None:
            return np.asarray(found)
        ratio = self._quantile((1 + level) / 2) / ndtri((1 + level) / 2)
        if self.draws.law == "rao-wu":
            ratio = ratio * np.sqrt(1 + 1 / self.degrees_of_freedom)
        return np.asarray(self.estimate[:, None] + (found - self.estimate[:, None]) * ratio[:, None])

    def shown_level(self, level: float | None = None) -> float:
        """The level of intervals: the one asked for, or that of the fit."""
        shown = (0.95 if self.limits is None else self.limits.level) if level is None else level
        check_level(shown)
        return shown

    @property
    def degrees_of_freedom(self) -> Float:
        """Of the variance of each parameter (d,); infinite where intervals and tests are those of the normal."""
        return np.broadcast_to(np.inf if self.df is None else self.df, (len(self.parameters),))

    def _quantile(self, probability: float) -> Float:
        """Of t, or of the normal, for each parameter (d,)."""
        from scipy.special import stdtrit

        return np.asarray(stdtrit(self.degrees_of_freedom, probability))

    def _rows(self, level: float | None) -> list[tuple[str, float, float, float, float, float, float]]:
        from scipy.special import stdtr

        errors, limits = self.standard_errors, self.interval(level)
        with np.errstate(all="ignore"):
            z = np.where(errors > 0, self.estimate / errors, np.nan)  # nothing varied: there is nothing to test with
        if self.limits is not None:  # the same test for the interval and for the hypothesis
            z = shown_t(self.limits.zero(self.degrees_of_freedom), z, self.degrees_of_freedom)
        p = 2 * stdtr(self.degrees_of_freedom, -np.abs(z))
        columns = zip(self.parameters, self.estimate, errors, z, p, limits[:, 0], limits[:, 1], strict=True)
        return [(t, *map(float, numbers)) for t, *numbers in columns]

    @property
    def flags(self) -> str:
        """Codes of the diagnostics that are errors or warnings, errors first; empty where there are none.

        >>> import pramana as pr
        >>> mechanism = pr.Mechanism({"y": pr.TransitionMatrix.binary(sensitivity=0.8, specificity=0.9)})
        >>> result = pr.fit(pr.mean("y"), {"y": [1] * 5 + [0] * 95}, mechanism)
        >>> result.flags, result.to_dicts(flags=True)[0]["flags"]
        ('outside-range', 'outside-range')
        """
        codes = [d.code for severity in ("error", "warning") for d in self.diagnostics if d.severity == severity]
        return ", ".join(dict.fromkeys(codes))

    def to_dicts(
        self, *, exponentiate: bool = False, level: float | None = None, flags: bool = False
    ) -> list[dict[str, Any]]:
        """The table as a list of rows; `exponentiate` turns log ratios into ratios with delta-method errors, and `flags` adds those
        of the fit to every row."""
        rows: list[dict[str, Any]] = [dict(zip(COLUMNS, row, strict=True)) for row in self._rows(level)]
        if exponentiate and not self.log_scale:
            raise PramanaError(
                f"exponentiate makes ratios of logarithms, and {self.parameters[0]!r} is none: it is for odds ratios, risk ratios and "
                "models with link 'logit', 'log' or 'cloglog'"
            )
        if exponentiate:
            named = zip(rows, self.exponentials or self.parameters, strict=True)
            for row, name in [(r, n) for r, n in named if r["term"] not in self.free]:
                _refuse_overflow(row)
                ratio = float(np.exp(row["estimate"]))
                row.update(term=name, estimate=ratio, std_error=ratio * row["std_error"])
                row.update(conf_low=_exp(row["conf_low"]), conf_high=_exp(row["conf_high"]))
        return [row | {"flags": self.flags} for row in rows] if flags else rows

    def to_frame(self, *, exponentiate: bool = False, level: float | None = None, flags: bool = False) -> Any:
        """The table in the kind of frame that the data came in; `flags` adds a column with the codes of diagnostics."""
        rows = self.to_dicts(exponentiate=exponentiate, level=level, flags=flags)
        return build({c: [r[c] for r in rows] for c in rows[0]}, self.frame_kind)

    def to_dict(self, *, exponentiate: bool = False, level: float | None = None) -> dict[str, Any]:
        """Everything that can be written as JSON, where what is not finite is None; no data values."""
        out: dict[str, Any] = {
            "method": self.method,
            "inference": self.inference,
            "interval": self.interval_kind,
            "n": self.n,
            "level": self.shown_level(level),
            "log_scale": self.log_scale and not exponentiate,
            "exponentiated": exponentiate,
            **dict(self.facts),
            "coefficients": self.to_dicts(exponentiate=exponentiate, level=level),
            "covariance": self.covariance.tolist(),
            "diagnostics": [{"code": d.code, "severity": d.severity, "message": d.message} for d in self.diagnostics],
        }
        if self.exponentials is not None and not exponentiate:
            out["exponentials"] = list(self.exponentials)
        if self.free:
            out["free"] = list(self.free)
        if self.privacy is not None:
            out["price_of_privacy"] = self._privacy_rows()
        if self.draws is not None:
            draws = self.draws
            out["resampling"] = {
                "draws": len(draws.values) + draws.rootless,
                "rootless": draws.rootless,
                "seed": draws.seed,
                "weights": draws.law,
                "stream_version": draws.stream_version,
            }
        return dict(plain(out))

    def sheet(self, *, exponentiate: bool = False, level: float | None = None) -> Sheet:
        """The table ready for rendering."""
        rows = self.to_dicts(exponentiate=exponentiate, level=level)
        shown = self.shown_level(level)
        low, high = f"[{(1 - shown) / 2:.3g}", f"{(1 + shown) / 2:.3g}]"
        facts = {"Method": self.method, **self.facts, "Records": count(self.n), "Standard errors": self.inference}
        return Sheet(
            columns=(
                "term",
                "estimate",
                "std. error",
                "t" if np.isfinite(self.degrees_of_freedom).any() else "z",
                "p",
                low,
                high,
            ),
            rows=tuple(tuple((r | {"p_value": PValue(r["p_value"])}).values()) for r in rows),
            facts=tuple(facts.items()),
            notes=tuple(str(d) for d in self.diagnostics),
            data=self.to_dict(exponentiate=exponentiate, level=level),
            records=rows,
        )

    def summary(self, style: str = "text", *, exponentiate: bool = False, level: float | None = None) -> str:
        """The regression table, then the diagnostics."""
        return render(self.sheet(exponentiate=exponentiate, level=level), style)

    def test(self, hypothesis: str) -> WaldTest:
        """Wald test of linear hypotheses, such as "edu[T.high] = 0, age = female", or of all terms of a variable, such as "edu"; an F test
        where `df` is given.

        One parameter alone that is set to 0 has the test behind its interval, as in the table, where that is not Wald's.
        """
        refuse_other_than_text(hypothesis, self.parameters)
        terms = self._terms_of(hypothesis)
        if terms:
            return replace(
                self.test(", ".join(f"{term} = 0" for term in terms)), hypothesis=f"all terms of {hypothesis}"
            )
        place = None if self.limits is None else alone_at_zero(hypothesis, self.parameters)
        if place is not None and self.limits is not None:
            own = self.limits.zero(self.degrees_of_freedom)[place]
            if not np.isnan(own):
                row, df = self._rows(None)[place], float(self.degrees_of_freedom[place])
                denominator = None if np.isinf(df) else df
                return IntervalTest(hypothesis, row[3] ** 2, 1, row[4], denominator, self.limits.of([place]).kind)
        return wald_test(hypothesis, self.parameters, self.estimate, self.covariance, self.degrees_of_freedom)

    def _terms_of(self, hypothesis: str) -> list[str]:
        """All terms of a formula that read the variable; none where the text is no variable's name, or names a parameter."""
        if self.model is None or hypothesis in self.parameters:
            return []
        return [term for term, names in zip(self.parameters, self.model.reads, strict=False) if hypothesis in names]

    def combine(self, expression: str) -> Result:
        """A linear combination of the parameters, such as "edu[T.high] - edu[T.mid]", with its error and interval.

        >>> import pramana as pr
        >>> data = {"y": [1.0, 3.0, 4.0, 8.0, 9.0], "x": [0.0, 1.0, 2.0, 3.0, 5.0]}
        >>> pr.fit("y ~ x", data, None).combine("Intercept + 2 * x").estimate.round(4)
        array([4.6622])
        """
        rows, values = restrictions(expression, self.parameters)
        if len(rows) > 1 or "=" in expression:
            raise FormulaError(
                f"{expression!r} is not one combination of the parameters: give one without '=' and ',', or test equations with test()"
            )
        used = rows[0] != 0  # a parameter whose variance is not known does not matter elsewhere

        def around(part: Float) -> Float:
            return np.asarray(rows[:, used] @ part[np.ix_(used, used)] @ rows[:, used].T)

        resampled = self.interval_kind == "percentile" and self.limits is None
        return replace(
            self,
            parameters=(expression,),
            estimate=rows @ self.estimate - values,
            covariance=around(self.covariance),
            privacy=None if self.privacy is None else around(self.privacy),
            sampling=None if self.sampling is None else around(self.sampling),
            measurement=None if self.measurement is None else around(self.measurement),
            draws=None if self.draws is None else replace(self.draws, values=self.draws.values @ rows.T - values),
            inference=self.inference if self.limits is None else f"{self.inference}; of the combination, wald",
            interval_kind="percentile" if resampled else "wald",
            limits=None,
            df=None if self.df is None else float(self.degrees_of_freedom[used].min()),
            model=None,
            exponentials=None,
            free=(),
            shares=None,
            grid=None,
            explained=None,
            again=None,
        )

    def cross(self) -> CrossedEstimates:
        """A cross table in two dimensions, with totals: levels of the last column side by side, standard errors in brackets.

        >>> import pramana as pr
        >>> cells = {"sex": ["f", "f", "m", "m"], "ill": ["no", "yes", "no", "yes"], "n": [40, 10, 30, 20]}
        >>> print(pr.fit(pr.crosstab("sex", "ill"), cells, None, frequencies="n").cross())
        sex by ill
        --------------------------------------------------------
        sex    no               yes              total
        --------------------------------------------------------
        f      0.4000 (0.0492)  0.1000 (0.0302)  0.5000 (0.0503)
        m      0.3000 (0.0461)  0.2000 (0.0402)  0.5000 (0.0503)
        total  0.7000 (0.0461)  0.3000 (0.0461)  1.0000 (0.0000)
        --------------------------------------------------------
        """
        if self.grid is None:
            raise PramanaError(
                "only a table of cells has two dimensions: ask for one, as in fit(crosstab('edu', 'sex'), ...)"
            )
        return CrossedEstimates.of(
            self.grid, self.estimate, self.covariance, notes=tuple(str(d) for d in self.diagnostics)
        )

    @property
    def rsquared(self) -> float:
        """Of a linear model: the share of the true response's variance that it explains, both variances reverted."""
        if self.explained is None:
            raise PramanaError(
                "R² is a share of a variance, of linear models with an intercept by method 'reversion' or 'naive', without offsets or a subset by "
                "perturbed columns, of records in memory and of numbers without added noise: this result has none"
            )
        return self.explained

    @released
    def predict(self, data: Any, *, level: float = 0.95) -> Any:
        """Means of new records, whose columns hold true values, with delta-method errors and limits, as a frame; of a multinomial or ordinal model
        the chances of all classes, a row for every record and class."""
        check_level(level)
        if self.model is None:
            why = (
                "absorbed effects are not kept: write C(...) into the formula"
                if "Absorbed" in self.facts
                else "this result has none"
            )
            raise PramanaError(f"only regressions fitted by a formula predict: {why}")
        columns = self.model.at(data, self.estimate, self.covariance, float(self._quantile((1 + level) / 2).max()))
        return build(columns, self.frame_kind)

    @released
    def margins(self, data: Any, *variables: str, at: Mapping[str, Any] | None = None, **given: Any) -> Result:
        """Average marginal effects of covariates, all of them by default, over the records of the released `data`; with `at`, others held
        at true values for everyone, as at={"age": [30, 50]}.

        A result holds no records, so it takes the file again, and arrays that were given beside it (weights=...). The
        model is estimated again along with the averages, so that the errors are those of both; see `pramana.margins`.
        """
        if self.again is None:
            raise PramanaError(
                f"margins need a formula fitted with method='reversion' or 'naive'; this result (method {self.method!r}) has "
                "none that could be fitted again"
            )
        return warned(self.again(variables, data, at, given))

    def price_of_privacy(self) -> Any:
        """For each parameter: its variance, the share that the randomisation costs (Remark 1 of the paper), and how
        many unperturbed records would have given the same variance. Estimated from released data alone. Where P was measured,
        also the share that its measurement costs.
        """
        rows = self._privacy_rows()
        return build({c: [r[c] for r in rows] for c in rows[0]}, self.frame_kind)

    def _privacy_rows(self) -> list[dict[str, Any]]:
        if self.privacy is None or self.sampling is None:
            why = self.unsplit or "that takes method='reversion'"
            raise PramanaError(
                f"the variance of this {self.method} fit does not decompose into sampling and randomisation: {why}"
            )
        total = np.diag(self.sampling)
        parts = {"privacy_share": self.privacy} | (
            {} if self.measurement is None else {"measurement_share": self.measurement}
        )
        shares = {
            name: np.divide(np.diag(part), total, out=np.zeros_like(total), where=total > 0)
            for name, part in parts.items()
        }
        rest = self.n * (1 - np.sum(list(shares.values()), axis=0))
        return [
            {"term": t, "variance": float(v)}
            | {name: float(share[j]) for name, share in shares.items()}
            | {"equivalent_records": float(rest[j])}
            for j, (t, v) in enumerate(zip(self.parameters, total, strict=True))
        ]

    def plot(
        self,
        *others: Result,
        level: float | None = None,
        title: str = "",
        intercept: bool = False,
        exponentiate: bool = False,
        labels: Mapping[str, str] | None = None,
        ax: Any = None,
    ) -> Any:
        """Coefficients with intervals as a matplotlib Figure; other results go side by side. Options as in `Comparison.plot`.

        >>> import pramana as pr
        >>> data = {"y": [1.0, 3.0, 4.0, 8.0, 9.0], "x": [0.0, 1.0, 2.0, 3.0, 5.0]}
        >>> figure = pr.fit("y ~ x", data, None).plot(labels={"x": "years of school"})
        >>> figure.axes[0].get_xlabel(), [text.get_text() for text in figure.axes[0].get_yticklabels()]
        ('estimate with 95 % interval', ['years of school'])
        """
        from pramana.comparison import Comparison

        results: dict[str, Result] = {}
        for result in (self, *others):
            again = f" ({len(results) + 1})" if result.method in results else ""
            results[f"{result.method}{again}"] = result
        shown: dict[str, Any] = {"intercept": intercept, "exponentiate": exponentiate, "labels": labels, "ax": ax}
        return Comparison(results).plot(level=level, title=title, **shown)

    def report(
        self,
        path: str | Path,
        *,
        exponentiate: bool = False,
        level: float | None = None,
        title: str = "",
        command: str = "",
        force: bool = False,
    ) -> Path:
        """Write one HTML file that needs no other: table, picture, diagnostics, price of privacy, a methods paragraph with its sources, and the
        `command` where one is given. A file of that name is replaced only with `force`."""
        from pramana.reporting import results_page, write_page

        shown: dict[str, Any] = {"exponentiate": exponentiate, "level": level}
        named = title or self.facts.get("Formula") or self.facts.get("Parameter") or self.method
        figure = self.plot(**shown)
        page = results_page(named, [self.sheet(**shown)], {self.method: self}, figure, level=level, command=command)
        return write_page(page, path, force=force)


AnyResult = TypeVar("AnyResult", bound=Result)


def warned(result: AnyResult) -> AnyResult:
    """The result, after a Python warning for each diagnostic which says that it is not to be used."""
    for found in result.diagnostics:
        if found.severity == "error":
            text = f"{found.code} ({result.method}): {found.message}"
            warnings.warn(text, PramanaWarning, stacklevel=_frames_of_ours())
    return result


def _frames_of_ours() -> int:
    """The stack level, for whoever called this, of the user's line: a warning is told once for each place that it points to."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("pramana."):
        frame, level = frame.f_back, level + 1
    return level


def _exp(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.exp(value))


def _refuse_overflow(row: Mapping[str, Any]) -> None:
    if row["estimate"] > 700:
        raise PramanaError(f"{row['term']!r} = {row['estimate']:g} is too large to exponentiate: is it a log ratio?")
