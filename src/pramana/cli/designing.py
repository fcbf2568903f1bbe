"""`pramana design`: its options. What it does is in `design_sheet`, imported when the command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pramana.cli.completion import among, columns
from pramana.cli.output import FormatOption, check_output, say
from pramana.cli.reading import reading
from pramana.errors import PramanaError


@reading("source")
def design(
    column: Annotated[
        str, typer.Argument(metavar="COLUMN", autocompletion=columns, help="The column to be perturbed.")
    ],
    source: Annotated[
        Path | None, typer.Option("--from", help="Confidential file: levels, and frequencies if needed.")
    ] = None,
    keep: Annotated[float | None, typer.Option(help="Probability that a level is released as it is.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy loss; with --keep a ceiling.")] = None,
    invariant: Annotated[bool, typer.Option("--invariant", help="Keep the frequencies in expectation.")] = False,
    construction: Annotated[
        str | None,
        typer.Option(
            autocompletion=among(
                "mixture", "two-stage", "equal-diagonal", "randomized-response", "block-design", "best"
            ),
            help="With --invariant mixture, two-stage or equal-diagonal; with --epsilon randomized-response, block-design or best.",
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
        list[str] | None, typer.Option(metavar="<str>", help="A mark that means missing, such as NA; may be repeated.")
    ] = None,
    levels: Annotated[str | None, typer.Option(help="Levels in their order, as a,b,c.")] = None,
    kind: Annotated[
        str | None,
        typer.Option(autocompletion=among("nominal", "ordinal", "numeric"), help="nominal, ordinal or numeric."),
    ] = None,
    frequencies_file: Annotated[
        Path | None, typer.Option(help="Public table: the column (or 'level') and frequency, share or count.")
    ] = None,
    noise: Annotated[
        str | None,
        typer.Option(
            autocompletion=among("laplace", "geometric", "gaussian", "discrete-gaussian", "uniform"),
            help="For numbers: laplace, geometric, gaussian, discrete-gaussian or uniform noise.",
        ),
    ] = None,
    scale: Annotated[
        float | None, typer.Option(help="Scale of Laplace or geometric noise, in place of --epsilon.")
    ] = None,
    sd: Annotated[float | None, typer.Option(help="Standard deviation of normal noise.")] = None,
    width: Annotated[float | None, typer.Option(help="Width of uniform noise.")] = None,
    rho: Annotated[float | None, typer.Option(help="Privacy loss of normal noise; with --sd a ceiling.")] = None,
    step: Annotated[float | None, typer.Option(help="Grid of geometric and discrete-gaussian noise.")] = None,
    bounds: Annotated[str | None, typer.Option(help="Bounds that true numbers are clamped to, as 18,65.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Design file to write (TOML).")] = None,
    append: Annotated[bool, typer.Option("--append", help="Add the column to an existing design file.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing design file.")] = False,
    style: FormatOption = "text",
) -> None:
    """Design the randomisation of one column, and show what it does."""
    from pramana.cli.design_sheet import kind_of_text, run_design, run_noise_design

    check_output(style, out=out, force=True, inputs=[source, frequencies_file])
    of_noise: dict[str, Any] = {"scale": scale, "sd": sd, "width": width, "rho": rho, "step": step, "bounds": bounds}
    of_levels: dict[str, Any] = {
        "invariant": invariant,
        "construction": construction,
        "band": band,
        "merge_below": merge_below,
        "missing_level": missing_level,
    }
    rest: dict[str, Any] = {
        "levels": levels,
        "kind": kind_of_text(kind),
        "frequencies_file": frequencies_file,
        **of_levels,
    }
    shared: dict[str, Any] = {"keep": keep, "epsilon": epsilon, "missing": tuple(missing or ())}
    files: dict[str, Any] = {"source": source, "out": out, "append": append, "force": force, "style": style}
    _refuse_mixed(noise, rest, of_noise)
    if noise is None:
        shown = run_design(column, **files, **shared, **rest)
    else:
        shown = run_noise_design(column, noise, **files, **shared, **of_noise)
    say(shown)
    if out is not None:
        say(f"wrote {out}", err=True)


def _refuse_mixed(noise: str | None, of_levels: dict[str, Any], of_noise: dict[str, Any]) -> None:
    """Options of noise belong to numbers, the others to levels."""
    wrong = [name for name, value in (of_noise if noise is None else of_levels).items() if value]
    if wrong:
        option = f"--{wrong[0].replace('_', '-')}"
        told = "to noise: add --noise, or" if noise is None else "to columns with levels, which get no noise:"
        raise PramanaError(f"{option} belongs {told} leave out {option}")
