"""The naive estimator: released values taken as true. Biased; here to be compared with."""

from __future__ import annotations

from dataclasses import dataclass

from pramana.arrays import Float
from pramana.estimating import EstimatingFunction, Records
from pramana.estimators.method import Binding, EquationMethod
from pramana.frames import Table
from pramana.mechanism import Mechanism


@dataclass(frozen=True)
class Naive(EquationMethod):
    """Treat the released values as the true ones; names and levels still come from the mechanism."""

    label: str = "naive"

    @property
    def takes_as_true(self) -> bool:
        return True

    @property
    def repeats(self) -> bool:
        return True

    def bind(
        self,
        function: EstimatingFunction,
        mechanism: Mechanism | None,
        table: Table,
        weights: Float,  # noqa: ARG002 - no nuisance fit
    ) -> Binding:
        if mechanism is not None:
            for assignment in mechanism.used_by(function.variables):
                assignment.encoded(table)
        columns = {name: table.column(name) for name in function.variables}
        return Binding(function.equation(Records.clean(table.n, columns)))
