"""How time grows with records, columns and levels, and what that says of clusters; `make bench` writes GROWTH.md and its picture.

A point is a whole warm fit with standard errors, in a process of its own: time of the processor, all cores together, the least of three.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import streaming
from benchmarks.law import law
from benchmarks.machine import described

HERE = Path(__file__).parent
PICTURE = HERE.parent / "docs" / "images" / "growth.png"
RECORDS = 100_000
"""Records where columns or levels grow."""
KEEP = 0.85
LEVELS = ("a", "b", "c", "d", "e")


@dataclass(frozen=True)
class Curve:
    """A kind of fit, what grows, and the places where it is measured."""

    name: str
    grows: str
    places: tuple[int, ...]
    fit: Callable[[int], Callable[[], object]]


def _regression(n: int, columns: int, perturbed: str) -> Callable[[], object]:
    """A logit with so many coefficients beside those of the perturbed column, which is the response or a covariate of five levels."""
    import pandas as pd

    import pramana as pr

    rng = np.random.default_rng(4)
    x = rng.normal(size=(columns - 1, n))
    g = rng.integers(0, len(LEVELS), n)
    eta = 0.3 * x[: min(3, len(x))].sum(axis=0) + 0.2 * g * (perturbed == "g")
    frame = pd.DataFrame({f"x{k}": v for k, v in enumerate(x)})
    frame = frame.assign(g=np.array(LEVELS)[g], y=(rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int))
    matrix = pr.TransitionMatrix.randomized_response(LEVELS if perturbed == "g" else (0, 1), KEEP)
    mechanism = pr.Mechanism({perturbed: matrix})
    released = mechanism.perturb(frame, seed=1)
    terms = [f"x{k}" for k in range(columns - 1)] + (["g"] if perturbed == "g" else [])
    return lambda: pr.fit(f"y ~ {' + '.join(terms)}", released, mechanism, family="binomial")


def _levels(count: int, perturbed: str) -> Callable[[], object]:
    """A linear model whose response or covariate is a number with so many perturbed levels."""
    import pandas as pd

    import pramana as pr

    rng = np.random.default_rng(5)
    x, g = rng.normal(size=RECORDS), rng.integers(0, count, RECORDS)
    frame = pd.DataFrame({"x": x, "g": g, "y": x + g / count + rng.normal(size=RECORDS)})
    matrix = pr.TransitionMatrix.randomized_response(tuple(range(count)), KEEP, kind="numeric")
    mechanism = pr.Mechanism({"g": matrix})
    released = mechanism.perturb(frame, seed=1)
    return lambda: pr.fit("g ~ x" if perturbed == "response" else "y ~ x + g", released, mechanism)


SIZES, COLUMNS, COUNTS = (10_000, 100_000, 1_000_000, 10_000_000), (2, 5, 10, 20, 50, 100), (2, 10, 100, 1000, 10_000)
CURVES = (
    Curve("perturbed response, 5 columns", "records", SIZES, lambda n: _regression(n, 5, "y")),
    Curve("perturbed covariate of 5 levels, 5 columns", "records", SIZES, lambda n: _regression(n, 5, "g")),
    Curve("perturbed response", "columns", COLUMNS, lambda d: _regression(RECORDS, d, "y")),
    Curve("perturbed covariate of 5 levels", "columns", COLUMNS, lambda d: _regression(RECORDS, d, "g")),
    Curve("perturbed response, 40 records a column", "columns", COLUMNS, lambda d: _regression(40 * d, d, "y")),
    Curve(
        "perturbed covariate of 5 levels, 40 records a column",
        "columns",
        COLUMNS[2:],
        lambda d: _regression(40 * d, d, "g"),
    ),
    Curve("linear model, perturbed response", "levels", COUNTS, lambda k: _levels(k, "response")),
    Curve("linear model, perturbed covariate", "levels", COUNTS[:-1], lambda k: _levels(k, "covariate")),
)
STREAMED = "perturbed response, 5 columns, Parquet in blocks"
Points = dict[int, float]


def seconds(curve: Curve, place: int) -> float:
    """The least of three fits after a first one, in this process."""
    import warnings

    warnings.simplefilter("ignore")
    work, times = curve.fit(place), []
    for _ in range(4):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times[1:])


def _in_process(module: str, *words: object) -> Any:
    command = [sys.executable, "-m", module, *map(str, words)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=HERE.parent)
    return json.loads(done.stdout.splitlines()[-1])


def measured(curve: Curve, largest: float) -> Points:
    number = CURVES.index(curve)
    limit = largest if curve.grows == "records" else math.inf
    return {p: _in_process("benchmarks.growth", "--point", number, p) for p in curve.places if p <= min(limit, 1e7)}


def streamed(largest: float) -> dict[int, dict[str, float]]:
    """What `benchmarks.streaming` measures of its first case, for files of 10⁵ records and more."""
    case, found = streaming.CASES[0], {}
    with tempfile.TemporaryDirectory() as folder:
        others = streaming.made_small(case, Path(folder))
        for n in (10**k for k in range(5, round(math.log10(largest)) + 1)):
            path = Path(folder) / f"{n}.parquet"
            streaming.make(case, n, path)
            row = _in_process("benchmarks.streaming", "--measure", case.name, path, *others)
            found[n] = row | {"bytes": path.stat().st_size}
            path.unlink()
    return found


def exponent(points: Points) -> float:
    """Slope of log time on log size, over the upper half of the sizes."""
    return law(dict(sorted(points.items())[max(0, len(points) // 2 - 1) :])).raw


def table(curves: dict[str, Points], grows: str) -> Iterator[str]:
    places = sorted({p for points in curves.values() for p in points})
    yield f"| {grows} | {' | '.join(f'{p:,}' for p in places)} | fixed cost, ms | exponent of the rest | raw exponent |"
    yield f"| --- |{' ---: |' * (len(places) + 3)}"
    for name, points in curves.items():
        cells = [f"{1e3 * points[p]:,.4g}" if p in points else "" for p in places]
        found = law(points)
        apart = ("", "") if np.isnan(found.power) else (f"{1e3 * found.fixed:.3g}", f"{found.power:.2f}")
        yield f"| {name}, ms | {' | '.join(cells)} | {' | '.join(apart)} | {exponent(points):.2f} |"


def picture(found: dict[str, dict[str, Points]]) -> None:
    from matplotlib.figure import Figure

    from pramana.render.figures import drawn, looks

    figure = Figure(figsize=(12, 4.2), layout="constrained")
    for place, (axes, (grows, curves)) in enumerate(zip(figure.subplots(1, len(found)), found.items(), strict=True)):
        for (name, points), (colour, marker) in zip(curves.items(), looks(list(curves)), strict=True):
            axes.loglog(list(points), list(points.values()), color=colour, marker=marker, label=name)
        least, first = min(min(points) for points in curves.values()), min(min(p.values()) for p in curves.values())
        ends = np.array([least, max(max(points) for points in curves.values())], dtype=float)
        axes.loglog(ends, first / 2 * ends / least, color="#bbbbbb", linestyle=":", label="in proportion")
        axes.set(xlabel=grows, ylabel="processor seconds a fit" if place == 0 else "")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7, loc="upper left")
        axes.margins(y=0.25)
    PICTURE.write_bytes(drawn(figure, ".png"))


def model(rows: dict[int, dict[str, float]]) -> Sequence[str]:
    """What a pass over the largest file cost, a record and a core, and what that makes of more records on more cores."""
    n, row = max(rows.items())
    passes = row["passes"] + 1  # the first one learns
    cost, size = row["cores"] / n / passes, row["bytes"] / n
    parameters, block = 5, 1_000_000
    moved = 8 * (2 * parameters**2 + 4 * parameters)
    lines = [
        f"Of {n:,} records, {row['passes']:.0f} passes of sums after the one that learns took {row['cores']:.1f} s of the processor: "
        f"{1e9 * cost:.0f} ns a record, a pass and a core. A record takes {size:.0f} bytes of the file. A block of {block:,} records sends back about "
        f"{moved:,} bytes of sums, whatever it holds.",
        "",
        "| records | cores | bytes of files | passes | bytes moved | hours |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for records, workers in ((1e10, 64), (1e11, 256), (1e12, 1024)):
        hours = records * cost * passes / workers / 3600
        volume = records / block * moved * passes
        lines.append(
            f"| {records:.0e} | {workers} | {records * size / 1e12:.2g} TB | {passes:.0f} | {volume / 1e6:,.0f} MB | {hours:.2g} |"
        )
    return lines


def page(largest: float) -> str:
    found: dict[str, dict[str, Points]] = {}
    for curve in CURVES:
        found.setdefault(curve.grows, {})[curve.name] = measured(curve, largest)
    rows = streamed(largest)
    found["records"][STREAMED] = {n: row["cores"] for n, row in rows.items()}
    picture(found)
    tables = "\n\n".join("\n".join(table(curves, grows)) for grows, curves in found.items())
    cost = "\n".join(model(rows))
    return f"""# How time grows

Made by `make bench` (the largest files by `python -m benchmarks.growth --largest 1e8`). {described()}

Whole warm fits with standard errors, milliseconds of the processor (all cores together), the least of three. Where columns or levels grow there are
{RECORDS:,} records, or 40 for each column, so few that their shares of the fit are corrected for (HC2); a covariate of 10,000 levels would need 10⁹ weights, and is refused. A fixed cost and a power of what is left, time = fixed + rate · size^exponent,
are fitted to all sizes by least relative squares (`benchmarks/law.py`; nothing where there are fewer than four); the raw exponent is the slope of log time on log
size over the upper half of the sizes, the fixed cost included. 1 is in proportion.

{tables}

![Seconds a fit by records, columns and levels, on logarithmic scales](../docs/images/growth.png)

## More records, more cores

{cost}

The hours are the measured cost spread evenly over the cores, as if storage kept up (every pass reads the columns in use once): a
lower bound to plan with, not a measurement.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=float, default=1e7)
    parser.add_argument("--point", nargs=2, type=int)
    given = parser.parse_args()
    if given.point:
        number, place = given.point
        print(json.dumps(seconds(CURVES[number], place)))
        return
    text = page(given.largest)
    (HERE / "GROWTH.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
