"""Whoever works on the parts of a source: threads on batches that are read here, or workers that read pieces of files by themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from pramana.blas import cores, one_blas_thread
from pramana.errors import PramanaError
from pramana.frames.sources import Source

AHEAD = 2
"""Jobs that wait for each thread."""

SourcePart: TypeAlias = pa.RecordBatch | Source
"""Some records of a source: a batch that was read, or a piece that whoever works on it reads."""
J = TypeVar("J")
T = TypeVar("T")


def batches_of(part: SourcePart, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The records of a part, with these columns."""
    return iter([part]) if isinstance(part, pa.RecordBatch) else part.batches(columns)


class Workers(ABC):
    """Whoever works on pieces of files. Names of files, functions and what these find are all that travels."""

    @abstractmethod
    def answers(self, work: Callable[[J], T], jobs: Iterable[J]) -> Iterator[T]:
        """What `work` finds for each job, in the order of the jobs."""

    def parts(self, source: Source, columns: Sequence[str]) -> Iterator[SourcePart]:  # noqa: ARG002 - whoever reads a piece asks for them
        """All records of the source, in their order."""
        pieces = source.pieces()
        if pieces is None:
            raise PramanaError(
                f"the workers of {type(self).__name__} read files by themselves, and {source.label} is none: write Parquet files and give "
                "these, raise memory=, or leave out engine="
            )
        return iter(pieces)

    def suited(self, source: Source) -> Workers:
        """These workers, or threads where the source is not for them."""
        return self if source.pieces() is not None else Threads()


@dataclass(frozen=True)
class Threads(Workers):
    """Threads of this process, all cores by default."""

    count: int | None = None

    def parts(self, source: Source, columns: Sequence[str]) -> Iterator[SourcePart]:
        return source.batches(columns)

    def suited(self, source: Source) -> Workers:  # noqa: ARG002
        return self

    def answers(self, work: Callable[[J], T], jobs: Iterable[J]) -> Iterator[T]:
        count = self.count or cores()
        if count == 1:
            yield from map(work, jobs)
            return
        with one_blas_thread(), ThreadPoolExecutor(count) as pool:
            yield from in_order(lambda job: pool.submit(work, job), jobs, AHEAD * count)


def in_order(
    submit: Callable[[J], Future[T]],
    jobs: Iterable[J],
    most: int,
    result: Callable[[Future[T]], T] = lambda future: future.result(),
) -> Iterator[T]:
    """The answers in the order of the jobs, of which no more than so many are under way at a time."""
    waiting: deque[Future[Any]] = deque()
    try:
        for job in jobs:
            waiting.append(submit(job))
            if len(waiting) >= most:
                yield result(waiting.popleft())
        while waiting:
            yield result(waiting.popleft())
    finally:
        for future in waiting:
            future.cancel()
