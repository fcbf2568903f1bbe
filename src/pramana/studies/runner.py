"""Running a study: units of work over processes, kept on disk as they finish."""

from __future__ import annotations

import io
import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import reduce
from multiprocessing import get_context
from operator import add
from pathlib import Path

import numpy as np

from pramana.errors import PramanaError
from pramana.frames.documents import read_json
from pramana.frames.writing import make_folder, remove, write_bytes, write_text
from pramana.inference import Resampling
from pramana.studies.simulation import ReplicateEstimates, Study, run_replicates
from pramana.studies.study import study_of
from pramana.studies.summary import StudyResult, combine, summarize

FORMAT = 3
NOTE = "settings.json"
"""The file in which a run says what it was asked for."""
DEVICE_BLOCK = 250
"""Replicates in one unit of work for a device, which solves them all at once."""
_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")


@dataclass(frozen=True)
class RunSettings:
    """Everything that the numbers of a study depend on."""

    source: str
    replicates: int
    resamples: int
    seed: int
    device: str = "cpu"


@dataclass(frozen=True)
class WorkUnit:
    """Some replicates of one scenario."""

    settings: RunSettings
    cell: int
    first: int
    last: int

    def path(self, work: Path) -> Path:
        return work / f"{self.cell:04d}-{self.first:06d}.npz"


def run(
    settings: RunSettings, out: Path, *, workers: int, resume: bool, tell: Callable[[int, int], None]
) -> StudyResult:
    """All units of a study, then its summary.

    Parameters
    ----------
    tell : called with (units done, units in all) as they finish.
    """
    study = study_of(settings.source)
    work = prepared(work_folder(out, study), settings, resume)
    units = units_of(study, settings)
    todo = [unit for unit in units if not unit.path(work).is_file()]
    done = len(units) - len(todo)
    tell(done, len(units))
    for _ in _finished(todo, work, workers):
        done += 1
        tell(done, len(units))
    return gather(study, units, work)


def work_folder(out: Path, study: Study) -> Path:
    """Where finished units are kept."""
    return out / ".work" / study.name


def units_of(study: Study, settings: RunSettings) -> list[WorkUnit]:
    block = study.block if settings.device == "cpu" else max(study.block, DEVICE_BLOCK)
    return [
        WorkUnit(settings, cell, first, min(first + block, settings.replicates))
        for cell in range(len(study.scenarios))
        for first in range(0, settings.replicates, block)
    ]


def prepared(work: Path, settings: RunSettings, resume: bool) -> Path:
    """The folder of finished units, emptied unless they are to be kept; other settings cannot be resumed."""
    make_folder(work)
    note = work / NOTE
    wanted = {"format": FORMAT, **asdict(settings)}
    if resume and note.is_file():
        read = read_json(note, "the note of an earlier run")
        found = read if isinstance(read, dict) else {}
        other = {k: (found.get(k), v) for k, v in wanted.items() if found.get(k) != v}
        if other:
            changed = ", ".join(f"{k} was {a!r} and is now {b!r}" for k, (a, b) in other.items())
            raise PramanaError(
                f"{str(work)!r} holds a run with other settings ({changed}): repeat them, or leave resume=True out"
            )
        return work
    for old in work.glob("*.npz"):
        remove(old)
    write_text(note, json.dumps(wanted), force=True)
    return work


def work_on(unit: WorkUnit, work: Path) -> None:
    """Run one unit and keep its numbers; the file appears complete or not at all."""
    study = study_of(unit.settings.source)
    replicates = _replicates(study, unit)
    flat = {f"{method}|{name}": v for method, numbers in replicates.values.items() for name, v in numbers.items()}
    content = io.BytesIO()
    np.savez(content, parameters=np.array(replicates.parameters), **flat)  # type: ignore[arg-type]
    write_bytes(unit.path(work), content.getvalue(), force=True)


def _replicates(study: Study, unit: WorkUnit) -> ReplicateEstimates:
    scenario, indices, settings = study.scenarios[unit.cell], range(unit.first, unit.last), unit.settings
    if study.replicates is not None:
        return study.replicates(scenario, indices, settings.seed)
    inference = Resampling(draws=settings.resamples) if study.inferred else None
    return run_replicates(
        scenario,
        study.methods,
        indices,
        settings.seed,
        inference=inference,
        inferred=study.inferred,
        device=settings.device,
    )


def finished_unit(path: Path) -> ReplicateEstimates:
    """The numbers of a finished unit."""
    with np.load(path) as file:
        values: dict[str, dict[str, np.ndarray]] = {}
        for key in file.files:
            if key != "parameters":
                method, name = key.split("|")
                values.setdefault(method, {})[name] = file[key]
        return ReplicateEstimates(tuple(str(p) for p in file["parameters"]), values)


def gather(study: Study, units: Sequence[WorkUnit], work: Path) -> StudyResult:
    """Summaries in the order of the scenarios."""
    results = []
    for cell, scenario in enumerate(study.scenarios):
        found = reduce(add, [finished_unit(u.path(work)) for u in units if u.cell == cell])
        own = study.summary
        results.append(
            summarize(scenario, found, study.reference, study.prices) if own is None else own(scenario, found)
        )
    return combine(results)


def _finished(todo: Sequence[WorkUnit], work: Path, workers: int) -> Iterator[None]:
    """Units as they finish. On an interrupt the workers stop after the units they hold, which are kept."""
    if not todo:
        return
    context = get_context("spawn")
    with (
        _inherited(todo[0].settings.device, workers),
        ProcessPoolExecutor(workers, context, initializer=_quiet) as pool,
    ):
        waiting: set[Future[None]] = set()
        queue = iter(todo)
        try:
            while True:
                for unit in queue:
                    waiting.add(pool.submit(work_on, unit, work))
                    if len(waiting) >= 2 * workers:
                        break
                if not waiting:
                    return
                finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in finished:
                    future.result()
                    yield
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _quiet() -> None:
    """Only the parent answers Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _inherited(device: str, workers: int) -> Iterator[None]:
    """The environment of the workers: one thread for matrix products, so that bits do not depend on the number of workers."""
    wanted = dict.fromkeys(_THREADS, "1") | ({} if device == "cpu" else _shared_device(workers))
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _shared_device(workers: int) -> dict[str, str]:
    """Each worker has its share of the device's memory, by which it sizes its launches, and programs that one process compiled are kept for the others and the next run;
    what the user has set stays."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pramana" / "jax"
    usual = {
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": f"{0.9 / workers:.3f}",
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
    }
    return {name: os.environ.get(name, value) for name, value in usual.items()}
