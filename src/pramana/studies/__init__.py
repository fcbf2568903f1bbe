"""Simulation studies: scenarios, the paper's own, and the machinery that runs them."""

from pramana.studies.scenario import Scenario
from pramana.studies.simulation import Replicates, simulate
from pramana.studies.summary import StudyResult

__all__ = ["Replicates", "Scenario", "StudyResult", "simulate"]
