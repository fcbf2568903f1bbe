"""How much of the fit each sampling unit carries, and what its score would have been had it carried nothing.

With unit scores z_g and slopes Ω_g at the root, J = ΣΩ_g and H_g = Ω_g J⁻¹, the residual scores are z_g ≈ ψ_g − H_g Σψ: too short
by about (I − H_g)^½. The products of `(I − H_g)^-½ z_g` undo that (Fay and Graubard 2001; HC2 and CR2 for a linear regression),
and a variance made of them has the degrees of freedom of Bell and McCaffrey (2002), under the working assumption that the
variance of ψ_g is proportional to Ω_g. Reverted slopes may have either sign: a unit's share can be negative, and its working
variance is the size of its share.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from pramana.arrays import Bool, Float

LARGEST = 0.75
"""Shares of the fit beyond which a unit's score is not drawn out further (Fay and Graubard 2001)."""
SMALL = 0.05
"""Share below which two terms of the power series, exact for a clean record, replace eigenvalues."""
ALONE = 1 - 1e-6
"""Share from which a unit determines a direction alone, so that its residual says nothing."""
NOTHING = 1e-16
"""Part of a variance that is rounding."""
DEPENDENT = 1e-12
"""Part of the scores' scaled products along a direction in which they do not vary."""


@dataclass(frozen=True)
class Frame:
    """Coordinates in which the shares of the units add up to the identity.

    Attributes
    ----------
    into : L⁻¹ (r, d), scores into the frame, which has as many dimensions as the scores vary in.
    back : J⁻¹ L (d, r), scores of the frame into the parameters.
    sloped : the slopes of the units are shares, as for the score of a model. Those of a system of different equations are not,
        nor are estimated ones: there the share of a unit is that of the products of its records' scores.
    """

    into: Float
    back: Float
    sloped: bool = True

    @classmethod
    def of(cls, slope: Float, inverse: Float, outer: Float) -> Frame:
        """For a slope that is symmetric and definite its own square root; elsewhere that of the scores' products."""
        scale = np.sqrt(np.abs(np.diag(slope)))
        scaled = slope / np.outer(scale, scale) if scale.all() else slope
        symmetric = np.abs(scaled - scaled.T).max() < 1e-6
        root = next((found for found in map(_root, (-slope, slope) if symmetric else ()) if found is not None), None)
        return cls.of_scores(inverse, outer) if root is None else cls(np.asarray(np.linalg.inv(root)), inverse @ root)

    @classmethod
    def of_scores(cls, inverse: Float, outer: Float) -> Frame:
        """The root of the scores' products, in which their shares add up to the identity.

        Scores that are rounding, as those of an equation for a function of the other parameters are, take no part, nor do
        directions in which the scores do not vary: there the share of a unit would be one of noise.
        """
        squares = np.diag(outer)
        scale = np.sqrt(squares * ~idle(inverse, squares, np.diag(inverse @ outer @ inverse.T)))
        units = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
        values, vectors = np.linalg.eigh(outer * np.outer(units, units))
        kept = values > DEPENDENT * max(float(values[-1]), 1e-300)
        lengths, axes = np.sqrt(values[kept]), vectors[:, kept]
        return cls((axes * units[:, None] / lengths).T, inverse @ (axes * scale[:, None] * lengths), sloped=False)

    def scores(self, phi: Float) -> Float:
        """(m, d) in the frame."""
        return np.asarray(phi @ self.into.T)

    def shares(self, slopes: Float) -> Float:
        """L⁻¹ Ω J⁻¹ L (m, d, d), the symmetric part."""
        m, d = slopes.shape[:2]
        right = (slopes.reshape(m * d, d) @ self.back).reshape(m, d, d)
        found = self.into @ right
        return np.asarray((found + found.transpose(0, 2, 1)) / 2)

    def covariance(self, meat: Float) -> Float:
        """Of the parameters, for a meat in the frame (d, d)."""
        return np.asarray(self.back @ meat @ self.back.T)


def idle(inverse: Float, squares: Float, variances: Float) -> Bool:
    """The scores that no variance comes from but rounding (d,), of sums of squares (d,) that J⁻¹ (d, d) takes to variances (d,)."""
    return np.asarray(np.all(inverse**2 * squares <= NOTHING * variances[:, None], axis=0))


def _root(matrix: Float) -> Float | None:
    try:
        return np.asarray(np.linalg.cholesky((matrix + matrix.T) / 2))
    except np.linalg.LinAlgError:
        return None


@dataclass(frozen=True)
class Leverages:
    """Sums over units, which add: what the corrected variance and its degrees of freedom are made of.

    With u = A r for parameter j (r its row of `Frame.back`), p = Ψ u, s = H u and λ = uᵀΨu, the unit's corrected share
    of the estimate is linear in the scores ψ, and the working covariance of those shares is D = diag(λ) − P Sᵀ − S Pᵀ + S (ΣΨ) Sᵀ.

    Attributes
    ----------
    meat : Σ A z zᵀ Aᵀ (d, d), in the frame.
    share : ΣH (d, d), the identity where the slopes of the units add up to the slope.
    working : ΣΨ (d, d).
    first, second : Σλ and Σλ² (d,).
    crossed : Σ λ pᵀs (d,).
    bent : Σ λ s sᵀ (d, d, d).
    products : Σ (p, s) (p, s)ᵀ (d, 2d, 2d).
    alone : part of each parameter's direction that one unit determines alone (d,).
    """

    meat: Float
    share: Float
    working: Float
    first: Float
    second: Float
    crossed: Float
    bent: Float
    products: Float
    alone: Float

    def __add__(self, other: Leverages) -> Self:
        return type(self)(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    @property
    def degrees_of_freedom(self) -> Float:
        """(tr D)² / tr D² for each parameter (d,)."""
        d, t = len(self.working), self.working
        corner = np.block([[np.zeros((d, d)), -np.eye(d)], [-np.eye(d), t]])
        turned = corner @ self.products
        low_rank = np.einsum("jii->j", turned)
        diagonal = self.second - 4 * self.crossed + 2 * np.einsum("jik,ik->j", self.bent, t)
        squares = diagonal + np.einsum("jik,jki->j", turned, turned)
        with np.errstate(all="ignore"):
            return np.asarray((self.first + low_rank) ** 2 / squares)


def leverages(scores: Float, shares: Float, working: Float, copies: Float, frame: Frame) -> Leverages:
    """Of units with scores (m, d), shares H and working variances Ψ (m, d, d) in the frame, each there `copies` (m,) times."""
    drawn_out, alone = corrections(shares, frame.back)
    corrected = np.einsum("nij,nj->ni", drawn_out, scores)
    u = drawn_out @ frame.back.T
    p, s = working @ u, shares @ u
    lengths = np.einsum("nij,nij->nj", u, p)
    d = scores.shape[1]
    both = np.ascontiguousarray(
        np.concatenate([p, s], axis=1).transpose(2, 1, 0)
    )  # (d, 2d, m), records next to each other
    weighted = both[:, d:] * (lengths * copies[:, None]).T[:, None, :]
    return Leverages(
        (corrected * copies[:, None]).T @ corrected,
        (copies @ shares.reshape(-1, d * d)).reshape(d, d),
        (copies @ working.reshape(-1, d * d)).reshape(d, d),
        copies @ lengths,
        copies @ lengths**2,
        copies @ (lengths * np.einsum("nij,nij->nj", p, s)),
        weighted @ both[:, d:].transpose(0, 2, 1),
        (both * copies) @ both.transpose(0, 2, 1),
        copies @ alone,
    )


def corrections(shares: Float, back: Float) -> tuple[Float, Float]:
    """A = (I − min(H, ¾))^-½ (m, r, r), and how much of each parameter's direction the unit determines alone (m, d)."""
    m, d = shares.shape[:2]
    size = lengths_of(shares)
    large = size > SMALL
    bend = np.where(size < 1e-4, 0.375 + 0.3125 * size, 0.0)
    np.divide((1 - np.minimum(size, SMALL)) ** -0.5 - 1 - size / 2, size**2, out=bend, where=(size >= 1e-4) & ~large)
    out = np.eye(d) + 0.5 * shares + bend[:, None, None] * (shares @ shares)
    alone = np.zeros((m, len(back)))
    if large.any():
        values, vectors = np.linalg.eigh(shares[large])
        roots = (1 - np.minimum(values, LARGEST)) ** -0.5
        out[large] = (vectors * roots[:, None, :]) @ vectors.transpose(0, 2, 1)
        along = (back @ vectors) ** 2 / np.sum(back**2, axis=1)[:, None]
        whole = np.abs(values - 1) < 1 - ALONE  # beyond 1 are signed shares, which other units take back
        alone[large] = np.einsum("njk,nk->nj", along, whole.astype(float))
    return out, alone


def lengths_of(shares: Float) -> Float:
    """‖H‖ (m,), the root of the sum of squares of all entries."""
    flat = shares.reshape(len(shares), -1)
    return np.sqrt(np.einsum("ni,ni->n", flat, flat))


def size_of_one(shares: Float) -> Float:
    """The size of a record's share, H² / ‖H‖ (m, d, d): H itself where it is clean, and positive whatever its signs."""
    return np.asarray(shares @ shares / np.maximum(lengths_of(shares), 1e-300)[:, None, None])


def size_of_many(shares: Float) -> Float:
    """|H| (m, d, d), the same eigenvectors with the absolute eigenvalues."""
    values, vectors = np.linalg.eigh(shares)
    return np.asarray((vectors * np.abs(values)[:, None, :]) @ vectors.transpose(0, 2, 1))
