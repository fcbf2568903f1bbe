"""Fixtures shared by all kinds of tests."""

from __future__ import annotations

import gc
import os
import secrets
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr

EDU = ("low", "mid", "high")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What compiles for a device goes with the other engines: `make engines-test`."""
    for item in items:
        if isinstance(item, pytest.Function) and "as_if_gpu" in item.fixturenames:
            item.add_marker("engines")


def pytest_collection_finish() -> None:
    """Modules and tests stay: the collector of garbage need not look at them again and again."""
    gc.collect()
    gc.freeze()


_TRUE_BYTES = secrets.token_bytes


@contextmanager
def _repeatable_secrets(name: str) -> Iterator[None]:
    """Fresh randomness from a stream of this name, so that what holds by chance holds in every run. Other processes have their own."""
    stream, here, before = (
        np.random.default_rng(zlib.crc32(name.encode())),
        os.getpid(),
        (secrets.token_bytes, secrets.randbits),
    )

    def token_bytes(size: int | None = None) -> bytes:
        return stream.bytes(size or 32) if os.getpid() == here else _TRUE_BYTES(size)

    secrets.token_bytes = token_bytes
    secrets.randbits = lambda k: int.from_bytes(token_bytes(-(-k // 8))) >> (-k % 8)
    try:
        yield
    finally:
        secrets.token_bytes, secrets.randbits = before


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item):
    with _repeatable_secrets(item.nodeid):
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any):
    """What several tests share does not depend on which of them comes first."""
    if fixturedef.scope == "function":
        yield
        return
    with _repeatable_secrets(f"{fixturedef.baseid}::{fixturedef.argname}[{request.param_index}]"):
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240607)


@pytest.fixture
def survey(rng: np.random.Generator) -> pd.DataFrame:
    """A small file with numbers, a three-level and a two-level text column."""
    n = 400
    edu = rng.choice(EDU, n, p=[0.5, 0.3, 0.2])
    age, female = rng.normal(size=n), rng.integers(0, 2, n)
    eta = 0.5 * age + np.array([EDU.index(e) for e in edu]) - 1
    return pd.DataFrame(
        {
            "age": age,
            "edu": edu,
            "female": female,
            "region": rng.choice(["north", "south"], n),
            "income": 1 + eta + 0.3 * female + rng.normal(size=n),
            "employed": np.where(rng.random(n) < 1 / (1 + np.exp(-eta)), "yes", "no"),
        }
    )


@pytest.fixture
def mechanism() -> pr.Mechanism:
    return pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(EDU, keep=0.85)})


@pytest.fixture
def large_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sample is large enough for the sandwich as it is: for identities of that form, at sizes where few units would count."""
    for name in ("ENOUGH", "EFFECTIVE"):
        monkeypatch.setattr(f"pramana.inference.few_units.{name}", 0)
    monkeypatch.setattr("pramana.estimators.likelihood.variance.ENOUGH", 0)


@pytest.fixture
def as_if_gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The kernels for a device, which JAX then runs on the CPU."""
    accelerator = pytest.importorskip("pramana.kernels.accelerator")
    monkeypatch.setattr(accelerator, "devices", lambda kind: [kind])
    return accelerator


def _plain(value: object) -> object:
    """Recorded numbers as plain Python, which test processes can send to each other."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    outcome = yield
    report = outcome.get_result()
    report.user_properties = [(name, _plain(value)) for name, value in report.user_properties]
