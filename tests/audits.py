"""Audits of which one check is looked at."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pramana as pr


def findings(path: Path, check: str, **options: Any) -> list[tuple[str, str]]:
    """Severity and message of every finding of a check; what gives values away takes most of the time, and is not searched for where
    only the transitions are asked for."""
    search = "pramana.disclosure.audit.giveaways.released_file.check_giveaways"
    with patch(search, return_value=[]) if check == "transitions" else nullcontext():
        return [(f.severity, f.message) for f in pr.audit(path, **options).findings if f.check == check]
