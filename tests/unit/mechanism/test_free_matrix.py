"""A matrix with free parameters: its chances, its value at given parameters, and its description."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pramana as pr
from golden_texts import worded
from pramana.mechanism.description.document import LATER_VERSION

GOLDEN = Path(__file__).parents[2] / "golden" / "free-matrix.json"
THREE = {"a": (np.eye(3), np.eye(3)[[1, 2, 0]]), "b": (np.eye(3), np.full((3, 3), 1 / 3))}


def golden() -> pr.Mechanism:
    return pr.Mechanism(
        {
            "drugs": pr.designs.cheating_detection("form", {"A": 0.25, "B": 0.75}, levels=["no", "yes"]),
            "tax": pr.designs.stochastic_lie_detector("form", {"A": 0.2, "B": 0.8}),
            "kind": pr.FreeMatrix("year", {2020: THREE["a"], 2021: THREE["b"]}, ["turned"], levels=["x", "y", "z"]),
        }
    )


@pytest.mark.parametrize(
    ("channel", "t", "yes_with", "yes_without"),
    [
        (pr.designs.stochastic_lie_detector("g", {1: 0.2, 2: 0.7}), 0.9, [0.9, 0.9], [0.8, 0.3]),
        (pr.designs.cheating_detection("g", {1: 0.25, 2: 0.75}), 0.8, [1, 1], [0.2, 0.6]),
        (pr.designs.cheating_detection("g", {1: 0.25, 2: 0.75}, {1: 0.1, 2: 0}), 0.8, [0.9, 1], [0.2, 0.6]),
        (pr.designs.unrelated_question_unknown("g", {1: 0.4, 2: 0.7}), 0.5, [0.7, 0.85], [0.3, 0.15]),
    ],
)
def test_chances_of_a_yes(channel: pr.FreeMatrix, t: float, yes_with: list[float], yes_without: list[float]) -> None:
    np.testing.assert_allclose(channel.chances(np.array([t]))[:, 1], np.transpose([yes_without, yes_with]), atol=1e-12)


def test_at_a_value_it_is_stratified_and_perturbs() -> None:
    known = pr.designs.cheating_detection("g", {"a": 0.25, "b": 0.75}).at(honest=0.6)
    assert isinstance(known, pr.Stratified)
    data = {"z": np.repeat([0, 1], 4000), "g": np.tile(["a", "b"], 4000)}
    with pytest.warns(pr.PramanaWarning):
        out = pr.Mechanism({"z": known}).perturb(data, seed=1)
    told = np.asarray(out["z"])
    assert told[4000:].all()
    np.testing.assert_allclose([told[0:4000:2].mean(), told[1:4000:2].mean()], [0.15, 0.45], atol=0.04)


def test_a_description_is_read_as_it_was_written(tmp_path: Path) -> None:
    mechanism = golden()
    mechanism.save(tmp_path / "mechanism.json")
    text = (tmp_path / "mechanism.json").read_text(encoding="utf-8")
    assert worded(text) == worded(GOLDEN.read_text(encoding="utf-8"))
    read = pr.Mechanism.load(GOLDEN)
    assert read == mechanism
    assert mechanism.document()["pram"]["version"] == LATER_VERSION
    kind = read.assignments[2].channel
    assert isinstance(kind, pr.FreeMatrix)
    assert (kind.values, kind.parameters, kind.levels) == ((2020, 2021), ("turned",), ("x", "y", "z"))
    assert read.texts["form"] == ("A", "B")


def test_epsilon_is_the_largest_that_the_parameter_allows() -> None:
    mild = pr.FreeMatrix(
        "g", {"a": ([[0.8, 0.4], [0.2, 0.6]], [[0.5, 0.5], [0.5, 0.5]]), "b": ([[0.7, 0.4], [0.3, 0.6]],) * 2}, ["t"]
    )
    assert mild.epsilon == pytest.approx(np.log(3))
    for t in np.linspace(0, 0.99, 12):
        assert mild.at(t=t).epsilon <= mild.epsilon + 1e-12
    assert pr.designs.cheating_detection("g", {"a": 0.25, "b": 0.75}).epsilon == np.inf


def test_equal_ones_are_equal() -> None:
    one, other = (pr.designs.stochastic_lie_detector("g", {"a": 0.2, "b": p}) for p in (0.8, 0.7))
    assert one == pr.designs.stochastic_lie_detector("g", {"a": 0.2, "b": 0.8})
    assert one != other
    assert hash(one) == hash(other)
