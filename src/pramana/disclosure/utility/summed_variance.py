"""The expected variance of an analysis whose records are read block by block: everything that it takes of them adds up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pramana.analysis.reading import Reading
from pramana.analysis.sampling import SamplingArguments
from pramana.analysis.streaming import learn
from pramana.analysis.transforms import learned_states
from pramana.arrays import Float
from pramana.disclosure.utility.expected_variance import (
    Asking,
    ExpectedVariance,
    Oracle,
    analysis_columns,
    candidates,
    combinations,
    refuse_large,
    refuse_perturbed_weights,
    smooth_function,
    tabulated,
)
from pramana.engines.local import LocalEngine, SampledBlock, added
from pramana.engines.streaming import StreamEngine
from pramana.errors import FormulaError
from pramana.estimating import Equation, EstimatingFunction, Records
from pramana.estimating.collinearity import unjudged
from pramana.estimating.function import Question
from pramana.frames import Table
from pramana.frames.sources import Source
from pramana.frames.workers import Threads
from pramana.mechanism import Mechanism

ENTRIES = 2_000_000
"""Values of U that are tabulated in one go."""
FEWEST = 100
"""Records of a block, at least."""


@dataclass(frozen=True)
class Summed:
    """The variance to expect of an analysis, and what was learned from a random sample of the records to get there."""

    variance: ExpectedVariance
    sampled: tuple[str, ...]


def summed_variance(plan: Question, source: Source, mechanism: Mechanism, weights: str | None) -> Summed:
    """As `pilot_of(...).expected(mechanism)` of all records, of which a few are in memory at a time."""
    if weights is not None:
        refuse_perturbed_weights(weights, mechanism)
    columns = analysis_columns(plan, mechanism, weights)
    source.require(columns)
    beside = SamplingArguments(weights=weights)
    reading = Reading(source.label, source.kind, columns, None, columns, beside, None)
    learned = learn(source, reading, "drop", Threads())
    state, sampled = learned_states(plan.formulas, learned.stream, learned.table, weighing=False)
    table = replace(learned.table, learned=state)
    function = smooth_function(plan, table, mechanism)
    refuse_large(FEWEST, combinations(mechanism.used_by(function.variables)), len(function.parameters), plan.label)
    with unjudged() as ranks:
        equation = _clean(function, table, learned.few.row_weights)
    engine = StreamEngine(
        equation,
        learned.sampling,
        few=LocalEngine(equation, learned.few),
        jobs=learned.stream.jobs,
        blocks=learned.stream.blocks(partial(_clean, function)),
        workers=learned.stream.workers,
    )
    try:
        for rank in ranks:
            rank().judge()
    except FormulaError:
        engine.refuse_collinear()  # some of the records may show less than all of them
    engine = engine.learned()
    oracle = Oracle.of(engine)
    spread = replace(engine, blocks=learned.stream.blocks(partial(_spread, function, mechanism)))
    sums = spread.summed(partial(_sums, oracle, plan, function, mechanism))
    clean = sums.around_mean if oracle.sums else sums.around_mean + sums.n * np.outer(sums.mean, sums.mean)
    own, added_to_it = (oracle.inverse @ meat @ oracle.inverse.T for meat in (clean, sums.privacy))
    return Summed(ExpectedVariance(oracle.parameters, sums.n, own, added_to_it), tuple(sampled))


def _clean(function: EstimatingFunction, table: Table, weights: Float) -> Equation:  # noqa: ARG001 - as a method binds
    return function.equation(Records.clean(table.n, {v: table.column(v) for v in function.variables}))


def _spread(function: EstimatingFunction, mechanism: Mechanism, table: Table, weights: Float) -> Equation:  # noqa: ARG001
    return function.equation(candidates(function, mechanism.used_by(function.variables), table))


@dataclass(frozen=True)
class _Sums:
    """Mean (d,) of U at the true values, squares summed around it (d, d), and what the randomisation adds to these (d, d)."""

    n: int
    mean: Float
    around_mean: Float
    privacy: Float

    def __add__(self, other: _Sums) -> _Sums:
        n, gap = self.n + other.n, other.mean - self.mean
        around = self.around_mean + other.around_mean + np.outer(gap, gap) * (self.n * other.n / n)
        return _Sums(n, self.mean + gap * (other.n / n), around, self.privacy + other.privacy)


def _sums(
    oracle: Oracle, plan: Question, function: EstimatingFunction, mechanism: Mechanism, block: SampledBlock
) -> _Sums:
    """Of a block, whose equation is bound to candidates."""
    used = mechanism.used_by(function.variables)
    size = max(FEWEST, int(ENTRIES / (combinations(used) * oracle.root.size)))

    def of(cut: SampledBlock) -> _Sums:
        assert cut.table is not None
        asking = Asking(plan, function, mechanism, cut.table, cut.sampling.weights)
        pilot = tabulated(oracle, cut.equation, candidates(function, used, cut.table), asking)
        u = pilot.at_truth
        mean = u.mean(axis=0)
        return _Sums(len(u), mean, (u - mean).T @ (u - mean), pilot.privacy_meat(mechanism))

    return added(map(of, block.cut(size)))
