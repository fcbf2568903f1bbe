"""Tables, domains, ratios and correlations with P = I are the textbook's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats
from statsmodels.stats.contingency_tables import StratifiedTable, Table2x2

import pramana as pr

pytestmark = pytest.mark.usefixtures("large_sample")

EDU, YES = ["low", "mid", "high"], ["no", "yes"]


def kept(levels: list[Any], kind: Any = None) -> pr.TransitionMatrix:
    return pr.TransitionMatrix(levels, np.eye(len(levels)), kind=kind)


@pytest.fixture
def people(rng: np.random.Generator) -> pd.DataFrame:
    n = 600
    edu = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    smokes = rng.random(n) < 0.3 + 0.1 * edu
    frame = pd.DataFrame(
        {
            "edu": np.array(EDU)[edu],
            "smokes": np.where(smokes, "yes", "no"),
            "ill": np.where(rng.random(n) < 0.2 + 0.2 * smokes, "yes", "no"),
            "region": rng.choice(["n", "s"], n),
            "score": np.clip(edu + rng.integers(0, 3, n), 0, 3),
        }
    )
    return frame.assign(income=1 + 0.5 * edu + rng.normal(size=n) * (1 + 0.3 * edu))


@pytest.fixture(params=["clean", "identity"])
def mechanism(request: pytest.FixtureRequest) -> pr.Mechanism | None:
    """No mechanism at all, and one whose matrices keep every value."""
    if request.param == "clean":
        return None
    columns = {
        "edu": kept(EDU, "ordinal"),
        "smokes": kept(YES),
        "ill": kept(YES),
        "score": kept([0, 1, 2, 3], "numeric"),
    }
    return pr.Mechanism(columns)


def named(result: pr.Result) -> dict[str, float]:
    return dict(zip(result.parameters, result.estimate.tolist(), strict=True))


def test_domain_means_are_those_of_a_regression_on_indicators(people: pd.DataFrame, mechanism: Any) -> None:
    result = pr.fit(pr.mean("income", by="edu"), people, mechanism)
    textbook = smf.ols("income ~ 0 + edu", people).fit(cov_type="HC0")
    for level in EDU:
        row = result[f"mean(income)[edu={level}]"]
        assert row.estimate == pytest.approx(textbook.params[f"edu[{level}]"], rel=1e-10)
        assert row.std_error == pytest.approx(textbook.bse[f"edu[{level}]"], rel=1e-10)


def test_domains_of_two_columns_are_their_combinations(people: pd.DataFrame, mechanism: Any) -> None:
    result = named(pr.fit(pr.mean("income", by=["edu", "region"]), people, mechanism))
    means = people.groupby(["edu", "region"])["income"].mean()
    for (edu, region), value in means.items():  # type: ignore[misc]
        assert result[f"mean(income)[edu={edu}, region={region}]"] == pytest.approx(value, rel=1e-10)


def test_totals_are_weighted_sums_with_the_error_of_a_sum(people: pd.DataFrame, mechanism: Any) -> None:
    weights = np.random.default_rng(1).uniform(1, 9, len(people))
    total = pr.fit(pr.total("income"), people, mechanism, weights=weights)
    terms = weights * people["income"].to_numpy()
    assert total.estimate[0] == pytest.approx(terms.sum(), rel=1e-10)
    assert total.standard_errors[0] == pytest.approx(np.sqrt(len(terms)) * terms.std(), rel=1e-10)
    mean = pr.fit(pr.mean("income"), people, mechanism, weights=weights)
    known = pr.fit(pr.total("income", size=1000), people, mechanism, weights=weights)
    assert known.standard_errors[0] == pytest.approx(1000 * mean.standard_errors[0], rel=1e-10)
    by = pr.fit(pr.total("income", by="edu"), people, mechanism, weights=weights)
    sums = (weights * people["income"]).groupby(people["edu"]).sum()
    assert named(by) == pytest.approx({f"total(income)[edu={k}]": v for k, v in sums.items()}, rel=1e-10)
    assert np.ones(3) @ by.covariance @ np.ones(3) == pytest.approx(total.covariance[0, 0], rel=1e-10)


def test_counts_are_multinomial(people: pd.DataFrame, mechanism: Any) -> None:
    result, n = pr.fit(pr.counts("edu"), people, mechanism), len(people)
    expected = people["edu"].value_counts()
    assert named(result) == pytest.approx({f"count(edu[{k}])": v for k, v in expected.items()})
    shares = result.estimate / n
    np.testing.assert_allclose(result.covariance, n * (np.diag(shares) - np.outer(shares, shares)), atol=1e-9)


def test_shares_within_domains(people: pd.DataFrame, mechanism: Any) -> None:
    result = pr.fit(pr.proportions("smokes", by="edu"), people, mechanism)
    table = pd.crosstab(people["edu"], people["smokes"], normalize="index")
    for edu in EDU:
        share, n = table.loc[edu, "yes"], int((people["edu"] == edu).sum())
        row = result[f"smokes[yes | edu={edu}]"]
        assert row.estimate == pytest.approx(share, rel=1e-10)
        assert row.std_error == pytest.approx(np.sqrt(share * (1 - share) / n), rel=1e-10)


def test_a_cross_table_and_its_counts(people: pd.DataFrame, mechanism: Any) -> None:
    table = pd.crosstab(people["edu"], people["smokes"])
    shares = named(pr.fit(pr.crosstab("edu", "smokes"), people, mechanism))
    counts = named(pr.fit(pr.crosstab("edu", "smokes", counts=True), people, mechanism))
    for edu in EDU:
        for yes in YES:
            cell = f"edu[{edu}]:smokes[{yes}]"
            assert counts[f"count({cell})"] == pytest.approx(table.loc[edu, yes])
            assert shares[cell] == pytest.approx(table.loc[edu, yes] / len(people))


def test_ratios_of_a_two_by_two_table(people: pd.DataFrame, mechanism: Any) -> None:
    cells = pd.crosstab(people["smokes"], people["ill"]).loc[["yes", "no"], ["yes", "no"]].to_numpy()
    book = Table2x2(cells, shift_zeros=False)
    odds = pr.fit(pr.odds_ratio("smokes", "ill"), people, mechanism)["log odds ratio(smokes, ill)"]
    assert (odds.estimate, odds.std_error) == pytest.approx((book.log_oddsratio, book.log_oddsratio_se), rel=1e-10)
    risk = pr.fit(pr.risk_ratio("smokes", "ill"), people, mechanism)["log risk ratio(smokes, ill)"]
    assert (risk.estimate, risk.std_error) == pytest.approx((book.log_riskratio, book.log_riskratio_se), rel=1e-10)
    p, n = cells[:, 0] / cells.sum(axis=1), cells.sum(axis=1)
    difference = pr.fit(pr.risk_difference("smokes", "ill"), people, mechanism)["risk difference(smokes, ill)"]
    error = np.sqrt(np.sum(p * (1 - p) / n))
    assert (difference.estimate, difference.std_error) == pytest.approx((p[0] - p[1], error), rel=1e-10)


def test_the_mantel_haenszel_odds_ratio(people: pd.DataFrame, mechanism: Any) -> None:
    strata = [pd.crosstab(d["smokes"], d["ill"]).to_numpy() for _, d in people.groupby("edu")]
    book = StratifiedTable(strata)
    result = pr.fit(pr.odds_ratio("smokes", "ill", strata="edu"), people, mechanism)
    assert result.parameters == ("log odds ratio(smokes, ill | edu)",)
    assert result.estimate[0] == pytest.approx(book.logodds_pooled, rel=1e-10)
    # Robins, Breslow and Greenland's error is another consistent estimate of the same one.
    assert result.standard_errors[0] == pytest.approx(book.logodds_pooled_se, rel=0.02)


def test_the_mantel_haenszel_risk_ratio_and_difference(people: pd.DataFrame, mechanism: Any) -> None:
    strata = [pd.crosstab(d["smokes"], d["ill"]).loc[["yes", "no"], ["yes", "no"]] for _, d in people.groupby("edu")]
    book = StratifiedTable([t.to_numpy() for t in strata])
    ratio = pr.fit(pr.risk_ratio("smokes", "ill", strata="edu"), people, mechanism)
    assert ratio.parameters == ("log risk ratio(smokes, ill | edu)",)
    assert ratio.estimate[0] == pytest.approx(np.log(book.riskratio_pooled), rel=1e-10)
    difference = pr.fit(pr.risk_difference("smokes", "ill", strata="edu"), people, mechanism)
    assert difference.parameters == ("risk difference(smokes, ill | edu)",)
    sizes = np.array([t.to_numpy().sum(axis=1) for t in strata])
    risks = np.array([t["yes"] / t.sum(axis=1) for t in strata])
    expected = np.average(risks[:, 0] - risks[:, 1], weights=sizes.prod(axis=1) / sizes.sum(axis=1))
    assert difference.estimate[0] == pytest.approx(expected, rel=1e-10)


# Success and failure of the exposed, then of the unexposed, in three strata.
SAME_RATIO = np.array([[[30, 70], [30, 170]], [[60, 40], [45, 105]], [[8, 32], [20, 180]]])
SAME_DIFFERENCE = np.array([[[30, 70], [20, 180]], [[60, 40], [60, 90]], [[16, 24], [40, 160]]])


def counted(tables: np.ndarray) -> dict[str, Any]:
    stratum, unexposed, failure = (c.ravel() for c in np.indices(tables.shape))
    return {"s": stratum, "exposed": 1 - unexposed, "case": 1 - failure, "count": tables.ravel()}


def test_errors_of_mantel_haenszel_are_greenland_and_robins_where_strata_agree() -> None:
    """Their variances (1985) suppose a common ratio, or weights that are known; then the two are the same number."""
    (a, b), (c, d) = SAME_RATIO.transpose(1, 2, 0).astype(float)
    n1, n0, n = a + b, c + d, a + b + c + d
    variance = np.sum(((a + c) * n1 * n0 - a * c * n) / n**2) / (np.sum(a * n0 / n) * np.sum(c * n1 / n))
    ratio = pr.fit(pr.risk_ratio("exposed", "case", strata="s"), counted(SAME_RATIO), None, frequencies="count")
    assert (ratio.estimate[0], ratio.covariance[0, 0]) == pytest.approx((np.log(2), variance), rel=1e-10)
    (a, b), (c, d) = SAME_DIFFERENCE.transpose(1, 2, 0).astype(float)
    n1, n0, n = a + b, c + d, a + b + c + d
    variance = np.sum((a * b * n0**3 + c * d * n1**3) / (n1 * n0 * n**2)) / np.sum(n1 * n0 / n) ** 2
    what = pr.risk_difference("exposed", "case", strata="s")
    difference = pr.fit(what, counted(SAME_DIFFERENCE), None, frequencies="count")
    assert (difference.estimate[0], difference.covariance[0, 0]) == pytest.approx((0.2, variance), rel=1e-10)


@pytest.mark.parametrize("make", [pr.odds_ratio, pr.risk_ratio, pr.risk_difference])
def test_strata_of_one_level_are_no_strata(make: Any, people: pd.DataFrame) -> None:
    alone = people.assign(all="all")
    pooled = pr.fit(make("smokes", "ill", strata="all"), alone, None)
    plain = pr.fit(make("smokes", "ill"), people, None)
    np.testing.assert_allclose(pooled.estimate, plain.estimate, rtol=1e-12)
    np.testing.assert_allclose(pooled.covariance, plain.covariance, rtol=1e-10)


@pytest.mark.parametrize("make", [pr.odds_ratio, pr.risk_ratio, pr.risk_difference])
def test_a_stratum_without_exposed_changes_nothing_and_is_noted(make: Any) -> None:
    useless = np.array([[[0, 0], [30, 50]]])
    with_it, without = (
        pr.fit(make("exposed", "case", strata="s"), counted(tables), None, frequencies="count")
        for tables in (np.concatenate([SAME_RATIO, useless]), SAME_RATIO)
    )
    np.testing.assert_allclose(with_it.estimate, without.estimate, rtol=1e-12)
    np.testing.assert_allclose(with_it.standard_errors, without.standard_errors, rtol=1e-10)
    assert [d.code for d in with_it.diagnostics] == ["empty-arm"]
    assert "stratum s=3" in with_it.diagnostics[0].message
    assert without.diagnostics == ()


def test_correlations(people: pd.DataFrame, mechanism: Any) -> None:
    def value(x: str, y: str, kind: Any) -> float:
        return float(pr.fit(pr.correlation(x, y, kind), people, mechanism).estimate[0])

    pearson = np.corrcoef(people["income"], people["score"])[0, 1]
    assert value("income", "score", "pearson") == pytest.approx(pearson, rel=1e-10)
    table = pd.crosstab(people["edu"], people["smokes"])
    cramer = stats.contingency.association(table.to_numpy(), method="cramer")
    assert value("edu", "smokes", "cramer") == pytest.approx(cramer, rel=1e-10)
    ordered = people if mechanism is not None else people.assign(edu=pd.Categorical(people["edu"], EDU, ordered=True))
    tau = stats.kendalltau(people["edu"].map(EDU.index), people["score"]).statistic
    found = pr.fit(pr.correlation("edu", "score", "kendall"), ordered, mechanism)
    assert found.estimate[0] == pytest.approx(tau, rel=1e-10)


def test_near_independence_the_correction_of_cramers_v_is_bergsmas() -> None:
    """V² loses (r − 1)(c − 1) / n / (min(r, c) − 1), and gets back the variance of V, by which the root's curvature lowers
    its mean."""
    rows, columns, n = np.array([5, 3, 2]), np.array([4, 3, 2, 1]), 1_000_000
    counts = n * np.outer(rows, columns) // 100 + np.outer([1, 0, -1], [2000, 0, 0, -2000])
    i, j = np.indices(counts.shape)
    data = {"a": i.ravel(), "b": j.ravel(), "n": counts.ravel()}
    plain, corrected = (
        pr.fit(pr.correlation("a", "b", "cramer", corrected=c), data, None, frequencies="n") for c in (False, True)
    )
    assert corrected.parameters == ("corrected Cramér's V(a, b)",)
    lost = plain.estimate[0] ** 2 - corrected.estimate[0] ** 2
    assert lost == pytest.approx(2 * 3 / n / 2 - plain.covariance[0, 0], rel=0.03)


def test_the_error_of_pearsons_r_is_the_textbook_s_for_normal_data() -> None:
    rng = np.random.default_rng(5)
    x, noise = rng.normal(size=(2, 200_000))
    result = pr.fit(pr.correlation("x", "y"), {"x": 1e4 + x, "y": 0.6 * x + 0.8 * noise}, None)
    expected = (1 - result.estimate[0] ** 2) / np.sqrt(len(x))
    assert result.standard_errors[0] == pytest.approx(expected, rel=0.01)


def test_the_maximum_likelihood_table_and_the_g_test(people: pd.DataFrame, mechanism: Any) -> None:
    result = pr.table_em(["edu", "smokes"], people, mechanism)
    table = pd.crosstab(people["edu"], people["smokes"]).loc[sorted(EDU) if mechanism is None else EDU]
    np.testing.assert_allclose(result.estimate, table.to_numpy().ravel() / len(people), atol=1e-9)
    plain = pr.fit(pr.crosstab("edu", "smokes"), people, mechanism)
    np.testing.assert_allclose(result.covariance, plain.covariance, atol=1e-10)
    g, p_value, df, _ = stats.chi2_contingency(table, correction=False, lambda_="log-likelihood")
    assert result.independence is not None
    found = result.independence
    assert (found.statistic, found.df, found.p_value) == pytest.approx((g, df, p_value), rel=1e-5)
