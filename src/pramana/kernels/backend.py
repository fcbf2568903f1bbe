"""Which kernels run: compiled where numba is installed and the work is worth it, NumPy otherwise. Same answers."""

from __future__ import annotations

from functools import cache
from typing import Any

from pramana.errors import PramanaError

WORTHWHILE = 200_000
"""Rows × nodes from which loading the compiled kernels pays for a single equation."""


def worthwhile(equations: int, work: int) -> bool:
    """Decided by the shapes alone, so that equal work gives equal bits whatever was done before."""
    return equations > 1 or work >= WORTHWHILE


@cache
def compiled() -> Any | None:
    """The compiled kernels, or None without numba (extra `fast`)."""
    try:
        from pramana.kernels import compiled as module
    except ImportError:
        return None
    return module


@cache
def compiled_noise() -> Any | None:
    """Those of equations with noise in covariates; None likewise."""
    try:
        from pramana.kernels import compiled_noise as module
    except ImportError:
        return None
    return module


def accelerated(device: str) -> Any:
    """The kernels for a device that is no CPU; an error that says what is missing."""
    try:
        from pramana.kernels import accelerator
    except ImportError:
        raise PramanaError(
            f"device {device!r} needs JAX: install the extra 'jax', with JAX's own plugin for your GPU, or leave out the device"
        ) from None
    accelerator.devices(device)
    return accelerator
