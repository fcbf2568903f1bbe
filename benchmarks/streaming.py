"""Files read block by block: time beside a bare scan, and memory, as the files grow; `make bench` writes STREAMING.md.

Every measurement is a process of its own, warmed by a small fit, and the fastest of a few; a bare scan reads the same columns with `pyarrow.dataset`.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import dataset, parquet

from benchmarks.law import law
from benchmarks.machine import described

HERE = Path(__file__).parent
GROUP = 1_000_000
WARM = 300_000
"""Records of a small fit after which everything is loaded."""
TINY = 1000
"""Records of a fit whose time is the start-up of any fit."""
HELD = 1_000_000
"""Records up to which a file of these columns fits into 300 MB."""
RESAMPLES = 500
TIMES = 3
"""That a fit is measured; the fastest counts."""


@dataclass(frozen=True)
class Case:
    """A kind of file with a question, and how much longer than a bare scan the answer may take."""

    name: str
    columns: tuple[str, ...]
    formula: str
    limit: float
    resamples: int = 0


CASES = (
    Case("four numbers and a perturbed response", ("x0", "x1", "x2", "x3", "y"), "y ~ x0 + x1 + x2 + x3", 12),
    Case("categories alone, 500 resamples", ("region", "sex", "age", "y"), "y ~ region + sex + age", 3, RESAMPLES),
)


def _rows(case: Case, n: int, rng: np.random.Generator) -> pa.Table:
    """Records with a response of zeros and ones that was kept with probability 0.85."""
    if case.resamples:
        codes = {"region": rng.integers(0, 8, n), "sex": rng.integers(0, 2, n), "age": rng.integers(0, 12, n)}
        eta = -0.5 + 0.1 * codes["region"] + 0.3 * codes["sex"] - 0.05 * codes["age"]
        names = {name: pa.array([f"{name}{k:02d}" for k in range(codes[name].max() + 1)]) for name in codes}
        columns: dict[str, Any] = {
            k: pa.DictionaryArray.from_arrays(pa.array(v, pa.int32()), names[k]) for k, v in codes.items()
        }
    else:
        columns = {f"x{k}": rng.normal(size=n) for k in range(4)}
        eta = -0.5 + 0.5 * columns["x0"] - 0.3 * columns["x1"] + 0.2 * columns["x2"] + 0.1 * columns["x3"]
    y = rng.random(n) < 1 / (1 + np.exp(-eta))
    columns["y"] = np.where(rng.random(n) < 0.15, ~y, y).astype(np.int8)
    return pa.table({**columns, "unused": rng.normal(size=n)})


def make(case: Case, n: int, path: Path) -> None:
    rng, writer = np.random.default_rng(3), None
    for first in range(0, n, GROUP):
        part = _rows(case, min(GROUP, n - first), rng)
        writer = writer or parquet.ParquetWriter(path, part.schema)
        writer.write_table(part)
    assert writer is not None
    writer.close()


def made_small(case: Case, folder: Path) -> tuple[str, str]:
    """The files of the fit that warms up, and of the one that tells the start-up."""
    small, tiny = folder / "small.parquet", folder / "tiny.parquet"
    make(case, WARM, small)
    make(case, TINY, tiny)
    return str(small), str(tiny)


def scan(path: Path, columns: tuple[str, ...]) -> tuple[float, float]:
    """Seconds, and those of all cores together."""
    begun, busy = time.perf_counter(), time.process_time()
    for _ in dataset.dataset(path).to_batches(columns=list(columns)):
        pass
    return time.perf_counter() - begun, time.process_time() - busy


def measure(name: str, path: Path, small: Path, tiny: Path) -> dict[str, float]:
    """In a process of its own: the start-up of a fit, the fit, the peak of its memory above that of a small fit, three scans, and the fit in
    blocks where the file was held in memory."""
    import pramana as pr
    from pramana.engines.streaming import StreamEngine

    case = next(c for c in CASES if c.name == name)
    mechanism = pr.Mechanism({"y": pr.TransitionMatrix.binary(0.85, 0.85)})
    inference = pr.Resampling(draws=case.resamples, seed=1) if case.resamples else None
    options: dict[str, Any] = {"family": "binomial", "inference": inference}
    pr.fit(case.formula, small, mechanism, memory=1, **options)
    pr.fit(case.formula, tiny, mechanism, memory=1, **options)
    begun = time.perf_counter()
    pr.fit(case.formula, tiny, mechanism, memory=1, **options)
    startup = time.perf_counter() - begun
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    passes, true = [0], StreamEngine._added

    def counted(engine: Any, *given: Any) -> Any:
        passes[0] += 1
        return true(engine, *given)

    StreamEngine._added = counted  # type: ignore[method-assign]
    rows = parquet.read_metadata(path).num_rows

    def fastest(memory: Any) -> tuple[float, float]:
        """Seconds by the clock and of all cores."""
        times = []
        for _ in range(TIMES):
            begun, busy = time.perf_counter(), time.process_time()
            pr.fit(case.formula, path, mechanism, memory=memory, **options)
            times.append((time.perf_counter() - begun, time.process_time() - busy))
        clock, cores = zip(*times, strict=True)
        return min(clock), min(cores)

    took, cores = fastest("300 MB")
    needed = passes[0] // TIMES
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # After the fit, for it reads far ahead and holds more memory than that.
    bare, reading = map(min, zip(*(scan(path, case.columns) for _ in range(3)), strict=True))
    blocks, work = fastest(1) if rows <= HELD else (took, cores)
    return {
        "n": float(rows), "startup": startup, "blocks": blocks, "work": work, "scan": bare, "reading": reading, "fit": took, "cores": cores, "passes": needed, "before": before / 1e6,
        "peak": peak / 1e6
    }  # fmt: skip


def growth(rows: list[dict[str, float]]) -> list[str]:
    """How time grows: as called, where small files are held in memory, and read in blocks whatever their size."""
    called, blocks, work = ({int(r["n"]): r[key] for r in rows} for key in ("fit", "blocks", "work"))
    return [
        f"A warm fit of {TINY:,} records in blocks, the start-up of every fit, takes {rows[0]['startup']:.3f} s. Time as called: {law(called)}.",
        f"All sizes in blocks ({', '.join(f'{t:.2f}' for t in blocks.values())} s): {law(blocks)}.",
        f"The same in processor time ({', '.join(f'{t:.2f}' for t in work.values())} s): {law(work)}.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--largest", type=float, default=1e7)
    parser.add_argument("--measure", nargs=4)
    given = parser.parse_args()
    if given.measure:
        name, *paths = given.measure
        print(json.dumps(measure(name, *map(Path, paths))))
        return
    sizes = [10**k for k in range(5, round(math.log10(given.largest)) + 1)]
    lines = ["# Files read block by block", "", described("pyarrow"), ""]
    for case in CASES:
        rows = []
        with tempfile.TemporaryDirectory() as folder:
            others = made_small(case, Path(folder))
            for n in sizes:
                path = Path(folder) / f"{n}.parquet"
                make(case, n, path)
                command = [sys.executable, "-m", "benchmarks.streaming", "--measure", case.name, str(path), *others]
                rows.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
                path.unlink()
        lines += [
            f"## {case.name.capitalize()}",
            "",
            f"`{case.formula}`, logit, response kept with probability 0.85.",
            "",
        ]
        lines += [
            "| records | bare scan, s | fit, s | times a scan | in processor time | passes | peak memory, MB | above a small fit, MB |"
        ]
        lines += ["| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
        for r in rows:
            share, busy, more = r["fit"] / r["scan"], r["cores"] / r["reading"], (r["peak"] - r["before"]) * 1e3
            lines.append(
                f"| {r['n']:,.0f} | {r['scan']:.3f} | {r['fit']:.2f} | {share:.1f} | {busy:.1f} | {r['passes']:.0f} | {r['peak'] * 1e3:.0f} | "
                f"{more:.0f} |"
            )
        last = rows[-1]["fit"] / rows[-1]["scan"]
        word = "reached" if last <= case.limit else "**missed**"
        lines += [
            "",
            f"Of the largest file, {last:.1f} times a scan (limit {case.limit:g}: {word}).",
            *growth(rows),
            "",
        ]
    (HERE / "STREAMING.md").write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
