"""Ways from released data to an equation: reversion, naive, model-dependent, likelihood. All give the same `Result`."""

from pramana.estimators.corrections import BackwardCorrection, ForwardCorrection
from pramana.estimators.likelihood.maximum import Likelihood
from pramana.estimators.likelihood.outcome import LikelihoodRatioTest, LikelihoodResult, lr_test
from pramana.estimators.method import Binding, Method, method_of
from pramana.estimators.model_dependent import ModelDependent
from pramana.estimators.naive import Naive
from pramana.estimators.reversion import Reversion

__all__ = [
    "BackwardCorrection",
    "Binding",
    "ForwardCorrection",
    "Likelihood",
    "LikelihoodRatioTest",
    "LikelihoodResult",
    "Method",
    "ModelDependent",
    "Naive",
    "Reversion",
    "lr_test",
    "method_of",
]
