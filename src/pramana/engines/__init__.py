"""Whoever adds up sums over records: at given parameter values, under given weight draws. Only values and sums travel."""

from pramana.engines.local import Engine, Weights
from pramana.engines.sampling import Sampling, Stratification
from pramana.engines.totals import Totals

__all__ = ["Engine", "Sampling", "Stratification", "Totals", "Weights"]
