"""Records in an order drawn at random, however many there are.

Every record is sent to one of several heaps at random, and each heap, which fits into memory, is put into a random order: one
after the other they make a uniformly random order of all. Heaps wait in a file without a name, which vanishes with the process;
it holds released values only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pramana.arrays import Int
from pramana.frames.writing import scratch
from pramana.mechanism.draws.keystream import Keystream

HEAP = 1 << 25
"""Bytes of a heap, about."""
MOST_HEAPS = 256
ROWS = 1 << 18
"""Records written at a time."""


class Shuffle:
    """Batches in, the same records out in another order.

    Parameters
    ----------
    folder : where the file without a name is kept: the target's, which has room for the release anyway.
    stream : the random words.
    expected : bytes of all batches together, about.
    """

    def __init__(self, folder: Path, stream: Keystream, expected: int) -> None:
        self._heaps = 1 << max(0, min(MOST_HEAPS, -(-expected // HEAP)) - 1).bit_length()
        self._file = scratch(folder)
        self._stream = stream
        self._slices: list[list[tuple[int, int]]] = [[] for _ in range(self._heaps)]
        self._heap_of: list[Any] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Send the records to their heaps."""
        heap = (self._stream.words(batch.num_rows) % np.uint64(self._heaps)).astype(np.uint16)
        self._heap_of.append(heap)
        order = np.argsort(heap, kind="stable")
        edges = np.searchsorted(heap[order], np.arange(self._heaps + 1))
        moved = batch.take(pa.array(order))
        for number, (low, high) in enumerate(pairwise(edges.tolist())):
            if high > low:
                self._slices[number].append(self._kept(moved.slice(low, high - low)))

    def _kept(self, batch: pa.RecordBatch) -> tuple[int, int]:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        data = sink.getvalue()
        place = self._file.seek(0, os.SEEK_END)
        self._file.write(data)
        return place, data.size

    def shuffled(self) -> Iterator[tuple[pa.RecordBatch, Int]]:
        """The records in their new order, a batch at a time, and the row that each had."""
        heap_of = np.concatenate(self._heap_of) if self._heap_of else np.empty(0, dtype=np.uint16)
        for number, slices in enumerate(self._slices):
            if slices:
                heap = pa.Table.from_batches([b for place in slices for b in self._read(*place)]).combine_chunks()
                order = np.argsort(self._stream.words(heap.num_rows), kind="stable")
                rows = np.flatnonzero(heap_of == number)[order]
                for low in range(0, heap.num_rows, ROWS):
                    part = heap.take(pa.array(order[low : low + ROWS])).combine_chunks()
                    yield part.to_batches()[0], rows[low : low + ROWS]

    def _read(self, place: int, size: int) -> list[pa.RecordBatch]:
        self._file.seek(place)
        return list(pa.ipc.open_stream(self._file.read(size)))

    def close(self) -> None:
        self._file.close()
