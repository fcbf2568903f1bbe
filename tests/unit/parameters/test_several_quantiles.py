"""Several quantiles at once: each is the one alone, and what they share is in the covariance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr

SHARES = [0.9, 0.1, 0.5]


@pytest.mark.parametrize("inference", [None, pr.Resampling(draws=40, seed=1), pr.Jackknife()])
@pytest.mark.parametrize("by", [None, "edu"])
def test_each_is_the_one_alone(
    inference: object, by: str | None, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    together = pr.fit(pr.quantile("income", SHARES, by), survey, mechanism, inference=inference)
    alone = [pr.fit(pr.quantile("income", q, by), survey, mechanism, inference=inference) for q in SHARES]
    assert together.parameters == tuple(name for one in alone for name in one.parameters)
    for name in ("estimate", "standard_errors"):
        np.testing.assert_allclose(
            getattr(together, name), np.concatenate([getattr(one, name) for one in alone]), rtol=1e-12
        )
    np.testing.assert_allclose(together.interval(), np.concatenate([one.interval() for one in alone]), rtol=1e-12)
    if together.privacy is not None:
        np.testing.assert_allclose(
            np.diag(together.privacy), np.concatenate([np.diag(one.privacy) for one in alone]), rtol=1e-9, atol=1e-15
        )


def test_levels_and_kept_numbers_have_several_too(survey: pd.DataFrame) -> None:
    released = pd.DataFrame({"score": [1, 2, 3, 4] * 100, "income": survey["income"] * 10})
    mechanism = pr.Mechanism(
        {
            "score": pr.TransitionMatrix.randomized_response([1, 2, 3, 4], keep=0.9, kind="numeric"),
            "income": pr.KeepOrNoise(0.8, pr.LaplaceNoise(5.0)),
        }
    )
    for column in ("score", "income"):
        together = pr.fit(pr.quantile(column, [0.3, 0.6]), released, mechanism)
        alone = [pr.fit(pr.quantile(column, q), released, mechanism) for q in (0.3, 0.6)]
        np.testing.assert_allclose(together.estimate, [one.estimate[0] for one in alone], rtol=1e-12)
        np.testing.assert_allclose(together.interval(), [one.interval()[0] for one in alone], rtol=1e-12)


def test_clean_quantiles_vary_together_as_theory_says() -> None:
    """The correlation of the p- and q-quantile is √(p(1 − q) / q(1 − p)), whatever the density."""
    found = pr.fit(pr.quantile("y", [0.2, 0.6]), {"y": np.random.default_rng(1).normal(size=4001)}, None)
    errors = found.standard_errors
    expected = np.sqrt(0.2 * 0.4 / (0.6 * 0.8))
    assert found.covariance[0, 1] / errors.prod() == pytest.approx(expected, abs=0.01)


def test_a_distance_of_quartiles_has_an_error(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    found = pr.fit("quantile(income, [0.25, 0.75])", survey, mechanism)
    width = found.combine("quantile(income, 0.75) - quantile(income, 0.25)")
    v = found.covariance
    assert width.standard_errors[0] == pytest.approx(np.sqrt(v[0, 0] + v[1, 1] - 2 * v[0, 1]))


@pytest.mark.parametrize("q", [[], [0.5, 0.5], [0.5, 1.2], [True], 0, "half", ["a"]])
def test_what_is_no_list_of_quantiles_is_refused(q: object) -> None:
    with pytest.raises(pr.PramanaError):
        pr.quantile("income", q)  # type: ignore[arg-type]


def test_text_of_other_things_is_refused() -> None:
    with pytest.raises(pr.PramanaError, match="a number or a list of numbers"):
        pr.parameter("quantile(income, [a, b])")


@pytest.mark.parametrize("wrong", [None, "0.5", True, 1, np.int64(1), {"a": 0.5}, [], [0.5, 0.5], [0.5, None], ["0.5"]])
def test_what_is_no_share_is_refused(wrong: Any) -> None:
    with pytest.raises(pr.FormulaError, match="q="):
        pr.quantile("income", wrong)


def test_shares_may_be_numbers_of_numpy() -> None:
    assert pr.quantile("income", np.float32(0.5)) == pr.median("income")
    assert pr.quantile("income", np.array([0.25, 0.75])) == pr.quantile("income", [0.25, 0.75])
