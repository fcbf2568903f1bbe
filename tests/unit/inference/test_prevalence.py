"""Lang and Reiczigel's intervals: where they are offered, and at every level."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pramana as pr

P = pr.TransitionMatrix.from_validation(sensitivity=(204, 242), specificity=(71, 89))
DATA = {"y": [1] * 680 + [0] * 270, "x": [1.0, 2.0] * 475, "edu": ["a", "b"] * 475}
LIMITS = (0.7237980, 0.8807139)  # R package asht, prevSeSp(680/950, 950, 204/242, 242, 71/89, 89), by its formula
WAY = pr.Sandwich(interval="lang-reiczigel")


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (pr.mean("y"), [LIMITS]),
        ("y ~ 1", [LIMITS]),
        (pr.proportions("y"), [(1 - LIMITS[1], 1 - LIMITS[0]), LIMITS]),
        (pr.counts("y"), 950 * np.array([(1 - LIMITS[1], 1 - LIMITS[0]), LIMITS])),
        (pr.counts("y", size=10_000), 10_000 * np.array([(1 - LIMITS[1], 1 - LIMITS[0]), LIMITS])),
    ],
)
def test_shares_means_and_counts_have_them(what: Any, expected: Any) -> None:
    result = pr.fit(what, DATA, pr.Mechanism({"y": P}), inference=WAY)
    np.testing.assert_allclose(result.interval(), expected, rtol=3e-7)
    assert result.interval_kind == "lang-reiczigel"
    assert "lang-reiczigel intervals" in result.inference
    assert np.all(np.diff(result.interval(0.99), axis=1) > np.diff(result.interval(), axis=1))


def test_counts_of_rows_are_rows() -> None:
    counted = {"y": [1, 0], "n": [680, 270]}
    result = pr.fit(pr.mean("y"), counted, pr.Mechanism({"y": P}), frequencies="n", inference=WAY)
    np.testing.assert_allclose(result.interval(), [LIMITS], rtol=3e-7)


def test_a_known_accuracy_leaves_an_interval_of_the_released_share() -> None:
    """Agresti and Coull's interval, mapped by P."""
    known = pr.TransitionMatrix.from_published(0.9, 0.8).measured(
        pr.TransitionMatrix.from_published((0.9, 10**9), (0.8, 10**9)).uncertainty
    )
    result = pr.fit(pr.mean("y"), DATA, pr.Mechanism({"y": known}), inference=WAY)
    z = 1.959963984540054
    size, share = 950 + z**2, (680 + z**2 / 2) / (950 + z**2)
    ends = share + np.array([-1, 1]) * z * np.sqrt(share * (1 - share) / size)
    np.testing.assert_allclose(result.interval()[0], np.clip((ends - 0.2) / 0.7, 0, 1), rtol=1e-6)


@pytest.mark.parametrize(
    ("what", "channel", "options"),
    [
        (pr.mean("y"), P, {"weights": "x"}),
        (pr.mean("y"), P, {"clusters": "edu"}),
        (pr.mean("y"), P, {"method": "naive"}),
        (pr.mean("y"), P.measured(None), {}),
        (
            pr.mean("y"),
            pr.TransitionMatrix.from_validation(sensitivity=(204, 242), specificity=(71, 89), internal=True),
            {},
        ),
        (pr.mean("x", by="y"), P, {}),
        ("y ~ x", P, {"family": "binomial"}),
        (pr.mean("y"), pr.Stratified("edu", {"a": P, "b": P}), {}),
    ],
)
def test_others_are_refused_with_what_to_use(what: Any, channel: Any, options: dict[str, Any]) -> None:
    with pytest.raises(pr.PramanaError, match=r"one column with two levels.*use Sandwich\(\)"):
        pr.fit(what, DATA, pr.Mechanism({"y": channel}), inference=WAY, **options)
