"""The commands. Each reads its options, calls one public function and prints one table."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from pramana.cli.designing import design
from pramana.cli.fitting import compare, fit, specification
from pramana.cli.output import Force, check_output, say
from pramana.cli.releasing import audit, key, ledger, perturb
from pramana.cli.risking import plan, risk
from pramana.errors import PramanaError, suggestion

app = typer.Typer(
    name="pramana",
    help="Statistics on data whose sensitive columns were randomised before release.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from pramana import __version__

        say(f"pramana {__version__}")
        raise typer.Exit


@app.callback()
def command(
    context: typer.Context,
    _: Annotated[
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="The version, and nothing else.")
    ] = False,
) -> None:
    """Statistics on data whose sensitive columns were randomised before release."""
    # What a command reads it does not replace, whatever its options say.
    from pramana.frames.inputs import guarded

    context.with_resource(guarded())


app.command()(design)
app.command()(perturb)
app.command()(ledger)
app.command()(audit)
app.command()(key)
app.command()(risk)
app.command()(plan)
app.command()(fit)
app.command()(compare)
app.command()(specification)

FormatOption = Annotated[str, typer.Option("--format", "-f", help="text, json, markdown, latex or html.")]


@app.command()
def info(style: FormatOption = "text") -> None:
    """Versions, extras and devices."""
    from pramana.cli.information import information
    from pramana.render import Sheet, render

    rows = information()
    say(render(Sheet(("what", "value"), tuple(rows.items()), "Pramana", data=rows), style))


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the table, the figure and the mechanism.")] = Path(
        "demo-output"
    ),
    style: FormatOption = "text",
    force: Force = False,
) -> None:
    """Wages in the General Social Survey of 2006, with education perturbed: what each estimator makes of them."""
    from pramana.cli.demonstration import run
    from pramana.frames.writing import Folder

    check_output(style)
    for line, prose in run(Folder(out, force), style):
        say(line, err=prose and style != "text")


@app.command()
def study(
    what: Annotated[
        str,
        typer.Argument(
            help="a1, a2, b1, b2, c1 to c6, d1, application, all, or a Python file that defines `scenario`."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for tables, figures and pages.")],
    replicates: Annotated[int, typer.Option(min=2, help="Data sets in each scenario.")] = 2000,
    resamples: Annotated[int, typer.Option(min=20, help="Resamples of each data set.")] = 500,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    device: Annotated[str, typer.Option(help="cpu or gpu (through JAX).")] = "cpu",
    resume: Annotated[bool, typer.Option("--resume", help="Go on from what an interrupted run finished.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the whole study.")] = 1,
    data: Annotated[Path | None, typer.Option(help="Your own file for the application.")] = None,
    force: Force = False,
) -> None:
    """Run the paper's simulation studies, those of published noise, or your own scenario."""
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
    for path in run_studies(what, out, data=data, force=force, **options):  # type: ignore[arg-type]
        say(f"wrote {path}")
