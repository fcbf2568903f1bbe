"""Solve, and say how far the solution may be from the truth. Sees sums over records, never the records."""

from pramana.inference.jackknife import Jackknife
from pramana.inference.options import Resampling, Sandwich
from pramana.inference.solve import Root, solve
from pramana.inference.survey import SurveyDesign
from pramana.inference.woodruff import Woodruff

__all__ = ["Jackknife", "Resampling", "Root", "Sandwich", "SurveyDesign", "Woodruff", "solve"]
