"""Average marginal effects: the generalised linear model and the average of its effects in one system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float
from pramana.estimating.equation import broadcast
from pramana.estimating.families import Family
from pramana.estimating.generalized_linear import FromColumns, GeneralizedLinear
from pramana.estimating.stacked import System


@dataclass(frozen=True)
class MarginsSystem(System):
    """U = (a(η) x (y − μ), effect_k(x; β) − α_k).

    The effect of a number is μ′(η) ∂η/∂v, that of a level μ(η at the level) − μ(η at the first).

    Attributes
    ----------
    effects : names of the averages α.
    tilt_of : columns ↦ ∂x/∂v (n, q), for a number; else None.
    designs_of : columns ↦ design with the variable set to each of its levels (n, q), for levels; else empty.
    """

    model: GeneralizedLinear
    effects: tuple[str, ...]
    tilt_of: FromColumns | None = None
    designs_of: tuple[FromColumns, ...] = ()

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*(f"coefficient:{p}" for p in self.model.parameters), *self.effects)

    @property
    def shown(self) -> tuple[str, ...]:
        return self.effects

    @property
    def family(self) -> Family:
        return self.model.family

    def arrays(self, columns: Mapping[str, object], n: int) -> dict[str, Float]:
        out = {"x": self.model.design_of(columns, n), "y": self.model.response_of(columns, n)}
        self.family.check_response(out["y"], self.model.label)
        out["offset"] = np.zeros(n) if self.model.offset_of is None else self.model.offset_of(columns, n)
        if self.tilt_of is not None:
            out["tilt"] = self.tilt_of(columns, n)
        for k, design in enumerate(self.designs_of):
            out[f"level {k}"] = design(columns, n)
        return out

    def start(self, arrays: Mapping[str, Float], weights: Float) -> Float:
        """Coefficients that are about constant at the mean response, and no effect."""
        x = arrays["x"]
        level = self.family.start(float(weights @ arrays["y"] / weights.sum()))
        flat = np.linalg.lstsq(x, level - arrays["offset"], rcond=None)[0]
        return np.concatenate([flat, np.zeros(len(self.effects))])

    def u(self, beta: Float, arrays: Mapping[str, Float]) -> Float:
        coefficients, averages = self._split(beta)
        mu, _, a, _ = self.family.curve(arrays["x"] @ coefficients + arrays["offset"])
        score = arrays["x"] * (a * (arrays["y"] - mu))[:, None]
        return np.column_stack([score, self._effects(coefficients, arrays) - averages])

    def slope(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        coefficients, _ = self._split(beta)
        x, q = arrays["x"], len(coefficients)
        mu, rise, a, bend = self.family.curve(x @ coefficients + arrays["offset"])
        out = np.zeros((beta.size, beta.size))
        out[:q, :q] = (x * (weights * (bend * (arrays["y"] - mu) - a * rise))[:, None]).T @ x
        out[q:, :q] = self._gradients(coefficients, arrays, weights)
        out[q:, q:] = -weights.sum() * np.eye(len(self.effects))
        return out

    def _split(self, beta: Float) -> tuple[Float, Float]:
        q = len(self.model.parameters)
        return beta[:q], beta[q:]

    def _effects(self, coefficients: Float, arrays: Mapping[str, Float]) -> Float:
        """(m, effects)."""
        if self.tilt_of is not None:
            rise = self.family.curve(arrays["x"] @ coefficients + arrays["offset"])[1]
            return np.asarray((rise * (arrays["tilt"] @ coefficients))[:, None])
        means = [self.family.curve(x @ coefficients + arrays["offset"])[0] for x in self._levels(arrays)]
        return np.stack([m - means[0] for m in means[1:]], axis=1)

    def _gradients(self, coefficients: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        """Derivatives of the weighted sums of the effects (effects, q)."""
        if self.tilt_of is not None:
            eta, tilt = arrays["x"] @ coefficients + arrays["offset"], arrays["tilt"]
            rise, step = self.family.curve(eta)[1], 1e-5
            bend = (self.family.curve(eta + step)[1] - self.family.curve(eta - step)[1]) / (2 * step)
            both = (weights * bend * (tilt @ coefficients)) @ arrays["x"] + (weights * rise) @ tilt
            return np.asarray(both[None])
        sums = [(weights * self.family.curve(x @ coefficients + arrays["offset"])[1]) @ x for x in self._levels(arrays)]
        return np.stack([s - sums[0] for s in sums[1:]])

    def _levels(self, arrays: Mapping[str, Float]) -> list[Float]:
        return [arrays[f"level {k}"] for k in range(len(self.designs_of))]


def shifted(columns: Mapping[str, object], name: str, step: float, n: int) -> dict[str, object]:
    """The columns with a number moved by a step."""
    return {**columns, name: broadcast(columns[name], n).astype(float) + step}
