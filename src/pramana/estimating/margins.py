"""Average marginal effects: the generalised linear model and the average of its effects in one system."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float
from pramana.estimating.families import Family
from pramana.estimating.generalized_linear import FromColumns, GeneralizedLinear
from pramana.estimating.stacked import System


@dataclass(frozen=True)
class Slope:
    """The effect of a number v: μ′(η) ∂η/∂v.

    Attributes
    ----------
    designs_of : the one function columns ↦ ∂x/∂v (n, q).
    """

    names: tuple[str]
    designs_of: tuple[FromColumns]

    def values(self, at: At, own: Sequence[Float]) -> Float:
        return np.asarray((at.rise(at.x) * (own[0] @ at.coefficients))[:, None])

    def gradients(self, at: At, own: Sequence[Float], weights: Float) -> Float:
        tilt = own[0]
        both = (weights * at.bend() * (tilt @ at.coefficients)) @ at.x + (weights * at.rise(at.x)) @ tilt
        return np.asarray(both[None])


@dataclass(frozen=True)
class Contrasts:
    """The effects of levels: μ(η at the level) − μ(η at the first).

    Attributes
    ----------
    designs_of : columns ↦ design with the variable set to each of its levels (n, q).
    """

    names: tuple[str, ...]
    designs_of: tuple[FromColumns, ...]

    def values(self, at: At, own: Sequence[Float]) -> Float:
        means = [at.mean(x) for x in own]
        return np.stack([m - means[0] for m in means[1:]], axis=1)

    def gradients(self, at: At, own: Sequence[Float], weights: Float) -> Float:
        sums = [(weights * at.rise(x)) @ x for x in own]
        return np.stack([s - sums[0] for s in sums[1:]])


@dataclass(frozen=True)
class At:
    """The model at some coefficients, for records with design x (m, q) and an offset (m,)."""

    family: Family
    coefficients: Float
    x: Float
    offset: Float

    def mean(self, x: Float) -> Float:
        return np.asarray(self.family.curve(x @ self.coefficients + self.offset)[0])

    def rise(self, x: Float, step: float = 0.0) -> Float:
        """μ′ at η + step."""
        return np.asarray(self.family.curve(x @ self.coefficients + self.offset + step)[1])

    def bend(self, step: float = 1e-5) -> Float:
        """μ″ by central differences."""
        return (self.rise(self.x, step) - self.rise(self.x, -step)) / (2 * step)


@dataclass(frozen=True)
class MarginsSystem(System):
    """U = (a(η) x (y − μ), effect_k(x; β) − α_k).

    Attributes
    ----------
    parts : the variables whose effects are averaged.
    """

    model: GeneralizedLinear
    parts: tuple[Slope | Contrasts, ...]

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*(f"coefficient:{p}" for p in self.model.parameters), *self.shown)

    @property
    def shown(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts for name in part.names)

    @property
    def curvatures(self) -> tuple[slice, ...]:
        return (slice(len(self.model.parameters)),)

    @property
    def family(self) -> Family:
        return self.model.family

    def arrays(self, columns: Mapping[str, object], n: int) -> dict[str, Float]:
        out = {"x": self.model.design_of(columns, n), "y": self.model.response_of(columns, n)}
        self.family.check_response(out["y"], self.model.label)
        out["offset"] = np.zeros(n) if self.model.offset_of is None else self.model.offset_of(columns, n)
        for j, part in enumerate(self.parts):
            out |= {f"{j}:{k}": design(columns, n) for k, design in enumerate(part.designs_of)}
        return out

    @property
    def first(self) -> GeneralizedLinear:
        return self.model

    def lifted(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        """The averages follow from the coefficients."""
        at = At(self.family, beta, arrays["x"], arrays["offset"])
        effects = np.column_stack([part.values(at, own) for part, own in self._own(arrays)])
        return np.concatenate([beta, weights @ effects / weights.sum()])

    def start(self, arrays: Mapping[str, Float], weights: Float) -> Float:
        """Coefficients that are about constant at the mean response, and no effect."""
        x = arrays["x"]
        level = self.family.start(float(weights @ arrays["y"] / weights.sum()))
        flat = np.linalg.lstsq(x, level - arrays["offset"], rcond=None)[0]
        return np.concatenate([flat, np.zeros(len(self.shown))])

    def u(self, beta: Float, arrays: Mapping[str, Float]) -> Float:
        at, averages = self._at(beta, arrays)
        mu, _, a, _ = self.family.curve(at.x @ at.coefficients + at.offset)
        score = at.x * (a * (arrays["y"] - mu))[:, None]
        effects = [part.values(at, own) for part, own in self._own(arrays)]
        return np.column_stack([score, np.column_stack(effects) - averages])

    def slope(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        at, averages = self._at(beta, arrays)
        x, q = at.x, len(at.coefficients)
        mu, rise, a, bend = self.family.curve(x @ at.coefficients + at.offset)
        out = np.zeros((beta.size, beta.size))
        out[:q, :q] = (x * (weights * (bend * (arrays["y"] - mu) - a * rise))[:, None]).T @ x
        out[q:, :q] = np.concatenate([part.gradients(at, own, weights) for part, own in self._own(arrays)])
        out[q:, q:] = -weights.sum() * np.eye(len(averages))
        return out

    def _at(self, beta: Float, arrays: Mapping[str, Float]) -> tuple[At, Float]:
        q = len(self.model.parameters)
        return At(self.family, beta[:q], arrays["x"], arrays["offset"]), beta[q:]

    def _own(self, arrays: Mapping[str, Float]) -> Iterator[tuple[Slope | Contrasts, list[Float]]]:
        for j, part in enumerate(self.parts):
            yield part, [arrays[f"{j}:{k}"] for k in range(len(part.designs_of))]
