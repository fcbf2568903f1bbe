"""What a GPU does: studies, their resamples, and sums over very many records. `python -m benchmarks.gpu` writes GPU.md.

Every program runs twice at least: the first time with compilation, then warm. Times are from arrays in host memory to numbers in
host memory, unless a line says otherwise.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import pramana as pr
from benchmarks.machine import described
from pramana.kernels import accelerator
from pramana.kernels.device_data import make
from pramana.kernels.device_records import DeviceRecords, HeldRecords, RowWeights
from pramana.kernels.predictor import LOGIT
from pramana.studies import run_replicates
from pramana.studies.runner import RunSettings, run
from pramana.studies.simulation import ReplicateData, standard_errors
from pramana.studies.study import study_of

REPLICATES, RESAMPLES = 2000, 500
ROWS, COLUMNS = 100_000_000, 10
WORKERS = max(1, 3 * (os.cpu_count() or 1) // 4)
THREADS = 4
"""That hand the resamples of data sets to the device; with more of them the device is shared by too many."""


def timed(work: Callable[[], Any], repeats: int = 2) -> tuple[float, float, Any]:
    """Seconds of the first call, the fastest of the others, and what came out."""
    seconds = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        out = work()
        seconds.append(time.perf_counter() - start)
    return seconds[0], min(seconds[1:]), out


def against(value: float, limit: float, unit: str) -> str:
    """A limit, and a plain word where it is missed."""
    return f"{limit:g} {unit}" + (", **missed**" if value > limit else "")


def table1() -> str:
    """The resamples of all data sets of Table 1, whose estimates are known; the data are on the device."""
    cells = study_of("a1").scenarios

    def solved(scenario: Any) -> tuple[Any, np.ndarray, list[int]]:
        sets = ReplicateData(scenario, range(REPLICATES), 1, "gpu").under("reversion")
        return sets, sets.solve(np.asarray(scenario.truth)), [scenario.draw_seed(1, r) for r in range(REPLICATES)]

    with ThreadPoolExecutor(THREADS) as pool:
        made = list(pool.map(solved, cells))

        def one(cell: tuple[Any, np.ndarray, list[int]]) -> Any:
            sets, beta, seeds = cell
            return standard_errors(sets, beta, pr.Resampling(RESAMPLES), seeds)

        first, warm, _ = timed(lambda: list(pool.map(one, made)))
    solves = len(cells) * REPLICATES * RESAMPLES / 1e6
    return (
        f"| Table 1: {solves:.0f} million resampled roots, sandwiches and statistics of {len(cells) * REPLICATES} data sets that are on the device | "
        f"{first:.1f} s | {warm:.2f} s | {against(warm, 2, 's')} |"
    )


def making() -> str:
    """All data sets of Table 1 on the device, true and released, beside one core."""
    cells = study_of("a1").scenarios

    def one(scenario: Any) -> Any:
        population, (assignment,) = scenario.generate, scenario.mechanism.assignments
        channel, starts = assignment.channel, scenario.starts(1, range(REPLICATES))
        made = make(population.columns, starts, scenario.n, "y", channel.levels, channel.form.cuts)
        return jax.block_until_ready([sets.codes for sets in made])

    first, warm, _ = timed(lambda: [one(scenario) for scenario in cells])
    _, host, _ = timed(lambda: cells[0].data(1, range(100)))
    host *= REPLICATES / 100 * sum(scenario.n for scenario in cells) / cells[0].n
    return (
        f"| the {len(cells) * REPLICATES} data sets of Table 1 made and perturbed | {first:.1f} s | {warm:.2f} s; one core, by the first 100, "
        f"{host:.0f} s | |"
    )


def whole_study() -> str:
    def work() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            settings = RunSettings("a1", REPLICATES, RESAMPLES, 1, "gpu")
            return run(settings, Path(folder), workers=WORKERS, resume=False, tell=lambda _done, _all: None)

    first, warm, _ = timed(work, 1)  # the second run finds its programs in JAX's cache, and starts its processes again
    return (
        f"| `study a1 --device gpu --workers {WORKERS}`: {REPLICATES} × 18 data sets made, six estimators, resamples, summaries | "
        f"{first:.1f} s | {warm:.1f} s | {against(warm, 30, 's')} |"
    )


def newton_pass() -> list[str]:
    """One evaluation of score and slope over records that are on the device, beside reading them once."""
    with accelerator.wide():
        keys = jax.random.split(jax.random.key(1), 2)
        clean = jax.random.normal(keys[0], (COLUMNS, ROWS), dtype=jnp.float64).at[0].set(1.0)
        y = (jax.random.uniform(keys[1], (1, ROWS), dtype=jnp.float64) < 0.4).astype(jnp.float64)
        node, empty = jnp.ones((1, COLUMNS)), jnp.zeros(0, dtype=jnp.int32)
        held = HeldRecords(clean, empty, node, jnp.ones((1, 1)), empty, 1.5 * y - 0.2, y, jnp.zeros((0, ROWS)))
        sums = jax.jit(lambda a, b: (jnp.sum(a), jnp.sum(b)))
        _, read, _ = timed(lambda: jax.block_until_ready(sums(held.clean, held.y1)), 5)
    records, plain = DeviceRecords(held, {"code": LOGIT, "shape": 0.0}), RowWeights.of()
    beta = np.linspace(-0.3, 0.3, COLUMNS)
    first, warm, _ = timed(lambda: records.score_and_slope(beta[None], plain), 5)
    slow, fused, _ = timed(lambda: records.sums(beta, plain, plain), 3)
    size = (COLUMNS + 1) * ROWS * 8 / 1e9
    return [
        f"| n = 10⁸, d = 10 on the device ({size:.1f} GB): reading once | | {1e3 * read:.1f} ms | |",
        f"| … one Newton pass, score and slope | {first:.1f} s | {1e3 * warm:.1f} ms, {warm / read:.1f} reads | {against(warm / read, 10, 'reads')} |",
        f"| … everything that a sandwich is made of | {slow:.1f} s | {1e3 * fused:.1f} ms, {fused / read:.1f} reads | |",
    ]


def people(n: int) -> tuple[dict[str, np.ndarray], pr.Mechanism]:
    rng = np.random.default_rng(1)
    frame = {f"x{k}": rng.normal(size=n) for k in range(9)}
    frame["y"] = (rng.random(n) < 1 / (1 + np.exp(-0.5 * frame["x0"] + 0.3 * frame["x1"]))).astype(np.int64)
    mechanism = pr.Mechanism({"y": pr.TransitionMatrix.binary(0.85, 0.9)})
    return mechanism.perturb(frame, seed=1), mechanism


def fits() -> list[str]:
    """Whole calls of `fit`, from a dictionary of arrays."""
    formula = "y ~ " + " + ".join(f"x{k}" for k in range(9))
    cases: list[tuple[str, int, Any]] = [
        ("fit, n = 10⁶, sandwich", 1_000_000, None),
        ("fit, n = 10⁷, sandwich", 10_000_000, None),
        ("fit, n = 10⁵, 500 resamples", 100_000, pr.Resampling(500, seed=1, threads=WORKERS)),
    ]
    out = []
    for name, n, inference in cases:
        data, mechanism = people(n)
        times, results = [], []
        for device in ("cpu", "gpu"):
            options = {"family": "binomial", "inference": inference, "device": device}
            first, warm, result = timed(lambda o=options, d=data, m=mechanism: pr.fit(formula, d, m, **o), 1)
            times.append((first, warm))
            results.append(result)
        apart = max(np.abs(results[0].estimate - results[1].estimate).max(), _gap(*results))
        (_, host), (first, warm) = times
        out.append(f"| {name}, d = 10 | {first:.1f} s | {warm:.2f} s; CPU {host:.2f} s; apart {apart:.0e} | |")
    return out


def _gap(a: Any, b: Any) -> float:
    return float(np.abs(a.standard_errors - b.standard_errors).max())


def equality() -> str:
    """The largest difference of any number of some replicates from the CPU's."""
    study, largest, count = study_of("a1"), 0.0, 0
    for cell in (0, 8, 17):
        options: dict[str, Any] = {"inference": pr.Resampling(RESAMPLES), "inferred": study.inferred}
        host, device = (
            run_replicates(study.scenarios[cell], study.methods, 20, device=where, **options)
            for where in ("cpu", "gpu")
        )
        for method, numbers in host.values.items():
            for name, values in numbers.items():
                np.testing.assert_array_equal(np.isnan(values), np.isnan(device.values[method][name]))
                largest = max(largest, float(np.nanmax(np.abs(values - device.values[method][name]))))
                count += values.size
    return (
        f"All numbers of 60 data sets of study a1 on the device ({count} of them, from six estimators) are within {largest:.0e} of "
        "the CPU's, and the same draws have no root."
    )


SHORT = """
## What falls short

- Draws without a root are left to the careful solver of the CPU, whose threads decide about half of Table 1's time: it varies from run to run.
- A fit of very many records gains little: reading, checking and the design, on the CPU, take most of its time, and two or three
  Newton passes the rest.
"""


def main() -> None:
    rows = []
    for part in (
        lambda: [whole_study()],
        lambda: [making()],
        lambda: [table1()],
        newton_pass,
        fits,
    ):  # first what has processes of its own
        for row in part():
            print(row, flush=True)
            rows.append(row)
    checked, found = equality(), accelerator.devices("gpu")[0]
    page = PAGE.format(device=found.device_kind, jax=jax.__version__, machine=described("pandas"), checked=checked)
    (Path(__file__).parent / "GPU.md").write_text(page + "\n".join(rows) + "\n" + SHORT, encoding="utf-8")


PAGE = """# What a GPU does

Made by `python -m benchmarks.gpu` on a machine with a GPU: {device}, JAX {jax}. {machine}

{checked}

Warm times are the fastest of some calls after the first, which compiles; for the study, a second run, whose processes start anew and
find their programs in JAX's cache. Data sets of the paper's studies are made and perturbed on the device, from the bits that the CPU would
take (decision 20), so that a study gives the same numbers wherever it runs; one in a block is made on the CPU as well, for the names of
its parameters, and those in which a root is not found on the device.

| | first call | warm | limit |
| --- | --- | --- | --- |
"""


if __name__ == "__main__":
    main()
