"""Records that a device made, and the equations of a formula over them: what a method needs to bind them there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pramana.arrays import Float, Words
from pramana.estimating import EstimatingFunction, GeneralizedLinear
from pramana.estimating.generalized_linear import NumericResponse
from pramana.formulas.response import Response
from pramana.frames import decode
from pramana.frames.levels import all_numbers
from pramana.kernels.predictor import LOGIT
from pramana.mechanism import Mechanism, TransitionMatrix
from pramana.mechanism.channels.matrix_forms import Dense


@dataclass(frozen=True)
class MadeRecords:
    """Data sets on a device with one perturbed column, and a generalised linear score of plain columns.

    Attributes
    ----------
    data, truth : as `kernels.device_data.MadeSets`: as released, and as they were before.
    """

    function: GeneralizedLinear
    column: str
    channel: TransitionMatrix
    data: Any
    truth: Any

    @classmethod
    def of(
        cls,
        function: EstimatingFunction,
        mechanism: Mechanism,
        columns: Callable[[Any], Mapping[str, Any]],
        starts: Words,
        n: int,
    ) -> MadeRecords | None:
        """Made from `columns`, n records for each starting word (G,); None where a device cannot follow the mechanism or the function."""
        if not isinstance(function, GeneralizedLinear) or len(mechanism.assignments) != 1 or mechanism.unit is not None:
            return None
        (assignment,) = mechanism.assignments
        column, channel = assignment.columns[0], assignment.channel
        if (
            len(assignment.columns) > 1
            or not isinstance(channel, TransitionMatrix)
            or not isinstance(channel.form, Dense)
        ):
            return None
        if not all_numbers(channel.levels) or not _follows(function, column):
            return None
        from pramana.kernels.device_data import make

        truth, data = make(columns, starts, n, column, channel.levels, channel.form.cuts)  # type: ignore[arg-type]
        if function.response != column:
            function.family.check_response(truth.limits(str(_numbers(function))), function.label or "response")
        return cls(function, column, channel, data, truth)

    @property
    def levels(self) -> int:
        return len(self.channel)

    @property
    def matrix(self) -> Float:
        """P (K, K), a row for each released level."""
        return self.channel.form.matrix

    @property
    def inverse(self) -> Float:
        """Weights of the true levels (K, K), a row for each released level."""
        return self.channel.form.revert_rows(np.arange(self.levels))

    @property
    def unperturbed(self) -> MadeRecords:
        """The same records with their true values for released ones."""
        return replace(self, data=self.truth)

    def reverted(self, table: Float) -> Any:
        """The equations, as `DeviceSets`, in which a record of each released level has these weights over the true ones (K, K)."""
        if self.function.response == self.column:
            return self.data.summed(self._outline(1), table @ self._by_level)
        return self.spread(self.data.weighed(table))

    def spread(self, weight: Any) -> Any:
        """The equations, as `DeviceSets`, with weights (G, K, n) over the true levels of every record."""
        of_level = self.function.response == self.column
        return self.data.spread(self._outline(self.levels), weight, self._by_level if of_level else self._response)

    def regression(self, intercept: bool) -> Any:
        """The logistic regressions, as `DeviceSets`, of the second released level on the other variables."""
        from pramana.kernels.accelerator import Layout
        from pramana.kernels.device_data import Outline

        others = [(name,) for name in self.function.variables if name != self.column]
        place = (*((-1,) if intercept else ()), *range(len(others)))
        layout = Layout(place, ((1.0,) * len(place),), (1.0,), LOGIT, 0.0)
        return self.data.as_response(Outline(tuple(others), layout))

    @property
    def _response(self) -> str:
        name = _numbers(self.function)
        assert name is not None
        return name

    @cached_property
    def _levels(self) -> Any:
        return decode(np.arange(self.levels), self.channel.levels)

    @cached_property
    def _by_level(self) -> Float:
        """The response at each true level (K,)."""
        return self.function.response_values(self._levels)

    def _outline(self, nodes: int) -> Any:
        """Design columns as products of plain columns and of what a level gives; with one node where no level matters."""
        from pramana.kernels.accelerator import Layout
        from pramana.kernels.device_data import Outline

        clean = [
            tuple(name for factor in part.factors if not factor <= {self.column} for name in factor)
            for part in self.function.parts or ()
        ]
        distinct = list(dict.fromkeys(names for names in clean if names))
        ones = {name: np.ones(self.levels) for name in self.function.variables}
        node = self.function.design_of({**ones, self.column: self._levels}, self.levels)[:nodes]
        curve = self.function.family.curve
        assert curve.code is not None
        layout = Layout(
            tuple(distinct.index(names) if names else -1 for names in clean),
            tuple(map(tuple, node.tolist())),
            (1.0,) if nodes == 1 else (),
            curve.code,
            curve.shape,
        )
        return Outline(tuple(distinct), layout)


def _numbers(function: GeneralizedLinear) -> str | None:
    """The column that is the response, where that holds numbers."""
    response = function.response_of
    if isinstance(response, NumericResponse):
        return response.name
    return response.column if isinstance(response, Response) else None


def _follows(function: GeneralizedLinear, column: str) -> bool:
    """Whether curve, response and every design column can be had from plain columns and the levels of a perturbed one."""
    if function.family.curve.code is None or function.offset_of is not None or column not in function.variables:
        return False
    if function.response != column and _numbers(function) in (None, column):
        return False
    parts = function.parts
    return parts is not None and all(
        factor <= {column} or plain for part in parts for factor, plain in zip(part.factors, part.plain, strict=True)
    )
