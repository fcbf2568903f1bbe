"""glum's unpenalised logistic regression of the clean response; no standard errors, and its default tolerance."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
from glum import GeneralizedLinearRegressor


def fitting(formula: str, frame: pd.DataFrame) -> Callable[[], float]:
    """One whole fit from the formula's columns of the frame, and the coefficient of `x1`."""
    response, terms = formula.split(" ~ ")
    names = terms.split(" + ")

    def work() -> float:
        model = GeneralizedLinearRegressor(family="binomial", alpha=0).fit(frame[names], frame[response])
        return float(model.coef_[names.index("x1")])

    return work


def fitting_by_formula(formula: str, frame: pd.DataFrame) -> Callable[[], float]:
    """The same where glum reads the formula itself, which it is slower at."""

    def work() -> float:
        model = GeneralizedLinearRegressor(family="binomial", alpha=0, formula=formula, fit_intercept=True).fit(frame)
        return float(model.coef_[list(model.feature_names_).index("x1")])

    return work
