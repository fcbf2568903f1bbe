"""Sums of generalised linear scores whose design columns are products of a clean and a node's part, compiled, in one pass.

With `η_ic = Σ_j clean[place_j, i] node[c, j] β_j` the sums are `Σ_c node_c ∘ (A r_c)` and `Σ_c (node_c node_cᵀ) ∘ (A diag(v_c) Aᵀ)`;
what concerns columns without a node's part is summed over nodes first. The slow version that these must equal is the
expanded design in `predictor`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pramana.arrays import Float, Int
from pramana.kernels.predictor import Curve

ENTRIES = 65_536
"""Numbers of an array that stays in the processor's cache."""


class ProductSums(NamedTuple):
    """Σ w φ (d,), Σ w ∂φ (d, d), Σ w₂ φφᵀ and reverted Σ w₂ UUᵀ (d, d), Σ (w₂ φ²)² (d,); the last three are zero where they were
    not asked for."""

    score: Float
    slope: Float
    outer: Float
    clean_outer: Float
    fourth: Float


class Patterns(NamedTuple):
    """Columns with the same node's part share a pattern; clean parts that only columns without one use are steady."""

    pattern: Int
    patterns: Float
    steady: Int
    moving: Int


@dataclass(frozen=True)
class Products:
    """The records begin … end − 1 of n.

    Attributes
    ----------
    clean : (p, n), contiguous; place : (d,); node : (C, d).
    table : (R, C), row : (n,), the signed weights; no rows are told where R is 1.
    y1, y2 : (1 or C, n), first and second moments of the response, by node where they differ.
    offset : (0, 1 or C, n).
    """

    begin: int
    end: int
    clean: Float
    place: Int
    node: Float
    table: Float
    row: Int
    y1: Float
    y2: Float
    offset: Float
    curve: Curve

    def rows(self, rows: slice) -> Products:
        low, high, _ = rows.indices(self.end - self.begin)
        return replace(self, begin=self.begin + low, end=self.begin + high)

    @property
    def n(self) -> int:
        return self.end - self.begin

    @cached_property
    def layout(self) -> Patterns:
        patterns, pattern = np.unique(self.node.T, axis=0, return_inverse=True)
        constant = np.all(self.node == 1.0, axis=0)
        moving = np.unique(self.place[~constant])
        steady = np.setdiff1d(self.place, moving)
        return Patterns(pattern.ravel(), np.ascontiguousarray(patterns), steady, moving)

    def along(self, vector: Float) -> Float:
        """Coefficients of the clean parts at each node (C, p), for coefficients of the columns (d,)."""
        return self.along_each(vector[None])[:, 0]

    def along_each(self, vectors: Float) -> Float:
        """The same (C, k, p) for several vectors (k, d)."""
        spread = (self.place[:, None] == np.arange(len(self.clean))).astype(float)
        return np.asarray((self.node[:, None, :] * vectors) @ spread)


def sums(fast: Any, p: Products, beta: Float, weights: Float, squares: Float | None) -> ProductSums:
    """Everything at one parameter value; outer products where `squares`, their row weights, are given."""
    nodes, parts, d = len(p.node), len(p.clean), len(p.place)
    layout = p.layout
    score, slope, clean_outer = np.zeros((nodes, parts)), *np.zeros((2, nodes, parts, parts))
    steady_outer, outer, fourth = np.zeros((parts, parts)), np.zeros((d, d)), np.zeros(d)
    own = np.ascontiguousarray(weights, dtype=float)
    fast.product_sums(
        p.begin,
        p.end,
        p.clean,
        p.table,
        p.row,
        p.y1,
        p.y2,
        p.offset,
        p.curve.code,
        p.curve.shape,
        np.ascontiguousarray(p.along(beta)),
        layout.steady,
        layout.moving,
        own,
        own if squares is None else np.ascontiguousarray(squares, dtype=float),
        layout.pattern,
        p.place,
        layout.patterns,
        squares is not None,
        score,
        slope,
        clean_outer,
        steady_outer,
        outer,
        fourth,
    )
    outer = np.triu(outer) + np.triu(outer, 1).T
    steady_outer = np.triu(steady_outer) + np.triu(steady_outer, 1).T
    outer += steady_outer[np.ix_(p.place, p.place)]
    total = np.einsum("cj,cj->j", p.node, score[:, p.place])
    return ProductSums(total, _assembled(p, slope), outer, _assembled(p, clean_outer), fourth)


def _assembled(p: Products, pairs: Float) -> Float:
    """(d, d) from sums by node over pairs of clean parts."""
    steady, moving = p.layout.steady, p.layout.moving
    whole = np.zeros_like(pairs)
    for own in (steady, moving):
        block = np.ix_(np.arange(len(pairs)), own, own)
        upper = np.triu(pairs[block])
        whole[block] = upper + np.triu(upper, 1).transpose(0, 2, 1)
    cross = np.ix_(np.arange(len(pairs)), moving, steady)
    whole[cross] = pairs[cross]
    whole[np.ix_(np.arange(len(pairs)), steady, moving)] = pairs[cross].transpose(0, 2, 1)
    at = whole[:, p.place][:, :, p.place]
    return np.asarray(np.einsum("cj,ck,cjk->jk", p.node, p.node, at))


def _bends(fast: Any, p: Products, beta: Float, patterns: Float) -> Float:
    out = np.empty((len(patterns), p.n))
    fast.product_bends(
        p.begin,
        p.end,
        p.clean,
        p.table,
        p.row,
        p.y1,
        p.offset,
        p.curve.code,
        p.curve.shape,
        np.ascontiguousarray(p.along(beta)),
        np.ascontiguousarray(patterns, dtype=float),
        out,
    )
    return out


def record_slopes_along(fast: Any, p: Products, beta: Float, lefts: Float, rights: Float) -> Float:
    """`leftᵀ (∂φ_i/∂β) right` (k, n) for directions (k, d)."""
    bends, clean = _bends(fast, p, beta, np.eye(len(p.node))), p.clean[:, p.begin : p.end]
    out = np.zeros((len(lefts), p.n))
    for bend, left, right in zip(bends, p.along_each(lefts), p.along_each(rights), strict=True):
        out += bend * (left @ clean) * (right @ clean)
    return out


def left_slopes(p: Products, betas: Float, lefts: Float, weights: Float) -> Float:
    """`Σ w leftᵀ ∂φ/∂β` (B, d) at several values, each with a direction of its own (B, d)."""
    gammas, ways = p.along_each(betas), p.along_each(lefts)
    out, size = np.zeros_like(gammas), max(128, ENTRIES // len(betas))
    with np.errstate(all="ignore"):
        for low in range(p.begin, p.end, size):
            rows = slice(low, min(low + size, p.end))
            clean, own = p.clean[:, rows], weights[rows.start - p.begin : rows.stop - p.begin]
            for c, (gamma, way) in enumerate(zip(gammas, ways, strict=True)):
                mass = p.table[0, c] if len(p.table) == 1 else p.table[p.row[rows], c]
                eta, y = gamma @ clean, p.y1[min(c, len(p.y1) - 1), rows]
                mu, dmu, a, da = p.curve(eta + p.offset[min(c, len(p.offset) - 1), rows] if len(p.offset) else eta)
                out[c] += ((da * (y - mu) - a * dmu) * (mass * own) * (way @ clean)) @ clean.T
    return np.asarray(np.einsum("cj,cbj->bj", p.node, out[:, :, p.place]))
