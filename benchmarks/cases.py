"""The work that is timed: data, and the same virtual rows for every rival."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import pramana as pr

Float = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A logistic estimating equation over records spread on nodes.

    Attributes
    ----------
    design : (n, C, d), weight : (n, C), response : (n,) reverted responses.
    frame, mechanism, formula : the same as the library's user has it.
    """

    name: str
    design: Float
    weight: Float
    response: Float
    released: Float
    frame: dict[str, npt.NDArray[np.generic]]
    mechanism: pr.Mechanism
    formula: str
    draws: int = 500

    @property
    def n(self) -> int:
        return len(self.weight)

    def phi(self, beta: Float) -> Float:
        """Influence (n, d)."""
        residual = self.weight * (self.response[:, None] - 1 / (1 + np.exp(-(self.design @ beta))))
        return np.einsum("nc,ncd->nd", residual, self.design)


def perturbed_response(n: int = 1000) -> Case:
    """Simulation A1 at p = 0.85: d = 2, the pseudo-response takes the place of y."""
    rng = np.random.default_rng(1)
    x = rng.normal(0.5, 1, n)
    y = (rng.random(n) < 1 / (1 + np.exp(1 - 1.5 * x))).astype(np.int64)
    released = np.where(rng.random(n) < 0.85, y, 1 - y)
    design = np.stack([np.ones(n), x], axis=1)[:, None, :]
    mechanism = pr.Mechanism({"y": pr.TransitionMatrix.binary(0.85, 0.85)})
    pseudo = (released - 0.15) / 0.7
    return Case(
        "perturbed response",
        design,
        np.ones((n, 1)),
        pseudo,
        released.astype(float),
        {"x": x, "y": released},
        mechanism,
        "y ~ x",
    )


def perturbed_covariate(n: int = 1000) -> Case:
    """Logistic regression on a three-level perturbed covariate and a clean one: d = 4, three virtual rows a record."""
    rng = np.random.default_rng(2)
    levels = ("low", "mid", "high")
    true = rng.integers(0, 3, n)
    x = rng.normal(size=n)
    y = (rng.random(n) < 1 / (1 + np.exp(-(-0.5 + 0.7 * x + 0.6 * (true == 1) + 1.2 * (true == 2))))).astype(np.int64)
    P = pr.TransitionMatrix.randomized_response(levels, keep=0.85)
    moved = np.where(rng.random(n) < 0.85, true, (true + rng.integers(1, 3, n)) % 3)
    nodes = [np.column_stack([np.ones(n), x, np.full(n, k == 1), np.full(n, k == 2)]) for k in range(3)]
    design = np.stack(nodes, axis=1).astype(float)
    frame = {"x": x, "y": y, "edu": np.array(levels, dtype=object)[moved]}
    weight = P.inverse.T[moved]
    return Case(
        "perturbed covariate",
        design,
        weight,
        y.astype(float),
        y.astype(float),
        frame,
        pr.Mechanism({"edu": P}),
        "y ~ x + edu",
    )
