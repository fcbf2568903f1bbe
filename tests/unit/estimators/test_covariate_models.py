"""What records tell of the clean covariates adds up over parts, and a plan made of it knows every record's cell."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import pramana as pr
from pramana.estimators.likelihood.covariate_model import CovariateCells, CovariateCounts, CovariatePlan, covariate_plan
from pramana.frames.table import read


def columns(n: int, seed: int = 1) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "sex": np.array(["f", "m"], dtype=object)[rng.integers(0, 2, n)],
        "age": rng.choice([20, 30, 50], n),
        "town": np.array(["a", "much longer", "b"], dtype=object)[rng.choice(3, n, p=[0.8, 0.15, 0.05])],
        "risk": rng.random(n) < 0.3,
    }


def part(clean: dict[str, Any], rows: slice) -> dict[str, Any]:
    return {name: values[rows] for name, values in clean.items()}


def added(clean: dict[str, Any], size: int, counts: Any = None, **options: Any) -> CovariateCounts:
    n = len(next(iter(clean.values())))
    found = None
    for low in range(0, n, size):
        rows = slice(low, min(low + size, n))
        own = None if counts is None else counts[rows]
        more = CovariateCounts.of(part(clean, rows), rows.stop - rows.start, own, **options)
        found = more if found is None else found + more
    assert found is not None
    return found


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_cells_are_counted_as_by_hand_whatever_parts_they_come_in(size: int) -> None:
    clean, counts = columns(300), np.random.default_rng(2).integers(1, 4, 300).astype(float)
    slow: Counter[tuple[str, ...]] = Counter()
    for *key, count in zip(*clean.values(), counts, strict=True):
        slow[tuple(map(str, key))] += count
    seen = added(clean, size, counts)
    assert seen.cells is not None
    found = {
        tuple(str(v[k]) for v, k in zip(seen.values, cell, strict=True)): n
        for cell, n in zip(seen.cells, seen.sizes, strict=True)
    }
    assert found == slow
    assert seen.records == counts.sum()
    assert seen.levels == {"sex": {"f", "m"}, "town": {"a", "b", "much longer"}}


def test_every_record_is_found_in_its_cell() -> None:
    clean = columns(200)
    cells = added(clean, 13).by_cell()
    place = cells.place(clean, 200)
    keys = [tuple(map(str, key)) for key in zip(*clean.values(), strict=True)]
    assert len({(key, int(k)) for key, k in zip(keys, place, strict=True)}) == len(set(keys)) == len(cells.kept)
    np.testing.assert_array_equal(cells(clean, 200), place[:, None] == np.arange(len(cells.kept)))
    some = part(clean, slice(0, 40))
    np.testing.assert_array_equal(cells.place(some, 40), place[:40])


def test_cells_beyond_counting_and_values_that_nobody_had() -> None:
    many = {"x": np.arange(2000.0)}
    assert CovariateCounts.of(many, 2000).cells is None
    assert added(many, 500).cells is None
    assert CovariateCounts.of(many, 2000).many_valued
    cells = CovariateCounts.of({"x": np.array([1.0, 2.0])}, 2).by_cell()
    with pytest.raises(pr.DataError, match="gave other values of the clean covariates than in the pass before"):
        cells.place({"x": np.array([1.0, 3.0])}, 2)


def test_without_clean_covariates_there_is_one_cell() -> None:
    seen = CovariateCounts.of({}, 5) + CovariateCounts.of({}, 3)
    cells = seen.by_cell()
    assert (seen.records, seen.sizes.tolist()) == (8, [8])
    np.testing.assert_array_equal(cells({}, 4), np.ones((4, 1)))


def test_main_effects_of_a_part_are_those_of_all() -> None:
    clean = columns(120) | {"x": np.random.default_rng(4).normal(size=120)}
    plan = covariate_plan(None, added(clean, 17, cells=False), 2, read(clean), ("y", "edu"))
    whole = plan.of(read(clean)).design
    assert plan.regressors.names[:3] == ("Intercept", "sex[T.m]", "age")
    assert plan.coefficients == whole.shape[1]
    rows = [plan.regressors(part(clean, slice(k, k + 1)), 1) for k in range(120)]
    np.testing.assert_array_equal((np.concatenate(rows) - plan.middle) / plan.spread, whole)
    np.testing.assert_array_equal(whole[:, 0], 1.0)
    assert set(np.unique(whole[:, 1])) == {0.0, 1.0}, "indicators stay as they are"
    assert abs(whole[:, 2].mean()) < 1e-12


@pytest.mark.parametrize(("unit", "origin"), [(1e-3, 0.0), (1e-3, 5.0), (40.0, -9000.0)])
def test_unit_and_origin_of_a_clean_covariate_change_nothing(unit: float, origin: float) -> None:
    """Coefficients of the covariates' model below -40 were once taken for probabilities at zero."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=800)
    edu = (rng.random(800) < 1 / (1 + np.exp(1.5 * x))).astype(int)
    mechanism = pr.Mechanism({"edu": pr.TransitionMatrix.binary(0.9, 0.85)})
    true = {"edu": edu, "x": x, "y": edu + 0.5 * x + rng.normal(size=800)}
    data = mechanism.perturb(true, seed=1)
    plain, other = (
        pr.fit("y ~ edu + x", data | {"x": values}, mechanism, method="likelihood") for values in (x, origin + unit * x)
    )
    assert isinstance(plain, pr.LikelihoodResult)
    assert isinstance(other, pr.LikelihoodResult)
    assert other.log_likelihood == pytest.approx(plain.log_likelihood, abs=1e-7)
    np.testing.assert_allclose(other["edu"].estimate, plain["edu"].estimate, rtol=1e-7)
    assert (other.parameter_count, other.diagnostics) == (plain.parameter_count, plain.diagnostics)


def test_tables_of_some_cells_fill_all() -> None:
    clean = {"g": np.repeat([1, 2, 3], 4)}
    plan = CovariatePlan(CovariateCounts.of(clean, 12).by_cell(), 2, "saturated given g")
    few = read({"g": [1, 3, 3]})
    own, places = plan.among(few)
    assert isinstance(own.regressors, CovariateCells)
    np.testing.assert_array_equal(places, [0, 2])
    np.testing.assert_array_equal(own.of(few).design, [[1, 0], [0, 1], [0, 1]])
    gamma = np.log(np.array([[0.5, 0.5], [0.2, 0.8]]))
    found = plan.filled(gamma, np.array([1.0, 2.0]), places)
    np.testing.assert_array_equal(found[places], gamma)
    shares = np.exp(found[1]) / np.exp(found[1]).sum()
    np.testing.assert_allclose(shares, (np.array([0.5, 0.5]) + 2 * np.array([0.2, 0.8])) / 3)
