"""Sums on any `concurrent.futures.Executor`: threads, processes, or whatever else has one."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pramana.blas import cores
from pramana.errors import PramanaError
from pramana.frames.workers import Workers, in_order

J = TypeVar("J")
T = TypeVar("T")


@dataclass(frozen=True)
class ExecutorEngine(Workers):
    """Pieces of files, read and added up by the workers of a pool.

    Attributes
    ----------
    executor : the pool, which stays open. Processes are best started by "spawn" or "forkserver".
    ahead : pieces that are under way at a time; four a core of this machine by default.
    """

    executor: Executor
    ahead: int | None = None

    def answers(self, work: Callable[[J], T], jobs: Iterable[J]) -> Iterator[T]:
        sent = work if isinstance(self.executor, ThreadPoolExecutor) else Sent.of(work)
        most = self.ahead or 4 * cores()
        try:
            yield from in_order(lambda job: self._given(sent, job), jobs, most)
        except BrokenExecutor:
            raise PramanaError(
                "a process of the pool died: the pool is broken. Did it run out of memory? Make a new one with fewer processes, and fit again"
            ) from None

    def _given(self, sent: Callable[[J], T], job: J) -> Future[T]:
        try:
            return self.executor.submit(sent, job)
        except BrokenExecutor:
            raise
        except RuntimeError as error:
            raise PramanaError(f"the pool of engine= takes no work ({error}): make a new one, and fit again") from None


@dataclass(frozen=True)
class Sent(Generic[J, T]):
    """A function that travels, whatever it is made of: parts of sums are closures, which `pickle` does not know."""

    code: bytes = field(repr=False)

    @classmethod
    def of(cls, work: Callable[[J], T]) -> Sent[J, T]:
        try:
            import cloudpickle
        except ImportError:
            raise PramanaError(
                "work travels to other processes with the help of cloudpickle: pip install 'pramana[dask]'"
            ) from None
        try:
            return cls(cloudpickle.dumps(work))
        except Exception as error:
            raise PramanaError(
                f"this analysis cannot travel to other processes ({type(error).__name__}: {str(error)[:200]}): functions of your own must not "
                "hold open files or locks; or leave out engine="
            ) from None

    def __call__(self, job: J) -> T:
        work: Any = pickle.loads(self.code)
        return work(job)
