"""Reports of several tables: data first, every rendering derives from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pramana.render import Sheet, Shown, Text, render


class Report(Shown):
    """What every report of the custodian can do, given its tables and its data."""

    def sheets(self) -> tuple[Sheet, ...]:
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Everything that can be written as JSON; no record's value."""
        raise NotImplementedError

    def summary(self, style: str = "text") -> str:
        """The tables one below the other; one object in JSON."""
        sheets = self.sheets()
        if style == "json":
            return render(replace(sheets[0], data=self.to_dict()), style)
        return Text("\n\n".join(render(sheet, style) for sheet in sheets))
