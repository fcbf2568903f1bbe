"""Several models in one table, as papers print them: one column a model, one row a term, what the fits rest on below."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from pramana.comparison import Comparison
from pramana.errors import PramanaError, listing, suggestion
from pramana.familiar import outcome_of
from pramana.frames import build
from pramana.numbers import Format, count, p_value
from pramana.render import Sheet, Shown, plain, render
from pramana.render.pages import Page
from pramana.result import Result

Below = Literal["std_error", "interval", "statistic", "p_value", "nothing"]
LEVELS = (0.05, 0.01, 0.001)
"""Those of the stars, where nothing else is asked for."""
MOST_STARS = 5
FIT = ("Log-likelihood", "AIC")
"""Statistics of the fit that are shown without being asked for, where a model has them."""
ENDINGS = {
    ".txt": "text",
    ".md": "markdown",
    ".tex": "latex",
    ".html": "html",
    ".htm": "html",
    ".json": "json",
    ".csv": "csv",
}
"""The format of a file by the ending of its name."""
STYLES = tuple(dict.fromkeys(ENDINGS.values()))


@dataclass(frozen=True)
class Model:
    """What a table needs of a result; also of one that was written as JSON.

    Attributes
    ----------
    rows : term, estimate, std_error, statistic, p_value, conf_low and conf_high by term.
    level : of the limits.
    facts : what was fitted and how, by name.
    ratios : whether the estimates are exponentials, by the terms for which they are.
    """

    rows: Mapping[str, Mapping[str, Any]]
    level: float
    facts: Mapping[str, str]
    remarks: tuple[str, ...] = ()
    ratios: frozenset[str] = frozenset()

    @classmethod
    def of(cls, result: Result, *, exponentiate: bool = False, level: float | None = None) -> Model:
        rows = result.to_dicts(exponentiate=exponentiate, level=level)
        facts = _facts(result.facts, result.n, result.method, result.inference)
        remarks = tuple(str(found) for found in result.diagnostics if found.severity != "info")
        logs = frozenset(row["term"] for row in rows) - frozenset(result.free) if exponentiate else frozenset()
        return cls({row["term"]: row for row in rows}, result.shown_level(level), facts, remarks, logs)

    @classmethod
    def from_document(cls, document: Mapping[str, Any], name: str, *, exponentiate: bool = False) -> Model:
        """A result as `pramana fit -f json` writes it; `name` is what errors call it."""
        try:
            rows = {str(row["term"]): _numbers(row) for row in document["coefficients"]}
            level, log, ratios = float(document["level"]), bool(document["log_scale"]), bool(document["exponentiated"])
            known = {k: v for k, v in document.items() if isinstance(v, str) and k[:1].isupper()}
            facts = _facts(known, float(document["n"]), str(document["method"]), str(document["inference"]))
            found = [(str(d["severity"]), str(d["message"])) for d in document["diagnostics"]]
            free = frozenset(map(str, document.get("free", ())))
            names = dict(zip(rows, map(str, document.get("exponentials", rows)), strict=False))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise PramanaError(
                f"{name} is no result: write one with `pramana fit ... -f json`, or json.dumps(result.to_dict())"
            ) from None
        if exponentiate and not log and not ratios:
            raise PramanaError(f"{name} holds no logarithms: exponentiate makes ratios of these alone")
        if exponentiate and not ratios:
            rows = {n: rows[t] if t in free else _exponentiated(n, rows[t]) for t, n in names.items()}
        remarks = tuple(f"{severity}: {message}" for severity, message in found if severity != "info")
        return cls(rows, level, facts, remarks, frozenset(rows) - free if exponentiate or ratios else frozenset())

    @property
    def outcome(self) -> str:
        return outcome_of(self.facts)


def _numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a document, which has None where a number is not finite: a limit is infinite there, unless nothing is known of it."""
    infinite = {"conf_low": -math.inf, "conf_high": math.inf} if row["std_error"] is not None else {}
    names = ("estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high")
    found = {name: infinite.get(name, math.nan) if row[name] is None else float(row[name]) for name in names}
    return {"term": str(row["term"]), **found}


def _facts(facts: Mapping[str, str], n: float, method: str, inference: str) -> dict[str, str]:
    return {"Records": count(n), "Method": method, **facts, "Standard errors": inference}


def _exponentiated(term: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of logarithms as one of ratios: the standard error by the delta method, limits exponentiated."""
    try:
        found = {key: math.exp(row[key]) for key in ("estimate", "conf_low", "conf_high")}
    except OverflowError:
        raise PramanaError(f"{term!r} is too large to exponentiate: is it a log ratio?") from None
    return {**row, **found, "term": term, "std_error": found["estimate"] * row["std_error"]}


@dataclass(frozen=True, repr=False)
class ModelTable(Shown):
    """Models side by side; see `table`, which makes it.

    `print` shows it as text and a notebook as HTML; `to_markdown()`, `to_latex()` (which needs the package booktabs), `to_html()` and
    `to_csv()` are texts, `save` writes a file, and `to_dicts()` and `to_frame()` are the numbers, one row a model and term.
    """

    models: Mapping[str, Model]
    labels: Mapping[str, str] = field(default_factory=dict)
    stars: tuple[float, ...] = ()
    digits: int = 3
    below: Below = "std_error"
    groups: tuple[tuple[str, int], ...] = ()
    statistics: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    title: str = ""
    notes: tuple[str, ...] = ()

    def to_dicts(self) -> list[dict[str, Any]]:
        """One row for each model and term, with all digits."""
        return [
            {"model": name, "label": self.labels.get(term, term), **model.rows[term]}
            for name, model in self.models.items()
            for term in self.terms
            if term in model.rows
        ]

    def to_frame(self) -> Any:
        """The rows of `to_dicts` as a pandas frame."""
        rows = self.to_dicts()
        return build({key: [row[key] for row in rows] for key in rows[0]}, "pandas")

    def to_html(self) -> str:
        return self.summary("html")

    def to_csv(self) -> str:
        return self.summary("csv")

    def summary(self, style: str = "text") -> str:
        """The table as text, markdown, latex, html, csv or json."""
        return self._written(style, None)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write .txt, .md, .tex, .html, .csv or .json, by the ending of the name: complete or not at all. An existing file is replaced with
        `force=True` only."""
        from pramana.frames.writing import write_text

        path = Path(path)
        style = style_of(path)
        write_text(path, self._page() if style == "html" else self._written(style, 0) + "\n", force=force)

    def _page(self) -> str:
        """A whole file, with the title as its heading."""
        page = Page(self.title or "Models")
        page.add(replace(self.sheet(), title=""))
        return page.html()

    def _written(self, style: str, width: int | None) -> str:
        return render(self.sheet(), style, width=width)

    def sheet(self) -> Sheet:
        """The table ready for rendering."""
        columns = [self._column(model) for model in self.models.values()]
        shown = tuple(dict.fromkeys(self.labels.get(term, term) for term in self.terms))
        rows: list[tuple[str, ...]] = []
        for label in shown:
            cells = [column.get(label, ("", "")) for column in columns]
            rows.append((label, *(above for above, _ in cells)))
            if self.below != "nothing":
                rows.append(("", *(below for _, below in cells)))
        figures = [(name, *(_statistic(model, name) for model in self.models.values())) for name in self.statistics]
        return Sheet(
            columns=("", *self.models),
            rows=(*rows, *figures),
            title=self.title,
            notes=self._all_notes(),
            right=(False, *(True for _ in self.models)),
            spans=(("", 1), *self.groups) if self.groups else (),
            rules=(len(rows),) if figures else (),
            data=plain(self._data()),
            records=self.to_dicts(),
        )

    def _data(self) -> dict[str, Any]:
        figures = {name: {k: _statistic(m, k) for k in self.statistics} for name, m in self.models.items()}
        return {"rows": self.to_dicts(), "statistics": figures, "notes": self._all_notes()}

    def _column(self, model: Model) -> dict[str, tuple[str, str]]:
        """The two cells of each term by its label, all numbers in one format."""
        held = [term for term in self.terms if term in model.rows]
        used = ("estimate", *_BELOW[self.below])
        values = [model.rows[term][key] for term in held for key in used]
        shown = Format.of(values, self.digits)
        cells: dict[str, tuple[str, str]] = {}
        for term in held:
            label, row = self.labels.get(term, term), model.rows[term]
            if label in cells:
                raise PramanaError(f"two terms of one model have the label {label!r}: give each its own")
            estimate = shown(row["estimate"]) + self._stars(row["p_value"])
            cells[label] = (estimate, self._below(row, shown))
        return cells

    def _stars(self, p: float) -> str:
        return "*" * sum(p < level for level in self.stars)

    def _below(self, row: Mapping[str, Any], shown: Format) -> str:
        if self.below == "interval":
            return "[" + ", ".join(shown(row[key]) for key in ("conf_low", "conf_high")) + "]"
        if self.below == "p_value":
            return f"({p_value(row['p_value'], self.digits)})"
        if self.below == "statistic":
            return f"({Format(self.digits, self.digits, grouped=False)(row['statistic'])})"
        return f"({shown(row['std_error'])})"

    def _all_notes(self) -> tuple[str, ...]:
        told = [self._about_cells(), self._about_ratios(), self._about_stars(), *self.notes]
        remarks = [f"{name}: {remark}" for name, model in self.models.items() for remark in model.remarks]
        return tuple(note for note in (*told, *remarks) if note)

    def _about_cells(self) -> str:
        levels = sorted({model.level for model in self.models.values()})
        percent = " and ".join(f"{100 * level:.4g} %" for level in levels)
        return {
            "std_error": "Standard errors in parentheses.",
            "interval": f"{percent} intervals in brackets.",
            "p_value": "p-values in parentheses.",
            "statistic": "Test statistics in parentheses.",
            "nothing": "",
        }[self.below]

    def _about_ratios(self) -> str:
        if not any(model.ratios for model in self.models.values()):
            return ""
        how = {
            "std_error": ", with standard errors by the delta method",
            "interval": ", with the limits of the logarithms exponentiated",
        }.get(self.below, "")
        apart = [name for name, model in self.models.items() if not model.ratios]
        which = f" (not in {', '.join(apart)})" if apart else ""
        tested = " Tests are of a ratio of 1." if self.stars or self.below in ("p_value", "statistic") else ""
        return f"Estimates are ratios{which}{how}.{tested}"

    def _about_stars(self) -> str:
        return ", ".join(f"{'*' * (k + 1)} p < {level:g}" for k, level in enumerate(self.stars))


_BELOW: dict[str, tuple[str, ...]] = {
    "std_error": ("std_error",),
    "interval": ("conf_low", "conf_high"),
    "statistic": (),
    "p_value": (),
    "nothing": (),
}


def _statistic(model: Model, name: str) -> str:
    return model.outcome if name == "Outcome" else model.facts.get(name, "")


def style_of(path: Path) -> str:
    """The format of a file by its ending."""
    if path.suffix.lower() not in ENDINGS:
        raise PramanaError(f"table {str(path)!r} has an unknown ending: use {', '.join(ENDINGS)}")
    return ENDINGS[path.suffix.lower()]


def table(
    models: Result | Comparison | Sequence[Result] | Mapping[str, Result],
    *,
    labels: Mapping[str, str] | None = None,
    stars: bool | Sequence[float] = False,
    digits: int = 3,
    exponentiate: bool = False,
    below: Below = "std_error",
    level: float | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    terms: Sequence[str] | None = None,
    statistics: Sequence[str] | None = None,
    title: str = "",
    notes: str | Sequence[str] = (),
) -> ModelTable:
    """Several models in one table.

    Parameters
    ----------
    models : results by name, a list of them, which get the names (1), (2) and so on, or a comparison.
    labels : what is shown in place of a term. Terms of different models with one label share a row.
    stars : True for * p < 0.05, ** p < 0.01 and *** p < 0.001, or the levels of one star, two and so on. None by default.
    digits : decimals; fewer where numbers are large, more where they would be lost.
    exponentiate : ratios in place of their logarithms, such as odds ratios; standard errors by the delta method, limits exponentiated.
    below : what stands under an estimate: "std_error", "interval", "statistic", "p_value" or "nothing".
    level : of the intervals; that of each fit by default.
    groups : headers that span several models, each with the names of its models, which stand side by side.
    terms : those shown, in this order; all by default, in the order in which they first appear.
    statistics : rows below the terms: "Outcome", "Records", "Method", "Standard errors" and whatever stands above a result's own table. By default
        the outcome where they differ, records, method, and statistics of the fit where a model has them.
    notes : sentences below the table.

    >>> import pramana as pr
    >>> data = {"y": [1.0, 2.0, 2.5, 4.0, 5.5], "a": [0, 1, 2, 3, 4], "b": [1, 0, 0, 1, 1]}
    >>> both, alone = pr.fit("y ~ a + b", data, None), pr.fit("y ~ b", data, None)
    >>> pr.table({"both": both, "alone": alone}, labels={"b": "second"}, stars=True)
    -------------------------------
                    both      alone
    -------------------------------
    Intercept      0.655      2.250
                 (0.313)    (0.250)
    a             1.064*
                 (0.078)
    second         0.364      1.250
                 (0.308)    (1.346)
    -------------------------------
    Records            5          5
    Method     reversion  reversion
    -------------------------------
    Standard errors in parentheses.
    * p < 0.05, ** p < 0.01, *** p < 0.001
    """
    results = _by_name(models)
    found = {name: Model.of(result, exponentiate=exponentiate, level=level) for name, result in results.items()}
    return of_models(
        found,
        labels=labels,
        stars=stars,
        digits=digits,
        below=below,
        groups=groups,
        terms=terms,
        statistics=statistics,
        title=title,
        notes=notes,
    )


def of_models(
    models: Mapping[str, Model],
    *,
    labels: Mapping[str, str] | None = None,
    stars: bool | Sequence[float] = False,
    digits: int = 3,
    below: Below = "std_error",
    groups: Mapping[str, Sequence[str]] | None = None,
    terms: Sequence[str] | None = None,
    statistics: Sequence[str] | None = None,
    title: str = "",
    notes: str | Sequence[str] = (),
) -> ModelTable:
    """The table of models by name; options as in `table`."""
    known = tuple(dict.fromkeys(term for model in models.values() for term in model.rows))
    for term in (*(labels or {}), *(terms or ())):
        if term not in known:
            raise PramanaError(f"no model has a term {term!r}: {suggestion(term, known)}")
    if below not in get_args(Below):
        raise PramanaError(f"below={below!r} is unknown: {suggestion(str(below), get_args(Below))}")
    if not isinstance(digits, int) or isinstance(digits, bool) or not 0 <= digits <= 8:
        raise PramanaError(f"digits={digits!r} is no number of decimals: give one from 0 to 8")
    made = ModelTable(
        models,
        dict(labels or {}),
        _levels(stars),
        digits,
        below,
        _spans(groups or {}, tuple(models)),
        _statistics(models, statistics),
        tuple(dict.fromkeys(terms)) if terms is not None else known,
        title,
        (notes,) if isinstance(notes, str) else tuple(notes),
    )
    made.sheet()  # refuses labels that two terms of a model share
    return made


def _by_name(models: Any) -> dict[str, Result]:
    if isinstance(models, Comparison):
        return dict(models.results)
    if isinstance(models, Result):
        return {"(1)": models}
    if isinstance(models, Mapping):
        named = {str(name): result for name, result in models.items()}
    elif isinstance(models, Sequence) and not isinstance(models, str):
        named = {f"({k})": result for k, result in enumerate(models, 1)}
    else:
        named = {"models": models}
    for name, result in named.items():
        if not isinstance(result, Result):
            raise PramanaError(f"{name} is a {type(result).__name__}, not a Result: give what pr.fit returned")
    if not named:
        raise PramanaError("a table of no models: give at least one result of pr.fit")
    return named


def _levels(stars: bool | Sequence[float]) -> tuple[float, ...]:
    """From the largest on, so that each level below a p-value adds a star."""
    if isinstance(stars, bool):
        return LEVELS if stars else ()
    levels = [stars] if isinstance(stars, int | float) else list(stars)
    fine = all(isinstance(level, int | float) and 0 < level < 1 for level in levels)
    if not fine or len(set(levels)) < len(levels) or len(levels) > MOST_STARS:
        raise PramanaError(
            f"stars={stars!r} are no levels: give up to {MOST_STARS} different numbers between 0 and 1, such as (0.05, 0.01)"
        )
    return tuple(sorted(map(float, levels), reverse=True))


def _spans(groups: Mapping[str, Sequence[str]], names: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Headers with the numbers of columns that they span; an empty one above each model without a group."""
    group_of: dict[str, str] = {}
    for header, members in groups.items():
        for name in [members] if isinstance(members, str) else members:
            if name not in names:
                raise PramanaError(f"group {header!r} has no model {name!r} to span: {suggestion(name, names)}")
            if name in group_of:
                raise PramanaError(f"model {name!r} is in the groups {group_of[name]!r} and {header!r}: name it once")
            group_of[name] = header
    spans: list[tuple[str, int]] = []
    for name in names if groups else ():
        header = group_of.get(name, "")
        if spans and header and spans[-1][0] == header:
            spans[-1] = (header, spans[-1][1] + 1)
        else:
            spans.append((header, 1))
    headers = [header for header, _ in spans if header]
    for header in headers:
        if headers.count(header) > 1:
            raise PramanaError(
                f"the models of group {header!r} do not stand side by side: order the models as {listing(group_of, 20)}"
            )
    return tuple(spans)


def _statistics(models: Mapping[str, Model], asked: Sequence[str] | None) -> tuple[str, ...]:
    known = dict.fromkeys(("Outcome", *(name for model in models.values() for name in model.facts)))
    if asked is None:
        several = len({model.outcome for model in models.values()}) > 1
        held = [name for name in FIT if name in known]
        return (*(("Outcome",) if several else ()), "Records", "Method", *held)
    for name in [asked] if isinstance(asked, str) else asked:
        if name not in known:
            raise PramanaError(f"no model has a statistic {name!r}: {suggestion(name, known)}")
    return (asked,) if isinstance(asked, str) else tuple(asked)
