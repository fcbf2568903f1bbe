"""Whole fits of a million records beside the fastest programs for clean data, and small fits; `make bench` writes IN_MEMORY.md."""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
LEVELS, KEEP = ("a", "b", "c", "d", "e"), 0.8
NUMBERS = tuple(f"x{k}" for k in range(1, 11))
COLUMNS = len(NUMBERS) + len(LEVELS)
"""Columns of the clean design: an intercept, the numbers, and a dummy for every level but the first."""
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS")
ROUNDS, REPEATS, SMALL_REPEATS = 2, 3, 100


RIVALS = {
    "pyfixest": ("pyfixest_feglm", "fitting"),
    "glum": ("glum_fit", "fitting"),
    "glum by formula": ("glum_fit", "fitting_by_formula"),
    "statsmodels": ("statsmodels_logit", "fitting"),
}
"""The module and function of each program for clean data, imported in a process of its own."""


@dataclass(frozen=True)
class Case:
    """A regression with one perturbed column, the programs for clean data beside it, and how much longer than the first it may take."""

    name: str
    formula: str
    perturbed: str
    rivals: tuple[str, ...] = ()
    limit: float = np.inf


LARGE = (
    Case(
        "perturbed covariate",
        f"y ~ {' + '.join(NUMBERS)} + C(g)",
        "g",
        ("pyfixest", "statsmodels"),
        1.5,
    ),
    Case(
        "perturbed response",
        f"y ~ {' + '.join(NUMBERS)}",
        "y",
        ("glum", "glum by formula", "pyfixest", "statsmodels"),
        1.0,
    ),
)
SMALL = (
    Case("perturbed covariate", "y ~ x1 + g", "g"),
    Case("perturbed covariate", "y ~ x1 + C(g)", "g"),
    Case("perturbed response", "y ~ x1 + x2", "y"),
    Case("perturbed response, a score interval for x9", "y ~ x1 + x9 + x10", "y"),
    Case("perturbed response, score intervals for some of ten", f"y ~ {' + '.join(NUMBERS)}", "y"),
)
CASES = {case.formula: case for case in SMALL + LARGE}
MEMORY_LIMIT = 3.0


def clean_file(n: int) -> pd.DataFrame:
    """Ten numbers, a text column of five levels and a response of zeros and ones."""
    rng = np.random.default_rng(9)
    x, g = rng.normal(size=(len(NUMBERS), n)), rng.integers(0, len(LEVELS), n)
    eta = np.linspace(-0.4, 0.5, len(NUMBERS)) @ x + np.linspace(-0.5, 0.7, len(LEVELS))[g]
    y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(np.int64)
    return pd.DataFrame(dict(zip(NUMBERS, x, strict=True)) | {"g": np.array(LEVELS)[g], "y": y})


def released(clean: pd.DataFrame, column: str) -> pd.DataFrame:
    """The clean file with one column passed through K-ary randomised response."""
    levels = np.array(LEVELS) if column == "g" else np.array([0, 1])
    rng = np.random.default_rng(10)
    lies = levels[rng.integers(0, len(levels), len(clean))]
    stay = rng.random(len(clean)) < (KEEP * len(levels) - 1) / (len(levels) - 1)
    return clean.assign(**{column: np.where(stay, clean[column].to_numpy(), lies)})


def ours(case: Case, frame: pd.DataFrame) -> Callable[[], float]:
    """One whole fit with its sandwich and diagnostics, and the coefficient of `x1`."""
    import pramana as pr

    levels = LEVELS if case.perturbed == "g" else (0, 1)
    mechanism = pr.Mechanism({case.perturbed: pr.TransitionMatrix.randomized_response(levels, KEEP)})
    return lambda: float(pr.fit(case.formula, frame, mechanism, family="binomial")["x1"].estimate)


def fitting(who: str, case: Case, n: int) -> Callable[[], float]:
    """The work of one program, ready to be called again and again on the same frame."""
    clean = clean_file(n)
    if who == "ours":
        return ours(case, released(clean, case.perturbed))
    module, name = RIVALS[who]
    return getattr(importlib.import_module(f"benchmarks.rivals.{module}"), name)(case.formula, clean)


@dataclass(frozen=True)
class Times:
    """Seconds of every run by the clock and of all cores together, and what the last run answered."""

    clock: list[float]
    cores: list[float]
    answer: float


def timed(work: Callable[[], float], repeats: int, ignored: int = 1) -> Times:
    """Times of some runs, after the first ones, which are not counted."""
    clock, cores = [], []
    for _ in range(ignored + repeats):
        start, busy = time.perf_counter(), time.process_time()
        answer = work()
        clock.append(time.perf_counter() - start)
        cores.append(time.process_time() - busy)
    return Times(clock[ignored:], cores[ignored:], answer)


def resident(field: str) -> int:
    """Bytes of this process, `VmRSS` now or `VmHWM` at its highest."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(field)).split()[1])


def peak_above(work: Callable[[], float]) -> int:
    """Bytes by which the process grows at most, beyond what it holds before; Linux alone keeps such a mark."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # memory that was freed and kept must not be reused unseen
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = resident("VmRSS")
    work()
    return resident("VmHWM") - before


# What a fresh process does, by name. Every answer is one JSON value on the last line it prints.


def _time(who: str, case: Case, n: int) -> dict[str, Any]:
    times = timed(fitting(who, case, n), REPEATS)
    return {"seconds": min(times.clock), "cores": min(times.cores), "x1": times.answer}


def _memory(who: str, case: Case, n: int) -> int | None:
    """The frame is made and a small fit done first, so that neither data nor imports nor compilation count."""
    if platform.system() != "Linux":
        return None
    work = fitting(who, case, n)
    fitting(who, case, 1000)()
    return peak_above(work)


def _small(who: str, case: Case, n: int) -> dict[str, list[float]]:
    """Times of many small fits, one after the other."""
    times = timed(fitting(who, case, n), SMALL_REPEATS, ignored=20)
    return {"clock": times.clock, "cores": times.cores}


TASKS: dict[str, Callable[[str, Case, int], Any]] = {"time": _time, "memory": _memory, "small": _small}


def in_process(task: str, who: str, case: Case, n: int, source: str | None = None) -> Any:
    """A task in a process of its own, which has every core; `source` holds another version of the library."""
    command = [sys.executable, "-m", "benchmarks.in_memory", task, who, case.formula, str(n)]
    environment = os.environ | dict.fromkeys(THREADS, str(os.cpu_count()))
    environment |= {"PYTHONPATH": source} if source else {}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, cwd=HERE.parent)
    return json.loads(done.stdout.splitlines()[-1])


def large(case: Case, n: int, before: str | None) -> list[dict[str, Any]]:
    """Rows of the table: programs take turns, so that a busy minute of the machine meets all of them."""
    programs = {"ours": ("ours", None), **{who: (who, None) for who in case.rivals}}
    programs |= {"pramana, before": ("ours", before)} if before else {}
    rounds = [[in_process("time", who, case, n, source) for who, source in programs.values()] for _ in range(ROUNDS)]
    rows = []
    for (name, (who, source)), runs in zip(programs.items(), zip(*rounds, strict=True), strict=True):
        best = {kind: min(run[kind] for run in runs) for kind in ("seconds", "cores")}
        memory = in_process("memory", who, case, n, source)
        rows.append({"who": name, "memory": memory, "x1": runs[0]["x1"], **best})
    return rows


def large_table(case: Case, rows: list[dict[str, Any]], n: int) -> str:
    names = {
        "ours": "pramana",
        "pyfixest": "pyfixest `feglm(vcov='hetero')`",
        "glum": "glum, columns named",
        "statsmodels": "statsmodels `logit`, HC0",
    }
    design = n * COLUMNS * 8
    lines = [
        "| who | seconds | pramana / this | limit | CPU seconds | pramana / this | peak memory, MB | in clean designs | limit |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for place, row in enumerate(rows):
        memory = ("", "") if row["memory"] is None else (f"{row['memory'] / 1e6:.0f}", f"{row['memory'] / design:.1f}")
        limits = (case.limit if place == 1 else "", MEMORY_LIMIT if place == 0 and case.perturbed == "g" else "")
        ratio = {name: f"{rows[0][name] / row[name]:.2f}" if place else "" for name in ("seconds", "cores")}
        times = (f"{row['seconds']:.2f}", ratio["seconds"], str(limits[0]), f"{row['cores']:.2f}", ratio["cores"])
        lines.append(f"| {' | '.join((names.get(row['who'], row['who']), *times, *memory, str(limits[1])))} |")
    return "\n".join(lines)


def small_table(before: str | None) -> str:
    lines = [
        "| work | formula | who | median ms | fastest ms | fewest CPU ms |",
        "| --- | --- | --- | ---: | ---: | ---: |",
    ]
    programs: dict[str, str | None] = {"pramana": None} | ({"pramana, before": before} if before else {})
    for case in SMALL:
        runs: dict[str, list[dict[str, list[float]]]] = {who: [] for who in programs}
        for who in ROUNDS * tuple(programs):
            runs[who].append(in_process("small", "ours", case, 1000, programs[who]))
        for who, own in runs.items():
            clock, cores = ([seconds for run in own for seconds in run[kind]] for kind in ("clock", "cores"))
            measured = f"{1e3 * statistics.median(clock):.2f} | {1e3 * min(clock):.2f} | {1e3 * min(cores):.2f}"
            lines.append(f"| {case.name} | `{case.formula}` | {who} | {measured} |")
    return "\n".join(lines)


def section(case: Case, n: int, before: str | None) -> str:
    rows = large(case, n, before)
    apart = max(row["x1"] for row in rows) - min(row["x1"] for row in rows)
    title = f"### {case.name.capitalize()}\n\n`{case.formula}`. Estimates of `x1` differ by at most {apart:.1e}."
    return f"{title}\n\n{large_table(case, rows, n)}"


def page(n: int, before: str | None) -> str:
    from benchmarks.machine import described

    sections = "\n\n".join(section(case, n, before) for case in LARGE)
    small = small_table(before)
    older = ' "Before" is an earlier version of the library, in the same run.' if before else ""
    return f"""# A million records in memory

Made by `make bench`; ratios matter, not seconds. {described("glum", "pyfixest")}
The load average was {os.getloadavg()[2]:.1f} over the last 15 minutes of the run.

Logistic regression of n = {n:,} records in a pandas frame: ten numbers, and a text column of {len(LEVELS)} levels or the response
passed through randomised response (keep {KEEP}). A time is that of a whole warm fit, from frame to result (ours with its
sandwich, its diagnostics and the price of privacy): the fastest of {ROUNDS} × {REPEATS}, after a first fit in each process that is not
counted; CPU seconds, of all cores together, suffer less from other work on the machine. Every program has a process of
its own and all {os.cpu_count()} cores, and they take turns. Rivals fit the clean file. glum gives no
standard errors and stops at its default tolerance, a gradient of 1e-4; ours at 1e-10 standard deviations of the score.

Peak memory is the highest resident set during one fit less the resident set just before it (`VmHWM` and `VmRSS` of
`/proc/self/status`, the mark reset through `/proc/self/clear_refs`), in a fresh process that holds the frame, has fitted
1000 records, and has handed freed memory back. A clean design is n × {COLUMNS} × 8 bytes = {n * COLUMNS * 8 / 1e6:.0f} MB.

{sections}

### Small fits, n = 1000

{ROUNDS} × {SMALL_REPEATS} fits one after the other. A parameter with a faint signal gets a score interval at three levels, which follows all
other parameters on both sides of the estimate.{older}

{small}
"""


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] in TASKS:
        task, who, formula, n = sys.argv[1:]
        print(json.dumps(TASKS[task](who, CASES[formula], int(n))))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100 000 records, printed and not written")
    parser.add_argument(
        "--before", metavar="SRC", help="the src folder of an earlier version, measured beside this one"
    )
    options = parser.parse_args()
    text = page(100_000 if options.quick else 1_000_000, options.before)
    print(text)
    if not options.quick:
        (HERE / "IN_MEMORY.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
