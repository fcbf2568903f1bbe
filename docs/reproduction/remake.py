"""Run studies anew as their pages say, and put tables, pages and pictures in the place of the old ones: `python docs/reproduction/remake.py a1 b1`.

Before that the new table is compared with the old one: two runs with other data differ by their Monte Carlo errors. With `--replicates 50` it is a
trial, which compares and writes nothing. At the end it prints what `index.md` says in words, to be read against it.
"""

from __future__ import annotations

import argparse
import csv
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from redraw import HERE, command_of

KEYS = ("p", "p00", "p11", "n", "method", "parameter")
Rows = Sequence[Mapping[str, str]]


def rows_of(path: Path) -> Rows:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def run(name: str, out: Path, workers: int, replicates: int | None) -> Rows:
    """The study by the command on its page; the table that it wrote."""
    words = shlex.split(command_of((HERE / f"{name}.md").read_text(encoding="utf-8")))
    words[words.index("DIR")] = str(out)
    if replicates is not None:
        words[words.index("--replicates") + 1] = str(replicates)
    subprocess.run([sys.executable, "-m", *words, "--workers", str(workers)], check=True)
    return rows_of(out / f"{name}.csv")


def compared(old: Rows, new: Rows) -> str:
    """By method and number, how far two runs are apart in units of the error of their difference."""
    before = {tuple(row.get(k) for k in KEYS): row for row in old}
    apart: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in new:
        other = before[tuple(row.get(k) for k in KEYS)]
        for name in (k for k in row if f"{k}_mcse" in row and row[k] and other[k]):
            error = np.hypot(float(row[f"{name}_mcse"]), float(other[f"{name}_mcse"]))
            if error > 0:
                apart[row["method"], name].append((float(row[name]) - float(other[name])) / error)
    lines = [f"{'method':38} {'number':18} cells  root mean z²  mean z  largest  beyond 3"]
    for (method, name), found in apart.items():
        z = np.array(found)
        size = f"{np.sqrt(np.mean(z**2)):12.2f} {z.mean():7.2f} {np.abs(z).max():8.1f} {int(np.sum(np.abs(z) > 3)):9}"
        lines.append(f"{method:38} {name:18} {z.size:5}  {size}")
    return "\n".join(lines)


def install(name: str, out: Path) -> None:
    """Table, page and pictures; the site needs no HTML, and a picture that is no longer made goes."""
    for old in HERE.glob(f"{name}-*.*"):
        old.unlink()
    for path in [out / f"{name}.csv", out / f"{name}.md", *out.glob(f"{name}-*.png"), *out.glob(f"{name}-*.svg")]:
        shutil.copy(path, HERE / path.name)


def said(name: str, rows: Rows) -> str:
    """The numbers behind what `index.md` says of a study."""

    def of(method: str, what: str) -> np.ndarray:
        return np.array([float(row[what]) for row in rows if row["method"] == method])

    ratios = np.array([float(row["re"]) for row in rows if row["re"]])
    clipped = of("model-dependent (logit, clipped)", "bias")
    tail = f"relative efficiency {ratios.min():.3g} to {ratios.max():.3g}; bias of Model 1 clipped {clipped.min():.3f} to {clipped.max():.3f}"
    failures, sets = (of("model-dependent (logit)", what)[::2].sum() for what in ("failures", "replicates"))
    return f"{name}: {tail}; Model 1 without a root in {failures:.0f} data sets of {sets:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=("a1", "a2", "b1", "b2"))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--replicates", type=int, help="a trial of this size")
    asked = parser.parse_args()
    for name in asked.names:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder)
            new = run(name, out, asked.workers, asked.replicates)
            sys.stdout.write(f"{compared(rows_of(HERE / f'{name}.csv'), new)}\n{said(name, new)}\n")
            sys.stdout.flush()
            if asked.replicates is None:
                install(name, out)


if __name__ == "__main__":
    main()
