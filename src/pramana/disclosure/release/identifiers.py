"""New identifiers in place of the custodian's own, which can tell where and when a record was made."""

from __future__ import annotations

from typing import Any

import numpy as np

from pramana.arrays import Words
from pramana.frames.blocks.stream import Block
from pramana.mechanism.draws.keyed import Key, KeyedRecords
from pramana.mechanism.draws.keystream import Keystream

_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz234567", dtype=np.uint8)


class NewIdentifiers:
    """Sixteen letters and digits (80 bits) for every record.

    Parameters
    ----------
    column : the old identifier: records that shared it share the new one. None: every record gets one of its own.
    key : under which old identifiers are turned into new ones; a kept key gives a person the same one in every release.
    stream : random words, where there is no old identifier.
    """

    def __init__(self, column: str | None, key: Key, stream: Keystream) -> None:
        self._column = column
        self._records = KeyedRecords(Key(key.derived("new identifier")))
        self._stream = stream

    def texts(self, block: Block) -> Any:
        """An Arrow array of text for the next block."""
        import pyarrow as pa

        if self._column is None:
            words = self._stream.words(2 * block.rows).reshape(-1, 2)
        else:
            words = self._records.digests(block.values(self._column), self._column, block.first_row)
        letters = np.ascontiguousarray(_spelled(words))
        edges = pa.py_buffer(np.arange(block.rows + 1, dtype=np.int32) * 16)
        return pa.StringArray.from_buffers(block.rows, edges, pa.py_buffer(letters))


def _spelled(words: Words) -> Any:
    """Five bits a letter: twelve from the first word, four from the second."""
    shifts = np.arange(12, dtype=np.uint64) * np.uint64(5)
    first = (words[:, :1] >> shifts) & np.uint64(31)
    second = (words[:, 1:] >> shifts[:4]) & np.uint64(31)
    return _LETTERS[np.concatenate([first, second], axis=1).astype(np.int64)]
