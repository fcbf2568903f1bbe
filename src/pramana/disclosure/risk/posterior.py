"""What a released value says about the true one: Bayes' rule by level, epsilon, and what structural zeros reveal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pramana.arrays import Bool, Float, Int
from pramana.disclosure.true_records import codes_of
from pramana.errors import DataError, MechanismError, listing
from pramana.frames import Level, Table
from pramana.mechanism import Assignment, TransitionMatrix
from pramana.mechanism.channels.matrix_forms import Mixture
from pramana.mechanism.designs import epsilon_within

LEVELS_LIMIT = 50_000
BLOCK = 2_000_000
"""Entries of P looked at in one go."""


@dataclass(frozen=True)
class LevelRisk:
    """One released level of a column: how often it is released, and the true level that it exposes most.

    Attributes
    ----------
    share : expected share of the released records.
    exposed : the true level whose posterior is largest.
    odds_factor : largest factor by which the release changes the odds of any true level against the others.
    bound : what that factor can be at most, whatever the prior: the largest ratio of two entries of the row of P.
    ruled_out : number of true levels that this released level excludes.
    """

    released: Level
    stratum: Level | None
    share: float
    exposed: Level
    prior: float
    posterior: float
    odds_factor: float
    bound: float
    ruled_out: int


@dataclass(frozen=True)
class Exposure:
    """The posterior of each record's own true value: expected over the draws, and for the worst draw.

    `row` is the record whose expected posterior is largest, `alike` the number of records that share it.
    """

    mean: float
    expected: float
    largest: float
    row: int
    alike: int


@dataclass(frozen=True)
class ColumnRisk:
    """One column, or several that are perturbed together; `conditional`: epsilon holds only given the file's frequencies."""

    columns: tuple[str, ...]
    epsilon: float
    conditional: bool
    epsilon_within: float
    blocks: tuple[tuple[Level, ...], ...]
    levels: tuple[LevelRisk, ...]
    exposure: Exposure
    realised: float | None = None

    @property
    def name(self) -> str:
        return " × ".join(self.columns)

    @property
    def posterior(self) -> float:
        return max(level.posterior for level in self.levels)

    @property
    def zeros(self) -> str | None:
        """What structural zeros tell whoever reads the released file."""
        if np.isfinite(self.epsilon):
            return None
        ruled = max(level.ruled_out for level in self.levels)
        parts = [
            f"{self.name}: zeros in P make epsilon infinite; among levels that stay possible it is {self.epsilon_within:.3g}"
        ]
        if len(self.blocks) > 1:
            shown = "; ".join(listing(block, 4) for block in self.blocks[:4])
            parts.append(f"the release shows for certain which of {len(self.blocks)} blocks a record is in ({shown})")
        parts.append(f"a released level rules out up to {ruled} of the {sum(map(len, self.blocks))} true levels")
        return ", ".join(parts)


def column_risk(
    assignment: Assignment, table: Table, prior: Mapping[Any, float] | Sequence[float] | None, released: Table | None
) -> ColumnRisk:
    """Posterior and privacy loss of one channel on the custodian's file."""
    codes, strata = codes_of(assignment, table), assignment.strata(table)
    seen = None if released is None else codes_of(assignment, released)
    named = list(assignment.matrices.items())
    matrices = {int(s): named[s][1] for s in np.unique(strata)}
    levels: list[LevelRisk] = []
    expected, largest, realised = np.empty(table.n), np.empty(table.n), np.empty(table.n)
    for position, matrix in matrices.items():
        rows = np.flatnonzero(strata == position)
        shares = _prior(prior, matrix, codes[rows], assignment)
        found = _sweep(matrix, shares, named[position][0], rows.size / table.n)
        levels += found.levels
        expected[rows], largest[rows] = found.expected[codes[rows]], found.largest[codes[rows]]
        if seen is not None:
            realised[rows] = _realised(matrix, shares, codes[rows], seen[rows])
    return ColumnRisk(
        assignment.columns,
        assignment.channel.epsilon,
        assignment.channel.conditional,
        max(epsilon_within(m) for m in matrices.values()),
        _blocks(list(matrices.values())),
        tuple(levels),
        _exposure(expected, largest),
        None if seen is None else float(realised.max()),
    )


def _exposure(expected: Float, largest: Float) -> Exposure:
    worst = int(np.argmax(expected))
    alike = int(np.sum(np.isclose(expected, expected[worst], rtol=1e-12)))
    return Exposure(float(expected.mean()), float(expected[worst]), float(largest[worst]), worst, alike)


def _prior(given: Any, matrix: TransitionMatrix, codes: Int, assignment: Assignment) -> Float:
    """Frequencies an attacker is taken to know: those of the file, unless others are given."""
    if len(matrix) > LEVELS_LIMIT:
        raise MechanismError(
            f"{listing(assignment.columns)} has {len(matrix)} levels; the limit for a risk assessment is {LEVELS_LIMIT}: merge levels"
        )
    if given is None:
        return np.bincount(codes, minlength=len(matrix)) / codes.size
    values = [given.get(level, 0.0) for level in matrix.levels] if isinstance(given, Mapping) else list(given)
    shares = np.asarray(values, dtype=float)
    if shares.shape != (len(matrix),) or np.any(~(shares >= 0)) or abs(shares.sum() - 1) > 1e-8:
        raise DataError(
            f"the prior frequencies of {listing(assignment.columns)} are {shares.size} number(s) that sum to {shares.sum():.6g}: give "
            f"{len(matrix)}, none negative, that sum to 1"
        )
    return shares


@dataclass(frozen=True)
class _Swept:
    levels: list[LevelRisk]
    expected: Float
    largest: Float


def rows_of(matrix: TransitionMatrix) -> Iterator[tuple[Int, Float]]:
    """P a few rows at a time, so that many levels never need all of it at once."""
    size = len(matrix)
    step = max(BLOCK // size, 1)
    dense = None if isinstance(matrix.form, Mixture) else matrix.matrix
    for start in range(0, size, step):
        rows = np.arange(start, min(start + step, size))
        if isinstance(matrix.form, Mixture):
            part = np.tile((matrix.form.refill * matrix.form.frequencies[rows])[:, None], (1, size))
            part[np.arange(rows.size), rows] += 1 - matrix.form.refill
        else:
            assert dense is not None
            part = dense[rows]
        yield rows, part


def _sweep(matrix: TransitionMatrix, prior: Float, name: Level | None, weight: float) -> _Swept:
    """Every released level once: its own row of the table, and its part in the records' posteriors."""
    levels: list[LevelRisk] = []
    expected, largest = np.zeros(len(matrix)), np.zeros(len(matrix))
    for rows, part in rows_of(matrix):
        released = part @ prior
        posterior = posterior_of(part, prior)
        expected += np.sum(part * posterior, axis=0)
        largest = np.maximum(largest, np.max(np.where(part > 0, posterior, 0.0), axis=0))
        factor = odds_factors(part, prior)
        for k in np.flatnonzero(released > 0):
            best = int(np.argmax(posterior[k]))
            levels.append(
                LevelRisk(
                    matrix.levels[rows[k]],
                    name,
                    float(released[k] * weight),
                    matrix.levels[best],
                    float(prior[best]),
                    float(posterior[k, best]),
                    float(factor[k].max()),
                    float(part[k].max() / part[k].min()) if part[k].min() > 0 else float("inf"),
                    int(np.sum(part[k] == 0)),
                )
            )
    return _Swept(levels, expected, largest)


def posterior_of(part: Float, prior: Float) -> Float:
    """Pr(true | released) for rows of P (m, K); zeros where the released level never occurs."""
    joint = part * prior
    total = joint.sum(axis=1, keepdims=True)
    return np.divide(joint, total, out=np.zeros_like(joint), where=total > 0)


def odds_factors(part: Float, prior: Float) -> Float:
    """Posterior odds over prior odds of each true level against the others (m, K); infinite for certainty.

    Levels that a prior of 0 or 1 decides already have the factor 1.
    """
    joint = part * prior
    others = joint.sum(axis=1, keepdims=True) - joint
    others = np.where(others <= 1e-15 * joint.sum(axis=1, keepdims=True), 0.0, others)
    open_ = (prior > 0) & (prior < 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = part * (1 - prior) / others
    return np.where(open_ & (part > 0), factor, np.where(open_, 0.0, 1.0))


def _realised(matrix: TransitionMatrix, prior: Float, codes: Int, seen: Int) -> Float:
    """Posterior of the true value given what was released, record by record (n,)."""
    out = np.zeros(codes.size)
    for rows, part in rows_of(matrix):
        here = np.flatnonzero((seen >= rows[0]) & (seen <= rows[-1]))
        out[here] = posterior_of(part, prior)[seen[here] - rows[0], codes[here]]
    return out


def _blocks(matrices: Sequence[TransitionMatrix]) -> tuple[tuple[Level, ...], ...]:
    """True levels joined when some released level can come from both, in any stratum."""
    levels = matrices[0].levels
    if any(np.isfinite(m.epsilon) for m in matrices):
        return (levels,)
    from scipy.sparse.csgraph import connected_components

    linked: Bool = np.zeros((len(levels),) * 2, dtype=bool)
    for matrix in matrices:
        possible = (matrix.matrix > 0).astype(float)
        linked |= possible.T @ possible > 0
    count, member = connected_components(linked, directed=False)
    return tuple(tuple(v for v, m in zip(levels, member, strict=True) if m == k) for k in range(count))
