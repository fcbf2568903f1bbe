"""Ways from released data to an equation: reversion, naive, model-dependent. All give the same `Result`."""

from pramana.estimators.binding import Binding, Method, method_of
from pramana.estimators.model_dependent import ModelDependent
from pramana.estimators.naive import Naive
from pramana.estimators.reversion import Reversion

__all__ = ["Binding", "Method", "ModelDependent", "Naive", "Reversion", "method_of"]
