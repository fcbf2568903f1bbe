"""Two-way clusters: the three variances by hand, statsmodels' numbers on clean data, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.estimators.two_way import made_positive

BOTH = ("firm", "year")
MECHANISM = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(["low", "high"], keep=0.9)})


def panel(n: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    firm, year = rng.integers(0, 25, n), rng.integers(0, 12, n)
    x = rng.normal(size=n) + rng.normal(size=25)[firm] + rng.normal(size=12)[year]
    y = 1 + x + rng.normal(size=25)[firm] + rng.normal(size=12)[year] + rng.normal(size=n)
    edu = np.where(rng.random(n) < 0.4, "high", "low")
    return pd.DataFrame(
        {"firm": firm, "year": [f"y{k}" for k in year], "x": x, "y": y, "edu": edu, "pair": firm * 100 + year}
    )


@pytest.mark.parametrize(("correction", "corrected"), [("HC0", False), ("HC1", True)])
def test_clean_data_have_the_numbers_of_statsmodels(correction: str, corrected: bool) -> None:
    import statsmodels.formula.api as smf

    data = panel()
    codes = np.column_stack([data["firm"], pd.factorize(data["year"])[0]])
    theirs = smf.ols("y ~ x", data).fit(cov_type="cluster", cov_kwds={"groups": codes, "use_correction": corrected})
    ours = pr.fit("y ~ x", data, None, clusters=BOTH, inference=pr.Sandwich(correction))
    np.testing.assert_allclose(ours.covariance, theirs.cov_params(), rtol=1e-9)
    assert ours.df is None
    same = pr.fit(
        "y ~ x",
        data,
        pr.Mechanism({"edu": pr.TransitionMatrix(["low", "high"], np.eye(2))}),
        clusters=BOTH,
        inference=pr.Sandwich(correction),
    )
    np.testing.assert_allclose(same.covariance, theirs.cov_params(), rtol=1e-9)


@pytest.mark.parametrize("what", ["y ~ x + edu", pr.mean("y"), pr.multinomial("firm_size ~ x + edu")])
@pytest.mark.parametrize("inference", [None, pr.Sandwich("HC0"), pr.Sandwich("HC2")])
def test_a_variance_is_the_sum_of_two_less_that_of_both(what: object, inference: pr.Sandwich | None) -> None:
    data = panel().assign(firm_size=lambda d: np.digitize(d["y"], [-1.0, 1.0]).astype(str))
    plain = pr.Sandwich(interval="wald") if inference is None else inference
    first, second, both = (
        pr.fit(what, data, MECHANISM, clusters=name, inference=plain) for name in ("firm", "year", "pair")
    )
    found = pr.fit(what, data, MECHANISM, clusters=BOTH, inference=inference)
    np.testing.assert_allclose(found.estimate, both.estimate, rtol=1e-12)
    expected, raised = made_positive(first.covariance + second.covariance - both.covariance)
    np.testing.assert_allclose(found.covariance, expected, rtol=1e-9)
    assert ("two-way-not-positive" in found.flags) == bool(raised)
    np.testing.assert_allclose(found.privacy, both.privacy, rtol=1e-9)
    np.testing.assert_array_equal(
        found.degrees_of_freedom, np.minimum(first.degrees_of_freedom, second.degrees_of_freedom)
    )
    assert "two-way clusters: 25 of firm and 12 of year" in found.inference


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, "CR2"),
        ({"absorb": "branch"}, "CR1"),
        ({"absorb": "branch", "inference": pr.Sandwich("HC0")}, "CR0"),
        ({"inference": pr.Sandwich("HC1")}, "CR1"),
    ],
)
def test_the_correction_that_is_told_is_the_one_that_was_made(options: dict[str, object], kind: str) -> None:
    data = panel().assign(branch=lambda d: d["firm"] % 3)
    assert f"({kind}, two-way" in pr.fit("y ~ x + edu", data, MECHANISM, clusters=BOTH, **options).inference


def test_margins_are_clustered_in_the_same_way() -> None:
    data = panel().assign(high=lambda d: (d["y"] > 1).astype(int))
    fitted = pr.fit("high ~ x + edu", data, MECHANISM, family="binomial", clusters=BOTH)
    assert "two-way" in fitted.margins(data).inference


def test_a_variance_that_is_none_is_mended_whatever_the_units() -> None:
    v = np.array([[1.0, 1.5, 0.0], [1.5, 1.0, 0.2], [0.0, 0.2, np.nan]])
    scale = np.diag([1.0, 1000.0, 1.0])
    mended, count = made_positive(v)
    assert count == 1
    assert np.linalg.eigvalsh(mended[:2, :2]).min() >= -1e-12
    np.testing.assert_allclose(made_positive(scale @ v @ scale)[0], scale @ mended @ scale)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"inference": pr.Resampling(draws=20)}, "not 'Resampling'"),
        ({"inference": pr.Jackknife()}, "not 'Jackknife'"),
        ({"inference": pr.Sandwich(interval="score")}, "not 'score'"),
        ({"clusters": ("firm", "firm")}, "two different ones"),
        ({"clusters": ("firm", "year", "pair")}, "two different ones"),
        ({"clusters": ("firm", "edu")}, "perturbed column"),
        ({"method": "model1"}, "nuisance model"),
    ],
)
def test_what_they_do_not_know_is_refused(options: dict[str, object], said: str) -> None:
    given = {"clusters": BOTH} | options
    with pytest.raises(pr.PramanaError, match=said):
        pr.fit("edu ~ x", panel(), MECHANISM, family="binomial", **given)


@pytest.mark.parametrize("pair", [lambda d: d[["firm", "pair"]], lambda d: (d["firm"], d["pair"])])
def test_two_arrays_are_refused_with_what_to_give(pair: Callable[[pd.DataFrame], object]) -> None:
    data = panel()
    with pytest.raises(pr.DataError, match=r"names of two columns, as in clusters=\('firm', 'year'\)"):
        pr.fit("y ~ x", data, None, clusters=pair(data))


def test_records_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    panel().to_parquet(tmp_path / "panel.parquet")
    with pytest.raises(pr.PramanaError, match="raise memory="):
        pr.fit("y ~ x", tmp_path / "panel.parquet", None, clusters=BOTH, memory=1)
