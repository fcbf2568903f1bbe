"""Perturbing cells and files, beside a plain copy and OpenDP, in one run. `make bench` writes PERTURBING.md from it.

OpenDP is not installed with this package; give a Python that has it as PRAMANA_BENCH_OPENDP to measure it in the same run.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
CELLS, LEVELS, KEEP = 10_000_000, 5, 0.8
FILE_ROWS = int(os.environ.get("PRAMANA_BENCH_ROWS", 100_000_000))
RIVAL = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from benchmarks.rivals.opendp_response import seconds_per_cell
print(seconds_per_cell(np.random.default_rng(1).integers(0, 5, 20_000), 0.8, 5))
"""


def best(work: Callable[[], Any], repeats: int = 25) -> float:
    """The fastest of some runs, in seconds, after one that is not counted."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def cell_rows() -> list[tuple[str, float]]:
    """Seconds for ten million cells of five levels."""
    from pramana.mechanism import TransitionMatrix
    from pramana.mechanism.draws import drawing
    from pramana.mechanism.draws.keyed import Key, KeyedColumn, KeyedRecords
    from pramana.mechanism.draws.keystream import FreshKeystream

    codes = np.random.default_rng(1).integers(0, LEVELS, CELLS)
    dense = TransitionMatrix.from_columns(range(LEVELS), (KEEP - 0.05) * np.eye(LEVELS) + 0.05, kind="numeric")
    mixture = TransitionMatrix.randomized_response(range(LEVELS), KEEP, kind="numeric")
    rows = [("memory copy of the column and the keystream for it", best(lambda: (codes.copy(), _keystream(CELLS))))]
    for name, matrix in (("any matrix", dense), ("randomised response", mixture)):
        rows.append((f"pramana, {name}", best(lambda: matrix.form.draw(codes, FreshKeystream()))))  # noqa: B023
    with _NumpyOnly(drawing):
        rows.append(("pramana without numba, any matrix", best(lambda: dense.form.draw(codes, FreshKeystream()), 2)))
    key = Key(bytes(range(32)))
    column, identifiers = KeyedColumn(key, ("z",), dense), np.arange(CELLS)

    def keyed() -> Any:
        return dense.form.draw(codes, column.words(KeyedRecords(key).digests(identifiers, "id"), codes))

    rows.append(("pramana, keyed by a whole-number identifier", best(keyed, 2)))
    other = _opendp()
    return rows + ([(f"OpenDP, `make_randomized_response` ({20_000} cells measured)", other * CELLS)] if other else [])


def _keystream(cells: int) -> None:
    from pramana.mechanism.draws.keystream import FreshKeystream

    for _ in FreshKeystream().blocks(cells, 1):
        pass


class _NumpyOnly:
    """The NumPy fallback for a while."""

    def __init__(self, module: Any) -> None:
        self._module, self._kept = module, module._compiled

    def __enter__(self) -> None:
        self._module._compiled = lambda: None

    def __exit__(self, *_: object) -> None:
        self._module._compiled = self._kept


def _opendp() -> float | None:
    """Seconds a cell, from this Python or from the one named in the environment."""
    python = os.environ.get("PRAMANA_BENCH_OPENDP", sys.executable)
    done = subprocess.run([python, "-c", RIVAL, str(HERE.parent)], capture_output=True, text=True)
    said = done.stdout.strip()
    return float(said) if done.returncode == 0 and said not in ("", "None") else None


def make_file(path: Path, rows: int) -> None:
    """A Parquet file of two columns, a level and a number, written in pieces."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(1)
    levels = pa.array([f"level {k}" for k in range(LEVELS)])
    schema = pa.schema({"z": pa.string(), "x": pa.int32()})
    with parquet.ParquetWriter(path, schema) as writer:
        for low in range(0, rows, 1_000_000):
            size = min(1_000_000, rows - low)
            z = levels.take(pa.array(rng.integers(0, LEVELS, size)))
            writer.write_table(pa.table({"z": z, "x": rng.integers(0, 1000, size).astype(np.int32)}, schema))


def release_file(source: Path, target: Path, shuffle: bool) -> None:
    """Run in a process of its own: prints seconds and peak memory in megabytes."""
    import pramana as pr

    P = pr.TransitionMatrix.randomized_response([f"level {k}" for k in range(LEVELS)], KEEP)
    start = time.perf_counter()
    pr.release(source, target, pr.Mechanism({"z": P}), shuffle=shuffle)
    print(time.perf_counter() - start, _peak())


def _peak() -> float:
    """Megabytes. `getrusage` would count the process that this one was forked from."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def file_rows(rows: int, *ways: str) -> tuple[float, list[tuple[float, float]]]:
    """Size of the source, and for each way of releasing it seconds and peak memory (both sizes in megabytes)."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "raw.parquet"
        make_file(source, rows)
        for way in ways:
            target = Path(folder) / f"{way}.parquet"
            command = [sys.executable, "-m", "benchmarks.perturbing", str(source), str(target), way]
            done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE.parent)
            seconds, peak = map(float, done.stdout.split())
            found.append((seconds, peak))
            target.unlink()
        return source.stat().st_size / 1e6, found


def main() -> None:
    if len(sys.argv) == 4:
        release_file(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "shuffled")
        return
    from benchmarks.machine import described

    rows = cell_rows()
    plain, ours = rows[0][1], rows[1][1]
    lines = [
        f"| {name} | {1e3 * s:.0f} | {CELLS / s / 1e6:.3g} | {s / plain:.1f} | {s / ours:.1f} |" for name, s in rows
    ]
    size, [(seconds, peak)] = file_rows(FILE_ROWS, "plain")
    _, [(plainly, _), (shuffled, most)] = file_rows(FILE_ROWS // 10, "plain", "shuffled")
    text = f"""# Perturbing

Made by `make bench`; ratios matter, not milliseconds. {described()}

Ten million cells of {LEVELS} levels on one thread, a fresh AES-256 keystream inside the timing; the fastest of 25 runs (2 for the slow rows).

| who | ms | million cells a second | times the copy and keystream | times ours |
| --- | ---: | ---: | ---: | ---: |
{chr(10).join(lines)}

A Parquet file of {FILE_ROWS:,} rows ({size:.0f} MB: a text column of {LEVELS} levels, perturbed, and a number) was released with its
description, hashed and synced to the disk, in {seconds:.1f} s ({FILE_ROWS / seconds / 1e6:.2g} million rows a second) with {peak:.0f} MB resident at the most.
With a tenth of the rows, `shuffle` took {shuffled / plainly:.1f} times as long as the plain release, with {most:.0f} MB.
"""
    (HERE / "PERTURBING.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
