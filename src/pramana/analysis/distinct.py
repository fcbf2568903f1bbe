"""Combinations of values that occur in batches of records, and how many records have each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pramana.arrays import Column

FEW = 1 << 16
"""Combinations that wait before they are put together with those that are known."""
RECORDS = "records"


def value_counts(columns: Mapping[str, Column]) -> Any:
    """The combinations of some records, in the order in which they appear first, with the number of records of each."""
    import pandas as pd

    return pd.DataFrame(dict(columns)).groupby(list(columns), sort=False, dropna=False).size().reset_index(name=RECORDS)


@dataclass
class Distinct:
    """Combinations of all batches, in the order in which they appear first. They are put together when as many are waiting as
    are known, so that the work grows with the batches and not with their number times what is known."""

    known: Any = None
    waiting: list[Any] = field(default_factory=list)

    def add(self, found: Any) -> None:
        """Those of one more batch; None where it tells none."""
        if found is None:
            return
        self.waiting.append(found)
        if sum(map(len, self.waiting)) > max(FEW, 0 if self.known is None else len(self.known)):
            self.together()

    def together(self) -> Any:
        """All of them; None where no batch told any."""
        import pandas as pd

        if self.waiting:
            whole = pd.concat([*([] if self.known is None else [self.known]), *self.waiting])
            names = [name for name in whole.columns if name != RECORDS]
            self.known = whole.groupby(names, sort=False, dropna=False)[RECORDS].sum().reset_index()
            self.waiting = []
        return self.known
