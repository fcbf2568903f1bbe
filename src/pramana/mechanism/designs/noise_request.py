"""A person's request for noise in one column, or for noise that linked columns share, and the channel that answers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pramana.errors import MechanismError, suggestion
from pramana.frames import Level, Table
from pramana.frames.table import require_columns
from pramana.mechanism.channel import Channel
from pramana.mechanism.channels.additive_noise import AdditiveNoise
from pramana.mechanism.channels.checks import checked_epsilon
from pramana.mechanism.channels.joint_noise import JointGaussianNoise
from pramana.mechanism.channels.noise import (
    DiscreteGaussianNoise,
    GaussianNoise,
    GeometricNoise,
    KeepOrNoise,
    LaplaceNoise,
    UniformNoise,
    checked_bounds,
    checked_positive,
)
from pramana.mechanism.channels.stratified import Stratified
from pramana.mechanism.designs.request import ColumnRequest

STRENGTHS = {
    "laplace": "scale",
    "geometric": "scale",
    "gaussian": "sd",
    "discrete-gaussian": "sd",
    "uniform": "width",
}
"""The number that each noise is given by."""
STEPPED = ("geometric", "discrete-gaussian")


@dataclass(frozen=True)
class NoiseRequest(ColumnRequest):
    """What a person asks for; `channel` builds it. Nothing of it comes from the data.

    Parameters
    ----------
    columns : one column, or several that share normal noise with a `covariance`.
    noise : "laplace", "geometric", "gaussian", "discrete-gaussian" or "uniform".
    scale, sd, width : the one that the noise has. With `bounds` a privacy loss may stand in its place: `epsilon` of Laplace and geometric
        noise, `rho` of normal noise; beside it, the loss is a ceiling that the design must not exceed.
    step : of geometric and discrete normal noise. keep : the value stays with that probability.
    bounds : lowest and highest true value; one such pair a column where several share a noise.
    by, strata : an unperturbed column, and for its values what differs there.
    """

    columns: tuple[str, ...]
    noise: str
    scale: float | None = None
    sd: float | None = None
    width: float | None = None
    epsilon: float | None = None
    rho: float | None = None
    step: float | None = None
    keep: float | None = None
    bounds: tuple[Any, ...] | None = None
    covariance: tuple[tuple[float, ...], ...] | None = None
    by: str | None = None
    strata: tuple[tuple[Level, Mapping[str, Any]], ...] = ()

    def resolved(self, table: Table | None, unit: str | None = None) -> NoiseRequest:  # noqa: ARG002
        if table is not None:
            require_columns(table, [*self.columns, *([self.by] if self.by else [])], "the design")
        return self

    def options(self) -> dict[str, Any]:
        """What is written to a design file, but for columns and strata."""
        return {name: value for name, value in vars(self).items() if name not in ("columns", "strata")}

    def channel(self) -> Channel:
        if self.noise not in STRENGTHS:
            raise MechanismError(f"noise {self.noise!r} is unknown: {suggestion(self.noise, tuple(STRENGTHS))}")
        if (self.by is None) != (not self.strata):
            raise MechanismError("strata need both `by`, the unperturbed column, and `strata`, what differs in each")
        if len(self.columns) > 1:
            return _joint(self)
        if self.by is None:
            return _alone(self)
        plain, made = replace(self, by=None, strata=()), dict[Any, Channel]()
        for value, changes in self.strata:
            if value in made:
                raise MechanismError(f"stratum {value!r} of {self.by!r} appears more than once: describe it once")
            try:
                made[value] = _alone(replace(plain, **changes))
            except MechanismError as error:
                raise MechanismError(f"stratum {value!r} of {self.by!r}: {error.marked}") from None
        return Stratified(self.by, made)


def _alone(request: NoiseRequest) -> AdditiveNoise:
    """The noise of one column, checked against its ceiling."""
    if request.covariance is not None:
        raise MechanismError("covariance belongs to [[linked]] columns, which share a noise: give this one its own")
    _refuse_foreign(request)
    strength = _strength(request)
    step = 1.0 if request.step is None else request.step
    bounds: Any = request.bounds
    made: AdditiveNoise
    if request.noise == "uniform":
        made = UniformNoise(strength, bounds)
    elif request.noise == "gaussian":
        made = GaussianNoise(strength, bounds)
    elif request.noise == "discrete-gaussian":
        made = DiscreteGaussianNoise(strength, step, bounds)
    elif request.noise == "laplace":
        made = LaplaceNoise(strength, bounds)
    else:
        made = GeometricNoise(strength, step=step, bounds=bounds)
    if request.keep is not None:
        made = KeepOrNoise(request.keep, made)
    _refuse_above(made, request)
    return made


def _refuse_foreign(request: NoiseRequest) -> None:
    """Options that belong to other kinds of noise."""
    own, noise = STRENGTHS[request.noise], request.noise
    for name in {*STRENGTHS.values(), "step", "keep", "epsilon", "rho"} - {own}:
        allowed = {
            "step": noise in STEPPED,
            "keep": True,
            "epsilon": own == "scale",
            "rho": own == "sd",
        }.get(name, False)
        if request.options()[name] is not None and not allowed:
            raise MechanismError(f"{name} does not belong to {noise} noise: leave it out; its strength is {own}")


def _strength(request: NoiseRequest) -> float:
    """Scale or standard deviation; from the privacy loss where it is not given."""
    own = STRENGTHS[request.noise]
    given = request.options()[own]
    if given is not None:
        return checked_positive(own, given)
    if request.epsilon is None and request.rho is None:
        loss = {"scale": ", or epsilon and bounds", "sd": ", or rho and bounds"}.get(own, "")
        raise MechanismError(f"the strength of {request.noise} noise is not given: give {own}{loss}")
    if request.keep is not None:
        loss = "epsilon" if own == "scale" else "rho"
        raise MechanismError(f"with keep, {loss} does not tell the {own}: give {own}, and {loss} as a ceiling")
    bounds = checked_bounds(request.bounds)
    if bounds is None:
        raise MechanismError("a privacy loss needs bounds, to which true values are clamped: give bounds")
    span = bounds[1] - bounds[0]
    if request.epsilon is not None:
        return span / checked_epsilon(request.epsilon)
    return span / float(np.sqrt(2 * checked_positive("rho", request.rho)))


def _joint(request: NoiseRequest) -> JointGaussianNoise:
    extra = [name for name in ("scale", "sd", "width", "epsilon", "step", "keep", "by") if request.options()[name]]
    if request.noise != "gaussian" or request.covariance is None or extra:
        raise MechanismError(
            'columns share normal noise alone: write noise = "gaussian" with a covariance, bounds (a pair a column) and, as a ceiling, rho, '
            "or give each column a noise of its own"
        )
    made = JointGaussianNoise(request.covariance, request.bounds)
    _refuse_above(made, request)
    return made


def _refuse_above(made: Channel, request: NoiseRequest) -> None:
    """A privacy loss beside the strength is a ceiling."""
    for name, ceiling, reached in (("epsilon", request.epsilon, made.epsilon), ("rho", request.rho, made.rho)):
        if ceiling is not None and reached > ceiling * (1 + 1e-9):
            raise MechanismError(
                f"{name} is {reached:.4g}, above the {ceiling:.4g} asked for: use more noise or narrower bounds, or raise {name}"
            )
