"""The likelihood of released records: Σ_c Pr(released | c) f(y_c | x_c; β, φ) g(c | w; γ), its score and information."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from pramana.arrays import Float
from pramana.estimators.covariate_model import CovariateModel
from pramana.estimators.hidden_data import HiddenData

BLOCK = 4_000_000
"""Entries of per-node scores that are held at once."""


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
    log_likelihoods : log L, (n,).
    """

    theta: Theta
    value: float
    posterior: Float
    log_likelihoods: Float


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
        data = self.data
        with np.errstate(all="ignore"):
            log = self.log_complete(theta) + np.log(data.channel)
            largest = log.max(axis=1, keepdims=True)
            joint = np.exp(log - largest)
            total = joint.sum(axis=1, keepdims=True)
            each = (largest + np.log(total))[:, 0]
            value = float(self.weights @ each)
            posterior = joint / total
        return State(theta, value if np.isfinite(value) else -np.inf, posterior, each)

    def log_complete(self, theta: Theta) -> Float:
        """log f + log g at every node, (n, C)."""
        data = self.data
        with np.errstate(all="ignore"):
            mu = np.asarray(data.function.family.curve(self.predictor(theta.beta))[0])[:, data.place]
            log: Float = data.density.log(data.responses, mu, theta.dispersion)
        if not data.hides_covariates:
            return log
        return np.asarray(log + self.covariates.log_density(theta.gamma)[:, data.place])

    def forces(self, theta: Theta) -> tuple[Float, Float, Float]:
        """At every node (n, C): a(y − μ)/φ, its derivative in η, and the expected one."""
        with np.errstate(all="ignore"):
            moments = self.data.function.family.curve(self.predictor(theta.beta))
            mu, dmu, a, da = (np.broadcast_to(m, moments[0].shape)[:, self.data.place] for m in moments)
            residual = self.data.responses - mu
            return (
                np.asarray(a * residual / theta.dispersion),
                np.asarray((da * residual - a * dmu) / theta.dispersion),
                np.asarray(-a * dmu / theta.dispersion),
            )

    def gathered(self, nodes: Float) -> Float:
        """Sums (n, M) of node values (n, C) over the nodes that share their covariates."""
        if len(self.data.combinations) == 1:
            return nodes.sum(axis=1, keepdims=True)
        hit = self.data.place[:, None] == np.arange(len(self.data.combinations))
        return np.asarray(nodes @ hit)

    def node_scores(self, theta: Theta, rows: slice) -> Float:
        """Complete-data scores of some records, (rows, C, q)."""
        part = self.rows(rows)
        data = part.data
        force, _, _ = part.forces(theta)
        scores = [force[:, :, None] * data.design[:, data.place]]
        if data.density.derivatives is not None:
            mu = part.means(theta.beta)[:, data.place]
            scores.append(data.density.derivatives(data.responses, mu, theta.dispersion)[0][:, :, None])
        if data.hides_covariates:
            free = self.covariates.free(theta.gamma)
            scores.append(part.covariates.scores(theta.gamma, free)[:, data.place])
        return np.concatenate(scores, axis=2)

    def means(self, beta: Float) -> Float:
        return np.asarray(self.data.function.family.curve(self.predictor(beta))[0])

    def scores(self, state: State) -> Float:
        """Observed-data scores, (n, q)."""
        out = [
            np.einsum("nc,ncq->nq", state.posterior[rows], self.node_scores(state.theta, rows))
            for rows in self.blocks(state.theta)
        ]
        return np.concatenate(out)

    def score_and_information(self, state: State) -> tuple[Float, Float]:
        """Score (q,) and observed information (q, q), by Louis (1982): complete minus missing information."""
        size = self.size(state.theta)
        score, missing = np.zeros(size), np.zeros((size, size))
        for rows in self.blocks(state.theta):
            nodes, share = self.node_scores(state.theta, rows), state.posterior[rows]
            weight = self.weights[rows]
            mean = np.einsum("nc,ncq->nq", share, nodes)
            score += weight @ mean
            spread = ((nodes - mean[:, None]) * np.sqrt(share * weight[:, None])[:, :, None]).reshape(-1, size)
            missing += spread.T @ spread
        return score, self._complete_information(state, score) - missing

    def _complete_information(self, state: State, score: Float) -> Float:
        theta, d, size = state.theta, len(state.theta.beta), self.size(state.theta)
        share = state.posterior * self.weights[:, None]
        out = np.zeros((size, size))
        out[:d, :d] = -self.curvature(share * self.forces(theta)[1])
        last = d
        if self.data.density.derivatives is not None:
            mu = self.means(theta.beta)[:, self.data.place]
            second = self.data.density.derivatives(self.data.responses, mu, theta.dispersion)[1]
            out[d, d] = -float(np.sum(share * second))
            out[:d, d] = out[d, :d] = score[:d]
            last += 1
        if self.data.hides_covariates:
            out[last:, last:] = self.covariates.information(
                theta.gamma, self.covariates.free(theta.gamma), self.weights
            )
        return out

    def curvature(self, bends: Float) -> Float:
        """Σ bend x xᵀ (d, d) for bends at every node (n, C)."""
        d = self.data.design.shape[2]
        flat = self.data.design.reshape(-1, d)
        return np.asarray((flat * self.gathered(bends).reshape(-1, 1)).T @ flat)

    def blocks(self, theta: Theta) -> Iterator[slice]:
        step = max(1, BLOCK // (self.data.channel.shape[1] * self.size(theta)))
        for low in range(0, self.data.n, step):
            yield slice(low, min(low + step, self.data.n))

    def rows(self, rows: slice) -> ObservedLikelihood:
        """Some of the records."""
        if rows.start == 0 and rows.stop >= self.data.n:
            return self
        offset = None if self.data.offset is None else self.data.offset[rows]
        data = replace(
            self.data,
            design=self.data.design[rows],
            offset=offset,
            responses=self.data.responses[rows],
            channel=self.data.channel[rows],
        )
        covariates = replace(self.covariates, design=self.covariates.design[rows])
        return ObservedLikelihood(data, covariates, self.weights[rows])

    def moved(self, theta: Theta, step: Float) -> Theta:
        """θ + step, for a step (q,) in the free parameters."""
        d = len(theta.beta)
        last = d + int(self.data.density.dispersed)
        gamma = theta.gamma
        if self.data.hides_covariates:
            gamma = gamma.copy()
            gamma[self.covariates.free(theta.gamma)] += step[last:]
        return Theta(theta.beta + step[:d], theta.log_dispersion + float(np.sum(step[d:last])), gamma)
