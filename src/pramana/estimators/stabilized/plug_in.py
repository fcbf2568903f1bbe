"""The plug-in, whose probabilities stay in the simplex, and the step from there to reversion with the weight that the data give it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pramana.analysis.task import Task
from pramana.arrays import Float
from pramana.engines import Engine, Sampling
from pramana.errors import SolveError
from pramana.estimating import Equation, Records
from pramana.estimators.stabilized.released import ReleasedLevels, ReleasedRegression
from pramana.estimators.tables.without_negative_cells import onto_simplex
from pramana.inference import solve
from pramana.inference.sandwich import bread
from pramana.kernels.blocks import by_group

FLOOR = 1e-3
"""Share of reversion's variance that is added to that of the step, which can be known exactly."""
PULL = 2.0
"""T for each parameter at which plug-in and step weigh the same."""
SINGULAR = 1e-9
"""Share of the largest eigenvalue below which a direction of the step does not exist, as for shares that add up to 1."""


@dataclass(frozen=True)
class PlugIn:
    """The root m of Σ p U, and what leads from there to reversion.

    Attributes
    ----------
    reverted, plugged : the sums of φ and of Σ_k p_k U_k. shares : p (n, C).
    phi, psi : (n, d) at m; psi with what the regression's error adds.
    """

    reverted: Engine
    plugged: Engine
    truth: Float
    shares: Float
    m: Float
    phi: Float
    psi: Float
    regression: ReleasedRegression

    @classmethod
    def of(
        cls, reverted: Engine, records: Records, released: ReleasedLevels, regression: ReleasedRegression, task: Task
    ) -> PlugIn:
        truth = released.of_truth(regression.shares)
        shares = onto_simplex(truth)
        plugged = task.engine(reverted.equation.under(records.reweighted(shares))).learned()
        try:
            m = solve(plugged, start=task.start).beta
        except SolveError as error:
            raise SolveError(f"the plug-in equation has no root: {error.marked}") from None
        phi, psi, lever = _sums_over_nodes(reverted.equation, m, truth, shares, released, regression)
        psi = psi + _through_regression(lever, regression, task.sampling.row_weights)
        return cls(reverted, plugged, truth, shares, m, phi, psi, regression)

    def slope(self, beta: Float) -> Float:
        """Σ w Σ_k p_k ∂U_k (d, d)."""
        if self.reverted.about.sums:
            return -np.eye(self.reverted.d)
        return self.plugged.score_and_slope(beta[None], self.plugged.own)[1][0]

    @property
    def sketch(self) -> PlugIn:
        """The sums over some of the records, where these are very many."""
        return replace(self, reverted=self.reverted.sketch()[0], plugged=self.plugged.sketch()[0])

    @cached_property
    def inverse(self) -> Float:
        """J⁻¹ at m, J = −Σ w p ∂U."""
        totals = replace(self.reverted.totals(self.m), slope=-self.slope(self.m))
        return bread(totals, self.reverted.about.parameters)

    @cached_property
    def step(self) -> Float:
        """D."""
        weights = self.reverted.sampling.row_weights
        return np.asarray(self.inverse @ (weights @ self.phi - (self.m if self.reverted.about.sums else 0.0)))

    @property
    def left(self) -> Float:
        """Of the slope of each parameter (d,) at the plug-in, the share that is left at the end of the whole step; 1 where U is linear."""
        part = self.sketch
        here, there = (np.abs(np.diag(part.slope(beta))) for beta in (self.m, self.m + self.step))
        with np.errstate(all="ignore"):
            return np.where(here > 0, there / here, 1.0)

    @cached_property
    def evidence(self) -> tuple[float, int]:
        """T, and the number of directions that it was summed over: parameters, less those that follow from the others."""
        d, sampling = self.reverted.d, self.reverted.sampling
        own = unit_variance(self.phi @ self.inverse.T, sampling, d)
        variance = unit_variance((self.phi - self.psi) @ self.inverse.T, sampling, d) + FLOOR * own
        scale = np.sqrt(np.diag(variance))
        scale = np.where(scale > 0, scale, 1.0)
        values, axes = np.linalg.eigh(variance / np.outer(scale, scale))
        there = values > SINGULAR * max(values[-1], 1e-300)
        along = axes.T[there] @ (self.step / scale)
        return float(np.sum(along**2 / values[there])), int(there.sum())

    @property
    def weight(self) -> float:
        t, d = self.evidence
        return t / (t + PULL * d) if d else 0.0

    @property
    def moved(self) -> float:
        """Share of the records, by their weights, that were projected."""
        weights = self.reverted.sampling.row_weights
        return float(weights @ (self.truth.min(axis=1) < 0) / weights.sum())


def _sums_over_nodes(
    equation: Equation,
    beta: Float,
    truth: Float,
    shares: Float,
    released: ReleasedLevels,
    regression: ReleasedRegression,
) -> tuple[Float, Float, Float]:
    """φ = Σ_c Q[c, y*] U_c and Σ_c p_c U_c (n, d), and Σ_c U_c ∂p_c/∂η_j (K − 1, n, d), η the linear predictors of the regression.

    ∂q_r/∂η_j = q_r (1{r = j} − q_j), so that Qq moves by q_j (Q[j, ·] − Qq); on a face of the simplex the mean of the coordinates that are left is
    taken off, and the others stay 0.
    """
    inside = shares > 0
    left, rows = inside.sum(axis=1), released.code
    reverted = (
        released.reversion[released.stratum, rows] if len(released.reversion) > 1 else released.reversion[0][rows]
    )
    moves = []
    for j in range(1, released.k):
        move = np.where(inside, released.columns(j) - truth, 0.0)
        move -= np.where(inside, (move.sum(axis=1) / left)[:, None], 0.0)
        moves.append(regression.shares[:, j, None] * move)
    phi, psi = np.zeros((2, len(truth), equation.d))
    lever = np.zeros((len(moves), len(truth), equation.d))
    for c in range(truth.shape[1]):
        u = equation.at_node(beta, c)
        phi += reverted[:, c, None] * u
        psi += shares[:, c, None] * u
        for j, move in enumerate(moves):
            lever[j] += move[:, c, None] * u
    return phi, psi, lever


def _through_regression(lever: Float, regression: ReleasedRegression, weights: Float) -> Float:
    """G·IF of every record (n, d), for a weight of 1: G = Σ w Σ_c U_c ∂p_c/∂γ."""
    design, classes = regression.plan.design, len(lever)
    if not classes:
        return np.zeros((1, lever.shape[2]))
    weighted = design * weights[:, None]
    g = np.hstack([part.T @ weighted for part in lever])  # (d, (K − 1) q)
    path = np.split(g @ regression.inverse * regression.scale, classes, axis=1)
    return np.asarray(sum(regression.residual[:, j, None] * (design @ path[j].T) for j in range(classes)))


def unit_variance(values: Float, sampling: Sampling, d: int) -> Float:
    """The variance of Σ w v for rows v (n, d): squares of records, clusters or sampling units around their mean."""
    if sampling.clusters is not None:
        sums = by_group(values * sampling.row_weights[:, None], sampling.clusters, sampling.groups or 0)
        if sampling.strata is not None:
            return sampling.strata.between(sums)
        centred = sums - sums.mean(axis=0)
        return np.asarray(centred.T @ centred * len(sums) / (len(sums) - 1))
    own, counts = (np.ones(len(values)) if v is None else v for v in (sampling.weights, sampling.frequencies))
    n, rows = counts.sum(), values * own[:, None]
    centred = rows - counts @ rows / n
    return np.asarray((centred * counts[:, None]).T @ centred * n / (n - d))
