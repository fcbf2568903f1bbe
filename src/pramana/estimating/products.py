"""Design columns as products of what is clean and what is perturbed.

Column j of record i at node c is `clean[place_j, i] · node[c, j]` wherever no factor of its term reads both kinds of
variables, so that nothing of size records × nodes is stored. What does not factor is kept densely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TypeAlias

import numpy as np

from pramana.arrays import Columns, Float, Int
from pramana.estimating.records import Records
from pramana.frames import decode

FromColumns: TypeAlias = Callable[[Mapping[str, object], int], Float]

ROWS = 65_536
"""Records whose design is evaluated at once."""
TRIED = 64
"""Records on which the node's parts of a column are found."""
KINDS = ("constant", "clean", "mixed", "dense")


@dataclass(frozen=True)
class Part:
    """What a design column is made of: a product of factors.

    Attributes
    ----------
    factors : the variables that each factor reads.
    plain : for each factor, whether it is a column as it is, where that holds numbers.
    """

    factors: tuple[frozenset[str], ...]
    plain: tuple[bool, ...]

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(name for factor in self.factors for name in factor)

    def separates(self, hidden: frozenset[str]) -> bool:
        """No factor reads both a hidden and another variable."""
        return all(factor <= hidden or not factor & hidden for factor in self.factors)


@dataclass(frozen=True)
class ProductDesign:
    """The design of n records at C nodes, d columns.

    Attributes
    ----------
    clean : (p, n), the distinct clean parts.
    place : (d,), the clean part of each column; −1 where a column is kept densely.
    node : (C, d), the node's part of each column.
    dense : (C, e, n), the columns that do not factor, in order.
    """

    clean: Float
    place: Int
    node: Float
    dense: Float

    @classmethod
    def of(cls, design_of: FromColumns, parts: Sequence[Part] | None, d: int, records: Records) -> ProductDesign:
        """Evaluate a design on records, each kind of column no more often than it must be."""
        return _Builder(design_of, parts, d, records).built()

    @classmethod
    def given(cls, design: Float) -> ProductDesign:
        """A design (n, d) without perturbed columns."""
        n, d = design.shape
        return cls(np.ascontiguousarray(design.T), np.arange(d), np.ones((1, d)), np.empty((1, 0, n)))

    @property
    def n(self) -> int:
        return self.clean.shape[1]

    @property
    def d(self) -> int:
        return len(self.place)

    @property
    def nodes(self) -> int:
        return len(self.node)

    def rows(self, rows: slice) -> ProductDesign:
        """The design of some of the records; nothing is copied."""
        return ProductDesign(self.clean[:, rows], self.place, self.node, self.dense[:, :, rows])

    def at(self, node: int) -> ProductDesign:
        """The design of the records at one node; nothing is copied."""
        return ProductDesign(self.clean, self.place, self.node[[node]], self.dense[node : node + 1])

    def expanded(self) -> Float:
        """(n, C, d), for a block of records or a small sample; a column lies together in memory, as sums over records want it."""
        out, dense = np.empty((self.d, self.n, self.nodes)), iter(self.dense.transpose(1, 2, 0))
        for j, place in enumerate(self.place.tolist()):
            out[j] = next(dense) if place < 0 else self.clean[place][:, None] * self.node[:, j]
        return out.transpose(1, 2, 0)

    def _parts(self) -> Iterator[ProductDesign]:
        """Blocks of records that can be expanded."""
        size = max(1, ROWS // self.nodes)
        return (self.rows(slice(low, low + size)) for low in range(0, self.n, size))

    def gram(self) -> Float:
        """Σ_i Σ_c x xᵀ (d, d)."""
        return self._gram

    @cached_property
    def _gram(self) -> Float:
        if self.dense.size:
            flats = (part.expanded().reshape(-1, self.d) for part in self._parts())
            return np.asarray(sum(flat.T @ flat for flat in flats))
        inner = (self.clean @ self.clean.T)[np.ix_(self.place, self.place)]
        return np.asarray((self.node.T @ self.node) * inner)

    def sums(self, values: Float | None = None) -> Float:
        """Σ_i Σ_c x v (d,), for v = 1 or values by record (1, n) or by node and record (C, n)."""
        by_node = np.ones((1, self.n)) if values is None else values
        inner = self.clean @ by_node.T  # (p, 1 or C)
        own, out = self.place >= 0, np.empty(self.d)
        out[own] = np.sum(self.node[:, own].T * inner[self.place[own]], axis=1)
        out[~own] = np.einsum("cen,cn->e", self.dense, np.broadcast_to(by_node, (self.nodes, self.n)))
        return out

    def limits(self) -> tuple[Float, Float]:
        """Smallest and largest value of each column (d,)."""
        if self.dense.size:
            found = [(flat.min(axis=(0, 1)), flat.max(axis=(0, 1))) for flat in (p.expanded() for p in self._parts())]
            lows, highs = zip(*found, strict=True)
            return np.min(lows, axis=0), np.max(highs, axis=0)
        ends = np.stack([self.clean.min(axis=1), self.clean.max(axis=1)])[:, self.place]
        at = ends[:, None, :] * self.node[None]
        return at.min(axis=(0, 1)), at.max(axis=(0, 1))


class _Builder:
    """One evaluation of a design: which columns are clean, which are products, and which are neither."""

    def __init__(self, design_of: FromColumns, parts: Sequence[Part] | None, d: int, records: Records) -> None:
        self._design_of, self._records, self._d = design_of, records, d
        self._hidden = frozenset(records.nodes[0])
        by_level = not any(isinstance(v, np.ndarray) for node in records.nodes for v in node.values())
        self._parts = parts if by_level else None
        self._size = len(records.nodes)
        self._node = np.ones((self._size, d))
        self._place = np.full(d, -1, dtype=np.int64)
        self._clean = np.empty((0, records.n))
        self._filled = 0

    def built(self) -> ProductDesign:
        if self._size == 1 and self._parts is None:
            return ProductDesign.given(self._at(0, np.arange(self._d)))
        kinds = [self._kind(j) for j in range(self._d)]
        columns = {name: [j for j, kind in enumerate(kinds) if kind == name] for name in KINDS}
        shared = bool(columns["constant"])
        self._clean = np.empty((shared + len(columns["clean"]) + len(columns["mixed"]), self._records.n))
        if shared:
            self._next()[:] = 1.0  # the clean part of every column that reads no clean variable
        self._constant(columns["constant"])
        self._as_they_are(columns["clean"])
        dense = sorted([*self._mixed(columns["mixed"]), *columns["dense"]])
        values = np.empty((self._size, len(dense), self._records.n))
        if dense:
            for c in range(self._size):
                values[c] = self._at(c, np.array(dense)).T
        return ProductDesign(self._clean[: self._filled], self._place, self._node, values)

    def _kind(self, j: int) -> str:
        if self._parts is None:
            return "dense"
        part = self._parts[j]
        if part.reads <= self._hidden:
            return "constant"
        if not part.reads & self._hidden:
            return "clean"
        return "mixed" if part.separates(self._hidden) else "dense"

    def _constant(self, columns: list[int]) -> None:
        """Columns that read no clean variable, such as an intercept or a hidden level: one number a node."""
        if columns:
            self._node[:, columns] = self._tried[:, 0, columns]
            self._place[columns] = 0

    @cached_property
    def _few(self) -> Int:
        """Positions of some records, the first among them."""
        if not any(self._kind(j) == "mixed" for j in range(self._d)):
            return np.zeros(1, dtype=np.int64)
        return np.unique(np.linspace(0, self._records.n - 1, TRIED).astype(np.int64))

    @cached_property
    def _tried(self) -> Float:
        """The design (C, ·, d) of these records at every node, in one evaluation."""
        records, few, size = self._records, self._few, self._size
        clean = {name: np.tile(values[few], size) for name, values in records.columns.items()}
        node = np.repeat(np.arange(size), len(few))
        hidden = {name: decode(node, [at[name] for at in records.nodes]) for name in self._hidden}
        return self._design_of({**clean, **hidden}, len(node)).reshape(size, len(few), self._d)

    def _as_they_are(self, columns: list[int]) -> None:
        """Columns that read no hidden variable, numbers as they are without an evaluation of the formula."""
        parts = self._parts or ()
        found = {j: _plain(parts[j], self._records.columns, self._hidden) for j in columns}
        rest = [j for j in columns if found[j] is None]
        values = dict(zip(rest, self._at(0, np.array(rest)).T, strict=True)) if rest else {}
        for j in columns:
            own = found[j]
            self._add(j, values[j] if own is None else own)

    def _mixed(self, columns: list[int]) -> list[int]:
        """Products of a clean and a hidden part, found on a few records; returns those that could not be found there."""
        left: list[int] = []
        by_node: dict[int, list[int]] = {}
        for j in columns:
            values = self._tried[:, :, j]
            strongest = int(np.argmax(np.abs(values).max(axis=0)))
            base = int(np.argmax(np.abs(values[:, strongest])))
            if not np.isfinite(values).all() or values[base, strongest] == 0:
                left.append(j)
                continue
            share = values[:, strongest] / values[base, strongest]
            if np.abs(values - share[:, None] * values[base]).max() > 1e-9 * np.abs(values).max():
                left.append(j)
                continue
            own = _plain((self._parts or ())[j], self._records.columns, self._hidden)
            if own is not None:
                self._node[:, j] = values[:, strongest] / own[self._few[strongest]]
                self._add(j, own)
                continue
            self._node[:, j] = share
            by_node.setdefault(base, []).append(j)
        for base, at_base in by_node.items():
            for j, row in zip(at_base, self._at(base, np.array(at_base)).T, strict=True):
                self._add(j, row)
        return left

    def _next(self) -> Float:
        self._filled += 1
        return self._clean[self._filled - 1]

    def _add(self, j: int, row: Float) -> None:
        self._place[j] = self._filled
        self._next()[:] = row

    def _at(self, node: int, columns: Int) -> Float:
        """Some columns (n, ·) at one node, evaluated block by block."""
        records = self._records
        if records.n <= ROWS:
            return self._design_of(records.at(node), records.n)[:, columns]
        out = np.empty((records.n, len(columns)), order="F")
        for low in range(0, records.n, ROWS):
            part = records.rows(slice(low, min(low + ROWS, records.n)))
            out[low : low + part.n] = self._design_of(part.at(node), part.n)[:, columns]
        return out


def _plain(part: Part, columns: Columns, hidden: frozenset[str]) -> Float | None:
    """The clean part of a column as the product of numeric columns, or None where the formula must be evaluated."""
    clean = [(factor, plain) for factor, plain in zip(part.factors, part.plain, strict=True) if not factor <= hidden]
    if not all(plain and columns[name].dtype.kind in "iuf" for factor, plain in clean for name in factor):
        return None
    return reduce(np.multiply, (np.asarray(columns[name], dtype=float) for factor, _ in clean for name in factor))
