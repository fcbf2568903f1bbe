"""The likelihood of released records: Σ_c Pr(released | c) f(y_c | x_c; β, φ) g(c | w; γ), its score and information."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from pramana.arrays import Float
from pramana.estimators.covariate_model import CovariateModel
from pramana.estimators.hidden_data import HiddenData
from pramana.kernels.predictor import Moments

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
    curve : μ, μ′, a, a′ at every combination of covariates, (n, M).
    """

    theta: Theta
    value: float
    posterior: Float
    curve: Moments


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
            log = self.log_complete(theta, curve[0]) + self.data.log_channel
            largest = _largest(log)
            joint = np.exp(log - largest)
            total = np.einsum("nc->n", joint)[:, None]
            value = float(self.weights @ (largest + np.log(total))[:, 0])
            posterior = joint / total
        return State(theta, value if np.isfinite(value) else -np.inf, posterior, curve)

    def log_complete(self, theta: Theta, mu: Float) -> Float:
        """log f + log g at every node, (n, C), for means (n, M)."""
        data = self.data
        with np.errstate(all="ignore"):
            log: Float = data.density.log(data.responses, data.at_nodes(mu), theta.dispersion)
        if not data.hides_covariates:
            return log
        return np.asarray(log + data.at_nodes(self.covariates.log_density(theta.gamma)))

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

    def _moments(self, state: State) -> Moments:
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
        hit = self.data.place[:, None] == np.arange(len(self.data.combinations))
        return np.asarray(nodes @ hit)

    def node_scores(self, state: State) -> Float:
        """Complete-data scores, (n, C, q)."""
        data, theta = self.data, state.theta
        scores = [self.force(state)[:, :, None] * data.at_nodes(data.design)]
        if data.density.derivatives is not None:
            mu = data.at_nodes(state.curve[0])
            scores.append(data.density.derivatives(data.responses, mu, theta.dispersion)[0][:, :, None])
        if data.hides_covariates:
            free = self.covariates.free(theta.gamma)
            scores.append(data.at_nodes(self.covariates.scores(theta.gamma, free)))
        return np.concatenate(scores, axis=2) if len(scores) > 1 else scores[0]

    def means(self, beta: Float) -> Float:
        """At every node, (n, C) or (n, 1)."""
        return self.data.at_nodes(np.asarray(self.data.function.family.curve(self.predictor(beta))[0]))

    def scores(self, state: State) -> Float:
        """Observed-data scores, (n, q)."""
        parts = [
            np.einsum("nc,ncq->nq", there.posterior, part.node_scores(there)) for part, there in self.blocks(state)
        ]
        return np.concatenate(parts)

    def score_and_information(self, state: State) -> tuple[Float, Float]:
        """Score (q,) and observed information (q, q), by Louis (1982): complete minus missing information."""
        if not self.data.hides_covariates and not self.data.density.dispersed:
            return self._one_design(state)
        size = self.size(state.theta)
        score, missing = np.zeros(size), np.zeros((size, size))
        for part, there in self.blocks(state):
            nodes, share = part.node_scores(there), there.posterior
            mean = np.einsum("nc,ncq->nq", share, nodes)
            score += part.weights @ mean
            spread = ((nodes - mean[:, None]) * np.sqrt(share * part.weights[:, None])[:, :, None]).reshape(-1, size)
            missing += spread.T @ spread
        return score, self._complete_information(state, score) - missing

    def _one_design(self, state: State) -> tuple[Float, Float]:
        """The same where all nodes of a record share its x: scores are multiples of it, and so is their spread."""
        x, share, force = self.data.design[:, 0], state.posterior, self.force(state)
        mean = np.einsum("nc,nc->n", share, force)
        bend = np.einsum("nc,nc->n", share, self.bend(state) + force**2) - mean**2
        return (self.weights * mean) @ x, -(x * (self.weights * bend)[:, None]).T @ x

    def _complete_information(self, state: State, score: Float) -> Float:
        theta, d, size = state.theta, len(state.theta.beta), self.size(state.theta)
        share = state.posterior * self.weights[:, None]
        out = np.zeros((size, size))
        out[:d, :d] = -self.curvature(share * self.bend(state))
        last = d
        if self.data.density.derivatives is not None:
            mu = self.data.at_nodes(state.curve[0])
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

    def blocks(self, state: State) -> Iterator[tuple[ObservedLikelihood, State]]:
        """The records in blocks whose scores fit into memory."""
        step = max(1, BLOCK // (self.data.channel.shape[1] * self.size(state.theta)))
        if step >= self.data.n:
            yield self, state
            return
        for low in range(0, self.data.n, step):
            rows = slice(low, low + step)
            curve = tuple(c[rows] if isinstance(c, np.ndarray) else c for c in state.curve)
            yield self.rows(rows), State(state.theta, state.value, state.posterior[rows], curve)  # type: ignore[arg-type]

    def rows(self, rows: slice) -> ObservedLikelihood:
        """Some of the records."""
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


def _largest(values: Float) -> Float:
    """Row maxima (n, 1); NumPy's own reduction is slow along a short axis."""
    out = values[:, :1].copy()
    for column in range(1, values.shape[1]):
        np.maximum(out, values[:, column : column + 1], out=out)
    return out
