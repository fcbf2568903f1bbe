"""The 18 million solves of the paper's Table 1 on a GPU: `python -m benchmarks.gpu_table1 [replicates] [resamples]`.

Prints the time of the first run (with compilation) and of a second, warm one: sandwich and resampled standard errors of
every data set, from arrays in host memory to statistics in host memory. The data sets are made beforehand.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from pramana.estimators import Reversion
from pramana.inference import Resampling
from pramana.kernels import accelerator
from pramana.studies.simulation import DataSets, standard_errors
from pramana.studies.study import study_of
from pramana.studies.summary import NORMAL_975


def all_sets(replicates: int) -> list[tuple[DataSets, np.ndarray, list[int]]]:
    """Data sets and estimates of every cell."""
    out = []
    for scenario in study_of("a1").scenarios:
        _, released = scenario.data(1, range(replicates))
        function = scenario.plan.prepare(released, scenario.mechanism.schema)
        equation = Reversion().bind(function, scenario.mechanism, released, np.ones(released.n)).equation
        sets = DataSets(equation, replicates)
        seeds = [scenario.draw_seed(1, r) for r in range(replicates)]
        out.append((sets, sets.solve(np.asarray(scenario.truth)), seeds))
    return out


def solve_all(
    made: list[tuple[DataSets, np.ndarray, list[int]]], resamples: int, device: str
) -> list[dict[str, np.ndarray]]:
    return [standard_errors(sets, beta, Resampling(draws=resamples), seeds, device) for sets, beta, seeds in made]


def main() -> None:
    replicates, resamples = (int(v) for v in [*sys.argv[1:3], "2000", "500"][:2])
    print("device:", accelerator.devices("gpu")[0])
    start = time.perf_counter()
    made = all_sets(replicates)
    print(f"data sets and estimates on the CPU: {time.perf_counter() - start:.1f} s")
    for run in ("with compilation", "warm", "warm"):
        start = time.perf_counter()
        found = solve_all(made, resamples, "gpu")
        seconds = time.perf_counter() - start
        solves = len(made) * replicates * resamples
        print(f"{run}: {solves / 1e6:.1f} million solves and their statistics in {seconds:.2f} s")
    few = 20
    sets, beta, seeds = made[0]
    part = DataSets(sets.equation.rows(slice(0, few * sets.size)), few)
    reference = standard_errors(part, beta[:few], Resampling(draws=resamples), seeds[:few], "cpu")
    gap = max(
        float(np.nanmax(np.abs(reference[k] - found[0][k][:few]))) for k in ("se_iqr", "se_sandwich", "low", "high")
    )
    print(f"largest difference from the CPU kernels in {few} data sets of the first cell: {gap:.1e}")
    for (_, beta, _), numbers, scenario in zip(made, found, study_of("a1").scenarios, strict=True):
        error = beta - np.asarray(scenario.truth)
        cp = np.mean(np.abs(error) <= NORMAL_975 * numbers["se_iqr"], axis=0)
        print(
            scenario.key,
            "bias",
            error.mean(axis=0).round(3),
            "SD",
            error.std(axis=0, ddof=1).round(3),
            "SE",
            numbers["se_iqr"].mean(axis=0).round(3),
            "CP",
            cp.round(3),
            "rootless",
            int(numbers["rootless"][:, 0].sum()),
        )


if __name__ == "__main__":
    main()
