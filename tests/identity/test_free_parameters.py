"""Matrices with free parameters: the reversion undoes them, shares are the published closed forms, and the stack is one equation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.analysis.question import question
from pramana.analysis.task import Task
from pramana.engines import LocalEngine, local
from pramana.estimating.equation import central_slopes
from pramana.estimators.free_parameters import Groups
from pramana.estimators.reversion import Reversion
from pramana.estimators.stack import Stack
from pramana.inference import solve

DESIGNS = {
    "stochastic lie detector": (pr.designs.stochastic_lie_detector("g", {"a": 0.2, "b": 0.7}), 0.8),
    "cheating detection": (pr.designs.cheating_detection("g", {"a": 0.25, "b": 0.75}), 0.85),
    "cheating detection, both ways": (
        pr.designs.cheating_detection("g", {"a": 0.25, "b": 0.6}, {"a": 0.1, "b": 0.2}),
        0.85,
    ),
    "unrelated question": (pr.designs.unrelated_question_unknown("g", {"a": 0.3, "b": 0.8}), 0.4),
}
LOGIT = {"family": "binomial"}


def answers(channel: pr.FreeMatrix, t: Any, seed: int, n: int = 1500) -> pd.DataFrame:
    """Released answers z, with an income, a clean x, and weights; the trait's share is about 0.4."""
    rng = np.random.default_rng(seed)
    x, group = rng.normal(size=n), rng.integers(0, len(channel.values), n)
    true = (rng.random(n) < 1 / (1 + np.exp(0.5 - x))).astype(int) + (rng.random(n) < 0.3) * (len(channel.levels) > 2)
    cuts = channel.chances(np.atleast_1d(t)).cumsum(axis=1)[group, :-1, true]
    z = (rng.random(n)[:, None] > cuts).sum(axis=1)
    income = 1 + 2 * (true == 1) + x + rng.normal(size=n)
    weights, house = rng.integers(1, 4, n), rng.integers(0, 200, n)
    columns = {"z": z, "g": np.array(channel.values)[group], "x": x, "income": income, "w": weights, "house": house}
    return pd.DataFrame(columns).assign(up=(income > 2).astype(int), job=rng.integers(0, 2, n))


def random_design(rng: np.random.Generator, levels: int, groups: int, free: int) -> pr.FreeMatrix:
    made = {chr(97 + g): rng.dirichlet(np.ones(levels), (1 + free, levels)).transpose(0, 2, 1) for g in range(groups)}
    return pr.FreeMatrix("g", made, [f"t{k}" for k in range(free)], levels=range(levels), kind="nominal")


@pytest.mark.parametrize(("levels", "groups", "free"), [(2, 2, 1), (2, 4, 2), (3, 2, 1), (3, 3, 2), (4, 5, 3)])
def test_averaging_over_group_and_answer_returns_the_function(levels: int, groups: int, free: int) -> None:
    """Σ_{g,i} r_g P_g(t)[i, j] L[k, gi] = 1{j = k}, whatever the weights D of the left inverse; and its derivative is that of the reversion."""
    rng = np.random.default_rng(levels + 10 * groups)
    channel = random_design(rng, levels, groups, free)
    found = Groups.of(channel, rng.integers(5, 90, (groups, levels)).astype(float), "z")
    t, pi, r = rng.dirichlet(np.ones(free + 1))[1:], rng.dirichlet(np.ones(levels)), rng.dirichlet(np.ones(groups))
    at = np.concatenate([t, pi[1:], r[1:]])
    (table,), change = found.tables(at)
    joint = (r[:, None, None] * channel.chances(t)).reshape(-1, levels)
    np.testing.assert_allclose(table.T @ joint, np.eye(levels), atol=1e-9)
    np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-9)
    slow = central_slopes(lambda v: found.tables(v)[0], at)
    np.testing.assert_allclose(change, np.moveaxis(slow, -1, 0), atol=1e-6 * np.abs(slow).max())
    score, slope = found.equations(at)
    slow = central_slopes(lambda v: found.equations(v)[0], at)
    np.testing.assert_allclose(slope, slow, atol=1e-6 * np.abs(slow).max())
    # Their average over group and answer is zero at the truth.
    np.testing.assert_allclose((joint @ pi) @ score, 0, atol=1e-10 * np.abs(score).max())


def published(name: str, channel: pr.FreeMatrix, data: pd.DataFrame) -> tuple[float, float, float]:
    """Share, its standard error and the free parameter in closed form, from the shares of yes in the two groups: Moshagen, Musch and
    Erdfelder (2012), Clark and Desharnais (1998), Greenberg et al. (1969), as the R package RRreg has them."""
    (y1, n1), (y2, n2) = ((part["z"].mean(), len(part)) for _, part in data.groupby("g"))
    v1, v2 = y1 * (1 - y1) / n1, y2 * (1 - y2) / n2
    if name == "stochastic lie detector":
        p1, p2 = 0.2, 0.7
        share = (y1 - y2 + p1 - p2) / (p1 - p2)
        return share, np.sqrt(v1 + v2) / abs(p1 - p2), (y1 - (1 - share) * (1 - p1)) / share
    if name == "cheating detection":
        p1, p2 = 0.25, 0.75
        share, honest = (p2 * y1 - p1 * y2) / (p2 - p1), (y2 - y1) / (p2 - p1)
        return share, np.sqrt(p2**2 * v1 + p1**2 * v2) / abs(p2 - p1), honest / (1 - share)
    p1, p2 = 0.3, 0.8
    share = (y1 * (1 - p2) - y2 * (1 - p1)) / (p1 - p2)
    error = np.sqrt((1 - p2) ** 2 * v1 + (1 - p1) ** 2 * v2) / abs(p1 - p2)
    return share, error, (y2 * p1 - y1 * p2) / (p1 - p2)


@pytest.mark.parametrize("name", ["stochastic lie detector", "cheating detection", "unrelated question"])
def test_shares_are_the_closed_forms(name: str) -> None:
    channel, t = DESIGNS[name]
    data = answers(channel, t, 3)
    share, error, free = published(name, channel, data)
    for what in (pr.mean("z"), pr.proportions("z"), pr.glm("z ~ 1", family="gaussian")):
        result = pr.fit(what, data, pr.Mechanism({"z": channel}))
        np.testing.assert_allclose(result.estimate[-2:], [share, free], rtol=1e-9)
        assert result.standard_errors[-2] == pytest.approx(error, rel=1e-9)
    # RRreg's share of cheaters is of everybody: γ = 1 − π − β.
    if name == "cheating detection":
        y1, y2 = (part["z"].mean() for _, part in data.groupby("g"))
        assert (1 - share) * (1 - free) == pytest.approx(1 - share - (y2 - y1) / 0.5, rel=1e-9)


def test_errors_of_the_free_parameters_are_the_published_ones() -> None:
    """RRreg's standard errors of t (lie detector), of the harmless question, and of the share of cheaters γ = (1 − π)(1 − honest), also with
    forced answers in both directions (Ostapczuk et al. 2009)."""
    found: dict[str, pr.Result] = {}
    shares: dict[str, Any] = {}
    for name, (channel, t) in DESIGNS.items():
        data = answers(channel, t, 3)
        found[name] = pr.fit(pr.mean("z"), data, pr.Mechanism({"z": channel}))
        y = data.groupby("g")["z"].mean().to_numpy()
        shares[name] = (*y, *(y * (1 - y) / data.groupby("g").size().to_numpy()))
    y1, y2, v1, v2 = shares["stochastic lie detector"]
    p1, p2 = 0.2, 0.7
    own = (p1 - p2) / (p1 - p2 + y1 - y2) ** 2
    error = np.sqrt(v1 * (own * (p2 + y2 - 1)) ** 2 + v2 * (own * (p1 + y1 - 1)) ** 2)
    assert found["stochastic lie detector"].standard_errors[1] == pytest.approx(error, rel=1e-9)
    y1, y2, v1, v2 = shares["unrelated question"]
    error = np.sqrt(0.8**2 * v1 + 0.3**2 * v2) / 0.5
    assert found["unrelated question"].standard_errors[1] == pytest.approx(error, rel=1e-9)
    chances = {"cheating detection": (0.25, 0.0, 0.75, 0.0), "cheating detection, both ways": (0.25, 0.1, 0.6, 0.2)}
    for name, p in chances.items():
        (y1, y2, v1, v2), below = shares[name], p[2] * (1 - p[1]) - p[0] * (1 - p[3])
        pi = (p[2] * y1 - p[0] * y2) / below
        gamma = -((p[0] - y1) * (1 - p[2] - p[3]) - (p[2] - y2) * (1 - p[0] - p[1])) / below
        error = np.sqrt((1 - p[2] - p[3]) ** 2 * v1 + (1 - p[0] - p[1]) ** 2 * v2) / abs(below)
        share, honest = found[name].estimate
        assert share == pytest.approx(pi, rel=1e-9)
        assert (1 - share) * (1 - honest) == pytest.approx(gamma, rel=1e-9)
        slope = np.array([honest - 1, share - 1])
        assert np.sqrt(slope @ found[name].covariance @ slope) == pytest.approx(error, rel=1e-9)


def bound(what: Any, data: pd.DataFrame, mechanism: pr.Mechanism, **options: Any) -> Stack:
    task = Task.read(question(what, **options), data, mechanism)
    equation = Reversion().bind(task.function, mechanism, task.table, np.ones(len(data))).equation
    assert isinstance(equation, Stack)
    return equation


KINDS: list[tuple[Any, dict[str, Any]]] = [
    ("z ~ x", LOGIT),
    ("z ~ x", {"family": "binomial", "link": "probit"}),
    ("up ~ z + x", LOGIT),
    ("income ~ z * x", {}),
    ("w ~ z", {"family": "poisson"}),
    (pr.mean("income", by="z"), {}),
    (pr.proportions("z", by="up"), {}),
    (pr.odds_ratio("z", "up"), {}),
    (pr.correlation("income", "z"), {}),
    (pr.margins("z ~ x", "x", "binomial"), {}),
]


@pytest.mark.parametrize(("what", "options"), KINDS, ids=lambda v: str(v)[:30])
def test_the_stack_is_the_sum_of_its_records(what: Any, options: dict[str, Any]) -> None:
    """Score and slope against sums of φ and their central differences; the sandwich against one written out; the root against the equation
    reverted at the estimated parameters."""
    channel, t = DESIGNS["stochastic lie detector"]
    data = answers(channel, t, 12, 1500)
    mechanism = pr.Mechanism({"z": channel})
    equation = bound(what, data, mechanism, **options)
    engine = LocalEngine.of(equation).learned()
    root, p = solve(engine).beta, equation.inner.d
    np.testing.assert_allclose(root[:p], solve(engine.over(engine.equation.inner)).beta, rtol=1e-7, atol=1e-9)
    weights, beyond = np.random.default_rng(0).uniform(0.5, 2, equation.n), root + 0.01
    score = equation.score_and_slope(beyond[None], weights[None])[0][0]
    np.testing.assert_allclose(score, weights @ equation.influence(beyond), atol=1e-8)
    slope = engine.score_and_slope(root[None], engine.own)[1][0]
    slow = central_slopes(lambda v: engine.equation.influence(v).sum(axis=0), root)
    np.testing.assert_allclose(slope, slow, atol=1e-5 * np.abs(slow).max())
    phi = engine.equation.influence(root)
    bread = np.linalg.inv(slow)
    places = [equation.about.parameters.index(name) for name in equation.about.shown or ()]
    found = pr.fit(what, data, mechanism, inference=pr.Sandwich("HC0", "wald"), **options)
    slowly = (bread @ phi.T @ phi @ bread.T)[np.ix_(places, places)]
    np.testing.assert_allclose(found.covariance, slowly, rtol=1e-5, atol=1e-7 * np.abs(slowly).max())
    assert found.parameters[-1] == "honest"


def test_clean_data_cost_nothing_more() -> None:
    """With answers that are the truth, and next to no chance of another, the stack is the plain regression, and nothing is the randomisation's."""
    exact = [[1 - 1e-9, 0], [1e-9, 1]]
    channel = pr.FreeMatrix("g", {"a": (exact, [[0.5, 0], [0.5, 1]]), "b": (exact, exact)}, ["silent"])
    data = answers(channel, 0.0, 5)
    data = data.assign(z=(data["x"] + data["income"] > 2).astype(int))
    found = pr.fit("income ~ z + x", data, pr.Mechanism({"z": channel}))
    known = pr.fit("income ~ z + x", data, pr.Mechanism({"z": channel.at(silent=found.estimate[-1])}))
    assert found.estimate[-1] != 0
    np.testing.assert_allclose(found.estimate[:-1], known.estimate, rtol=0.05)


def test_a_group_whose_answers_say_nothing_still_helps() -> None:
    """At honest = 1 − p the answers of a group are the same whatever the trait, and its own matrix has no inverse."""
    channel = pr.designs.stochastic_lie_detector("g", {"a": 0.2, "b": 0.9})
    data = answers(channel, 0.8, 21, 6000)
    with pytest.raises(pr.MechanismError, match="singular"):
        channel.at(honest=0.8)
    result = pr.fit("income ~ z + x", data, pr.Mechanism({"z": channel}))
    np.testing.assert_array_less(np.abs(result.estimate - [1, 2, 1, 0.8]), 4 * result.standard_errors)
    assert result.standard_errors[1] < 0.2


def test_more_groups_and_levels_than_needed() -> None:
    """Three levels and three groups tell one parameter more than once; four groups of two levels tell two."""
    rng = np.random.default_rng(8)
    for levels, groups, t in [(3, 3, [0.6]), (2, 4, [0.5, 0.2])]:
        channel = random_design(rng, levels, groups, len(t))
        data = answers(channel, t, 4, 40_000)
        result = pr.fit(pr.proportions("z"), data, pr.Mechanism({"z": channel}))
        np.testing.assert_array_less(np.abs(result.estimate[-len(t) :] - t), 4 * result.standard_errors[-len(t) :])


def test_frequencies_are_rows_and_blocks_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    channel, t = DESIGNS["cheating detection"]
    data, mechanism = answers(channel, t, 9), pr.Mechanism({"z": channel})
    counted = pr.fit("income ~ z + x", data, mechanism, frequencies="w", inference=pr.Sandwich("HC0"))
    rows = data.loc[data.index.repeat(data["w"])]
    written = pr.fit("income ~ z + x", rows, mechanism, inference=pr.Sandwich("HC0"))
    np.testing.assert_allclose(counted.covariance, written.covariance, rtol=1e-7)
    ways: list[dict[str, Any]] = [{}, {"weights": "w"}, {"clusters": "house"}]
    whole = [pr.fit("z ~ x", data, mechanism, **LOGIT, **way) for way in ways]
    monkeypatch.setattr(local, "SMALLEST", 50)
    monkeypatch.setattr(local, "BLOCK_ENTRIES", 1)
    for way, one in zip(ways, whole, strict=True):
        other = pr.fit("z ~ x", data, mechanism, **LOGIT, **way)
        np.testing.assert_allclose(other.estimate, one.estimate, rtol=1e-8)
        np.testing.assert_allclose(other.covariance, one.covariance, rtol=1e-6)


def test_beside_other_channels() -> None:
    """A perturbed covariate and one with noise are reverted within the same stack: estimates are those of the matrix at its estimate."""
    channel, t = DESIGNS["unrelated question"]
    data = answers(channel, t, 13, 3000)
    others = {"job": pr.TransitionMatrix.randomized_response([0, 1], 0.8), "x": pr.GaussianNoise(0.3)}
    for what, options in [("income ~ z + x + job", {}), ("z ~ x", LOGIT), ("z ~ job", LOGIT)]:
        found = pr.fit(what, data, pr.Mechanism({"z": channel, **others}), **options)
        clean = pr.fit(what, data, pr.Mechanism({"z": channel}), **options)
        assert found.estimate[-1] == pytest.approx(clean.estimate[-1], rel=1e-9)
        known = pr.fit(what, data, pr.Mechanism({"z": channel.at(innocent=found.estimate[-1]), **others}), **options)
        np.testing.assert_array_less(np.abs(found.estimate[:-1] - known.estimate), 2 * found.standard_errors[:-1])


def test_resampling_agrees_with_the_sandwich() -> None:
    channel, t = DESIGNS["cheating detection"]
    data, mechanism = answers(channel, t, 2, 3000), pr.Mechanism({"z": channel})
    ways = (pr.Sandwich(interval="wald"), pr.Resampling(draws=300, seed=1))
    plain, drawn = (pr.fit("z ~ x", data, mechanism, inference=way, **LOGIT) for way in ways)
    np.testing.assert_allclose(drawn.standard_errors, plain.standard_errors, rtol=0.2)


def test_all_of_the_parameter_s_variance_is_the_randomisation_s() -> None:
    channel, t = DESIGNS["cheating detection"]
    price = pr.fit("z ~ x", answers(channel, t, 2), pr.Mechanism({"z": channel}), **LOGIT).price_of_privacy()
    shares = dict(zip(price["term"], price["privacy_share"], strict=True))
    assert shares["honest"] == pytest.approx(1)
    assert 0.3 < shares["x"] < 1


def test_ratios_leave_the_parameter_as_it_is() -> None:
    channel, t = DESIGNS["cheating detection"]
    result = pr.fit("z ~ x", answers(channel, t, 2), pr.Mechanism({"z": channel}), **LOGIT)
    rows = result.to_dicts(exponentiate=True)
    assert rows[1]["estimate"] == pytest.approx(np.exp(result.estimate[1]))
    assert rows[2]["estimate"] == pytest.approx(result.estimate[2])
    assert len(result.predict({"x": [0.0, 1.0]})) == 2


def test_methods_are_compared_and_only_reversion_has_the_parameter() -> None:
    """Also with noise in a covariate, and beside the truth, which has none."""
    channel, t = DESIGNS["cheating detection"]
    data = answers(channel, t, 3)
    mechanism = pr.Mechanism({"z": channel, "x": pr.GaussianNoise(0.2)})
    found = pr.compare("income ~ z + x", data, mechanism, methods=["reversion", "naive"], truth=data)
    assert found["reversion"].parameters == ("Intercept", "z", "x", "honest")
    assert found["naive"].parameters == found["true data"].parameters == ("Intercept", "z", "x")
    np.testing.assert_allclose(found["reversion"].estimate, pr.fit("income ~ z + x", data, mechanism).estimate)
    assert "honest" in str(found)


def test_two_columns_with_free_parameters_are_refused_in_words() -> None:
    channel, t = DESIGNS["cheating detection"]
    data = answers(channel, t, 3).assign(b=np.random.default_rng(1).integers(0, 2, 1500))
    with pytest.raises(pr.PramanaError, match=r"that of 'b' has as well.*give the other its value with matrix.at"):
        pr.fit("income ~ z + b", data, pr.Mechanism({"z": channel, "b": channel}))
    known = pr.Mechanism({"z": channel, "b": channel.at(honest=0.85)})
    assert pr.fit("income ~ z + b", data, known).parameters[-1] == "honest"
