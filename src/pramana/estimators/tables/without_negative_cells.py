"""Tables that stay in the simplex: by maximum likelihood, or by projecting an estimate onto it, and only when asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from pramana.analysis.sampling import ColumnLike, SamplingArguments
from pramana.analysis.task import Options, Task
from pramana.arrays import Float
from pramana.diagnostic import Diagnostic
from pramana.errors import PramanaError, released
from pramana.estimators import Likelihood
from pramana.estimators.measured import taken_as_known
from pramana.estimators.tables.likelihood import TableResult
from pramana.mechanism import Mechanism
from pramana.parameters.tables import crosstab
from pramana.result import Result, warned


@released
def table_em(
    columns: str | Sequence[str],
    data: Any,
    mechanism: Mechanism | str | Path | None,
    *,
    frequencies: ColumnLike = None,
    weights: ColumnLike = None,
    missing: Literal["error", "drop"] = "error",
) -> TableResult:
    """The maximum-likelihood table of one or several columns by EM, after van den Hout and van der Heijden (2002).

    The same as `fit(crosstab(...), data, mechanism, method="likelihood")`. Where the reverted table (`crosstab`) has no
    negative cell the two agree; elsewhere some cells of this one are zero and the others share what is left, at the
    price of a bias. Standard errors come from the observed information, with empty cells held at zero. Records count
    alike: there are frequencies, but sampling weights are refused.

    >>> import pramana as pr
    >>> mechanism = pr.Mechanism({"smokes": pr.TransitionMatrix.binary(0.9, 0.8, levels=("no", "yes"))})
    >>> cells = {"smokes": ["no", "no", "yes", "yes"], "ill": ["no", "yes", "no", "yes"], "n": [520, 60, 300, 120]}
    >>> result = table_em(["smokes", "ill"], cells, mechanism, frequencies="n")
    >>> result.estimate.round(4), round(result.log_likelihood, 2)
    (array([0.6257, 0.06  , 0.1943, 0.12  ]), -1124.47)
    >>> print(result.independence)
    Likelihood-ratio test: chi2(1) = 54.43, p < 0.0001
    """
    if weights is not None:
        raise PramanaError(
            "a maximum-likelihood table counts every record alike and takes no sampling weights: use fit(crosstab(...), ..., "
            "weights=...), and to_simplex() where a cell is negative"
        )
    task = Task.read(
        crosstab(columns), data, mechanism, SamplingArguments(frequencies=frequencies), Options(missing=missing)
    )
    found = cast(TableResult, Likelihood().estimate(task))
    return warned(taken_as_known(found, Likelihood(), task))


def to_simplex(result: Result) -> Result:
    """Shares or counts projected to the nearest table without negative cells (Euclidean); never without asking.

    Shares within domains are projected in each domain; counts keep their sum. Covariance and intervals stay those of the
    unprojected estimate, and are the larger ones. `table_em` weighs the cells by how well they are known, and is to be
    preferred.

    Parameters
    ----------
    result : of `proportions`, `crosstab` or `counts`, with every cell.

    >>> import pramana as pr
    >>> mechanism = pr.Mechanism({"y": pr.TransitionMatrix.binary(sensitivity=0.5, specificity=0.95)})
    >>> result = pr.fit(pr.proportions("y"), {"y": [1] * 5 + [0] * 120}, mechanism)
    >>> result.estimate.round(4), to_simplex(result).estimate
    (array([ 1.0222, -0.0222]), array([1., 0.]))
    >>> to_simplex(pr.fit(pr.counts("y"), {"y": [1] * 5 + [0] * 120}, mechanism)).estimate
    array([125.,   0.])
    """
    if result.shares is None or result.estimate.size < 2:
        raise PramanaError(
            f"{result.parameters[0]!r} is no cell of a table: to_simplex() takes a result of proportions(), crosstab() or counts()"
        )
    tables = np.split(result.estimate, result.estimate.size // result.shares.size)
    projected = np.concatenate([table.sum() * onto_simplex(table[None] / table.sum())[0] for table in tables])
    moved = float(np.abs(projected - result.estimate).max())
    note = f"projected to the simplex, by at most {moved:.3g}; standard errors and intervals are those before the projection"
    diagnostics = (*result.diagnostics, Diagnostic("projected", "info", note))
    return replace(result, estimate=projected, diagnostics=diagnostics)


def onto_simplex(values: Float) -> Float:
    """Rows (n, C) that sum to 1, each moved to the nearest row without negative entries (Euclidean).

    A row is shifted by a constant and cut at zero; rows that lie in the simplex stay as they are, to the last bit.

    >>> onto_simplex(np.array([[1.2, -0.2, 0.0], [0.3, 0.3, 0.4]]))
    array([[1. , 0. , 0. ],
           [0.3, 0.3, 0.4]])
    """
    beyond = values.min(axis=1) < 0
    if not beyond.any():
        return values
    out = values.copy()
    if values.shape[1] == 2:
        out[beyond] = values[beyond] > 0
        return out
    ordered = -np.sort(-values[beyond], axis=1)
    shifts = (np.cumsum(ordered, axis=1) - 1) / np.arange(1, values.shape[1] + 1)
    last = np.sum(ordered > shifts, axis=1) - 1
    out[beyond] = np.clip(values[beyond] - np.take_along_axis(shifts, last[:, None], axis=1), 0.0, None)
    return out
