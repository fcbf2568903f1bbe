"""Released codes from words: exact at every cut point, the same compiled and not, and never an impossible level."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from pramana.mechanism.channels.matrix_forms import Dense, Mixture
from pramana.mechanism.draws import drawing
from pramana.mechanism.draws.drawing import dense_numpy, mixture_numpy, pick, thresholds
from pramana.mechanism.draws.keystream import BLOCK, FreshKeystream, Keystream, RowWords, SeededKeystream, SeededLanes

FIVE = np.array(
    [
        [0.70, 0.05, 0.1, 0.0, 0.2],
        [0.10, 0.75, 0.1, 0.2, 0.0],
        [0.10, 0.10, 0.6, 0.0, 0.3],
        [0.05, 0.05, 0.1, 0.8, 0.0],
        [0.05, 0.05, 0.1, 0.0, 0.5],
    ]
)
SIZE = 1e-6


class Words(Keystream):
    """A stream that gives the words it was given."""

    def __init__(self, *lanes: Any) -> None:
        self._lanes = [np.array(lane, dtype=np.uint64) for lane in lanes]

    def words(self, count: int) -> Any:
        lane = self._lanes.pop(0)
        assert lane.size == count
        return lane


@pytest.fixture(params=["numpy", "compiled"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both implementations, whatever the number of cells."""
    if request.param == "compiled":
        pytest.importorskip("numba")
        monkeypatch.setattr(drawing, "WORTHWHILE", 0)
    else:
        monkeypatch.setattr(drawing, "_compiled", lambda: None)


@pytest.mark.usefixtures("either")
def test_a_word_at_a_cut_point_belongs_to_the_level_above_it() -> None:
    form = Dense(np.array([[0.25, 0.5], [0.75, 0.5]]))
    words = [0, 2**62 - 1, 2**62, 2**64 - 1, 0, 2**63 - 1, 2**63, 2**64 - 1]
    codes = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    assert form.draw(codes, Words(words)).tolist() == [0, 0, 1, 1, 0, 0, 1, 1]


@pytest.mark.usefixtures("either")
def test_the_mixture_keeps_below_its_cut_point_and_draws_at_it() -> None:
    form = Mixture(0.5, np.array([0.25, 0.25, 0.5]))
    first = [0, 2**63 - 1, 2**63, 2**63, 2**63, 2**64 - 1]
    second = [2**64 - 1, 2**64 - 1, 0, 2**62, 2**63, 2**64 - 1]
    assert form.draw(np.ones(6, dtype=np.int64), Words(first, second)).tolist() == [1, 1, 0, 1, 2, 2]


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("word", [0, 1, 2**63, 2**64 - 2, 2**64 - 1])
def test_levels_of_probability_zero_are_never_drawn(word: int) -> None:
    columns = np.array([[0, 1, 0, 0.5], [1, 0, 0, 0.5], [0, 0, 1, 0], [0, 0, 0, 0]], dtype=float)
    codes = np.arange(4)
    drawn = Dense(columns).draw(codes, Words([word] * 4))
    assert np.all(columns[drawn, codes] > 0)
    refill = Mixture(1 - 1e-9, np.array([0.0, 0.5, 0.5, 0.0]))
    assert set(refill.draw(np.ones(1, dtype=np.int64), Words([2**64 - 1], [word])).tolist()) <= {1, 2}


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("word", [0, 2**63, 2**64 - 1])
def test_nothing_moves_when_everything_is_kept(word: int) -> None:
    codes = np.arange(5)
    assert Dense(np.eye(5)).draw(codes, Words([word] * 5)).tolist() == codes.tolist()
    assert Mixture(0.0, np.full(5, 0.2)).draw(codes, Words([word] * 5, [word] * 5)).tolist() == codes.tolist()


def test_every_boundary_word_is_drawn_as_its_exact_fraction() -> None:
    for column, cuts in zip(FIVE.T, thresholds(FIVE), strict=True):
        sums = [int(s * 2.0**64) for s in np.cumsum(column[:-1])]
        for word in {w for c in sums for w in (c - 1, c, c + 1) if 0 <= w < 2**64 - 1} | {0, 2**64 - 1}:
            exact = sum(s <= min(word, 2**64 - 2) for s in sums)
            level = int(pick(cuts, np.array([word], dtype=np.uint64))[0])
            assert level == min(exact, int(np.flatnonzero(column)[-1]))
            assert column[level] > 0


@pytest.mark.parametrize("size", [2, 5, 31, 33, 200])
def test_compiled_and_numpy_draws_are_the_same_codes(size: int, rng: np.random.Generator) -> None:
    compiled = pytest.importorskip("pramana.mechanism.draws.compiled")
    matrix = rng.dirichlet(np.full(size, 0.3), size).T
    matrix[matrix < 0.01] = 0
    matrix += np.eye(size)
    matrix /= matrix.sum(axis=0)
    form = Dense(matrix)
    n = 40_000
    codes, words = rng.integers(0, size, n), rng.integers(0, 2**64, n, dtype=np.uint64, endpoint=False)
    edges = rng.choice(form.cuts.ravel(), n // 4)
    words[: n // 4] = edges - rng.integers(0, 2, n // 4, dtype=np.uint64)
    slow, fast = np.empty_like(codes), np.empty_like(codes)
    dense_numpy(codes, words, form.cuts, slow)
    compiled.dense(codes, words, form.cuts, fast)
    np.testing.assert_array_equal(slow, fast)
    keep, cuts = Mixture(0.4, matrix[:, 0]).cuts
    mixture_numpy(codes, words, words[::-1].copy(), keep, cuts, slow)
    compiled.mixture(codes, words, words[::-1].copy(), keep, cuts, fast)
    np.testing.assert_array_equal(slow, fast)


def chi_square(codes: Any, released: Any, matrix: Any) -> float:
    size = len(matrix)
    counts = np.bincount(released * size + codes, minlength=size * size).reshape(size, size)
    expected = matrix * counts.sum(axis=0)
    possible = expected > 0
    assert counts[~possible].sum() == 0
    statistic = np.sum((counts - expected)[possible] ** 2 / expected[possible])
    return float(chi2.sf(statistic, possible.sum() - size))


def shifted(matrix: Any, by: float) -> Any:
    keep = np.diag(matrix)
    return matrix * (1 - keep + by) / (1 - keep) * (1 - np.eye(len(matrix))) + np.diag(keep - by)


@pytest.mark.parametrize(
    ("draws", "by"), [(5_000_000, 0.005), pytest.param(100_000_000, 0.001, marks=pytest.mark.verify)]
)
@pytest.mark.parametrize("form", [Dense(FIVE), Mixture(0.3, np.full(5, 0.2))], ids=["dense", "mixture"])
def test_draws_of_the_secure_keystream_follow_p_and_no_other(form: Any, draws: int, by: float) -> None:
    codes = np.arange(draws) % 5
    released = form.draw(codes, FreshKeystream())
    assert chi_square(codes, released, form.matrix) > SIZE
    assert chi_square(codes, released, shifted(form.matrix, by)) < SIZE


def dependence(a: Any, b: Any) -> float:
    """p-value of a chi-square test of independence."""
    counts = np.bincount(a * 5 + b, minlength=25).reshape(5, 5)
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    return float(chi2.sf(np.sum((counts - expected) ** 2 / expected), 16))


def test_columns_and_blocks_are_independent_and_a_reused_keystream_is_seen() -> None:
    form = Mixture(0.9, np.full(5, 0.2))
    zeros = np.zeros(20 * BLOCK, dtype=np.int64)
    stream = FreshKeystream()
    a, b = form.draw(zeros, stream), form.draw(zeros, stream)
    assert dependence(a, b) > SIZE
    assert dependence(a[1:], a[:-1]) > SIZE
    assert dependence(a[BLOCK:], a[:-BLOCK]) > SIZE
    words = SeededKeystream(1).words(2 * zeros.size).reshape(2, -1)
    c, d = (form.draw(zeros, Words(*words)) for _ in range(2))
    assert dependence(c, d) < SIZE


def test_every_word_of_the_keystream_is_used_once() -> None:
    stream = FreshKeystream()
    blocks = [w.copy() for rows, lanes in stream.blocks(3 * BLOCK + 7, 2) for w in lanes]
    words = np.concatenate([*blocks, stream.words(1000)])
    assert words.size == 2 * (3 * BLOCK + 7) + 1000
    assert np.unique(words).size == words.size


def test_two_fresh_keystreams_differ() -> None:
    assert not np.array_equal(FreshKeystream().words(4), FreshKeystream().words(4))


def test_seeded_lanes_do_not_depend_on_the_blocks() -> None:
    whole, parts = SeededLanes(3, 1), SeededLanes(3, 1)
    expected = whole.block(100)
    pieces = [parts.block(size) for size in (1, 39, 60)]
    for _ in range(2):
        found = np.concatenate([p.words(n) for p, n in zip(pieces, (1, 39, 60), strict=True)])
        np.testing.assert_array_equal(expected.words(100), found)


def test_words_of_rows_can_be_asked_for_some_rows() -> None:
    words = RowWords(lambda k: np.arange(10, dtype=np.uint64) + np.uint64(100 * k))
    some = words.at(np.array([1, 3]))
    assert some.words(2).tolist() == [1, 3]
    assert some.words(2).tolist() == [101, 103]
    with pytest.raises(ValueError, match="3 words asked for 10 rows"):
        words.words(3)
