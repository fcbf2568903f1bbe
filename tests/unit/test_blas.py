"""The number of BLAS threads while our own threads run."""

from __future__ import annotations

import threading

import numpy as np
import pandas as pd
import pytest
import scipy.linalg

import pramana as pr
from pramana import blas
from pramana.blas import one_blas_thread
from pramana.engines import local


def settings() -> list[int]:
    return [found[0]() for found in map(blas._loaded, blas._files()) if found is not None]


@pytest.fixture
def three() -> object:
    """A caller who wants three threads, and gets them back."""
    assert scipy.linalg.norm(np.ones((2, 2)) @ np.ones((2, 2))) == 4  # both libraries are in use
    found = [library for library in map(blas._loaded, blas._files()) if library is not None]
    if not found:
        pytest.skip("NumPy has another BLAS here")
    before = settings()
    for _, write in found:
        write(3)
    yield
    for (_, write), threads in zip(found, before, strict=True):
        write(threads)


def test_the_setting_of_the_caller_comes_back(three: object) -> None:
    with one_blas_thread():
        assert set(settings()) == {1}
        with one_blas_thread():
            assert set(settings()) == {1}
        assert set(settings()) == {1}
    assert set(settings()) == {3}
    with pytest.raises(RuntimeError, match="in the middle"), one_blas_thread():
        raise RuntimeError("in the middle")
    assert set(settings()) == {3}


def test_callers_in_several_threads_share_the_cap(three: object) -> None:
    inside, done = threading.Event(), threading.Event()

    def other() -> None:
        with one_blas_thread():
            inside.set()
            done.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(10)
    with one_blas_thread():
        assert set(settings()) == {1}
    assert set(settings()) == {1}  # the other one still wants it
    done.set()
    thread.join()
    assert set(settings()) == {3}


def test_a_fit_on_threads_asks_for_one(three: object, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[int] = set()
    sums = local.SampledBlock.rows.fget

    def watched(block: local.SampledBlock) -> slice:
        seen.update(settings())  # on the threads of the fit
        return sums(block)  # type: ignore[misc]

    monkeypatch.setattr(local.SampledBlock, "rows", property(watched))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=40_000), "y": rng.integers(0, 2, 40_000)})
    mechanism = pr.Mechanism({"y": pr.TransitionMatrix.randomized_response([0, 1], 0.8)})
    monkeypatch.setattr(local, "BLOCK_ENTRIES", 1000)
    pr.fit("y ~ x", frame, mechanism, family="binomial")
    assert 1 in seen
    assert set(settings()) == {3}
