"""Times of random-weight resampling, ours and the rivals', in one run. `make bench` writes RESULTS.md from it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def best(work: Callable[[], Any], repeats: int) -> float:
    """The fastest of some runs, in seconds, after one that is not counted."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(who: str, threads: int) -> list[dict[str, Any]]:
    """The rows of "ours" or of "rivals" at one number of threads."""
    from benchmarks import ours
    from benchmarks.cases import perturbed_covariate, perturbed_response
    from benchmarks.rivals import delicatessen_loop, numpy_newton, r_newton, scipy_root, statsmodels_glm

    rows = []
    for case in (perturbed_response(), perturbed_covariate()):
        sample, root = ours.engine_of(case)
        if who == "ours":
            rows += _ours(case, sample, root, threads)
            continue
        for rival, few in ((numpy_newton, 500), (scipy_root, 100), (delicatessen_loop, 50), (statsmodels_glm, 50)):
            work = lambda: rival.solve(case, root.beta, few, 1)  # noqa: B023, E731
            rows.append({"case": case.name, "who": rival.NAME, "seconds": best(work, 3) * case.draws / few})
        if r_newton.available():
            rows.append(
                {"case": case.name, "who": r_newton.NAME, "seconds": r_newton.seconds(case, root.beta, case.draws)}
            )
    return rows


def _ours(case: Any, sample: Any, root: Any, threads: int) -> list[dict[str, Any]]:
    from benchmarks import ours

    mine = best(lambda: ours.draws(sample, root, case.draws, 1, threads), 25)
    whole = best(lambda: ours.whole_fit(case, case.draws, 1, threads), 25)
    return [
        {"case": case.name, "who": "pramana, draws", "seconds": mine},
        {"case": case.name, "who": "pramana, whole fit with its formula", "seconds": whole},
    ]


def table(rows: list[dict[str, Any]], threads: int) -> str:
    lines = [
        f"### {threads} thread{'s' if threads > 1 else ''}",
        "",
        "| work | who | ms | times slower than our draws | than our whole fit |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for row in rows:
        mine = next(r["seconds"] for r in rows if r["case"] == row["case"] and r["who"] == "pramana, draws")
        whole = next(r["seconds"] for r in rows if r["case"] == row["case"] and r["who"].startswith("pramana, whole"))
        lines.append(
            f"| {row['case']} | {row['who']} | {1e3 * row['seconds']:.1f} | {row['seconds'] / mine:.1f} | {row['seconds'] / whole:.1f} |"
        )
    return "\n".join(lines)


def _in_process(who: str, threads: int) -> list[dict[str, Any]]:
    """Our draws run on threads of their own, over single-threaded matrix products; rivals have theirs from the products."""
    products = str(1 if who == "ours" else threads)
    command = [sys.executable, "-m", "benchmarks.resampling", who, str(threads)]
    environment = os.environ | dict.fromkeys(THREADS, products)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=HERE.parent)
    rows: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return rows


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
        return
    sections = []
    for threads in (1, 2):
        rows = [row for who in ("ours", "rivals") for row in _in_process(who, threads)]
        rows.sort(key=lambda row: row["case"], reverse=True)
        sections.append(table(rows, threads))
        print(sections[-1])
    from benchmarks.machine import described

    text = f"""# Benchmarks

Made by `make bench`; ratios matter, not milliseconds. {described()}

500 weighted re-solves to 1e-10 from a common root, weights drawn inside the timing, n = 1000, logistic; the fastest of
several runs. "Perturbed response" has d = 2, "perturbed covariate" has three levels, d = 4 and three virtual rows a record.

{(2 * chr(10)).join(sections)}
"""
    (HERE / "RESULTS.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
