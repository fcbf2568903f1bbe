"""The commands. Each reads its options, calls one public function and prints one table."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from pramana.cli.choices import DeviceOption
from pramana.cli.completion import among
from pramana.cli.designing import design
from pramana.cli.fitting import compare, fit, specification
from pramana.cli.output import Force, FormatOption, ReportOption, check_output, say
from pramana.cli.releasing import audit, key, ledger, perturb
from pramana.cli.risking import plan, risk
from pramana.cli.speech import speak_for
from pramana.cli.tabling import table
from pramana.errors import PramanaError, suggestion

app = typer.Typer(
    name="pramana",
    help="Statistics on data whose sensitive columns were randomised before release.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from pramana import __version__

        say(f"pramana {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def command(
    context: typer.Context,
    _: Annotated[
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="The version, and nothing else.")
    ] = False,
) -> None:
    """Statistics on data whose sensitive columns were randomised before release."""
    if context.invoked_subcommand is None:
        say(context.get_help())
        raise typer.Exit
    chosen = context.command.commands[context.invoked_subcommand]  # type: ignore[attr-defined]
    speak_for(option for parameter in chosen.params for option in parameter.opts)
    # What a command reads it does not replace, whatever its options say.
    from pramana.frames.inputs import guarded

    context.with_resource(guarded())


app.command(short_help="Design the randomisation of a column.")(design)
app.command(short_help="Perturb and publish a file.")(perturb)
app.command(short_help="What was released so far.")(ledger)
app.command(short_help="Check a released file.")(audit)
app.command(short_help="Make a secret key.")(key)
app.command(short_help="Disclosure risk against utility.")(risk)
app.command(short_help="How much noise to add.")(plan)
app.command(short_help="Estimate from a released file.")(fit)
app.command(short_help="Several estimators side by side.")(compare)
app.command(short_help="Test the likelihood's model.")(specification)
app.command(short_help="Several models in one table.")(table)


@app.command()
def info(style: FormatOption = "text") -> None:
    """Versions, extras and devices."""
    from pramana.cli.information import information
    from pramana.render import Sheet, render

    rows = information()
    say(render(Sheet(("what", "value"), tuple(rows.items()), "Pramana", data=rows), style))


@app.command(short_help="A worked example, wages of 2006.")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the table, the figure and the mechanism.")] = Path(
        "demo-output"
    ),
    style: FormatOption = "text",
    force: Force = False,
) -> None:
    """Wages in the General Social Survey of 2006, with education perturbed: what each estimator makes of them."""
    from pramana.cli.demonstration import run_demonstration
    from pramana.frames.writing import Folder

    check_output(style)
    for line, prose in run_demonstration(Folder(out, force), style):
        say(line, err=prose and style != "text")


def _studies(incomplete: str) -> list[str]:
    from pramana.studies.study import STUDIES

    return among(*STUDIES, "application", "all")(incomplete)


@app.command(short_help="Run simulation studies.")
def study(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            autocompletion=_studies,
            help="a1, a2, b1, b2, c1 to c6, d1, d2, application, all, or a Python file that defines `scenario`.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for tables, figures and pages.")],
    replicates: Annotated[int, typer.Option(min=2, help="Data sets in each scenario.")] = 2000,
    resamples: Annotated[int, typer.Option(min=20, help="Resamples of each data set.")] = 500,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    device: DeviceOption = "cpu",
    resume: Annotated[bool, typer.Option("--resume", help="Go on from what an interrupted run finished.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the whole study.")] = 1,
    data: Annotated[Path | None, typer.Option(help="Your own file for the application.")] = None,
    report: ReportOption = None,
    force: Force = False,
) -> None:
    """Run the paper's simulation studies, those of published noise, or your own scenario."""
    # One thread for matrix products, set before NumPy is loaded: the arrays are small, and workers share the cores.
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    from pramana.cli.studies import run_studies

    if device not in ("cpu", "gpu"):
        raise PramanaError(f"device {device!r} is unknown: {suggestion(device, ['cpu', 'gpu'])}")
    if report is not None and what == "all":
        raise PramanaError("--report is of one study, and 'all' are several, each with a page in --out: name one")
    check_output("text", report=report, force=force, inputs=[data])
    options = {
        "replicates": replicates,
        "resamples": resamples,
        "workers": workers,
        "device": device,
        "resume": resume,
        "seed": seed,
    }
    for path in run_studies(what, out, data=data, report=report, force=force, **options):  # type: ignore[arg-type]
        say(f"wrote {path}")
