"""What is to be estimated. Knows nothing of randomisation: only of records spread over nodes with signed weights."""

from pramana.estimating.equation import About, Equation
from pramana.estimating.families import FAMILIES, Family, family_of
from pramana.estimating.function import EstimatingFunction, from_callable
from pramana.estimating.generalized_linear import GeneralizedLinear
from pramana.estimating.records import Records, ResponseMoments

__all__ = [
    "FAMILIES",
    "About",
    "Equation",
    "EstimatingFunction",
    "Family",
    "GeneralizedLinear",
    "Records",
    "ResponseMoments",
    "family_of",
    "from_callable",
]
