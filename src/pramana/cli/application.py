"""The commands. Each reads its options, calls one public function and prints one table."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from pramana.cli.designing import design
from pramana.cli.releasing import audit, key, perturb
from pramana.cli.risking import plan, risk
from pramana.errors import PramanaError, suggestion

app = typer.Typer(
    name="pramana",
    help="Statistics on data whose sensitive columns were randomised before release.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(design)
app.command()(perturb)
app.command()(audit)
app.command()(key)
app.command()(risk)
app.command()(plan)

Formula = Annotated[str, typer.Argument(help="R-style formula, such as 'income ~ age + edu'.")]
Data = Annotated[Path, typer.Argument(help="Released file: .csv, .csv.gz or .parquet.")]
MechanismOption = Annotated[
    str,
    typer.Option(
        "--mechanism",
        "-m",
        help="Description of the randomisation (JSON); 'auto' finds it with the data; 'none' for clean data.",
    ),
]
FamilyOption = Annotated[
    str, typer.Option(help="gaussian, binomial, poisson, gamma, inverse-gaussian or negative-binomial.")
]
LinkOption = Annotated[str | None, typer.Option(help="Link; the family's usual one by default.")]
DispersionOption = Annotated[float | None, typer.Option(help="Known dispersion of the negative binomial.")]
InferenceOption = Annotated[str | None, typer.Option(help="sandwich or resampling; by default what suits the method.")]
DrawsOption = Annotated[int | None, typer.Option(help="Resamples; 500 by default.")]
SeedOption = Annotated[int | None, typer.Option(help="Seed of the resampling draws (not of any perturbation).")]
CorrectionOption = Annotated[str | None, typer.Option(help="HC1 for a small-sample factor.")]
IntervalOption = Annotated[str | None, typer.Option(help="wald or score (sandwich); percentile or wald (resampling).")]
ColumnOption = Annotated[str | None, typer.Option(help="Name of a column.")]
MissingOption = Annotated[str, typer.Option(help="error or drop.")]
FormatOption = Annotated[str, typer.Option("--format", "-f", help="text, json, markdown, latex or html.")]
FigureOption = Annotated[Path | None, typer.Option("--figure", help="Also write a figure (.png, .svg or .pdf).")]


def _mechanism(value: str) -> str | None:
    return None if value.lower() == "none" else value


def _inference(
    name: str | None, draws: int | None, seed: int | None, correction: str | None, interval: str | None
) -> Any:
    from pramana.inference import Resampling, Sandwich

    if name is None:
        wants_draws = interval == "percentile" or seed is not None or draws is not None
        name = "resampling" if wants_draws else "sandwich" if (correction or interval) else None
    if name is None:
        return None
    if name not in ("sandwich", "resampling"):
        raise PramanaError(f"inference {name!r} is unknown: {suggestion(name, ['sandwich', 'resampling'])}")
    if name == "sandwich":
        return Sandwich(correction=correction, interval=interval or "wald")  # type: ignore[arg-type]
    if correction is not None:
        raise PramanaError(f"--correction {correction} belongs to --inference sandwich: leave out one of the two")
    return Resampling(draws=500 if draws is None else draws, seed=seed, interval=interval or "percentile")  # type: ignore[arg-type]


def _family(family: str, dispersion: float | None) -> Any:
    from pramana.estimating.families import negative_binomial

    if dispersion is None:
        return family
    if family.replace("_", "-") != "negative-binomial":
        raise PramanaError(f"--dispersion belongs to --family negative-binomial, not {family!r}")
    return negative_binomial(dispersion)


def _emit(shown: Any, style: str, figure: Path | None) -> None:
    typer.echo(shown.summary(style))
    if figure is not None:
        save_figure(shown.plot(), figure)
        typer.echo(f"wrote {figure}", err=True)


def check_output(style: str, figure: Path | None = None) -> None:
    """Refuse a wrong format or an impossible figure before any work is done."""
    from pramana.render.tables import FORMATS

    if style not in FORMATS:
        raise PramanaError(f"format {style!r} is unknown: {suggestion(style, FORMATS)}")
    if figure is not None and figure.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise PramanaError(f"figure {str(figure)!r} has an unknown ending: use .png, .svg or .pdf")
    if figure is not None and not figure.parent.is_dir():
        raise PramanaError(f"folder {str(figure.parent)!r} of the figure does not exist: create it first")


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure."""
    figure.savefig(path, dpi=150)


@app.command()
def fit(
    formula: Formula,
    data: Data,
    mechanism: MechanismOption = "auto",
    family: FamilyOption = "gaussian",
    link: LinkOption = None,
    dispersion: DispersionOption = None,
    method: Annotated[
        str, typer.Option(help="reversion, naive, model1, model2, likelihood, forward, backward.")
    ] = "reversion",
    inference: InferenceOption = None,
    draws: DrawsOption = None,
    seed: SeedOption = None,
    correction: CorrectionOption = None,
    interval: IntervalOption = None,
    weights: ColumnOption = None,
    frequencies: ColumnOption = None,
    clusters: ColumnOption = None,
    missing: MissingOption = "error",
    exponentiate: Annotated[bool, typer.Option("--exponentiate", help="Show ratios instead of log ratios.")] = False,
    privacy: Annotated[bool, typer.Option("--privacy", help="Also show the price of privacy.")] = False,
    style: FormatOption = "text",
    figure: FigureOption = None,
) -> None:
    """Estimate a regression from a released file."""
    from pramana.pipeline import fit as fit_model

    check_output(style, figure)
    result = fit_model(
        formula,
        data,
        _mechanism(mechanism),
        family=_family(family, dispersion),
        link=link,
        method=method,
        inference=_inference(inference, draws, seed, correction, interval),
        weights=weights,
        frequencies=frequencies,
        clusters=clusters,
        missing=missing,  # type: ignore[arg-type]
    )
    price = _privacy_table(result, style) if privacy else ""
    typer.echo(result.summary(style, exponentiate=exponentiate))
    if privacy and style != "json":
        typer.echo("\n" + price)
    if figure is not None:
        save_figure(result.plot(), figure)
        typer.echo(f"wrote {figure}", err=True)


def _privacy_table(result: Any, style: str) -> str:
    from pramana.render import Sheet, render

    rows = result.to_dict().get("price_of_privacy")
    if rows is None:
        result.price_of_privacy()
    return render(Sheet(tuple(rows[0]), tuple(tuple(r.values()) for r in rows), "Price of privacy"), style)


@app.command()
def compare(
    formula: Formula,
    data: Data,
    mechanism: MechanismOption = "auto",
    truth: Annotated[Path | None, typer.Option(help="The unperturbed file, for the oracle.")] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Repeat for several: reversion, naive, model1, model2, likelihood.")
    ] = None,
    family: FamilyOption = "gaussian",
    link: LinkOption = None,
    dispersion: DispersionOption = None,
    inference: InferenceOption = None,
    draws: DrawsOption = None,
    seed: SeedOption = None,
    weights: ColumnOption = None,
    frequencies: ColumnOption = None,
    clusters: ColumnOption = None,
    missing: MissingOption = "error",
    style: FormatOption = "text",
    figure: FigureOption = None,
) -> None:
    """Fit several estimators to a released file, side by side."""
    from pramana.pipeline import compare as compare_methods

    check_output(style, figure)
    comparison = compare_methods(
        formula,
        data,
        _mechanism(mechanism),
        tuple(method or ("reversion", "naive")),
        truth=truth,
        family=_family(family, dispersion),
        link=link,
        inference=_inference(inference, draws, seed, None, None),
        weights=weights,
        frequencies=frequencies,
        clusters=clusters,
        missing=missing,
    )
    _emit(comparison, style, figure)


@app.command()
def info(style: FormatOption = "text") -> None:
    """Versions, extras and devices."""
    from pramana.cli.information import information
    from pramana.render import Sheet, render

    rows = information()
    typer.echo(render(Sheet(("what", "value"), tuple(rows.items()), "Pramana", data=rows), style))


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the table, the figure and the mechanism.")] = Path(
        "demo-output"
    ),
    style: FormatOption = "text",
) -> None:
    """Wages in the General Social Survey of 2006, with education perturbed: what each estimator makes of them."""
    from pramana.cli.demonstration import run

    check_output(style)
    for line in run(out, style):
        typer.echo(line)


@app.command()
def study(
    what: Annotated[
        str, typer.Argument(help="a1, a2, b1, b2, application, all, or a Python file that defines `scenario`.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for tables, figures and pages.")],
    replicates: Annotated[int, typer.Option(min=2, help="Data sets in each scenario.")] = 2000,
    resamples: Annotated[int, typer.Option(min=20, help="Resamples of each data set.")] = 500,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    device: Annotated[str, typer.Option(help="cpu or gpu (through JAX).")] = "cpu",
    resume: Annotated[bool, typer.Option("--resume", help="Go on from what an interrupted run finished.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the whole study.")] = 1,
    data: Annotated[Path | None, typer.Option(help="Your own file for the application.")] = None,
) -> None:
    """Run the paper's simulation studies, or your own scenario."""
    # One thread for matrix products, set before NumPy is loaded: the arrays are small, and workers share the cores.
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    from pramana.cli.studies import run_studies

    if device not in ("cpu", "gpu"):
        raise PramanaError(f"device {device!r} is unknown: {suggestion(device, ['cpu', 'gpu'])}")
    options = {
        "replicates": replicates,
        "resamples": resamples,
        "workers": workers,
        "device": device,
        "resume": resume,
        "seed": seed,
    }
    for path in run_studies(what, out, data=data, **options):  # type: ignore[arg-type]
        typer.echo(f"wrote {path}")
