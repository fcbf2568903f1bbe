"""Solve, and say how far the solution may be from the truth."""

from pramana.inference.jackknife import Jackknife
from pramana.inference.options import Resampling, Sandwich
from pramana.inference.sample import Sample
from pramana.inference.solve import Root, solve
from pramana.inference.survey import SurveyDesign

__all__ = ["Jackknife", "Resampling", "Root", "Sample", "Sandwich", "SurveyDesign", "solve"]
