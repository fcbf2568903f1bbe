"""`pramana perturb`, `pramana ledger`, `pramana audit` and `pramana key`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pramana.cli.completion import among, columns
from pramana.cli.output import FormatOption, check_output, say, warnings_in_a_line
from pramana.cli.reading import reading
from pramana.errors import PramanaError, counted
from pramana.progress import bar


@reading("source")
def perturb(
    source: Annotated[
        list[Path],
        typer.Argument(
            metavar="IN... OUT",
            help="Confidential file: .csv, .tsv (or .gz of these) or .parquet; a folder or several of them. Then, without --to, what "
            "to publish: a file of the same format (.parquet also from CSV), or a folder.",
        ),
    ],
    to: Annotated[
        Path | None, typer.Option("--to", help="File to publish, or folder for several; in place of OUT.")
    ] = None,
    mechanism: Annotated[Path | None, typer.Option("--mechanism", "-m", help="Mechanism (JSON).")] = None,
    design: Annotated[Path | None, typer.Option("--design", "-d", help="Design (TOML).")] = None,
    key_file: Annotated[Path | None, typer.Option(help="Secret key for draws that repeat; see `pramana key`.")] = None,
    id_column: Annotated[
        str | None, typer.Option(autocompletion=columns, help="With a key: the column that identifies the records.")
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(autocompletion=columns, help="Column that identifies persons: their records share one draw."),
    ] = None,
    unit_varies: Annotated[
        bool, typer.Option("--unit-varies", help="True values may differ within a unit: no finite epsilon holds.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="For tests only: repeatable and therefore insecure.")] = None,
    drop: Annotated[str | None, typer.Option(autocompletion=columns, help="Columns to leave out, as a,b.")] = None,
    shuffle: Annotated[bool, typer.Option("--shuffle", help="Put the records into a random order.")] = False,
    new_id: Annotated[
        str | None,
        typer.Option(autocompletion=columns, help="Column of new random identifiers, in place of old ones."),
    ] = None,
    link: Annotated[
        Path | None, typer.Option(help="Your own file (.parquet, .csv) that links released to original records.")
    ] = None,
    missing: Annotated[
        list[str] | None, typer.Option(metavar="<str>", help="A mark that means missing, such as NA; may be repeated.")
    ] = None,
    missing_level: Annotated[str | None, typer.Option(help="The level that stands for a missing value.")] = None,
    merge_below: Annotated[int | None, typer.Option(help="With a design: merge values that fewer people hold.")] = None,
    ledger: Annotated[Path | None, typer.Option(help="Your own file of releases, never to be published.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Name of the records in the ledger.")] = None,
    policy: Annotated[Path | None, typer.Option(help="Your agency's rules (TOML).")] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            autocompletion=among("identity", "seed", "second-draw", "unperturbed", "shared-key", "rare-levels"),
            metavar="<str>",
            help="identity, seed, second-draw, unperturbed, shared-key or rare-levels: refused otherwise; repeatable.",
        ),
    ] = None,
    override: Annotated[str | None, typer.Option(help="Why the policy is not followed; goes into the ledger.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing OUT.")] = False,
    card: Annotated[bool, typer.Option("--card", help="Also write a page about the release.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Processes, for the files of a folder.")] = None,
) -> None:
    """Perturb a confidential file, or a folder of them, and publish it with its description."""
    from pramana.cli.choices import names
    from pramana.disclosure.release.releasing import release

    known = _mechanism(mechanism, design)
    given, target = _in_and_out(source, to)
    with warnings_in_a_line(), bar(f"Perturbing {_titled(given)}") as tell:
        made = release(
            given,
            target,
            known,
            key=key_file,
            id=id_column,
            unit=_unit(unit, unit_varies),
            seed=seed,
            drop=names(drop),
            shuffle=shuffle,
            new_id=new_id,
            link=link,
            missing=missing or (),
            missing_level=missing_level,
            merge_below=merge_below,
            force=force,
            card=card,
            ledger=ledger,
            dataset=dataset,
            policy=policy,
            allow=allow or (),
            override=override,
            jobs=jobs,
            tell=tell,
        )
    told = f"epsilon {made.epsilon:.4g} a {unit or 'record'}{made.condition}"
    many = f" in {counted(len(made.files), 'file')}" if made.files else ""
    say(f"{made.rows} records{many}, {made.randomness} draws, {told}")
    for column, count in made.missing.items():
        say(f"{column}: missing in {count} records, which is published as it is")
    for balance in made.budget:
        say(f"budget left: {balance}")
    for path in (made.path, made.description, *made.cards, *([made.link] if made.link else [])):
        say(f"wrote {path}")


def _in_and_out(paths: list[Any], to: Path | None) -> tuple[Any, Path]:
    """What is perturbed, and what is written: the last of the paths, unless `to` says it."""
    from pramana.errors import DataError
    from pramana.frames.files import format_of

    if to is None and len(paths) < 2:
        raise PramanaError("say what to write: pramana perturb IN OUT, or pramana perturb IN... --to OUT")
    given, target = (paths[:-1], Path(paths[-1])) if to is None else (paths, to)
    if len(given) > 1 or not Path(given[0]).is_file():
        return (given if len(given) > 1 else given[0]), target
    try:
        format_of(target)
    except DataError:  # no name of a data file: a folder for one
        return (given if to is not None else given[0]), target
    return given[0], target


def _titled(given: Any) -> str:
    return f"{len(given)} files" if isinstance(given, list) else str(Path(given).name)


def ledger(
    path: Annotated[Path, typer.Argument(metavar="LEDGER", help="Your own file of releases.")],
    policy: Annotated[
        Path | None, typer.Option(help="Your agency's rules (TOML): shows what is left of its budgets.")
    ] = None,
    style: FormatOption = "text",
) -> None:
    """Show what was released so far, by data set and column, and the epsilon that it adds up to."""
    from pramana.disclosure.release.accounting import account

    check_output(style)
    say(account(path, policy).summary(style))


@reading("original")
def audit(
    released: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            help="Released file: .csv, .tsv (or .gz of these) or .parquet; or a folder of them, or a pattern.",
        ),
    ],
    original: Annotated[
        Path | None, typer.Option(help="The confidential file or folder, for tests against the truth.")
    ] = None,
    link: Annotated[Path | None, typer.Option(help="With --original: your link file, where rows were moved.")] = None,
    ledger: Annotated[Path | None, typer.Option(help="Your own file of releases.")] = None,
    epsilon_limit: Annotated[float, typer.Option(help="Warn of a record's epsilon above it.")] = 10.0,
    style: FormatOption = "text",
) -> None:
    """Check a released file against its description. Exit code 1 when something is wrong."""
    from pramana.disclosure.audit.auditing import audit as audited

    check_output(style)
    with bar(f"Auditing {released.name}"):
        found = audited(released, original=original, link=link, ledger=ledger, epsilon_limit=epsilon_limit)
    say(found.summary(style))
    if not found.clean:
        raise typer.Exit(1)


def key(path: Annotated[Path, typer.Argument(metavar="PATH", help="File to write; it must not exist.")]) -> None:
    """Make a secret key for draws that repeat from release to release."""
    from pramana.mechanism.draws.keyed import Key

    Key.create(path)
    say(f"wrote {path}: keep it secret, and keep it")


def _unit(column: str | None, varies: bool) -> Any:
    from pramana.mechanism import Unit

    if column is None and varies:
        raise PramanaError("--unit-varies says how values vary within a unit: give --unit too")
    return None if column is None else Unit(column, varies)


def _mechanism(mechanism: Path | None, design: Path | None) -> Any:
    if (mechanism is None) == (design is None):
        raise PramanaError("give either --mechanism (JSON) or --design (TOML)")
    if mechanism is not None:
        return mechanism
    from pramana.mechanism.designs.design_file import Design

    assert design is not None
    return Design.asked(design)
