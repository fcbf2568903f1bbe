"""A transition matrix with free parameters t, estimated together with whatever is asked for: one stack of equations.

People were assigned to the groups g of a clean column at random, so that group and answer together are a released value: with shares r_g of
the groups, `Pr(g, i | j) = r_g P_g(t)[i, j] = R[gi, j]`, a matrix with more released than true levels. It is undone by the left inverse
L = (RᵀD⁻¹R)⁻¹RᵀD⁻¹, which leaves a group out whose answers tell nothing at this t, where its own P_g(t) has no inverse. With U(k) for
everybody's truth being level k, the equations are

    Σ w Σ_k L[k, gi] U(k; β) = 0,     Σ w H_gᵀ (e_i − P_g(t) π) = 0,     Σ w (1{g} − r_g) = 0,

for β, for t with the shares π of the levels, and for r. The second are the normal equations of the answers' shares (H is their derivative over
D), solved exactly where there are as many shares as unknowns. In t and r, dL = (RᵀD⁻¹R)⁻¹ dRᵀ D⁻¹ (I − RL) − L dR L.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float
from pramana.diagnostic import Diagnostic
from pramana.errors import DataError, PramanaError, SolveError, listing, quoted
from pramana.estimating.equation import Note
from pramana.estimators.method import Binding
from pramana.estimators.stack import Stack, StackCells, refuse_unsuited
from pramana.frames import Table
from pramana.kernels.blocks import by_group
from pramana.mechanism import Assignment, Mechanism
from pramana.mechanism.channels.free import FreeMatrix

VAGUE = 0.25
"""Standard error of a share from which its 95 % interval says next to nothing."""
TINY = 1e-7
"""Smallest singular value, over the largest, of what cannot be solved for."""
OUTSIDE = 2.0
"""Standard errors outside of [0, 1] from which a share is no accident."""


@dataclass(frozen=True)
class Groups(StackCells):
    """The channel, its cells (group and answer), and what is learned from their counts.

    Attributes
    ----------
    spread : (G, K), shares of the answers within each group, none of them 0: the weights of the normal equations.
    shares : (G,), of the groups. t, levels : estimates of t and of the shares of the levels but the first, where the search starts.
    """

    channel: FreeMatrix
    spread: Float
    shares: Float
    t: Float
    levels: Float
    named: str
    """The column with the answers."""

    @property
    def free(self) -> tuple[str, ...]:
        return self.channel.parameters

    @property
    def hidden(self) -> tuple[str, ...]:
        own, by = self.channel.levels[1:], self.channel.by
        return (
            *(f"share of {self.named} = {level}" for level in own),
            *(f"share of {by} = {value}" for value in self.channel.values[1:]),
        )

    @property
    def naive(self) -> Float:
        return np.tile(np.eye(len(self.channel.levels)), (1, len(self.channel.values), 1))

    @classmethod
    def of(cls, channel: FreeMatrix, counts: Float, named: str) -> Groups:
        """From the counts of answers (G, K): minimum chi-square by Gauss–Newton."""
        sizes = counts.sum(axis=1, keepdims=True)
        observed, spread = counts / sizes, np.maximum(counts, 0.5) / sizes
        size, free = len(channel.levels), len(channel.parameters)
        value = np.concatenate([np.full(size - 1, 1 / size), np.full(free, 0.5 / free)])

        def parts(at: Float) -> tuple[Float, Float]:
            pi, t = _whole(at[: size - 1]), at[size - 1 :]
            root = np.sqrt(sizes / spread)
            left = (observed - channel.chances(t) @ pi) * root
            return left.ravel(), (channel.gradient(pi, t) * root[:, :, None]).reshape(left.size, -1)

        left, gradient = parts(value)
        for _ in range(200):
            step = np.linalg.lstsq(gradient, left, rcond=None)[0]
            while np.any(step) and left @ left < (ahead := parts(value + step))[0] @ ahead[0]:
                step = step / 2 if np.abs(step).max() > 1e-14 else np.zeros_like(step)
            value = value + step
            left, gradient = parts(value)
            if np.abs(step).max() <= 1e-13:
                break
        return cls(channel, spread, sizes[:, 0] / sizes.sum(), value[size - 1 :], value[: size - 1], named)

    @property
    def start(self) -> Float:
        return np.concatenate([self.t, self.levels, self.shares[1:]])

    def split(self, nuisance: Float) -> tuple[Float, Float, Float]:
        """t, and all shares of levels and groups."""
        free, size = len(self.channel.parameters), len(self.channel.levels)
        t, pi, r = np.split(nuisance, [free, free + size - 1])
        return t, _whole(pi), _whole(r)

    def tables(self, nuisance: Float) -> tuple[Float, Float]:
        t, _, r = self.split(nuisance)
        size, chances = len(self.channel.levels), self.channel.chances(t)
        joint = (r[:, None, None] * chances).reshape(-1, size)
        weight = 1 / (self.shares[:, None] * self.spread).ravel()
        scaled = joint * weight[:, None]
        inner = np.linalg.inv(scaled.T @ joint)
        inverse = inner @ scaled.T
        moved = np.concatenate([self._by_t(r), np.zeros((size - 1, *joint.shape)), self._by_group(chances)])
        beyond = (np.eye(len(joint)) - joint @ inverse) * weight[:, None]
        change = inner @ moved.transpose(0, 2, 1) @ beyond - inverse @ moved @ inverse
        even = np.eye(size) - 1 / size  # columns of a left inverse sum to 1, whatever D is
        return (even @ inverse + 1 / size).T[None], (even @ change).transpose(0, 2, 1)[:, None]

    def _by_t(self, r: Float) -> Float:
        size = len(self.channel.levels)
        return (r[:, None, None, None] * self.channel.moves).transpose(1, 0, 2, 3).reshape(-1, len(r) * size, size)

    def _by_group(self, chances: Float) -> Float:
        count, size = len(chances), len(self.channel.levels)
        moved = np.zeros((count - 1, count, size, size))
        moved[:, 0] = -chances[0]
        moved[np.arange(count - 1), np.arange(1, count)] = chances[1:]
        return moved.reshape(count - 1, -1, size)

    def equations(self, nuisance: Float) -> tuple[Float, Float]:
        t, pi, r = self.split(nuisance)
        count, size = len(r), len(pi)
        left = np.eye(size) - (self.channel.chances(t) @ pi)[:, None, :]  # (G, answer, K)
        lefts, gradient = self.weighted, self._ordered(self.channel.gradient(pi, t))
        own = np.einsum("gyi,gia->gya", left, lefts).reshape(count * size, -1)
        members = np.repeat(np.eye(count)[:, 1:], size, axis=0)
        d, m = nuisance.size, own.shape[1]
        slope = np.zeros((count, d, d))
        slope[:, :m, :m] = -np.einsum("gia,gib->gab", lefts, gradient)
        slope[:, m:, m:] = -np.eye(count - 1)
        return np.hstack([own, members - r[1:]]), np.repeat(slope, size, axis=0)

    def remarks(self, nuisance: Float, errors: Float) -> list[Note]:
        told = zip(self.free, nuisance, errors, strict=False)
        return [note for name, value, error in told for note in _of_share(name, float(value), float(error))]

    @property
    def weighted(self) -> Float:
        """H (G, K, unknowns): derivatives of the answers' shares over those, where the search starts."""
        gradient = self.channel.gradient(_whole(self.levels), self.t)
        return self._ordered(gradient) / self.spread[:, :, None]

    def _ordered(self, gradient: Float) -> Float:
        """By t first, then by the shares of the levels."""
        return np.roll(gradient, len(self.channel.parameters), axis=2)


def _whole(others: Float) -> Float:
    """Shares with the first of them, which are 1 together."""
    return np.concatenate([[1 - others.sum()], others])


def _of_share(name: str, value: float, error: float) -> list[Note]:
    """What is odd about the estimate of a free parameter."""
    notes: list[Note] = []
    if max(-value, value - 1) > OUTSIDE * error:
        text = (
            f"{name} = {value:.4g} ± {error:.2g} lies outside [0, 1], by more than {OUTSIDE:g} standard errors: people did not answer by this "
            "design, or were not assigned to the groups at random"
        )
        notes.append(("free-parameter-outside", "warning", text))
    if not error < VAGUE:
        text = (
            f"the groups hardly tell {name}: its standard error is {error:.2g} (the limit is {VAGUE:g}), and other estimates are as "
            "uncertain; use more records, or groups whose chances differ more"
        )
        notes.append(("free-parameter-vague", "warning", text))
    return notes


@dataclass(frozen=True)
class FreeChannel:
    """The one channel with free parameters among those that an analysis reads, and the others."""

    mechanism: Mechanism
    assignment: Assignment
    channel: FreeMatrix
    others: tuple[Assignment, ...]

    @classmethod
    def of(cls, mechanism: Mechanism | None, variables: Sequence[str], conditions: Sequence[str]) -> FreeChannel | None:
        """Of a question's variables and of a subset's; None where all matrices have their values."""
        used = [] if mechanism is None else mechanism.used_by((*variables, *conditions))
        for place, assignment in enumerate(used):
            if mechanism is not None and isinstance(assignment.channel, FreeMatrix):
                found = cls(mechanism, assignment, assignment.channel, (*used[:place], *used[place + 1 :]))
                found._refuse(variables, conditions)
                return found
        return None

    @property
    def name(self) -> str:
        return self.assignment.columns[0]

    def _refuse(self, variables: Sequence[str], conditions: Sequence[str]) -> None:
        """What the stack does not hold for."""
        more = [c for a in self.others if isinstance(a.channel, FreeMatrix) for c in a.columns]
        measured = [c for a in self.others if a.measured for c in a.columns]
        unit, why = self.mechanism.unit, ""
        if more:
            why = f"that of {listing(more)} has as well, of which one is undone at a time, on average over its own groups: give the other its value with matrix.at(...), as a fit of it alone has it"
        elif self.channel.by in (*variables, *conditions):
            why = f"{self.channel.by!r} is the group to which people were assigned at random, by which it is undone, so that nothing depends on it: leave it out"
        elif measured:
            why = f"that of {listing(measured)} was measured, whose uncertainty is not added to theirs: take it as known with matrix.measured(None)"
        elif self.name in conditions:
            why = "no subset is made by it: use by=, or give them values with matrix.at(...)"
        elif unit is not None:
            why = f"records of a {unit.column!r} share their draws, for which they are not estimated: keep one record of each"
        if why:
            raise PramanaError(
                f"the matrix of {self.name!r} has free parameters ({listing(self.channel.parameters)}), and {why}"
            )

    def stacked(self, table: Table, weights: Float, bind: Callable[[Mechanism], Binding]) -> Binding:
        """The equation of a question with that of the free parameters; `bind` gives the question's where the matrix has a value."""
        channel, name = self.channel, self.name
        cell, size = channel.cells(self.assignment.encoded(table), self.assignment.context(table)), len(channel.levels)
        counts = by_group(weights[:, None], cell, len(channel.values) * size).reshape(-1, size)
        _refuse_empty(channel, counts, name)
        groups = Groups.of(channel, counts, name)
        _refuse_unidentified(groups, name)
        begin = groups.tables(groups.start)[0][0]
        held = [begin, *(np.tile(unit, (len(begin), 1)) for unit in np.eye(size))]
        first, *others = (bind(self.mechanism.with_channel(self.assignment, channel.holding(h))) for h in held)
        pinned = tuple(other.equation for other in others)
        equation = Stack.of(first.equation, pinned, cell, groups, alone=not self.others)
        why = f"estimated together with the free parameters of {name}: ask for means, shares or a regression, or give the parameters values with matrix.at(...), see band"
        refuse_unsuited(equation, weights, why)
        return Binding(equation, None, {**first.facts, **self._facts}, (*first.notes, self._note), equation.started)

    @property
    def _facts(self) -> dict[str, str]:
        channel = self.channel
        told = f"{', '.join(channel.parameters)} of {self.name}, from {len(channel.values)} groups of {channel.by}"
        return {"Free parameters": told}

    @property
    def _note(self) -> Diagnostic:
        names = listing(self.channel.parameters)
        message = (
            f"the matrix of {self.name} has free parameters ({names}), estimated along and part of the standard errors: people are taken to be "
            f"assigned to the groups of {self.channel.by!r} at random, and {names} to be the same whatever the values of other columns"
        )
        return Diagnostic("free-parameters", "info", message)


def _refuse_empty(channel: FreeMatrix, counts: Float, name: str) -> None:
    """Nothing is told by a group without records, nor how sure it is where all of them answered alike."""
    empty = [value for value, count in zip(channel.values, counts, strict=True) if not count.sum() > 0]
    if empty:
        raise DataError(
            f"there is no record of group {quoted(listing(empty))} of {channel.by!r}, without which {listing(channel.parameters)} cannot be told: "
            "analyse all groups together"
        )
    lacking = np.argwhere((counts <= 0) & (channel.matrices.max(axis=(1, 3)) > 0))
    if lacking.size:
        group, answer = channel.values[lacking[0, 0]], channel.levels[lacking[0, 1]]
        raise DataError(
            f"nobody in group {quoted(repr(group))} of {channel.by!r} answered {quoted(repr(answer))} to {name}, so that {listing(channel.parameters)} "
            "has no standard error: use more records, or merge groups and levels"
        )


def _refuse_unidentified(groups: Groups, name: str) -> None:
    """Where the shares of the levels are at an end of their range, t may not matter, and at some t the answers say nothing of the levels."""
    gradient = groups.weighted.reshape(groups.spread.size, -1)
    joint = groups.channel.chances(groups.t).reshape(groups.spread.size, -1)
    if min(_relative(gradient / np.maximum(np.linalg.norm(gradient, axis=0), TINY)), _relative(joint)) > TINY:
        return
    shares = [f"{p} = {v:.4g}" for p, v in zip(groups.channel.parameters, groups.t, strict=True)]
    shares += [f"share of {v!r} = {p:.4g}" for v, p in zip(groups.channel.levels, _whole(groups.levels), strict=True)]
    raise SolveError(
        f"the groups' answers leave {listing(groups.channel.parameters)} or the levels of {name} unknown, where {quoted(', '.join(shares))}: use more "
        "records, or chances that differ more"
    )


def _relative(matrix: Float) -> float:
    """The smallest singular value over the largest."""
    values = np.linalg.svd(matrix, compute_uv=False)
    return float(values[-1] / values[0])
