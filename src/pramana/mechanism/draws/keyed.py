"""Draws that are a function of a secret key, the column, P, the record and its true level.

A file released again, or in parts, or in another order, gives nobody a second independent draw of the same secret. The
function is AES-256 under a key of the column's own, applied to a digest of identifier and level:

    word(record, level) = AES[k_column](digest(record) ⊕ digest(level) ⊕ digest(stratum))        128 bits, two words

where all digests and keys come from the secret by HMAC-SHA256, keyed BLAKE2b and AES, so that two inputs meet with a
probability of about 2⁻¹²⁸ and the words pass for random to anyone without the key.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pramana.arrays import Column, Int, Words
from pramana.errors import DataError, MechanismError, PramanaWarning
from pramana.frames import Level
from pramana.frames.inputs import absence, note_input
from pramana.frames.levels import is_number
from pramana.frames.table import is_missing
from pramana.frames.writing import write_bytes
from pramana.mechanism.channel import Channel
from pramana.mechanism.draws.keystream import RowWords

SHORTEST = 32
SKETCH = 512
"""How many digests of identifiers the custodian's ledger keeps of a keyed release."""
LIMITS = (
    "A changed transition matrix, or a record that moved to another stratum, means new draws: their epsilon adds to the earlier one.",
    "A record whose true value changed between releases is visibly changed, so that no finite epsilon holds over the releases; "
    "k times epsilon for k distinct true values holds only given which records changed.",
    "Whoever obtains the key can undo the randomisation: keep it secret for as long as the data are sensitive.",
    "A record keeps its draw in every release: analysts who pool releases must cluster on the identifier.",
    "A key is for one set of identifiers, each of which stands for the same person in every release: where different people "
    "share one, released values that differ prove that the true ones do.",
)
"""What keyed draws do not protect from; stated in the description and on the card."""
UNIT = "All records of one {column} share their draws: epsilon is of a whole {column}; analysts must cluster on it."
VARYING = (
    "The true values of one {column} may differ between its records, and draws belong to the level: unequal released values prove a "
    "change, so that no finite epsilon holds; k times epsilon for k distinct true values holds only given the pattern of changes. "
    "Analysts must cluster on {column}."
)


@dataclass(frozen=True)
class Key:
    """A secret of at least 32 bytes. It never appears in a description, a message or a representation."""

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.secret, bytes) or len(self.secret) < SHORTEST:
            raise MechanismError(f"the key must have at least {SHORTEST} bytes: make one with `pramana key PATH`")
        if len(set(self.secret)) < 8:
            raise MechanismError("the key is made of a few bytes repeated: make one with `pramana key PATH`")

    @staticmethod
    def load(path: str | Path) -> Key:
        """Read a key file; a file that others can read is used with a warning."""
        path = Path(path)
        if not path.is_file():
            there = absence(path)
            made = "" if path.exists() else ": make one with `pramana key PATH`"
            raise MechanismError(f"key file {str(path)!r} {there}{made}")
        if path.stat().st_mode & 0o077:
            import warnings

            warnings.warn(f"key file {path.name!r} can be read by others: chmod 600 it", PramanaWarning, stacklevel=3)
        note_input(path, "key")
        return Key(path.read_bytes())

    @staticmethod
    def create(path: str | Path) -> Key:
        """Write a new random key, readable by its owner alone; an existing file is never replaced."""
        path, made = Path(path), Key(secrets.token_bytes(SHORTEST))
        if path.is_symlink() or path.exists():
            raise MechanismError(
                f"{str(path)!r} exists: a key is never overwritten, since releases made with it need it"
            )
        write_bytes(path, made.secret, private=True)
        return made

    @property
    def fingerprint(self) -> str:
        """Tells keys apart in the custodian's ledger without giving anything of the key away."""
        return self.derived("fingerprint").hex()[:16]

    def derived(self, *purpose: str) -> bytes:
        """A subkey (32 bytes) for one purpose."""
        return hmac.new(self.secret, _joined("pramana-keyed-1", *purpose), hashlib.sha256).digest()


def key_of(key: Key | bytes | str | Path) -> Key:
    """A key from its bytes, or from the file that holds it."""
    if isinstance(key, Key):
        return key
    if isinstance(key, str | Path):
        return Key.load(key)
    return Key(key)


def _joined(*parts: str) -> bytes:
    """Texts as bytes that no other list of texts gives."""
    encoded = [part.encode() for part in parts]
    return b"".join(len(part).to_bytes(8, "little") + part for part in encoded)


def channel_hash(channel: Channel) -> str:
    """SHA-256 of a channel's description, without the kind and the condition of epsilon, which change no draw."""
    text = json.dumps(_of_draws(channel.document()), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _of_draws(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _of_draws(v) for k, v in value.items() if k not in ("kind", "conditional", "given")}
    return [_of_draws(v) for v in value] if isinstance(value, list) else value


class KeyedRecords:
    """Digests (n, 2) of the records' identifiers: equal values give equal digests, and 1 and "1" differ."""

    def __init__(self, key: Key) -> None:
        self._whole = _cipher(key.derived("identifier", "number"))
        self._text = key.derived("identifier", "text")

    def digests(self, identifiers: Column, column: str, first_row: int = 0) -> Words:
        """Two words a record; a missing identifier is an error that names the row."""
        gaps = np.flatnonzero(is_missing(identifiers))
        if gaps.size:
            raise DataError(
                f"the identifier {column!r} has {gaps.size} missing value(s), first in row {first_row + gaps[0]}: keyed draws "
                "need one for every record"
            )
        if identifiers.dtype.kind in "iu" and (identifiers.dtype != np.uint64 or not (identifiers >> 63).any()):
            return self._numbers(identifiers.astype(np.int64))
        plain = [_plain(v) for v in identifiers.tolist()]
        out = np.empty((len(plain), 2), dtype=np.uint64)
        whole = np.array([type(v) is int and -(2**63) <= v < 2**63 for v in plain], dtype=bool)
        out[whole] = self._numbers(np.array([v for v, w in zip(plain, whole, strict=True) if w], dtype=np.int64))
        texts = [_digest(canonical(v), self._text) for v, w in zip(plain, whole, strict=True) if not w]
        out[~whole] = np.frombuffer(b"".join(texts), dtype="<u8").reshape(-1, 2)
        return out

    def _numbers(self, values: Int) -> Words:
        return _encrypted_numbers(self._whole, values)


class KeyedColumn:
    """The draws of one assignment: a cipher of its own and a digest for every true level."""

    def __init__(self, key: Key, columns: tuple[str, ...], channel: Channel) -> None:
        where = (*columns, channel_hash(channel))
        secret = key.derived("level", *where)
        self._cipher = _cipher(key.derived("column", *where))
        levels = b"".join(_digest(canonical(level), secret) for level in channel.levels or ())
        self._levels = None if channel.levels is None else np.frombuffer(levels, dtype="<u8").reshape(-1, 2)
        self._numbers, self._channel = _cipher(secret), channel
        apart = key.derived("stratum", *where)
        strata = b"".join(_digest(canonical(s), apart) for s in channel.parts if s is not None)
        self._strata = np.frombuffer(strata, dtype="<u8").reshape(-1, 2)

    def words(self, digests: Words, codes: Column, strata: Int | None = None) -> RowWords:
        """Words of each record, from its digest, its true value and its stratum: under another matrix the draw is another. Two come
        from one block; further ones, which reports of many bits need, from the block with its number added."""
        inputs = digests ^ self._of_values(codes, strata)
        inputs = inputs if strata is None else inputs ^ self._strata[strata]
        made: dict[int, Words] = {}

        def lane(k: int) -> Words:
            block, half = divmod(k, 2)
            if block not in made:
                made[block] = _encrypted(self._cipher, inputs ^ np.array([block, 0], dtype=np.uint64))
            return made[block][:, half]

        return RowWords(lane)

    def _of_values(self, codes: Column, strata: Int | None) -> Words:
        """Digests of true levels, or of the numbers that stand for true values without levels."""
        if self._levels is not None:
            return self._levels[codes]
        return _encrypted_numbers(self._numbers, secrets_of(self._channel, codes, strata))


def secrets_of(channel: Channel, codes: Column, strata: Int | None) -> Int:
    """What tells true values apart (n,), as the channel of each record's stratum has it."""
    if strata is None:
        return channel.secrets(codes)
    out = np.zeros(codes.size, dtype=np.int64)
    for position, part in enumerate(channel.parts.values()):
        rows = np.flatnonzero(strata == position)
        out[rows] = part.secrets(codes[rows])
    return out


def canonical(value: Level) -> bytes:
    """Bytes that stand for a value and its type; a float that is a whole number is that whole number.

    >>> canonical(1) == canonical(1.0), canonical(1) == canonical("1"), canonical(1) == canonical(True)
    (True, False, False)
    """
    value = _plain(value)
    if isinstance(value, tuple):
        parts = [canonical(part) for part in value]
        return b"t" + b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    if isinstance(value, bool):
        return b"b1" if value else b"b0"
    if isinstance(value, bytes):
        return b"x" + value
    tag = b"i" if isinstance(value, int) else b"f" if isinstance(value, float) else b"s"
    return tag + (value if isinstance(value, str) else repr(value) if is_number(value) else str(value)).encode()


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _digest(data: bytes, secret: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16, key=secret).digest()


def _cipher(secret: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    # One block at a time and no two alike: the codebook mode is the bare pseudo-random permutation that is wanted here.
    return Cipher(algorithms.AES256(secret), modes.ECB())


def _encrypted_numbers(cipher: Any, values: Int) -> Words:
    """AES of the number itself: a permutation, so different numbers never meet."""
    blocks = np.zeros((values.size, 2), dtype="<u8")
    blocks[:, 0] = values.view(np.uint64)
    return _encrypted(cipher, blocks)


def _encrypted(cipher: Any, blocks: Words) -> Words:
    data = cipher.encryptor().update(np.ascontiguousarray(blocks, dtype="<u8").tobytes())
    return np.frombuffer(data, dtype="<u8").reshape(-1, 2)


class Repeats:
    """Finds identifiers that occur twice, over a whole stream, from 8 bytes a record."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._seen: list[Words] = []

    def add(self, digests: Words) -> None:
        self._seen.append(np.array(digests[:, 0]))

    def join(self, other: Repeats) -> None:
        """Go on with the records of another stream."""
        self._seen += other._seen

    def check(self, place: Callable[[int], str] = "row {}".format) -> None:
        """Two different identifiers among 10⁸ are taken for one with probability 3·10⁻⁴; `place` names a record by its number."""
        seen = np.concatenate(self._seen) if self._seen else np.empty(0, dtype=np.uint64)
        self._seen = [seen]
        ordered = np.sort(seen)
        if not np.any(ordered[1:] == ordered[:-1]):
            return
        import pandas as pd

        rows = np.flatnonzero(pd.Series(seen).duplicated())
        raise DataError(
            f"the identifier {self._column!r} repeats itself in {rows.size} record(s), first in {place(int(rows[0]))}: records with one "
            "identifier would share their draws; use a column with one value a record"
        )


class Least:
    """The smallest digests of all identifiers of a stream, by which two files are known to share identifiers: they then share these too."""

    def __init__(self) -> None:
        self._words = np.empty(0, dtype=np.uint64)

    def add(self, digests: Words) -> None:
        words = digests[:, 0]
        if self._words.size == SKETCH:
            words = words[words < self._words[-1]]
        self._words = np.unique(np.append(self._words, words))[:SKETCH]

    def join(self, other: Least) -> None:
        """Go on with the records of another stream."""
        self._words = np.unique(np.append(self._words, other._words))[:SKETCH]

    def text(self) -> str:
        """Sixteen hexadecimal digits a digest."""
        return self._words.astype(">u8").tobytes().hex()


class OneValue:
    """Which true values (with the stratum that decides the matrix) the records of a unit hold, over a whole stream."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._seen: dict[tuple[str, ...], list[Any]] = {}

    def add(self, columns: tuple[str, ...], digests: Words, values: Int) -> None:
        """Units and true values of one block, where the value is there."""
        import pandas as pd

        pairs = pd.DataFrame({"unit": np.array(digests[:, 0]), "value": values}).drop_duplicates()
        self._seen.setdefault(columns, []).append(pairs)

    def join(self, other: OneValue) -> None:
        """Go on with the records of another stream."""
        for columns, pairs in other._seen.items():
            self._seen.setdefault(columns, []).extend(pairs)

    def _pairs(self, columns: tuple[str, ...]) -> Any:
        import pandas as pd

        self._seen[columns] = [pd.concat(self._seen[columns]).drop_duplicates()]
        return self._seen[columns][0]

    def counts(self, columns: tuple[str, ...], values: int) -> Int:
        """How many units hold each value."""
        held = self._pairs(columns)["value"].to_numpy() if columns in self._seen else np.empty(0, dtype=np.int64)
        return np.bincount(held, minlength=values)

    def check(self) -> None:
        """Refuse units whose records differ: one draw cannot serve them."""
        for columns in self._seen:
            several = self._pairs(columns)["unit"].duplicated()
            if several.any():
                raise DataError(
                    f"{' × '.join(columns)} (or the column that decides its matrix) differs between the records of "
                    f"{int(several.sum())} or fewer values of the unit {self._column!r}: one draw cannot serve them. Draws by level "
                    "are possible where asked for (varies, --unit-varies), but then no finite epsilon holds"
                )
