"""Which estimator to use: tests that decide between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pramana.estimating import Family
from pramana.estimators.likelihood import Likelihood
from pramana.estimators.specification import SpecificationTest, specification
from pramana.frames import Schema
from pramana.mechanism import Mechanism
from pramana.pipeline import Job


def specification_test(
    formula: str,
    data: Any,
    mechanism: Mechanism | str | Path | None,
    *,
    family: str | Family = "binomial",
    link: str | None = None,
    covariate_model: str | None = None,
    missing: Literal["error", "drop"] = "error",
) -> SpecificationTest:
    """Test the model of `method="likelihood"` against reversion, which does not need it.

    Where the model holds, the reversion score at the maximum likelihood estimate is zero up to noise of known size.
    For binary regressions (any link) with perturbed response, covariates or both; refused where the model is saturated,
    because both estimators then coincide. Data and mechanism as in `fit`, `covariate_model` as in `Likelihood`.

    >>> import numpy as np, pramana as pr
    >>> x = np.linspace(-2, 2, 1000)
    >>> y = (np.arange(1000) * 0.618 % 1 < 1 / (1 + np.exp(1 - x - x**2))).astype(int)
    >>> P = pr.TransitionMatrix.binary(sensitivity=0.95, specificity=0.95)
    >>> flipped = np.where(np.arange(1000) * 0.377 % 1 < 0.05, 1 - y, y)
    >>> test = pr.specification_test("y ~ x", {"x": x, "y": flipped}, pr.Mechanism({"y": P}))
    >>> test.df, bool(test.p_value < 0.001)
    (2, True)
    """
    job = Job.read(
        formula,
        data,
        mechanism,
        family=family,
        link=link,
        weights=None,
        frequencies=None,
        clusters=None,
        missing=missing,
    )
    schema = job.mechanism.schema if job.mechanism is not None else Schema()
    function = job.plan.prepare(job.table, schema)
    return specification(Likelihood(covariate_model=covariate_model), function, job.mechanism, job.table)
