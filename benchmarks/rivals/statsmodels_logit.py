"""statsmodels' logistic regression of the clean file by formula, with standard errors robust to heteroskedasticity."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import statsmodels.formula.api as smf


def fitting(formula: str, frame: pd.DataFrame) -> Callable[[], float]:
    """One whole fit, and the coefficient of `x1`."""
    return lambda: float(smf.logit(formula, frame).fit(disp=0, cov_type="HC0").params["x1"])
