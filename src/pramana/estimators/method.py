"""What a method hands to the solver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pramana.arrays import Float
from pramana.errors import PramanaError, suggestion
from pramana.estimating import Equation, EstimatingFunction
from pramana.frames import Table
from pramana.mechanism import Mechanism


@dataclass(frozen=True)
class Binding:
    """An equation, for methods with a nuisance fit the way to refit it under other row weights, and facts to be shown."""

    equation: Equation
    rebind: Callable[[Float], Equation] | None = None
    facts: Mapping[str, str] = field(default_factory=dict)


class Method(Protocol):
    """An estimator."""

    @property
    def label(self) -> str: ...
    @property
    def reverts(self) -> bool:
        """True when the variance decomposes into sampling and randomisation (Remark 1)."""

    def bind(self, function: EstimatingFunction, mechanism: Mechanism | None, table: Table, weights: Float) -> Binding:
        """An equation for the table's records; `weights` are the row weights of a nuisance fit."""


def method_of(method: str | Method) -> Method:
    """Look a method up by name."""
    if isinstance(method, type) and hasattr(method, "bind"):
        return method()
    if not isinstance(method, str):
        if not hasattr(method, "bind"):
            raise PramanaError(
                f"method of type {type(method).__name__}: give a name such as 'reversion', or Reversion()"
            )
        return method
    from pramana.estimators.corrections import BackwardCorrection, ForwardCorrection
    from pramana.estimators.likelihood.maximum import Likelihood
    from pramana.estimators.model_dependent import ModelDependent
    from pramana.estimators.naive import Naive
    from pramana.estimators.reversion import Reversion

    known: dict[str, Callable[[], Method]] = {
        "reversion": Reversion,
        "proposed": Reversion,
        "naive": Naive,
        "model-dependent": ModelDependent,
        "model1": ModelDependent,
        "model2": lambda: ModelDependent(intercept=False),
        "likelihood": Likelihood,
        "em": Likelihood,
        "forward": ForwardCorrection,
        "backward": BackwardCorrection,
    }
    name = method.lower().replace("_", "-").replace(" ", "")
    if name not in known:
        raise PramanaError(f"method {method!r} is unknown: {suggestion(name, known)}")
    return known[name]()
