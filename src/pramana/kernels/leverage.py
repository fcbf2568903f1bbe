"""How much of the fit each sampling unit carries, and what its score would have been had it carried nothing.

With unit scores z_g and slopes Ω_g at the root, J = ΣΩ_g and H_g = Ω_g J⁻¹, the residual scores are z_g ≈ ψ_g − H_g Σψ: too short
by about (I − H_g)^½. The products of `(I − H_g)^-½ z_g` undo that (Fay and Graubard 2001; HC2 and CR2 for a linear regression),
and a variance made of them has the degrees of freedom of Bell and McCaffrey (2002), under the working assumption that the
variance of ψ_g is proportional to Ω_g. Reverted slopes may have either sign: a unit's share can be negative, and its working
variance is the size of its share.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np

from pramana.arrays import Bool, Float, Int

LARGEST = 0.75
"""Shares of the fit beyond which a unit's score is not drawn out further (Fay and Graubard 2001)."""
SMALL = 0.05
"""Share below which two terms of the power series, exact for a clean record, replace eigenvalues."""
ALONE = 1 - 1e-6
"""Share from which a unit determines a direction alone, so that its residual says nothing."""
NOTHING = 1e-16
"""Part of a variance that is rounding."""
STEPS = 1e12
"""Steps that all degrees of freedom together may take: some ten seconds."""
ENTRIES = 1 << 24
"""Numbers of the matrices that are held at once."""
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

    @property
    def sign(self) -> float:
        """Of the slope, whose root the frame is."""
        return float(np.sign(np.vdot(self.into.T, self.back))) if self.sloped else 1.0

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
class Units:
    """Sampling units in the coordinates of a frame. A record has a share along the directions of its own nodes alone, which are few.

    With u = A r for parameter j (r its row of `Frame.back`), p = Ψ u, s = H u and λ = uᵀΨu, the unit's corrected share
    of the estimate is linear in the scores ψ, and the working covariance of those shares is D = diag(λ) − P Sᵀ − S Pᵀ + S (ΣΨ) Sᵀ.

    Attributes
    ----------
    scores : (m, r).
    shares, working : H and Ψ (m, R, R), in the directions of the unit.
    copies : (m,), how often each is there.
    basis : the directions (m, R, r), orthonormal; None where they are those of the frame, R = r.
    places : of clusters among all (m,).
    """

    frame: Frame
    scores: Float
    shares: Float
    working: Float
    copies: Float
    basis: Float | None = None
    places: Int = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @cached_property
    def _back(self) -> Float:
        """The rows of `Frame.back` in the unit's directions (m or 1, R, d)."""
        back = self.frame.back.T
        return back[None] if self.basis is None else self.basis @ back

    @cached_property
    def _corrections(self) -> tuple[Float, Float]:
        if self.basis is None:
            return corrections(self.shares, self.frame.back)
        return corrections(self.shares, self._back.transpose(0, 2, 1), np.sum(self.frame.back**2, axis=1))

    @cached_property
    def _turned(self) -> tuple[Float, Float, Float, Float]:
        """p and s in the unit's directions (m, R, d), λ and pᵀs (m, d)."""
        u = self._corrections[0] @ self._back
        s = self.shares @ u
        p = s if self.clean else self.working @ u
        return p, s, np.einsum("nij,nij->nj", u, p), np.einsum("nij,nij->nj", p, s)

    @cached_property
    def clean(self) -> bool:
        """The working variances are the shares, so that p = s."""
        return np.array_equal(self.shares, self.working)

    @cached_property
    def share(self) -> Float:
        """ΣH (r, r), in the frame."""
        return self._in_frame(self.shares)

    def matrices(self, rows: slice) -> tuple[Float, Float]:
        """H and Ψ of some of the units (m, r, r), in the frame."""
        found = self.shares[rows], self.working[rows]
        if self.basis is None:
            return found
        turned = self.basis[rows].transpose(0, 2, 1)
        shares, working = (turned @ own @ self.basis[rows] for own in found)
        return shares, working

    def _in_frame(self, matrices: Float) -> Float:
        """The sum of matrices (m, R, R), in the frame (r, r)."""
        r = self.scores.shape[1]
        if self.basis is None:
            return (self.copies @ matrices.reshape(-1, r * r)).reshape(r, r)
        left = (matrices * self.copies[:, None, None]) @ self.basis
        return self.basis.reshape(-1, r).T @ left.reshape(-1, r)

    def first(self) -> Sums:
        """Σ A z zᵀ Aᵀ, ΣH and ΣΨ (r, r), and part of each parameter's direction that one unit determines alone (d,)."""
        drawn_out, alone = self._corrections
        if self.basis is None:
            corrected = np.einsum("nij,nj->ni", drawn_out, self.scores)
        else:
            along = np.einsum("nij,nj->ni", self.basis, self.scores)
            moved = np.einsum("nij,nj->ni", drawn_out, along) - along
            corrected = self.scores + np.einsum("nij,ni->nj", self.basis, moved)
        meat = (corrected * self.copies[:, None]).T @ corrected
        total = self.share if self.clean else self._in_frame(self.working)
        return Sums((meat, self.share, total, self.copies @ alone))

    def second(self, total: Float) -> Sums:
        """tr D, the sum of squares of its diagonal, that of λ² − 4λ pᵀs + 2λ sᵀ(ΣΨ)s (d,), and how many units are not clean; for ΣΨ (r, r)."""
        _, s, lengths, crossed = self._turned
        inner = total[None] if self.basis is None else self.basis @ total @ self.basis.transpose(0, 2, 1)
        bent = np.einsum("nij,nij->nj", s, inner @ s)
        own = lengths - 2 * crossed + bent
        squares = lengths * (lengths - 4 * crossed + 2 * bent)
        return Sums(
            (self.copies @ own, self.copies @ own**2, self.copies @ squares, np.array(0.0 if self.clean else 1.0))
        )

    def products(self, which: Int, *, clean: bool) -> Float:
        """Σ (p, s) (p, s)ᵀ for some of the parameters (k, 2r, 2r); Σ s sᵀ (k, r, r) is enough where all units are clean."""
        scale, both = np.sqrt(self.copies), self._turned[1:2] if clean else self._turned[:2]
        out = np.empty((len(which), *2 * (len(both) * self.scores.shape[1],)))
        for k, j in enumerate(which):
            rows = np.concatenate([self._rows(turned[:, :, j]) for turned in both], axis=1) * scale[:, None]
            rows = (
                rows if self.basis is None else rows[rows.any(axis=1)]
            )  # of a domain the units of the others tell nothing
            out[k] = rows.T @ rows
        return out

    def _rows(self, along: Float) -> Float:
        """Vectors (m, R) of the units in the frame (m, r)."""
        return along if self.basis is None else np.einsum("nij,ni->nj", self.basis, along)


@dataclass(frozen=True)
class Sums:
    """Arrays that are added together."""

    parts: tuple[Float, ...]

    def __add__(self, other: Sums) -> Sums:
        return Sums(tuple(mine + theirs for mine, theirs in zip(self.parts, other.parts, strict=True)))


@dataclass(frozen=True)
class Leverages:
    """What few units change.

    Attributes
    ----------
    meat : Σ A z zᵀ Aᵀ (r, r), in the frame.
    share : ΣH (r, r), the identity where the slopes of the units add up to the slope.
    degrees_of_freedom : (tr D)² / tr D² for each parameter (d,).
    alone : part of each parameter's direction that one unit determines alone (d,).
    """

    meat: Float
    share: Float
    degrees_of_freedom: Float
    alone: Float


def leverages(summed: Callable[[Callable[[Units], Any]], Any], n: int) -> Leverages:
    """Of n units, over which whatever adds is summed by a function that asks for it of some at a time.

    tr D² takes n d³ steps. Where those are very many, it is that of D's diagonal for the parameters of most degrees of freedom: too small by
    a part of one over them.
    """
    meat, share, total, alone = summed(Units.first).parts
    trace, diagonal, own, unclean = summed(lambda units: units.second(total)).parts
    clean, r = unclean == 0, len(total)
    wide = r if clean else 2 * r
    with np.errstate(all="ignore"):
        few = np.argsort(trace**2 / diagonal)[: max(int(STEPS / (n * wide**2)), 1)]
    squares, at_once = diagonal, max(1, ENTRIES // wide**2)
    squares[few] = own[few]
    for which in (few[k : k + at_once] for k in range(0, len(few), at_once)):
        squares[which] += _square_of_rest(summed(partial(Units.products, which=which, clean=clean)), total, clean=clean)
    with np.errstate(all="ignore"):
        return Leverages(meat, share, np.asarray(trace**2 / squares), alone)


def leverages_of(units: Sequence[Units]) -> Leverages:
    """Of units in as many parts as they come in."""
    return leverages(lambda part: reduce(operator.add, map(part, units)), sum(len(one.copies) for one in units))


def _square_of_rest(products: Float, total: Float, *, clean: bool) -> Float:
    """tr (D − diag λ)² (k,), of the sums of products."""
    unit = np.eye(len(total))
    corner = total - 2 * unit if clean else np.block([[np.zeros_like(unit), -unit], [-unit, total]])
    turned = corner @ products
    return np.asarray(np.einsum("jik,jki->j", turned, turned))


def corrections(shares: Float, back: Float, sizes: Float | None = None) -> tuple[Float, Float]:
    """A = (I − min(H, ¾))^-½ (m, R, R), and how much of each parameter's direction (d, R), or (m, d, R) with its length squared
    elsewhere (d,), the unit determines alone (m, d)."""
    m, d = shares.shape[:2]
    size = lengths_of(shares)
    large = size > SMALL
    bend = np.where(size < 1e-4, 0.375 + 0.3125 * size, 0.0)
    np.divide((1 - np.minimum(size, SMALL)) ** -0.5 - 1 - size / 2, size**2, out=bend, where=(size >= 1e-4) & ~large)
    out = np.eye(d) + 0.5 * shares + bend[:, None, None] * (shares @ shares)
    alone = np.zeros((m, back.shape[-2]))
    if large.any():
        values, vectors = np.linalg.eigh(shares[large])
        roots = (1 - np.minimum(values, LARGEST)) ** -0.5
        out[large] = (vectors * roots[:, None, :]) @ vectors.transpose(0, 2, 1)
        sizes = np.sum(back**2, axis=1) if sizes is None else sizes
        along = ((back if back.ndim == 2 else back[large]) @ vectors) ** 2 / sizes[:, None]
        whole = np.abs(values - 1) < 1 - ALONE  # beyond 1 are signed shares, which other units take back
        alone[large] = np.einsum("njk,nk->nj", along, whole.astype(float))
    return out, alone


def in_directions(vectors: Float, values: Float) -> tuple[Float, Float, Float]:
    """An orthonormal basis of each unit's vectors x (m, R, r), R ≤ r, its Σ v x xᵀ in it (m, R, R) for values (m, R), and the vectors in
    it (m, R, R), by columns."""
    if vectors.shape[1] == 1:
        length = np.sqrt(np.einsum("nij,nij->n", vectors, vectors))[:, None, None]
        basis, inside = vectors / np.maximum(length, 1e-300), length
    else:
        turned, inside = np.linalg.qr(vectors.transpose(0, 2, 1))
        basis = turned.transpose(0, 2, 1)
    return basis, (inside * values[:, None, :]) @ inside.transpose(0, 2, 1), inside


def units_of_clusters(
    frame: Frame, sums: Float, vectors: Float, values: Float, squared: Float, codes: Int
) -> Iterator[Units]:
    """Clusters with score sums (G, r) and codes (n,) of records whose shares are Σ v x xᵀ, for vectors (n, q, r) and values (n, q) and, for
    the working variances, others; those of one size together."""
    q, r = vectors.shape[1:]
    order, sizes = np.argsort(codes, kind="stable"), np.bincount(codes, minlength=len(sums))
    ends = np.cumsum(sizes)
    for size in np.unique(sizes):
        own = np.flatnonzero(sizes == size)
        step = max(1, ENTRIES // (max(int(size) * q, 1) * r))
        for some in (own[k : k + step] for k in range(0, len(own), step)):
            rows = order[(ends[some] - size)[:, None] + np.arange(size)]
            x, v, v2 = (a[rows].reshape(len(some), size * q, *a.shape[2:]) for a in (vectors, values, squared))
            if 0 < size * q < r:
                basis, shares, inside = in_directions(x, v)
            else:
                basis, inside = None, x.transpose(0, 2, 1)
                shares = (inside * v[:, None, :]) @ x
            working = shares
            if np.any(v < 0) or not np.array_equal(v, v2):
                working = size_of_many((inside * v2[:, None, :]) @ inside.transpose(0, 2, 1))
            yield Units(frame, sums[some], shares, working, np.ones(len(some)), basis, some)


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
