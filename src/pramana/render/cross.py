"""A cross table in two dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from pramana.arrays import Float
from pramana.numbers import Format
from pramana.render.tables import Sheet, Shown, render


@dataclass(frozen=True, repr=False)
class CrossedEstimates(Shown):
    """Estimates of cells with their standard errors, levels of the last column side by side, and totals at the margins.

    Attributes
    ----------
    names : the columns of the table.
    rows, columns : labels of rows (combinations of levels of all columns but the last) and of columns, without the totals.
    estimate, std_error : (R + 1, C + 1), with totals last.
    """

    names: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    estimate: Float
    std_error: Float
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        grid: tuple[tuple[str, tuple[str, ...]], ...],
        estimate: Float,
        covariance: Float,
        facts: tuple[tuple[str, str], ...] = (),
        notes: tuple[str, ...] = (),
    ) -> CrossedEstimates:
        """From columns with their levels, of which the last run fastest, and the cells (R·C,) with their covariance.

        >>> table = CrossedEstimates.of((("a", ("x", "y")), ("b", ("u", "v"))), np.array([0.1, 0.2, 0.3, 0.4]), np.eye(4) * 1e-4)
        >>> table.estimate.round(2)
        array([[0.1, 0.2, 0.3],
               [0.3, 0.4, 0.7],
               [0.4, 0.6, 1. ]])
        """
        *others, (_, columns) = grid
        rows = [" × ".join(labels) for labels in product(*(levels for _, levels in others))] or [""]
        size = len(rows), len(columns)
        sums = [np.vstack([np.eye(n), np.ones(n)]) for n in size]
        totals = np.kron(*sums)  # a row for every cell and total, in the order of the table
        shape = size[0] + 1, size[1] + 1
        variances = np.einsum("ij,jk,ik->i", totals, covariance, totals)
        errors = np.sqrt(np.maximum(variances, 0.0))
        names = tuple(name for name, _ in grid)
        return cls(names, tuple(rows), columns, (totals @ estimate).reshape(shape), errors.reshape(shape), facts, notes)

    def sheet(self) -> Sheet:
        head = " × ".join(self.names[:-1]) or "total"
        labels = [*self.rows, "total"] if len(self.rows) > 1 else [""]
        shown = Format.of([*self.estimate.ravel(), *self.std_error.ravel()])
        body = [
            (label, *(f"{shown(e)} ({shown(s)})" for e, s in zip(*pair, strict=True)))
            for label, *pair in zip(labels, self.estimate, self.std_error, strict=False)
        ]
        return Sheet(
            (head, *self.columns, "total"),
            tuple(body),
            f"{head} by {self.names[-1]}",
            self.facts,
            self.notes,
            right=(False, *(True for _ in self.columns), True),
            data=self.to_dicts(),
            records=self.to_dicts(),
        )

    def to_dicts(self) -> list[dict[str, Any]]:
        """A row for every cell and total."""
        rows, columns = [*self.rows, "total"], [*self.columns, "total"]
        return [
            {
                "row": row,
                "column": column,
                "estimate": float(self.estimate[i, j]),
                "std_error": float(self.std_error[i, j]),
            }
            for i, row in enumerate(rows)
            for j, column in enumerate(columns)
        ]

    def summary(self, style: str = "text") -> str:
        """Estimates with standard errors in brackets."""
        return render(self.sheet(), style)
