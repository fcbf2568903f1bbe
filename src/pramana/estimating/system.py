"""Systems of estimating functions solved together: nuisance parameters first, then what is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pramana.arrays import Float
from pramana.estimating.equation import Records
from pramana.estimating.function import central_slopes

Note = tuple[str, str, str]
"""Code, severity and message of a diagnostic."""


class System:
    """U(β; arrays), where the arrays (designs, responses) were computed from columns once. To be subclassed.

    `shown` names the parameters that a result lists; the others are nuisance, whose uncertainty stays in the covariance.
    `curvatures` are the blocks of parameters whose slope would be negative definite without noise, as in a regression:
    they tell whether the noise has left anything to estimate.
    """

    @property
    def parameters(self) -> tuple[str, ...]:
        raise NotImplementedError

    @property
    def shown(self) -> tuple[str, ...] | None:
        return None

    @property
    def curvatures(self) -> tuple[slice, ...]:
        return ()

    def judged_by(self) -> System:
        """A system with these regressors whose curvatures more records carry."""
        return self

    def arrays(self, columns: Mapping[str, object], n: int) -> dict[str, Float]:
        """Arrays with n rows each."""
        raise NotImplementedError

    def start(self, arrays: Mapping[str, Float], weights: Float) -> Float:
        """(d,); weights (m,) are signed."""
        raise NotImplementedError

    @property
    def first(self) -> Any:
        """An estimating function whose parameters come first and do not depend on the others, so that it is solved first;
        or None."""
        return None

    def lifted(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        """A starting value (d,) at the root of `first`."""
        raise NotImplementedError

    def u(self, beta: Float, arrays: Mapping[str, Float]) -> Float:
        """(m, d)."""
        raise NotImplementedError

    def slope(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        """Σ w ∂U/∂β (d, d); by central differences unless a subclass knows better."""
        return central_slopes(lambda b: np.asarray(weights @ self.u(b, arrays)), beta)

    def refuse(self, beta: Float) -> None:
        """Raise where no score exists at a starting value."""

    def tuned(self, arrays: Mapping[str, Float], weights: Float, size: float) -> System:  # noqa: ARG002
        """With what is learned from the released records: arrays (n rows) at weights (n,) worth `size` equal records."""
        return self

    def facts(self) -> dict[str, str]:
        """What was chosen and how, for the head of the result."""
        return {}

    def notes(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> list[Note]:  # noqa: ARG002
        """What the analyst should know at the root."""
        return []

    def judged(self, beta: Float, covariance: Callable[[], Float]) -> list[Note]:  # noqa: ARG002
        """The same, for what depends on the uncertainty of nuisance parameters."""
        return []


@dataclass(frozen=True)
class StackedFunction:
    """A system waiting for records."""

    system: System
    variables: tuple[str, ...]
    response: str | None = None
    smooth: bool = True

    @property
    def parameters(self) -> tuple[str, ...]:
        return self.system.parameters

    def response_values(self, values: Any) -> Float:
        raise NotImplementedError("a system keeps the nodes of its response")

    def equation(self, records: Records) -> StackedEquation:
        return StackedEquation(self.system, records)


@dataclass(frozen=True)
class StackedEquation:
    """φ_i = Σ_k weight_ik U(node k of record i), the nodes of a record lying next to each other.

    `reference` holds the row weights at which the search for a root starts; None where all are 1.
    """

    system: System
    records: Records
    arrays: dict[str, Float] = field(default_factory=dict, repr=False)
    reference: Float | None = None
    smooth: bool = True
    stacked: bool = True

    def __post_init__(self) -> None:
        if self.arrays:
            return
        records = self.records
        nodes = [self.system.arrays(records.at(k), records.n) for k in range(len(records.nodes))]
        flat = {name: _interleaved([node[name] for node in nodes]) for name in nodes[0]}
        object.__setattr__(self, "arrays", flat)

    @property
    def n(self) -> int:
        return self.records.n

    @property
    def parameters(self) -> tuple[str, ...]:
        return self.system.parameters

    @property
    def shown(self) -> tuple[str, ...] | None:
        return self.system.shown

    @property
    def curvatures(self) -> tuple[slice, ...]:
        return self.system.curvatures

    @property
    def judged_by(self) -> StackedEquation:
        return replace(self, system=self.system.judged_by())

    @property
    def start(self) -> Float:
        weights = np.ones(self.n) if self.reference is None else self.reference
        return self.system.start(self.arrays, self._signed(weights))

    def plugged(self, weights: Float, size: float) -> StackedEquation:
        """With the system tuned, and started, at row weights that are worth `size` equal records."""
        released = np.arange(self.n) * len(self.records.nodes) + self.records.released
        arrays = {name: values[released] for name, values in self.arrays.items()}
        return replace(self, system=self.system.tuned(arrays, weights, size), reference=weights)

    @property
    def easier(self) -> Any:
        return None if self.system.first is None else self.system.first.equation(self.records)

    def lifted(self, beta: Float, weights: Float) -> Float:
        return self.system.lifted(beta, self.arrays, self._signed(weights))

    @property
    def facts(self) -> dict[str, str]:
        return self.system.facts()

    def refuse(self, start: Float) -> None:
        self.system.refuse(start)

    def notes(self, beta: Float, weights: Float) -> list[Note]:
        def covariance() -> Float:
            phi = self.influence(beta) * weights[:, None]
            bread = np.linalg.inv(self.system.slope(beta, self.arrays, self._signed(weights)))
            return np.asarray(bread @ phi.T @ phi @ bread.T)

        plain = self.system.notes(beta, self.arrays, self._signed(weights))
        return [*plain, *self.system.judged(beta, covariance)]

    def influence(self, beta: Float) -> Float:
        u = self.system.u(beta, self.arrays).reshape(self.n, -1, beta.size)
        return np.einsum("nc,ncd->nd", self.records.weights, u)

    def score(self, betas: Float, weights: Float) -> Float:
        pairs = zip(betas, weights, strict=True)
        with np.errstate(all="ignore"):
            return np.stack([self._signed(w) @ self.system.u(b, self.arrays) for b, w in pairs])

    def score_and_slope(self, betas: Float, weights: Float) -> tuple[Float, Float]:
        pairs = zip(betas, weights, strict=True)
        with np.errstate(all="ignore"):
            slopes = np.stack([self.system.slope(b, self.arrays, self._signed(w)) for b, w in pairs])
        return self.score(betas, weights), slopes

    def clean_outer(self, beta: Float, weights: Float) -> Float:
        u = self.system.u(beta, self.arrays)
        return np.asarray((u * self._signed(weights)[:, None]).T @ u)

    def record_slope(self, beta: Float, left: Float, right: Float) -> Float:
        """The derivative of leftᵀφ along `right`, by central differences."""
        step = 1e-5 / max(float(np.abs(right).max()), 1e-300)
        ahead, behind = self.influence(beta + step * right), self.influence(beta - step * right)
        return np.asarray((ahead - behind) @ left / (2 * step))

    def under(self, records: Records) -> StackedEquation:
        return replace(self, records=records)

    def _signed(self, weights: Float) -> Float:
        """Row weights times node weights (n·C,)."""
        return (weights[:, None] * self.records.weights).ravel()


def _interleaved(parts: list[Float]) -> Float:
    """Nodes (C arrays with n rows) as one array whose rows run record by record."""
    stacked = np.stack(parts, axis=1)
    return np.ascontiguousarray(stacked.reshape(-1, *stacked.shape[2:]))
