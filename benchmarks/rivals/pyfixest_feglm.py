"""pyfixest's `feglm` of the clean file, with standard errors robust to heteroskedasticity."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pyfixest


def fitting(formula: str, frame: pd.DataFrame) -> Callable[[], float]:
    """One whole fit, and the coefficient of `x1`."""
    return lambda: float(pyfixest.feglm(formula, frame, family="logit", vcov="hetero").coef()["x1"])
