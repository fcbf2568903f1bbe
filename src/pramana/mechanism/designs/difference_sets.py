"""Cyclic difference sets: k residues modulo v whose differences hit every other residue equally often."""

from __future__ import annotations

from functools import cache

DIFFERENCE_SET_LIMIT = 256

# Planes and spaces over finite fields (Singer) and fourth powers modulo 37; the tests count the differences of each.
_LISTED: tuple[tuple[int, tuple[int, ...]], ...] = (
    (13, (0, 1, 3, 9)),
    (21, (3, 6, 7, 12, 14)),
    (31, (1, 5, 11, 24, 25, 27)),
    (37, (1, 7, 9, 10, 12, 16, 26, 33, 34)),
    (40, (1, 2, 3, 5, 6, 9, 14, 15, 18, 20, 25, 27, 35)),
    (57, (0, 1, 3, 13, 32, 36, 43, 52)),
    (73, (1, 2, 4, 8, 16, 32, 37, 55, 64)),
    (91, (0, 1, 3, 9, 27, 49, 56, 61, 77, 81)),
)


def is_difference_set(modulus: int, residues: tuple[int, ...]) -> bool:
    """Whether every non-zero residue is a difference of two members equally often.

    >>> is_difference_set(7, (1, 2, 4)), is_difference_set(8, (1, 2, 4))
    (True, False)
    """
    counts = [0] * modulus
    for a in residues:
        for b in residues:
            counts[(a - b) % modulus] += 1
    return len(set(counts[1:])) == 1


def difference_sets(modulus: int) -> list[tuple[int, ...]]:
    """The known sets modulo v with 1 < k < v/2, each shifted so that it holds 0; none where none is known here.

    >>> difference_sets(7), difference_sets(8)
    ([(0, 1, 3)], [])
    """
    return list(_known().get(modulus, ()))


def difference_set_sizes() -> tuple[int, ...]:
    """The numbers of levels v for which a set is known here."""
    return tuple(_known())


@cache
def _known() -> dict[int, tuple[tuple[int, ...], ...]]:
    found: dict[int, list[tuple[int, ...]]] = {}
    candidates = [*_LISTED, *_quadratic_residues(), *_twin_primes()]
    for modulus, residues in candidates:
        if 1 < len(residues) < modulus / 2:
            first = min(residues)
            found.setdefault(modulus, []).append(tuple(sorted((r - first) % modulus for r in residues)))
    return {modulus: tuple(sets) for modulus, sets in sorted(found.items())}


def _quadratic_residues() -> list[tuple[int, tuple[int, ...]]]:
    """Non-zero squares modulo a prime v ≡ 3 (mod 4): Paley's (v, (v − 1)/2, (v − 3)/4)."""
    primes = [v for v in range(7, DIFFERENCE_SET_LIMIT) if v % 4 == 3 and _is_prime(v)]
    return [(v, tuple(sorted({x * x % v for x in range(1, v)}))) for v in primes]


def _twin_primes() -> list[tuple[int, tuple[int, ...]]]:
    """Modulo p (p + 2): zero modulo p + 2, or both residues square, or both not."""
    sets = []
    for p in (3, 5, 11):
        q = p + 2
        squares = [{x * x % m for x in range(1, m)} for m in (p, q)]
        members = [
            x
            for x in range(p * q)
            if x % q == 0 or (x % p and x % q and (x % p in squares[0]) == (x % q in squares[1]))
        ]
        sets.append((p * q, tuple(members)))
    return sets


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))
