"""The expected variance of Remark 1 equals the average over every release that could happen."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.analysis.question import question
from pramana.disclosure.planning.variance import design_variance
from pramana.disclosure.utility.expected_variance import by_unit, pilot_of
from pramana.estimators.reversion import reverted_records
from pramana.frames import Table, read

LEVELS = ("a", "b", "c")
FRAME = pd.DataFrame(
    {
        "z": ["a", "b", "c", "a", "b"],
        "w": [0, 1, 1, 0, 0],
        "x": [0.3, -1.0, 0.5, 1.2, 0.1],
        "y": [1.0, 0.2, 2.0, -0.5, 0.7],
        "k": [1, 2, 1, 3, 1],
        "region": ["n", "s", "n", "s", "n"],
    }
)
P = pr.TransitionMatrix.from_columns(LEVELS, [[0.7, 0.2, 0.1], [0.2, 0.7, 0.3], [0.1, 0.1, 0.6]])
BINARY = pr.TransitionMatrix.binary(0.8, 0.9)
JOINT = [(z, w) for z in LEVELS for w in (0, 1)]
STRATA = pr.Stratified("region", {"n": P, "s": pr.TransitionMatrix.randomized_response(LEVELS, 0.6)})


def own(beta: Any, z: Any, y: Any) -> np.ndarray:
    high = (z == "c").astype(float)
    return np.column_stack([y - beta[0] - beta[1] * high, high * (np.exp(-beta[1]) - 0.5)])


CASES: dict[str, tuple[Any, pr.Mechanism]] = {
    "covariate": ("y ~ z", pr.Mechanism({"z": P})),
    "response": ("w ~ x", pr.Mechanism({"w": BINARY})),
    "two columns": ("y ~ z + w", pr.Mechanism({"z": P, "w": BINARY})),
    "two columns as one": ("y ~ z", pr.Mechanism({("z", "w"): pr.TransitionMatrix.randomized_response(JOINT, 0.5)})),
    "strata": ("y ~ z", pr.Mechanism({"z": STRATA})),
    "logistic": (pr.glm("w ~ x", "binomial"), pr.Mechanism({"w": BINARY})),
    "poisson covariate": (pr.glm("k ~ 0 + z", "poisson"), pr.Mechanism({"z": P})),
    "shares": (pr.proportions("z"), pr.Mechanism({"z": P})),
    "own function": (pr.from_callable(own, ["level", "log"]), pr.Mechanism({"z": P})),
}


def scores(plan: Any, mechanism: pr.Mechanism, table: Table, released: Table, beta: np.ndarray) -> np.ndarray:
    """φ of the released records, by the estimator's own code."""
    function = plan.prepare(table, mechanism.schema)
    return np.asarray(function.equation(reverted_records(function, mechanism, released)).influence(beta))


def releases(mechanism: pr.Mechanism) -> Any:
    """Every released frame with its probability."""
    choices = []
    for assignment in mechanism.assignments:
        names = list(assignment.columns)
        table = read(FRAME)
        codes = assignment.encoded(table)
        for i in range(len(FRAME)):
            channel: Any = assignment.channel
            if isinstance(channel, pr.Stratified):
                channel = channel.strata[FRAME["region"][i]]
            options = [(names, i, level, channel.matrix[k, codes[i]]) for k, level in enumerate(channel.levels)]
            choices.append(options)
    for drawn in product(*choices):
        frame = FRAME.copy()
        chance = 1.0
        for names, i, level, p in drawn:
            values = (level,) if len(names) == 1 else level
            for name, value in zip(names, values, strict=True):
                frame.loc[i, name] = value
            chance *= p
        yield frame, chance


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("two columns", "two columns as one")])
def test_privacy_part_is_the_variance_over_all_releases(name: str) -> None:
    what, mechanism = CASES[name]
    plan, table = question(what), read(FRAME)
    pilot = pilot_of(plan, table, mechanism)
    frames, chances = zip(*releases(mechanism), strict=True)
    chance = np.array(chances)
    stacked = pd.concat(
        frames, ignore_index=True
    )  # one below the other: a record's score does not depend on the others
    phi = scores(plan, mechanism, table, read(stacked), pilot.estimate).reshape(len(frames), len(FRAME), -1)
    total = phi.sum(axis=1)
    mean = chance @ total
    second = np.einsum("r,ri,rj->ij", chance, total, total)
    outer = np.einsum("r,rni,rnj->ij", chance, phi, phi)
    assert np.allclose(mean, 0, atol=1e-9)
    privacy = pilot.privacy_meat(mechanism)
    assert np.allclose(privacy, second - np.outer(mean, mean), atol=1e-9)
    clean = pilot.at_truth.T @ pilot.at_truth
    assert np.allclose(privacy + clean, outer, atol=1e-9)


def test_units_that_share_a_draw_have_the_variance_over_all_their_releases() -> None:
    """Two persons with two records each, one with one; a draw a person, with all of its records."""
    frame = FRAME.assign(person=[0, 1, 2, 0, 1])
    mechanism = pr.Mechanism({"z": P}, "person")
    plan, table = question("y ~ z + x"), read(frame)
    pilot = pilot_of(plan, table, mechanism)
    whole = by_unit(pilot, mechanism)
    drawn = list(product(range(3), repeat=3))
    true = [LEVELS.index(frame["z"][i]) for i in range(3)]
    chance = np.array([np.prod([P.matrix[k, j] for k, j in zip(d, true, strict=True)]) for d in drawn])
    stacked = pd.concat([frame.assign(z=[LEVELS[d[u]] for u in frame["person"]]) for d in drawn], ignore_index=True)
    total = (
        scores(plan, mechanism, table, read(stacked), pilot.estimate).reshape(len(drawn), len(frame), -1).sum(axis=1)
    )
    assert np.allclose(whole.privacy_meat(mechanism), np.einsum("r,ri,rj->ij", chance, total, total), atol=1e-9)
    assert not np.allclose(pilot.privacy_meat(mechanism), whole.privacy_meat(mechanism), rtol=0.1)
    sums = pd.DataFrame(pilot.at_truth).groupby(frame["person"]).sum().to_numpy()
    assert np.allclose(whole.clean(), pilot.inverse @ sums.T @ sums @ pilot.inverse.T)


@pytest.mark.parametrize("name", ["two columns", "two columns as one"])
def test_privacy_part_adds_up_over_records(name: str) -> None:
    """Records are drawn independently, so one record at a time may be enumerated."""
    what, mechanism = CASES[name]
    plan, table = question(what), read(FRAME)
    pilot = pilot_of(plan, table, mechanism)
    total = np.zeros((len(pilot.parameters),) * 2)
    for i in range(len(FRAME)):
        for drawn in product(*(range(len(a.channel.levels or ())) for a in mechanism.assignments)):
            frame, chance = FRAME.copy(), 1.0
            for assignment, k in zip(mechanism.assignments, drawn, strict=True):
                channel: Any = assignment.channel
                chance *= channel.matrix[k, assignment.encoded(table)[i]]
                values = (channel.levels[k],) if len(assignment.columns) == 1 else channel.levels[k]
                for column, value in zip(assignment.columns, values, strict=True):
                    frame.loc[i, column] = value
            away = scores(plan, mechanism, table, read(frame), pilot.estimate)[i] - pilot.at_truth[i]
            total += chance * np.outer(away, away)
    assert np.allclose(pilot.privacy_meat(mechanism), total, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_the_oracle_is_the_fit_to_the_true_file(name: str) -> None:
    what, mechanism = CASES[name]
    if name == "own function":
        pytest.skip("its root is not unique")
    pilot = pilot_of(question(what), read(FRAME), mechanism)
    oracle = pr.fit(what, FRAME, mechanism, method="naive", inference=pr.Sandwich("HC0"))
    assert np.allclose(pilot.estimate, oracle.estimate)
    assert np.allclose(pilot.clean(), oracle.covariance)


def test_sampling_weights_enter_by_their_squares() -> None:
    frame = FRAME.assign(weight=[1.0, 2.0, 0.5, 3.0, 1.5])
    mechanism = pr.Mechanism({"z": P})
    pilot = pilot_of(question("y ~ z"), read(frame), mechanism, "weight")
    oracle = pr.fit("y ~ z", frame, mechanism, method="naive", weights="weight", inference=pr.Sandwich("HC0"))
    assert np.allclose(pilot.estimate, oracle.estimate)
    assert np.allclose(pilot.clean(), oracle.covariance)
    plain = pilot_of(question("y ~ z"), read(frame), mechanism)
    u = np.array([P.inverse.T @ row for row in pilot.u])
    chance = P.matrix.T[pilot.true[:, 0]]
    away = u - pilot.at_truth[:, None, :]
    assert np.allclose(pilot.privacy_meat(mechanism), np.einsum("nc,nci,ncj->ij", chance, away, away))
    assert not np.allclose(pilot.privacy_meat(mechanism), plain.privacy_meat(mechanism))


def test_equal_weights_change_no_variance() -> None:
    mechanism = pr.Mechanism({"z": P})
    same = pilot_of(question("y ~ z"), read(FRAME.assign(weight=7.0)), mechanism, "weight").expected(mechanism)
    plain = pilot_of(question("y ~ z"), read(FRAME), mechanism).expected(mechanism)
    assert np.allclose(same.total, plain.total)


def test_without_noise_nothing_is_lost() -> None:
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix.randomized_response(LEVELS, 1.0)})
    pilot = pilot_of(question("y ~ z"), read(FRAME), mechanism)
    assert np.allclose(pilot.expected(mechanism).privacy, 0)
    assert np.allclose(pilot.expected(mechanism).effective_n, len(FRAME))


def test_an_analysis_that_does_not_use_the_column_loses_nothing() -> None:
    mechanism = pr.Mechanism({"z": P})
    assert np.allclose(pilot_of(question("y ~ x"), read(FRAME), mechanism).expected(mechanism).inflation, 1)


@pytest.mark.parametrize("what", ["y ~ z", pr.proportions("z")])
def test_the_designers_objective_is_the_mean_inflation(what: Any) -> None:
    mechanism = pr.Mechanism({"z": P})
    pilot = pilot_of(question(what), read(FRAME), mechanism)
    objective = design_variance([pilot], None)
    assert objective.value(P.matrix) == pytest.approx(pilot.expected(mechanism).inflation.mean())


def test_the_objectives_gradient_is_its_derivative(rng: np.random.Generator) -> None:
    mechanism = pr.Mechanism({"z": P})
    objective = design_variance([pilot_of(question("y ~ z"), read(FRAME), mechanism)], None)
    move, step = rng.normal(size=(3, 3)), 1e-6
    slope = (objective.value(P.matrix + step * move) - objective.value(P.matrix - step * move)) / (2 * step)
    assert np.sum(objective.gradient(P.matrix) * move) == pytest.approx(slope, rel=1e-6)


def test_released_levels_may_be_renamed_at_no_cost() -> None:
    mechanism = pr.Mechanism({"z": P})
    objective = design_variance([pilot_of(question("y ~ z"), read(FRAME), mechanism)], None)
    assert objective.value(P.matrix[[2, 0, 1]]) == pytest.approx(objective.value(P.matrix))


def test_a_gini_coefficient_within_perturbed_domains_is_linearised_at_all_true_records() -> None:
    """Put into one domain, all records would leave the others without any to compare with."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"z": rng.choice(LEVELS, 90), "y": rng.gamma(2, size=90)})
    plan, mechanism = pr.gini("y", by="z"), pr.Mechanism({"z": P})
    pilot = pilot_of(plan, read(frame), mechanism)
    oracle = pr.fit(plan, frame, None, inference=pr.Sandwich("HC0"))
    np.testing.assert_allclose(pilot.expected(mechanism).clean_errors, oracle.standard_errors, rtol=1e-12)
    for k, level in enumerate(LEVELS):
        own = np.flatnonzero(frame["z"] == level)
        np.testing.assert_array_equal(pilot.u[:, k][:, np.arange(3) != k], 0.0)
        np.testing.assert_allclose(pilot.u[own, k], pilot.at_truth[own])
    assert np.all(pilot.expected(mechanism).inflation > 1.1)
