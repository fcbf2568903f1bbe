"""Several estimators of the same parameters side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pramana.errors import PramanaError, suggestion
from pramana.frames import build
from pramana.inference.hypotheses import SpecificationTest
from pramana.render import Sheet, Shown, render
from pramana.result import COLUMNS, Result


@dataclass(frozen=True)
class Comparison(Shown):
    """Several estimators of the same parameters, by label; with a test of the likelihood's model where it is among them."""

    results: Mapping[str, Result]
    title: str = ""
    specification: SpecificationTest | None = None
    untested: str = ""

    def __getitem__(self, label: str) -> Result:
        if label not in self.results:
            raise PramanaError(f"there is no estimator {label!r}: {suggestion(label, self.results)}")
        return self.results[label]

    @property
    def parameters(self) -> tuple[str, ...]:
        return next(iter(self.results.values())).parameters

    def to_dicts(self, *, level: float | None = None) -> list[dict[str, Any]]:
        return [{"method": k, **row} for k, r in self.results.items() for row in r.to_dicts(level=level)]

    def to_frame(self, *, level: float | None = None) -> Any:
        """All tables, one below the other, with a column `method`."""
        rows = self.to_dicts(level=level)
        kind = next(iter(self.results.values())).frame_kind
        return build({c: [r[c] for r in rows] for c in ("method", *COLUMNS)}, kind)

    def sheet(self) -> Sheet:
        """One row a term, one column an estimator: estimate (standard error)."""
        labels = tuple(self.results)
        rows = []
        for j, term in enumerate(self.parameters):
            cells = [f"{r.estimate[j]:.4f} ({r.standard_errors[j]:.4f})" for r in self.results.values()]
            rows.append((term, *cells))
        notes = [f"{k}: {d}" for k, r in self.results.items() for d in r.diagnostics if d.severity != "info"]
        first = next(iter(self.results.values()))
        facts = {**first.facts, "Records": f"{first.n:g}", "Cells": "estimate (standard error)"}
        data: dict[str, Any] = {k: r.to_dict() for k, r in self.results.items()}
        if self.specification is not None:
            notes += str(self.specification).splitlines()
            data["specification_test"] = asdict(self.specification)
        elif self.untested:
            notes.append(f"No specification test: {self.untested}")
        return Sheet(("term", *labels), tuple(rows), self.title, tuple(facts.items()), tuple(notes), data=data)

    def summary(self, style: str = "text") -> str:
        return render(self.sheet(), style)

    def plot(self, *, level: float | None = None, title: str = "") -> Any:
        """Coefficients of every estimator side by side, as a matplotlib Figure."""
        from pramana.render.figures import Series, coefficients

        series = []
        for label, result in self.results.items():
            limits = result.interval(level)
            series.append(Series(label, result.estimate, limits[:, 0], limits[:, 1]))
        return coefficients(self.parameters, series, title=title or self.title)
