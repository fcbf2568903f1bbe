"""Formulas of quantile regressions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pramana.errors import FormulaError
from pramana.estimating import family_of
from pramana.estimating.generalized_linear import refuse_collinear
from pramana.estimating.quantile_regression import Kernel, QuantileSystem
from pramana.estimating.stacked import StackedFunction
from pramana.formulas.parsed import parse
from pramana.formulas.regressors import parse_plain, regressors, variables_in
from pramana.formulas.response import Response
from pramana.frames import Schema, Table


@dataclass(frozen=True)
class QuantileRegression:
    """Plan of `quantile_regression(formula, q)`."""

    formula: str
    q: float
    bandwidth: float | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        return variables_in(parse(self.formula))

    def prepare(self, table: Table, schema: Schema) -> StackedFunction:
        parsed = parse_plain(self.formula)
        design = regressors(parsed, table, schema)
        response = Response.fit(parsed, table, schema, family_of("gaussian", None))
        released = {name: table.column(name) for name in self.variables}
        x, y = design(released, table.n), response(released, table.n)
        refuse_collinear([x], design.names)
        kernel = Kernel.of(x, y, np.ones(table.n), table.n, self.bandwidth)
        system = QuantileSystem(design.names, self.q, kernel, design, response, self.bandwidth)
        return StackedFunction(system, self.variables)


def quantile_regression(formula: str, q: float = 0.5, *, bandwidth: float | None = None) -> QuantileRegression:
    """The q-quantile of the response as a linear function of the covariates, any of which may be perturbed.

    The score of the check loss is smoothed by a Gaussian kernel and solved by Newton's method; reverted weights are signed, so
    that the loss is not convex and no linear programme applies. Being smooth, it takes the sandwich.

    Parameters
    ----------
    q : between 0 and 1.
    bandwidth : standard deviation of the kernel, in units of the response. By default n^(−1/3) times a robust standard
        deviation of the residuals of least squares on the released data; the result's facts state the number used.
        Frequencies and sampling weights enter as in `quantile`.

    >>> import pramana as pr
    >>> data = {"wage": [w + (w % 7) for w in range(100)], "age": range(100)}
    >>> result = pr.fit(pr.quantile_regression("wage ~ age", 0.5), data, None)
    >>> [round(float(b), 1) for b in result.estimate]
    [2.8, 1.0]
    """
    if isinstance(q, bool) or not isinstance(q, int | float) or not 0 < q < 1:
        raise FormulaError(f"q={q!r} must be a number between 0 and 1, both excluded")
    if bandwidth is not None and not 0 < bandwidth < np.inf:
        raise FormulaError(f"bandwidth={bandwidth!r} must be positive: it is in units of the response")
    return QuantileRegression(formula, float(q), bandwidth)
