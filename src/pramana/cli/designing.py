"""`pramana design`: its options. What it does is in `design_sheet`, imported when the command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pramana.cli.output import check_output, say
from pramana.cli.reading import reading


@reading("source")
def design(
    column: Annotated[str, typer.Argument(help="The column to be perturbed.")],
    source: Annotated[
        Path | None, typer.Option("--from", help="Confidential file: levels, and frequencies if needed.")
    ] = None,
    keep: Annotated[float | None, typer.Option(help="Probability that a level is released as it is.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy loss; with --keep a ceiling.")] = None,
    invariant: Annotated[bool, typer.Option("--invariant", help="Keep the frequencies in expectation.")] = False,
    construction: Annotated[
        str | None,
        typer.Option(
            help="With --invariant mixture, two-stage or equal-diagonal; with --epsilon randomized-response, block-design or best."
        ),
    ] = None,
    band: Annotated[int | None, typer.Option(help="Moves of at most so many steps on an ordinal scale.")] = None,
    merge_below: Annotated[
        int | None,
        typer.Option(help="Merge values that fewer people hold: with the nearest on a scale, else into other."),
    ] = None,
    missing_level: Annotated[
        str | None, typer.Option(help="A level that stands for a missing value, so that it is perturbed too.")
    ] = None,
    missing: Annotated[
        list[str] | None, typer.Option(help="A mark that means missing, such as NA; may be repeated.")
    ] = None,
    levels: Annotated[str | None, typer.Option(help="Levels in their order, as a,b,c.")] = None,
    kind: Annotated[str | None, typer.Option(help="nominal, ordinal or numeric.")] = None,
    frequencies_file: Annotated[
        Path | None, typer.Option(help="Public table: the column (or 'level') and frequency, share or count.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Design file to write (TOML).")] = None,
    append: Annotated[bool, typer.Option("--append", help="Add the column to an existing design file.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing design file.")] = False,
    style: Annotated[str, typer.Option("--format", "-f", help="text, json, markdown, latex or html.")] = "text",
) -> None:
    """Design the randomisation of one column, and show what it does."""
    from pramana.cli.design_sheet import checked_kind, run_design

    check_output(style, out=out, force=True, inputs=[source, frequencies_file])
    shown = run_design(
        column,
        source=source,
        levels=levels,
        missing=tuple(missing or ()),
        kind=checked_kind(kind),
        frequencies_file=frequencies_file,
        out=out,
        append=append,
        force=force,
        style=style,
        keep=keep,
        epsilon=epsilon,
        invariant=invariant,
        construction=construction,
        band=band,
        merge_below=merge_below,
        missing_level=missing_level,
    )
    say(shown)
    if out is not None:
        say(f"wrote {out}", err=True)
