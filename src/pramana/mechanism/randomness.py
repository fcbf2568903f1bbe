"""Keystreams: where the randomness of a perturbation comes from."""

from __future__ import annotations

import secrets
from typing import Protocol

import numpy as np

from pramana.arrays import Words


class Keystream(Protocol):
    """A source of independent uniform 64-bit words."""

    def words(self, count: int) -> Words: ...


class FreshKeystream:
    """AES-256 in counter mode under a key drawn here and never stored."""

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        cipher = Cipher(algorithms.AES256(secrets.token_bytes(32)), modes.CTR(secrets.token_bytes(16)))
        self._encryptor = cipher.encryptor()

    def words(self, count: int) -> Words:
        return np.frombuffer(self._encryptor.update(bytes(8 * count)), dtype="<u8")


class SeededKeystream:
    """Reproducible words for tests and examples: anyone who knows the seed can undo the perturbation."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def words(self, count: int) -> Words:
        return np.asarray(self._bits.random_raw(count), dtype=np.uint64).reshape(count)
