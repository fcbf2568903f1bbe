"""Solve, and say how far the solution may be from the truth."""

from pramana.inference.options import Resampling, Sandwich
from pramana.inference.sample import Sample
from pramana.inference.solve import Root, solve

__all__ = ["Resampling", "Root", "Sample", "Sandwich", "solve"]
