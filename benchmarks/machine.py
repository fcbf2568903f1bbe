"""What a table of times was measured on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path


def described(*rivals: str) -> str:
    """Processor and what else it has to do, interpreter and libraries, in a sentence; by default with the rivals of resampling."""
    names = ("numpy", "scipy", "numba", *(rivals or ("delicatessen", "statsmodels")))
    packages = ", ".join(f"{name} {version(name)}" for name in names)
    machine = f"{_processor()} ({os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f})"
    return f"Measured on {machine}, Python {platform.python_version()}, {packages}."


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
