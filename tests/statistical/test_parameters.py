"""Parameters by name: centred at the truth, covered as often as stated, and off when P is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import parameter_settings as settings
import pytest
from montecarlo import (
    LONG,
    Replicates,
    check,
    check_bias,
    check_coverage,
    check_rejects,
    check_spread,
    replicate,
    samples,
    sides,
)

import pramana as pr

Log = Callable[[str, object], None]


def lengths(short: int, long: int = 1000) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("replicates", [short, pytest.param(long, marks=pytest.mark.verify)])


@lengths(60)
def test_multinomial_logit_of_a_perturbed_response(replicates: int, record_property: Log) -> None:
    check(settings.multinomial(), replicates, 301, record_property)


@lengths(40)
def test_ordinal_logit_with_response_and_covariate_perturbed(replicates: int, record_property: Log) -> None:
    check(settings.ordinal(), replicates, 302, record_property)


@lengths(110)
def test_gini_within_perturbed_groups(replicates: int, record_property: Log) -> None:
    check(settings.gini(), replicates, 303, record_property)


@lengths(60)
def test_two_stage_least_squares_with_treatment_and_instrument_perturbed(replicates: int, record_property: Log) -> None:
    check(settings.instruments(), replicates, 304, record_property)


@lengths(60)
@pytest.mark.parametrize(("estimator", "perturbed"), [("ipw", "t"), ("aipw", "t"), ("ipw", "y"), ("aipw", "y")])
def test_average_treatment_effects(
    estimator: Literal["ipw", "aipw"], perturbed: str, replicates: int, record_property: Log
) -> None:
    check(settings.effect(estimator, perturbed), replicates, 305, record_property)


@lengths(70)
@pytest.mark.parametrize("q", [0.5, 0.75])
def test_quantile_regression_on_a_perturbed_group(q: float, replicates: int, record_property: Log) -> None:
    check(settings.quantile_regression(q), replicates, 306, record_property)


@lengths(70)
def test_the_average_marginal_effect_of_a_perturbed_covariate(replicates: int, record_property: Log) -> None:
    check(settings.margins(), replicates, 307, record_property)


@lengths(40)
@pytest.mark.parametrize(
    "setting",
    [settings.quantiles(0.5), settings.quantiles(0.8), settings.poverty()],
    ids=["median", "upper quintile", "poverty"],
)
def test_resampled_quantiles_and_poverty_rates(
    setting: settings.Setting, replicates: int, record_property: Log
) -> None:
    """100 draws leave each standard error about 10 % off, which averages out over replicates; percentile limits from so few
    draws lose one to two percent of coverage, so that the long run takes more."""
    draws = pr.Resampling(draws=100 if replicates < 1000 else 300)
    right = replicate(setting, replicates, 308, inference=draws)
    wrong = replicate(setting, 40, 308, mechanism=setting.wrong, inference=pr.Resampling(draws=20))
    record_property("rows", right.rows(wrong))
    check_bias(right)
    check_coverage(right, allowance=0.02)
    check_spread(right, allowance=0.04)
    check_rejects(wrong, right)


@lengths(60, 2000)
@pytest.mark.parametrize(
    "setting",
    [
        settings.kept_quantiles(0.5, by=False, weighted=False),
        settings.kept_quantiles(0.5, by=False, weighted=True),
        settings.kept_quantiles(0.8, by=True, weighted=False),
        pytest.param(
            settings.kept_quantiles(0.5, by=False, weighted=False, noise=pr.GaussianNoise(1.5)),
            marks=pytest.mark.verify,
        ),
        pytest.param(
            settings.kept_quantiles(0.5, by=False, weighted=False, noise=pr.UniformNoise(5.0)), marks=pytest.mark.verify
        ),
    ],
    ids=["median", "weighted median", "upper quintile by group", "median, normal noise", "median, uniform noise"],
)
def test_quantiles_of_numbers_that_were_kept_or_got_noise(
    setting: settings.Setting, replicates: int, record_property: Log
) -> None:
    right = replicate(setting, replicates, 512)
    wrong = replicate(setting, max(60, replicates // 10), 512, mechanism=setting.wrong)
    record_property("rows", right.rows(wrong))
    check_bias(right)
    check_coverage(right)
    check_spread(right, allowance=0.04)
    check_rejects(wrong, right)


@lengths(70)
@pytest.mark.parametrize("family", ["poisson", "negative binomial", "gamma", "inverse-gaussian"])
def test_regressions_with_a_logarithmic_link(family: str, replicates: int, record_property: Log) -> None:
    check(settings.log_link(family), replicates, 309, record_property)


def predicted(setting: settings.Setting, replicates: int, mechanism: pr.Mechanism | None = None) -> Replicates:
    """Predictions for new records, with their limits."""
    released = (data for _, data in samples(setting, replicates, 310))
    frames: list[Any] = [setting.fit(data, mechanism).predict(settings.NEW) for data in released]
    found = np.array([[f[c] for c in ("prediction", "std_error", "conf_low", "conf_high")] for f in frames])
    truth = np.array(setting.truth)
    missed = sides(found[:, 2:].swapaxes(1, 2), truth)
    return Replicates(("x = -1, g = 1", "x = 1, g = 0"), truth, found[:, 0], found[:, 1], missed, np.zeros(len(found)))


@lengths(80)
def test_predictions_of_new_records(replicates: int, record_property: Log) -> None:
    setting = settings.predictions()
    right, wrong = predicted(setting, replicates), predicted(setting, LONG if replicates >= 500 else 20, setting.wrong)
    record_property("rows", right.rows(wrong))
    check_bias(right)
    check_coverage(right)
    check_spread(right)
    check_rejects(wrong, right)


def test_the_median_of_perturbed_levels_is_the_right_level_and_another_under_a_wrong_matrix() -> None:
    setting = settings.median_level()
    right, wrong = (
        replicate(setting, 20, 311, mechanism=mechanism, inference=pr.Resampling(draws=20))
        for mechanism in (setting.mechanism, setting.wrong)
    )
    # Six standard errors separate the share of the lowest level from one half under the true matrix.
    assert np.all(right.estimates == 10)
    assert np.all(right.sides == 0)
    assert np.mean(wrong.estimates == 0) > 0.5
