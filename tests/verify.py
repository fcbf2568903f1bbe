"""`python tests/verify.py`: the long statistical runs, and their log in docs/verification.md."""

from __future__ import annotations

import ast
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
import pytest
import scipy

import pramana

ROOT = Path(__file__).resolve().parent.parent
LOG = ROOT / "docs" / "verification.md"
FIRST = (
    "Weak identification",
    "Few units",
    "Boundary intervals",
    "Step functions",
    "Score intervals",
    "Measured coverage",
    "Plans tried",
)
"""Files whose checks a sceptic reads first: the edges. The others follow by name."""
CASE, COMMIT, FAILED = "case", "commit", "**failed**"
Row = dict[str, str]
Log = dict[tuple[str, ...], list[Row]]
"""Rows by chapter and sentence."""

PREFACE = """\
# Verification

`make verify` wrote this page. Every check draws its data anew with fixed seeds, perturbs them, and fits the released
data through the public interface. Each row names the commit of the code that it is of.

- `below`, `above`: shares of the replicates whose 95 % interval lies below and above the truth; `coverage`: 1 minus both. The settings
  listed in the first sections are at the edges: few units, faint signals, boundaries, steps. They must cover 0.93 to 0.97 (more where
  units are few), within three Monte Carlo errors, or be flagged; the others within 4.5 Monte Carlo errors plus 0.01.
- `flagged`: share of the fits that carry a warning or an error of any kind; `refused`, `no root`: those without an answer, which count neither as covered nor as missed.
- `bias`: mean estimate minus truth; `MC error`: its Monte Carlo standard error; `z`: their ratio. The limit is 4.5.
- `SD`: spread of the estimates; `SE / SD`: mean standard error over it. The limit is 4.5 Monte Carlo errors plus 2 %.
- `z, P off by 0.05`: the same ratio (from at most 200 replicates) for an analyst whose keep probabilities are 0.05 too low;
  at least one parameter must exceed 8.
- The five estimators are compared with a known bias, not with zero: the proposed one has a bias of order 1/n at
  p = 0.75, n = 1000, also in Table 1 of the paper, which its median hardly has.
"""


@dataclass
class Recorder:
    """A pytest plugin that keeps what the tests record with `record_property`."""

    reports: list[pytest.TestReport] = field(default_factory=list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.failed:
            self.reports.append(report)


def main(arguments: Sequence[str] = ()) -> int:
    """Run the marked tests, all of them or those that the arguments choose (`-k edges`, files). The log is written whether or not they
    pass; rows of tests that did not run stay, with the commit that they are of."""
    recorder = Recorder()
    state = commit()
    chosen = [] if any(Path(word.partition("::")[0]).exists() for word in arguments) else [str(ROOT / "tests")]
    code = pytest.main(["-m", "verify", "-vv", "--durations", "10", *chosen, *arguments], plugins=[recorder])
    LOG.parent.mkdir(exist_ok=True)
    kept = rows_of(LOG.read_text(encoding="utf-8")) if arguments and LOG.exists() else {}
    for report in recorder.reports:
        *place, case = place_of(report.nodeid)
        others = [row for row in kept.get(tuple(place), []) if row[CASE] != case]
        kept[tuple(place)] = others + recorded(report, case, state)
    LOG.write_text(page(kept), encoding="utf-8")
    print(f"wrote {LOG.relative_to(ROOT)}")
    return int(code)


def commit() -> str:
    """The commit of the code that is tested, and whether the code differs from it."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "src", "tests/statistical")
        return git("rev-parse", "--short", "HEAD") + (" and changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def place_of(nodeid: str) -> tuple[str, str, str]:
    """The chapter that the file is, the sentence that names the test, and its case without the number of replicates.

    >>> place_of("tests/statistical/test_a.py::test_a_mean[three-level-2000]")
    ('A', 'A mean', 'three-level')
    """
    file, _, name = nodeid.rpartition("::")
    test, _, case = name.partition("[")
    return said(Path(file).stem), said(test), re.sub(r"(^|-)\d+$", "", case.rstrip("]"))


def said(name: str) -> str:
    """The name of a test or of a file of tests, as a sentence."""
    words = name.removeprefix("test_").replace("_", " ")
    return words[0].upper() + words[1:]


def recorded(report: pytest.TestReport, case: str, state: str) -> list[Row]:
    """What one test wrote down, in words; a failed one has at least a row that says so."""
    noted: Any = next((rows for name, rows in report.user_properties if name == "rows"), [{}])
    done = f"{state} {FAILED}" if report.failed else state
    return [{CASE: case, **{name: cell(name, value) for name, value in row.items()}, COMMIT: done} for row in noted]


def cell(column: str, value: object) -> str:
    if isinstance(value, str):
        return value.replace("|", "\\|")
    if isinstance(value, int | numpy.integer):
        return str(value)
    number = float(value)  # type: ignore[arg-type]
    return f"{number:.1f}" if column.startswith("z") else f"{number:.4f}"


# --- The page ---------------------------------------------------------------------------------------------------


def page(found: Log) -> str:
    """The preface, and a chapter for every file of tests; what is no longer tested is left out."""
    versions = {"NumPy": numpy.__version__, "SciPy": scipy.__version__, "pramana": pramana.__version__}
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    chapters = list(_chapters(found))
    parts = [f"{PREFACE}- Python {platform.python_version()}, {listed}", "\n".join(_overview(chapters))]
    for name, about, tables in chapters:
        parts.append(f"## {name}\n\n{about}")
        parts += [
            f"### {sentence}\n\n" + "\n".join(table(sorted(rows, key=_case))) for sentence, rows in tables.items()
        ]
    return "\n\n".join(parts) + "\n"


Chapter = tuple[str, str, dict[str, list[Row]]]


def _chapters(found: Log) -> Iterator[Chapter]:
    """Of every file: its name, its docstring, and the rows of its tests."""
    files = {said(path.stem): path for path in sorted((ROOT / "tests").rglob("test_*.py"))}
    for name in dict.fromkeys([*FIRST, *files]):
        module = ast.parse(files[name].read_text(encoding="utf-8"))
        tests = [said(node.name) for node in module.body if isinstance(node, ast.FunctionDef)]
        tables = {sentence: found[name, sentence] for sentence in tests if found.get((name, sentence))}
        if tables:
            yield name, ast.get_docstring(module) or "", tables


def _overview(chapters: Iterable[Chapter]) -> Iterator[str]:
    """A line for every chapter: its checks, and the least and largest coverage among its rows."""
    shown = []
    for name, _, tables in chapters:
        rows = [row for rows in tables.values() for row in rows]
        cases = {(sentence, row[CASE]): row[COMMIT] for sentence, rows in tables.items() for row in rows}
        covered = sorted(float(row["coverage"]) for row in rows if row.get("coverage"))
        sides = [float(row[side]) for row in rows for side in ("below", "above") if row.get(side)]
        numbers = [f"{x:.4f}" for x in (*covered[:1], *covered[-1:])] or ["", ""]
        failed = sum(FAILED in done for done in cases.values())
        most = f"{max(sides):.4f}" if sides else ""
        shown.append(
            {
                "chapter": f"[{name}](#{name.lower().replace(' ', '-')})",
                "checks": str(len(cases)),
                "failed": str(failed),
                "least coverage": numbers[0],
                "largest": numbers[1],
                "most on one side": most,
            }
        )
    yield from table(shown)


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Markdown; columns that hold nothing are left out."""
    columns = [c for c in dict.fromkeys(c for row in rows for c in row) if any(row.get(c) for row in rows)]
    columns = [c for c in columns if c != COMMIT] + [c for c in columns if c == COMMIT]
    yield "| " + " | ".join(columns) + " |"
    yield "| " + " | ".join("---:" if _numeric(row.get(c, "") for row in rows) else "---" for c in columns) + " |"
    for row in rows:
        yield "| " + " | ".join(row.get(c, "") for c in columns) + " |"


def _case(row: Row) -> str:
    return row[CASE]


def _numeric(cells: Iterable[str]) -> bool:
    return all(re.fullmatch(r"-?[\d.]*(nan|inf)?", text) for text in cells)


def rows_of(text: str) -> Log:
    """The rows of a page, by the chapter and the sentence above their table.

    >>> rows_of("# Page\\n\\n## Means\\n\\n### A mean\\n\\n| case | z | commit |\\n| --- | ---: | --- |\\n| a | 1.0 | abc |\\n")
    {('Means', 'A mean'): [{'case': 'a', 'z': '1.0', 'commit': 'abc'}]}
    """
    found: Log = {}
    for chapter in text.split("\n## ")[1:]:
        name, *parts = chapter.split("\n### ")
        for part in parts:
            sentence, *body = part.split("\n")
            lines = [_cells(line) for line in body if line.startswith("|")]
            rows = [{CASE: "", **dict(zip(lines[0], line, strict=True))} for line in lines[2:]]
            found[name.split("\n")[0], sentence] = rows
    return found


def _cells(line: str) -> list[str]:
    return [part.strip() for part in re.split(r"(?<!\\)\|", line)[1:-1]]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
