"""Stabilised reversion: a plug-in whose probabilities stay in the simplex, and a step back to reversion as far as the data ask for it.

A regression of the released levels on everything that was not perturbed gives q_i, P⁻¹ turns it into probabilities of the true levels, and p_i is
the nearest point of the simplex. The plug-in m solves Σ_i Σ_k p_ik U_k(m) = 0, whose weights are not negative, so that it has a root where reversion
has none. One Newton step D leads from m to reversion, and T, the size of D in units of what it would be by chance, says how far to go:
b = m + w D with w = T/(T + 2d). Since q is fitted in released space, where the released levels are what they seem, the reverted moments stay exact as
long as nothing is projected: with a canonical link m is then reversion, D = 0 and w = 0.
"""

from pramana.estimators.stabilized.blend import Stabilized, StabilizedResult
from pramana.estimators.stabilized.interval import Hull

__all__ = ["Hull", "Stabilized", "StabilizedResult"]
