"""Ordinal logit (proportional odds) for a response with ordered classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pramana.arrays import Float
from pramana.errors import FormulaError
from pramana.estimating.cells import factor_of, refuse_unordered
from pramana.estimating.ordinal import OrdinalSystem
from pramana.estimating.stacked import StackedFunction
from pramana.formulas.classes import Classes
from pramana.formulas.generalized_linear import Design
from pramana.formulas.parsed import parse
from pramana.formulas.regressors import parse_plain, regressors, variables_in
from pramana.frames import Schema, Table


@dataclass(frozen=True)
class Ordinal:
    """Plan of `ordinal(formula)`."""

    formula: str
    log_scale: ClassVar[bool] = True

    @property
    def variables(self) -> tuple[str, ...]:
        return variables_in(parse(self.formula))

    def prepare(self, table: Table, schema: Schema) -> StackedFunction:
        parsed = parse_plain(self.formula)
        classes = Classes.of(parsed, table, schema)
        refuse_unordered(factor_of(classes.column, table, schema), "ordinal()", "multinomial()")
        slopes = Slopes.of(self.formula, regressors(parsed, table, schema))

        def codes(columns: Mapping[str, object], n: int) -> Float:
            return classes.codes(columns, n).astype(float)

        levels = tuple(str(level) for level in classes.levels)
        return StackedFunction(OrdinalSystem(levels, slopes.names, slopes, codes), self.variables)


def ordinal(formula: str) -> Ordinal:
    """Ordinal logit (proportional odds): logit Pr(y ≤ k | x) = θ_k − xᵀβ, for three or more ordered levels.

    The order must be known: numbers have one, levels of a perturbed column have one where the mechanism says kind="ordinal",
    and text has one as an ordered pandas category or a polars Enum; other levels are refused. Thresholds are named
    "low|mid"; they take the place of the intercept. A perturbed response is reverted with the whole inverse of its
    transition matrix.

    >>> import pramana as pr
    >>> levels = ["low", "mid", "high"]
    >>> mechanism = pr.Mechanism({"health": pr.TransitionMatrix.randomized_response(levels, keep=0.8, kind="ordinal")})
    >>> data = {"health": levels * 40 + ["high"] * 30, "age": [5, 4, 3, 2, 1] * 30}
    >>> result = pr.fit(ordinal("health ~ age"), data, mechanism)
    >>> result.parameters
    ('low|mid', 'mid|high', 'age')
    """
    return Ordinal(formula)


@dataclass(frozen=True)
class Slopes:
    """A design without its intercept."""

    design: Design
    kept: tuple[int, ...]

    @classmethod
    def of(cls, formula: str, design: Design) -> Slopes:
        if "Intercept" not in design.names:
            raise FormulaError(f"formula {formula!r} drops the intercept, whose place the thresholds take: leave it in")
        kept = tuple(j for j, name in enumerate(design.names) if name != "Intercept")
        if not kept:
            raise FormulaError(f"formula {formula!r} has no term: use proportions(...) for the shares of the levels")
        return cls(design, kept)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.design.names[j] for j in self.kept)

    def __call__(self, columns: Mapping[str, object], n: int) -> Float:
        return np.ascontiguousarray(self.design(columns, n)[:, list(self.kept)])
