"""Something the analyst should know about a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Diagnostic:
    """Something the analyst should know about a fit."""

    code: str
    severity: Literal["info", "warning", "error"]
    message: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.message}"
