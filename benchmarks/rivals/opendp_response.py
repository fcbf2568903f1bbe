"""OpenDP's randomised response, a value at a time as its documentation has it. Skipped where OpenDP is not installed."""

from __future__ import annotations

import time
from typing import Any

NAME = "OpenDP, `make_randomized_response`"


def seconds_per_cell(codes: Any, keep: float, levels: int) -> float | None:
    """None without OpenDP."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    measurement = dp.m.make_randomized_response(list(range(levels)), prob=keep)
    values = [int(code) for code in codes]
    start = time.perf_counter()
    for value in values:
        measurement(value)
    return (time.perf_counter() - start) / len(values)
