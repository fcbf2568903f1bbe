"""Means of new records under a fitted generalised linear model; holds levels and transforms, no rows of data."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pramana.arrays import Column, Float
from pramana.errors import DataError, quoted
from pramana.estimating import GeneralizedLinear
from pramana.formulas.design import FormulaDesign, Offset
from pramana.frames import Table, read
from pramana.frames.table import is_missing
from pramana.kernels.predictor import Curve


@dataclass(frozen=True)
class Prediction:
    """A design and the mean as a function of the linear predictor.

    Attributes
    ----------
    design : without the records it was learnt from.
    curve : η ↦ (μ, μ′, …).
    offset : whether the formula has one.
    reads : the variables behind each column of the design.
    """

    design: FormulaDesign
    curve: Curve
    offset: bool = False
    reads: tuple[frozenset[str], ...] = ()

    @classmethod
    def of(cls, model: GeneralizedLinear | None) -> Prediction | None:
        """None for anything without a linear predictor that came from a formula."""
        if model is None or not isinstance(model.design_of, FormulaDesign):
            return None
        return cls(model.design_of, model.family.curve, isinstance(model.offset_of, Offset), model.reads)

    def at(self, data: Any, estimate: Float, covariance: Float, reach: float) -> dict[str, Float]:
        """Mean, delta-method standard error and limits (transformed from the linear predictor) for every record."""
        table = read(data)
        columns = self._columns(table)
        x = _computed(self.design, columns, table.n)
        terms = slice(0, x.shape[1])  # a dispersion comes after the coefficients
        estimate, covariance = estimate[terms], covariance[terms, terms]
        eta = x @ estimate
        if self.offset:
            eta = eta + Offset(self.design)(columns, table.n)
        error = np.sqrt(np.maximum(np.einsum("nj,jk,nk->n", x, covariance, x), 0.0))
        mean, slope = self.curve(eta)[:2]
        limits = [self.curve(eta + side * reach * error)[0] for side in (-1, 1)]
        low, high = np.minimum(*limits), np.maximum(*limits)
        return {
            "prediction": np.asarray(mean),
            "std_error": np.abs(slope) * error,
            "conf_low": np.asarray(low),
            "conf_high": np.asarray(high),
        }

    def _columns(self, table: Table) -> Mapping[str, Column]:
        for name in self.design.variables:
            count = int(is_missing(table.column(name)).sum())
            if count:
                raise DataError(
                    f"column {name!r} of the new data has {count} missing value(s): fill them or leave them out"
                )
        return {name: table.column(name) for name in self.design.variables}


def _computed(design: FormulaDesign, columns: Mapping[str, object], n: int) -> Float:
    """The design of new records; a level that the fit never saw is an error, not the reference."""
    from formulaic.errors import DataMismatchWarning

    with warnings.catch_warnings():
        warnings.simplefilter("error", DataMismatchWarning)
        try:
            x = design(columns, n)
        except DataMismatchWarning as warning:
            unseen = str(warning).partition("{")[2].partition("}")[0]
            raise DataError(
                f"the new data have levels that the fit did not see ({quoted(unseen)}): recode or drop them"
            ) from None
    if not np.all(np.isfinite(x)):
        raise DataError("the new data give terms that are infinite or missing: check the columns that are transformed")
    return x
