"""Records spread over candidate true values: what an estimating function is bound to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pramana.arrays import Bool, Column, Columns, Float, Int


@dataclass(frozen=True)
class ResponseNodes:
    """The measure behind the moments of a response: numbers (K,) and their signed weights `table[row_i, k]`."""

    values: Float
    table: Float
    row: Int


@dataclass(frozen=True)
class ResponseMoments:
    """A response summed out beforehand, for functions linear in it: its first and second reverted moments (n,).

    Attributes
    ----------
    nodes : the measure itself, which products of several records need, where they share a draw; None elsewhere.
    """

    first: Float
    second: Float
    released: Float
    nodes: ResponseNodes | None = None

    def rows(self, rows: slice) -> ResponseMoments:
        nodes = None if self.nodes is None else replace(self.nodes, row=self.nodes.row[rows])
        return ResponseMoments(self.first[rows], self.second[rows], self.released[rows], nodes)

    @property
    def combinations(self) -> int:
        """Values that a true response can have; 1 where it is what it seems."""
        return 1 if self.nodes is None else len(self.nodes.values)

    def pinned(self, k: int) -> ResponseMoments:
        """The k-th value for everybody."""
        if self.nodes is None:
            return self
        y = np.full(len(self.first), self.nodes.values[k])
        return ResponseMoments(y, y**2, y)

    def mass(self, k: int, records: Int) -> Float:
        """Signed weights (m,) of the k-th value for some records (m,)."""
        return np.ones(len(records)) if self.nodes is None else self.nodes.table[self.nodes.row[records], k]

    def softened(self, t: float) -> ResponseMoments:
        """A share t of the noise undone."""
        first, second = ((1 - t) * self.released**p + t * m for p, m in ((1, self.first), (2, self.second)))
        return ResponseMoments(first, second, self.released)


@dataclass(frozen=True)
class Records:
    """n records, each spread over C nodes (candidate true values) with signed weights `table[row_i, c]`.

    Records that share their weights share a row of the table, so that nothing of size n × C is stored where a table by
    released value will do; weights by record are the case R = n.

    Attributes
    ----------
    columns : values that are what they seem, one array (n,) a variable.
    nodes : for each node, the values of the other variables: a level, or an array (n,).
    table : (R, C), rows sum to 1.
    row : (n,), the table's row of each record.
    released : (R,), the node that stands for the released values.
    response : moments of a response that was summed out, or None.
    domain : of records within a domain, where weights of nodes outside of it are zero: whether the released node lies inside
        (R,); None where everything counts. Rows of the table then sum to the reverted membership.
    """

    n: int
    columns: Columns
    nodes: tuple[Mapping[str, object], ...]
    table: Float
    row: Int
    released: Int
    response: ResponseMoments | None = None
    domain: Float | None = None

    @classmethod
    def clean(cls, n: int, columns: Columns) -> Records:
        """Records whose values are taken as true."""
        zero = np.zeros(1, dtype=np.int64)
        return cls(n, columns, ({},), np.ones((1, 1)), np.broadcast_to(zero, n), zero)

    @property
    def weights(self) -> Float:
        """The signed weights of every record (n, C): for blocks, and for what needs them by record."""
        return np.take(self.table, self.row, axis=0)

    @property
    def membership(self) -> Float | None:
        """Reverted membership in the domain (n,); None where everything counts."""
        return None if self.domain is None else self.table.sum(axis=1)[self.row]

    def learning(self, weights: Float, size: float) -> tuple[Float, float]:
        """Row weights (n,), and the records that they are worth, for what is learned from released records: within a domain, of
        those that were released as its members."""
        member = self.inside
        if member is None or not np.any(weights * member):
            return weights, size
        return weights * member, size * float(weights @ member) / float(weights.sum())

    @property
    def inside(self) -> Float | None:
        """Whether each record was released as a member of the domain (n,); None where everything counts."""
        return None if self.domain is None else self.domain[self.row]

    def within(self, inside: Callable[[Mapping[str, object], int], Bool], variables: Collection[str]) -> Records:
        """The records within a domain: Σ_c w_c 1{node c inside} U. Columns beside `variables` are summed out of the nodes.

        Parameters
        ----------
        inside : columns of a node, and n ↦ whether each record is in the domain there (n,).
        """
        import pandas as pd

        member = np.stack([inside(self.at(c), self.n) for c in range(len(self.nodes))], axis=1)
        key = self.row
        for column in member.T:
            if column.any() and not column.all():
                key = pd.factorize(key * 2 + column)[0]
        row, first = pd.factorize(key)[0], np.flatnonzero(~pd.Series(key).duplicated())
        table = self.table[self.row[first]] * member[first]
        released = self.released[self.row[first]]
        nodes, place = _merged(self.nodes, variables)
        summed = np.zeros((len(table), len(nodes)))
        np.add.at(summed.T, place, table.T)
        return replace(
            self,
            columns={name: values for name, values in self.columns.items() if name in variables},
            nodes=nodes,
            table=summed,
            row=row,
            released=place[released],
            domain=member[first, released].astype(float),
        )

    def at(self, node: int) -> dict[str, object]:
        """All columns with the given node's values filled in; a level stands for a whole column of itself."""
        return {**self.columns, **self.nodes[node]}

    def rows(self, rows: slice) -> Records:
        """Some of the records."""
        size = len(range(*rows.indices(self.n)))
        nodes = tuple({k: _cut(v, rows) for k, v in node.items()} for node in self.nodes)
        columns = {k: v[rows] for k, v in self.columns.items()}
        response = None if self.response is None else self.response.rows(rows)
        return Records(size, columns, nodes, self.table, self.row[rows], self.released, response, self.domain)

    @property
    def combinations(self) -> int:
        """Values that all hidden variables of a record can have together: nodes, times those of a response summed out."""
        return len(self.nodes) * (1 if self.response is None else self.response.combinations)

    def combination(self, k: int) -> tuple[int, int]:
        """The node and the value of the response that make up the k-th combination."""
        return divmod(k, 1 if self.response is None else self.response.combinations)

    def pinned(self, k: int) -> Records:
        """The records with the k-th combination for their truth, all of them."""
        node, value = self.combination(k)
        response = None if self.response is None else self.response.pinned(value)
        table, row = np.eye(len(self.nodes))[[node]], np.zeros(self.n, dtype=np.int64)
        return replace(self, table=table, row=row, released=np.array([node]), response=response)

    @property
    def sole(self) -> int | None:
        """The node that all records have for their truth, as where they are pinned; None where they are spread over several."""
        node = int(self.table[0].argmax())
        pinned = len(self.table) == 1 and self.table[0, node] == 1 and np.count_nonzero(self.table) == 1
        return node if pinned else None

    def only(self, node: int) -> Records:
        """The records with one node for their truth, and no others."""
        return replace(
            self,
            nodes=(self.nodes[node],),
            table=np.ones((1, 1)),
            row=np.zeros(self.n, np.int64),
            released=np.zeros(1, np.int64),
        )

    def mass(self, k: int, records: Int) -> Float:
        """Signed weights (m,) of the k-th combination for some records (m,)."""
        node, value = self.combination(k)
        own = self.table[self.row[records], node]
        return own if self.response is None else own * self.response.mass(value, records)

    def softened(self, t: float) -> Records:
        """The records with a share t of the noise undone: t = 0 is naive, t = 1 the full reversion."""
        table = softened(self.table, self.released, t, self.domain)
        return replace(self, table=table, response=None if self.response is None else self.response.softened(t))

    def reweighted(self, weights: Float) -> Records:
        """The same nodes under weights by record (n, C)."""
        domain = None if self.domain is None else self.domain[self.row]
        return replace(self, table=weights, row=np.arange(self.n), released=self.released[self.row], domain=domain)


def _merged(
    nodes: Sequence[Mapping[str, object]], variables: Collection[str]
) -> tuple[tuple[Mapping[str, object], ...], Int]:
    """Nodes without other columns than these, once each, and the place (C,) of every node among them."""
    kept = [{name: value for name, value in node.items() if name in variables} for node in nodes]
    keys = [tuple(id(v) if isinstance(v, np.ndarray) else v for v in node.values()) for node in kept]
    distinct = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    return tuple(kept[keys.index(key)] for key in distinct), np.array([distinct[key] for key in keys])


def softened(table: Float, released: Int, t: float, mass: Float | float | None = None) -> Float:
    """Signed weights (R, C) mixed with a point mass at the released node: (1 − t) naive + t reverted."""
    naive = np.zeros_like(table)
    naive[np.arange(len(table)), released] = 1.0 if mass is None else mass
    return (1 - t) * naive + t * table


def _cut(value: object, rows: slice) -> object:
    return value[rows] if isinstance(value, np.ndarray) else value


def broadcast(value: object, n: int) -> Column:
    """A node's value as a column."""
    if isinstance(value, np.ndarray) and value.shape == (n,):
        return value
    if isinstance(value, str):
        column = np.empty(n, dtype=object)
        column[:] = value
        return column
    return np.full(n, value)
