"""The analysts' variance as a function of one column's transition matrix, with its derivative."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float
from pramana.disclosure.planning.keep_probability import positions
from pramana.disclosure.utility.expected_variance import Pilot
from pramana.errors import PramanaError, quoted_terms
from pramana.frames.levels import is_number


@dataclass(frozen=True)
class DesignVariance:
    """Weighted mean over the terms of variance over that from the true data.

    With q_r the r-th column of Q = P⁻¹ it is `Σ_{r,z} P[r, z] q_rᵀ T_z q_r`, where T_z (K, K) adds up, over the records
    whose true level is z, the products of the standardised influence functions at two candidate levels. A record's
    variance given its truth is the mean square over released values less the square at the truth, and the latter adds up
    to 1 over all records, which is the part of the true data.
    """

    moments: Float

    @property
    def size(self) -> int:
        return len(self.moments)

    def value(self, matrix: Float) -> float:
        """Variance over that from the true data; infinite for a singular matrix."""
        inverse = _inverse(matrix)
        return float("inf") if inverse is None else float(np.sum(matrix * self._squares(inverse)))

    def gradient(self, matrix: Float) -> Float:
        """Derivative by the entries of P (K, K), through dQ = −Q dP Q."""
        inverse = _inverse(matrix)
        if inverse is None:
            return np.zeros_like(matrix)
        through = 2 * np.einsum("rz,zkl,lr->kr", matrix, self.moments, inverse, optimize=True)
        out: Float = self._squares(inverse) - inverse.T @ through @ inverse.T
        return out

    def _squares(self, inverse: Float) -> Float:
        """q_rᵀ T_z q_r by (r, z)."""
        return np.einsum("kr,zkl,lr->rz", inverse, self.moments, inverse, optimize=True)


def _inverse(matrix: Float) -> Float | None:
    try:
        inverse = np.asarray(np.linalg.inv(matrix), dtype=float)
    except np.linalg.LinAlgError:
        return None
    return inverse if np.all(np.isfinite(inverse)) and np.abs(inverse).max() < 1e10 else None


def design_variance(pilots: Sequence[Pilot], importance: Mapping[str, float] | None) -> DesignVariance:
    """Objective of several analyses; all their terms count alike unless stated."""
    size = pilots[0].u.shape[1]
    moments, total = np.zeros((size, size, size)), 0.0
    shares = [_shares(p, importance) for p in pilots]
    _refuse_unknown(pilots, importance)
    for pilot, share in zip(pilots, shares, strict=True):
        clean = np.diag(pilot.clean())
        _refuse_certain(pilot, share, clean)
        scale = np.sqrt(np.divide(share, clean, out=np.zeros_like(share), where=share > 0))
        standard = (pilot.u @ pilot.inverse.T) * scale
        total += share.sum()
        for z in range(size):
            rows = standard[pilot.true[:, 0] == z]
            moments[z] += np.einsum("nkj,nlj->kl", rows, rows, optimize=True)
    if not total > 0:
        raise PramanaError("the importance is zero throughout: at least one term must count")
    return DesignVariance(moments / total)


def _refuse_certain(pilot: Pilot, share: Float, clean: Float) -> None:
    certain = np.flatnonzero((share > 0) & ~(clean > 0))
    if certain.size:
        place, terms = int(certain[0]), pilot.parameters
        raise PramanaError(
            f"the term {quoted_terms([terms[place]])} (term {place + 1} of {len(terms)}) of {pilot.label!r} has no variance in the pilot "
            "(does its level occur?): leave it out by importance="
        )


def _shares(pilot: Pilot, importance: Mapping[str, float] | None) -> Float:
    if importance is None:
        return np.ones(len(pilot.parameters))
    out = np.zeros(len(pilot.parameters))
    for name, weight in importance.items():
        if not (is_number(weight) and 0 <= weight < np.inf):
            raise PramanaError(f"the importance {weight!r} of {name!r} must be a number of at least 0")
        if _has(pilot, name):
            out[positions(name, pilot.parameters)] = weight
    return out


def _has(pilot: Pilot, name: str) -> bool:
    return any(p == name or p.startswith((f"{name}[", f"C({name})[")) for p in pilot.parameters)


def _refuse_unknown(pilots: Sequence[Pilot], importance: Mapping[str, float] | None) -> None:
    for name in importance or {}:
        if not any(_has(p, name) for p in pilots):
            positions(name, tuple(n for p in pilots for n in p.parameters))
