"""Tables that stay in the simplex: by maximum likelihood, or by projecting an estimate, and only when asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from pramana.arrays import Float
from pramana.errors import PramanaError
from pramana.estimating.tables import crosstab
from pramana.estimators.table_result import TableResult
from pramana.given import ColumnLike
from pramana.mechanism import Mechanism
from pramana.pipeline import fit
from pramana.result import Diagnostic, Result


def table_em(
    columns: str | Sequence[str],
    data: Any,
    mechanism: Mechanism | str | Path | None,
    *,
    frequencies: ColumnLike = None,
    missing: Literal["error", "drop"] = "error",
) -> TableResult:
    """The maximum-likelihood table of one or several columns by EM, after van den Hout and van der Heijden (2002).

    The same as `fit(crosstab(...), data, mechanism, method="likelihood")`. Where the reverted table (`crosstab`) has no
    negative cell the two agree; elsewhere some cells of this one are zero and the others share what is left, at the
    price of a bias. Standard errors come from the observed information, with empty cells held at zero. Records count
    alike: there are frequencies, but no sampling weights.

    >>> import pramana as pr
    >>> mechanism = pr.Mechanism({"smokes": pr.TransitionMatrix.binary(0.9, 0.8, levels=("no", "yes"))})
    >>> cells = {"smokes": ["no", "no", "yes", "yes"], "ill": ["no", "yes", "no", "yes"], "n": [520, 60, 300, 120]}
    >>> result = table_em(["smokes", "ill"], cells, mechanism, frequencies="n")
    >>> result.estimate.round(4), round(result.log_likelihood, 2)
    (array([0.6257, 0.06  , 0.1943, 0.12  ]), -1124.47)
    >>> print(result.independence)
    Likelihood-ratio test: chi2(1) = 54.43, p = 1.61e-13
    """
    plan = crosstab(columns)
    result = fit(plan, data, mechanism, method="likelihood", frequencies=frequencies, missing=missing)
    return cast(TableResult, result)


def to_simplex(result: Result) -> Result:
    """Shares projected to the nearest distribution (Euclidean); nothing is ever projected without asking.

    The covariance stays that of the unprojected estimate, which is the larger one. `table_em` weighs the cells by how
    well they are known, and is to be preferred.

    >>> import pramana as pr
    >>> mechanism = pr.Mechanism({"y": pr.TransitionMatrix.binary(sensitivity=0.5, specificity=0.95)})
    >>> result = pr.fit(pr.proportions("y"), {"y": [1] * 5 + [0] * 120}, mechanism)
    >>> result.estimate.round(4), to_simplex(result).estimate
    (array([ 1.0222, -0.0222]), array([1., 0.]))
    """
    if abs(float(result.estimate.sum()) - 1) > 1e-6 or result.estimate.size < 2:
        raise PramanaError(
            f"the estimates sum to {float(result.estimate.sum()):.6g}, so they are no distribution: to_simplex() takes a result of "
            "proportions() or crosstab() that holds every cell"
        )
    shares = _projected(result.estimate)
    moved = float(np.abs(shares - result.estimate).max())
    note = f"shares projected to the simplex, by at most {moved:.3g}; standard errors are those before the projection"
    diagnostics = (*result.diagnostics, Diagnostic("projected", "info", note))
    return replace(result, estimate=shares, diagnostics=diagnostics)


def _projected(values: Float) -> Float:
    """Shift by a constant and cut at zero so that the sum is 1."""
    ordered = np.sort(values)[::-1]
    shifts = (np.cumsum(ordered) - 1) / np.arange(1, values.size + 1)
    last = np.flatnonzero(ordered > shifts)[-1]
    return np.asarray(np.clip(values - shifts[last], 0.0, None))
