"""The distribution of perturbed covariates given the clean ones: a table per cell, or a multinomial logit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pramana.arrays import Bool, Column, Columns, Float
from pramana.errors import DataError, FormulaError
from pramana.estimating.collinearity import refuse_collinear
from pramana.estimators.model_dependent import nuisance_regressors
from pramana.formulas.design import FormulaDesign
from pramana.formulas.parsed import parse
from pramana.frames import Schema, Table
from pramana.frames.table import is_missing
from pramana.numbers import count

ABSENT = -40.0
"""Logit of a combination that a cell does not have: a probability of 4e-18, so that arithmetic stays finite."""
CELL_LIMIT = 24
VALUE_LIMIT = 10
RECORDS_PER_ENTRY = 5
"""A saturated table needs so many records for each of its entries, in the smallest cell; a logit for each coefficient."""
EFFORT_LIMIT = 1e10
"""Largest number of multiplications (records × squared coefficients) for the information of a multinomial logit."""


@dataclass(frozen=True)
class CovariateModel:
    """log g(m | w) = z·Γ_m − log Σ_k e^{z·Γ_k}, with one reference combination a row of Γ.

    Attributes
    ----------
    design : (n, Q); indicators of the cells when saturated.
    combinations : M.
    description : as shown in the result.
    """

    design: Float
    combinations: int
    saturated: bool
    description: str

    def log_density(self, gamma: Float) -> Float:
        """(n, M) for coefficients (Q, M)."""
        if self.combinations == 1:
            return np.zeros((len(self.design), 1))
        if self.saturated:  # softmax of Q rows, not of n
            return _log_softmax(gamma)[np.argmax(self.design, axis=1)]
        return _log_softmax(self.design @ gamma)

    def free(self, gamma: Float) -> Bool:
        """Coefficients (Q, M) that are parameters: neither the reference of their row nor absent."""
        reference = np.argmax(gamma, axis=1) if self.saturated else np.zeros(len(gamma), dtype=int)
        open_ = gamma > ABSENT
        open_[np.arange(len(gamma)), reference] = False
        return open_

    def start(self) -> Float:
        return np.zeros((self.design.shape[1], self.combinations))

    def fitted(self, posterior: Float, weights: Float, gamma: Float) -> Float:
        """The M step: the share of each combination in a cell, or one Newton step of the multinomial logit."""
        if self.combinations == 1:
            return gamma
        if not self.saturated:
            return self._newton_step(posterior, weights, gamma)
        shares = self.design.T @ (posterior * weights[:, None])
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
        with np.errstate(divide="ignore"):
            logits = np.log(shares) - np.log(shares.max(axis=1, keepdims=True))
        return np.where(gamma <= ABSENT, ABSENT, np.maximum(logits, 0.99 * ABSENT))

    def without_absent(self, posterior: Float, weights: Float, gamma: Float) -> Float:
        """Entries of a table that shrink towards zero are set there: the maximum lies on the edge of the simplex."""
        if not self.saturated or self.combinations == 1:
            return gamma
        share = np.exp(_log_softmax(gamma))
        size = self.design.T @ weights
        growth = self.design.T @ (posterior * weights[:, None]) / np.maximum(share * size[:, None], 1e-300)
        return np.where((share < 1e-5) & (growth < 1), ABSENT, gamma)

    def scores(self, gamma: Float, free: Bool, posterior: Float) -> Float:
        """Derivatives of log g, averaged over the posterior (n, M) of the combinations: (n, q)."""
        rows, columns = np.nonzero(free)
        residual = posterior - np.exp(self.log_density(gamma))
        return np.asarray(self.design[:, rows] * residual[:, columns])

    def gradient(self, values: Float, free: Bool) -> Float:
        """Σ_i z_i v_im (q,) for values (n, M)."""
        return np.asarray((self.design.T @ values)[free])

    def information(self, share: Float, free: Bool, weights: Float) -> Float:
        """Σ w zzᵀ ⊗ (diag s − ssᵀ) (q, q) for shares s (n, M): at g itself, minus the second derivative of Σ w log g."""
        if self.saturated:
            return self._by_cell(share, free, weights)
        rows, columns = np.nonzero(free)
        design, spread = self.design[:, rows], self.design[:, rows] * share[:, columns]
        diagonal = (spread.T @ (design * weights[:, None])) * (columns[:, None] == columns)
        return np.asarray(diagonal - spread.T @ (spread * weights[:, None]))

    def _by_cell(self, share: Float, free: Bool, weights: Float) -> Float:
        """The same where a record has one indicator: cells do not mix."""
        out = np.zeros((int(free.sum()), int(free.sum())))
        ends = np.cumsum(free.sum(axis=1))
        for open_, end, cell in zip(free, ends, self.design.T, strict=True):
            block, here = slice(end - int(open_.sum()), end), cell > 0
            s, w = share[here][:, open_], weights[here]
            out[block, block] = np.diag(w @ s) - (s * w[:, None]).T @ s
        return out

    def _newton_step(self, posterior: Float, weights: Float, gamma: Float) -> Float:
        free = self.free(gamma)
        share = np.exp(self.log_density(gamma))
        score = self.gradient((posterior - share) * weights[:, None], free)
        try:
            step = np.linalg.solve(self.information(share, free, weights), score)
        except np.linalg.LinAlgError:
            return gamma
        moved = gamma.copy()
        moved[free] += step
        return moved


def _log_softmax(eta: Float) -> Float:
    largest = eta.max(axis=1, keepdims=True)
    return np.asarray(eta - largest - np.log(np.sum(np.exp(eta - largest), axis=1, keepdims=True)))


def covariate_model(
    formula: str | None,
    clean: Columns,
    combinations: int,
    table: Table,
    forbidden: tuple[str, ...],
    counts: Float | None = None,
) -> CovariateModel:
    """Saturated when the clean covariates form few cells, multinomial logit in their main effects otherwise.

    Parameters
    ----------
    formula : None for that rule, "saturated", or terms such as "age + sex".
    forbidden : the response and the perturbed columns, which the formula may not use.
    counts : records that each row stands for, one by default.
    """
    if combinations == 1:
        return CovariateModel(np.ones((table.n, 1)), 1, True, "none")
    if formula is not None and formula != "saturated":
        return _affordable(_by_formula(formula, combinations, table, forbidden), counts)
    cells = _cells(clean, table.n)
    sizes = (np.ones(table.n) if counts is None else counts) @ cells
    if formula == "saturated" or _few(clean, sizes, combinations):
        names = ", ".join(clean)
        _refuse_many_cells(sizes, combinations, names)
        return CovariateModel(cells, combinations, True, f"saturated given {names}" if names else "saturated")
    design, names_ = nuisance_regressors(clean, True, table.n)
    refuse_collinear([design], names_)
    return _affordable(CovariateModel(design, combinations, False, f"multinomial logit on {', '.join(clean)}"), counts)


def _affordable(model: CovariateModel, counts: Float | None) -> CovariateModel:
    n, size = len(model.design), model.design.shape[1] * (model.combinations - 1)
    records = n if counts is None else float(counts.sum())
    start = (
        f"the model of the perturbed covariates ({model.description}) has {size} coefficients for {model.combinations}"
    )
    remedy = "merge levels, give covariate_model fewer terms, such as '1', or use method='reversion'"
    if RECORDS_PER_ENTRY * size > records:
        raise DataError(
            f"{start} combinations of levels, too many for {count(records)} records (the limit is {RECORDS_PER_ENTRY} records a "
            f"coefficient): {remedy}"
        )
    if n * size**2 > EFFORT_LIMIT:
        raise DataError(
            f"{start} combinations of levels: {n * size**2:.0e} multiplications a step exceed the limit of "
            f"{EFFORT_LIMIT:.0e}; {remedy}"
        )
    return model


def terms_of(text: str) -> str:
    """The right-hand side of a covariate model, which may be written with a "~" before it."""
    return text.strip().removeprefix("~").strip()


def _by_formula(text: str, combinations: int, table: Table, forbidden: tuple[str, ...]) -> CovariateModel:
    terms = terms_of(text)
    parsed = parse(f"{forbidden[0]} ~ {terms}")
    hidden = [name for name in parsed.covariates if name in forbidden]
    if hidden or parsed.offsets:
        wrong = repr(hidden[0]) if hidden else "an offset"
        raise FormulaError(f"covariate_model={text!r} uses {wrong}: it may hold unperturbed covariates alone")
    for name in parsed.covariates:
        if is_missing(table.column(name)).any():
            raise DataError(
                f"column {name!r} of covariate_model has missing values: leave those records out beforehand"
            )
    design = FormulaDesign.fit(parsed, table, Schema())
    matrix = design({name: table.column(name) for name in design.variables}, table.n)
    refuse_collinear([matrix], design.names)
    return CovariateModel(matrix, combinations, False, f"multinomial logit, ~ {terms}")


def _cells(clean: Columns, n: int) -> Float:
    """Indicators (n, V) of the distinct combinations of clean covariates."""
    codes = np.zeros(n, dtype=np.int64)
    for values in clean.values():
        part = np.unique(_sortable(values), return_inverse=True)[1]
        codes = np.unique(codes * (int(part.max()) + 1) + part, return_inverse=True)[1]
    size = int(codes.max()) + 1
    if size > max(CELL_LIMIT, 1000):
        return np.empty((n, 0))
    return np.asarray(codes[:, None] == np.arange(size), dtype=float)


def _sortable(values: Column) -> Column:
    return values.astype(str) if values.dtype.kind == "O" else values


def _few(clean: Columns, sizes: Float, combinations: int) -> bool:
    counted = all(len(np.unique(_sortable(v))) <= VALUE_LIMIT for v in clean.values())
    if not counted or not 0 < sizes.size <= CELL_LIMIT:
        return False
    return bool(sizes.min() >= RECORDS_PER_ENTRY * combinations)


def _refuse_many_cells(sizes: Float, combinations: int, names: str) -> None:
    count = sizes.size
    if not count or RECORDS_PER_ENTRY * count * (combinations - 1) > sizes.sum():
        raise FormulaError(
            f"{names} form {count or 'more than 1000'} cells, too many for so few records and {combinations} combinations of "
            f"perturbed levels (the limit is {RECORDS_PER_ENTRY} records a free probability): give covariate_model a formula, "
            "such as 'age + sex'"
        )
