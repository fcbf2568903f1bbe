"""Sums in bins and the records near the crossings give the quantile that all records give, whatever the signs of their masses."""

from __future__ import annotations

import numpy as np
import pytest

from pramana.arrays import Bool, Float
from pramana.estimating import binned
from pramana.estimating.binned import Binned, Bins, BinSums, Points
from pramana.estimating.distribution import Distribution, robust_spread
from pramana.parameters.quantiles import QuantileFunctional


def measure_of(kind: str, rng: np.random.Generator, n: int = 3000) -> Distribution:
    values = {
        "numbers": rng.normal(size=n),
        "ties": np.round(rng.normal(size=n), 1),
        "a long tail": np.exp(4 * rng.normal(size=n)),
        "two heaps": np.where(rng.random(n) < 0.5, rng.normal(size=n), 1e2 + rng.normal(size=n)),
    }[kind]
    flips = rng.choice([1.4, -0.4], p=[0.75, 0.25], size=n)
    return Distribution(values, np.column_stack([flips, 1 - flips]), ("a", "b"), n, 0.0)


def known_of(measure: Distribution, weights: Float, parts: int) -> tuple[Binned, list[Distribution], list[Float]]:
    cuts = [slice(k * measure.cells.shape[0] // parts, (k + 1) * measure.cells.shape[0] // parts) for k in range(parts)]
    pieces, own = [measure.rows(cut) for cut in cuts], [weights[cut] for cut in cuts]
    ends = [np.argmin(measure.values), np.argmax(measure.values)]
    bins, centre = Bins.around(measure.values[[*range(0, len(weights), 40), *ends]]), 0.3
    sums = [BinSums.of(bins, centre, piece, w, w, w**2) for piece, w in zip(pieces, own, strict=True)]
    total = sums[0]
    for part in sums[1:]:
        total = total + part
    return Binned.of(bins, centre, total), pieces, own


def refined(known: Binned, wanted: Bool, pieces: list[Distribution], own: list[Float]) -> Binned:
    total = None
    for piece, w in zip(pieces, own, strict=True):
        part = Points.of(known.bins, wanted, known.centre, piece, w, w)
        total = part if total is None else total + part
    assert total is not None
    return known.refined(wanted, total)


@pytest.mark.parametrize("parts", [1, 7])
@pytest.mark.parametrize("kind", ["numbers", "ties", "a long tail", "two heaps"])
def test_quantiles_and_bandwidth_are_those_of_all_records(
    kind: str, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binned, "BINS", 60)
    rng = np.random.default_rng(4)
    measure, weights = measure_of(kind, rng), rng.uniform(0.0, 2.0, 3000)
    known, pieces, own = known_of(measure, weights, parts)
    known = refined(known, known.quartered(), pieces, own)
    assert known.spread() == pytest.approx(robust_spread(measure.values, weights), rel=1e-10)
    for q, h in ((0.5, 0.01), (0.1, 0.3), (0.97, 1e-4)):
        functional = QuantileFunctional("q", q, h)
        for g in range(2):
            wanted = known.doubtful(g, q, q, h)
            if wanted.any():
                known = refined(known, wanted, pieces, own)
        standing = known.standing(measure.domains, 3000, 0.0)
        assert q != 0.5 or known.exact.mean() < 0.95  # some bins are known by their sums alone
        found = functional.solve(standing, np.ones((1, len(standing.values))))
        np.testing.assert_allclose(found, functional.solve(measure, weights[None]), rtol=1e-9)
        for a, b in zip(standing.shares(np.ones(1), np.ones(1)), measure.shares(weights, weights**2), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10)


def test_records_that_are_left_out_do_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the records near the crossing the quantile is another one."""
    monkeypatch.setattr(binned, "BINS", 20)
    rng = np.random.default_rng(1)
    measure, weights = measure_of("numbers", rng), np.ones(3000)
    known, _, _ = known_of(measure, weights, 1)
    functional, standing = QuantileFunctional("q", 0.5, 0.01), known.standing(measure.domains, 3000, 0.0)
    found = functional.solve(standing, np.ones((1, len(standing.values))))
    assert np.all(np.abs(found - functional.solve(measure, weights[None])) > 1e-4)
