"""Generalised linear scores `U = x a(η) (y − μ(η))`: linear in y, so a perturbed response is summed out beforehand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from pramana.arrays import Column, Float, Int
from pramana.errors import DataError, quoted
from pramana.estimating.collinearity import judge_collinear, refuse_extreme
from pramana.estimating.equation import About, Ascent, Equation, FirstStage, Quotients
from pramana.estimating.families import FAMILIES, Family
from pramana.estimating.function import EstimatingFunction
from pramana.estimating.products import FromColumns, Part, ProductDesign
from pramana.estimating.records import Records, broadcast
from pramana.kernels import backend, predictor, products
from pramana.kernels.predictor import Grouped, Predictor
from pramana.kernels.products import Products

_ALIKE = np.empty(0, dtype=np.int64)
"""Rows of a table that has one for all records."""


@dataclass(frozen=True)
class GeneralizedLinear(EstimatingFunction):
    """A family with ways to compute design, offset and response from columns.

    Attributes
    ----------
    design_of : (columns, n) ↦ (n, d); a column may be a single level that all records share.
    response_of : (columns, n) ↦ (n,), used where the response is not summed out.
    response : the one variable the response is made of, when U is linear in it; else None.
    parts : what each design column is made of, where known.
    average : the mean of the response, without any regressor.
    offset_reads, response_reads : the variables behind the offset and the response; None where that is not known.
    degrees : of the design, or the response, as a polynomial in each column with noise, where it is one.
    """

    parameters: tuple[str, ...]
    variables: tuple[str, ...]
    family: Family
    design_of: FromColumns
    response_of: FromColumns
    response: str | None = None
    offset_of: FromColumns | None = None
    label: str = ""
    plausible: tuple[float, float] | None = None
    parts: tuple[Part, ...] | None = None
    average: bool = False
    offset_reads: frozenset[str] = frozenset()
    response_reads: frozenset[str] | None = None
    degrees: Mapping[str, int] = field(default_factory=dict)

    @property
    def reads(self) -> tuple[frozenset[str], ...]:
        """The variables behind each design column."""
        return tuple(part.reads for part in self.parts or ())

    def degree(self, name: str) -> int | None:
        """A linear model's score x (y − xᵀβ) is twice as high as its terms, as high as its response, and alone a polynomial."""
        elsewhere = self.offset_reads | (self.response_reads or frozenset())
        linear = (self.family.name, self.family.link) == ("gaussian", "identity")
        if not linear or name not in self.degrees or (name in elsewhere and name != self.response):
            return None
        return self.degrees[name] * (1 if name == self.response else 2)

    @property
    def prediction(self) -> GeneralizedLinear:
        return self

    def noisy_response_values(self, values: Column) -> Float:
        assert self.response is not None
        return self.response_of({self.response: values}, len(values))

    def response_values(self, values: Column) -> Float:
        assert self.response is not None
        numbers = self.noisy_response_values(values)
        self.family.check_response(numbers, self.response)
        return numbers

    def equation(self, records: Records) -> PredictorEquation:
        design = ProductDesign.of(self.design_of, self.parts, len(self.parameters), records)
        return self.bound(records, design, self._responses(records))

    def bound(self, records: Records, design: ProductDesign, responses: Float) -> PredictorEquation:
        """The equation of a design that is at hand, with responses (1 or C, n)."""
        judge_collinear(*design.limits(), design.gram, self.parameters)
        return PredictorEquation(self, records, design, self._offset(records), responses)

    def _offset(self, records: Records) -> Float:
        """(0, n) without one, (1, n) where all nodes share it, else (C, n)."""
        if self.offset_of is None:
            return np.empty((0, records.n))
        hidden = self.offset_reads & set(records.nodes[0])
        nodes = range(len(records.nodes) if hidden else 1)
        return np.stack([self.offset_of(records.at(k), records.n) for k in nodes])

    def _responses(self, records: Records) -> Float:
        """The response (1, n), or (C, n) where it differs between nodes."""
        if records.response is not None:
            return records.response.released[None]
        differs = self.response_reads is None or bool(self.response_reads & set(records.nodes[0]))
        nodes = range(len(records.nodes) if differs else 1)
        y = np.stack([self.response_of(records.at(k), records.n) for k in nodes])
        self.family.check_response(y.ravel(), self.label or "response")
        return y


@dataclass(frozen=True)
class PredictorEquation(Equation):
    """A generalised linear equation over records: compact arrays, and arithmetic in the kernels.

    Attributes
    ----------
    design : the design of all records and nodes, as products.
    offset, responses : (0, 1 or C, n) and (1 or C, n).
    part : of a larger equation, whose expanded arrays are then not kept.
    compact : the arrays for the compiled kernels; None where those do not know the curve, or a column does not factor.
    out_of : records of the equation that this one is a part of, or a sample: some of them choose the kernels of all. By default its own.
    """

    function: GeneralizedLinear
    records: Records
    design: ProductDesign
    offset: Float
    responses: Float
    part: bool = False
    compact: Products | None = None
    out_of: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "out_of", self.out_of or self.n)
        if self.compact is None and not self.part and not self.design.dense.size and self.family.curve.code is not None:
            object.__setattr__(self, "compact", self._compacted())

    @property
    def family(self) -> Family:
        return self.function.family

    @property
    def about(self) -> About:
        return About(
            self.function.parameters,
            curvatures=(slice(None),),
            fades=True,
            nodes=len(self.records.nodes),
            thinned=True,
            curved=True,
            of_means=self._means if self.function.average else None,
            plausible=self.function.plausible,
            linear=self._linear,
        )

    def _means(self) -> Quotients:
        """Of a mean: φ at 0, and how much of a record is in the domain."""
        member, above = self.records.membership, self.influence(np.zeros(1))
        return Quotients(above, np.ones_like(above) if member is None else member[:, None])

    def rows(self, rows: slice) -> PredictorEquation:
        """Neighbours are a part that shares the arrays of the whole; records further apart are an equation of their own."""
        low, high, step = rows.indices(self.n)
        part = step == 1
        return PredictorEquation(
            self.function,
            self.records.rows(rows),
            self.design.rows(rows),
            self.offset[:, rows],
            self.responses[:, rows],
            part,
            self.compact.rows(slice(low, high)) if part and self.compact is not None else None,
            self.out_of,
        )

    def under(self, records: Records) -> PredictorEquation:
        """Where all records are at one node of several, its design is enough."""
        node = records.sole
        if node is None or len(records.nodes) == 1:
            return replace(self, records=records, part=False, compact=None)
        offset, responses = (v if len(v) <= 1 else v[[node]] for v in (self.offset, self.responses))
        return PredictorEquation(self.function, records.only(node), self.design.at(node), offset, responses, part=True)

    def _moments(self) -> tuple[Float, Float]:
        """First and second moments of the response (1 or C, n)."""
        moments = self.records.response
        if moments is None:
            return self.responses, self.responses**2
        return moments.first[None], moments.second[None]

    @cached_property
    def _linear(self) -> bool:
        """A linear model with an intercept, of all records and a response that nodes have in common."""
        apart = len(self.responses) > 1 or self.records.domain is not None or type(self.records) is not Records
        linear = (self.family.name, self.family.link) == (
            "gaussian",
            "identity",
        ) and "Intercept" in self.function.parameters
        return linear and not apart and not len(self.offset)

    def _compacted(self) -> Products:
        first, second = self._moments()
        design, records = self.design, self.records
        return Products(
            0,
            self.n,
            np.ascontiguousarray(design.clean),
            design.place,
            design.node,
            np.ascontiguousarray(records.table),
            _ALIKE if len(records.table) == 1 else np.ascontiguousarray(records.row),
            np.ascontiguousarray(first),
            np.ascontiguousarray(second),
            np.ascontiguousarray(self.offset),
            self.family.curve,
        )

    @property
    def data(self) -> Predictor:
        """The expanded arrays: kept by an equation of its own, made anew for a part of a larger one."""
        return self._expanded() if self.part else self._kept

    @cached_property
    def _kept(self) -> Predictor:
        return self._expanded()

    def _expanded(self) -> Predictor:
        weight = self.records.weights
        first, second = (weight * moment.T for moment in self._moments())
        offset = None if not len(self.offset) else np.broadcast_to(self.offset.T, weight.shape)
        design = self.design.expanded().reshape(-1, self.d)
        return Predictor(design, weight, first, second, offset, self.family.curve)

    def _fast(self) -> Any | None:
        """The compiled kernels, where one equation over these records is worth it."""
        if self.compact is None or not backend.worthwhile(1, self.out_of * len(self.records.nodes)):
            return None
        return backend.compiled()

    def start(self, weights: Float) -> Float:  # noqa: ARG002
        """Coefficients whose linear predictor is about constant at the link of the mean response."""
        first = self._moments()[0]
        mean = float(np.sum(self.records.weights.T * first) / self.n) if len(first) > 1 else float(first.mean())
        target = self.family.start(mean) * self.design.sums()
        if len(self.offset):
            target = target - self.design.sums(self.offset)
        try:
            return np.asarray(np.linalg.solve(self.design.gram(), target))
        except np.linalg.LinAlgError:  # a column that vanishes in some of the records
            return np.zeros(self.d)

    @property
    def first(self) -> FirstStage | None:
        """An equation for the same mean: the score y/μ² − 1/μ of an inverse Gaussian turns back towards zero where μ exceeds 2y, and would
        lead Newton to infinity."""
        if self.family.name != "inverse-gaussian":
            return None
        model = replace(self.function, family=FAMILIES["poisson", "log"])
        return FirstStage(PredictorEquation(model, self.records, self.design, self.offset, self.responses))

    @property
    def ascent(self) -> Ascent | None:
        """Canonical link and no negative node weight: the score is the gradient of a concave objective."""
        if self.family.potential is None or np.any(self.records.table < 0):
            return None
        return PredictorAscent(self, self.family.potential, self.family.recession)

    def grouped(self, groups: int) -> Grouped:
        return Grouped(lambda: self.data, groups, self.compact)

    def score_and_slope(self, betas: Float, weights: Float, rows: Int | None = None) -> tuple[Float, Float]:
        if rows is None and len(betas) < len(weights):
            return predictor.score_and_slope_from_one(self.data, betas[0], weights)
        fast = self._fast() if len(betas) == 1 else None
        if fast is None or self.compact is None:
            return predictor.score_and_slope(self.data, betas, weights, rows)
        found = products.sums(fast, self.compact, betas[0], weights[0 if rows is None else rows[0]], None)
        return found.score[None], found.slope[None]

    def influence(self, beta: Float) -> Float:
        return predictor.influence(self.data, beta)

    def clean_outer(self, beta: Float, weights: Float) -> Float:
        return predictor.clean_outer(self.data, beta, weights)

    def sums(self, beta: Float, weights: Float, squares: Float) -> tuple[Float, Float, Float, Float, Float]:
        fast = self._fast()
        if fast is None or self.compact is None:
            return predictor.sums(self.data, beta, weights, squares)
        return products.sums(fast, self.compact, beta, weights, squares)

    def outer(self, beta: Float, weights: Float) -> Float:
        fast = self._fast()
        if fast is None or self.compact is None:
            return super().outer(beta, weights)
        return products.sums(fast, self.compact, beta, weights, weights).outer

    def record_slopes_along(self, beta: Float, lefts: Float, rights: Float) -> Float:
        fast = self._fast()
        if fast is None or self.compact is None:
            return predictor.record_slopes_along(self.data, beta, lefts, rights)
        return products.record_slopes_along(fast, self.compact, beta, lefts, rights)

    def slope_parts(self, beta: Float) -> tuple[Float, Float]:
        bend = self.data.at(beta).bend
        return self.data.design.reshape(*bend.shape, self.d), bend

    def left_slopes(self, betas: Float, lefts: Float, weights: Float) -> Float:
        if self.compact is None:
            return predictor.left_slopes(self.data, betas, lefts, weights)
        return products.left_slopes(self.compact, betas, lefts, weights)


@dataclass(frozen=True)
class PredictorAscent(Ascent):
    """Σ w (y η − b(η))."""

    equation: PredictorEquation
    potential: Callable[[Float], Float]
    far: Callable[[Float], Float] | None

    def objective(self, betas: Float, weights: Float) -> Float:
        data = self.equation.data
        eta = data.eta(betas)
        with np.errstate(all="ignore"):
            terms = data.first * eta - data.weight * self.potential(eta)
            return np.einsum("bnc,bn->b", terms, weights)

    def reach(self, direction: Float) -> float:
        return float(np.abs(self._moved(self.equation.data, direction)).max())

    def recession(self, direction: Float, weights: Float, reach: float) -> Float:
        if self.far is None or not reach > 0:
            return np.zeros(4)
        data = self.equation.data
        eta = self._moved(data, direction)
        eta = np.where(np.abs(eta) < 1e-9 * reach, 0.0, eta)
        gain = np.einsum("nc,n->", data.first * eta, weights)
        loss = np.einsum("nc,n->", np.where(data.weight > 0, self.far(eta), 0.0), weights)
        size = np.einsum("nc,n->", np.abs(data.first * eta), weights)
        return np.array([gain, loss, size, float(np.count_nonzero(eta))])

    @staticmethod
    def _moved(data: Predictor, direction: Float) -> Float:
        """Linear predictors (n, C) along the direction, whose length does not matter."""
        largest = float(np.abs(direction).max())
        unit = direction / largest if 0 < largest < np.inf else np.zeros_like(direction)
        return np.asarray(data.design @ unit).reshape(data.weight.shape)


@dataclass(frozen=True)
class NumericResponse:
    """A column itself as numbers."""

    name: str

    def __call__(self, columns: Mapping[str, object], n: int) -> Float:
        return as_numbers(broadcast(columns[self.name], n), self.name)


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
