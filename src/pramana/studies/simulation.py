"""Replicates of a scenario: generate, perturb, estimate with any set of methods, many data sets at once or one by one, collect."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import add
from typing import Any, Literal, TypeAlias

import numpy as np

from pramana.arrays import Bool, Float, Int
from pramana.engines import Engine
from pramana.errors import PramanaWarning, SolveError
from pramana.estimating import Equation, EstimatingFunction
from pramana.estimators import Method, Naive, method_of
from pramana.estimators.made import MadeRecords
from pramana.frames import Table
from pramana.inference import Resampling, Sandwich
from pramana.inference.many import DataSets, MadeDataSets, ManySets
from pramana.inference.resampling import NORMAL_IQR, resample, solve_draw
from pramana.kernels import backend
from pramana.kernels.newton import solve_each
from pramana.kernels.streams import keys_of
from pramana.mechanism import Mechanism
from pramana.pipeline import fit
from pramana.result import Result
from pramana.studies.scenario import Analyst, Population, Scenario, truth_of

NumbersByName = dict[str, Float]
Way = str | Method | Analyst
"""A name or method as in `fit`, "true data" for the true data, or an analyst."""


LEARNED = 1000
"""Records from which names are learned where the others are made on a device."""
RunReplicates: TypeAlias = Callable[[Scenario, Sequence[int], int], "ReplicateEstimates"]


@dataclass(frozen=True)
class Study:
    """Scenarios to run with the same methods.

    Attributes
    ----------
    inferred : labels of the methods that get standard errors.
    reference : label of the method that the reversion's mean squared error is divided by.
    prices : sums of variances by label, each in units of that from the true data: what a part of the noise costs.
    block : replicates in one unit of work.
    page : what its page shows: "table" (five estimators over sample sizes), "map" (efficiency over a grid), "noise" (intervals
        of `fit`, wrong beliefs and prices), "race" (many estimators on data of many kinds), "table 1" (the paper's, with another column), or "plain".
    about : the population in words, for the page.
    replicates : (scenario, indices, seed) ↦ estimates, where they are not those of `run_replicates`. summary : of these, a `StudyResult`, where it is not
        that of `summarize`.
    """

    name: str
    title: str
    scenarios: tuple[Scenario, ...]
    methods: tuple[Way, ...]
    inferred: tuple[str, ...] = ()
    reference: str | None = None
    prices: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    block: int = 100
    page: Literal["table", "map", "noise", "race", "table 1", "plain"] = "plain"
    about: str = ""
    replicates: RunReplicates | None = None
    summary: Callable[[Scenario, ReplicateEstimates], Any] | None = None


@dataclass(frozen=True)
class ReplicateEstimates:
    """What each method gave in each replicate: arrays (R, d) by method and name, NaN where it failed."""

    parameters: tuple[str, ...]
    values: Mapping[str, NumbersByName]

    def __add__(self, other: ReplicateEstimates) -> ReplicateEstimates:
        joined = {
            m: {k: np.concatenate([v, other.values[m][k]]) for k, v in numbers.items()}
            for m, numbers in self.values.items()
        }
        return ReplicateEstimates(self.parameters or other.parameters, joined)


def run_replicates(
    scenario: Scenario,
    methods: Sequence[Way] = ("reversion", "true data", "naive"),
    replicates: int | Sequence[int] = 1000,
    seed: int = 1,
    *,
    inference: Sandwich | Resampling | None = None,
    inferred: Sequence[str] = ("reversion",),
    block: int = 250,
    device: str = "cpu",
) -> ReplicateEstimates:
    """Run a scenario.

    Parameters
    ----------
    methods : as in `fit`, "true data" for the estimate from the true data, and `Analyst`s.
    replicates : how many, or which indices; a replicate's numbers depend on its index alone.
    inference : how the methods named in `inferred` get standard errors; none by default.
    device : "cpu", or "gpu" to make every data set of a `Population`, and to solve it and its resamples, through JAX; what the device
        does not know is made and solved on the CPU, from the same bits.
    """
    if device != "cpu":
        backend.accelerated(device)
    indices = range(replicates) if isinstance(replicates, int) else list(replicates)
    parts = [
        _block(scenario, methods, indices[k : k + block], seed, inference, inferred, device)
        for k in range(0, len(indices), block)
    ]
    return reduce(add, parts)


def label_of(method: Way) -> str:
    if isinstance(method, Analyst):
        return method.label
    return "true data" if method == "true data" else method_of(method).label


def _block(
    scenario: Scenario,
    methods: Sequence[Way],
    indices: Sequence[int],
    seed: int,
    inference: Sandwich | Resampling | None,
    inferred: Sequence[str],
    device: str,
) -> ReplicateEstimates:
    data = ReplicateData(scenario, indices, seed, device)
    values: dict[str, NumbersByName] = {}
    parameters: tuple[str, ...] = ()
    for method in methods:
        analyst = _alone(method)
        if analyst is not None:
            found, values[analyst.label] = _analysed(analyst, scenario, indices, seed)
            parameters = parameters or found
            continue
        assert not isinstance(method, Analyst)
        sets = data.under(method)
        if not sets.together:
            found, values[label_of(method)] = _one_by_one(scenario, method, indices, seed)
            parameters = parameters or found
            continue
        parameters = sets.parameters
        beta = sets.solve(truth_of(scenario, parameters))
        numbers: NumbersByName = {"estimate": beta}
        if inference is not None and label_of(method) in inferred:
            seeds = [scenario.draw_seed(seed, r) for r in indices]
            numbers |= standard_errors(sets, beta, inference, seeds)
        values[label_of(method)] = numbers
    return ReplicateEstimates(parameters, values)


def _alone(method: Way) -> Analyst | None:
    """Who takes one data set after the other; None for a method that solves many at once."""
    if isinstance(method, Analyst):
        return method
    chosen = None if method == "true data" else method_of(method)
    return Analyst(chosen.label, method=chosen) if chosen is not None and chosen.one_by_one else None


@dataclass(frozen=True)
class _Prepared:
    """A table of replicates, and the question with what it learns from them."""

    table: Table
    scenario: Scenario

    @cached_property
    def function(self) -> EstimatingFunction:
        return self.scenario.plan.prepare(self.table, self.scenario.mechanism.schema)


@dataclass(frozen=True)
class ReplicateData:
    """The data sets of a block, true and released: on the CPU, or made on a device."""

    scenario: Scenario
    indices: Sequence[int]
    seed: int
    device: str = "cpu"

    @cached_property
    def tables(self) -> tuple[_Prepared, _Prepared]:
        """True and released, on the CPU."""
        truth, released = self.scenario.data(self.seed, self.indices)
        return _Prepared(truth, self.scenario), _Prepared(released, self.scenario)

    @cached_property
    def first(self) -> ReplicateData:
        """The first few on the CPU, from which names are learned, and of which methods refuse what they cannot estimate."""
        return ReplicateData(self.scenario, self.indices[: -(-LEARNED // self.scenario.n)], self.seed)

    def alone(self, place: int, method: Method, oracle: bool) -> Equation:
        """The equation of one of them, made on the CPU behind the first few, so that it is bound even where it has no root."""
        few, n = [*self.first.indices, self.indices[place]], self.scenario.n
        together = ReplicateData(self.scenario, few, self.seed).bound(method, oracle)
        return together.rows(slice(n * (len(few) - 1), n * len(few)))

    @cached_property
    def made(self) -> MadeRecords | None:
        """The data sets on the device; None where it cannot make them."""
        population, scenario = self.scenario.generate, self.scenario
        if self.device == "cpu" or not isinstance(population, Population):
            return None
        function, starts = self.first.tables[1].function, scenario.starts(self.seed, self.indices)
        return MadeRecords.of(function, scenario.mechanism, population.columns, starts, scenario.n)

    def under(self, method: str | Method) -> ManySets:
        """The data sets under one method."""
        oracle, made = method == "true data", self.made
        chosen = Naive() if oracle else method_of(method)
        if made is not None:
            self.first.bound(chosen, oracle)
            held = chosen.bind_made(made.unperturbed if oracle else made)
            if held is not None:
                names = made.function.parameters
                return MadeDataSets(names, len(self.indices), held, lambda g: self.alone(g, chosen, oracle))
        return DataSets(self.bound(chosen, oracle, self.device), len(self.indices), self.device)

    def bound(self, method: Method, oracle: bool, device: str = "cpu") -> Equation:
        """The equation of all data sets, over records on the CPU; the oracle's of the true ones."""
        of, mechanism = self.tables[0 if oracle else 1], self.scenario.mechanism
        known = mechanism.of_truth if oracle else mechanism
        return method.bind_each(of.function, known, of.table, len(self.indices), device)


def _one_by_one(
    scenario: Scenario, method: str | Method, indices: Sequence[int], seed: int
) -> tuple[tuple[str, ...], NumbersByName]:
    """The parameters' names and what `fit` finds in each data set, of a question whose data sets are not solved together."""
    oracle = method == "true data"
    mechanism, chosen = (scenario.mechanism.of_truth, Naive()) if oracle else (scenario.mechanism, method)
    tables = (scenario.data(seed, [r])[0 if oracle else 1] for r in indices)
    return _collected(scenario, [_fitted(scenario, table, mechanism, chosen) for table in tables])


def _collected(scenario: Scenario, fits: Sequence[Result | None]) -> tuple[tuple[str, ...], NumbersByName]:
    names = next((result.parameters for result in fits if result is not None), ())
    d = truth_of(scenario, names).size if names else len(scenario.truth)
    rows = [_interval_numbers(result, d) for result in fits]
    return names, {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def _analysed(
    analyst: Analyst, scenario: Scenario, indices: Sequence[int], seed: int
) -> tuple[tuple[str, ...], NumbersByName]:
    """The parameters' names, where a data set has an answer, and what an analyst finds in each."""
    given = analyst.given(scenario)
    seeds = [given.draw_seed(seed, r) for r in indices]
    if analyst.by == "fit":
        pairs = zip(indices, seeds, strict=True)
        fits = [
            _fitted(given, given.data(seed, [r])[1], analyst.idea(given, draws), analyst.method) for r, draws in pairs
        ]
        return _collected(given, fits)
    believed = replace(given, mechanism=analyst.idea(given, seeds[0]))
    released = _Prepared(given.data(seed, indices)[1], believed)
    equation = method_of("reversion").bind_each(released.function, believed.mechanism, released.table, len(indices))
    sets = DataSets(equation, len(indices))
    beta = sets.solve(truth_of(believed, sets.parameters))
    errors = standard_errors(sets, beta, Sandwich(), seeds) if analyst.by == "wald" else {}
    return sets.parameters, {"estimate": beta, **errors}


def _fitted(scenario: Scenario, released: Table, mechanism: Mechanism, method: str | Method) -> Result | None:
    """What a user gets; None where there is no root."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PramanaWarning)
        try:
            return fit(scenario.what, released, mechanism, family=scenario.family, link=scenario.link, method=method)
        except SolveError:
            return None


def _interval_numbers(result: Result | None, d: int) -> NumbersByName:
    if result is None:
        return dict.fromkeys(("estimate", "se_fit", "low_fit", "high_fit"), np.full(d, np.nan))
    low, high = result.interval().T
    return {"estimate": result.estimate, "se_fit": result.standard_errors, "low_fit": low, "high_fit": high}


def standard_errors(
    sets: ManySets, beta: Float, inference: Sandwich | Resampling, seeds: Sequence[int]
) -> NumbersByName:
    """Standard errors and what else the resamples say, in every data set that has an estimate; NaN in the others.

    Every data set has a sandwich; where `inference` is a `Resampling`, draws are added to it."""
    if sets.held is not None and isinstance(inference, Resampling) and inference.weights == "exponential":
        return _on_device(sets, beta, inference, seeds)
    rows: list[NumbersByName | None] = []
    for g in range(sets.groups):
        if not np.all(np.isfinite(beta[g])):
            rows.append(None)
            continue
        engine = sets.part(g)
        try:
            rows.append(_one(engine, sets, g, beta, inference, seeds[g]))
        except SolveError:
            rows.append(None)
    return _stacked(rows, beta.shape[1])


def _one(
    engine: Engine, sets: ManySets, g: int, beta: Float, inference: Sandwich | Resampling, seed: int
) -> NumbersByName:
    from pramana.estimators.uncertainty import sandwich_errors

    out: NumbersByName = {"se_sandwich": sandwich_errors(engine, beta[g])}
    if isinstance(inference, Resampling):
        options = replace(inference, seed=seed)
        draws = resample(engine, sets.root(g, beta), options)
        out |= draw_statistics(draws.values)
        out["rootless"] = np.full(beta.shape[1], float(draws.rootless))
        out["se_one_step"] = _one_step(engine, beta[g], options, seed)
    return out


def _on_device(sets: ManySets, beta: Float, inference: Resampling, seeds: Sequence[int]) -> NumbersByName:
    """The same numbers with every draw solved on the device; draws without a root there go to the careful solver."""
    assert sets.held is not None
    safe = np.where(np.isfinite(beta).all(axis=1, keepdims=True), beta, 0.0)
    errors, scale = sets.held.sandwich(safe)
    found = sets.held.resampled(safe, keys_of(seeds, np.arange(inference.draws)), scale)
    numbers = _named(found.quantiles, found.spread) | {"rootless": np.zeros_like(beta)}
    for g, (values, rooted) in found.open.items():
        _resolve(sets.part(g), replace(inference, seed=seeds[g]), seeds[g], beta[g], values, rooted)
    if found.open:
        opened = draw_statistics(np.stack([values for values, _ in found.open.values()]))
        for name, v in opened.items():
            numbers[name][list(found.open)] = v
    numbers |= {"se_sandwich": errors, "se_one_step": found.first}
    failed = ~np.isfinite(beta).all(axis=1, keepdims=True)
    return {name: np.where(failed, np.nan, v) for name, v in numbers.items()}


def _resolve(engine: Engine, options: Resampling, seed: int, beta: Float, values: Float, found: Bool) -> None:
    """Give the draws that the device could not solve to the careful solver; NaN where no root exists."""
    for m in np.flatnonzero(~found):
        weights = engine.drawn(options.weights, seed, np.array([m]))
        reached = values[m] if np.all(np.isfinite(values[m])) else beta
        values[m] = solve_draw(lambda _w: engine, weights, reached)


def draw_statistics(values: Float) -> NumbersByName:
    """Scales and percentiles (…, d) of draws (…, M, d), those without a root (NaN) left out and counted."""
    rooted = np.asarray(np.isfinite(values).all(axis=-1))
    count = rooted.sum(axis=-1)[..., None]
    kept = np.sort(np.where(rooted[..., None], values, np.inf), axis=-2)
    quantiles = [_quantile(kept, q, count) for q in (0.25, 0.75, 0.025, 0.975)]
    held = np.where(rooted[..., None], values, 0.0)
    with np.errstate(all="ignore"):  # of one draw or none there is no spread
        off = np.where(rooted[..., None], values - (held.sum(axis=-2) / count)[..., None, :], 0.0)
        spread = np.sqrt(np.where(count > 1, (off**2).sum(axis=-2) / (count - 1), np.nan))
    lost = np.broadcast_to(values.shape[-2] - count, spread.shape).astype(np.float64)
    return _named(np.stack(quantiles), spread) | {"rootless": lost}


def _quantile(ordered: Float, q: float, count: Int) -> Float:
    """Of the first `count` (…, 1) of ordered draws (…, M, d), on the line between the two around it; NaN where there are none."""
    place = q * (count - 1)
    low = np.clip(np.floor(place).astype(np.int64), 0, None)
    below, above = (
        np.take_along_axis(ordered, k[..., None, :], axis=-2)[..., 0, :] for k in (low, np.clip(low + 1, 0, count - 1))
    )
    with np.errstate(invalid="ignore"):
        return np.where(count > 0, below + (above - below) * (place - low), np.nan)


def _named(quantiles: Float, spread: Float) -> NumbersByName:
    quartile1, quartile3, low, high = quantiles
    return {"se_iqr": (quartile3 - quartile1) / NORMAL_IQR, "se_sd": spread, "low": low, "high": high}


def _one_step(engine: Engine, beta: Float, options: Resampling, seed: int) -> Float:
    """Standard deviation of single Newton steps from the estimate: no root is asked of any draw."""
    weights = engine.drawn(options.weights, seed, np.arange(options.draws))
    score, slope = engine.score_and_slope(beta[None], weights)
    return np.asarray(np.nanstd(solve_each(slope, score), axis=0, ddof=1))


def _stacked(rows: list[NumbersByName | None], d: int) -> NumbersByName:
    names = next((list(r) for r in rows if r is not None), [])
    empty = np.full(d, np.nan)
    return {name: np.stack([empty if r is None else r[name] for r in rows]) for name in names}
