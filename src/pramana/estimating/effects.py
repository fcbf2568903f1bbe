"""Average treatment effects: propensity, outcome regressions and effect in one system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from pramana.arrays import Float
from pramana.estimating.families import Family
from pramana.estimating.generalized_linear import FromColumns
from pramana.estimating.stacked import Note, System

NEAR = 0.01
"""Propensities closer than this to 0 or 1 are reported."""


@dataclass(frozen=True)
class EffectSystem(System):
    """Shared by both estimators: the logistic propensity e(x) = Pr(T = 1 | x), solved first.

    Attributes
    ----------
    name : of the effect.
    terms : names of the design's columns (q).
    family : mean of the outcome given the covariates; the inverse-probability estimator does not use it.
    """

    name: str
    terms: tuple[str, ...]
    design_of: FromColumns
    treatment_of: FromColumns
    outcome_of: FromColumns
    family: Family

    @property
    def shown(self) -> tuple[str, ...]:
        return (self.name,)

    def arrays(self, columns: Mapping[str, object], n: int) -> dict[str, Float]:
        return {
            "x": self.design_of(columns, n),
            "t": self.treatment_of(columns, n),
            "y": self.outcome_of(columns, n),
        }

    def _named(self, prefix: str) -> tuple[str, ...]:
        return tuple(f"{prefix}:{term}" for term in self.terms)

    def _propensity(self, beta: Float, arrays: Mapping[str, Float]) -> Float:
        return np.asarray(expit(arrays["x"] @ beta[: len(self.terms)]))

    def notes(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> list[Note]:  # noqa: ARG002
        e = self._propensity(beta, arrays)
        extreme = float(np.mean((e < NEAR) | (e > 1 - NEAR)))
        if extreme == 0:
            return []
        text = (
            f"{extreme:.1%} of the fitted propensities lie within {NEAR} of 0 or 1, where few records carry the effect: "
            "restrict the population or drop covariates"
        )
        return [("extreme-propensity", "warning", text)]


@dataclass(frozen=True)
class WeightedEffect(EffectSystem):
    """Inverse probability weights that add up to one: U = x(T − e), T/e (y − μ₁), (1 − T)/(1 − e) (y − μ₀), μ₁ − μ₀ − τ."""

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*self._named("propensity"), "mean treated", "mean untreated", self.name)

    @property
    def curvatures(self) -> tuple[slice, ...]:
        q = len(self.terms)
        return (slice(q), slice(q, q + 1), slice(q + 1, q + 2))

    def start(self, arrays: Mapping[str, Float], weights: Float) -> Float:
        middle = float(weights @ arrays["y"] / weights.sum())
        return np.concatenate([np.zeros(len(self.terms)), [middle, middle, 0.0]])

    def u(self, beta: Float, arrays: Mapping[str, Float]) -> Float:
        e, t, y = self._propensity(beta, arrays), arrays["t"], arrays["y"]
        treated, untreated, effect = beta[-3:]
        return np.column_stack(
            [
                arrays["x"] * (t - e)[:, None],
                t / e * (y - treated),
                (1 - t) / (1 - e) * (y - untreated),
                np.full(len(t), treated - untreated - effect),
            ]
        )

    def slope(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        e, t, y, x = self._propensity(beta, arrays), arrays["t"], arrays["y"], arrays["x"]
        treated, untreated, _ = beta[-3:]
        q, total = len(self.terms), weights.sum()
        out = np.zeros((q + 3, q + 3))
        out[:q, :q] = -(x * (weights * e * (1 - e))[:, None]).T @ x
        out[q, :q] = -(weights * t * (1 - e) / e * (y - treated)) @ x
        out[q + 1, :q] = (weights * (1 - t) * e / (1 - e) * (y - untreated)) @ x
        out[q, q] = -(weights @ (t / e))
        out[q + 1, q + 1] = -(weights @ ((1 - t) / (1 - e)))
        out[q + 2, q:] = total, -total, -total
        return out


@dataclass(frozen=True)
class AugmentedEffect(EffectSystem):
    """Doubly robust: U = x(T − e), T x(y − m₁), (1 − T) x(y − m₀), m₁ − m₀ + T(y − m₁)/e − (1 − T)(y − m₀)/(1 − e) − τ."""

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*self._named("propensity"), *self._named("treated"), *self._named("untreated"), self.name)

    @property
    def curvatures(self) -> tuple[slice, ...]:
        q = len(self.terms)
        return (slice(q), slice(q, 2 * q), slice(2 * q, 3 * q))

    def start(self, arrays: Mapping[str, Float], weights: Float) -> Float:
        """Outcome regressions that are about constant at the mean outcome."""
        x = arrays["x"]
        level = self.family.start(float(weights @ arrays["y"] / weights.sum()))
        flat = np.linalg.lstsq(x, np.full(len(x), level), rcond=None)[0]
        return np.concatenate([np.zeros(len(self.terms)), flat, flat, [0.0]])

    def u(self, beta: Float, arrays: Mapping[str, Float]) -> Float:
        e, t, y, x = self._propensity(beta, arrays), arrays["t"], arrays["y"], arrays["x"]
        (m1, _), (m0, _) = self._means(beta, x)
        first, second = t * (y - m1), (1 - t) * (y - m0)
        effect = m1 - m0 + first / e - second / (1 - e) - beta[-1]
        return np.column_stack([x * (t - e)[:, None], x * first[:, None], x * second[:, None], effect])

    def slope(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        e, t, y, x = self._propensity(beta, arrays), arrays["t"], arrays["y"], arrays["x"]
        (m1, d1), (m0, d0) = self._means(beta, x)
        q = len(self.terms)
        out = np.zeros((beta.size, beta.size))
        bends = (e * (1 - e), t * d1, (1 - t) * d0)
        for k, bend in enumerate(bends):
            block = slice(k * q, (k + 1) * q)
            out[block, block] = -(x * (weights * bend)[:, None]).T @ x
        odds = -t * (y - m1) * (1 - e) / e - (1 - t) * (y - m0) * e / (1 - e)
        sides = (odds, d1 * (1 - t / e), -d0 * (1 - (1 - t) / (1 - e)))
        out[-1, :-1] = np.concatenate([(weights * side) @ x for side in sides])
        out[-1, -1] = -weights.sum()
        return out

    def _means(self, beta: Float, x: Float) -> tuple[tuple[Float, Float], tuple[Float, Float]]:
        """Fitted outcomes with their derivatives, treated and untreated."""
        q = len(self.terms)
        treated, untreated = self.family.curve(x @ beta[q : 2 * q]), self.family.curve(x @ beta[2 * q : 3 * q])
        return (treated[0], treated[1]), (untreated[0], untreated[1])
