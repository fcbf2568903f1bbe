"""Other names and another order of levels change names and order, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pramana as pr

MATRIX = [[0.8, 0.1, 0.15], [0.1, 0.7, 0.25], [0.1, 0.2, 0.6]]
NAMES = {"1": "low", "2": "mid", "3": "high"}


def channels() -> dict[str, object]:
    counts = pr.TransitionMatrix.from_validation([[80, 10, 15], [10, 70, 25], [10, 20, 60]], levels=["1", "2", "3"])
    return {
        "matrix": pr.TransitionMatrix(["1", "2", "3"], MATRIX),
        "mixture": pr.TransitionMatrix.invariant(["1", "2", "3"], [0.5, 0.3, 0.2], keep=0.7),
        "measured": counts,
        "strata": pr.Stratified(
            "s", {k: pr.TransitionMatrix.randomized_response(["1", "2", "3"], k) for k in (0.7, 0.9)}
        ),
    }


def released(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    code = rng.integers(1, 4, n)
    return pd.DataFrame({"edu": code.astype(str), "y": code + rng.normal(size=n), "s": rng.choice([0.7, 0.9], n)})


@pytest.mark.parametrize("kind", list(channels()))
@pytest.mark.parametrize("labels", ["old", "new"])
def test_names_change_and_numbers_do_not(kind: str, labels: str) -> None:
    mechanism, data = pr.Mechanism({"edu": channels()[kind]}), released()
    named = mechanism.relabelled({"edu": NAMES})
    held = data if labels == "old" else data.assign(edu=data["edu"].map(NAMES))
    before, after = pr.fit("y ~ edu", data, mechanism), pr.fit("y ~ edu", held, named)
    assert after.parameters == ("Intercept", "edu[T.mid]", "edu[T.high]")
    np.testing.assert_allclose(after.estimate, before.estimate, rtol=1e-10)
    np.testing.assert_allclose(after.covariance, before.covariance, rtol=1e-8)


@pytest.mark.parametrize("kind", list(channels()))
def test_a_permutation_of_levels_permutes_the_answer(kind: str) -> None:
    mechanism, data = pr.Mechanism({"edu": channels()[kind]}), released()
    order = ["3", "1", "2"]
    turned = mechanism.reordered({"edu": order})
    before, after = (pr.fit(pr.proportions("edu"), data, m) for m in (mechanism, turned))
    places = [before.parameters.index(name) for name in after.parameters]
    assert places == [2, 0, 1]
    np.testing.assert_allclose(after.estimate, before.estimate[places], rtol=1e-10)
    np.testing.assert_allclose(after.covariance, before.covariance[np.ix_(places, places)], rtol=1e-8, atol=1e-15)


def test_names_and_order_compose_and_orders_can_be_stated() -> None:
    mechanism = pr.Mechanism(
        {"edu": pr.TransitionMatrix(["3", "1", "2"], np.array(MATRIX)[np.ix_([2, 0, 1], [2, 0, 1])])}
    )
    made = mechanism.relabelled({"edu": NAMES}).reordered({"edu": ["low", "mid", "high"]}, kind="ordinal")
    np.testing.assert_array_equal(made.assignments[0].channel.matrix, MATRIX)
    found = pr.fit(pr.ordinal("edu ~ y"), released(), made)
    assert found.parameters == ("low|mid", "mid|high", "y")
    again = made.relabelled({"edu": {"low": "none"}})
    assert pr.fit(pr.proportions("edu"), released(), again).parameters[0] == "edu[none]"


def test_whole_numbers_of_a_csv_get_names(tmp_path: Path) -> None:
    mechanism = pr.Mechanism({"edu": pr.TransitionMatrix([1, 2, 3], MATRIX, kind="nominal")})
    data = released().assign(edu=lambda d: d["edu"].astype(int))
    data.to_csv(tmp_path / "a.csv", index=False)
    named = mechanism.relabelled({"edu": {1: "low", 2: "mid", 3: "high"}})
    assert pr.fit("y ~ edu", tmp_path / "a.csv", named).parameters[1] == "edu[T.mid]"
    blocks = pr.fit("y ~ edu", tmp_path / "a.csv", named, memory=1)
    np.testing.assert_allclose(blocks.estimate, pr.fit("y ~ edu", data, named).estimate, rtol=1e-9)


def test_a_saved_description_has_the_new_names(tmp_path: Path) -> None:
    named = pr.Mechanism({"edu": pr.TransitionMatrix(["1", "2", "3"], MATRIX)}).relabelled({"edu": NAMES})
    named.save(tmp_path / "m.json")
    assert pr.Mechanism.load(tmp_path / "m.json").schema["edu"].levels == ("low", "mid", "high")


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"edu": {"9": "x"}}, "no level '9'"),
        ({"edu": {"1": "low", "2": "low"}}, "one name"),
        ({"edu": {"1": "2", "2": "1"}}, "could mean either"),
        ({"income": {"1": "2"}}, "no column 'income'"),
        ({"noise": {"1": "2"}}, "without levels"),
        ({"edu": ["low"]}, "map old ones"),
        (["edu"], "by column"),
    ],
)
def test_labels_that_say_something_else_are_refused(labels: object, said: str) -> None:
    mechanism = pr.Mechanism({"edu": pr.TransitionMatrix(["1", "2", "3"], MATRIX), "noise": pr.LaplaceNoise(1.0)})
    with pytest.raises(pr.MechanismError, match=said):
        mechanism.relabelled(labels)  # type: ignore[arg-type]


@pytest.mark.parametrize("order", [["1", "2"], ["1", "2", "2"], ["1", "2", "4"]])
def test_an_order_holds_every_level_once(order: list[str]) -> None:
    with pytest.raises(pr.MechanismError, match="each of its 3 levels once"):
        pr.Mechanism({"edu": pr.TransitionMatrix(["1", "2", "3"], MATRIX)}).reordered({"edu": order})
