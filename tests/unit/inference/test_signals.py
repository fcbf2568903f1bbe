"""The signal of a parameter, which interval it gets, and what is said of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pramana as pr
from pramana.engines import LocalEngine
from pramana.inference import identification as signals
from pramana.inference.sandwich import bread, sandwich_covariance
from pramana.inference.score_intervals import score_statistic
from pramana.inference.solve import solve
from randomizations import bound

COIN = pr.Mechanism({"z": pr.TransitionMatrix.binary(0.8, 0.8)})
FAINT = pr.Mechanism({"z": pr.TransitionMatrix.binary(0.6, 0.6)})
PLANS: dict[str, Any] = {
    "response": pr.glm("z ~ x + w", family="binomial"),
    "covariate": pr.glm("y ~ z + x"),
    "covariate of a logit": pr.glm("b ~ z + x", family="binomial"),
    "covariate of counts": pr.glm("count ~ z + x", family="poisson"),
    "domains": pr.mean("y", by="z"),
}


def people(n: int, seed: int = 0, keep: float = 0.8, share: float = 0.3) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=(2, n))
    z = (rng.random(n) < share).astype(int)
    return {
        "x": x,
        "w": w,
        "y": 1 + z + x + rng.normal(size=n),
        "b": (rng.random(n) < 1 / (1 + np.exp(-z - x))).astype(int),
        "count": rng.poisson(np.exp(0.2 + 0.4 * z + 0.2 * x)),
        "z": np.where(rng.random(n) < keep, z, 1 - z),
    }


def answers(n: int, slope: float, seed: int, keep: float = 0.6) -> dict[str, Any]:
    """A yes or no that depends on x, and was answered behind a coin."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    z = (rng.random(n) < 1 / (1 + np.exp(-slope * x))).astype(int)
    return {"x": x, "z": np.where(rng.random(n) < keep, z, 1 - z)}


def codes(result: pr.Result) -> list[str]:
    return [d.code for d in result.diagnostics if "identified" in d.code]


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_the_signal_is_that_of_the_score_statistic(plan: Any, weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Near the estimate the second-order form is the whole of log T(±z) / z², T with the other parameters solved for."""
    data, reach = people(400), 0.02
    sampling = {"weights": np.random.default_rng(1).uniform(0.5, 2, 400)} if weighted else {}
    engine = LocalEngine.of(bound(plan, data, COIN), **sampling).learned()
    beta = solve(engine).beta
    totals = engine.totals(beta)
    covariance = sandwich_covariance(totals, bread(totals, engine.about.parameters), engine, pr.Sandwich())
    monkeypatch.setattr(signals, "REACH", reach)
    found = signals.identification(engine, beta, totals, covariance)
    errors = np.sqrt(np.diag(covariance))
    slow = [
        max(
            abs(np.log(score_statistic(engine, beta, errors, j, beta[j] + side * reach * errors[j]) / reach**2))
            for side in (-1, 1)
        )
        for j in range(engine.d)
    ]
    np.testing.assert_allclose(2 / found.signals, slow, rtol=0.05, atol=2e-4)


def test_counts_are_so_many_records() -> None:
    rng = np.random.default_rng(2)
    data, counts = people(120), rng.integers(1, 5, 120)
    repeated = {name: np.repeat(values, counts) for name, values in data.items()}
    for plan in PLANS.values():
        one = LocalEngine.of(bound(plan, data, COIN), frequencies=counts.astype(float))
        other = LocalEngine.of(bound(plan, repeated, COIN))
        beta = solve(one).beta
        left, right = rng.normal(size=(2, 3, one.d))
        np.testing.assert_allclose(
            one.slope_moments(beta, left, right), other.slope_moments(beta, left, right), rtol=1e-9
        )


@pytest.mark.parametrize(
    "plan", [pr.glm("b ~ z + x", family="binomial"), pr.mean("y", by="z")], ids=["each fifth", "runs"]
)
def test_some_of_very_many_records_tell_the_same(plan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = LocalEngine.of(bound(plan, people(40_000), COIN))
    beta = solve(engine).beta
    totals = engine.totals(beta)
    whole = signals.identification(engine, beta, totals, np.eye(engine.d))
    monkeypatch.setattr("pramana.engines.local.PILOT", 8_000)
    some = signals.identification(engine, beta, totals, np.eye(engine.d))
    few, each = engine.sketch()
    assert (each, few.sketch()[1]) == (5.0, 1.0), "a sketch of a sketch counts no record twice"
    np.testing.assert_allclose(some.signals, whole.signals, rtol=0.3)


def test_a_weak_response_is_reported() -> None:
    """Its slope is hardly noisy: it fades as the estimate runs off. None of these fits was flagged by the slope's own error."""
    fits = [pr.fit("z ~ x", answers(1200, 0.8, seed), FAINT, family="binomial") for seed in range(12)]
    flagged = [fit for fit in fits if codes(fit) == ["weakly-identified"]]
    assert len(flagged) >= 8
    assert "signal" in flagged[0].diagnostics[0].message
    assert all("score intervals" in fit.inference for fit in flagged)


def test_a_response_with_a_clear_signal_is_not() -> None:
    for seed in range(4):
        result = pr.fit(
            "z ~ x",
            answers(6000, 0.5, seed, keep=0.9),
            pr.Mechanism({"z": pr.TransitionMatrix.binary(0.9, 0.9)}),
            family="binomial",
        )
        assert codes(result) == []
        assert result.inference == "sandwich (HC0), wald intervals"
        assert result.interval_kind == "wald"


def test_an_estimate_that_ran_off_has_the_interval_of_the_score_test() -> None:
    """The estimate is far out with a standard error that is larger still: Wald's interval would say that 0 is possible."""
    data = answers(1200, 1.5, 12)
    shown = pr.fit("z ~ x", data, FAINT, family="binomial")
    score = pr.fit("z ~ x", data, FAINT, family="binomial", inference=pr.Sandwich(interval="score"))
    wald = pr.fit("z ~ x", data, FAINT, family="binomial", inference=pr.Sandwich(interval="wald"))
    assert shown.interval()[1, 0] == pytest.approx(score.interval()[1, 0], rel=1e-5)
    assert wald.estimate[1] > 10
    assert wald.interval()[1, 0] < 0 < 1 < shown.interval()[1, 0] < 1.5
    assert min(shown.interval()[1, 1], score.interval()[1, 1]) > 1000  # where the other equation loses its root
    assert wald["x"].p_value > 0.9
    assert shown["x"].p_value < 1e-4
    assert codes(wald) == codes(score) == codes(shown) != []
    assert "too noisy to trust this interval of 'Intercept', 'x' (signal 0.1, want 4)" in wald.diagnostics[0].message
    assert "Sandwich(interval='score')" in wald.diagnostics[0].message
    assert "too noisy to trust Wald's interval of" in shown.diagnostics[0].message


@pytest.mark.parametrize("seed", range(4))
def test_the_test_of_zero_agrees_with_the_interval(seed: int) -> None:
    result = pr.fit(
        "z ~ x", answers(1200, 0.4 * seed, seed), FAINT, family="binomial", inference=pr.Sandwich(interval="score")
    )
    for row in result.to_dicts():
        outside = not row["conf_low"] <= 0 <= row["conf_high"]
        assert outside == (row["p_value"] < 0.05)
        assert np.sign(row["statistic"]) == np.sign(row["estimate"])


def test_usual_levels_are_at_hand_and_others_need_the_data() -> None:
    data = answers(1200, 1.5, 3)
    result = pr.fit("z ~ x", data, FAINT, family="binomial")
    low, middle, high = (result.interval(level)[1] for level in (0.9, 0.95, 0.99))
    assert high[0] < middle[0] < low[0] < low[1] < middle[1] < high[1]
    result.to_frame(level=0.9)
    with pytest.raises(
        pr.PramanaError, match=r"at level 0.9, 0.95, 0.99 and need the data for 0.8: .*Sandwich\(level=0.8"
    ):
        result.interval(0.8)
    again = pr.fit("z ~ x", data, FAINT, family="binomial", inference=pr.Sandwich(level=0.8))
    assert low[0] < again.interval()[1, 0] < again.interval()[1, 1] <= low[1]


def test_the_level_asked_for_is_shown_whatever_the_interval() -> None:
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix.binary(0.95, 0.95)})
    data = answers(4000, 0.3, 0, keep=0.95)
    usual = pr.fit("z ~ x", data, mechanism, family="binomial")
    asked = pr.fit("z ~ x", data, mechanism, family="binomial", inference=pr.Sandwich(level=0.8))
    assert asked.interval_kind == usual.interval_kind == "wald"
    assert asked.inference == usual.inference
    np.testing.assert_array_equal(asked.interval(), usual.interval(0.8))
    np.testing.assert_array_equal(asked.interval(0.7), usual.interval(0.7))
    clean = pr.fit("x ~ z", data, None, inference=pr.Sandwich(level=0.8))
    np.testing.assert_array_equal(clean.interval(), clean.interval(0.8))


RATIOS = {
    "risk difference": pr.risk_difference("z", "b"),
    "risk ratio": pr.risk_ratio("z", "b"),
    "odds ratio": pr.odds_ratio("z", "b"),
    "pearson": pr.correlation("z", "b"),
    "cramer": pr.correlation("z", "b", "cramer"),
}


@pytest.mark.parametrize("ratio", RATIOS.values(), ids=RATIOS)
def test_ratios_warn_where_the_equal_means_do(ratio: Any) -> None:
    """A few more released ones than the noise alone makes, and many more."""

    def table(*cells: int) -> dict[str, Any]:
        return {"z": np.repeat([0, 0, 1, 1], cells), "b": np.repeat([0, 1, 0, 1], cells)}

    assert codes(pr.fit(ratio, table(500, 260, 140, 100), COIN)) == ["weakly-identified"]
    assert codes(pr.fit(pr.mean("b", by="z"), table(500, 260, 140, 100), COIN)) == ["weakly-identified"]
    assert codes(pr.fit(ratio, table(600, 400, 400, 600), COIN)) == []


def test_a_ratio_names_what_it_divides_by() -> None:
    data = {"z": np.repeat([0, 1], [770, 230]), "b": np.tile([0, 1, 1, 0, 0], 200)}
    message = next(
        d.message for d in pr.fit(pr.risk_difference("z", "b"), data, COIN).diagnostics if d.code == "weakly-identified"
    )
    assert "the exposed: signal 2.3, want 4" in message


def test_clean_data_are_not_judged() -> None:
    """A rare clean group is a matter of few records, and no noise."""
    data = {"g": np.repeat([0, 1], [195, 5]), "y": np.random.default_rng(0).normal(size=200)}
    for what in ("y ~ g", pr.mean("y", by="g"), pr.risk_difference("g", "g2")):
        result = pr.fit(what, data | {"g2": np.tile([0, 1], 100)}, None)
        assert codes(result) == []
        assert result.interval_kind == "wald"


def test_walds_intervals_are_shown_at_the_level_asked_for() -> None:
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=200), "y": rng.normal(size=200)}
    for what in ("y ~ x", pr.mean("y")):
        asked = pr.fit(what, data, None, inference=pr.Sandwich(interval="wald", level=0.9))
        usual = pr.fit(what, data, None, inference=pr.Sandwich(interval="wald"))
        np.testing.assert_allclose(asked.interval(), usual.interval(0.9))
        assert "[0.05" in asked.summary()
