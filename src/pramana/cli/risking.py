"""`pramana risk` and `pramana plan`: their options. What they do is imported when they run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from pramana.cli.choices import FAMILIES, MemoryOption, names
from pramana.cli.completion import among, columns, parameters
from pramana.cli.output import Force, FormatOption, ReportOption, check_output, save_figure, save_report, say
from pramana.cli.reading import reading
from pramana.errors import PramanaError
from pramana.progress import bar

Confidential = Annotated[
    Path,
    typer.Argument(
        metavar="DATA", help="Confidential file: .csv, .tsv (or .gz of these) or .parquet; a folder or pattern."
    ),
]
KeysOption = Annotated[
    str | None, typer.Option(autocompletion=columns, help="Columns by which a person can be known, as sex,age.")
]
AnalysisOption = Annotated[
    list[str] | None,
    typer.Option(autocompletion=parameters, metavar="<str>", help="Formula or parameter by name; repeat for several."),
]
FamilyOption = Annotated[
    str | None, typer.Option(autocompletion=FAMILIES, help="Family of the formulas; gaussian by default.")
]
WeightsOption = Annotated[
    str | None, typer.Option(autocompletion=columns, help="Column of sampling weights of the analyses.")
]
MissingOption = Annotated[str, typer.Option(help="error, or drop records with missing values.")]
DESIGN = "Description (JSON) or design (TOML) of the randomisation."
SimulateOption = Annotated[
    int | None,
    typer.Option(
        help="Releases to simulate for each design; 0 for none; by default 400 (200 for a figure), fewer of a large file."
    ),
]
SeedOption = Annotated[int, typer.Option(help="Seed of the simulated releases.")]
KindOption = Annotated[
    str | None,
    typer.Option(
        autocompletion=among("nominal", "ordinal", "numeric"),
        help="nominal, ordinal or numeric: what the column's levels are.",
    ),
]


@reading("data", "released")
def risk(
    data: Confidential,
    mechanism: Annotated[Path, typer.Option("--mechanism", "-m", help=DESIGN)],
    keys: KeysOption = None,
    analysis: AnalysisOption = None,
    family: FamilyOption = None,
    weights: WeightsOption = None,
    released: Annotated[Path | None, typer.Option(help="The released file, to add what the draws made of it.")] = None,
    link: Annotated[Path | None, typer.Option(help="Link file of a shuffled or re-keyed release.")] = None,
    ledger: Annotated[Path | None, typer.Option(help="Ledger of earlier releases.")] = None,
    dataset: Annotated[str | None, typer.Option(help="The records' name in the ledger.")] = None,
    missing: Annotated[
        str, typer.Option(help="keep, as the release does; error; drop: weigh a release of the complete records alone.")
    ] = "keep",
    memory: MemoryOption = None,
    style: FormatOption = "text",
    figure: Annotated[
        Path | None, typer.Option("--figure", help="Also draw risk against utility (.png, .svg or .pdf).")
    ] = None,
    report: ReportOption = None,
    simulate: SimulateOption = None,
    seed: SeedOption = 1,
    force: Force = False,
) -> None:
    """Weigh what an attacker gains from a release against what an analyst loses."""
    from pramana.analysis.question import questions
    from pramana.disclosure.planning.risk_utility import frontier
    from pramana.disclosure.risk.assessment import risk as assess

    check_output(style, figure, report=report, force=force, inputs=[data, released, ledger])
    named, plans = names(keys), questions(analysis, family)
    options: dict[str, Any] = {"keys": named, "weights": weights, "missing": missing}
    with bar(f"Weighing {data.name}") as tell:
        found = assess(
            data,
            mechanism,
            analyses=plans,
            released=released,
            link=link,
            ledger=ledger,
            dataset=dataset,
            memory=memory,
            tell=tell,
            **options,
        )
    say(found.summary(style))
    if figure is not None or report is not None:
        perturbed = [name for column in found.columns for name in column.columns]
        options |= {"simulate": simulate, "seed": seed}
        drawn, without = None, ""
        with bar("Drawing risk against utility") as tell:
            try:
                drawn = frontier(data, perturbed, analysis=plans, chosen=mechanism, tell=tell, **options).plot()
            except PramanaError as error:  # a report has its tables all the same
                if figure is not None:
                    raise
                without = str(error)
        save_figure(lambda: drawn, figure, force=force)
        save_report(found.report, report, force=force, figure=drawn, without=without)


@reading("data")
def plan(
    data: Confidential,
    column: Annotated[
        str, typer.Argument(metavar="COLUMN", autocompletion=columns, help="The column to be perturbed.")
    ],
    analysis: AnalysisOption = None,
    family: FamilyOption = None,
    weights: WeightsOption = None,
    se: Annotated[
        list[str] | None, typer.Option(metavar="<str>", help="Largest standard error: edu=0.05, or 0.05 for all.")
    ] = None,
    effect: Annotated[list[str] | None, typer.Option(metavar="<str>", help="Effect to be found: edu=0.2.")] = None,
    power: Annotated[float, typer.Option(help="Probability of finding the effect.")] = 0.8,
    alpha: Annotated[float, typer.Option(help="Level of the two-sided test.")] = 0.05,
    n: Annotated[int | None, typer.Option("--n", help="Records of the release; those of the file by default.")] = None,
    optimal: Annotated[bool, typer.Option("--optimal", help="Look for the best matrix under a constraint.")] = False,
    epsilon: Annotated[float | None, typer.Option(help="With --optimal: largest privacy loss.")] = None,
    odds: Annotated[float | None, typer.Option(help="With --optimal: largest posterior odds of a level.")] = None,
    reidentification: Annotated[
        float | None, typer.Option(help="With --optimal and --keys: largest expected rate of correct links.")
    ] = None,
    keys: KeysOption = None,
    importance: Annotated[
        list[str] | None, typer.Option(metavar="<str>", help="With --optimal: importance of a term, edu=2.")
    ] = None,
    starts: Annotated[
        int | None, typer.Option(help="With --optimal: runs of the solver; 24, or 8 for many levels, by default.")
    ] = None,
    floor: Annotated[
        float | None, typer.Option(help="With --optimal: smallest chance of any move; 0 by default.")
    ] = None,
    mechanism: Annotated[Path | None, typer.Option("--mechanism", "-m", help=f"Of the other columns. {DESIGN}")] = None,
    kind: KindOption = None,
    missing: MissingOption = "error",
    simulate: SimulateOption = None,
    seed: SeedOption = 1,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Mechanism file to write (JSON).")] = None,
    force: Force = False,
    style: FormatOption = "text",
) -> None:
    """Find the keep probability that a precision needs, or the matrix that costs analysts least."""
    from pramana.analysis.question import questions

    check_output(style, out=out, force=force, inputs=[data])
    _refuse_mixed(optimal, bool(se or effect), [epsilon, odds, reidentification, importance, floor])
    if optimal and mechanism is not None:
        raise PramanaError(
            "--mechanism belongs to --se and --effect: an optimal matrix is of one perturbed column alone"
        )
    plans = questions(analysis, family)
    shared: dict[str, Any] = {"weights": weights, "kind": kind, "missing": missing}
    found: Any
    if optimal:
        from pramana.disclosure.planning.optimal_matrix import optimal_design

        limits: dict[str, Any] = {"epsilon": epsilon, "odds": odds, "reidentification": reidentification}
        limits |= {"keys": names(keys), "starts": starts, "floor": floor or 0.0}
        limits["importance"] = None if importance is None else _by_term(importance, "--importance")
        with bar(f"Looking for the best design of {column}"):
            found = optimal_design(plans or _shares(column), data, column, **limits, **shared)
    else:
        from pramana.disclosure.planning.keep_probability import plan as make_plan

        if len(plans) > 1:
            raise PramanaError(f"{len(plans)} analyses: a plan takes one --analysis; --optimal takes several")
        targets: dict[str, Any] = {"se": _errors(se), "effect": _by_term(effect, "--effect") if effect else None}
        options: dict[str, Any] = {"power": power, "alpha": alpha, "n": n, "mechanism": mechanism}
        options |= {"simulate": simulate, "seed": seed}
        with bar(f"Planning {column}") as tell:
            found = make_plan(data, column, plans[0] if plans else None, tell=tell, **targets, **options, **shared)
    say(found.summary(style))
    if out is not None:
        from pramana.mechanism.description.document import save

        save(found.mechanism, out, force=force)
        say(f"wrote {out}", err=True)


def _refuse_mixed(optimal: bool, precise: bool, limits: Sequence[object]) -> None:
    if optimal and precise:
        raise PramanaError(
            "--se and --effect ask for a keep probability, --optimal for a matrix: leave out one of the two"
        )
    if not optimal and any(v is not None for v in limits):
        raise PramanaError(
            "--epsilon, --odds, --reidentification, --importance and --floor belong to --optimal: add it"
        )
    if not optimal and not precise:
        raise PramanaError("say what is asked for: --se edu=0.05, --effect edu=0.2, or --optimal with a constraint")


def _shares(column: str) -> list[Any]:
    from pramana.parameters.means import proportions

    return [proportions(column)]


def _errors(given: list[str] | None) -> Any:
    """One number for all terms, or numbers by term."""
    if given is None:
        return None
    if len(given) == 1 and "=" not in given[0]:
        return _number(given[0], "--se")
    return _by_term(given, "--se")


def _by_term(given: list[str], option: str) -> dict[str, float]:
    parts = [text.rpartition("=") for text in given]
    wrong = [text for text, (name, _, _) in zip(given, parts, strict=True) if not name]
    if wrong:
        raise PramanaError(f"{option} {wrong[0]!r} must name a term and a number, such as edu=0.05")
    return {name: _number(value, option) for name, _, value in parts}


def _number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise PramanaError(f"{option} {text!r} is not a number: write edu=0.05") from None
