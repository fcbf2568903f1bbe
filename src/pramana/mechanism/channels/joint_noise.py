"""Normal noise that several columns share: released = true + V with a covariance matrix Σ.

Σ = L D Lᵀ with ones on the diagonal of L: V = L e with independent e_k of variance D_k. Each e_k is drawn in whole steps h_k of
about √D_k/4096, and what the others add to a column is rounded to its grid. So nothing but whole numbers is released, and
moments are right to 5e-9, as they are of normal noise in one column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from pramana.arrays import Column, Columns, Float, Int
from pramana.errors import MechanismError
from pramana.kernels.additive import Displacement, Gaussian, moment_nodes
from pramana.mechanism.channel import Channel, Document, Nodes
from pramana.mechanism.channels.additive_noise import NumberNoise, numbers_in, shared_nodes, steps_of, undone_elsewhere
from pramana.mechanism.channels.noise import FINE, GaussianNoise, checked_bounds, checked_positive, power_of_two
from pramana.mechanism.draws.integer_noise import draw_integers
from pramana.mechanism.draws.keystream import Keystream

MOST = 16
"""Columns that one noise may cover: the privacy loss is the largest over 2^columns corners."""
LEAST_OWN = 1e-6
"""Least share of a column's variance that the other columns' noise leaves it; below that the noise vanishes in some direction."""
NODES = 3_000
"""Most combinations of values that may stand for one record."""


@dataclass(frozen=True, init=False)
class JointGaussianNoise(NumberNoise):
    """Normal noise with a covariance matrix, added to several columns at once; assigned to a tuple of their names.

    Undone as normal noise in one column is: exactly in polynomials, and in terms that are linear in the columns with a log link or a logit,
    where √(bᵀΣb) takes the place of |b| sd.

    Parameters
    ----------
    covariance : Σ (q, q), in the order of the columns.
    bounds : (lowest, highest) for each column: true values are clamped to them first. Epsilon is infinite; ρ is the largest
        ½ΔᵀΣ⁻¹Δ over differences within the bounds, see `rho`.

    >>> noise = JointGaussianNoise([[4.0, 1.0], [1.0, 1.0]], bounds=[(0, 2), (0, 1)])
    >>> noise.sds.round(3).tolist(), round(noise.rho, 2)
    ([2.0, 1.0], 2.0)
    """

    covariance: tuple[tuple[float, ...], ...]
    bounds: tuple[tuple[float, float], ...] | None

    def __init__(self, covariance: npt.ArrayLike, bounds: Sequence[Sequence[float]] | None = None) -> None:
        matrix = _checked(covariance)
        object.__setattr__(self, "covariance", tuple(map(tuple, matrix.tolist())))
        object.__setattr__(self, "bounds", _checked_pairs(bounds, len(matrix)))

    @property
    def dimension(self) -> int:
        return len(self.covariance)

    @property
    def sds(self) -> Float:
        """Standard deviations (q,) of the columns' noise."""
        return np.sqrt(np.diag(np.array(self.covariance)))

    @cached_property
    def factors(self) -> tuple[Float, Float]:
        """L (q, q), with ones on its diagonal, and √D (q,)."""
        lower = np.linalg.cholesky(np.array(self.covariance))
        own = np.diag(lower)
        return np.tril(lower / own), own

    @cached_property
    def grids(self) -> Float:
        """Steps (q,) on which the columns are released."""
        return np.array([power_of_two(own / FINE) for own in self.factors[1]])

    @property
    def rho(self) -> float:
        """Largest ½ΔᵀΣ⁻¹Δ = ½ Σ (L⁻¹Δ)²_k / D_k over corners of the bounds. What rounds a column's share of the others' noise can move
        its own noise by another step, which is counted: it adds less than a thousandth where the loss is about 1."""
        if self.bounds is None:
            return np.inf
        lower, own = self.factors
        spans = np.array([high - low for low, high in self.bounds])
        corners = np.array(list(product(*([span, -span] for span in spans))))[: 2 ** (self.dimension - 1)]
        moved = np.abs(np.linalg.solve(lower, corners.T).T) + self._rounded
        return float((moved**2 / (2 * own**2)).sum(axis=1).max())

    @property
    def _rounded(self) -> Float:
        """How far (q,) rounding can move the noise that stands for the difference of two true values."""
        lower, _ = self.factors
        out = np.zeros(self.dimension)
        for j in range(1, self.dimension):
            beside = np.abs(lower[j, :j])
            out[j] = self.grids[j] * bool(np.any(beside)) + beside @ out[:j]
        return out

    def margin(self, places: Sequence[int]) -> Channel:
        """The noise of some of the columns."""
        matrix = np.array(self.covariance)[np.ix_(places, places)]
        bounds = None if self.bounds is None else [self.bounds[k] for k in places]
        if len(places) == 1:
            grid = float(self.grids[places[0]])
            return MarginalNoise(float(np.sqrt(matrix[0, 0])), None if bounds is None else bounds[0], grid)
        return JointGaussianNoise(matrix, bounds)

    def given_others(self, place: int) -> GaussianNoise:
        """What is left of a column's noise to those who know the noise of the others: their true values, or a strong correlation."""
        return GaussianNoise(float(np.linalg.inv(np.array(self.covariance))[place, place] ** -0.5))

    @property
    def parts_drawn(self) -> list[GaussianNoise]:
        """The independent noises e, of which V is made: the first column's own, then what each next one has beside the earlier ones."""
        return [GaussianNoise(float(own)) for own in self.factors[1]]

    @property
    def law(self) -> str:
        """The noise in words, for those who read about a release."""
        spreads = ", ".join(f"{sd:g}" for sd in self.sds)
        return f"normal noise that the columns share, of standard deviations {spreads} and the correlations {self._correlations}"

    @property
    def _correlations(self) -> str:
        matrix = np.array(self.covariance) / np.outer(self.sds, self.sds)
        return ", ".join(f"{value:.3g}" for value in matrix[np.triu_indices(self.dimension, 1)])

    def whitened(self, values: Float) -> Float:
        """Numbers (n, q) in coordinates in which the noise is standard normal."""
        lower, own = self.factors
        return np.asarray(np.linalg.solve(lower, values.T).T / own)

    def encode(self, columns: Sequence[Column], names: Sequence[str]) -> Float:
        return np.column_stack([numbers_in(column, name) for column, name in zip(columns, names, strict=True)])

    def true_steps(self, encoded: Column) -> Int:
        """True values (n, q) clamped, and rounded to whole steps of the columns' grids."""
        bounds = self.bounds or (None,) * self.dimension
        return np.column_stack([steps_of(v, b, h) for v, b, h in zip(encoded.T, bounds, self.grids, strict=True)])

    def secrets(self, encoded: Column) -> Int:
        """One number for each record's true values, which differ where one of them does, but for one chance in 2⁶⁴."""
        with np.errstate(over="ignore"):
            return reduce(
                lambda seen, own: seen * np.int64(0x9E3779B97F4A7C15 - (1 << 64)) + own, self.true_steps(encoded).T
            )

    def released_steps(self, encoded: Column) -> Int:
        """Released values (n, q) in whole steps of the columns' grids, the nearest where they lie off them."""
        return np.rint(encoded / self.grids).astype(np.int64)

    def drawn_steps(self, moved: Int) -> Int:
        """The independent noises (n, q) in steps, from how far in steps the columns moved (n, q): what `perturb` drew, to the last one."""
        drawn = np.zeros_like(moved)
        for j in range(self.dimension):
            drawn[:, j] = moved[:, j] - self._beside(drawn, j)
        return drawn

    def _beside(self, drawn: Int, j: int) -> Int:
        """What the noises of the columns before j, drawn in steps (n, q), add to column j (n,) in its own steps."""
        lower, _ = self.factors
        return np.rint((drawn[:, :j] * self.grids[:j]) @ lower[j, :j] / self.grids[j]).astype(np.int64)

    def perturb(self, encoded: Column, context: Columns, stream: Keystream) -> Column:  # noqa: ARG002
        steps = self.true_steps(encoded)
        drawn = np.zeros_like(steps)
        for j, part in enumerate(self.parts_drawn):
            drawn[:, j] = draw_integers(part.cuts, len(encoded), stream)
            steps[:, j] += drawn[:, j] + self._beside(drawn, j)
        return steps * self.grids

    def check_released(self, encoded: Column, context: Columns) -> None:
        for place, values in enumerate(np.asarray(encoded).T):
            self.margin([place]).check_released(values, context)

    def revert(self, encoded: Column, context: Columns) -> Nodes:  # noqa: ARG002
        raise undone_elsewhere(self, Gaussian(1.0))

    def revert_polynomial(self, encoded: Column, context: Columns, degree: int) -> Nodes:
        """Up to a degree of all columns together: V is undone as its independent parts e are."""
        self.check_released(encoded, context)
        lower, own = self.factors
        parts = [moment_nodes(Gaussian(sd), degree) for sd in own]
        count = int(np.prod([len(offsets) for offsets, _ in parts]))
        if count > NODES:
            raise MechanismError(
                f"{count} combinations of values stand for one record of {self.dimension} columns with joint noise in terms of degree {degree // 2}, "
                f"above the limit of {NODES}: leave out the higher powers and the interactions of these columns"
            )
        moves = np.array(list(product(*(offsets for offsets, _ in parts)))) @ lower.T
        weights = reduce(np.multiply.outer, (weights[0] for _, weights in parts)).ravel()
        return shared_nodes(tuple(tuple((encoded + move).T) for move in moves), weights[None], len(encoded))

    def noise(self, context: Columns) -> Displacement:  # noqa: ARG002
        lower, own = self.factors
        return Displacement(tuple(Gaussian(float(sd)) for sd in own), lower)

    def document(self) -> Document:
        bounds = {} if self.bounds is None else {"bounds": [list(pair) for pair in self.bounds]}
        return {"channel": "joint_gaussian_noise", "covariance": [list(row) for row in self.covariance], **bounds}


@dataclass(frozen=True)
class MarginalNoise(GaussianNoise):
    """What a joint noise is to one of its columns. It lies on the grid of their draw, which is finer than its own where the columns' noise is
    strongly correlated."""

    drawn_on: float = 0.0

    @property
    def title(self) -> str:
        return JointGaussianNoise.__name__

    @property
    def whole(self) -> bool:
        return False


def _checked(covariance: Any) -> Float:
    try:
        matrix = np.array(covariance, dtype=float)
    except (TypeError, ValueError):
        raise MechanismError("the covariance must be a square table of numbers, one row a column of the data") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not 2 <= len(matrix) <= MOST:
        raise MechanismError(
            f"the covariance has shape {matrix.shape}: give a square matrix of 2 to {MOST} columns, or GaussianNoise(sd) for one"
        )
    if not np.all(np.isfinite(matrix)) or not np.allclose(matrix, matrix.T, rtol=1e-9, atol=0):
        raise MechanismError("the covariance must be finite, and the same above its diagonal as below")
    matrix = matrix / 2 + matrix.T / 2
    sds = [checked_positive("variance", variance) ** 0.5 for variance in np.diag(matrix).tolist()]
    correlation = matrix / np.outer(sds, sds)
    least = float(np.linalg.eigvalsh(correlation)[0])
    if least < LEAST_OWN:
        raise MechanismError(
            f"the covariance is no proper one, or nearly singular: the smallest eigenvalue of its correlations is {least:.3g}, and at least "
            f"{LEAST_OWN:g} is needed for noise in every direction; weaken the correlations"
        )
    return matrix


def _checked_pairs(bounds: Any, size: int) -> tuple[tuple[float, float], ...] | None:
    if bounds is None:
        return None
    pairs = list(np.asarray(bounds).tolist() if isinstance(bounds, np.ndarray) else bounds) if np.ndim(bounds) else []
    if len(pairs) != size:
        raise MechanismError(f"bounds={bounds!r} must hold two numbers for each of the {size} columns")
    found = [checked_bounds(pair) for pair in pairs]
    if any(pair is None for pair in found):
        raise MechanismError(f"bounds={bounds!r} must hold two numbers for each of the {size} columns")
    return tuple(pair for pair in found if pair is not None)
