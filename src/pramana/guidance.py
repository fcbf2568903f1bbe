"""Which estimator to use: tests that decide between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pramana.analysis.sampling import ColumnLike
from pramana.analysis.task import Job
from pramana.errors import FormulaError, released
from pramana.estimating import Family
from pramana.estimators.likelihood.maximum import Likelihood
from pramana.estimators.likelihood.specification import specification
from pramana.formulas.text import is_call
from pramana.frames import Schema
from pramana.inference.hypotheses import SpecificationTest
from pramana.mechanism import Mechanism
from pramana.models.negative_binomial import NO_LIKELIHOOD, NegativeBinomial


@released
def specification_test(
    formula: str,
    data: Any,
    mechanism: Mechanism | str | Path | None,
    *,
    family: str | Family = "binomial",
    link: str | None = None,
    covariate_model: str | None = None,
    weights: ColumnLike = None,
    frequencies: ColumnLike = None,
    missing: Literal["error", "drop"] = "error",
) -> SpecificationTest:
    """Test the model of `method="likelihood"` against reversion, which does not need it.

    Where the model holds, the reversion score at the maximum likelihood estimate is zero up to noise of known size.
    For every family with a likelihood, with perturbed response, covariates or both; refused where the model is
    saturated, because both estimators then coincide. The likelihood's whole model is tested, its error law and
    `covariate_model` included. Other arguments as in `fit` and `Likelihood`.

    >>> import numpy as np, pramana as pr
    >>> k = np.arange(2000)
    >>> x = -2 + 0.002 * k
    >>> y = (k * 0.618 % 1 < 1 / (1 + np.exp(1 - x - 0.5 * x**2))).astype(int)
    >>> released = np.where(k * 0.377 % 1 < 0.15, 1 - y, y)
    >>> mechanism = pr.Mechanism({"y": pr.TransitionMatrix.binary(sensitivity=0.85, specificity=0.85)})
    >>> print(pr.specification_test("y ~ x", {"x": x, "y": released}, mechanism))
    Specification test: chi2(2) = 52, p = 5.107e-12
    The released data contradict the model: prefer method='reversion', or enrich the formula and test again.
    >>> pr.specification_test("y ~ x + I(x**2)", {"x": x, "y": released}, mechanism).p_value > 0.05
    True
    """
    if not isinstance(formula, str) or is_call(formula):
        raise FormulaError(f"the specification test is for a formula such as 'y ~ x', not {formula!r}")
    job = Job.read(
        formula,
        data,
        mechanism,
        family=family,
        link=link,
        weights=weights,
        frequencies=frequencies,
        clusters=None,
        missing=missing,
    )
    if isinstance(job.plan, NegativeBinomial):
        raise FormulaError(NO_LIKELIHOOD)
    schema = job.mechanism.schema if job.mechanism is not None else Schema()
    function = job.plan.prepare(job.table, schema)
    method = Likelihood(covariate_model=covariate_model)
    return specification(method, function, job.mechanism, job.table, job.weights, job.frequencies)
