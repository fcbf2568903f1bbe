"""Under noise, every named parameter equals the same one written as a user's own function or as a regression."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from randomizations import random_channel

pytestmark = pytest.mark.usefixtures("large_sample")

EDU, YES = ["low", "mid", "high"], ["no", "yes"]
CELLS = list(product(EDU, YES))


@pytest.fixture
def mechanism(rng: np.random.Generator) -> pr.Mechanism:
    channels = {"edu": random_channel(rng, EDU, stay=0.8), "smokes": random_channel(rng, YES, stay=0.8)}
    return pr.Mechanism({**channels, "score": random_channel(rng, [0, 1, 4], "numeric", stay=0.8)})


@pytest.fixture
def released(rng: np.random.Generator, mechanism: pr.Mechanism) -> pd.DataFrame:
    n = 400
    edu = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    smokes = rng.random(n) < 0.3 + 0.15 * edu
    frame = pd.DataFrame({"edu": np.array(EDU)[edu], "smokes": np.where(smokes, "yes", "no")})
    frame["score"] = np.array([0, 1, 4])[np.clip(edu + rng.integers(-1, 2, n), 0, 2)]
    frame["income"] = edu + rng.normal(size=n)
    frame["ill"] = np.where(rng.random(n) < 0.2 + 0.3 * smokes, "yes", "no")
    frame["w"], frame["house"] = rng.uniform(1, 4, n), rng.integers(0, 200, n)
    with pytest.warns(UserWarning, match="seed"):
        return mechanism.perturb(frame, seed=3)


WALD = pr.Sandwich(interval="wald")
"""For a user's own function, of which estimates and covariances are compared: score intervals would take most of the time."""
OPTIONS: list[dict[str, Any]] = [{}, {"weights": "w"}, {"clusters": "house"}]


def same(given: pr.Result, other: pr.Result, rows: Any = slice(None)) -> None:
    np.testing.assert_allclose(given.estimate, other.estimate[rows], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(given.covariance, other.covariance[rows, rows], rtol=1e-6, atol=1e-12)
    assert given.privacy is not None
    assert other.privacy is not None
    np.testing.assert_allclose(given.privacy, other.privacy[rows, rows], rtol=1e-6, atol=1e-11)


def domain_means(beta: Any, edu: Any, score: Any) -> Any:
    return np.column_stack([(edu == k) * (score - b) for k, b in zip(EDU, beta, strict=True)])


def domain_totals(beta: Any, edu: Any, score: Any) -> Any:
    return np.column_stack([(edu == k) * score - b for k, b in zip(EDU, beta, strict=True)])


def domain_shares(beta: Any, edu: Any, smokes: Any) -> Any:
    return np.column_stack([(edu == k) * ((smokes == j) - b) for (k, j), b in zip(CELLS, beta, strict=True)])


def cells(beta: Any, edu: Any, smokes: Any) -> Any:
    return np.column_stack([((edu == k) & (smokes == j)) - b for (k, j), b in zip(CELLS, beta, strict=True)])


def correlated(beta: Any, edu: Any, score: Any) -> Any:
    x, y = np.select([edu == "mid", edu == "high"], [1.0, 2.0], 0.0), np.asarray(score, dtype=float)
    ex, ey, vx, vy, r = beta
    moments = [x - ex, y - ey, (x - ex) ** 2 - vx, (y - ey) ** 2 - vy, (x - ex) * (y - ey) / np.sqrt(vx * vy) - r]
    return np.column_stack(moments)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(
    ("what", "u", "size"),
    [
        (pr.mean("score", by="edu"), domain_means, 3),
        (pr.proportions("smokes", by="edu"), domain_shares, 6),
        (pr.crosstab("edu", "smokes"), cells, 6),
    ],
)
def test_domains_and_tables_are_their_estimating_functions(
    what: Any, u: Any, size: int, options: Any, released: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    own = pr.from_callable(u, [str(k) for k in range(size)], start=[0.1] * size)
    same(pr.fit(what, released, mechanism, **options), pr.fit(own, released, mechanism, inference=WALD, **options))


@pytest.mark.parametrize("options", OPTIONS)
def test_totals_of_a_known_size_are_the_mean_of_their_terms_times_it(
    options: Any, released: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    own = pr.fit(pr.from_callable(domain_totals, EDU), released, mechanism, inference=WALD, **options)
    size = 12345.0
    given = pr.fit(pr.total("score", by="edu", size=size), released, mechanism, **options)
    np.testing.assert_allclose(given.estimate, size * own.estimate, rtol=1e-9)
    np.testing.assert_allclose(given.covariance, size**2 * own.covariance, rtol=1e-8)
    assert given.privacy is not None
    assert own.privacy is not None
    np.testing.assert_allclose(given.privacy, size**2 * own.privacy, rtol=1e-7)


@pytest.mark.parametrize("options", OPTIONS)
def test_pearsons_r_is_a_stack_of_moments(options: Any, released: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    numeric = released.assign(edu=released["edu"].map(EDU.index))
    matrix = mechanism.assignments[0].channel.matrix  # type: ignore[attr-defined]
    edu = pr.TransitionMatrix.from_columns([0, 1, 2], matrix, kind="numeric")
    numbers = pr.Mechanism({"edu": edu, "score": mechanism.assignments[2].channel})
    given = pr.fit(pr.correlation("edu", "score"), numeric, numbers, **options)
    own = pr.from_callable(correlated, ["ex", "ey", "vx", "vy", "r"], start=[0.7, 1.5, 0.6, 2, 0.5])
    same(given, pr.fit(own, released, mechanism, inference=WALD, **options), slice(4, 5))


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("column", ["smokes", "ill"])
def test_ratios_are_coefficients_of_saturated_regressions(
    options: Any, column: str, released: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    row, outcome = ("smokes", "ill") if column == "ill" else ("ill", "smokes")
    family = {"family": "binomial", **options}
    odds = pr.fit(pr.odds_ratio(row, outcome), released, mechanism, **options)
    same(odds, pr.fit(f"{outcome} ~ {row}", released, mechanism, **family), slice(1, 2))
    risk = pr.fit(pr.risk_ratio(row, outcome), released, mechanism, **options)
    same(risk, pr.fit(f"{outcome} ~ {row}", released, mechanism, link="log", **family), slice(1, 2))


def pooled(measure: str, tables: Any) -> float:
    """Mantel and Haenszel's sums, written out stratum by stratum."""
    up = down = weight = 0.0
    for (d, c), (b, a) in tables:
        n = a + b + c + d
        exposed, unexposed = a + b, c + d
        up += a * d / n if measure == "odds" else a * unexposed / n
        down += b * c / n if measure == "odds" else c * exposed / n
        weight += exposed * unexposed / n
    return float((up - down) / weight if measure == "difference" else np.log(up / down))


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(
    ("make", "measure"),
    [(pr.odds_ratio, "odds"), (pr.risk_ratio, "ratio"), (pr.risk_difference, "difference")],
    ids=["odds ratio", "risk ratio", "risk difference"],
)
def test_mantel_haenszel_over_perturbed_strata_is_the_delta_method_on_the_table(
    make: Any, measure: str, options: Any, released: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    table = pr.fit(pr.crosstab("edu", "smokes", "ill"), released, mechanism, **options)

    def value(shares: Any) -> float:
        return pooled(measure, shares.reshape(3, 2, 2))

    step = 1e-6
    gradient = np.array([value(table.estimate + step * e) - value(table.estimate - step * e) for e in np.eye(12)])
    gradient /= 2 * step
    result = pr.fit(make("smokes", "ill", strata="edu"), released, mechanism, **options)
    assert result.estimate[0] == pytest.approx(value(table.estimate), rel=1e-10)
    assert result.covariance[0, 0] == pytest.approx(gradient @ table.covariance @ gradient, rel=1e-6)
    assert result.privacy is not None
    assert table.privacy is not None
    assert result.privacy[0, 0] == pytest.approx(gradient @ table.privacy @ gradient, rel=1e-6)


def test_linear_regression_is_the_moment_estimator_of_van_den_hout_and_kooiman(
    released: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    """X'X and X'y with the dummies of a randomised covariate replaced by their unbiased estimates; an indicator is its own
    square."""
    inverse = mechanism.assignments[0].channel.inverse  # type: ignore[attr-defined]
    dummies = inverse[1:, released["edu"].map(EDU.index)].T
    clean = np.column_stack([np.ones(len(released)), released["w"]])
    x, y = np.column_stack([clean, dummies]), released["income"].to_numpy()
    squares = x.T @ x
    squares[2:, 2:] = np.diag(dummies.sum(axis=0))
    result = pr.fit("income ~ w + edu", released, mechanism)
    np.testing.assert_allclose(result.estimate, np.linalg.solve(squares, x.T @ y), rtol=1e-9)


def cramers_v(table: pr.Result, deleted: Any = 0.0) -> float:
    """Of a reverted table, from which the cells (6,) of some records may be taken away."""
    p = (table.estimate * table.n - deleted).reshape(3, 2)
    p = p / p.sum()
    return float(np.sqrt((p**2 / np.outer(p.sum(axis=1), p.sum(axis=0))).sum() - 1))


@pytest.mark.parametrize("clusters", [None, "house"])
def test_the_correction_of_cramers_v_is_the_jackknifes(
    clusters: str | None, released: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    """Deleting records, or clusters, one at a time estimates the same bias without any derivative."""
    edu, smokes = (a.channel.inverse for a in mechanism.assignments[:2])  # type: ignore[attr-defined]
    rows = (
        edu[:, released["edu"].map(EDU.index)].T[:, :, None] * smokes[:, released["smokes"].map(YES.index)].T[:, None]
    )
    groups = np.arange(len(released)) if clusters is None else released[clusters].to_numpy()
    sums = [rows[groups == g].sum(axis=0).ravel() for g in np.unique(groups)]
    table = pr.fit(pr.crosstab("edu", "smokes"), released, mechanism)
    plain = cramers_v(table)
    bias = (len(sums) - 1) * (np.mean([cramers_v(table, s) for s in sums]) - plain)
    what = pr.correlation("edu", "smokes", "cramer", corrected=True)
    corrected = pr.fit(what, released, mechanism, clusters=clusters).estimate[0]
    # The jackknife has terms of order 1/n² besides, relative to the bias of order 1/n.
    assert (plain**2 - corrected**2) / (2 * plain) == pytest.approx(bias, rel=10 / len(sums))


def test_domain_means_are_a_regression_without_intercept(released: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    given = pr.fit(pr.mean("income", by="edu"), released, mechanism)
    same(given, pr.fit("income ~ 0 + edu", released, mechanism))


def test_the_privacy_part_of_counts_is_gouweleeuws_covariance(released: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    """Σ_k T_k Q (diag(p_k) − p_k p_kᵀ) Qᵀ at the estimated counts T: the variance given the confidential file."""
    channel: Any = mechanism.assignments[0].channel
    result = pr.fit(pr.counts("edu"), released, mechanism)
    parts = [
        t * channel.inverse @ (np.diag(p) - np.outer(p, p)) @ channel.inverse.T
        for t, p in zip(result.estimate, channel.matrix.T, strict=True)
    ]
    assert result.privacy is not None
    np.testing.assert_allclose(result.privacy, sum(parts), rtol=1e-9)


def test_an_inner_maximum_likelihood_table_is_the_reverted_one(released: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    plain = pr.fit(pr.crosstab("edu", "smokes"), released, mechanism)
    assert plain.estimate.min() > 0
    best = pr.table_em(["edu", "smokes"], released, mechanism)
    np.testing.assert_allclose(best.estimate, plain.estimate, atol=1e-5)
    np.testing.assert_allclose(best.covariance, plain.covariance, rtol=1e-3)


def test_margins_of_the_tables_agree(released: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    table = pr.fit(pr.crosstab("edu", "smokes"), released, mechanism).estimate.reshape(3, 2)
    np.testing.assert_allclose(
        table.sum(axis=1), pr.fit(pr.proportions("edu"), released, mechanism).estimate, rtol=1e-10
    )


def test_a_joint_matrix_that_is_a_product_changes_nothing(released: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    first, second = (a.channel.matrix for a in mechanism.assignments[:2])  # type: ignore[attr-defined]
    joint = pr.Mechanism({("edu", "smokes"): pr.TransitionMatrix.from_columns(CELLS, np.kron(first, second))})
    for what in (pr.crosstab("edu", "smokes"), pr.correlation("edu", "smokes", "cramer")):
        same(pr.fit(what, released, joint), pr.fit(what, released, mechanism))
    one, other = (pr.table_em(["edu", "smokes"], released, m) for m in (joint, mechanism))
    assert one.log_likelihood == pytest.approx(other.log_likelihood, rel=1e-9)


def test_frequencies_give_what_the_records_give(released: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    counted = released[["edu", "smokes", "score", "ill"]].value_counts().rename("f").reset_index()
    plans = [pr.mean("score", "edu"), pr.total("score"), pr.odds_ratio("smokes", "ill", strata="edu"), pr.counts("edu")]
    for what in plans:
        same(pr.fit(what, counted, mechanism, frequencies="f"), pr.fit(what, released, mechanism))


def test_resampled_errors_are_near_the_sandwich(released: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    for what in (pr.mean("score", "edu"), pr.total("score"), pr.odds_ratio("smokes", "ill")):
        draws = pr.fit(what, released, mechanism, inference=pr.Resampling(draws=2000, seed=1, scale="sd"))
        plain = pr.fit(what, released, mechanism)
        np.testing.assert_allclose(draws.standard_errors, plain.standard_errors, rtol=0.12)
        assert draws.draws is not None
        assert draws.draws.values.shape[1] == len(plain.parameters)
