"""Several estimators of the same parameters side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pramana.arrays import Float
from pramana.errors import PramanaError, suggestion
from pramana.frames import build
from pramana.inference.hypotheses import SpecificationTest
from pramana.render import Sheet, Shown, render
from pramana.result import Result


@dataclass(frozen=True)
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

    def _lined_up(self, result: Result, values: Float) -> Float:
        """Values (d, ...) of a result's terms at the places of `parameters`; NaN where it has no such term."""
        out = np.full((len(self.parameters), *values.shape[1:]), np.nan)
        places = {term: j for j, term in enumerate(self.parameters)}
        out[[places[term] for term in result.parameters]] = values
        return out

    def _facts(self) -> dict[str, str]:
        """Those of the first result; where another one says otherwise, what each says."""
        told = {label: {**r.facts, "Records": f"{r.n:g}"} for label, r in self.results.items()}
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

    def sheet(self) -> Sheet:
        """One row a term, one column an estimator: estimate (standard error)."""
        labels = tuple(self.results)
        held = [{term: j for j, term in enumerate(r.parameters)} for r in self.results.values()]
        cells = [
            [f"{b:.4f} ({e:.4f})" for b, e in zip(r.estimate, r.standard_errors, strict=True)]
            for r in self.results.values()
        ]
        rows = [
            (term, *(c[h[term]] if term in h else None for c, h in zip(cells, held, strict=True)))
            for term in self.parameters
        ]
        notes = [f"{k}: {d}" for k, r in self.results.items() for d in r.diagnostics if d.severity != "info"]
        facts = {**self._facts(), "Cells": "estimate (standard error)"}
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
            low, high = self._lined_up(result, result.interval(level)).T
            series.append(Series(label, self._lined_up(result, result.estimate), low, high))
        return coefficients(self.parameters, series, title=title or self.title)
