"""R², cross tables in two dimensions, and what has no likelihood."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import pramana as pr

LEVELS = ["low", "mid", "high"]
P = pr.TransitionMatrix(LEVELS, [[0.8, 0.1, 0.1], [0.1, 0.7, 0.3], [0.1, 0.2, 0.6]])


def test_clean_r_squared_is_that_of_statsmodels(survey: pd.DataFrame) -> None:
    import statsmodels.formula.api as smf

    theirs = smf.wls("income ~ age + edu", survey, weights=survey["female"] + 1).fit()
    ours = pr.fit("income ~ age + edu", survey, None, weights=survey["female"] + 1)
    assert ours.rsquared == pytest.approx(theirs.rsquared, rel=1e-9)


@pytest.mark.parametrize("column", ["edu", "score"])
def test_r_squared_is_that_of_the_true_data(survey: pd.DataFrame, column: str) -> None:
    """A file with every release of every record, as often as the channel draws it, reverts to the truth exactly."""
    true = survey.assign(score=np.random.default_rng(1).integers(0, 3, len(survey)))
    channel = P if column == "edu" else pr.TransitionMatrix([0, 1, 2], P.matrix, kind="numeric")
    codes = [list(channel.levels).index(v) for v in true[column].tolist()]
    released = true.loc[true.index.repeat(3)].assign(
        **{column: np.resize(np.array(channel.levels, dtype=object), 1200)}
    )
    released[column] = released[column].infer_objects()
    released["n"] = np.rint(10 * channel.matrix[:, codes].T.ravel()).astype(int)
    for formula in ("income ~ age + edu", "score ~ age + edu"):
        clean = pr.fit(formula, true, None)
        if column == "score" and formula.startswith("income"):
            continue
        found = pr.fit(formula, released, pr.Mechanism({column: channel}), frequencies="n")
        assert found.rsquared == pytest.approx(pr.fit(formula.replace("edu", "C(edu)"), true, None).rsquared, rel=1e-8)
        assert clean.rsquared == pytest.approx(found.rsquared, rel=1e-8)


@pytest.mark.parametrize("formula", ["income ~ age + edu + female", "income ~ edu * female", "female ~ age + edu"])
def test_r_squared_with_several_perturbed_columns_is_that_of_the_true_data(survey: pd.DataFrame, formula: str) -> None:
    """Whether the columns multiply, factor or are the response, of a file with every release of every record."""
    other = pr.TransitionMatrix([0, 1], [[0.9, 0.2], [0.1, 0.8]], kind="numeric")
    true = survey.assign(female=survey["female"].astype(int))
    released = true.loc[true.index.repeat(6)].assign(
        edu=np.resize(np.repeat(np.array(LEVELS, dtype=object), 2), 6 * len(true)),
        female=np.resize([0, 1], 6 * len(true)),
    )
    places = [[LEVELS.index(e), int(f)] for e, f in zip(true["edu"], true["female"], strict=True)]
    released["n"] = np.concatenate(
        [np.rint(100 * np.outer(P.matrix[:, e], other.matrix[:, f]).ravel()).astype(int) for e, f in places]
    )
    found = pr.fit(formula, released, pr.Mechanism({"edu": P, "female": other}), frequencies="n")
    assert found.rsquared == pytest.approx(pr.fit(formula, true, None).rsquared, rel=1e-8)


@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("employed ~ age", {"family": "binomial"}),
        ("income ~ age - 1", {}),
        ("income ~ age + offset(female)", {}),
        ("income ~ age", {"subset": "edu == 'low'"}),
        (pr.mean("income"), {}),
    ],
    ids=str,
)
def test_r_squared_is_refused_where_it_means_nothing(
    what: object, options: dict[str, str], survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    with pytest.raises(pr.PramanaError, match="share of a variance"):
        _ = pr.fit(what, survey, mechanism, **options).rsquared


def test_likelihoods_alone_have_criteria(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    found = pr.fit("income ~ age", survey, mechanism)
    for name in ("aic", "bic", "llf"):
        with pytest.raises(pr.PramanaError, match="method='likelihood'"):
            getattr(found, name)
    likely = pr.fit("employed ~ age + edu", survey, mechanism, family="binomial", method="likelihood")
    assert likely.llf == likely.log_likelihood
    assert likely.bic - likely.aic == pytest.approx((np.log(400) - 2) * likely.parameter_count)


def test_a_cross_table_has_two_dimensions_and_totals(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    found = pr.fit(pr.crosstab("edu", "region"), survey, mechanism)
    table = found.cross()
    np.testing.assert_allclose(table.estimate[:3, :2].ravel(), found.estimate)
    np.testing.assert_allclose(table.std_error[:3, :2].ravel(), found.standard_errors)
    edu = pr.fit(pr.proportions("edu"), survey, mechanism)
    np.testing.assert_allclose(table.estimate[:3, 2], edu.estimate)
    np.testing.assert_allclose(table.std_error[:3, 2], edu.standard_errors, rtol=0.01)
    assert table.estimate[3, 2] == pytest.approx(1)
    assert table.summary().splitlines()[2].split() == ["edu", "north", "south", "total"]
    for style in ("markdown", "latex", "html", "json"):
        assert "south" in table.summary(style)
    three = pr.fit(pr.crosstab("edu", "region", "female", counts=True), survey, mechanism).cross()
    assert three.rows[0] == "low × north"
    assert three.estimate[-1, -1] == pytest.approx(400)
    with pytest.raises(pr.PramanaError, match="only a table"):
        edu.cross()
