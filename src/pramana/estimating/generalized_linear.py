"""Generalised linear scores `U = x a(η) (y − μ(η))`: linear in y, so a perturbed response is summed out beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from pramana.arrays import Column, Float, Int
from pramana.errors import DataError, FormulaError, quoted, quoted_terms
from pramana.estimating.equation import Records, broadcast
from pramana.estimating.families import FAMILIES, Family
from pramana.kernels import predictor
from pramana.kernels.blocks import blocks
from pramana.kernels.predictor import Predictor

FromColumns: TypeAlias = Callable[[Mapping[str, object], int], Float]

EXPANSION_LIMIT = 4e8
"""Largest number of design entries (records × nodes × coefficients) held in memory: 3.2 GB."""


@dataclass(frozen=True)
class GeneralizedLinear:
    """A family with ways to compute design, offset and response from columns.

    Attributes
    ----------
    design_of : (columns, n) ↦ (n, d); a column may be a single level that all records share.
    response_of : (columns, n) ↦ (n,), used where the response is not summed out.
    response : the one variable the response is made of, when U is linear in it; else None.
    reads, offset_reads : the variables behind each design column and the offset, where known.
    design_of_levels : a few settings of the perturbed variables ↦ design rows, for columns that read nothing else.
    """

    parameters: tuple[str, ...]
    variables: tuple[str, ...]
    response: str | None
    family: Family
    design_of: FromColumns
    response_of: FromColumns
    offset_of: FromColumns | None = None
    label: str = ""
    plausible: tuple[float, float] | None = None
    reads: tuple[frozenset[str], ...] | None = None
    offset_reads: frozenset[str] = frozenset()
    design_of_levels: Callable[[Sequence[Mapping[str, object]]], Float] | None = None
    smooth: bool = True

    def response_values(self, values: Column) -> Float:
        assert self.response is not None
        numbers = self.response_of({self.response: values}, len(values))
        self.family.check_response(numbers, self.response)
        return numbers

    def equation(self, records: Records) -> PredictorEquation:
        _refuse_expansion(records, len(self.parameters))
        nodes = [records.at(k) for k in range(len(records.nodes))]
        design = np.stack([self.design_of(columns, records.n) for columns in nodes], axis=1)
        flat = np.ascontiguousarray(design.reshape(-1, len(self.parameters)))
        refuse_collinear([flat], self.parameters)
        offset = None
        if self.offset_of is not None:
            offset = np.stack([self.offset_of(columns, records.n) for columns in nodes], axis=1)
        return PredictorEquation.bind(self, records, flat, offset)


@dataclass(frozen=True)
class PredictorEquation:
    """A generalised linear equation over records: arrays in `data`, arithmetic in the kernels."""

    function: GeneralizedLinear
    records: Records
    data: Predictor
    responses: Float

    @classmethod
    def bind(
        cls, function: GeneralizedLinear, records: Records, design: Float, offset: Float | None
    ) -> PredictorEquation:
        if records.response is None:
            nodes = [records.at(k) for k in range(len(records.nodes))]
            y = np.stack([function.response_of(columns, records.n) for columns in nodes], axis=1)
            function.family.check_response(y.ravel(), function.label or "response")
        else:
            y = np.broadcast_to(records.response.released[:, None], records.weights.shape)
        empty = np.empty(0)
        data = Predictor(design, records.weights, empty, empty, offset, function.family.curve)
        return cls(function, records, data, y).under(records)

    @property
    def n(self) -> int:
        return self.data.n

    @property
    def parameters(self) -> tuple[str, ...]:
        return self.function.parameters

    @property
    def curvatures(self) -> tuple[slice, ...]:
        return (slice(None),)

    @property
    def smooth(self) -> bool:
        return True

    @property
    def plausible(self) -> tuple[float, float] | None:
        return self.function.plausible

    @property
    def start(self) -> Float:
        """Coefficients whose linear predictor is about constant at the link of the mean response."""
        mean = float(self.data.first.sum() / self.n)
        target = np.full(self.data.design.shape[0], self.function.family.start(mean))
        if self.data.offset is not None:
            target = target - self.data.offset.ravel()
        gram = self.data.design.T @ self.data.design
        start: Float = np.linalg.solve(gram, self.data.design.T @ target)
        return start

    @property
    def easier(self) -> PredictorEquation | None:
        """An equation for the same mean from whose root to start: the score y/μ² − 1/μ of an inverse Gaussian turns back
        towards zero where μ exceeds 2y, and would lead Newton to infinity."""
        if self.function.family.name != "inverse-gaussian":
            return None
        poisson = FAMILIES["poisson", "log"]
        data = replace(self.data, curve=poisson.curve)
        return replace(self, function=replace(self.function, family=poisson), data=data)

    @property
    def concave(self) -> bool:
        """Canonical link and no negative node weight: the score is the gradient of a concave objective."""
        return self.function.family.potential is not None and bool(np.all(self.data.weight >= 0))

    def objective(self, betas: Float, weights: Float) -> Float:
        """Σ w (y η − b(η)), (B,)."""
        potential = self.function.family.potential
        assert potential is not None
        eta = self.data.eta(betas)
        with np.errstate(all="ignore"):
            terms = self.data.first * eta - self.data.weight * potential(eta)
            return np.einsum("bnc,bn->b", terms, weights)

    def recedes(self, direction: Float, weights: Float) -> bool:
        """The slope of the objective far out along the direction; never negative means that no finite root exists."""
        recession = self.function.family.recession
        if recession is None:
            return False
        largest = float(np.abs(direction).max())
        if not 0 < largest < np.inf:
            return False
        eta = (self.data.design @ (direction / largest)).reshape(self.data.weight.shape)
        eta = np.where(np.abs(eta) < 1e-9 * np.abs(eta).max(), 0.0, eta)
        gain = np.einsum("nc,n->", self.data.first * eta, weights)
        loss = np.einsum("nc,n->", np.where(self.data.weight > 0, recession(eta), 0.0), weights)
        size = np.einsum("nc,n->", np.abs(self.data.first * eta), weights)
        return bool(gain - loss >= -1e-9 * size) and bool(np.any(eta != 0))

    def score(self, betas: Float, weights: Float) -> Float:
        return predictor.score(self.data, betas, weights)

    def score_and_slope(self, betas: Float, weights: Float) -> tuple[Float, Float]:
        return predictor.score_and_slope(self.data, betas, weights)

    def score_and_slope_of(self, betas: Float, weights: Float, rows: Int) -> tuple[Float, Float]:
        return predictor.score_and_slope_of(self.data, betas, weights, rows)

    def score_and_slope_from_one(self, beta: Float, weights: Float) -> tuple[Float, Float]:
        return predictor.score_and_slope_from_one(self.data, beta, weights)

    def influence(self, beta: Float) -> Float:
        return predictor.influence(self.data, beta)

    def clean_outer(self, beta: Float, weights: Float) -> Float:
        return predictor.clean_outer(self.data, beta, weights)

    def absolute_slopes(self, beta: Float, weights: Float) -> Float:
        return predictor.absolute_slopes(self.data, beta, weights)

    def record_slope(self, beta: Float, left: Float, right: Float) -> Float:
        return predictor.record_slope(self.data, beta, left, right)

    def rows(self, rows: slice) -> PredictorEquation:
        """The equation of some of the records."""
        return PredictorEquation(self.function, self.records.rows(rows), self.data.rows(rows), self.responses[rows])

    def under(self, records: Records) -> PredictorEquation:
        weight = records.weights
        if records.response is None:
            y = self.responses
            first, second = weight * y, weight * y**2
        else:
            first, second = weight * records.response.first[:, None], weight * records.response.second[:, None]
        return replace(self, records=records, data=replace(self.data, weight=weight, first=first, second=second))


def _refuse_expansion(records: Records, d: int) -> None:
    entries = records.n * len(records.nodes) * d
    if entries > EXPANSION_LIMIT:
        raise DataError(
            f"{records.n} records × {len(records.nodes)} combinations of perturbed levels × {d} coefficients = {entries:.1e} "
            f"entries, above the limit of {EXPANSION_LIMIT:.0e}: use fewer perturbed columns in one formula or merge levels"
        )


def refuse_collinear(designs: Iterable[Float], parameters: tuple[str, ...]) -> None:
    """Name the columns behind designs (·, d) that together have a deficient rank; no silent pseudo-inverse."""
    d = len(parameters)
    low, high, gram = np.full(d, np.inf), np.full(d, -np.inf), np.zeros((d, d))
    with np.errstate(all="ignore"):
        for part in (design[rows] for design in designs for rows in blocks(len(design))):
            low, high = np.minimum(low, part.min(axis=0)), np.maximum(high, part.max(axis=0))
            gram += part.T @ part
    largest = np.maximum(-low, high)
    if not np.all(np.isfinite(largest)):
        bad = [p for p, value in zip(parameters, largest, strict=True) if not np.isfinite(value)]
        raise DataError(f"the design column(s) {quoted_terms(bad)} hold infinite or missing values: clean the data")
    for name, value in zip(parameters, largest, strict=True):
        _refuse_size(float(value), name)
    scale = np.sqrt(np.diag(gram))
    if np.any(scale == 0):
        zero = [p for p, s in zip(parameters, scale, strict=True) if s == 0]
        raise FormulaError(f"the design column(s) {quoted_terms(zero)} are zero throughout: drop the term(s)")
    values, vectors = np.linalg.eigh(gram / np.outer(scale, scale))
    if values[0] > 1e-11 * values[-1]:
        return
    involved = np.flatnonzero(np.abs(vectors[:, 0]) > 1e-3 * np.abs(vectors[:, 0]).max())
    constant = [parameters[j] for j in involved if low[j] == high[j] and parameters[j] != "Intercept"]
    hint = f"{quoted_terms(constant[:1])} is constant; " if constant else ""
    names = quoted_terms(parameters[j] for j in involved)
    raise FormulaError(
        f"the design is collinear in {names} ({hint}smallest eigenvalue {max(values[0], 0):.1e}): drop one of them, or center a number "
        "that varies little around a large value"
    )


def refuse_extreme(values: Float, name: str) -> None:
    """Squares of such numbers leave the range of floating point."""
    _refuse_size(float(np.abs(values).max(initial=0.0)), name)


def _refuse_size(largest: float, name: str) -> None:
    if largest > 1e100 or 0 < largest < 1e-100:
        raise DataError(
            f"{quoted_terms([name])} has values up to {quoted(f'{largest:.2g}')} in size: change its unit, to lie between 1e-100 and 1e+100"
        )


def numeric_response(name: str) -> FromColumns:
    """The column itself as numbers."""

    def response(columns: Mapping[str, object], n: int) -> Float:
        return as_numbers(broadcast(columns[name], n), name)

    return response


def _refuse_dates_and_text(values: Column, name: str) -> None:
    kind = values.dtype.kind
    if kind in "mM":
        raise DataError(
            f"column {name!r} holds dates or times where numbers are needed: turn them into numbers with a unit of your "
            "choice first, such as days since a date"
        )
    text = (
        values[:1].tolist()
        if kind in "US"
        else [v for v in values.tolist() if isinstance(v, str)]
        if kind == "O"
        else []
    )
    if text:
        raise DataError(
            f"column {name!r} holds text, such as {quoted(repr(text[0]))}, where numbers are needed: convert the column if it is meant as "
            f"numbers, or use proportions({name!r})"
        )


def as_numbers(values: Any, name: str) -> Float:
    """Floats, or a clear error for what only looks like numbers: the text "3" is no 3, and a date has no unit."""
    given = np.asarray(values)
    _refuse_dates_and_text(given, name)
    try:
        numbers = given.astype(float)
    except (TypeError, ValueError):
        kind = type(given.flat[0]).__name__
        raise DataError(
            f"column {name!r} holds values of type {kind} where numbers are needed: use proportions({name!r}), or recode it"
        ) from None
    gaps = int(np.sum(np.isnan(numbers)))
    if gaps:
        raise DataError(f"column {name!r} has {gaps} missing value(s): use missing='drop' to leave their records out")
    infinite = int(np.sum(np.isinf(numbers)))
    if infinite:
        raise DataError(
            f"column {name!r} has {infinite} infinite value(s), which are not missing and which missing='drop' keeps: set them to "
            "missing, recode them or take them out"
        )
    refuse_extreme(numbers, name)
    return numbers
