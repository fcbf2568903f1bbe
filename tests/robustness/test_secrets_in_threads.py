"""Warnings of other libraries stay without their text on the confidential side, however calls overlap in threads."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from pramana.errors import PramanaWarning, confidential

SECRET = "7318281"
WAIT = 10.0


def foreign() -> None:
    warnings.warn(f"value {SECRET}", RuntimeWarning, stacklevel=2)


@confidential
def waiting(entered: Event, go: Event, then: Callable[[], None]) -> None:
    entered.set()
    assert go.wait(WAIT)
    then()


def started(pool: ThreadPoolExecutor, go: Event, then: Callable[[], None] = lambda: None) -> object:
    entered = Event()
    job = pool.submit(waiting, entered, go, then)
    assert entered.wait(WAIT)
    return job


def texts(seen: list[warnings.WarningMessage]) -> str:
    return " ".join(str(one.message) for one in seen)


def test_a_call_that_outlives_another_keeps_its_secrets() -> None:
    first, second = Event(), Event()
    with warnings.catch_warnings(record=True) as seen, ThreadPoolExecutor(2) as pool:
        warnings.simplefilter("always")
        early, late = started(pool, first), started(pool, second, foreign)
        first.set()
        early.result(WAIT)  # type: ignore[attr-defined]
        second.set()
        late.result(WAIT)  # type: ignore[attr-defined]
    assert len(seen) == 1
    assert "withheld" in texts(seen)
    assert SECRET not in texts(seen)


def test_afterwards_warnings_have_their_text_again() -> None:
    first, second = Event(), Event()
    with ThreadPoolExecutor(2) as pool:
        jobs = [started(pool, first), started(pool, second)]
        for go, job in zip((first, second), jobs, strict=True):
            go.set()
            job.result(WAIT)  # type: ignore[attr-defined]
    with pytest.warns(RuntimeWarning, match=SECRET):
        foreign()


def test_whoever_puts_the_filters_back_meanwhile_puts_no_text_back() -> None:
    """As a library does in another thread with `catch_warnings`, which was entered before the confidential call."""
    go = Event()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with ThreadPoolExecutor(1) as pool:
            with warnings.catch_warnings():
                job = started(pool, go, foreign)
            go.set()
            job.result(WAIT)  # type: ignore[attr-defined]
    assert "withheld" in texts(seen)
    assert SECRET not in texts(seen)


def test_threads_that_a_call_starts_are_covered_and_words_of_our_own_stay() -> None:
    @confidential
    def spread() -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(foreign).result(WAIT)
        warnings.warn("ours", PramanaWarning, stacklevel=2)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        spread()
    assert SECRET not in texts(seen)
    assert texts(seen).endswith("ours")
