"""What a fitted model says of new records: the mean, or the chances of classes, as a function of its linear predictors. It holds levels and transforms, no rows of data."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from pramana.arrays import Column, Float
from pramana.errors import DataError, quoted
from pramana.estimating import GeneralizedLinear
from pramana.estimating.families import Family
from pramana.formulas.design import FormulaDesign, Offset
from pramana.frames import Table, read
from pramana.frames.table import is_missing
from pramana.kernels.predictor import Curve


class Expected(ABC):
    """μ(η) (m, K) of L linear predictors η = D(x)β, which are linear in the row x of the design.

    With A = ∂μ/∂η, the derivative of μ along a change of x is A D(ẋ)β, and its gradient by β is A D(ẋ) + (dA/dt) D(x).
    """

    @property
    @abstractmethod
    def outcomes(self) -> tuple[str, ...]:
        """Names of what is expected (K)."""

    @abstractmethod
    def predictors(self, x: Float, beta: Float) -> Float:
        """η (m, L)."""

    @abstractmethod
    def gradients(self, parts: Float, x: Float) -> Float:
        """Σ_l parts[:, k, l] ∂η_l/∂β, (m, K, q), for parts (m, K, L)."""

    @abstractmethod
    def means(self, eta: Float) -> Float:
        """μ (m, K)."""

    @abstractmethod
    def rise(self, eta: Float) -> Float:
        """A = ∂μ/∂η (m, K, L)."""

    @abstractmethod
    def bend(self, eta: Float, along: Float) -> Float:
        """dA/dt (m, K, L) where η moves along a direction (m, L)."""


@dataclass(frozen=True)
class ExpectedMean(Expected):
    """One mean, μ(xᵀβ)."""

    family: Family

    @property
    def outcomes(self) -> tuple[str, ...]:
        return ("",)

    def predictors(self, x: Float, beta: Float) -> Float:
        return np.asarray((x @ beta)[:, None])

    def gradients(self, parts: Float, x: Float) -> Float:
        return np.asarray(parts * x[:, None, :])

    def means(self, eta: Float) -> Float:
        return np.asarray(self.family.curve(eta)[0])

    def rise(self, eta: Float) -> Float:
        return np.asarray(self.family.curve(eta)[1])[:, :, None]

    def bend(self, eta: Float, along: Float) -> Float:
        """μ″ by central differences."""
        step = 1e-5
        return (self.rise(eta + step) - self.rise(eta - step)) / (2 * step) * along[:, :, None]


@dataclass(frozen=True)
class ClassChances(Expected):
    """Multinomial logit: chances in proportion to exp(η_k), with η = 0 for the first class and xᵀβ_k for the others."""

    levels: tuple[str, ...]

    @property
    def outcomes(self) -> tuple[str, ...]:
        return self.levels

    def predictors(self, x: Float, beta: Float) -> Float:
        others = len(self.levels) - 1
        return np.asarray(x @ beta.reshape(others, -1).T)

    def gradients(self, parts: Float, x: Float) -> Float:
        m, size, _ = parts.shape
        return np.asarray(np.einsum("mkl,mq->mklq", parts, x).reshape(m, size, -1))

    def means(self, eta: Float) -> Float:
        whole = np.column_stack([np.zeros(len(eta)), eta])
        grown = np.exp(whole - whole.max(axis=1, keepdims=True))
        return np.asarray(grown / grown.sum(axis=1, keepdims=True))

    def rise(self, eta: Float) -> Float:
        p = self.means(eta)
        return _own(p) - p[:, :, None] * p[:, None, 1:]

    def bend(self, eta: Float, along: Float) -> Float:
        p = self.means(eta)
        moved = np.einsum("mkl,ml->mk", self.rise(eta), along)
        return _own(moved) - moved[:, :, None] * p[:, None, 1:] - p[:, :, None] * moved[:, None, 1:]


def _own(values: Float) -> Float:
    """values[:, k] where the predictor is that of class k, else 0: (m, K, K − 1)."""
    size = values.shape[1]
    return np.asarray(values[:, :, None] * np.eye(size)[None, :, 1:])


@dataclass(frozen=True)
class OrderedChances(Expected):
    """Proportional odds: Pr(y ≤ k) = expit(η_k), η_k = θ_k − xᵀβ without the intercept, whose column multiplies θ."""

    levels: tuple[str, ...]
    intercept: int
    """Its place in the design."""

    @property
    def outcomes(self) -> tuple[str, ...]:
        return self.levels

    @property
    def cuts(self) -> int:
        return len(self.levels) - 1

    def predictors(self, x: Float, beta: Float) -> Float:
        rest = np.delete(x, self.intercept, axis=1) @ beta[self.cuts :]
        return np.asarray(x[:, [self.intercept]] * beta[: self.cuts] - rest[:, None])

    def gradients(self, parts: Float, x: Float) -> Float:
        rest = np.delete(x, self.intercept, axis=1)
        by_cut = parts * x[:, self.intercept, None, None]
        return np.concatenate([by_cut, -parts.sum(axis=2)[:, :, None] * rest[:, None, :]], axis=2)

    def means(self, eta: Float) -> Float:
        from scipy.special import expit

        ends = np.zeros((len(eta), 1))
        return np.diff(np.hstack([ends, expit(eta), ends + 1]), axis=1)

    def rise(self, eta: Float) -> Float:
        return _between(_density(eta))

    def bend(self, eta: Float, along: Float) -> Float:
        from scipy.special import expit

        return _between(_density(eta) * (expit(-eta) - expit(eta)) * along)


def _density(eta: Float) -> Float:
    from scipy.special import expit

    return np.asarray(expit(eta) * expit(-eta))


def _between(values: Float) -> Float:
    """A class gains at its upper threshold what the next one loses: (m, L) ↦ (m, L + 1, L)."""
    size = values.shape[1]
    signs = np.vstack([np.eye(size), np.zeros(size)]) - np.vstack([np.zeros(size), np.eye(size)])
    return np.asarray(values[:, None, :] * signs)


@dataclass(frozen=True)
class Prediction:
    """A design and the mean as a function of the linear predictor.

    Attributes
    ----------
    design : without the records it was learnt from.
    curve : η ↦ (μ, μ′, …).
    offset : whether the formula has one.
    reads : the variables behind each column of the design.
    """

    design: FormulaDesign
    curve: Curve
    offset: bool = False
    reads: tuple[frozenset[str], ...] = ()

    @classmethod
    def of(cls, model: GeneralizedLinear | ClassPrediction | None) -> AnyPrediction | None:
        """None for anything without a linear predictor that came from a formula."""
        if isinstance(model, ClassPrediction):
            return model
        if model is None or not isinstance(model.design_of, FormulaDesign):
            return None
        return cls(model.design_of, model.family.curve, isinstance(model.offset_of, Offset), model.reads)

    def at(self, data: Any, estimate: Float, covariance: Float, reach: float) -> dict[str, Float]:
        """Mean, delta-method standard error and limits (transformed from the linear predictor) for every record."""
        table = read(data)
        columns = _columns(self.design, table)
        x = _computed(self.design, columns, table.n)
        terms = slice(0, x.shape[1])  # a dispersion comes after the coefficients
        estimate, covariance = estimate[terms], covariance[terms, terms]
        eta = x @ estimate
        if self.offset:
            eta = eta + Offset(self.design)(columns, table.n)
        error = np.sqrt(np.maximum(np.einsum("nj,jk,nk->n", x, covariance, x), 0.0))
        mean, slope = self.curve(eta)[:2]
        limits = [self.curve(eta + side * reach * error)[0] for side in (-1, 1)]
        low, high = np.minimum(*limits), np.maximum(*limits)
        return {
            "prediction": np.asarray(mean),
            "std_error": np.abs(slope) * error,
            "conf_low": np.asarray(low),
            "conf_high": np.asarray(high),
        }


@dataclass(frozen=True)
class ClassPrediction:
    """Chances of the classes of a response.

    Attributes
    ----------
    design : without the records it was learnt from.
    levels : the classes (K).
    ordered : parameters are K − 1 thresholds θ and then coefficients, Pr(y ≤ k) = expit(θ_k − xᵀβ), and the design's intercept is left out; else
        the coefficients of every class but the first, class by class.
    """

    design: FormulaDesign
    levels: tuple[object, ...]
    ordered: bool = False
    reads: tuple[frozenset[str], ...] = ()

    def at(self, data: Any, estimate: Float, covariance: Float, reach: float) -> dict[str, Column]:
        """A row for every record and class: the chance, its delta-method error, and limits on the scale of its logit."""
        table = read(data)
        x = _computed(self.design, _columns(self.design, table), table.n)
        chances, slopes = self.chances(x, estimate)
        used = slopes.shape[2]  # what the mechanism had free comes after them
        covariance = covariance[:used, :used]
        errors = np.sqrt(np.maximum(np.einsum("nkj,jl,nkl->nk", slopes, covariance, slopes), 0.0))
        with np.errstate(all="ignore"):
            odds, spread = chances / (1 - chances), np.exp(reach * errors / (chances * (1 - chances)))
            low, high = odds / spread / (1 + odds / spread), 1 - 1 / (1 + odds * spread)
        sure = (errors == 0) | ~np.isfinite(spread)
        names = np.empty(len(self.levels), dtype=object)
        names[:] = list(self.levels)
        return {
            "record": np.repeat(np.arange(table.n), len(names)),
            "class": np.tile(names, table.n),
            "prediction": chances.ravel(),
            "std_error": errors.ravel(),
            "conf_low": np.where(sure, np.where(errors > 0, 0.0, chances), low).ravel(),
            "conf_high": np.where(sure, np.where(errors > 0, 1.0, chances), high).ravel(),
        }

    def chances(self, x: Float, beta: Float) -> tuple[Float, Float]:
        """Of every class (n, K), and their derivatives by the parameters (n, K, m)."""
        size, q = len(self.levels), x.shape[1]
        own = (
            beta[: size - 1 + q - 1] if self.ordered else beta[: (size - 1) * q]
        )  # what the mechanism had free comes after
        eta = self.expected.predictors(x, own)
        return self.expected.means(eta), self.expected.gradients(self.expected.rise(eta), x)

    @property
    def expected(self) -> Expected:
        names = tuple(map(str, self.levels))
        return OrderedChances(names, self.design.names.index("Intercept")) if self.ordered else ClassChances(names)


AnyPrediction: TypeAlias = Prediction | ClassPrediction


def _columns(design: FormulaDesign, table: Table) -> Mapping[str, Column]:
    for name in design.variables:
        count = int(is_missing(table.column(name)).sum())
        if count:
            raise DataError(
                f"column {name!r} of the new data has {count} missing value(s): fill them or leave them out"
            )
    return {name: table.column(name) for name in design.variables}


def _computed(design: FormulaDesign, columns: Mapping[str, object], n: int) -> Float:
    """The design of new records; a level that the fit never saw is an error, not the reference."""
    from formulaic.errors import DataMismatchWarning

    with warnings.catch_warnings():
        warnings.simplefilter("error", DataMismatchWarning)
        try:
            x = design(columns, n)
        except DataMismatchWarning as warning:
            unseen = str(warning).partition("{")[2].partition("}")[0]
            raise DataError(
                f"the new data have levels that the fit did not see ({quoted(unseen)}): recode or drop them"
            ) from None
    if not np.all(np.isfinite(x)):
        raise DataError("the new data give terms that are infinite or missing: check the columns that are transformed")
    return x
