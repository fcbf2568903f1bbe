"""Simulation studies: scenarios, the paper's own, and the machinery that runs them."""

from pramana.studies.scenario import Analyst, Population, Scenario
from pramana.studies.simulation import ReplicateEstimates, run_replicates
from pramana.studies.summary import StudyResult, simulate

__all__ = ["Analyst", "Population", "ReplicateEstimates", "Scenario", "StudyResult", "run_replicates", "simulate"]
