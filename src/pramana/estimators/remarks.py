"""Remarks on a standard error that is not what its reader will take it for."""

from __future__ import annotations

import numpy as np

from pramana.inference.sample import Totals
from pramana.result import Diagnostic

FEW_CLUSTERS = 40
"""Below this the sandwich of cluster sums is too small: with 8 clusters its 95 % intervals cover about 77 to 87 %."""

ROUNDING = 1e-10


def few_clusters(groups: int | None, remedy: str) -> list[Diagnostic]:
    """For a sandwich with large-sample intervals."""
    if groups is None or groups >= FEW_CLUSTERS:
        return []
    message = f"a sandwich of {groups} clusters (fewer than {FEW_CLUSTERS}) is too small and its intervals cover too little: {remedy}"
    return [Diagnostic("few-clusters", "warning", message)]


def nothing_random(totals: Totals) -> bool:
    """Around the file, where the estimate uses nothing that was perturbed: rounding is all that is left."""
    if totals.design is None or totals.design.target != "file":
        return False
    whole = np.diag(totals.outer)
    return bool(np.all(np.abs(whole - np.diag(totals.clean_outer)) <= ROUNDING * whole))


NOTHING_RANDOM = Diagnostic(
    "no-randomisation",
    "warning",
    "around the file only the randomisation is uncertain, and no perturbed column is used here: the standard errors are zero "
    "and tests mean nothing; use target='superpopulation' or 'finite'",
)
