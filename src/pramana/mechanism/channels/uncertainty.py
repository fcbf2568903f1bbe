"""A transition matrix that was measured: validation counts and published accuracies, and how uncertain they leave P."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pramana.arrays import Float
from pramana.errors import MechanismError, listing, quoted
from pramana.frames import Level, checked_levels
from pramana.frames.levels import is_number

SINGULAR = 2.0
"""Standard errors from singular below which a measured matrix is refused: 95 % intervals would reach to infinity."""
NEARLY_SINGULAR = 4.0
"""The same below which a fit warns: a quotient by so uncertain a number is not normal."""

Accuracy: TypeAlias = "float | tuple[float, int] | tuple[float, tuple[float, float]]"
"""A probability: known, or estimated from so many people, or with its confidence interval."""


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """How well each column of P is known: as well as so many people of that true level would tell.

    The columns are independent, and that of true level j has `Cov(P̂_j) = (diag P_j − P_j P_jᵀ) / sizes[j]`.

    Attributes
    ----------
    sizes : (K,), people by true level; not whole under a prior or from an interval, infinite where a column is known.
    validated : people who were validated, by true level, or None where only a published accuracy is known.
    internal : they are among the records that are analysed, so that the errors of P̂ and of these records' noise are the same.

    >>> P = np.array([[0.8, 0.1], [0.2, 0.9]])
    >>> Uncertainty(np.array([100.0, 400.0])).covariances(P)[0].round(4)
    array([[ 0.0016, -0.0016],
           [-0.0016,  0.0016]])
    """

    sizes: Float
    validated: tuple[int, ...] | None = None
    internal: bool = False

    def covariances(self, matrix: Float) -> Float:
        """Of every column of P, as (column, K, K)."""
        return self._spread(matrix) / self.sizes[:, None, None]

    def added(self, matrix: Float, among: Float) -> Float:
        """The same with twice the covariance of P̂ and the noise of the records, of which `among` (K,) are of each true level.

        A validated record's noise moves the score by φ − E φ, which is −G/among on average over the records of its level, and
        P̂ by 1/sizes: the sum of the three variances is G_j Σ_j G_jᵀ (1/sizes − 2/among) beside that of the score itself.
        """
        overlap = np.maximum(among, self.sizes) if self.internal else np.full(len(matrix), np.inf)
        return self._spread(matrix) * (1 / self.sizes - 2 / overlap)[:, None, None]

    @staticmethod
    def _spread(matrix: Float) -> Float:
        """diag P_j − P_j P_jᵀ for every column."""
        diagonal = np.eye(len(matrix)) * matrix.T[:, None, :]
        return np.asarray(diagonal - matrix.T[:, :, None] * matrix.T[:, None, :])

    def drawn(self, matrix: Float, count: int, stream: np.random.Generator) -> Float:
        """Draws of P (count, K, K): every column from the Dirichlet distribution with this mean and covariance."""
        mass = np.where(np.isfinite(self.sizes), np.maximum(self.sizes - 1, 0.5), 1.0) * matrix
        parts = stream.standard_gamma(mass, (count, *matrix.shape))
        return np.where(np.isfinite(self.sizes), parts / parts.sum(axis=1, keepdims=True), matrix)

    def distance(self, matrix: Float) -> tuple[float, float]:
        """The smallest singular value of P and its standard error, by the derivative uᵀ ∂P v."""
        left, values, right = np.linalg.svd(matrix)
        u, v = left[:, -1], right[-1]
        variance = float(v**2 @ np.einsum("i,jik,k->j", u, self.covariances(matrix), u))
        return float(values[-1]), float(np.sqrt(max(variance, 0.0)))

    def document(self) -> dict[str, Any]:
        """In JSON types, where an infinite size is null."""
        sizes = [float(size) if np.isfinite(size) else None for size in self.sizes]
        people = {} if self.validated is None else {"validated": list(self.validated)}
        return {"sizes": sizes, **people, **({"internal": True} if self.internal else {})}

    @classmethod
    def from_document(cls, document: Mapping[str, Any], levels: int) -> Uncertainty:
        """Rebuild from `document()`."""
        sizes, people = document["sizes"], document.get("validated")
        for name, numbers in (("sizes", sizes), ("validated", people)):
            if numbers is not None and len(numbers) != levels:
                raise MechanismError(f"{name} has {len(numbers)} numbers for {levels} levels: give one a true level")
        known = np.array([np.inf if size is None else size for size in sizes])
        return cls(known, None if people is None else tuple(people), bool(document.get("internal")))

    @property
    def told(self) -> str:
        """From how many people, in words."""
        if self.validated is not None:
            whom = " of these records" if self.internal else ""
            return f"validated on {sum(self.validated)}{whom} ({', '.join(map(str, self.validated))} by true level)"
        worth = ", ".join("∞" if np.isinf(size) else f"{size:.0f}" for size in self.sizes)
        return f"published, as known as from {worth} people by true level"


def refuse_singular(matrix: Float, uncertainty: Uncertainty) -> None:
    """Nothing can be divided by what may be zero."""
    value, error = uncertainty.distance(matrix)
    if value < SINGULAR * error:
        raise MechanismError(
            f"the measured transition matrix may be singular: its smallest singular value is {value:.3g} ± {error:.2g}, {value / error:.1f} "
            f"standard errors from zero (the limit is {SINGULAR:g}), so that it cannot be undone: validate more people, or merge levels"
        )


def refuse_chosen_by(chosen_by: str) -> None:
    """Who was validated must not depend on the released level, for P is by true level."""
    if chosen_by == "neither":
        return
    if chosen_by != "released":
        raise MechanismError(f"chosen_by={chosen_by!r} is unknown: it is 'true', 'neither' or 'released'")
    raise MechanismError(
        "people were chosen for validation by their released level, so that the counts show Pr(true | released), which holds in no "
        "other population and is no transition matrix: weight each row by the people of that released level over those of them who were "
        "validated, and give Pr(released | true) with from_columns, whose uncertainty is then not counted; or choose people by their true level, or everybody alike"
    )


def validated(
    levels: tuple[Level, ...], counts: Float, prior: float | npt.ArrayLike | None
) -> tuple[Float, Uncertainty]:
    """P and its uncertainty from counts (released, true), with a Dirichlet prior on every column.

    Without a prior the columns are proportions. One with an empty cell gets half a count in each cell (Jeffreys' prior): the
    proportion 0 would be taken as certain.
    """
    counts = _checked_counts(counts, levels)
    added = _jeffreys(counts) if prior is None else _checked_prior(prior, len(levels))
    mass = counts + added
    total = mass.sum(axis=0)
    # A Dirichlet's variance has its mass plus one for a size; proportions have their number.
    sizes = np.where(added.any(axis=0), total + 1, total)
    return mass / total, Uncertainty(sizes, tuple(int(n) for n in counts.sum(axis=0)))


def _jeffreys(counts: Float) -> Float:
    return np.broadcast_to(np.where((counts == 0).any(axis=0), 0.5, 0.0), counts.shape)


def _checked_prior(prior: float | npt.ArrayLike, size: int) -> Float:
    try:
        added = np.broadcast_to(np.asarray(prior, dtype=float), (size, size))
    except (TypeError, ValueError):
        added = np.full((size, size), np.nan)
    if not (np.all(np.isfinite(added)) and np.all(added >= 0)):
        raise MechanismError(
            f"prior={prior!r} must be a number of at least 0 that is added to every count, or one for every cell ({size} × {size})"
        )
    return added


def _checked_counts(counts: Float, levels: tuple[Level, ...]) -> Float:
    if counts.shape != (len(levels), len(levels)):
        raise MechanismError(
            f"the validation counts have shape {counts.shape} but there are {len(levels)} levels: give {len(levels)} × {len(levels)}, a row for "
            "each released and a column for each true level"
        )
    if not np.all(np.isfinite(counts)) or counts.min() < 0 or np.any(counts != np.round(counts)):
        i, j = np.argwhere(~(np.isfinite(counts) & (counts >= 0) & (counts == np.round(counts))))[0]
        raise MechanismError(
            f"the validation count of true level {quoted(repr(levels[j]))} released as {quoted(repr(levels[i]))} is {counts[i, j]:g}: give whole "
            "numbers of people, not shares"
        )
    empty = [level for level, total in zip(levels, counts.sum(axis=0), strict=True) if total == 0]
    if empty:
        raise MechanismError(
            f"nobody of true level {quoted(listing(empty))} was validated, so that nothing is known of how they are released: validate some, "
            "or merge the level with another"
        )
    return counts


def validation_table(counts: object, levels: Sequence[Level] | None) -> tuple[tuple[Level, ...], Float]:
    """Levels and counts (released, true) from an array, a pandas cross table, or a dictionary by true and released level."""
    import pandas as pd

    if isinstance(counts, pd.DataFrame):
        return _from_frame(counts, levels)
    if isinstance(counts, Mapping):
        return _from_mapping(counts, levels)
    try:
        array = np.asarray(counts, dtype=float)
    except (TypeError, ValueError):
        raise MechanismError(
            "the validation counts must be a table of numbers: a row for each released and a column for each true level"
        ) from None
    if levels is None and array.shape != (2, 2):
        raise MechanismError(
            f"counts of shape {array.shape} without levels: give levels=, in the order of the table's rows and columns"
        )
    return checked_levels((0, 1) if levels is None else levels), array


def _from_frame(frame: Any, levels: Sequence[Level] | None) -> tuple[tuple[Level, ...], Float]:
    """A cross table, as `pandas.crosstab(released, true)` makes it."""
    rows, columns = (
        [v.item() if isinstance(v, np.generic) else v for v in side] for side in (frame.index, frame.columns)
    )
    known = checked_levels(columns if levels is None else levels)
    for side, names in (("rows", rows), ("columns", columns)):
        strange, absent = [v for v in names if v not in known], [v for v in known if v not in names]
        if strange or (absent and side == "columns"):
            raise MechanismError(
                f"the {side} of the validation table are {quoted(listing(names, 10))}, not the levels {quoted(listing(known, 10))}: rows are released and "
                "columns true levels, without totals"
            )
    table = frame.set_axis(rows, axis=0).set_axis(columns, axis=1).reindex(index=list(known), columns=list(known))
    try:
        # A released level that never occurred has no row.
        return known, np.asarray(table.fillna(0).to_numpy(), dtype=float)
    except (TypeError, ValueError):
        raise MechanismError("the validation table holds something else than numbers: give counts of people") from None


def _from_mapping(counts: Mapping[Any, Any], levels: Sequence[Level] | None) -> tuple[tuple[Level, ...], Float]:
    import pandas as pd

    if not all(isinstance(column, Mapping) for column in counts.values()):
        raise MechanismError(
            "validation counts as a dictionary have one for each true level: {'no': {'no': 71, 'yes': 18}, 'yes': {'no': 38, 'yes': 204}}"
        )
    known = list(counts) if levels is None else list(levels)
    released = list(dict.fromkeys([*known, *(level for column in counts.values() for level in column)]))
    frame = pd.DataFrame({true: [column.get(level, 0) for level in released] for true, column in counts.items()})
    return _from_frame(frame.set_axis(released, axis=0), known)


def two_by_two(sensitivity: object, specificity: object) -> Float:
    """Counts (released, true) from how many of how many were released right, by true level 1 and 0."""
    columns = []
    for name, pair in (("specificity", specificity), ("sensitivity", sensitivity)):
        if not (
            isinstance(pair, Sequence)
            and len(pair) == 2
            and all(is_number(v) for v in pair)
            and 0 <= pair[0] <= pair[1]
        ):
            raise MechanismError(
                f"{name}={pair!r} must be a pair of counts, those released right and all of them: {name}=(204, 242); a published "
                "estimate with its interval goes to from_published"
            )
        columns.append((pair[0], pair[1] - pair[0]))
    (right, false_positive), (found, missed) = columns
    return np.array([[right, missed], [false_positive, found]], dtype=float)


def published_accuracy(name: str, value: object, level: float) -> tuple[float, float]:
    """A probability and the number of people that its uncertainty is worth, from what a paper says of it.

    An interval becomes the Beta distribution with the estimate for its mean whose central interval is as wide on the logit
    scale. Where the estimate is 0 or 1, the number of people is that for which the exact interval (Clopper and
    Pearson's) ends there, and Jeffreys' prior does the rest, as with counts.
    """
    estimate, told = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
    if not (is_number(estimate) and 0 <= estimate <= 1):  # type: ignore[operator]
        raise MechanismError(
            f"{name}={value!r} must be a probability, one with the number of people ({name}=(0.94, 242)), or one with its interval "
            f"({name}=(0.94, (0.90, 0.97)))"
        )
    chance = float(estimate)  # type: ignore[arg-type]
    if told is None:
        return chance, np.inf
    if is_number(told):
        return _of_so_many(name, chance, told)
    return _of_interval(name, chance, told, level)


def _of_so_many(name: str, chance: float, people: Any) -> tuple[float, float]:
    if not (np.isfinite(people) and people == round(people) and people >= 1):
        raise MechanismError(f"{name}: {people!r} people is no number that an estimate can come from: give a whole one")
    return (chance, float(people)) if 0 < chance < 1 else _with_jeffreys(chance, float(people))


def _with_jeffreys(chance: float, people: float) -> tuple[float, float]:
    return (chance * people + 0.5) / (people + 1), people + 2


def _of_interval(name: str, chance: float, interval: Any, level: float) -> tuple[float, float]:
    ends = interval if isinstance(interval, Sequence) and len(interval) == 2 else (np.nan, np.nan)
    if not (all(is_number(v) for v in ends) and 0 <= ends[0] <= chance <= ends[1] <= 1 and ends[0] < ends[1]):
        raise MechanismError(
            f"{name}: the interval {interval!r} must hold the estimate {chance:g} and lie between 0 and 1, its lower limit first"
        )
    low, high = float(ends[0]), float(ends[1])
    tail = (1 - level) / 2
    if chance in (0.0, 1.0):
        other = low if chance == 1 else 1 - high
        if other <= 0:
            raise MechanismError(
                f"{name}: an interval from 0 to 1 says nothing: give the number of people, or validate"
            )
        return _with_jeffreys(chance, float(np.log(tail) / np.log(other)))
    return chance, _beta_mass(name, chance, (low, high), tail) + 1


def _beta_mass(name: str, chance: float, interval: tuple[float, float], tail: float) -> float:
    """a + b of the Beta with mean a/(a + b) = chance; a limit at 0 or 1 is infinitely far on the logit scale, and left out."""
    from scipy.optimize import brentq
    from scipy.special import betaincinv, logit

    low, high = interval
    sides = [(tail, low)] if low > 0 else []
    sides += [(1 - tail, high)] if high < 1 else []

    def excess(log_mass: float) -> float:
        a, b = chance * np.exp(log_mass), (1 - chance) * np.exp(log_mass)
        own = [abs(logit(np.clip(betaincinv(a, b, q), 1e-300, 1 - 1e-16)) - logit(chance)) for q, _ in sides]
        return float(sum(own) - sum(abs(logit(limit) - logit(chance)) for _, limit in sides))

    least, most = 0.0, 30.0
    if not sides or excess(least) < 0:
        raise MechanismError(
            f"{name}: the interval {interval!r} around {chance:g} is wider than that of a single person: give the number of people"
        )
    return float(np.exp(brentq(excess, least, most)))
