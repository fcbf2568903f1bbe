"""Systems of estimating functions solved together: nuisance parameters first, then what is asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from pramana.arrays import Float
from pramana.estimating.collinearity import refuse_collinear
from pramana.estimating.equation import About, Equation, FirstStage, LearnedScale, Note, Regression, central_slopes
from pramana.estimating.function import EstimatingFunction, Traits
from pramana.estimating.records import Records
from pramana.kernels.blocks import gram

Later: TypeAlias = Callable[[], Float]
"""An array that is made when it is asked for."""


class System(Traits, ABC):
    """U(β; arrays), where the arrays (designs, responses) were computed from columns once. To be subclassed.

    `shown` names the parameters that a result lists; the others are nuisance, whose uncertainty stays in the covariance.
    `curvatures` are the blocks of parameters whose slope would be negative definite without noise, as in a regression:
    they tell whether the noise has left anything to estimate.
    """

    @property
    @abstractmethod
    def parameters(self) -> tuple[str, ...]:
        """Names (d), nuisance parameters first."""

    @property
    def shown(self) -> tuple[str, ...] | None:
        return None

    @property
    def exponentials(self) -> tuple[str, ...] | None:
        """What the exponentials of the shown parameters are called, where their names change; else None."""
        return None

    @property
    def curvatures(self) -> tuple[slice, ...]:
        return ()

    @property
    def rising(self) -> slice | None:
        """The parameters that must rise from one to the next, or None."""
        return None

    def judge(self) -> System:
        """A system with the same regressors about which more records tell, to judge identification by."""
        return self

    def averaged(self, covariance: Float) -> System:  # noqa: ARG002
        """Of a rough U: averaged over normal deviations of β with this covariance."""
        return self

    def sharp(self) -> System:
        """Without a kernel that serves to find the root."""
        return self

    @abstractmethod
    def arrays(self, columns: Mapping[str, object], n: int) -> dict[str, Float]:
        """Arrays with n rows each."""

    @property
    def designs(self) -> dict[str, tuple[str, ...]]:
        """Which arrays are designs that must be finite and of full rank, with the names of their columns."""
        return {}

    @abstractmethod
    def start(self, arrays: Mapping[str, Float], weights: Float) -> Float:
        """A starting value (d,); weights (m,) are signed."""

    @property
    def first(self) -> EstimatingFunction | None:
        """An estimating function whose parameters come first and do not depend on the others, so that it is solved first;
        or None."""
        return None

    def first_sums(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        """Sums at the root of `first` from which the other starting values follow; for systems that have one."""
        raise NotImplementedError("a system without a first stage has nothing to complete")

    def completed(self, beta: Float, sums: Float) -> Float:
        """A starting value (d,) from the root of `first`, and those sums over all records."""
        raise NotImplementedError("a system without a first stage has nothing to complete")

    @abstractmethod
    def u(self, beta: Float, arrays: Mapping[str, Float]) -> Float:
        """U (m, d)."""

    def slope(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        """Σ w ∂U/∂β (d, d); by central differences unless a subclass knows better."""
        return central_slopes(lambda b: np.asarray(weights @ self.u(b, arrays)), beta)

    def tuned(self, arrays: Mapping[str, Float], weights: Float, size: float) -> System:  # noqa: ARG002
        """With what is learned from the released records: arrays (n rows) at weights (n,) worth `size` equal records."""
        return self

    def regressed(self, arrays: Mapping[str, Float]) -> tuple[Float, Float]:
        """Regressors and response (n rows) whose spread around least squares is what a `rough` system learns, so that it can be told."""
        raise NotImplementedError("this system has no scale")

    def scaled(self, spread: float, size: float) -> System:  # noqa: ARG002
        """With that spread, of so many records."""
        return self

    def facts(self) -> dict[str, str]:
        """What was chosen and how, for the head of the result."""
        return {}

    def remarks(self, beta: Float, arrays: Mapping[str, Float], weights: Float, covariance: Later) -> list[Note]:  # noqa: ARG002
        """What the analyst should know at the root, for weights of the rows of `arrays`; its covariance (d, d), where needed, is that of independent
        records."""
        return []


@dataclass(frozen=True)
class StackedFunction(EstimatingFunction):
    """A system waiting for records."""

    system: System
    variables: tuple[str, ...]

    @property
    def parameters(self) -> tuple[str, ...]:
        return self.system.parameters

    @property
    def prediction(self) -> Any:
        return self.system.prediction

    @property
    def rough(self) -> bool:
        return self.system.rough

    @property
    def grows(self) -> bool:
        return self.system.grows

    def equation(self, records: Records) -> StackedEquation:
        arrays = arrays_of(self.system, records)
        for name, columns in self.system.designs.items():
            refuse_collinear([arrays[name]], columns)
        return StackedEquation(self.system, records, arrays)


def arrays_of(system: System, records: Records) -> dict[str, Float]:
    """The arrays of all nodes, those of a record lying next to each other (n·C rows)."""
    nodes = [system.arrays(records.at(k), records.n) for k in range(len(records.nodes))]
    return {name: _interleaved([node[name] for node in nodes]) for name in nodes[0]}


@dataclass(frozen=True)
class StackedEquation(Equation):
    """φ_i = Σ_k weight_ik U(node k of record i)."""

    system: System
    records: Records
    arrays: dict[str, Float]

    @property
    def about(self) -> About:
        system = self.system
        return About(
            system.parameters,
            system.shown,
            profiled=False,
            curvatures=system.curvatures,
            judge=None if system.judge() is system else replace(self, system=system.judge()),
            rising=system.rising,
            sharp=None if system.sharp() is system else replace(self, system=system.sharp()),
            averaged=self._averaged if system.rough else None,
            scale=LearnedScale(self._regression, self._scaled) if system.rough else None,
            nodes=len(self.records.nodes),
            exponentials=system.exponentials,
            facts=system.facts(),
        )

    def rows(self, rows: slice) -> StackedEquation:
        low, high, _ = rows.indices(self.n)
        nodes = slice(low * len(self.records.nodes), high * len(self.records.nodes))
        arrays = {name: values[nodes] for name, values in self.arrays.items()}
        return StackedEquation(self.system, self.records.rows(rows), arrays)

    def under(self, records: Records) -> StackedEquation:
        node, size = records.sole, len(records.nodes)
        if node is None:
            return replace(self, records=records)
        arrays = {name: values[node::size] for name, values in self.arrays.items()}
        return replace(self, records=records.only(node), arrays=arrays)

    def learned(self, weights: Float, size: float) -> StackedEquation:
        weights, size = self.records.learning(weights, size)
        system = self.system.tuned(self._released, weights, size)
        return self if system is self.system else replace(self, system=system)

    @property
    def _released(self) -> dict[str, Float]:
        """The arrays as the records were released (n rows)."""
        records = self.records
        released = np.arange(self.n) * len(records.nodes) + records.released[records.row]
        return {name: values[released] for name, values in self.arrays.items()}

    def _regression(self, weights: Float) -> Regression:
        inside = self.records.inside
        return Regression(*self.system.regressed(self._released), weights if inside is None else weights * inside)

    def _scaled(self, spread: float, size: float) -> StackedEquation:
        return replace(self, system=self.system.scaled(spread, size))

    def taught(self, by: StackedEquation) -> StackedEquation:
        return replace(self, system=by.system)

    @property
    def first(self) -> FirstStage | None:
        system = self.system
        if system.first is None:
            return None
        sums: Callable[[Float, Float], Float] = lambda beta, w: system.first_sums(beta, self.arrays, self._signed(w))  # noqa: E731
        return FirstStage(system.first.equation(self.records), sums, system.completed)

    def start(self, weights: Float) -> Float:
        return self.system.start(self.arrays, self._signed(weights))

    def remarks(self, beta: Float, weights: Float, covariance: Float, squares: Float) -> list[Note]:  # noqa: ARG002
        return self.system.remarks(
            beta, self.arrays, np.repeat(weights, len(self.records.nodes)), lambda: self._robust(beta, weights, squares)
        )

    def _robust(self, beta: Float, weights: Float, squares: Float) -> Float:
        """The sandwich (d, d) of independent records: a first stage is weak or not whatever the standard errors are around."""
        bread = np.linalg.inv(self.slope(beta, weights))
        return np.asarray(bread @ gram(self.influence(beta), squares) @ bread.T)

    def _averaged(self, covariance: Float) -> StackedEquation:
        return replace(self, system=self.system.averaged(covariance))

    def influence(self, beta: Float) -> Float:
        u = self.system.u(beta, self.arrays).reshape(self.n, -1, beta.size)
        return np.einsum("nc,ncd->nd", self.records.weights, u)

    def slope(self, beta: Float, weights: Float) -> Float:
        with np.errstate(all="ignore"):
            return self.system.slope(beta, self.arrays, self._signed(weights))

    def clean_outer(self, beta: Float, weights: Float) -> Float:
        u = self.system.u(beta, self.arrays)
        return np.asarray((u * self._signed(weights)[:, None]).T @ u)

    def _signed(self, weights: Float) -> Float:
        """Row weights times node weights (n·C,)."""
        return (weights[:, None] * self.records.weights).ravel()


def _interleaved(parts: list[Float]) -> Float:
    """Nodes (C arrays with n rows) as one array whose rows run record by record."""
    stacked = np.stack(parts, axis=1)
    return np.ascontiguousarray(stacked.reshape(-1, *stacked.shape[2:]))
