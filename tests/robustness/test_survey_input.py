"""Survey designs that cannot be: every one is refused with the value, the limit and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr

ONES = np.ones(12)
MECHANISM = pr.Mechanism({"z": pr.TransitionMatrix.binary(0.8, 0.8)})


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "h": ["a"] * 6 + ["b"] * 6,
            "c": np.repeat(np.arange(6), 2),
            "w": np.arange(12) % 3 + 1.0,
            "N": [10] * 6 + [20] * 6,
            "y": np.arange(12.0),
            "z": [0, 1] * 6,
            "r1": np.arange(12) % 4 + 1.0,
            "r2": np.arange(12) % 5 + 1.0,
        }
    )


def replicated(**options: Any) -> pr.SurveyDesign:
    return pr.SurveyDesign(**{"weights": "w", "replicate_weights": ["r1", "r2"], **options})


@pytest.mark.parametrize(
    ("design", "message"),
    [
        (
            {"strata": "h", "clusters": [0] * 6 + [1, 1, 2, 2, 3, 3]},
            r"1 of 2 strata .* single sampling unit \(a\).*merge",
        ),
        ({"clusters": np.zeros(12)}, "all records are in a single sampling unit.*name smaller units"),
        ({"strata": "h", "clusters": "c", "fpc": 2 * ONES, "target": "finite"}, r"\(a\) has 3 sampling units.*has 2"),
        ({"strata": "h", "fpc": np.arange(1, 13) * 100, "target": "finite"}, r"100 and 200 in a\): give one"),
        ({"strata": "h", "fpc": 0 * ONES, "target": "finite"}, "fpc holds 0: .* are positive"),
        ({"strata": "h", "fpc": -ONES, "target": "finite"}, "fpc holds -1: .* are positive"),
        ({"strata": "h", "fpc": "h", "target": "finite"}, "fpc must hold numbers"),
        ({"strata": "h", "fpc": np.nan * ONES, "target": "finite"}, "12 of 12 records have missing values, in 'fpc'"),
        ({"weights": np.r_[-1, ONES[1:]]}, "1 negative value.*the limit is 0"),
        ({"weights": 0 * ONES}, "zero throughout: at least one must be positive"),
        ({"weights": "h"}, "weights must be numbers, not 'a'"),
        ({"weights": np.r_[1, 0 * ONES[:5], 1, 0 * ONES[:5]], "strata": "h", "clusters": "c"}, "no degrees of freedom"),
        ({"weights": "ww"}, "column 'ww' is not in the data"),
        ({"strata": "region"}, "column 'region' is not in the data"),
        ({"strata": "z"}, "strata='z' is a perturbed column: strata must be unperturbed"),
        ({"clusters": "z"}, "clusters='z' is a perturbed column"),
        ({"weights": "z"}, "weights='z' is a perturbed column"),
        ({"fpc": "z", "target": "finite"}, "fpc='z' is a perturbed column"),
        ({"weights": "w", "replicate_weights": ["r1", "z"]}, r"replicate_weights\[1\]='z' is a perturbed column"),
        ({"weights": "w", "replicate_weights": ["r1", "r9"]}, "column 'r9' is not in the data: did you mean"),
        ({"weights": "w", "replicate_weights": ["r1", -ONES]}, r"replicate_weights\[1\] hold 12 negative"),
        ({"weights": "w", "replicate_weights": ["r1", ONES[:3]]}, r"replicate_weights\[1\] have shape \(3,\)"),
        ({"weights": "w", "replicate_weights": ["r1", "r1"]}, "multiples of one another"),
    ],
)
def test_designs_that_the_data_contradict(frame: pd.DataFrame, design: dict[str, Any], message: str) -> None:
    with pytest.raises(pr.DataError, match=message):
        pr.fit(pr.total("y"), frame, MECHANISM, design=pr.SurveyDesign(**design))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pr.SurveyDesign(target="finite"), "needs fpc="),
        (lambda: pr.SurveyDesign(weights="w", replicate_weights="r1"), "must be a list of columns"),
        (lambda: pr.SurveyDesign(weights="w", replicate_weights=["r1"]), "1 column of replicate_weights"),
        (lambda: replicated(weights=None), "replace weights= one at a time"),
        (lambda: replicated(strata="h"), "carry the strata, clusters and fpc already"),
        (lambda: replicated(fpc="N"), "carry the strata, clusters and fpc already"),
        (lambda: replicated(target="file"), "target='file' cannot be had from them"),
        (lambda: replicated(replicate_scale=[1.0, 2.0, 3.0]), "one for each of the 2 replicates"),
        (lambda: replicated(replicate_scale=-1), "replicate_scale=-1 must be one positive number"),
        (lambda: replicated(replicate_scale="x"), "replicate_scale='x' must be one positive number"),
        (lambda: pr.SurveyDesign(weights="w", replicate_scale=0.5), "there are none: leave it out"),
        (lambda: pr.total("y", size=0), "size=0 is no size"),
        (lambda: pr.counts("y", size=float("nan")), "size=nan is no size"),
        (lambda: pr.total("y", size="many"), "size='many' is no size"),  # type: ignore[arg-type]
    ],
)
def test_designs_that_contradict_themselves(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(pr.PramanaError, match=message):
        make()


FILE = pr.SurveyDesign(weights="w", strata="h", target="file")
FINITE = pr.SurveyDesign(weights="w", strata="h", fpc=1000 * ONES, target="finite")


@pytest.mark.parametrize(
    ("what", "options", "message"),
    [
        (pr.mean("y"), {"design": "w"}, "design='w' must be a SurveyDesign"),
        (pr.mean("y"), {"design": FILE, "inference": pr.Jackknife()}, "no deletion shows: use Sandwich"),
        (
            pr.poverty_rate("y"),
            {"design": FINITE},
            "cannot be had for step functions.*target='superpopulation'.*quantile_regression",
        ),
        (pr.median("y"), {"design": FINITE, "inference": "resampling"}, "cannot be had .* Woodruff"),
        (pr.median("y"), {"design": FINITE, "inference": "jackknife"}, "cannot be had .* Woodruff"),
        (pr.median("y"), {"design": FILE, "inference": "sandwich"}, "target='file' cannot be had for step functions"),
        (pr.mean("y"), {"design": FILE, "inference": pr.Resampling()}, "no finite population correction: use Sandwich"),
        (pr.mean("y"), {"design": FILE, "inference": pr.Sandwich("HC1")}, "on top of the design's own"),
        (pr.total("y"), {"design": FILE, "inference": pr.Sandwich(interval="score")}, "its score interval is the Wald"),
        (pr.mean("y"), {"design": replicated(), "inference": pr.Sandwich()}, "leave inference= out"),
        (pr.mean("y"), {"design": FILE, "frequencies": "w"}, "a sampled record stands for itself"),
        ("y ~ z", {"design": FILE, "method": "likelihood"}, "target='file' needs .* or method='reversion'"),
        ("y ~ z", {"design": replicated(), "method": "likelihood"}, "no replicate weights: use method='reversion'"),
        (
            "y ~ z",
            {"design": pr.SurveyDesign("w"), "method": "likelihood", "inference": pr.Sandwich("HC1")},
            "on top of the design's own",
        ),
    ],
)
def test_what_does_not_go_with_a_design(frame: pd.DataFrame, what: Any, options: Any, message: str) -> None:
    with pytest.raises(pr.PramanaError, match=message):
        pr.fit(what, frame, MECHANISM, **options)


def test_a_zero_weight_takes_a_unit_out_of_the_degrees_of_freedom_only(frame: pd.DataFrame) -> None:
    """As in R: units outside a domain were sampled too, and count in the variance as the zeros they are."""
    weights = np.r_[0, 0, ONES[:10]]
    design = pr.SurveyDesign(weights=weights, strata="h", clusters="c")
    result = pr.fit(pr.total("y"), frame, None, design=design)
    whole = pr.fit(
        pr.total("own"), frame.assign(own=frame["y"] * weights), None, design=pr.SurveyDesign(None, "h", "c")
    )
    assert (result.df, whole.df) == (3, 4)
    np.testing.assert_allclose(result.covariance, whole.covariance, rtol=1e-12)
