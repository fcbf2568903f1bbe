"""Ways from a task to a result: reversion, naive, model-dependent, corrections, likelihood, stabilized."""

from __future__ import annotations

from collections.abc import Callable

from pramana.errors import PramanaError, suggestion
from pramana.estimators.conditional_score import ConditionalScore
from pramana.estimators.corrections import BackwardCorrection, ForwardCorrection
from pramana.estimators.likelihood.maximum import Likelihood
from pramana.estimators.likelihood.outcome import LikelihoodRatioTest, LikelihoodResult, lr_test
from pramana.estimators.method import Binding, EquationMethod, Method
from pramana.estimators.model_dependent import ModelDependent
from pramana.estimators.naive import Naive
from pramana.estimators.reversion import Reversion
from pramana.estimators.stabilized import Stabilized, StabilizedResult
from pramana.estimators.validated import Validated

__all__ = [
    "BackwardCorrection",
    "Binding",
    "ConditionalScore",
    "EquationMethod",
    "ForwardCorrection",
    "Likelihood",
    "LikelihoodRatioTest",
    "LikelihoodResult",
    "Method",
    "ModelDependent",
    "Naive",
    "Reversion",
    "Stabilized",
    "StabilizedResult",
    "Validated",
    "lr_test",
    "method_of",
]

KNOWN: dict[str, Callable[[], Method]] = {
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
    "conditional-score": ConditionalScore,
    "stabilized": Stabilized,
}
"""Estimators by name: a new one is registered here."""


def method_of(method: str | Method | type[Method]) -> Method:
    """Look a method up by name."""
    if isinstance(method, type) and issubclass(method, Method):
        return method()
    if isinstance(method, Method):
        return method
    if not isinstance(method, str):
        raise PramanaError(f"method of type {type(method).__name__}: give a name such as 'reversion', or Reversion()")
    name = method.lower().replace("_", "-").replace(" ", "")
    if name not in KNOWN:
        raise PramanaError(f"method {method!r} is unknown: {suggestion(name, KNOWN)}")
    return KNOWN[name]()
