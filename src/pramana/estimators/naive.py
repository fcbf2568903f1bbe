"""The naive estimator: released values taken as true. Biased; here to be compared with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pramana.arrays import Float
from pramana.estimating import EstimatingFunction, Records
from pramana.estimators.made import MadeRecords
from pramana.estimators.method import Binding, EquationMethod
from pramana.formulas.subset import Subset
from pramana.frames import Table
from pramana.mechanism import Mechanism


@dataclass(frozen=True)
class Naive(EquationMethod):
    """Treat the released values as the true ones; names and levels still come from the mechanism."""

    label: str = "naive"
    subset: Subset | None = None

    def within(self, subset: Subset) -> Naive:
        """Released values decide, as everywhere."""
        return replace(self, subset=subset)

    @property
    def by_blocks(self) -> bool:
        return True

    @property
    def takes_as_true(self) -> bool:
        return True

    @property
    def repeats(self) -> bool:
        return True

    def bind_made(self, made: MadeRecords) -> Any | None:
        """Reversion with a matrix that changes nothing."""
        return None if self.subset is not None else made.reverted(np.eye(made.levels))

    def bind(
        self,
        function: EstimatingFunction,
        mechanism: Mechanism | None,
        table: Table,
        weights: Float,  # noqa: ARG002 - no nuisance fit
    ) -> Binding:
        conditions = () if self.subset is None else self.subset.variables
        if mechanism is not None:
            for assignment in mechanism.used_by((*function.variables, *conditions)):
                assignment.refuse_reports("the naive estimator takes released values for true ones")
                assignment.encoded(table)
        columns = {name: table.column(name) for name in dict.fromkeys((*function.variables, *conditions))}
        records = Records.clean(table.n, columns)
        if self.subset is not None:
            records = records.within(self.subset.inside, function.variables)
        return Binding(function.equation(records))
