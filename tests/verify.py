"""`python tests/verify.py`: the long statistical runs, and their log in docs/verification.md."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
import pytest
import scipy

import pramana

ROOT = Path(__file__).resolve().parent.parent
LOG = ROOT / "docs" / "verification.md"

PREFACE = """\
# Verification

`make verify` wrote this page. Every check draws its data anew with fixed seeds, perturbs them, and fits the released
data through the public interface.

- `bias`: mean estimate minus truth; `MC error`: its Monte Carlo standard error; `z`: their ratio. The limit is 4.5.
- `SD`: spread of the estimates; `SE / SD`: mean standard error over it. The limit is 4.5 Monte Carlo errors plus 2 %.
- `coverage`: of the 95 % interval. The limit is 4.5 Monte Carlo errors plus 0.01, for the size of the samples.
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
    pass; sections of tests that did not run stay, with the commit that they are of."""
    recorder = Recorder()
    state = commit()
    chosen = [] if any(Path(word.partition("::")[0]).exists() for word in arguments) else [str(ROOT / "tests")]
    code = pytest.main(["-m", "verify", "-vv", "--durations", "10", *chosen, *arguments], plugins=[recorder])
    LOG.parent.mkdir(exist_ok=True)
    kept = {} if not LOG.exists() else sections(LOG.read_text(encoding="utf-8"))
    found = {title(report.nodeid): section(report, state) for report in recorder.reports}
    LOG.write_text(page(kept | found if arguments else found), encoding="utf-8")
    print(f"wrote {LOG.relative_to(ROOT)}")
    return int(code)


def commit() -> str:
    """The commit of the code that is tested, and whether the code differs from it."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "src", "tests/statistical")
        return git("rev-parse", "--short", "HEAD") + (" with uncommitted changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def page(found: Mapping[str, str]) -> str:
    """The preface, and the sections in the order of their titles."""
    versions = {"NumPy": numpy.__version__, "SciPy": scipy.__version__, "pramana": pramana.__version__}
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    failed = sum("**Failed.**" in text for text in found.values())
    head = f"{PREFACE}\n- Python {platform.python_version()}, {listed}\n- Checks: {len(found)}, {failed} failed\n"
    return head + "".join(f"\n## {name}\n\n{found[name]}\n" for name in sorted(found))


def section(report: pytest.TestReport, state: str) -> str:
    """What one test found, of which commit, and in what time."""
    lines = [f"Commit {state}, {report.duration:.0f} s.", *(["**Failed.**"] if report.failed else []), ""]
    for name, rows in report.user_properties:
        if name == "rows":
            lines += [*table(rows), ""]  # type: ignore[arg-type]
    return "\n".join(lines).rstrip()


def sections(text: str) -> dict[str, str]:
    """The sections of a page, by title.

    >>> sections("# Page\\n\\n## A mean\\n\\nCommit abc, 3 s.\\n")
    {'A mean': 'Commit abc, 3 s.'}
    """
    parts = (part.partition("\n") for part in text.split("\n## ")[1:])
    return {name: body.strip() for name, _, body in parts}


def title(nodeid: str) -> str:
    """The sentence that names the test, with its case.

    >>> title("tests/statistical/test_a.py::test_a_mean[three-level-2000]")
    'A mean (three-level)'
    """
    name, _, case = nodeid.rpartition("::test_")[2].partition("[")
    kept = re.sub(r"(^|-)\d+(-\d+)*$", "", case.rstrip("]"))
    sentence = name.replace("_", " ")
    return sentence[0].upper() + sentence[1:] + (f" ({kept})" if kept else "")


def table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    columns = list(rows[0])
    yield "| " + " | ".join(columns) + " |"
    yield "| " + " | ".join("---" if isinstance(rows[0][c], str) else "---:" for c in columns) + " |"
    for row in rows:
        yield "| " + " | ".join(cell(c, row[c]) for c in columns) + " |"


def cell(column: str, value: object) -> str:
    if isinstance(value, str):
        return value.replace("|", "\\|")
    if isinstance(value, int | numpy.integer):
        return str(value)
    number = float(value)  # type: ignore[arg-type]
    return f"{number:.1f}" if column.startswith("z") else f"{number:.4f}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
