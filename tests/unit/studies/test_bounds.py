"""A band of estimates over all P within bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr

DATA = pd.DataFrame({"y": (np.arange(1000) * 0.618 % 1 < 0.3).astype(int), "x": np.linspace(-1, 1, 1000)})
RANGES = {"sensitivity": (0.8, 0.95), "specificity": (0.9, 0.99)}


def make(sensitivity: float, specificity: float) -> pr.Mechanism:
    return pr.Mechanism({"y": pr.TransitionMatrix.binary(sensitivity, specificity)})


def test_a_band_spans_the_fits_at_its_corners() -> None:
    """A prevalence falls with sensitivity and rises with specificity."""
    found = pr.band(pr.mean("y"), DATA, make, RANGES, points=3)
    low, high = (pr.fit(pr.mean("y"), DATA, make(*at)) for at in ((0.95, 0.9), (0.8, 0.99)))
    row = found.to_dicts()[0]
    assert row["term"] == "mean(y)"
    assert (row["estimate_low"], row["estimate_high"]) == (low.estimate[0], high.estimate[0])
    assert row["conf_low"] <= low.interval()[0, 0]
    assert row["conf_high"] >= high.interval()[0, 1]
    points = found.points()
    assert list(points.columns) == ["sensitivity", "specificity", "term", "estimate", "conf_low", "conf_high"]
    assert len(points) == 9
    assert found.to_frame()["conf_high"][0] == row["conf_high"]
    assert "sensitivity 0.8 to 0.95; specificity 0.9 to 0.99 (9 points)" in found.summary()


def test_a_model_has_a_panel_a_term() -> None:
    found = pr.band("y ~ x", DATA, make, RANGES, points=2, family="binomial")
    assert found.parameters == ("Intercept", "x")
    assert [axes.get_title("left") for axes in found.plot(intercept=True).axes] == ["Intercept", "x"]
    assert [axes.get_title("left") for axes in found.plot().axes] == ["x"]
    one = found.plot("x", along="specificity").axes
    assert [axes.get_xlabel() for axes in one] == ["specificity"]


def test_measured_parts_keep_their_uncertainty_inside_a_band() -> None:
    """Bounds for one test, a study for another."""
    study = pr.TransitionMatrix.from_validation(sensitivity=(45, 50), specificity=(45, 50))
    data = DATA.assign(z=[0, 1] * 500)
    what = pr.mean("z", by="y")
    ways = [
        lambda p, m=m: pr.Mechanism({"y": pr.TransitionMatrix.binary(p, 0.95), "z": m})
        for m in (study, study.measured(None))
    ]
    with_error, without = (pr.band(what, data, way, {"p": (0.8, 0.9)}, points=2) for way in ways)
    assert np.all(np.ptp(with_error.limits, axis=2) > 1.2 * np.ptp(without.limits, axis=2))


def test_matrices_without_a_root_are_left_out_and_counted() -> None:
    """With many false positives nobody of the five is truly "b"."""
    few = {"y": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "g": ["a"] * 5 + ["b"]}
    groups = lambda p: pr.Mechanism({"g": pr.TransitionMatrix.binary(0.9, p, levels=["a", "b"])})  # noqa: E731
    found = pr.band(pr.mean("y", by="g"), few, groups, {"p": (0.6, 0.99)})
    assert 0 < found.rootless < 5
    assert all(np.isfinite(row["estimate_low"]) for row in found.to_dicts())
    assert f"{found.rootless} of 5 matrices leave no root" in found.summary()
    with pytest.raises(pr.SolveError, match="none of the 2 matrices"):
        pr.band(pr.mean("y", by="g"), few, groups, {"p": (0.6, 0.7)}, points=2)


@pytest.mark.parametrize(
    ("ranges", "options", "message"),
    [
        ({}, {}, "name what is varied"),
        ({"p": (0.9, 0.8)}, {}, r"'p' is \(0.9, 0.8\)"),
        ({"p": 0.9}, {}, "'p' is 0.9"),
        ({"p": (0.8, 0.9)}, {"points": 1}, "points=1"),
        ({"p": (0.8, 0.9), "q": (0.8, 0.9)}, {"points": 50}, "2500 fits, above the limit of 2000"),
        ({"p": (0.8, 0.9)}, {}, "gave a TransitionMatrix"),
    ],
)
def test_wrong_ranges_are_refused(ranges: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(pr.PramanaError, match=message):
        pr.band(pr.mean("y"), DATA, lambda p: pr.TransitionMatrix.binary(p, p), ranges, **options)


def test_a_name_that_is_not_there_is_answered_with_those_that_are() -> None:
    found = pr.band(pr.mean("y"), DATA, make, RANGES, points=2)
    with pytest.raises(pr.PramanaError, match=r"'specificty'.*specificity"):
        found.plot(along="specificty")
