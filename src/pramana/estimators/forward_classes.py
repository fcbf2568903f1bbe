"""The forward correction of a classifier with several classes: −log Σ_k P[y*, k] p_k(x)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float
from pramana.errors import MechanismError
from pramana.estimating import Records
from pramana.estimating.equation import OneByOne
from pramana.formulas.multinomial import MultinomialFunction
from pramana.frames import Table
from pramana.mechanism import Mechanism


@dataclass(frozen=True)
class ForwardClasses(OneByOne):
    """U = (r(y*, x) − p(x)) ⊗ x, r the probabilities of the classes after the released one was seen.

    Attributes
    ----------
    design : (n, q).
    channel : Pr(released class | class), (n, K); the first class is the reference.
    """

    parameters: tuple[str, ...]
    design: Float
    channel: Float
    records: Records
    smooth: bool = True

    @property
    def n(self) -> int:
        return len(self.design)

    @property
    def start(self) -> Float:
        return np.zeros(len(self.parameters))

    def _probabilities(self, beta: Float) -> tuple[Float, Float]:
        """p and r of the classes after the first, (n, K − 1)."""
        eta = self.design @ beta.reshape(self.channel.shape[1] - 1, -1).T
        eta = np.column_stack([np.zeros(self.n), eta])
        with np.errstate(all="ignore"):
            grown = np.exp(eta - eta.max(axis=1, keepdims=True))
            before = grown / grown.sum(axis=1, keepdims=True)
            joint = self.channel * before
            after = joint / joint.sum(axis=1, keepdims=True)
        return before[:, 1:], after[:, 1:]

    def influence(self, beta: Float) -> Float:
        before, after = self._probabilities(beta)
        return np.asarray(((after - before)[:, :, None] * self.design[:, None, :]).reshape(self.n, -1))

    def _slope(self, beta: Float, weights: Float) -> Float:
        """Σ w {(diag r − r rᵀ) − (diag p − p pᵀ)} ⊗ x xᵀ."""
        before, after = self._probabilities(beta)
        size, q = before.shape[1], self.design.shape[1]
        out = np.empty((size, q, size, q))
        for j in range(size):
            for k in range(j, size):
                own = after[:, j] - before[:, j] if j == k else 0.0
                bend = weights * (own - after[:, j] * after[:, k] + before[:, j] * before[:, k])
                out[j, :, k] = (self.design * bend[:, None]).T @ self.design
                out[k, :, j] = out[j, :, k].T
        return out.reshape(size * q, -1)

    def clean_outer(self, beta: Float, weights: Float) -> Float:
        """Nothing is reverted, so the variance has one part."""
        phi = self.influence(beta)
        return (phi * weights[:, None]).T @ phi

    def record_slope(self, beta: Float, left: Float, right: Float) -> Float:
        before, after = self._probabilities(beta)
        a, b = (self.design @ v.reshape(before.shape[1], -1).T for v in (left, right))

        def spread(p: Float) -> Float:
            return np.asarray(np.sum(a * b * p, axis=1) - np.sum(a * p, axis=1) * np.sum(b * p, axis=1))

        return spread(after) - spread(before)

    def under(self, records: Records) -> ForwardClasses:  # noqa: ARG002 - there is no noise to continue in
        return self


def forward_classes(function: MultinomialFunction, mechanism: Mechanism | None, table: Table) -> ForwardClasses:
    """Bind to a table whose response alone is perturbed."""
    used = mechanism.used_by(function.variables) if mechanism is not None else []
    name = function.classes.column
    if len(used) != 1 or used[0].columns != (name,) or not hasattr(used[0].channel, "likelihood"):
        raise MechanismError(
            f"the forward correction is for noise in the response {name!r} alone: use method='reversion'"
        )
    columns = {v: table.column(v) for v in function.variables}
    channel = used[0].channel.likelihood(used[0].encoded(table), used[0].context(table))
    design = function.design({k: v for k, v in columns.items() if k != name}, table.n)
    return ForwardClasses(function.parameters, design, channel, Records.clean(table.n, columns))
