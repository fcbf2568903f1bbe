"""Plans and frontiers that were tried out."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import pramana as pr
from pramana.analysis.question import question
from pramana.disclosure.planning.keep_probability import keep_for_proportion
from pramana.disclosure.planning.simulated import Trial, _Drawn, _People, replicates_of
from pramana.disclosure.utility.expected_variance import by_unit, pilot_of
from pramana.engines import Sampling
from pramana.estimating import Equation
from pramana.frames import read

LOGIT: dict[str, Any] = {"analysis": "y ~ x", "family": "binomial"}


def logistic(n: int = 1000) -> dict[str, Any]:
    rng = np.random.default_rng(10)
    x = rng.normal(0.5, 1, n)
    return {"x": x, "y": np.where(rng.random(n) < expit(-1 + 1.5 * x), "yes", "no")}


def domain(n: int = 2000) -> dict[str, Any]:
    rng = np.random.default_rng(11)
    rare = rng.random(n) < 0.03
    return {"g": np.where(rare, "rare", "usual"), "y": 2.0 * rare + rng.normal(size=n)}


def panel() -> dict[str, Any]:
    rng = np.random.default_rng(12)
    person = np.repeat(np.arange(150), rng.integers(1, 7, 150))
    g, own = rng.integers(0, 2, 150)[person], rng.normal(size=150)[person]
    y = 0.7 * g + own + rng.normal(size=person.size)
    return {"y": y, "g": np.array(list("ab"))[g], "person": person}


def binary(keep: float, levels: Any = "ab") -> pr.TransitionMatrix:
    return pr.TransitionMatrix.randomized_response(list(levels), keep)


@pytest.mark.parametrize("target", [0.5, pytest.param(0.25, marks=pytest.mark.verify)])
def test_a_logistic_response_needs_more_than_its_asymptotic_plan(target: float) -> None:
    """Asked for 0.25 the asymptotic plan gave 0.32, asked for 0.5 it gave 0.79, with files that had no root."""
    made = pr.plan(logistic(), "y", se={"x": target}, simulate=40, **LOGIT)
    row, tried = made.targets[0], made.simulation
    assert tried is not None
    assert made.keep > tried.asymptotic_keep + 0.005
    assert 0.9 * target < row.simulated <= 1.01 * target  # type: ignore[operator]
    assert row.expected < target
    assert row.coverage == pytest.approx(0.95, abs=0.12)
    assert tried.failed == 0
    pilot = pilot_of(question("y ~ x", "binomial"), read(logistic()), made.mechanism)
    before = Trial(pilot, 1000, 40, 1).of(pr.Mechanism({"y": binary(tried.asymptotic_keep, ("no", "yes"))}))
    assert before.sd[1] > target * 1.02 or not before.usable


def test_a_small_domain_needs_more_than_its_asymptotic_plan() -> None:
    made = pr.plan(domain(), "g", "mean(y, by=g)", se={"mean(y)[g=rare]": 0.6}, simulate=40)
    assert made.simulation is not None
    assert made.keep > made.simulation.asymptotic_keep + 0.003
    assert made.targets[0].simulated <= 0.606  # type: ignore[operator]


def test_a_frontier_tells_what_releases_really_lose() -> None:
    front = pr.frontier(logistic(), "y", [0.6, 0.9], analysis=pr.glm("y ~ x", "binomial"), term="x", simulate=40)
    low, high = front.points
    assert low.simulated > 1.3 * low.inflation  # type: ignore[operator]
    assert high.simulated == pytest.approx(high.inflation, rel=0.15)
    assert low.effective == pytest.approx(1 / low.simulated)  # type: ignore[operator]
    assert 0.8 < high.coverage <= 1  # type: ignore[operator]
    assert "40 releases a design" in str(front)
    assert json.loads(front.summary("json"))["points"][0]["failed"] == low.failed
    assert {"simulated", "error", "coverage"} <= set(front.table)
    assert front.plot().axes


def test_a_share_is_linear_so_that_simulating_it_changes_nothing() -> None:
    """The linear part of the estimate is all of it: the Monte Carlo error is gone, and the closed form stays."""
    data = {"z": ["a"] * 90 + ["b"] * 10}
    made = pr.plan(data, "z", se=0.02, n=1000, simulate=40)
    assert made.keep == pytest.approx(keep_for_proportion(0.1, 1000, 0.02), abs=1e-8)
    assert made.targets[0].simulated == pytest.approx(0.02, rel=1e-6)
    assert made.targets[0].error < 1e-6  # type: ignore[operator]
    pilot = pilot_of(pr.proportions("z"), read(data), made.mechanism)
    wrong = Trial(pilot, 1000, 40, 1).of(pr.Mechanism({"z": binary(0.75)}))
    assert wrong.sd[0] > 0.025


def test_an_unperturbed_file_is_fitted_as_by_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records drawn, given to `fit` one file after the other, have the very estimates that are counted."""
    data, identity = logistic(300), pr.Mechanism({"y": binary(1.0, ("no", "yes"))})
    pilot = pilot_of(question("y ~ x", "binomial"), read(data), identity)
    drawn: list[_Drawn] = []
    draw = _People.drawn
    monkeypatch.setattr(_People, "drawn", lambda *a: drawn.append(draw(*a)) or drawn[-1])
    found = Trial(pilot, 200, 40, 3).of(identity)
    files = [drawn[0].rows[part] for part in drawn[0].files]
    fits = [pr.fit("y ~ x", {k: v[rows] for k, v in data.items()}, None, family="binomial") for rows in files]
    away = np.array([f.estimate for f in fits])
    assert np.allclose(found.robust, np.subtract(*np.quantile(away, [0.75, 0.25], axis=0)) / 1.3489795, rtol=1e-6)
    assert found.sd == pytest.approx(away.std(axis=0, ddof=1), rel=0.3)
    held = [(f.interval()[:, 0] <= pilot.truth) & (pilot.truth <= f.interval()[:, 1]) for f in fits]
    assert np.array_equal(found.coverage, np.mean(held, axis=0))


def test_records_of_a_unit_are_drawn_together_and_share_their_draws() -> None:
    data = panel()
    shared, own = (pr.Mechanism({"g": binary(0.8)}, unit) for unit in ("person", None))
    pilot = pilot_of(question("y ~ g"), read(data), shared)
    for mechanism, ratio in ((shared, 1.0), (own, 1.5)):
        expected = by_unit(pilot, mechanism).expected(mechanism).standard_errors
        found = Trial(pilot, pilot.n, 40, 1).of(mechanism)
        assert found.sd == pytest.approx(expected, rel=0.12)
        assert np.all(by_unit(pilot, shared).expected(shared).standard_errors > 0.9 * ratio * expected)
    made = pr.plan(data, "g", "y ~ g", se={"g": 0.4}, mechanism=shared, simulate=40)
    assert made.mechanism.unit == shared.unit
    assert made.keep > pr.plan(data, "g", "y ~ g", se={"g": 0.4}, mechanism=own, simulate=40).keep + 0.05


def test_a_unit_whose_value_changes_has_a_draw_a_level() -> None:
    data = panel()
    data["g"] = np.where(np.random.default_rng(1).random(len(data["g"])) < 0.5, "a", "b")
    with pytest.raises(pr.PramanaError, match=r"another true value .* varies=True"):
        pr.plan(data, "g", "y ~ g", se=0.4, mechanism=pr.Mechanism({"g": binary(0.8)}, "person"), simulate=40)
    varying = pr.Mechanism({"g": binary(0.8)}, pr.Unit("person", varies=True))
    assert pr.plan(data, "g", "y ~ g", se=0.4, mechanism=varying, simulate=40).targets[0].simulated < 0.41  # type: ignore[operator]


def test_weights_strata_and_other_columns_take_part() -> None:
    rng = np.random.default_rng(5)
    n = 800
    data = {"g": rng.choice(list("ab"), n), "s": rng.choice(list("mf"), n), "h": rng.choice(list("uv"), n)}
    data |= {"w": rng.uniform(0.5, 2, n), "y": (data["g"] == "b") + 0.5 * (data["h"] == "v") + rng.normal(size=n)}
    beside = pr.Mechanism({"h": pr.Stratified("s", {"m": binary(0.9, "uv"), "f": binary(0.75, "uv")})})
    made = pr.plan(data, "g", "y ~ g + h", se={"g": 0.2}, weights="w", mechanism=beside, simulate=60)
    assert made.targets[0].simulated == pytest.approx(made.targets[0].expected, rel=0.08)
    assert made.targets[0].coverage > 0.8  # type: ignore[operator]


def test_targets_out_of_reach_are_refused_by_what_was_simulated() -> None:
    data = logistic(60)
    asymptotic = pr.plan(data, "y", se={"x": 2.0}, simulate=0, **LOGIT).targets[0].clean
    with pytest.raises(pr.PramanaError, match=r"even with 'y' unperturbed, 60 simulated .* use about \d+ records"):
        pr.plan(data, "y", se={"x": 1.02 * asymptotic}, simulate=60, **LOGIT)


def test_the_records_that_a_target_needs_are_tried_too() -> None:
    data = logistic(60)
    with pytest.raises(pr.PramanaError, match=r"use at least (\d+) records") as plain:
        pr.plan(data, "y", se={"x": 0.35}, simulate=0, **LOGIT)
    with pytest.raises(pr.PramanaError, match=r"use at least (\d+) records") as tried:
        pr.plan(data, "y", se={"x": 0.35}, simulate=60, **LOGIT)
    needed = [int(str(e.value).split("at least ")[1].split()[0]) for e in (plain, tried)]
    assert needed[1] > needed[0]


def test_a_plan_without_simulation_says_so_and_the_seed_decides() -> None:
    data = logistic(100)
    bare = pr.plan(data, "y", se=0.1, simulate=0)
    assert bare.simulation is None
    assert "asymptotic, not simulated" in str(bare)
    assert bare.to_dict()["simulation"] is None
    one, two, other = (pr.plan(data, "y", se=0.1, simulate=40, seed=s) for s in (1, 1, 2))
    assert one.to_dict() == two.to_dict()
    assert one.targets != other.targets
    assert "asymptotically" in str(one)
    assert "± " in str(one).replace("\n", " ")


@pytest.mark.parametrize("simulate", [-1, 3, 0.5, True, "many"])
def test_too_few_releases_are_refused(simulate: Any) -> None:
    with pytest.raises(pr.PramanaError, match="must be 0, for none, or a whole number of at least 40"):
        pr.plan(logistic(100), "y", se=1.0, simulate=simulate)
    with pytest.raises(pr.PramanaError, match="must be 0"):
        pr.frontier(logistic(100), "y", [0.8], analysis=pr.proportions("y"), simulate=simulate)


def test_a_seed_is_a_whole_number() -> None:
    with pytest.raises(pr.PramanaError, match="seed=-1 must be a whole number"):
        pr.plan(logistic(100), "y", se=1.0, seed=-1)


def test_a_frontier_of_noise_alone_says_that_nothing_is_left() -> None:
    front = pr.frontier(logistic(40), "y", [0.505], analysis=pr.glm("y ~ x", "binomial"), simulate=40)
    found = json.loads(front.summary("json"))["points"][0]
    assert found["failed"] > 0.3
    assert front.points[0].effective is not None
    assert "no answer" in str(front)


def test_totals_have_a_frontier_too() -> None:
    data = logistic(200) | {"z": np.arange(200) % 3 == 0}
    front = pr.frontier(data, "z", [0.8], analysis="total(x, by=z)", simulate=60)
    assert front.points[0].simulated == pytest.approx(front.points[0].inflation, rel=0.5)


def test_the_budget_is_in_records() -> None:
    assert [replicates_of(None, n) for n in (100, 25_000, 100_000, 10**7)] == [400, 400, 100, 40]
    assert replicates_of(2000, 10**7) == 2000


def test_a_design_that_mostly_fails_is_given_up_early(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    pilot = pilot_of(question("y ~ x", "binomial"), read(logistic(60)), pr.Mechanism({"y": binary(0.9, ("no", "yes"))}))
    noise = pr.Mechanism({"y": binary(0.53, ("no", "yes"))})
    found = Trial(pilot, 60, 400, 1).of(noise, lambda *a: seen.append(a), intervals=False)
    assert found.replicates < 200
    assert not found.usable


def test_progress_is_told_and_rises() -> None:
    shares: list[float] = []
    options: dict[str, Any] = {"simulate": 40, "tell": lambda done, total: shares.append(done / total)}
    pr.plan(logistic(100), "y", se=0.1, **options)
    assert shares == sorted(shares)
    assert 0 < shares[0] < 0.2
    assert shares[-1] == 1
    shares.clear()
    pr.frontier(logistic(100), "y", [0.8, 0.9], analysis=pr.proportions("y"), chosen=0.85, **options)
    assert shares == sorted(shares)


def test_equations_are_asked_without_records_of_others() -> None:
    """Every file has as many records as were asked for, and its own weights."""
    data = logistic(100) | {"w": np.arange(1.0, 101.0)}
    mechanism = pr.Mechanism({"y": binary(0.9, ("no", "yes"))})
    pilot = pilot_of(question("y ~ x", "binomial"), read(data), mechanism, "w")
    files: list[tuple[Equation, Sampling]] = list(
        Trial(pilot, 70, 40, 1)._files(mechanism, _People.of(pilot.table, mechanism))
    )
    assert len(files) == 40
    assert all(e.n == s.rows == 70 for e, s in files)
    assert len({float(s.row_weights.sum()) for _, s in files}) > 30
