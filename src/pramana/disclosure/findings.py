"""What an audit found, as data first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pramana.render import Sheet, render

Severity = Literal["error", "warning", "ok"]
_ORDER: dict[str, int] = {"error": 0, "warning": 1, "ok": 2}


@dataclass(frozen=True)
class Finding:
    """One check and how it ended."""

    check: str
    severity: Severity
    message: str


@dataclass(frozen=True)
class Audit:
    """All findings about a released file. `clean` when none is an error."""

    path: str
    findings: tuple[Finding, ...]

    @property
    def clean(self) -> bool:
        return not any(f.severity == "error" for f in self.findings)

    def of(self, severity: Severity) -> list[Finding]:
        return [f for f in self.findings if f.severity == severity]

    def to_dict(self) -> dict[str, Any]:
        return {"path": self.path, "clean": self.clean, "findings": [asdict(f) for f in self.findings]}

    def summary(self, style: str = "text") -> str:
        """The findings as a table, the worst first."""
        rows = sorted(((f.severity, f.check, f.message) for f in self.findings), key=lambda row: _ORDER[row[0]])
        counts = [f"{len(self.of(s))} {s}" for s in ("error", "warning", "ok") if self.of(s)]
        sheet = Sheet(
            ("severity", "check", "finding"),
            tuple(rows),
            f"Audit of {self.path}: {', '.join(counts)}",
            data=self.to_dict(),
        )
        return render(sheet, style)

    def to_markdown(self) -> str:
        return self.summary("markdown")

    def __str__(self) -> str:
        return self.summary()


def verdict(check: str, problems: Sequence[Finding], good: str) -> list[Finding]:
    """The problems found, or one line that says what was in order."""
    return list(problems) or [Finding(check, "ok", good)]
