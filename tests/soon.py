"""Calls that must end soon."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")
TRIES = 3
"""A first call imports and compiles, and a machine may be busy with something else."""


def soon(call: Callable[..., Answer], *given: object, seconds: float = 2.0) -> Answer:
    """What a call answers or raises, which took less than so many seconds of the processor in one of some tries."""
    for _ in range(TRIES):
        answer, refusal = None, None
        began = time.process_time()
        try:
            answer = call(*given)
        except Exception as raised:
            refusal = raised
        took = time.process_time() - began
        if took < seconds:
            break
    assert took < seconds, f"{str(given)[:80]} took {took:.1f} s"
    if refusal is not None:
        raise refusal
    return answer  # type: ignore[return-value]
