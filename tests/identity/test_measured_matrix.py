"""A measured P: what it adds to a covariance is Σ_j G_j Cov(P̂_j) G_jᵀ, G the derivative of the root by each entry of P."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.analysis.question import question
from pramana.engines import local
from pramana.mechanism.channels.uncertainty import Uncertainty

EDU = ["low", "mid", "high"]
COUNTS = {
    "edu": np.array([[300, 20, 10], [50, 250, 60], [20, 40, 400]]),
    "y": np.array([[180, 30], [25, 310]]),
    "job": np.array([[90, 12], [8, 150]]),
}


def measured(column: str, **options: Any) -> pr.TransitionMatrix:
    levels = {"edu": EDU, "y": (0, 1), "job": ("a", "b")}[column]
    return pr.TransitionMatrix.from_validation(COUNTS[column], levels=levels, **options)


NORTH = pr.TransitionMatrix.from_validation(sensitivity=(130, 150), specificity=(95, 120))
SOUTH = pr.TransitionMatrix.from_validation(sensitivity=(70, 80), specificity=(200, 220))
PLAIN: dict[Any, Any] = {"edu": measured("edu", kind="ordinal"), "y": measured("y"), "job": measured("job")}
NOISY = PLAIN | {"x": pr.LaplaceNoise(0.3)}
STRATIFIED = PLAIN | {"y": pr.Stratified("region", {"n": NORTH, "s": SOUTH})}
PAIRS = [(e, j) for e in ("low", "high") for j in ("a", "b")]
JOINT: dict[Any, Any] = {
    ("degree", "job"): pr.TransitionMatrix.from_validation(np.full((4, 4), 15) + 120 * np.eye(4), levels=PAIRS)
}


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    n = 300
    x = rng.normal(size=n)
    edu = rng.choice(EDU, n)
    frame = pd.DataFrame({"x": x, "edu": edu, "job": rng.choice(["a", "b"], n), "region": rng.choice(["n", "s"], n)})
    frame["degree"] = rng.choice(["low", "high"], n)
    frame["y"] = (rng.random(n) < 1 / (1 + np.exp(-x - 0.5 * (edu == "high")))).astype(int)
    frame["income"] = np.exp(0.3 * x + 0.5 * (edu == "high") + 0.3 * rng.normal(size=n))
    frame["visits"] = rng.poisson(frame["income"])
    frame["w"], frame["house"] = rng.uniform(0.5, 2, n), np.arange(n) // 3
    return frame


def moved(channels: dict[Any, Any], move: Callable[[pr.TransitionMatrix], pr.TransitionMatrix]) -> pr.Mechanism:
    """The mechanism with every matrix replaced."""
    return pr.Mechanism(
        {
            key: pr.Stratified(c.by, {v: move(m) for v, m in c.strata.items()})
            if isinstance(c, pr.Stratified)
            else move(c)
            if isinstance(c, pr.TransitionMatrix)
            else c
            for key, c in channels.items()
        }
    )


def asked_of(what: Any, channels: dict[Any, Any], options: dict[str, Any]) -> dict[Any, Any]:
    """The channels of columns that the question or its subset names."""
    names = f"{' '.join(question(what).variables)} {options.get('subset', '')}"
    return {key: c for key, c in channels.items() if any(name in names for name in np.atleast_1d(key))}


def studies(channels: dict[Any, Any]) -> list[pr.TransitionMatrix]:
    """Every measured matrix once: equal ones are one study."""
    found: list[pr.TransitionMatrix] = []
    for matrix in (m for channel in channels.values() for m in channel.parts.values()):
        found += [] if matrix in found or matrix.uncertainty is None else [matrix]
    return found


def slowly(what: Any, data: Any, channels: dict[Any, Any], options: dict[str, Any], step: float = 1e-4) -> np.ndarray:
    """The definition: solve again with each column of P moved along each direction of its covariance."""
    total = np.zeros(())
    options = {"inference": pr.Sandwich("HC0", interval="wald"), **options}  # the quickest: estimates alone are used
    for study in studies(asked_of(what, channels, options)):
        for j, covariance in enumerate(study.uncertainty.covariances(study.matrix)):
            variances, directions = np.linalg.eigh(covariance)
            for variance, direction in zip(variances, directions.T, strict=True):
                ends = []
                for sign in (1, -1):

                    def move(m: pr.TransitionMatrix, v: np.ndarray = sign * step * direction) -> pr.TransitionMatrix:
                        matrix = m.matrix.copy()
                        if m == study:  # noqa: B023
                            matrix[:, j] += v  # noqa: B023
                        return pr.TransitionMatrix.from_columns(m.levels, matrix, kind=m.kind)

                    if variance > 1e-12:
                        ends.append(pr.fit(what, data, moved(channels, move), **options).estimate)
                if ends:
                    slope = (ends[0] - ends[1]) / (2 * step)
                    total = total + variance * np.outer(slope, slope)
    return total


def two_means(beta: Any, income: Any, edu: Any) -> Any:
    return np.column_stack([(edu == "low") * (income - beta[0]), (edu == "high") * (np.log(income) - beta[1])])


DRAWS = pr.Resampling(draws=20, seed=1)
KINDS: list[tuple[Any, dict[Any, Any], dict[str, Any]]] = [
    (pr.mean("y"), PLAIN, {}),
    (pr.mean("income", by="edu"), PLAIN, {"weights": "w"}),
    (pr.total("income", by="edu"), PLAIN, {"weights": "w"}),
    (pr.counts("edu", size=10_000), PLAIN, {}),
    (pr.proportions("y", by="edu"), PLAIN, {}),
    (pr.crosstab("edu", "job"), PLAIN, {}),
    (pr.odds_ratio("job", "y"), PLAIN, {}),
    (pr.correlation("y", "income"), PLAIN, {}),
    (pr.gini("income", by="edu"), PLAIN, {}),
    (pr.median("income", by="edu"), PLAIN, {"inference": DRAWS}),
    (pr.quantile_regression("income ~ edu"), PLAIN, {"inference": DRAWS}),
    (pr.from_callable(two_means, ["a", "b"]), PLAIN, {}),
    ("income ~ x * edu", PLAIN, {"clusters": "house"}),
    ("income ~ x + edu + job", PLAIN, {}),
    ("visits ~ x + edu + job", PLAIN, {"family": "poisson"}),
    ("y ~ x", PLAIN, {"family": "binomial"}),
    ("y ~ x + edu", PLAIN, {"family": "binomial", "link": "probit"}),
    (pr.multinomial("edu ~ x"), PLAIN, {}),
    (pr.ordinal("edu ~ x"), PLAIN, {}),
    (pr.margins("y ~ x + job", "job", "binomial"), PLAIN, {}),
    (pr.average_treatment_effect("income", "y", ["x"], "ipw"), PLAIN, {}),
    ("income ~ x", PLAIN, {"subset": "edu == 'high'"}),
    (pr.mean("income", by="job"), PLAIN, {"subset": "edu != 'low' and region == 'n'"}),
    (pr.total("income"), PLAIN, {"subset": "edu == 'high'"}),
    ("income ~ x + y", STRATIFIED, {}),
    ("y ~ x + region", STRATIFIED, {"family": "binomial"}),
    ("income ~ degree + job", JOINT, {}),
    ("income ~ x + edu", NOISY, {}),
    ("income ~ x * edu + job", NOISY, {"clusters": "house"}),
    ("y ~ x + edu", NOISY, {"family": "binomial"}),
    ("visits ~ x + edu", NOISY, {"family": "poisson"}),
    ("income ~ x", NOISY, {"subset": "edu == 'high'"}),
    (pr.correlation("x", "y"), NOISY, {}),
    (pr.mean("income", by="job"), JOINT, {}),
]


@pytest.mark.parametrize(("what", "channels", "options"), KINDS, ids=lambda v: str(v)[:40])
def test_the_added_part_is_the_derivative_of_the_root(
    what: Any, channels: dict[Any, Any], options: dict[str, Any], people: pd.DataFrame
) -> None:
    result = pr.fit(what, people, pr.Mechanism(channels), **options)
    slow = slowly(what, people, channels, options)
    assert result.measurement is not None
    exact = (
        2e-5 if "Quantile" not in str(what) else 0.1
    )  # the slope of a step function is estimated over a standard error
    np.testing.assert_allclose(result.measurement, slow, rtol=0, atol=exact * np.abs(slow).max())


def test_blocks_of_records_add_up(people: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kind of equation that is cut into blocks."""
    kinds = [("y ~ x + edu", {"family": "binomial"}), ("income ~ x + edu + job", {}), (pr.mean("income", by="edu"), {})]
    whole = [pr.fit(what, people, pr.Mechanism(PLAIN), **options) for what, options in kinds]
    monkeypatch.setattr(local, "SMALLEST", 50)
    monkeypatch.setattr(local, "BLOCK_ENTRIES", 1)
    cut = [pr.fit(what, people, pr.Mechanism(PLAIN), **options) for what, options in kinds]
    for one, other in zip(whole, cut, strict=True):
        np.testing.assert_allclose(other.measurement, one.measurement, rtol=1e-8)


def test_one_study_behind_several_columns_or_strata_is_one_error(people: pd.DataFrame) -> None:
    """Errors of one study add before they are squared; two studies with other counts are independent."""
    data = people.assign(again=people["y"].to_numpy()[::-1])
    one = {"y": measured("y"), "again": measured("y")}
    other = {"y": measured("y"), "again": pr.TransitionMatrix.from_validation(10 * COUNTS["y"])}
    strata = {"y": pr.Stratified("region", {"n": measured("y"), "s": measured("y")})}
    formula = "income ~ y + again"
    for what, channels in [(formula, one), (formula, other), (pr.mean("y"), strata)]:
        found = pr.fit(what, data, pr.Mechanism(channels)).measurement
        np.testing.assert_allclose(found, slowly(what, data, channels, {}), rtol=0, atol=2e-5 * np.abs(found).max())
    same = pr.fit(pr.mean("y"), data, pr.Mechanism(PLAIN)).measurement
    np.testing.assert_allclose(pr.fit(pr.mean("y"), data, pr.Mechanism(strata)).measurement, same, rtol=1e-9)


def test_every_kind_of_inference_adds_the_same_part(people: pd.DataFrame) -> None:
    data = people.assign(fpc=0.4, **{f"r{k}": people["w"] * (people["house"] % 10 != k) * 10 / 9 for k in range(10)})
    known = moved(PLAIN, lambda m: m.measured(None))
    design = pr.SurveyDesign(weights="w", clusters="house", fpc="fpc")
    replicates = pr.SurveyDesign(weights="w", replicate_weights=[f"r{k}" for k in range(10)], replicate_scale=0.9)
    ways: list[dict[str, Any]] = [
        {"weights": "w"},
        {"weights": "w", "inference": pr.Sandwich("HC1")},
        {"weights": "w", "clusters": "house"},
        {"weights": "w", "clusters": "house", "inference": pr.Jackknife()},
        {"design": design},
        {"design": replicates},
        *({"design": pr.SurveyDesign(weights="w", clusters="house", fpc="fpc", target=t)} for t in ("finite", "file")),
    ]
    parts = []
    for way in ways:
        with_error, without = (pr.fit("income ~ edu", data, m, **way) for m in (pr.Mechanism(PLAIN), known))
        np.testing.assert_array_equal(with_error.estimate, without.estimate)
        np.testing.assert_allclose(with_error.covariance - without.covariance, with_error.measurement, atol=1e-12)
        assert without.measurement is None
        parts.append(with_error.measurement)
    for part in parts[1:]:  # the uncertainty of P is the same whatever the records are a sample of
        np.testing.assert_allclose(part, parts[0], rtol=1e-9)


def test_draws_have_a_matrix_of_their_own(people: pd.DataFrame) -> None:
    """Percentiles and spread of the draws show the uncertainty of P; few people in the study make it skew."""
    few = pr.TransitionMatrix.from_validation(sensitivity=(26, 30), specificity=(24, 30))
    draws = pr.Resampling(draws=4000, seed=2, scale="sd")
    linear = pr.fit(pr.mean("y"), people, pr.Mechanism({"y": few}))
    drawn = pr.fit(pr.mean("y"), people, pr.Mechanism({"y": few}), inference=draws)
    assert linear.measurement[0, 0] > 0.6 * linear.covariance[0, 0]
    assert drawn.standard_errors[0] == pytest.approx(linear.standard_errors[0], rel=0.12)
    # By hand: the same law of P̂, each draw solved again.
    rng = np.random.default_rng(4)
    released = people["y"].mean()
    se, sp = rng.beta(29 * 26 / 30, 29 * 4 / 30, 4000), rng.beta(29 * 24 / 30, 29 * 6 / 30, 4000)
    lam = released + rng.normal(size=4000) * np.sqrt(released * (1 - released) / len(people))
    by_hand = (lam + sp - 1) / (se + sp - 1)
    np.testing.assert_allclose(drawn.interval()[0], np.quantile(by_hand, [0.025, 0.975]), atol=0.03)


def test_score_intervals_know_of_it(people: pd.DataFrame) -> None:
    """For a mean the score test is Wald's with the variance at the value tested: its ends solve a quadratic equation."""
    channel = pr.TransitionMatrix.from_validation(sensitivity=(45, 50), specificity=(40, 50))
    result = pr.fit(pr.mean("y"), people, pr.Mechanism({"y": channel}), inference=pr.Sandwich(interval="score"))
    n, lam = len(people), people["y"].mean()
    b = np.linspace(-0.5, 1.5, 2_000_001)
    det = 0.9 + 0.8 - 1
    estimate = (lam + 0.8 - 1) / det
    meat = n * (lam * (1 - lam) / det**2 + (estimate - b) ** 2)
    # ∂φ by sensitivity and specificity at fixed b: φ = (y* + sp − 1)/det − b, whose sum does not know b beyond a constant.
    slope_se, slope_sp = -n * estimate / det, n * (1 - estimate) / det
    meat = meat + slope_se**2 * 0.9 * 0.1 / 50 + slope_sp**2 * 0.8 * 0.2 / 50
    inside = b[(n * (estimate - b)) ** 2 <= 3.841458820694124 * meat]
    np.testing.assert_allclose(result.interval()[0], [inside[0], inside[-1]], atol=3e-6)


def test_a_matrix_that_is_known_adds_nothing(people: pd.DataFrame) -> None:
    channel = measured("y").measured(Uncertainty(np.array([np.inf, np.inf])))
    result = pr.fit("y ~ x", people, pr.Mechanism({"y": channel}), family="binomial")
    known = pr.fit("y ~ x", people, pr.Mechanism({"y": channel.measured(None)}), family="binomial")
    np.testing.assert_array_equal(result.covariance, known.covariance)
    assert not result.measurement.any()
    unused = pr.fit("income ~ x", people, pr.Mechanism(PLAIN))
    assert unused.measurement is None


def test_the_price_of_privacy_splits_off_the_measurement(people: pd.DataFrame) -> None:
    data = people[["y", "x"]]
    large = {"family": "binomial", "inference": pr.Sandwich("HC0")}
    result = pr.fit("y ~ x", data, pr.Mechanism({"y": measured("y")}), **large)
    known = pr.fit("y ~ x", data, pr.Mechanism({"y": measured("y").measured(None)}), **large)
    price, before = result.price_of_privacy(), known.price_of_privacy()
    assert list(price.columns) == ["term", "variance", "privacy_share", "measurement_share", "equivalent_records"]
    assert "measurement_share" not in before.columns
    np.testing.assert_allclose(price["variance"], np.diag(result.covariance))
    np.testing.assert_allclose(price["variance"] * price["measurement_share"], np.diag(result.measurement))
    np.testing.assert_allclose(price["variance"] * price["privacy_share"], before["variance"] * before["privacy_share"])
    left = price["variance"] * price["equivalent_records"]
    np.testing.assert_allclose(left, before["variance"] * before["equivalent_records"])


def stacked(y: np.ndarray, truth: np.ndarray, seen: np.ndarray) -> tuple[float, float]:
    """Prevalence of y and its standard error, from the equations of sensitivity, specificity and prevalence together."""
    se, sp = y[seen & (truth == 1)].mean(), 1 - y[seen & (truth == 0)].mean()
    mean = (y.mean() + sp - 1) / (se + sp - 1)
    u = np.column_stack(
        [
            seen * (truth == 1) * (y - se),
            seen * (truth == 0) * (1 - y - sp),
            (y + sp - 1) / (se + sp - 1) - mean,
        ]
    )
    n, det = len(y), se + sp - 1
    slope = np.diag([-np.sum(seen & (truth == 1)), -np.sum(seen & (truth == 0)), -n]).astype(float)
    slope[2, :2] = [-n * mean / det, n * (1 - mean) / det]
    inverse = np.linalg.inv(slope)
    return float(mean), float(np.sqrt((inverse @ u.T @ u @ inverse.T)[2, 2]))


def test_records_that_were_validated_err_with_p() -> None:
    """Internal validation: exactly the stacked equations where the parameter depends on nothing else, less than the plain sum."""
    rng = np.random.default_rng(8)
    n = 1000
    truth = (rng.random(n) < 0.4).astype(int)
    y = np.where(rng.random(n) < 0.15, 1 - truth, truth)
    for share in (0.2, 0.5, 1.0):
        seen = rng.random(n) < share
        counts = np.array([[np.sum(seen & (y == i) & (truth == j)) for j in (0, 1)] for i in (0, 1)])
        among, apart = (pr.TransitionMatrix.from_validation(counts, internal=internal) for internal in (True, False))
        inside, outside = (pr.fit(pr.mean("y"), {"y": y}, pr.Mechanism({"y": m})) for m in (among, apart))
        mean, error = stacked(y, truth, seen)
        assert inside.estimate[0] == pytest.approx(mean)
        assert inside.standard_errors[0] == pytest.approx(error)
        assert outside.standard_errors[0] > 1.1 * error
    # With everybody validated what is left is the error of the true mean.
    assert error == pytest.approx(np.sqrt(truth.mean() * (1 - truth.mean()) / n))
    half = pr.fit(pr.mean("y"), {"y": y, "x": y}, pr.Mechanism({"y": among}), subset="x >= 0")
    assert half.standard_errors[0] == pytest.approx(outside.standard_errors[0])


def test_records_that_were_validated_err_with_p_in_a_regression_too() -> None:
    """Here the sums by true level are reverted ones: the stacked equations hold up to sampling error."""
    rng = np.random.default_rng(9)
    n = 20_000
    x = rng.normal(size=n)
    truth = (rng.random(n) < 1 / (1 + np.exp(-x))).astype(int)
    y = np.where(rng.random(n) < 0.15, 1 - truth, truth)
    seen = rng.random(n) < 0.3
    counts = np.array([[np.sum(seen & (y == i) & (truth == j)) for j in (0, 1)] for i in (0, 1)])
    channel = pr.TransitionMatrix.from_validation(counts, internal=True)
    result = pr.fit("y ~ x", {"y": y, "x": x}, pr.Mechanism({"y": channel}), family="binomial")
    se, sp = channel.matrix[1, 1], channel.matrix[0, 0]
    det, design = se + sp - 1, np.column_stack([np.ones(n), x])
    mu = 1 / (1 + np.exp(-design @ result.estimate))
    # Scores of β, sensitivity and specificity, record by record.
    u = np.column_stack(
        [design * ((y + sp - 1) / det - mu)[:, None], seen * truth * (y - se), seen * (1 - truth) * (1 - y - sp)]
    )
    slope = np.zeros((4, 4))
    slope[:2, :2] = -(design * (mu * (1 - mu))[:, None]).T @ design
    slope[:2, 2] = -design.T @ ((y + sp - 1) / det**2)
    slope[:2, 3] = design.T @ (1 / det - (y + sp - 1) / det**2)
    slope[2, 2], slope[3, 3] = -np.sum(seen * truth), -np.sum(seen * (1 - truth))
    inverse = np.linalg.inv(slope)
    expected = np.sqrt(np.diag(inverse @ u.T @ u @ inverse.T))[:2]
    np.testing.assert_allclose(result.standard_errors, expected, rtol=0.01)
    plain = pr.TransitionMatrix.from_validation(counts)
    apart = pr.fit("y ~ x", {"y": y, "x": x}, pr.Mechanism({"y": plain}), family="binomial")
    assert apart.standard_errors[0] > 1.1 * expected[0]
