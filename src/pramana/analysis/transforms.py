"""What functions of a formula learn from all records that are read in blocks: means and scales, polynomials and knots.

Each is a generator: it asks for a sum over the values of its argument, is given it, and asks on or returns what it has learnt. All of a
formula are asked in the same passes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from pramana.analysis.reading import Stream
from pramana.arrays import Bool, Float, Int
from pramana.engines.sampling import Sampling
from pramana.errors import DataError
from pramana.estimating.binned import BINS
from pramana.formulas.evaluation import LearnedStates, value_of
from pramana.formulas.functions import FUNCTIONS, Own
from pramana.formulas.parsed import ParsedFormula, learning_calls
from pramana.formulas.tree import Call, Literal, names, walk, written
from pramana.frames import Table

AddedPart: TypeAlias = Callable[[Float], Any]
"""Values (n,) of some records ↦ something that adds."""
Learner: TypeAlias = Generator[AddedPart, Any, dict[str, Any]]


def learned_states(
    formulas: Sequence[ParsedFormula], stream: Stream, sample: Table, *, weighing: bool
) -> tuple[LearnedStates, list[str]]:
    """What the functions of formulas learn from all records, or from those that have a weight, by the call as it is written, and the
    calls that are left to the sample."""
    calls, own = {written(c): c for c in learning_calls(formulas)}, formulas[0].own if formulas else ()
    state: LearnedStates = {}
    left: list[str] = []
    while waiting := [key for key in calls if key not in state and key not in left]:
        ready = [key for key in waiting if not set(_inside(calls[key], calls)) & set(waiting)]
        learners = {}
        for key in ready:
            known = not set(_inside(calls[key], calls)) & set(left)
            learner = _learner(calls[key], _values(calls[key], sample, state, own)) if known else None
            if learner is None:
                left.append(key)
            else:
                learners[key] = learner
        state |= _asked(learners, calls, stream, _Work({}, state, own, weighing))
    return state, left


def _inside(call: Call, calls: Mapping[str, Call]) -> list[str]:
    """Calls in the argument of another, which learn first."""
    return [
        key for part in call.parts for node in walk(part) if isinstance(node, Call) and (key := written(node)) in calls
    ]


def _values(call: Call, table: Table, state: LearnedStates, own: Own) -> Float:
    """Of the argument (n,)."""
    import pandas as pd

    columns = {name: pd.Series(table.column(name)) for name in names(call)}
    with np.errstate(all="ignore"):
        found = value_of(call.arguments[0], columns, state, own)
    return np.broadcast_to(np.asarray(found, dtype=float), (table.n,))


def _asked(
    learners: Mapping[str, Learner], calls: Mapping[str, Call], stream: Stream, work: _Work
) -> dict[str, dict[str, Any]]:
    """What the learners return in the end, in a pass for each question of all of them."""
    done: dict[str, dict[str, Any]] = {}
    parts = {key: next(learner) for key, learner in learners.items()}
    while parts:
        sums = stream.summed(replace(work, parts={key: (calls[key], part) for key, part in parts.items()})).values
        parts = {}
        for key, found in sums.items():
            try:
                parts[key] = learners[key].send(found)
            except StopIteration as end:
                done[key] = end.value
    return done


@dataclass(frozen=True)
class _Answers:
    """What the parts found, by call; those of two blocks add."""

    values: dict[str, Any]

    def __add__(self, other: _Answers) -> _Answers:
        return _Answers({key: found + other.values[key] for key, found in self.values.items()})


@dataclass(frozen=True)
class _Work:
    """Questions to the records of a block. They travel to whoever reads them."""

    parts: Mapping[str, tuple[Call, AddedPart]]
    state: LearnedStates
    own: Own
    weighing: bool

    def __call__(self, table: Table, sampling: Sampling) -> _Answers:
        """Every record counts once, or, as `Sampling.weighing` has it, those alone that weigh something."""
        if self.weighing and not sampling.live.all():
            table = table.where(sampling.live)
        found = {key: part(_values(call, table, self.state, self.own)) for key, (call, part) in self.parts.items()}
        return _Answers(found)


def _learner(call: Call, sample: Float) -> Learner | None:
    """None where only the sample will do."""
    options = _options(call)
    if options is None or not np.all(np.isfinite(sample)):
        return None
    if call.function in ("center", "scale", "standardize"):
        return _scaled(sample, call.function, options)
    if call.function == "poly":
        return _polynomial(int(options.get("degree", 1)), bool(options.get("raw", False)))
    if call.function == "bs" and set(options) <= {"df", "degree", "include_intercept"} and options.get("df"):
        return _splines(sample, options)
    return None


def _options(call: Call) -> dict[str, Any] | None:
    """The arguments after the first; None where some are no plain numbers."""
    given = dict(zip(FUNCTIONS[call.function].parameters[1:], call.arguments[1:], strict=False)) | dict(call.keywords)
    if not call.arguments or not all(isinstance(node, Literal) for node in given.values()):
        return None
    return {name: node.value for name, node in given.items() if isinstance(node, Literal)}


def _scaled(sample: Float, function: str, options: Mapping[str, Any]) -> Learner:
    """As formulaic's `scale`, which the others are forms of."""
    middle = float(sample.mean())
    n, first, second = yield lambda x: np.array([x.size, (x - middle).sum(), ((x - middle) ** 2).sum()])
    centre, wide = options.get("center", True), options.get("rescale", options.get("scale", function != "center"))
    ddof = options.get("ddof", 0 if function == "standardize" else 1)
    at = middle + first / n if centre is True else None if centre is False else float(centre)
    away = middle - (0.0 if at is None else at)
    squares = second + 2 * away * first + n * away**2
    spread = np.sqrt(squares / (n - ddof)) if wide is True else None if wide is False else float(wide)
    return {"ddof": ddof, "center": at, "scale": spread}


def _polynomial(degree: int, raw: bool) -> Learner:
    """One power after the other."""
    alpha: list[float] = []
    norms: list[float] = []
    for _ in range(0 if raw else degree + 1):
        norm, moment = (yield partial(_power, tuple(alpha), tuple(norms))).tolist()
        norms.append(norm)
        alpha.append(moment / norm)
    return {} if raw else {"alpha": dict(enumerate(alpha)), "norms2": dict(enumerate(norms))}


def _power(alpha: Sequence[float], norms: Sequence[float], x: Float) -> Float:
    """Σ P² and Σ x P² of the next power by the three-term recurrence P_k = (x − α_{k−1}) P_{k−1} − β_{k−1} P_{k−2}, β_k = N_k/N_{k−1}."""
    before, now = np.zeros_like(x), np.ones_like(x)
    for k, middle in enumerate(alpha):
        before, now = now, (x - middle) * now - (norms[k] / norms[k - 1] if k else 0.0) * before
    return np.array([np.sum(now**2), np.sum(x * now**2)])


@dataclass(frozen=True)
class _Counted:
    """Ends of a range, and records between given edges; parts add."""

    low: float
    high: float
    counts: Int

    def __add__(self, other: _Counted) -> _Counted:
        return _Counted(min(self.low, other.low), max(self.high, other.high), self.counts + other.counts)


@dataclass(frozen=True)
class _Held:
    """Some values; adding two parts puts one after the other."""

    values: Float

    def __add__(self, other: _Held) -> _Held:
        return _Held(np.concatenate([self.values, other.values]))


def _splines(sample: Float, options: Mapping[str, Any]) -> Learner:
    """Knots of B-splines, at quantiles of all records: counts between sampled values, then the records around each quantile."""
    degree = int(options.get("degree", 3))
    inner = int(options["df"]) - degree - int(bool(options.get("include_intercept", False)))
    edges = np.unique(np.quantile(sample, np.linspace(0, 1, min(BINS, sample.size))))
    size = edges.size + 1

    def counted(x: Float) -> _Counted:
        ends = (float(x.min()), float(x.max())) if x.size else (np.inf, -np.inf)
        return _Counted(*ends, np.bincount(np.searchsorted(edges, x, side="right"), minlength=size))

    found: _Counted = yield counted
    n, before = int(found.counts.sum()), np.concatenate([[0], np.cumsum(found.counts)])
    places = np.linspace(0, 1, max(inner, 0) + 2)[1:-1] * (n - 1)
    ranks = np.minimum(np.stack([np.floor(places), np.floor(places) + 1]).astype(np.int64), n - 1)
    bins = np.searchsorted(before, ranks, side="right") - 1
    wanted = np.zeros(size, dtype=bool)
    wanted[bins] = True
    held: _Held = yield lambda x: _Held(x[wanted[np.searchsorted(edges, x, side="right")]])
    low, high = _at_ranks(np.sort(held.values), wanted, found.counts, before, ranks, bins)
    knots = low + (high - low) * (places - ranks[0])
    bounds = {"lower_bound": found.low, "upper_bound": found.high}
    return bounds | {"knots": np.pad([found.low, *knots, found.high], degree, mode="edge").tolist()}


def _at_ranks(values: Float, wanted: Bool, counts: Int, before: Int, ranks: Int, bins: Int) -> Float:
    """The values at ranks among all records, from those of the bins that are wanted."""
    if values.size != counts[wanted].sum():
        raise DataError("the source gave other records than in the pass before: did it change? Fit again")
    start = np.cumsum(np.where(wanted, counts, 0)) - np.where(wanted, counts, 0)
    return np.asarray(values[start[bins] + ranks - before[bins]])
