"""Cell-key noise of published tables: sums are right on average, their errors known, and small tables of chances are checked."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import fsolve

import pramana as pr
from pramana.mechanism.cell_keys import CellKeys


def table(most: int, variance: float, blocked: int = 0) -> pd.DataFrame:
    """As ptable makes it: of all distributions with mean zero, this variance and these targets, that of largest entropy,
    p_v = exp(a + b v + c v²)."""
    rows = [{"i": 0, "j": 0, "p": 1.0}]
    for i in range(1, most + blocked + 1):
        j = np.array([k for k in range(max(0, i - most), i + most + 1) if k == 0 or k > blocked])

        def chances(theta: np.ndarray, v: np.ndarray = j - i) -> np.ndarray:
            return np.asarray(np.exp(theta[0] + theta[1] * v + theta[2] * v**2))

        def gaps(theta: np.ndarray, v: np.ndarray = j - i) -> list[float]:
            p = chances(theta, v)
            return [p.sum() - 1, p @ v, p @ v**2 - variance]

        p = chances(fsolve(gaps, [-1, 0, -0.1], xtol=1e-13), j - i)
        rows += [{"i": i, "j": int(k), "p": float(c)} for k, c in zip(j, p, strict=True)]
    return pd.DataFrame(rows).assign(v=lambda d: d["j"] - d["i"])


@pytest.mark.parametrize(("most", "variance", "blocked"), [(2, 1, 0), (3, 2, 0), (3, 2, 1), (4, 3, 2)])
def test_sums_are_right_on_average_and_their_variance_is_known(most: int, variance: float, blocked: int) -> None:
    """By enumeration of everything that can be published of three counts: the mean of the sum is the true one, and its variance that of the counts,
    at most what is stated, and just that for counts that cannot have been published as 0."""
    noise = pr.imports.ptable(table(most, variance, blocked))
    np.testing.assert_allclose(noise.variances, [0, *[variance] * (most + blocked)], atol=1e-6)
    assert noise.blocked == tuple(range(1, blocked + 1))
    moved = pr.imports.ptable(table(most, variance, blocked).drop(columns="j"))
    np.testing.assert_array_equal(moved.chances, noise.chances)
    weights, exact = np.array([1.0, -2.0, 0.5]), noise._up_to(40)
    for true in [(0, 1, 9), (3, 20, 30), (12, 13, 14)]:
        mean, square, stated = 0.0, 0.0, 0.0
        for published in product(*(np.flatnonzero(exact[c]) for c in true)):
            chance = float(np.prod([exact[c, j] for c, j in zip(true, published, strict=True)]))
            found = noise.total(published, weights)
            mean, square = mean + chance * found.estimate, square + chance * found.estimate**2
            stated += chance * found.standard_error**2
            assert abs(found.estimate - weights @ true) <= found.reach + 1e-9
        own = float(weights**2 @ [noise.variances[min(c, noise.largest)] for c in true])
        assert mean == pytest.approx(weights @ true, abs=1e-6)
        assert square - mean**2 == pytest.approx(own, rel=1e-5)
        assert stated >= own - 1e-6
        if min(true) > most:
            assert stated == pytest.approx(own, rel=1e-6)


def test_other_functions_are_undone_where_nothing_is_blocked() -> None:
    """Averaging the reversion over the noise returns every function of the count; its weights stay as they are for larger tables."""
    noise = pr.imports.ptable(table(2, 1))
    largest = []
    for top in (10, 40):
        channel = noise.matrix(top)
        np.testing.assert_allclose(channel.inverse @ channel.matrix, np.eye(top + 1), atol=1e-9)
        largest.append(np.abs(channel.inverse).max())
    assert largest[1] < 1.5 * largest[0]
    rng = np.random.default_rng(1)
    true = rng.integers(0, 9, 4000)
    cuts = noise._up_to(10).cumsum(axis=1)
    published = (rng.random(4000)[:, None] > cuts[true]).sum(axis=1)
    result = pr.fit(pr.mean("n"), {"n": published}, pr.Mechanism({"n": noise.matrix(10)}))
    assert abs(result.estimate[0] - true.mean()) < 4 * result.standard_errors[0]
    with pytest.raises(pr.MechanismError, match=r"counts 1 are never published, so that no left inverse .* use total"):
        pr.imports.ptable(table(3, 2, 1)).matrix(10)
    with pytest.raises(pr.MechanismError, match="largest=0 must be a whole number"):
        noise.matrix(0)


def test_an_interval_reaches_no_farther_than_the_noise() -> None:
    noise = CellKeys.of(table(2, 1))
    assert noise.total([5]).interval() == pytest.approx((5 - 1.959964, 5 + 1.959964))
    assert noise.total([5]).interval(0.99) == (3, 7)
    with pytest.raises(pr.MechanismError, match="level=2 must lie between 0 and 1"):
        noise.total([5]).interval(2)


GOOD: dict[str, Any] = {"i": [0, 1, 1, 1], "j": [0, 0, 1, 2], "p": [1, 0.25, 0.5, 0.25]}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"p": [1, 0.25, 0.5, 0.2]}, "chances of count 1 sum to 0.95, not 1"),
        ({"p": [1, 0.2, 0.5, 0.3]}, "count 1 is moved by 0.1 on average (the limit is 0.0001)"),
        ({"p": [1, -0.2, 0.9, 0.3]}, "is -0.2: chances lie between 0 and 1"),
        ({"i": [0, 2, 2, 2], "j": [0, 1, 2, 3]}, "chances of count 1 sum to 0, not 1"),
        ({"i": [0, 0.5, 1, 1]}, "must be whole numbers from 0"),
        ({"p": [1, np.nan, 0.5, 0.25]}, "must be whole numbers from 0, and p numbers"),
    ],
)
def test_tables_that_are_no_noise(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(pr.MechanismError, match=re.escape(message)):
        pr.imports.ptable({**GOOD, **changed})


def test_counts_that_were_not_published_so() -> None:
    noise = pr.imports.ptable(table(3, 2, 1))
    for counts, message in [
        ([4, 1], "count 1 in place 1.*none of 1, which are never published"),
        ([2.5], "count 2.5 in place 0: published counts are whole numbers"),
        ([-1], "count -1 in place 0"),
    ]:
        with pytest.raises(pr.DataError, match=message):
            noise.total(counts)
    with pytest.raises(pr.DataError, match="there are 2 counts and 1 weights"):
        noise.total([4, 5], [1])
    with pytest.raises(pr.DataError, match="'p'"):
        pr.imports.ptable({"i": [0], "j": [0]})


def test_a_larger_variance_behind_a_count_beyond_the_table_is_counted() -> None:
    """Count 3 can be published as 6, with a variance of 9, although 6 has no row of its own."""
    rows = {"i": [0, 1, 2, 3, 3, 4, 4, 4], "j": [0, 1, 2, 0, 6, 3, 4, 5], "p": [1, 1, 1, 0.5, 0.5, 0.25, 0.5, 0.25]}
    keys = pr.imports.ptable(rows)
    assert [keys.total([count]).standard_error for count in (6, 7, 50)] == pytest.approx([3, 0.5**0.5, 0.5**0.5])
    for wrong in (["a"], [np.inf], [np.nan]):
        with pytest.raises(pr.DataError, match="whole numbers from 0"):
            keys.total(wrong)
    for weights in (["a", "b"], [1, np.nan]):
        with pytest.raises(pr.DataError, match="one number a count"):
            keys.total([1, 2], weights)
    for text in ({"i": ["a"], "j": [1], "p": [1]}, {"i": [10**12], "j": [1], "p": [1]}):
        with pytest.raises(pr.MechanismError, match="whole numbers from 0, and p numbers"):
            pr.imports.ptable(text)
    with pytest.raises(pr.MechanismError, match="whole number"):
        keys.matrix(True)
    with pytest.raises(pr.MechanismError, match="between 0 and 1"):
        keys.total([1]).interval("a")
