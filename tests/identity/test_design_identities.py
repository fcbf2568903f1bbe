"""What every design promises exactly: columns sum to 1, frequencies are kept, zeros are zeros."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import pramana as pr
from pramana import designs
from pramana.arrays import Float, Words
from pramana.mechanism.designs.privacy import difference_sets
from pramana.mechanism.draws.keystream import Keystream

LETTERS = "abcdefghijkl"
SHARES = np.array([0.4, 0.3, 0.2, 0.1])
FOUR = list("abcd")


@st.composite
def frequencies(draw: st.DrawFn, most: float = 1.0) -> Float:
    weights = np.array(draw(st.lists(st.floats(1e-3, 1.0), min_size=3, max_size=12)))
    shares: Float = weights / weights.sum()
    assume(shares.max() <= most)
    return shares


def kept(matrix: pr.TransitionMatrix, shares: Float) -> None:
    assert np.abs(matrix.matrix.sum(axis=0) - 1).max() < 1e-12
    assert np.abs(matrix.matrix @ shares - shares).max() < 1e-12


@settings(max_examples=60, deadline=None)
@given(frequencies(), st.floats(0.55, 1.0))
def test_a_mixture_keeps_frequencies_and_its_smallest_diagonal_entry_is_keep(shares: Float, keep: float) -> None:
    assume(keep > shares.min() + 1e-3)
    made = designs.invariant(LETTERS[: shares.size], shares, keep)
    kept(made, shares)
    assert made.diagonal.min() == pytest.approx(keep, abs=1e-12)
    assert np.allclose(made.diagonal, made.matrix.diagonal(), rtol=0, atol=1e-15)


@settings(max_examples=60, deadline=None)
@given(frequencies(), st.floats(0.55, 1.0))
def test_two_stages_keep_frequencies(shares: Float, keep: float) -> None:
    kept(designs.invariant(LETTERS[: shares.size], shares, keep, construction="two-stage"), shares)


@settings(max_examples=60, deadline=None)
@given(frequencies(most=0.5), st.floats(0.55, 1.0))
def test_equal_diagonals_keep_frequencies(shares: Float, keep: float) -> None:
    made = designs.invariant(LETTERS[: shares.size], shares, keep, construction="equal-diagonal")
    kept(made, shares)
    assert np.all(made.diagonal == keep)


@pytest.mark.parametrize("most", [0.5, 0.5 - 1e-14, 0.5 - 1e-12, 0.5 - 1e-9, 0.5 - 1e-4, 0.34])
def test_equal_diagonals_up_to_the_limit_of_one_half(most: float) -> None:
    shares = np.array([most, *(np.array([0.6, 0.3, 0.1]) * (1 - most))])
    kept(designs.invariant(FOUR, shares, 0.8, construction="equal-diagonal"), shares)


def test_a_diagonal_by_level_can_be_kept_invariant() -> None:
    shares, keep = np.array([0.6, 0.25, 0.15]), [0.9, 0.8, 0.7]
    made = designs.invariant(list("abc"), shares, keep, construction="equal-diagonal")
    kept(made, shares)
    assert made.diagonal.tolist() == keep


@pytest.mark.parametrize(
    "make",
    [
        lambda: designs.band(FOUR, 0.7, width=2, frequencies=SHARES, invariant=True),
        lambda: designs.band(FOUR, 0.7, frequencies=SHARES, invariant=True),
        lambda: designs.blocks(FOUR, [["a", "c"], ["b", "d"]], 0.7, frequencies=SHARES, invariant=True),
        lambda: designs.restricted(FOUR, 0.7, fixed=["b"], frequencies=SHARES, invariant=True),
    ],
)
def test_structure_and_invariance_hold_together(make: Callable[[], pr.TransitionMatrix]) -> None:
    made = make()
    kept(made, SHARES)
    assert made.diagonal.min() == pytest.approx(0.7, abs=1e-12)


def test_a_structure_that_allows_everything_is_the_mixture() -> None:
    free = designs.restricted(FOUR, 0.7, frequencies=SHARES, invariant=True)
    assert np.allclose(free.matrix, designs.invariant(FOUR, SHARES, 0.7).matrix, rtol=0, atol=1e-15)


def test_zeros_are_exactly_zero() -> None:
    near = np.abs(np.subtract.outer(np.arange(5), np.arange(5))) <= 2
    for invariant in (False, True):
        shares = np.full(5, 0.2) if invariant else None
        made = designs.band(list("abcde"), 0.8, width=2, frequencies=shares, invariant=invariant)
        assert np.array_equal(made.matrix > 0, near)
    groups = designs.blocks(FOUR, [["a", "d"], ["b"], ["c"]], epsilon=0.5)
    assert min(groups.matrix[0, 3], groups.matrix[3, 0]) > 0
    assert np.count_nonzero(groups.matrix) == 6


class Extremes(Keystream):
    """The words at the ends of every interval, then random ones."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(5)

    def words(self, count: int) -> Words:
        words = self.rng.integers(0, 2**64, count, dtype=np.uint64)
        words[: count // 4] = 0
        words[count // 4 : count // 2] = np.uint64(2**64 - 1)
        return words


@pytest.mark.parametrize(
    "made",
    [
        designs.band(list("abcde"), 0.6, width=1),
        designs.blocks(FOUR, [["a", "c"], ["b"], ["d"]], 0.6),
        designs.restricted(FOUR, [0.6, 0.7, 0.8, 0.9], fixed=["a", "d"]),
        designs.per_level(FOUR, [1.0, 0.7, 0.8, 1.0]),
        designs.mangat(0.7),
    ],
    ids=["band", "blocks", "fixed", "per level", "mangat"],
)
def test_perturbing_never_draws_a_structural_zero(made: pr.TransitionMatrix) -> None:
    codes = np.random.default_rng(3).integers(0, len(made), 20_000)
    released = made.perturb(codes, {}, Extremes())
    assert np.all(made.matrix[released, codes] > 0)


def test_impossible_combinations_never_appear() -> None:
    pairs = [("child", "single"), ("adult", "single"), ("adult", "married")]
    rng = np.random.default_rng(4)
    rows = rng.integers(0, 3, 3000)
    frame = {"age": [pairs[i][0] for i in rows], "status": [pairs[i][1] for i in rows]}
    marginal = [
        pr.TransitionMatrix.randomized_response(["child", "adult"], 0.8),
        pr.TransitionMatrix.randomized_response(["single", "married"], 0.7),
    ]
    for channel in (designs.linked(pairs, 0.6), designs.linked(pairs, channels=marginal)):
        mechanism = pr.Mechanism({("age", "status"): channel})
        with pytest.warns(UserWarning, match="not secure"):
            released = mechanism.perturb(frame, seed=1)
        seen = set(zip(released["age"].tolist(), released["status"].tolist(), strict=True))
        assert seen == set(pairs)


@pytest.mark.parametrize("count", designs.difference_set_sizes())
def test_difference_sets_hit_every_difference_equally_often(count: int) -> None:
    assert difference_sets(count)
    for residues in difference_sets(count):
        found = [(a - b) % count for a in residues for b in residues if a != b]
        assert len({found.count(difference) for difference in range(1, count)}) == 1
        assert residues[0] == 0


@pytest.mark.parametrize("count", [7, 11, 13, 15, 19, 21, 23, 31, 35, 37, 40])
def test_a_block_design_is_private_and_balanced(count: int) -> None:
    made = designs.block_design([str(i) for i in range(count)], 0.3)
    assert made.epsilon == pytest.approx(0.3, abs=1e-12)
    singular = np.linalg.svd(made.matrix, compute_uv=False)
    assert singular[0] == pytest.approx(1, abs=1e-12)
    assert np.ptp(singular[1:]) < 1e-12


ALL = {
    "mixture": designs.invariant(FOUR, SHARES, 0.8),
    "two-stage": designs.invariant(FOUR, SHARES, 0.8, construction="two-stage"),
    "equal-diagonal": designs.invariant(FOUR, SHARES, 0.8, construction="equal-diagonal"),
    "per level": designs.per_level(FOUR, [0.9, 0.8, 0.7, 1.0], frequencies=SHARES),
    "band": designs.band(FOUR, 0.8, width=2),
    "blocks": designs.blocks(FOUR, [["a", "b"], ["c", "d"]], epsilon=1.0),
    "block design": designs.block_design(list("abcdefg"), 0.5),
    "linked": designs.linked([(0, "x"), (1, "x"), (1, "y")], 0.8),
    "crosswise": designs.crosswise(0.2, levels=("no", "yes")),
}


@pytest.mark.parametrize("name", ALL)
def test_a_saved_mechanism_gives_the_same_doubles_back(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    made, path = ALL[name], tmp_path_factory.mktemp("saved") / "m.json"
    key = ("u", "v") if name == "linked" else "u"
    pr.Mechanism({key: made}).save(path)
    back = pr.Mechanism.load(path).assignments[0].channel
    assert isinstance(back, pr.TransitionMatrix)
    assert back.levels == made.levels
    assert np.array_equal(back.matrix, made.matrix)
    assert back.kind == made.kind


@pytest.mark.parametrize("name", ALL)
def test_rows_round_trip(name: str) -> None:
    made = ALL[name]
    rows = made.to_rows()
    assert np.abs(rows.sum(axis=1) - 1).max() < 1e-12
    assert np.array_equal(pr.TransitionMatrix.from_rows(made.levels, rows, kind=made.kind).matrix, made.matrix)


def test_the_total_variance_is_the_trace_of_the_covariance() -> None:
    for made in ALL.values():
        shares = np.random.default_rng(2).dirichlet(np.ones(len(made)))
        released = made.matrix @ shares
        covariance = made.inverse @ (np.diag(released) - np.outer(released, released)) @ made.inverse.T
        assert designs.total_variance(made, shares) == pytest.approx(np.trace(covariance), rel=1e-10)
