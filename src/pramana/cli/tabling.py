"""`pramana table`: results that `pramana fit -f json` wrote, side by side."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from pramana.cli.choices import names
from pramana.cli.completion import among
from pramana.cli.output import FORMATS, Force, say
from pramana.errors import PramanaError, listing, suggestion

Several = list[str] | None


def table(
    results: Annotated[
        list[Path],
        typer.Argument(metavar="RESULT.json...", help="What `pramana fit` or `pramana compare` printed with -f json."),
    ],
    name: Annotated[
        str | None,
        typer.Option("--names", help="Headers of the models, divided by commas; those of the files by default."),
    ] = None,
    labels: Annotated[
        Several,
        typer.Option(
            "--label",
            "--labels",
            metavar="<str>",
            help="Shown for a term, as 'edu[T.high]=Higher education'; repeat it.",
        ),
    ] = None,
    stars: Annotated[
        str | None,
        typer.Option(help="Levels of one star, two and so on, as 0.05,0.01,0.001; no stars by default."),
    ] = None,
    digits: Annotated[int, typer.Option(help="Decimals.")] = 3,
    exponentiate: Annotated[bool, typer.Option("--exponentiate", help="Ratios in place of their logarithms.")] = False,
    below: Annotated[
        str,
        typer.Option(
            autocompletion=among("std_error", "interval", "statistic", "p_value", "nothing"),
            help="Under an estimate: std_error, interval, statistic, p_value or nothing.",
        ),
    ] = "std_error",
    groups: Annotated[
        Several,
        typer.Option(
            "--group", "--groups", metavar="<str>", help="A header over several models, as 'Wages=a,b'; repeat it."
        ),
    ] = None,
    terms: Annotated[
        Several,
        typer.Option(
            "--term", "--terms", metavar="<str>", help="A term to show, in this order; repeat it. All by default."
        ),
    ] = None,
    statistics: Annotated[
        str | None, typer.Option(help="Rows below the terms, as Records,Method,'Standard errors',Family.")
    ] = None,
    title: Annotated[str, typer.Option(help="Above the table.")] = "",
    notes: Annotated[
        Several, typer.Option("--note", "--notes", metavar="<str>", help="A sentence below the table; repeat it.")
    ] = None,
    style: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            autocompletion=FORMATS,
            help="text (default), markdown, latex, html, csv or json.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A file in place of the screen: .txt, .md, .tex, .html, .csv or .json."),
    ] = None,
    force: Force = False,
) -> None:
    """Several fitted models in one table, for the screen or for a paper."""
    from pramana.frames.writing import check_target
    from pramana.model_table import STYLES, of_models, style_of

    if style is not None and style not in STYLES:
        raise PramanaError(f"format {style!r} is unknown: {suggestion(style, STYLES)}")
    if out is not None:
        if style is not None and style_of(out) != style:
            raise PramanaError(f"--format {style} does not go with --out {out.name}: leave it out, or rename the file")
        check_target(out, force=force)
    models = _named(_models(results, exponentiate), names(name))
    known = dict.fromkeys(term for model in models.values() for term in model.rows)
    made = of_models(
        models,
        labels=_labels(labels or (), known),
        stars=_levels(stars),
        digits=digits,
        below=below,  # type: ignore[arg-type]
        groups={header: names(members) for header, members in map(_header, groups or ())},
        terms=terms,
        statistics=None if statistics is None else names(statistics),
        title=title,
        notes=notes or (),
    )
    if out is None:
        say(made.summary(style or "text"))
        return
    made.save(out, force=force)
    say(f"wrote {out}", err=True)


def _models(paths: Sequence[Path], exponentiate: bool) -> list[tuple[str, Any]]:
    """The models of all files with the names that they have there: that of the file, or of the estimator within a comparison."""
    from pramana.frames.documents import read_json
    from pramana.model_table import Model

    found: list[tuple[str, Any]] = []
    for path in paths:
        document = read_json(path, "result file")
        for name, part in _results(document, path.stem):
            told = repr(str(path)) if name == path.stem else f"{name!r} in {str(path)!r}"
            found.append((name, Model.from_document(part, told, exponentiate=exponentiate)))
    return found


def _results(document: Any, stem: str) -> list[tuple[str, Any]]:
    """One result, or those of a comparison by their labels."""
    if not isinstance(document, Mapping) or "coefficients" in document:
        return [(stem, document)]
    parts = [(str(k), v) for k, v in document.items() if isinstance(v, Mapping) and "coefficients" in v]
    return parts or [(stem, document)]


def _named(found: Sequence[tuple[str, Any]], given: Sequence[str]) -> dict[str, Any]:
    heads = list(given) or [name for name, _ in found]
    if len(heads) != len(found):
        raise PramanaError(f"--names has {len(heads)} names, and there are {len(found)} models: name each of them")
    twice = [head for head in dict.fromkeys(heads) if heads.count(head) > 1]
    if twice:
        raise PramanaError(f"several models have the name {listing(twice)}: tell them apart with --names")
    return dict(zip(heads, (model for _, model in found), strict=True))


def _labels(given: Sequence[str], known: Collection[str]) -> dict[str, str]:
    """Labels by term. Names of terms hold "=" themselves, so the longest known one that it follows is meant."""
    found = {}
    for text in given:
        held = [term for term in known if text.startswith(f"{term}=")]
        if not held:
            term = text.partition("=")[0]
            raise PramanaError(f"--label {text!r} names no term of the models: {suggestion(term, known)}")
        term = max(held, key=len)
        found[term] = text[len(term) + 1 :]
    return found


def _header(text: str) -> tuple[str, str]:
    header, mark, members = text.partition("=")
    if not mark or not names(members):
        raise PramanaError(f"--group {text!r} names no models: write it as 'Wages=a,b'")
    return header.strip(), members


def _levels(text: str | None) -> list[float]:
    try:
        return [float(level) for level in names(text)]
    except ValueError:
        raise PramanaError(f"--stars {text!r} are no levels: write them as 0.05,0.01,0.001") from None
