"""Sums over records in the memory of a GPU, through JAX, where the equation is one that its kernels know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pramana.arrays import Float, Int, Words
from pramana.engines.engine import Engine
from pramana.engines.local import LocalEngine, SampledBlock
from pramana.engines.totals import Totals
from pramana.errors import PramanaError
from pramana.kernels import backend
from pramana.kernels.streams import keys

WIDER = 16
"""How many times as many draws are solved at once as on the CPU."""


@dataclass(frozen=True)
class DeviceWeights:
    """Row weights of several draws, made where they are needed.

    Attributes
    ----------
    count : draws.
    make : their values (B, n) on the CPU, for sums that are formed there.
    keys : starting words (B,) of the streams from which the device draws them itself; None where it is given their values.
    equal : all are 1.
    """

    count: int
    make: Callable[[], Float]
    keys: Words | None = None
    equal: bool = False

    def __len__(self) -> int:
        return self.count

    @cached_property
    def values(self) -> Float:
        return self.make()

    def of(self, block: SampledBlock) -> Float:
        """Those of a block's records (B, m)."""
        return self.values[:, block.rows]

    def draw(self, position: int) -> DeviceWeights:
        """One of the draws."""
        own = slice(position, position + 1)
        return DeviceWeights(1, lambda: self.values[own], None if self.keys is None else self.keys[own], self.equal)

    @cached_property
    def on_device(self) -> Any:
        from pramana.kernels.device_records import RowWeights

        return RowWeights.of(None if self.equal or self.keys is not None else self.values, self.keys)

    @property
    def average(self) -> float:
        return 1.0 if self.equal or self.keys is not None else float(self.values.mean())


@dataclass(frozen=True)
class DeviceEngine(LocalEngine):
    """Records on a device.

    It forms the sums from which a root, a sandwich and resamples are made, for generalised linear equations whose curve and design
    the kernels know. Everything else, such as sums by cluster, other equations, and the few records of a first fit, is summed on
    the CPU, to the same numbers.
    """

    @cached_property
    def _held(self) -> Any | None:
        """The records on the device; None where the CPU forms all sums."""
        grouped = self.equation.grouped(1)
        if grouped is None or grouped.products is None:
            return None
        from pramana.kernels.device_records import DeviceRecords

        return DeviceRecords.of(grouped.products)

    @property
    def draws_at_once(self) -> int:
        return WIDER * super().draws_at_once

    @property
    def _local(self) -> LocalEngine:
        return LocalEngine(self.equation, self.sampling, self.threads, self.runs)

    # Weights.

    @cached_property
    def own(self) -> Any:
        plain = self.sampling.plain
        return DeviceWeights(1, lambda: self.sampling.row_weights[None], equal=plain)

    def drawn(self, law: str, seed: int, draws: Int) -> Any:
        s, sums = self.sampling, self.about.sums
        streamed = law == "exponential" and s.plain and s.clusters is None and s.strata is None and not sums
        make = lambda: s.drawn(law, seed, draws, sums=sums)  # noqa: E731
        return DeviceWeights(len(draws), make, keys(seed, draws) if streamed else None)

    def without(self, deleted: Int) -> Any:
        return DeviceWeights(len(deleted), lambda: super(DeviceEngine, self).without(deleted).values)

    def replicated(self) -> Any:
        given = super().replicated().values
        return DeviceWeights(len(given), lambda: given)

    # Sums.

    def score(self, betas: Float, weights: Any) -> Float:
        return super().score(betas, weights) if self._held is None else self.score_and_slope(betas, weights)[0]

    def score_and_slope(self, betas: Float, weights: Any, draws: Int | None = None) -> tuple[Float, Float]:
        if self._held is None:
            return super().score_and_slope(betas, weights, draws)
        found: tuple[Float, Float] = self._held.score_and_slope(betas, weights.on_device, draws)
        return found

    def slopes_at(self, betas: Float, weight: float) -> Float:
        if self._held is None:
            return super().slopes_at(betas, weight)
        alike = DeviceWeights(1, lambda: np.ones((1, self.equation.n)), equal=True)
        return np.asarray(weight * self.score_and_slope(betas, alike)[1])

    def outer(self, beta: Float, weights: Any) -> Float:
        if self._held is None or weights.keys is not None:
            return super().outer(beta, weights)
        own = weights.on_device
        return np.asarray(self._held.sums(beta, own, own.squared).outer)

    def totals(self, beta: Float, slope: Float | None = None) -> Totals:
        s = self.sampling
        if self._held is None or s.clusters is not None or s.strata is not None or s.frequencies is not None:
            return super().totals(beta, slope)
        own = self.own.on_device
        found = self._held.sums(beta, own, own.squared)
        bend = found.slope if slope is None else slope
        return Totals(s.n, found.score, bend, found.outer, found.clean_outer, fourth=found.fourth)

    # A first fit and a judgement of few records stay with the CPU.

    def pilot(self) -> LocalEngine | None:
        return self._local.pilot()

    def sketch(self) -> tuple[Engine, float]:
        return self._local.sketch()


def on_device(engine: Engine) -> Engine:
    """The same sums on the device."""
    if not engine.resident:
        raise PramanaError(
            "records that are read in blocks are added up on the CPU: raise memory=, so that they are held, or leave out the device"
        )
    return device_engine(engine.equation, engine.sampling)


def device_engine(equation: Any, sampling: Any) -> Engine:
    """The engine of `device="gpu"`; an error where there is no such device."""
    backend.accelerated("gpu")
    return DeviceEngine(equation, sampling)
