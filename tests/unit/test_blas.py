"""The number of BLAS threads while our own threads run."""

from __future__ import annotations

import os
import subprocess
import sys
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


def seen_in_a_fit(n: int, monkeypatch: pytest.MonkeyPatch) -> tuple[set[int], pr.Result]:
    """The settings while blocks of records are added up, on whichever thread."""
    seen: set[int] = set()
    sums = local.SampledBlock.rows.fget

    def watched(block: local.SampledBlock) -> slice:
        seen.update(settings())
        return sums(block)  # type: ignore[misc]

    monkeypatch.setattr(local.SampledBlock, "rows", property(watched))
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=n), "y": rng.integers(0, 2, n)})
    mechanism = pr.Mechanism({"y": pr.TransitionMatrix.randomized_response([0, 1], 0.8)})
    result = pr.fit("y ~ x", frame, mechanism, family="binomial")
    assert set(settings()) == {3}
    return set(seen), result


def test_a_fit_on_threads_asks_for_one(three: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "cores", lambda: 2)
    monkeypatch.setattr(local, "BLOCK_ENTRIES", 1000)
    monkeypatch.setattr(blas, "FEW", 0)  # as if there were many columns
    assert 1 in seen_in_a_fit(40_000, monkeypatch)[0]


def test_a_fit_of_few_columns_asks_for_one_and_one_of_many_does_not(
    three: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, one = seen_in_a_fit(4000, monkeypatch)
    monkeypatch.setattr(blas, "FEW", 1)
    many, other = seen_in_a_fit(4000, monkeypatch)
    assert (few, many) == ({1}, {3})
    np.testing.assert_allclose(one.estimate, other.estimate, rtol=1e-12)
    np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-12)


def test_a_fit_that_fails_gives_the_setting_back(three: object) -> None:
    with pytest.raises(pr.PramanaError):
        pr.fit("y ~ x", {"x": [1.0, 1.0, 1.0], "y": [0.0, 1.0, 0.0]}, None)
    assert set(settings()) == {3}


@pytest.mark.skipif(sys.platform != "linux", reason="processes are bound to cores on Linux alone")
def test_cores_are_those_that_the_process_may_use() -> None:
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); from pramana.blas import cores; print(cores())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "1\n"
    assert 1 <= blas.cores() <= (os.cpu_count() or 1)
