"""Several estimators of the same parameters side by side."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pramana.errors import PramanaError, suggestion
from pramana.frames import build
from pramana.inference.hypotheses import SpecificationTest
from pramana.numbers import column, count
from pramana.render import Sheet, Shown, render
from pramana.render.figures import Series, coefficients, effects, look_of, percent
from pramana.result import Result


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """Several results by label, side by side; with a test of the likelihood's model where it is among them.

    Results are lined up by the names of their terms, never by position: all terms in the order in which they first appear, and a
    blank where a result has none of that name.

    >>> import pramana as pr
    >>> data = {"y": [1.0, 2.0, 2.5, 4.0, 5.5], "a": [0, 1, 2, 3, 4], "b": [1, 0, 0, 1, 1]}
    >>> models = {"both": pr.fit("y ~ a + b", data, None), "b alone": pr.fit("y ~ b", data, None)}
    >>> for row in pr.Comparison(models).sheet().rows:
    ...     print(row)
    ('Intercept', '0.6545 (0.3128)', '2.2500 (0.2500)')
    ('a', '1.0636 (0.0785)', None)
    ('b', '0.3636 (0.3083)', '1.2500 (1.3463)')
    """

    results: Mapping[str, Result]
    title: str = ""
    specification: SpecificationTest | None = None
    untested: str = ""

    def __post_init__(self) -> None:
        if not self.results:
            raise PramanaError("a comparison of no results: give at least one, by its label")

    def __getitem__(self, label: str) -> Result:
        if label not in self.results:
            raise PramanaError(f"there is no estimator {label!r}: {suggestion(label, self.results)}")
        return self.results[label]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The terms of all results, in the order in which they first appear."""
        return tuple(dict.fromkeys(term for result in self.results.values() for term in result.parameters))

    def _facts(self) -> dict[str, str]:
        """Those of the first result; where another one says otherwise, what each says."""
        told = {label: {**r.facts, "Records": count(r.n)} for label, r in self.results.items()}
        out = dict(next(iter(told.values())))
        for name in out:
            said = {label: facts[name] for label, facts in told.items() if name in facts}
            if len(set(said.values())) > 1:
                out[name] = "; ".join(f"{label}: {text}" for label, text in said.items())
        return out

    def to_dicts(self, *, level: float | None = None, flags: bool = False) -> list[dict[str, Any]]:
        return [{"method": k, **row} for k, r in self.results.items() for row in r.to_dicts(level=level, flags=flags)]

    def to_frame(self, *, level: float | None = None, flags: bool = False) -> Any:
        """All tables, one below the other, with a column `method`, and one with `flags` where they are asked for."""
        rows = self.to_dicts(level=level, flags=flags)
        kind = next(iter(self.results.values())).frame_kind
        return build({c: [r[c] for r in rows] for c in rows[0]}, kind)

    def _errors(self) -> dict[str, str]:
        """How standard errors were made, where not all in one way."""
        ways: dict[str, list[str]] = {}
        for label, result in self.results.items():
            way = re.sub(r" \(.*|, [\w-]+ intervals.*", "", result.inference)
            ways.setdefault(way, []).append(label)
        told = "; ".join(f"{', '.join(labels)}: {way}" for way, labels in ways.items())
        return {"Standard errors": told} if len(ways) > 1 else {}

    def sheet(self, *, level: float | None = None) -> Sheet:
        """One row a term, one column an estimator: estimate (standard error); as CSV or JSON all numbers, with limits at a level."""
        labels = tuple(self.results)
        held = [{term: j for j, term in enumerate(r.parameters)} for r in self.results.values()]
        cells = [_with_errors(r) for r in self.results.values()]
        rows = [
            (term, *(c[h[term]] if term in h else None for c, h in zip(cells, held, strict=True)))
            for term in self.parameters
        ]
        notes = [f"{k}: {d}" for k, r in self.results.items() for d in r.diagnostics if d.severity != "info"]
        facts = {**self._facts(), "Cells": "estimate (standard error)", **self._errors()}
        data: dict[str, Any] = {k: r.to_dict(level=level) for k, r in self.results.items()}
        if self.specification is not None:
            notes += str(self.specification).splitlines()
            data["specification_test"] = asdict(self.specification)
        elif self.untested:
            notes.append(f"No specification test: {self.untested}")
        return Sheet(
            ("term", *labels),
            tuple(rows),
            self.title,
            tuple(facts.items()),
            tuple(notes),
            data=data,
            records=self.to_dicts(level=level),
        )

    def summary(self, style: str = "text", *, level: float | None = None) -> str:
        return render(self.sheet(level=level), style)

    def plot(
        self,
        *,
        level: float | None = None,
        title: str = "",
        intercept: bool = False,
        exponentiate: bool = False,
        labels: Mapping[str, str] | None = None,
        ax: Any = None,
    ) -> Any:
        """Coefficients of every estimator side by side, as a matplotlib Figure.

        Parameters
        ----------
        level : of the intervals; that of the results by default.
        intercept : show it, whose scale is seldom that of the others.
        exponentiate : ratios instead of their logarithms, on a logarithmic axis.
        labels : what to call terms in the picture, as {"edu[T.high]": "University"}; the others keep their names.
        ax : matplotlib axes to draw into; they are returned instead of a figure.
        """
        rows = {k: _drawn_rows(r, level, intercept, exponentiate) for k, r in self.results.items()}
        terms = tuple(dict.fromkeys(term for found in rows.values() for term in found))
        unknown = [term for term in labels or {} if term not in terms and term not in self.parameters]
        if unknown:
            raise PramanaError(f"labels name {unknown[0]!r}, which is no term: {suggestion(unknown[0], terms)}")
        return coefficients(
            [(labels or {}).get(term, term) for term in terms],
            [self._series(label, found, terms, level) for label, found in rows.items()],
            x_label=f"{'ratio' if exponentiate else 'estimate'} with {self._in_words(level)}",
            title=title or self.title,
            reference=_reference(self.results.values(), rows.values(), exponentiate),
            log=exponentiate,
            ax=ax,
        )

    def report(
        self, path: str | Path, *, title: str = "", command: str = "", level: float | None = None, force: bool = False
    ) -> Path:
        """Write one HTML file that needs no other, as `Result.report` does, of all results."""
        from pramana.reporting import results_page, write_page

        named = title or self.title or self._facts().get("Formula") or "Estimators side by side"
        page = results_page(named, [self.sheet()], self.results, self.plot(level=level), command=command, level=level)
        return write_page(page, path, force=force)

    def _series(
        self, label: str, rows: Mapping[str, Mapping[str, Any]], terms: Sequence[str], level: float | None
    ) -> Series:
        """Points and limits of one result at the places of `terms`, NaN where it has no such term; in the colour of its method where that is
        the only one of its kind."""
        result = self.results[label]
        estimate, low, high = (
            np.array([rows[t][c] if t in rows else np.nan for t in terms])
            for c in ("estimate", "conf_low", "conf_high")
        )
        alone = sum(r.method == result.method for r in self.results.values()) == 1
        named = label if level is not None or len(self._levels()) == 1 else f"{label} ({percent(result.shown_level())})"
        return Series(named, estimate, low, high, result.method if alone and look_of(label) is None else label)

    def _levels(self) -> set[float]:
        return {result.shown_level() for result in self.results.values()}

    def _in_words(self, level: float | None) -> str:
        """Such as "95 % interval"; without a level where results differ in it, whose labels then say it."""
        levels = self._levels() if level is None else {level}
        return f"{percent(*levels)} interval" if len(levels) == 1 else "interval"


def _drawn_rows(
    result: Result, level: float | None, intercept: bool, exponentiate: bool
) -> dict[str, Mapping[str, Any]]:
    """Rows of the table by their terms. Without intercepts, unless there is nothing else; parameters of the mechanism are no ratios."""
    rows = zip(result.parameters, result.to_dicts(level=level, exponentiate=exponentiate), strict=True)
    kept = {name: row for name, row in rows if not (exponentiate and name in result.free)}
    return {kept[name]["term"]: kept[name] for name in effects(list(kept), intercept=intercept)}


def _reference(
    results: Iterable[Result], rows: Iterable[Mapping[str, Mapping[str, Any]]], exponentiate: bool
) -> float | None:
    """No effect: of coefficients always, of other parameters where it is within the picture, which it would stretch elsewhere."""
    none = 1.0 if exponentiate else 0.0
    ends = np.array([[row["conf_low"], row["conf_high"]] for found in rows for row in found.values()])
    inside = np.nanmin(ends, initial=np.inf) <= none <= np.nanmax(ends, initial=-np.inf)
    return none if inside or any(result.model is not None for result in results) else None


def _with_errors(result: Result) -> list[str]:
    """Each estimate with its standard error, all in one format."""
    numbers = column([*result.estimate.tolist(), *result.standard_errors.tolist()])
    d = len(result.parameters)
    return [f"{estimate} ({error})" for estimate, error in zip(numbers[:d], numbers[d:], strict=True)]
