"""Time of stabilized fits as multiples of reversion's on the same records, in one run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.noise import in_turns

LIMITS = {1000: 15, 100_000: 10}
"""Largest ratio for so many records."""
SETTINGS = (
    "logit (A1)",
    "linear (B1)",
    "four covariates",
    "five classes",
    "skewed, covariate",
    "covariate in a logit",
    "clusters",
)
"""Of the cells of study d1 that explore, the first with each of these names."""


def rows(repeats: int = 5) -> Iterator[tuple[str, float, int, float, float]]:
    """Setting, keep probability, records, seconds of the processor of a stabilized fit and of reversion's."""
    import pramana as pr
    from pramana.studies.race import Cell, exploring

    cells = {str(c.label["setting"]): c for c in reversed(exploring().scenarios)}
    for name in SETTINGS:
        for n in LIMITS:
            cell = replace(cells[name], n=n)
            assert isinstance(cell, Cell)
            released = cell.data(1, [0])[1]
            ask = partial(pr.fit, cell.what, released, cell.mechanism, family=cell.family, **cell.options)
            own, plain = in_turns([partial(ask, method="stabilized"), partial(ask, method="reversion")], repeats)
            yield name, float(str(cell.label["keep"])), n, own, plain


def main() -> None:
    from benchmarks.machine import described

    lines = [
        "| setting | keep | records | stabilized, ms | reversion, ms | ratio | limit |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *(
            f"| {name} | {keep:g} | {n} | {1e3 * own:.0f} | {1e3 * plain:.0f} | {own / plain:.1f} | {LIMITS[n]} |"
            for name, keep, n, own, plain in rows()
        ),
    ]
    text = "\n".join(["Whole fits with standard errors and intervals, time of the processor.", "", *lines])
    print(text)
    page = f"# Stabilised reversion\n\nMade by `make bench`; ratios matter. {described()}\n\n{text}\n"
    (Path(__file__).parent / "STABILIZED.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
