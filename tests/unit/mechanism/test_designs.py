"""Designs of P: what each returns for what is asked."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana import designs

ABC = ["a", "b", "c"]


def test_the_module_is_reached_from_the_top() -> None:
    assert "designs" in dir(pr)
    assert set(designs.__all__) <= set(dir(pr.designs))


def test_the_default_invariant_design_is_a_mixture_with_a_closed_form_for_many_levels() -> None:
    made = pr.TransitionMatrix.invariant(range(100_000), np.full(100_000, 1e-5), 0.9, kind="nominal")
    assert made.diagonal.min() == pytest.approx(0.9)
    assert made.revert_table(np.arange(100_000.0)[:, None]).shape == (100_000, 1)


def test_an_invariant_mixture_can_be_asked_for_by_epsilon() -> None:
    made = designs.invariant(ABC, [0.5, 0.3, 0.2], epsilon=1.2)
    assert made.epsilon == pytest.approx(1.2, abs=1e-12)


def test_two_stages_lower_the_diagonal() -> None:
    shares, first = np.array([0.5, 0.3, 0.2]), pr.TransitionMatrix.randomized_response(ABC, 0.9).matrix
    made = designs.invariant(ABC, shares, 0.9, construction="two-stage")
    expected = [shares[j] * sum(first[i, j] ** 2 / (first @ shares)[i] for i in range(3)) for j in range(3)]
    assert made.diagonal.tolist() == pytest.approx(expected, abs=1e-14)
    assert made.diagonal.max() < 0.9


def test_frequencies_and_keep_may_come_by_level() -> None:
    by_order = designs.per_level(ABC, [0.9, 0.8, 0.7], frequencies=[0.5, 0.3, 0.2])
    by_level = designs.per_level(ABC, {"c": 0.7, "a": 0.9, "b": 0.8}, frequencies={"c": 0.2, "a": 0.5, "b": 0.3})
    assert by_order == by_level
    assert by_order.matrix[1, 0] == pytest.approx(0.1 * 0.3 / 0.5)


def test_a_band_moves_within_its_width_and_is_ordinal() -> None:
    made = designs.band(list("abcde"), 0.8, width=2)
    assert made.kind == "ordinal"
    assert made.matrix[:, 0].tolist() == pytest.approx([0.8, 0.1, 0.1, 0, 0])
    assert made.matrix[:, 2].tolist() == pytest.approx([0.05, 0.05, 0.8, 0.05, 0.05])


def test_blocks_are_randomised_response_within_each() -> None:
    made = designs.blocks([*ABC, "n/a"], [["a", "b", "c"], ["n/a"]], epsilon=1.0)
    assert made.epsilon == float("inf")
    assert designs.epsilon_within(made) == pytest.approx(1.0)
    within = pr.TransitionMatrix.from_epsilon(ABC, 1.0).matrix
    assert np.allclose(made.matrix[:3, :3], within)
    assert made.matrix[3].tolist() == [0, 0, 0, 1]


def test_epsilon_within_is_epsilon_without_zeros() -> None:
    for made in (pr.TransitionMatrix.from_epsilon(ABC, 0.7), designs.per_level(ABC, [0.5, 0.6, 0.7])):
        assert designs.epsilon_within(made) == made.epsilon


def test_one_way_moves_are_possible_without_invariance() -> None:
    allowed = np.array([[True, True, False], [False, True, False], [False, True, True]])
    made = designs.restricted(ABC, 0.8, allowed=allowed)
    assert made.matrix.round(12).tolist() == [[1, 0.1, 0], [0, 0.8, 0], [0, 0.1, 1]]


def test_a_product_of_channels_is_restricted_to_the_combinations() -> None:
    first, second = pr.TransitionMatrix.binary(0.8, 0.9), pr.TransitionMatrix.randomized_response(["x", "y"], 0.7)
    pairs = [(0, "x"), (0, "y"), (1, "x"), (1, "y")]
    whole = designs.linked(pairs, channels=[first, second])
    assert np.allclose(whole.matrix, np.kron(first.matrix, second.matrix))
    part = designs.linked(pairs[:3], channels=[first, second])
    assert np.allclose(part.matrix[:, 0], whole.matrix[:3, 0] / whole.matrix[:3, 0].sum())


def test_observed_combinations_are_sorted_and_leave_gaps_out() -> None:
    frame = pd.DataFrame({"u": [2, 1, 1, 2], "v": ["x", "y", None, "x"]})
    assert designs.observed_combinations(frame, ["u", "v"]) == [(1, "y"), (2, "x")]


def test_strata_take_options_or_matrices() -> None:
    ready = pr.TransitionMatrix.randomized_response(ABC, 0.6)
    options = {"frequencies": [0.5, 0.3, 0.2], "keep": 0.9}
    made = designs.by_stratum("region", ABC, {"north": options, "south": ready}, build=designs.invariant)
    assert isinstance(made, pr.Stratified)
    assert made.strata["south"] is ready
    assert made.strata["north"].diagonal.min() == pytest.approx(0.9)


def test_surveys_take_text_levels() -> None:
    assert designs.warner(0.7, levels=("no", "yes")).levels == ("no", "yes")
    assert designs.kuk(0.8, 0.2).levels == (0, 1)


def test_the_realised_frequencies_of_an_invariant_release_are_the_true_ones() -> None:
    shares = np.array([0.5, 0.3, 0.2])
    n = 200_000
    codes = np.repeat(np.arange(3), (shares * n).astype(int))
    made = designs.invariant(ABC, shares, 0.7, construction="equal-diagonal")
    with pytest.warns(UserWarning, match="not secure"):
        released = pr.Mechanism({"z": made}).perturb({"z": np.array(ABC)[codes]}, seed=11)
    found = np.array([(released["z"] == level).mean() for level in ABC])
    assert np.abs(found - shares).max() < 5 * np.sqrt(0.3 * 0.5 / n)
