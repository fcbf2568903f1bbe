"""Risk computed in closed form equals the average over every release that could happen."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.disclosure.risk.link_chances import expected_links, rule_for
from pramana.disclosure.risk.reidentification import link
from pramana.disclosure.true_records import Counted
from pramana.frames import read

EDU = ("low", "mid", "high")


def asymmetric() -> pr.TransitionMatrix:
    return pr.TransitionMatrix.from_columns(EDU, [[0.7, 0.2, 0.1], [0.2, 0.7, 0.3], [0.1, 0.1, 0.6]])


def with_zeros() -> pr.TransitionMatrix:
    return pr.TransitionMatrix.from_columns(EDU, [[0.8, 0.1, 0.0], [0.2, 0.8, 0.3], [0.0, 0.1, 0.7]])


CHANNELS = {
    "randomized response": lambda: pr.TransitionMatrix.randomized_response(EDU, 0.6),
    "invariant": lambda: pr.TransitionMatrix.invariant(EDU, [0.5, 0.3, 0.2], 0.6),
    "any": asymmetric,
    "structural zeros": with_zeros,
    "hardly kept": lambda: pr.TransitionMatrix.randomized_response(EDU, 0.35),
}


def releases(true: list[str], P: pr.TransitionMatrix) -> Iterator[tuple[tuple[str, ...], float]]:
    """Every released column with its probability."""
    index = {v: k for k, v in enumerate(P.levels)}
    for released in product(EDU, repeat=len(true)):
        chance = float(np.prod([P.matrix[index[r], index[z]] for r, z in zip(released, true, strict=True)]))
        if chance > 0:
            yield released, chance


def brute_force_links(
    clear: list[int], true: list[str], released: tuple[str, ...], P: pr.TransitionMatrix, shares: np.ndarray
) -> np.ndarray:
    """All pairs: each person scores each record."""
    index = {v: k for k, v in enumerate(P.levels)}
    chances = np.zeros(len(true))
    for j, z in enumerate(true):
        scores = [
            P.matrix[index[r], index[z]] / shares[index[r]] if clear[i] == clear[j] else -1.0
            for i, r in enumerate(released)
        ]
        best = [i for i, s in enumerate(scores) if abs(s - max(scores)) < 1e-12]
        chances[j] = 1 / len(best) if j in best else 0.0
    return chances


CLEAR = [1, 1, 1, 1, 2, 2, 3]
TRUE = ["low", "low", "mid", "high", "mid", "mid", "high"]


@pytest.mark.parametrize("name", CHANNELS)
def test_expected_linkage_is_the_mean_over_all_releases(name: str) -> None:
    P = CHANNELS[name]()
    links, ratio, exact, alone, uniques = (np.zeros(len(TRUE)) for _ in range(5))
    true = np.array(TRUE)
    shares = P.matrix @ np.array([TRUE.count(v) / len(TRUE) for v in EDU])
    for released, chance in releases(TRUE, P):
        links += chance * brute_force_links(CLEAR, TRUE, released, P, np.ones(3))
        ratio += chance * brute_force_links(CLEAR, TRUE, released, P, shares)
        for j in range(len(TRUE)):
            same = [i for i in range(len(TRUE)) if CLEAR[i] == CLEAR[j] and released[i] == TRUE[j]]
            exact[j] += chance * (1 / len(same) if j in same else 0.0)
            alone[j] += chance * (same == [j])
            uniques[j] += chance * (
                sum(CLEAR[i] == CLEAR[j] and released[i] == released[j] for i in range(len(TRUE))) == 1
            )
    found = link(Counted.of(read({"clear": CLEAR, "edu": true})), pr.Mechanism({"edu": P}), ["clear", "edu"])
    assert found.after_mean == pytest.approx(links.mean(), abs=1e-12)
    assert found.after_largest == pytest.approx(links.max(), abs=1e-12)
    assert links[found.row] == pytest.approx(links.max(), abs=1e-12)
    assert found.ratio_mean == pytest.approx(ratio.mean(), abs=1e-12)
    assert found.ratio_largest == pytest.approx(ratio.max(), abs=1e-12)
    assert found.exact_mean == pytest.approx(exact.mean(), abs=1e-12)
    assert found.exact_largest == pytest.approx(exact.max(), abs=1e-12)
    sample_unique = [2, 3, 6]
    assert found.uniques == len(sample_unique)
    assert found.survive_mean == pytest.approx(alone[sample_unique].mean(), abs=1e-12)
    assert found.survive_largest == pytest.approx(alone[sample_unique].max(), abs=1e-12)
    assert found.released_uniques == pytest.approx(uniques.sum(), abs=1e-12)


def test_realised_linkage_is_the_attack_on_all_pairs(rng: np.random.Generator) -> None:
    n = 60
    frame = pd.DataFrame({"clear": rng.integers(0, 8, n), "edu": rng.choice(EDU, n), "ill": rng.integers(0, 2, n)})
    P, ill = asymmetric(), pr.TransitionMatrix.binary(0.8, 0.7)
    mechanism = pr.Mechanism({"edu": P, "ill": ill})
    with pytest.warns(UserWarning, match="not secure"):
        released = mechanism.perturb(frame, seed=3)
    chances = np.zeros(n)
    for j in range(n):
        scores = [
            P.matrix[EDU.index(released["edu"][i]), EDU.index(frame["edu"][j])]
            * ill.matrix[released["ill"][i], frame["ill"][j]]
            * (frame["clear"][i] == frame["clear"][j])
            for i in range(n)
        ]
        best = [i for i, s in enumerate(scores) if abs(s - max(scores)) < 1e-12]
        chances[j] = 1 / len(best) if j in best else 0.0
    found = pr.risk(frame, mechanism, keys=["clear", "edu", "ill"], released=released).linkage
    assert found is not None
    assert found.realised is not None
    assert found.realised.mean == pytest.approx(chances.mean(), abs=1e-12)
    assert found.realised.correct == pytest.approx(chances.sum(), abs=1e-10)


def test_strata_of_keys_are_linked_with_their_own_matrix() -> None:
    """A file of two strata is two files."""
    strata = {"n": asymmetric(), "s": pr.TransitionMatrix.randomized_response(EDU, 0.5)}
    region = ["n"] * len(TRUE) + ["s"] * len(TRUE)
    whole = link(
        Counted.of(read({"clear": CLEAR * 2, "edu": TRUE * 2, "region": region})),
        pr.Mechanism({"edu": pr.Stratified("region", strata)}),
        ["clear", "edu"],
    )
    parts = [
        link(Counted.of(read({"clear": CLEAR, "edu": TRUE})), pr.Mechanism({"edu": P}), ["clear", "edu"])
        for P in strata.values()
    ]
    assert whole.clear == ("clear", "region")
    assert whole.after_mean == pytest.approx(np.mean([p.after_mean for p in parts]), abs=1e-12)
    assert whole.released_uniques == pytest.approx(sum(p.released_uniques for p in parts), abs=1e-12)


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 100, 5000])
def test_records_that_are_all_alike_share_one_chance(count: int) -> None:
    """With one true combination and a useless key, every link has the chance 1/n whatever P is."""
    uniform = np.full((2, 2), 0.5)
    assert expected_links(uniform, np.array([[float(count), 0.0]]))[0, 0] == pytest.approx(1 / count, rel=1e-9)
    rule = rule_for(count)
    assert rule.weights @ rule.nodes ** (count - 1) == pytest.approx(1 / count, rel=1e-9)


@pytest.mark.parametrize("name", CHANNELS)
def test_posterior_is_that_of_the_joint_table(name: str) -> None:
    P = CHANNELS[name]()
    true = ["low"] * 5 + ["mid"] * 3 + ["high"] * 2
    joint = P.matrix * np.array([0.5, 0.3, 0.2])
    report = pr.risk({"edu": true}, pr.Mechanism({"edu": P}))["edu"]
    for level in report.levels:
        row = joint[EDU.index(level.released)]
        best = int(np.argmax(row))
        assert level.exposed == EDU[best]
        assert level.share == pytest.approx(row.sum())
        assert level.posterior == pytest.approx(row[best] / row.sum())
        odds = [row[k] / (row.sum() - row[k]) / (p / (1 - p)) for k, p in enumerate((0.5, 0.3, 0.2))]
        assert level.odds_factor == pytest.approx(max(odds))
        assert level.odds_factor <= level.bound * (1 + 1e-12)
    posterior = joint / joint.sum(axis=1, keepdims=True)
    expected = np.sum(P.matrix * posterior, axis=0)
    assert report.exposure.expected == pytest.approx(expected.max())
    assert report.exposure.mean == pytest.approx(expected @ [0.5, 0.3, 0.2])
    assert true[report.exposure.row] == EDU[int(np.argmax(expected))]
