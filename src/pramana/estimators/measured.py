"""A transition matrix that was measured: what its uncertainty adds to a covariance.

The score Σ w φ depends on P through Q = P⁻¹, and ∂Q = −Q ∂P Q. With S[i, k] = Σ_{z* = i} w U(k, x), the sum of the records released as
i with level k for their truth (other perturbed columns reverted as ever), its derivative by P[l, j] is

    G[l, j] = −Σ_{i,k} Q[k, l] Q[j, i] S[i, k],

and the variance that measuring P adds to the score is Σ_j G_j Cov(P̂_j) G_jᵀ. It is no part of the sample's variance: neither more
records nor a finite population correction makes it smaller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from pramana.analysis.task import Task
from pramana.arrays import Column, Columns, Float, Int
from pramana.diagnostic import Diagnostic
from pramana.engines import Engine, LocalEngine
from pramana.engines.local import SampledBlock, Several
from pramana.engines.streaming import StreamEngine
from pramana.errors import PramanaError, SolveError, listing
from pramana.estimating import EstimatingFunction, Records
from pramana.estimating.factored import FactoredRecords
from pramana.estimators.factoring import factored_equation
from pramana.estimators.method import Method
from pramana.estimators.noise import closed_form
from pramana.estimators.reversion import Reversion, reverted_records
from pramana.frames import Kind, Level, Table
from pramana.inference.resampling import Draws
from pramana.inference.shares import PrevalenceLimits, Screened
from pramana.mechanism import Assignment, Channel, Mechanism, Nodes
from pramana.mechanism.channel import Document
from pramana.mechanism.channels.transition import TransitionMatrix
from pramana.mechanism.channels.uncertainty import NEARLY_SINGULAR
from pramana.mechanism.draws.keystream import Keystream
from pramana.result import AnyResult, Result


@dataclass(frozen=True)
class Pinned(Channel):
    """A channel's column with one level for everybody's truth, the k-th."""

    channel: Channel
    k: int

    @property
    def kind(self) -> Kind | None:
        return self.channel.kind

    @property
    def levels(self) -> tuple[Level, ...] | None:
        return self.channel.levels

    @property
    def epsilon(self) -> float:
        return self.channel.epsilon

    @property
    def context(self) -> tuple[str, ...]:
        return self.channel.context

    def encode(self, columns: Sequence[Column], names: Sequence[str]) -> Column:
        return self.channel.encode(columns, names)

    def revert(self, encoded: Column, context: Columns) -> Nodes:  # noqa: ARG002
        levels = self.channel.levels or ()
        alike = np.zeros(encoded.size, dtype=np.int64)
        return Nodes(levels, np.eye(len(levels))[[self.k]], alike, np.array([self.k]))

    def perturb(self, encoded: Column, context: Columns, stream: Keystream) -> Column:
        raise NotImplementedError

    def document(self) -> Document:
        raise NotImplementedError


@dataclass(frozen=True)
class ReleasedSums:
    """Sums (strata × released levels, true levels, d) and records (strata × released levels,); those of two blocks add."""

    sums: Float
    counts: Float

    def __add__(self, other: ReleasedSums) -> ReleasedSums:
        return ReleasedSums(self.sums + other.sums, self.counts + other.counts)


@dataclass(frozen=True)
class Pinning:
    """S of one channel at one parameter value, for whichever records. It travels to whoever reads them."""

    function: EstimatingFunction
    mechanism: Mechanism
    method: Reversion
    assignment: Assignment
    beta: Float

    def __call__(self, engine: Engine, table: Table) -> ReleasedSums:
        """Of the records of an engine, which are in memory."""
        matrices = list(self.assignment.matrices.values())
        size = len(matrices[0])
        groups = len(matrices) * size
        codes = self.assignment.strata(table) * size + self.assignment.encoded(table)
        sums = np.stack([self._pinned(engine, table, k, codes, groups) for k in range(size)], axis=1)
        counts = np.bincount(codes, weights=engine.sampling.frequencies, minlength=groups)
        return ReleasedSums(sums, counts.astype(float))

    def of_block(self, block: SampledBlock) -> ReleasedSums:
        assert block.table is not None
        return self(LocalEngine(block.equation, block.sampling, threads=1), block.table)

    def _pinned(self, engine: Engine, table: Table, k: int, codes: Int, groups: int) -> Float:
        """Sums (groups, d) of the weighted score with the k-th level of one channel for the truth."""
        beta = self.beta
        if self._only(engine):
            return engine.scores_by(lambda e, _rows: e.at_node(beta, k), codes, groups)
        pinned = self.mechanism.with_channel(self.assignment, Pinned(self.assignment.channel, k))
        if isinstance(engine.equation.records, FactoredRecords):
            factored = factored_equation(self.function, pinned, table)
            assert factored is not None
            records = factored.records
        else:
            closed = closed_form(self.function, pinned, table)
            records = reverted_records(self.function, pinned, table, subset=self.method.subset, closed=closed)
        return engine.scores_by(lambda e, rows: e.under(records.rows(rows)).influence(beta), codes, groups)

    def _only(self, engine: Engine) -> bool:
        """Whether the nodes of the records are the levels of this channel, so that one node is enough to be evaluated."""
        records, levels = engine.equation.records, self.assignment.channel.levels or ()
        if not isinstance(records, Records) or records.response is not None or self.method.subset is not None:
            return False
        return [*records.nodes] == [{self.assignment.columns[0]: level} for level in levels]


MatrixStudy: TypeAlias = tuple[TransitionMatrix, Float, Float]
"""A measured matrix, its sums S (released, true, d), and the records of each true level (K,)."""


@dataclass(frozen=True)
class Measured:
    """The measured matrices that a fit reverts, and the engine that adds up their sums."""

    task: Task
    method: Reversion
    engine: Engine
    assignments: tuple[Assignment, ...]

    @classmethod
    def of(cls, task: Task, method: Method, engine: Engine) -> Measured | None:
        """None where every matrix is known, or the method does not revert."""
        found = measured_by(task)
        return cls(task, method, engine, found) if found and isinstance(method, Reversion) else None

    def meat(self, beta: Float) -> Float:
        """Σ_j G_j Cov(P̂_j) G_jᵀ (d, d): what the uncertainty of P adds to the variance of the score."""
        found = self.meats([beta])[0]
        if isinstance(found, SolveError):
            raise found
        return found

    def meats(self, betas: Sequence[Float]) -> list[Float | SolveError]:
        """The same at several values, or why one has none; in one pass where records are read in passes."""
        found = self._studies(betas)
        return [studies if isinstance(studies, SolveError) else self._meat(studies) for studies in found]

    def _meat(self, studies: list[MatrixStudy]) -> Float:
        out = np.zeros((self.engine.d, self.engine.d))
        for matrix, sums, among in studies:
            assert matrix.uncertainty is not None
            inverse, added = matrix.inverse, matrix.uncertainty.added(matrix.matrix, among)
            slope = -np.einsum("kl,ji,ikd->jld", inverse, inverse, sums, optimize=True)
            out += np.einsum("jla,jlm,jmb->ab", slope, added, slope, optimize=True)
        return out

    def redrawn(self, draws: Draws, beta: Float, inverse: Float) -> Draws:
        """The draws, each with a P̂ of its own: a draw from the Dirichlet distribution of every column.

        The score is linear in Q, so that the drawn Q is put in as it is; the root follows by one step of Newton, with J⁻¹. That
        validated records err as P̂ does is left out, which makes the spread too large where the study is internal.
        """
        stream, values = np.random.default_rng([draws.seed, len(draws.values)]), draws.values
        studies = self._studies([beta])[0]
        if isinstance(studies, SolveError):
            raise studies
        for matrix, sums, _ in studies:
            assert matrix.uncertainty is not None
            drawn = matrix.uncertainty.drawn(matrix.matrix, len(values), stream)
            change = np.linalg.inv(drawn) - matrix.inverse
            values = values - np.einsum("bki,ikd,ed->be", change, sums, inverse, optimize=True)
        return replace(draws, values=values)

    def _studies(self, betas: Sequence[Float]) -> list[list[MatrixStudy] | SolveError]:
        """Of every value each measured matrix once, for equal ones are one study, whose error they share."""
        sums = [self._added(a, betas).values for a in self.assignments]
        return [self._joined(found) for found in zip(*sums, strict=True)]

    def _joined(self, sums: Sequence[ReleasedSums | SolveError]) -> list[MatrixStudy] | SolveError:
        """The studies of all columns, whose sums are given, at one value."""
        found: list[MatrixStudy] = []
        for assignment, own in zip(self.assignments, sums, strict=True):
            if isinstance(own, SolveError):
                return own
            for study in self._told(assignment, own):
                matrix, added, _ = study
                place = next((k for k, (known, *_) in enumerate(found) if known == matrix), None)
                if place is None:
                    found.append(study)
                else:  # whose errors go together is not known: none is the careful answer
                    found[place] = (matrix, found[place][1] + added, np.full_like(study[2], np.inf))
        return found

    def _told(self, assignment: Assignment, found: ReleasedSums) -> Iterator[MatrixStudy]:
        matrices = list(assignment.matrices.values())
        # Of a subset it is not known how many of the validated records are in it: none is the careful answer.
        whole = 1.0 if self.task.options.subset is None else np.inf
        parts = (np.split(values, len(matrices)) for values in (found.sums, found.counts))
        for matrix, own, released in zip(matrices, *parts, strict=True):
            if matrix.uncertainty is not None:
                yield matrix, own, whole * (matrix.inverse @ released)

    def _added(self, assignment: Assignment, betas: Sequence[Float]) -> Several[ReleasedSums | SolveError]:
        """Over all records, in memory or block by block."""
        task, engine = self.task, self.engine
        assert task.mechanism is not None
        pinning = Pinning(task.function, task.mechanism, self.method, assignment, betas[0])
        if not isinstance(engine, StreamEngine):
            return Several.of(lambda beta: replace(pinning, beta=beta)(engine, task.table), betas)
        return engine.summed(lambda b: Several.of(lambda beta: replace(pinning, beta=beta).of_block(b), betas))

    def prevalence(self, beta: Float, level: float) -> PrevalenceLimits | None:
        """None where the parameters are no shares of one column with two levels in a simple sample."""
        sampling, channel = self.engine.sampling, self.assignments[0].channel
        alone = self.task.plan.variables == self.assignments[0].columns and self.task.domain is None
        if not (sampling.simple and alone and isinstance(channel, TransitionMatrix) and len(channel) == 2 >= beta.size):
            return None
        assert channel.uncertainty is not None
        sums = self._added(self.assignments[0], [beta]).values[0]
        assert isinstance(sums, ReleasedSums)
        counts = sums.counts
        share = float((channel.inverse @ counts)[1] / counts.sum())
        low, span = np.array([[1.0, 0.0], [-1.0, 1.0]])[
            :, -beta.size :
        ]  # the shares of both levels, or that of the second
        size = float(counts.sum()) if self.engine.about.sums else 1.0
        if channel.uncertainty.internal or not np.allclose(beta, size * (low + span * share)):
            return None
        accuracy = [(float(p), float(n)) for p, n in zip(channel.diagonal, channel.uncertainty.sizes, strict=True)]
        test = Screened(float(counts[1] / counts.sum()), float(counts.sum()), accuracy[1], accuracy[0])
        return PrevalenceLimits(level, test, size * low, size * span)

    def told(self, result: Result, added: Float) -> Result:
        """The result with the part of its covariance that P adds, from how many people each P comes, and what is assumed."""
        facts = {"Transition matrix": "; ".join(f"{name} {told}" for name, told in _told(self.assignments))}
        return replace(
            result,
            measurement=added,
            sampling=None if result.sampling is None else result.sampling + added,
            facts={**result.facts, **facts},
            diagnostics=(*result.diagnostics, *self._notes),
        )

    @property
    def _notes(self) -> list[Diagnostic]:
        names = ", ".join(dict.fromkeys(f"{' × '.join(a.columns)}" for a in self.assignments))
        free = [a for a in self.assignments if not a.channel.context]
        within = "whatever the values of other columns" if free else "within each stratum"
        message = (
            f"the transition matrix of {names} was measured: its uncertainty is part of the standard errors, and it is taken to hold for these "
            f"records {within} (non-differential error)"
        )
        remedy = ": where it depends on a clean column, give Stratified('column', {...})" if free else ""
        return [Diagnostic("measured-matrix", "info", message + remedy), *self._nearly_singular()]

    def _nearly_singular(self) -> Iterator[Diagnostic]:
        for name, matrix in _matrices(self.assignments):
            assert matrix.uncertainty is not None
            value, error = matrix.uncertainty.distance(matrix.matrix)
            if value < NEARLY_SINGULAR * error:
                message = (
                    f"the smallest singular value of the measured matrix of {name} is {value:.3g} ± {error:.2g}, {value / error:.1f} standard errors "
                    f"from zero ({NEARLY_SINGULAR:g} is the limit for Wald intervals): read the intervals with caution, or validate more people"
                )
                yield Diagnostic("matrix-nearly-singular", "warning", message)


def measured_by(task: Task) -> tuple[Assignment, ...]:
    """The channels with a measured matrix among those that a task uses."""
    if task.mechanism is None:
        return ()
    domain = () if task.domain is None else task.domain.variables
    used = task.mechanism.used_by((*task.plan.variables, *domain))
    return tuple(a for a in used if a.measured)


def prevalence_limits(measured: Measured | None, beta: Float, level: float) -> PrevalenceLimits:
    """Lang and Reiczigel's limits, for parameters that are a share of one column with two levels."""
    found = None if measured is None else measured.prevalence(beta, level)
    if found is None:
        raise PramanaError(
            "Lang and Reiczigel's intervals are for a share, mean or count of one column with two levels, measured on other people, and "
            "records that were sampled alike (no weights, clusters or design): use Sandwich(), or Sandwich(interval='score')"
        )
    return found


def taken_as_known(result: AnyResult, method: Method, task: Task) -> AnyResult:
    """The result, with a warning where the method uses a measured matrix as if it were known."""
    found = measured_by(task)
    if not found or method.adds_measurement or method.takes_as_true:
        return result
    names = listing([name for name, _ in _told(found)])
    message = (
        f"the transition matrix of {names} was measured, and method {method.label!r} takes it as known, so that standard errors are too small: "
        "use method='reversion'"
    )
    return replace(result, diagnostics=(*result.diagnostics, Diagnostic("matrix-taken-as-known", "warning", message)))


def _matrices(assignments: Sequence[Assignment]) -> Iterator[tuple[str, TransitionMatrix]]:
    for assignment in assignments:
        for stratum, matrix in assignment.matrices.items():
            if matrix.uncertainty is not None:
                within = "" if stratum is None else f" ({assignment.channel.context[0]} = {stratum})"
                yield f"{' × '.join(assignment.columns)}{within}", matrix


def _told(assignments: Sequence[Assignment]) -> Iterator[tuple[str, str]]:
    for name, matrix in _matrices(assignments):
        assert matrix.uncertainty is not None
        yield name, matrix.uncertainty.told
