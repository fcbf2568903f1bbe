"""The likelihood of released records: Σ_c Pr(released | c) f(y_c | x_c; β, φ) g(c | w; γ), its score and information."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float
from pramana.estimators.likelihood.covariate_model import CovariateModel, largest
from pramana.estimators.likelihood.hidden_data import HiddenData
from pramana.kernels.predictor import CurveValues


@dataclass(frozen=True)
class Theta:
    """Coefficients (d,), logarithm of the dispersion, and coefficients (Q, M) of the covariate model."""

    beta: Float
    log_dispersion: float
    gamma: Float

    @property
    def dispersion(self) -> float:
        return float(np.exp(self.log_dispersion))


@dataclass(frozen=True)
class State:
    """The model at one parameter value.

    Attributes
    ----------
    value : Σ w log L.
    posterior : Pr(node | released, rest), (n, C).
    curve : μ, μ′, a, a′ at every combination of covariates, (n, M).
    prior : log g at every combination of covariates, (n, M).
    """

    theta: Theta
    value: float
    posterior: Float
    curve: CurveValues
    prior: Float


@dataclass(frozen=True)
class ObservedLikelihood:
    """Hidden data with a model of the covariates, and row weights (n,)."""

    data: HiddenData
    covariates: CovariateModel
    weights: Float

    def size(self, theta: Theta) -> int:
        """Number of free parameters."""
        return len(theta.beta) + int(self.data.density.dispersed) + self._free_count(theta)

    def _free_count(self, theta: Theta) -> int:
        return int(self.covariates.free(theta.gamma).sum()) if self.data.hides_covariates else 0

    def predictor(self, beta: Float) -> Float:
        """η at every combination of covariates, (n, M)."""
        eta = self.data.design @ beta
        return np.asarray(eta if self.data.offset is None else eta + self.data.offset)

    def evaluate(self, theta: Theta) -> State:
        """Posterior weights and value; the E step."""
        with np.errstate(all="ignore"):
            curve = self.data.function.family.curve(self.predictor(theta.beta))
            prior = self.covariates.log_density(theta.gamma)
            log = self.log_complete(theta, curve[0], prior) + self.data.log_channel
            highest = largest(log)
            joint = np.exp(log - highest)
            total = np.einsum("nc->n", joint)[:, None]
            value = float(self.weights @ (highest + np.log(total))[:, 0])
            posterior = joint / total
        return State(theta, value if np.isfinite(value) else -np.inf, posterior, curve, prior)

    def log_complete(self, theta: Theta, mu: Float, prior: Float) -> Float:
        """log f + log g at every node, (n, C), for means and log g (n, M)."""
        data = self.data
        with np.errstate(all="ignore"):
            log: Float = data.density.log(data.responses, data.at_nodes(mu), theta.dispersion)
        if not data.hides_covariates:
            return log
        return np.asarray(log + data.at_nodes(prior))

    def force(self, state: State) -> Float:
        """a(y − μ)/φ at every node, (n, C)."""
        mu, _, a, _ = self._moments(state)
        return np.asarray(a * (self.data.responses - mu) / state.theta.dispersion)

    def bend(self, state: State) -> Float:
        """The derivative of `force` in η, (n, C)."""
        mu, dmu, a, da = self._moments(state)
        return np.asarray((da * (self.data.responses - mu) - a * dmu) / state.theta.dispersion)

    def expected_bend(self, state: State) -> Float:
        """Its expectation given the covariates, (n, C) or (n, 1)."""
        _, dmu, a, _ = self._moments(state)
        return np.asarray(-a * dmu / state.theta.dispersion)

    def _moments(self, state: State) -> CurveValues:
        at = self.data.at_nodes
        mu, dmu, a, da = state.curve
        return (
            at(mu),
            at(dmu),
            at(a) if isinstance(a, np.ndarray) else a,
            at(da) if isinstance(da, np.ndarray) else da,
        )

    def gathered(self, nodes: Float) -> Float:
        """Sums (n, M) of node values (n, C) over the nodes that share their covariates."""
        if len(self.data.combinations) == 1:
            return np.einsum("nc->n", nodes)[:, None]
        if nodes.shape[1] == len(self.data.combinations):  # every node has a combination of its own, in order
            return nodes
        hit = self.data.place[:, None] == np.arange(len(self.data.combinations))
        return np.asarray(nodes @ hit)

    def means(self, beta: Float) -> Float:
        """At every node, (n, C) or (n, 1)."""
        return self.data.at_nodes(np.asarray(self.data.function.family.curve(self.predictor(beta))[0]))

    def scores(self, state: State) -> Float:
        """Observed-data scores, (n, q): complete-data scores averaged over the posterior."""
        parts = [self.regression_scores(state.posterior * self.force(state))]
        if self.data.density.derivatives is not None:
            parts.append(np.einsum("nc,nc->n", state.posterior, self._dispersion_scores(state)[0])[:, None])
        if self.data.hides_covariates:
            free = self.covariates.free(state.theta.gamma)
            parts.append(self.covariates.scores(np.exp(state.prior), free, self.gathered(state.posterior)))
        return np.concatenate(parts, axis=1)

    def regression_scores(self, forces: Float) -> Float:
        """Σ_c force_c x_c of every record, (n, d)."""
        return np.einsum("nm,nmd->nd", self.gathered(forces), self.data.design)

    def score_and_information(self, state: State) -> tuple[Float, Float]:
        """Score (q,) and observed information (q, q), by Louis (1982): complete minus missing information.

        The missing part is the posterior covariance of the complete-data scores. Those of β are multiples of x_m and those
        of γ indicators of the combination m, so that sums over nodes by combination are enough.
        """
        scores, d = self.scores(state), len(state.theta.beta)
        share, force = state.posterior * self.weights[:, None], self.force(state)
        own = d + int(self.data.density.dispersed)
        seen = scores[:, :own]
        out = np.zeros((scores.shape[1], scores.shape[1]))
        out[:own, :own] = (seen * self.weights[:, None]).T @ seen
        out[:d, :d] -= self.curvature(share * (self.bend(state) + force**2))
        if self.data.density.derivatives is not None:
            first, second = self._dispersion_scores(state)
            out[d, d] -= float(np.sum(share * (second + first**2)))
            out[:d, d] -= self.regression_scores(share * force * (first - 1)).sum(axis=0)
            out[d, :d] = out[:d, d]
        if self.data.hides_covariates:
            out[own:, own:], out[:own, own:] = self._covariate_information(state, seen)
            out[own:, :own] = out[:own, own:].T
        return self.weights @ scores, out

    def _covariate_information(self, state: State, seen: Float) -> tuple[Float, Float]:
        """The blocks of γ with itself, and of (β, φ) with γ, for their observed-data scores `seen` (n, ·)."""
        gamma, after = state.theta.gamma, self.gathered(state.posterior)
        free = self.covariates.free(gamma)
        before = np.exp(state.prior)
        square = [self.covariates.information(share, free, self.weights) for share in (before, after)]
        forces = self.gathered(state.posterior * self.force(state))
        joint = [forces * self.data.design[:, :, j] for j in range(self.data.design.shape[2])]
        if self.data.density.derivatives is not None:
            joint.append(self.gathered(state.posterior * self._dispersion_scores(state)[0]))
        spreads = (part - after * mean[:, None] for part, mean in zip(joint, seen.T, strict=True))
        cross = [self.covariates.gradient(spread * self.weights[:, None], free) for spread in spreads]
        return square[0] - square[1], -np.stack(cross)

    def complete_information(self, state: State) -> Float:
        """Information (q, q) that the records would have were nothing hidden, that of the coefficients expected given the covariates.

        It is positive definite wherever the model is identified, and score over it an ascent direction: a step of EM (Lange 1995).
        """
        d = len(state.theta.beta)
        own = d + int(self.data.density.dispersed)
        share = state.posterior * self.weights[:, None]
        out = np.zeros((self.size(state.theta),) * 2)
        out[:d, :d] = -self.curvature(np.broadcast_to(share * self.expected_bend(state), share.shape))
        if self.data.density.derivatives is not None:
            out[d, d] = abs(float(np.sum(share * self._dispersion_scores(state)[1])))
        if self.data.hides_covariates:
            free = self.covariates.free(state.theta.gamma)
            out[own:, own:] = self.covariates.information(np.exp(state.prior), free, self.weights)
        return out

    def _dispersion_scores(self, state: State) -> tuple[Float, Float]:
        """First and second derivative of log f in log φ at every node, (n, C)."""
        data = self.data
        assert data.density.derivatives is not None
        return data.density.derivatives(data.responses, data.at_nodes(state.curve[0]), state.theta.dispersion)

    def curvature(self, bends: Float) -> Float:
        """Σ bend x xᵀ (d, d) for bends at every node (n, C)."""
        d = self.data.design.shape[2]
        flat = self.data.design.reshape(-1, d)
        return np.asarray((flat * self.gathered(bends).reshape(-1, 1)).T @ flat)

    def moved(self, theta: Theta, step: Float) -> Theta:
        """θ + step, for a step (q,) in the free parameters."""
        d = len(theta.beta)
        last = d + int(self.data.density.dispersed)
        gamma = theta.gamma
        if self.data.hides_covariates:
            gamma = gamma.copy()
            gamma[self.covariates.free(theta.gamma)] += step[last:]
        return Theta(theta.beta + step[:d], theta.log_dispersion + float(np.sum(step[d:last])), gamma)
