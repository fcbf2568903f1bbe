"""Sums on Spark, whose workers read the files by themselves: one row of totals for every piece."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import pyarrow as pa

from pramana.engines.executor import Sent
from pramana.errors import PramanaError
from pramana.frames.workers import Workers

J = TypeVar("J")
T = TypeVar("T")


@dataclass(frozen=True)
class SparkEngine(Workers):
    """Pieces of files, read and added up by the Python workers of Spark. A piece whose worker is lost is done again by another.

    Attributes
    ----------
    session : a `SparkSession`; by default the one that is active, or else the one that Spark's configuration describes.
    ahead : pieces of one Spark job.
    """

    session: Any = None
    ahead: int = 256

    def answers(self, work: Callable[[J], T], jobs: Iterable[J]) -> Iterator[T]:
        session, answer, waiting = self.session or _session(), _answering(Sent.of(work)), iter(jobs)
        while group := list(islice(waiting, self.ahead)):
            rows = pa.table({"place": range(len(group)), "content": [pickle.dumps(job) for job in group]})
            try:
                spread = session.createDataFrame(rows).repartitionByRange(len(group), "place")
                found = spread.mapInArrow(answer, "place long, content binary").collect()
            except Exception as error:
                raise PramanaError(f"Spark gave up: {str(error).splitlines()[0][:300]}") from None
            yield from (_opened(row["content"]) for row in sorted(found, key=lambda row: row["place"]))


def _session() -> Any:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise PramanaError("engine='spark' needs the package pyspark: pip install 'pramana[spark]'") from None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    except Exception as error:
        raise PramanaError(
            f"Spark did not start ({type(error).__name__}): it needs a Java runtime, version 17 or later (on Debian apt-get install "
            "openjdk-17-jre-headless), in the PATH or as JAVA_HOME"
        ) from None


def _answering(sent: Sent[Any, Any]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a partition of jobs becomes: their answers, and errors as such, of which Spark would keep the text alone."""

    def answers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found: list[bytes] = []
            for job in batch.column("content").to_pylist():
                try:
                    found.append(pickle.dumps(sent(pickle.loads(job))))
                except PramanaError as error:
                    found.append(pickle.dumps(error))
            yield pa.RecordBatch.from_arrays(
                [batch.column("place"), pa.array(found, pa.binary())], ["place", "content"]
            )

    return answers


def _opened(content: bytes) -> Any:
    found = pickle.loads(content)
    if isinstance(found, PramanaError):
        raise found
    return found
