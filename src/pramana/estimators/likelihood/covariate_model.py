"""The distribution of perturbed covariates given the clean ones: a table per cell, or a multinomial logit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pramana.arrays import Bool, Column, Columns, Float, Int
from pramana.errors import DataError, FormulaError
from pramana.estimating.collinearity import refuse_collinear
from pramana.estimators.model_dependent import nuisance_regressors
from pramana.formulas.design import FormulaDesign
from pramana.formulas.parsed import ParsedFormula, parse
from pramana.frames import Schema, Table
from pramana.numbers import count

ABSENT = -40.0
"""Logit of a combination that a cell does not have: a probability of 4e-18, so that arithmetic stays finite."""
CELL_LIMIT = 24
VALUE_LIMIT = 10
"""Cells, and values of a column, up to which a table of probabilities is the default."""
MOST_CELLS = 1000
"""Cells that are counted."""
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

    def pull(self, share: Float, posterior: Float, weights: Float) -> Float:
        """Derivative (Q, M) of Σ w log g, averaged over the posterior (n, M), at g = share (n, M), in every coefficient, also those that are held."""
        return np.asarray(self.design.T @ ((posterior - share) * weights[:, None]))

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

    def scores(self, share: Float, free: Bool, posterior: Float) -> Float:
        """Derivatives of log g at g = share (n, M), averaged over the posterior (n, M) of the combinations: (n, q)."""
        rows, columns = np.nonzero(free)
        residual = posterior - share
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


def torn(gamma: Float, pull: Float, weight: float) -> bool:
    """Whether records of so much weight pull at a coefficient of a logit that is held where a probability would have vanished: then none has, and
    what was found is no maximum."""
    return bool(np.any(np.abs(pull[gamma <= ABSENT]) > 1e-9 * weight))


def largest(values: Float) -> Float:
    """Row maxima (n, 1); NumPy's own reduction is slow along a short axis."""
    out = values[:, :1].copy()
    for column in range(1, values.shape[1]):
        np.maximum(out, values[:, column : column + 1], out=out)
    return out


def _log_softmax(eta: Float) -> Float:
    centred = eta - largest(eta)
    return np.asarray(centred - np.log(np.einsum("nm->n", np.exp(centred)))[:, None])


def covariate_plan(
    formula: str | None,
    seen: CovariateCounts,
    combinations: int,
    table: Table,
    forbidden: tuple[str, ...],
    levels: Table | None = None,
) -> CovariatePlan:
    """Saturated when the clean covariates form few cells, multinomial logit in their main effects otherwise.

    Parameters
    ----------
    formula : None for that rule, "saturated", or terms such as "age + sex".
    seen : what all records tell of the clean covariates.
    table : the records, or a sample of them.
    levels : records of which the terms learn their levels, where these are more than the table.
    forbidden : the response and the perturbed columns, which the formula may not use.
    """
    if combinations == 1:
        return CovariatePlan(CovariateCounts.of({}, 1).by_cell(), 1, "none")
    if formula is not None and formula != "saturated":
        terms = terms_of(formula)
        design = _designed(formula, table if levels is None else levels, forbidden)
        return _logit(design, combinations, f"multinomial logit, ~ {terms}", table, seen.records)
    names = ", ".join(seen.variables)
    if formula == "saturated" or _few(seen, combinations):
        _refuse_many_cells(seen, combinations, names)
        return CovariatePlan(seen.by_cell(), combinations, f"saturated given {names}" if names else "saturated")
    effects = MainEffects(seen.variables, {name: sorted(found, key=str) for name, found in seen.levels.items()})
    return _logit(effects, combinations, f"multinomial logit on {names}", table, seen.records)


def _logit(
    regressors: MainEffects | FormulaDesign, combinations: int, description: str, table: Table, records: float
) -> CovariatePlan:
    """Numbers around their middle and in units of their spread in this table, so that a coefficient far out means a probability that vanishes
    and not a small unit or a large origin. The model stays the same, for they have an intercept."""
    plan = CovariatePlan(regressors, combinations, description).affordable(table.n, records)
    found = regressors({name: table.column(name) for name in regressors.variables}, table.n)
    constant = np.ptp(found, axis=0) == 0
    plain = constant | np.all((found == 0) | (found == 1), axis=0)
    middle = np.where(plain | ~constant.any(), 0.0, found.mean(axis=0))
    return replace(plan, middle=middle, spread=np.where(plain, 1.0, found.std(axis=0)))


@dataclass(frozen=True)
class CovariatePlan:
    """How the perturbed covariates may depend on the clean ones, decided from all records; it holds none.

    Attributes
    ----------
    regressors : clean columns of some records and their number n ↦ (n, Q).
    combinations : M.
    description : as shown in the result.
    middle, spread : what is taken from the regressors (Q,), and what they are divided by.
    """

    regressors: CovariateCells | MainEffects | FormulaDesign
    combinations: int
    description: str
    middle: Float | float = 0.0
    spread: Float | float = 1.0

    def of(self, table: Table) -> CovariateModel:
        """The model of these records."""
        found = self.regressors({name: table.column(name) for name in self.regressors.variables}, table.n)
        if not isinstance(self.regressors, CovariateCells):
            refuse_collinear([found], self.regressors.names)
            found = (found - self.middle) / self.spread
        return CovariateModel(found, self.combinations, isinstance(self.regressors, CovariateCells), self.description)

    @property
    def coefficients(self) -> int:
        """Of the model, those of a reference left out."""
        return len(self.regressors.names) * (self.combinations - 1)

    def affordable(self, rows: int, records: float) -> CovariatePlan:
        """This plan, where so many records tell its coefficients, and so many rows can be added up."""
        size = self.coefficients
        start = f"the model of the perturbed covariates ({self.description}) has {size} coefficients for {self.combinations}"
        remedy = "merge levels, give covariate_model fewer terms, such as '1', or use method='reversion'"
        if RECORDS_PER_ENTRY * size > records:
            raise DataError(
                f"{start} combinations of levels, too many for {count(records)} records (the limit is {RECORDS_PER_ENTRY} records a "
                f"coefficient): {remedy}"
            )
        if rows * size**2 > EFFORT_LIMIT:
            raise DataError(
                f"{start} combinations of levels: {rows * size**2:.0e} multiplications a step exceed the limit of "
                f"{EFFORT_LIMIT:.0e}; {remedy}"
            )
        return self

    def among(self, table: Table) -> tuple[CovariatePlan, Int]:
        """The plan for the cells that these records have, and their places among all; where there are no cells, of all coefficients."""
        if not isinstance(self.regressors, CovariateCells):
            return self, np.arange(len(self.regressors.names))
        found = np.unique(self.regressors.place({k: table.column(k) for k in self.regressors.variables}, table.n))
        return replace(self, regressors=replace(self.regressors, kept=found)), found

    def filled(self, gamma: Float, sizes: Float, places: Int) -> Float:
        """Logits (Q, M) of all cells from those of some (·, M), of so many records each: what the others lack is the average of these."""
        if not isinstance(self.regressors, CovariateCells) or len(places) == len(self.regressors.kept):
            return gamma
        pooled = np.log(np.maximum(sizes @ np.exp(_log_softmax(gamma)) / sizes.sum(), np.exp(ABSENT / 8)))
        out = np.tile(pooled - pooled.max(), (len(self.regressors.kept), 1))
        out[places] = gamma
        return out


@dataclass(frozen=True)
class MainEffects:
    """Clean columns as they are, text as indicators of its levels."""

    variables: tuple[str, ...]
    levels: Mapping[str, Sequence[Any]]

    def __call__(self, columns: Columns, n: int) -> Float:
        return nuisance_regressors({name: columns[name] for name in self.variables}, True, n, self.levels)[0]

    @property
    def names(self) -> tuple[str, ...]:
        known = ([f"{v}[T.{k}]" for k in self.levels[v][1:]] if v in self.levels else [v] for v in self.variables)
        return ("Intercept", *(name for part in known for name in part))


@dataclass(frozen=True)
class CovariateCells:
    """Combinations of clean values, by which a record is found in its cell.

    Attributes
    ----------
    values : of each variable, in their order.
    prefixes : for each variable the combinations of the variables up to it that occur, (place of the combination before) × (number of
        values) + (place of the value), ascending: so many numbers as there are cells at most, however many variables there are.
    kept : the cells that have a row of the table, ascending.
    """

    variables: tuple[str, ...]
    values: tuple[Column, ...]
    prefixes: tuple[Int, ...]
    kept: Int

    def place(self, columns: Columns, n: int) -> Int:
        """The cell of each record (n,), among all."""
        place = np.zeros(n, dtype=np.int64)
        for name, values, known in zip(self.variables, self.values, self.prefixes, strict=True):
            found, own = _distinct(columns[name])
            found = found.astype(str) if values.dtype.kind == "U" else found
            code = place * len(values) + _found_in(values, found)[own]
            place = _found_in(known, code)
        return place

    def __call__(self, columns: Columns, n: int) -> Float:
        """Indicators (n, V) of the cells that are kept."""
        return np.asarray(
            _found_in(self.kept, self.place(columns, n))[:, None] == np.arange(len(self.kept)), dtype=float
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"cell {k}" for k in self.kept)


def _found_in(known: Column, values: Column) -> Int:
    """Places of values among ascending known ones, where all of them are."""
    place = np.minimum(np.searchsorted(known, values), len(known) - 1)
    if not np.array_equal(known[place], values):
        raise DataError(
            "the source gave other values of the clean covariates than in the pass before: did it change? Fit again"
        )
    return place


@dataclass(frozen=True)
class CovariateCounts:
    """What records tell of the clean covariates; what two parts tell adds.

    Attributes
    ----------
    levels : the values of each column that holds no numbers.
    values : of each column, ascending, text as text; none where cells are not counted.
    cells : places (V, k) of the values in each combination that occurs, in their order; None where there are more than `MOST_CELLS`.
    sizes : records of each cell (V,).
    """

    variables: tuple[str, ...]
    records: float
    levels: Mapping[str, frozenset[Any]]
    values: tuple[Column, ...] = ()
    cells: Int | None = None
    sizes: Float = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, clean: Columns, n: int, counts: Float | None = None, *, cells: bool = True) -> CovariateCounts:
        """Of n records, which stand for so many each (n,); whether their cells are counted too."""
        records = float(n if counts is None else counts.sum())
        levels = {name: frozenset(_levels(v)) for name, v in clean.items() if v.dtype.kind not in "iufb"}
        told = cls(tuple(clean), records, levels)
        if not cells:
            return told
        found = [_distinct(values) for values in clean.values()]
        each = np.ones(n) if counts is None else counts
        return told._counted([v for v, _ in found], [place for _, place in found], each)

    def __add__(self, other: CovariateCounts) -> CovariateCounts:
        names = dict.fromkeys([*self.levels, *other.levels])
        none: frozenset[Any] = frozenset()
        levels = {name: self.levels.get(name, none) | other.levels.get(name, none) for name in names}
        told = CovariateCounts(self.variables, self.records + other.records, levels)
        if self.cells is None or other.cells is None:
            return told
        values = [np.unique(np.concatenate(pair)) for pair in zip(self.values, other.values, strict=True)]
        parts = [(part.values, part.cells) for part in (self, other) if part.cells is not None]
        places = [
            np.concatenate([np.searchsorted(v, own[k].astype(v.dtype))[cells[:, k]] for own, cells in parts])
            for k, v in enumerate(values)
        ]
        return told._counted(values, places, np.concatenate([self.sizes, other.sizes]))

    def _counted(self, values: Sequence[Column], places: Sequence[Int], counts: Float) -> CovariateCounts:
        """With the combinations of places (n,) among the values of each column."""
        cell = np.zeros(len(counts), dtype=np.int64)
        for found, place in zip(values, places, strict=True):
            known, cell = np.unique(cell * len(found) + place, return_inverse=True)
            if len(known) > MOST_CELLS:
                return self
        size = int(cell.max(initial=0)) + 1
        first = np.full(size, len(cell))
        np.minimum.at(first, cell, np.arange(len(cell)))
        table = np.stack([place[first] for place in places], axis=1) if places else np.zeros((size, 0), dtype=np.int64)
        sizes = np.asarray(np.bincount(cell, weights=counts, minlength=size), dtype=float)
        return replace(self, values=tuple(values), cells=table, sizes=sizes)

    def by_cell(self) -> CovariateCells:
        assert self.cells is not None
        place, prefixes = np.zeros(len(self.cells), dtype=np.int64), []
        for values, column in zip(self.values, self.cells.T, strict=True):
            known, place = np.unique(place * len(values) + column, return_inverse=True)
            prefixes.append(known)
        return CovariateCells(self.variables, self.values, tuple(prefixes), np.arange(len(self.cells)))

    @property
    def many_valued(self) -> bool:
        """Too many cells, or values of some column, for a table of probabilities by default; more records do not make them fewer."""
        return self.cells is None or len(self.cells) > CELL_LIMIT or any(len(v) > VALUE_LIMIT for v in self.values)


def _levels(values: Column) -> Sequence[Any]:
    import pandas as pd

    found: list[Any] = pd.unique(values).tolist()
    return found


def _distinct(values: Column) -> tuple[Column, Int]:
    """Distinct values, ascending, text as text, and the place of each record's (n,)."""
    if values.dtype.kind != "O":
        found, place = np.unique(values, return_inverse=True)
        return found, place
    import pandas as pd

    codes, labels = pd.factorize(values)  # a few labels are sorted sooner than all records
    found, place = np.unique(np.asarray(labels).astype(str), return_inverse=True)
    return found, place[codes]


def _few(seen: CovariateCounts, combinations: int) -> bool:
    return not seen.many_valued and bool(seen.sizes.min() >= RECORDS_PER_ENTRY * combinations)


def _refuse_many_cells(seen: CovariateCounts, combinations: int, names: str) -> None:
    size = len(seen.sizes)
    if not size or RECORDS_PER_ENTRY * size * (combinations - 1) > seen.records:
        raise FormulaError(
            f"{names} form {size or f'more than {MOST_CELLS}'} cells, too many for so few records and {combinations} combinations of "
            f"perturbed levels (the limit is {RECORDS_PER_ENTRY} records a free probability): give covariate_model a formula, "
            "such as 'age + sex'"
        )


def terms_of(text: str) -> str:
    """The right-hand side of a covariate model, which may be written with a "~" before it."""
    return text.strip().removeprefix("~").strip()


def parsed_terms(text: str) -> ParsedFormula:
    """A covariate model as a formula, whose response is nothing."""
    return parse(f"any ~ {terms_of(text)}")


def _designed(text: str, table: Table, forbidden: tuple[str, ...]) -> FormulaDesign:
    parsed = parsed_terms(text)
    hidden = [name for name in parsed.covariates if name in forbidden]
    if hidden or parsed.offsets:
        wrong = repr(hidden[0]) if hidden else "an offset"
        raise FormulaError(f"covariate_model={text!r} uses {wrong}: it may hold unperturbed covariates alone")
    return FormulaDesign.fit(parsed, table, Schema())
