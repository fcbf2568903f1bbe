"""Validation counts and published accuracies become a matrix with an uncertainty; files keep both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import logit
from scipy.stats import beta

import pramana as pr
from golden_texts import worded
from pramana.mechanism.channels.uncertainty import Uncertainty

P = pr.TransitionMatrix
COUNTS = np.array([[71, 38], [18, 204]])
GOLDEN = Path(__file__).parents[2] / "golden" / "measured-matrix.json"


def test_counts_in_every_shape_are_one_matrix() -> None:
    plain = P.from_validation(COUNTS)
    np.testing.assert_allclose(plain.matrix, COUNTS / [89, 242])
    assert plain.levels == (0, 1)
    assert plain.uncertainty.validated == (89, 242)
    np.testing.assert_array_equal(plain.uncertainty.sizes, [89, 242])
    assert P.from_validation(sensitivity=(204, 242), specificity=(71, 89)) == plain
    assert P.from_validation(pd.DataFrame(COUNTS)) == plain
    assert P.from_validation({0: {0: 71, 1: 18}, 1: {0: 38, 1: 204}}) == plain
    assert P.from_validation(COUNTS, chosen_by="neither") == plain


def test_a_cross_table_is_put_into_the_order_of_the_levels() -> None:
    true = ["no"] * 50 + ["yes"] * 60 + ["maybe"] * 40
    released = ["no"] * 45 + ["yes"] * 5 + ["yes"] * 55 + ["maybe"] * 5 + ["maybe"] * 30 + ["no"] * 10
    table = pd.crosstab(pd.Series(released), pd.Series(true))
    matrix = P.from_validation(table, levels=["no", "maybe", "yes"], prior=0, kind="ordinal")
    np.testing.assert_allclose(matrix.matrix, [[0.9, 0.25, 0], [0, 0.75, 5 / 60], [0.1, 0, 55 / 60]])
    assert matrix.kind == "ordinal"
    never = P.from_validation({"a": {"a": 40, "b": 9}, "b": {"a": 5, "b": 50}, "c": {"a": 3, "b": 1, "c": 30}})
    assert never.levels == ("a", "b", "c")
    assert never.matrix[2, 0] == pytest.approx(0.5 / 50.5)  # no one of true level a was released as c


def test_a_column_with_an_empty_cell_gets_jeffreys_prior_and_no_other_does() -> None:
    matrix = P.from_validation([[50, 10], [0, 90]])
    np.testing.assert_allclose(matrix.matrix, [[50.5 / 51, 0.1], [0.5 / 51, 0.9]])
    np.testing.assert_allclose(matrix.uncertainty.sizes, [52, 100])
    posterior = beta(50.5, 0.5)
    assert matrix.uncertainty.covariances(matrix.matrix)[0, 1, 1] == pytest.approx(posterior.var())
    assert matrix.uncertainty.validated == (50, 100)
    exact = P.from_validation([[50, 10], [0, 90]], prior=0)
    np.testing.assert_allclose(exact.matrix[:, 0], [1, 0])
    assert not exact.uncertainty.covariances(exact.matrix)[0].any()


def test_a_prior_is_a_dirichlet() -> None:
    matrix = P.from_validation(COUNTS, prior=1)
    assert matrix.matrix[1, 1] == pytest.approx(beta(205, 39).mean())
    assert matrix.uncertainty.covariances(matrix.matrix)[1, 1, 1] == pytest.approx(beta(205, 39).var())
    each = P.from_validation(COUNTS, prior=[[8, 1], [2, 9]])
    assert each.matrix[0, 0] == pytest.approx(79 / 99)


def test_an_interval_becomes_the_beta_of_that_mean_and_width() -> None:
    matrix = P.from_published(sensitivity=(0.94, (0.90, 0.97)), specificity=(0.85, (0.80, 0.89)), level=0.9)
    np.testing.assert_allclose(matrix.matrix, [[0.85, 0.06], [0.15, 0.94]])
    for j, (mean, low, high) in enumerate([(0.85, 0.80, 0.89), (0.94, 0.90, 0.97)]):
        mass = matrix.uncertainty.sizes[j] - 1
        law = beta(mean * mass, (1 - mean) * mass)
        assert np.ptp(logit(law.ppf([0.05, 0.95]))) == pytest.approx(logit(high) - logit(low))
        assert matrix.uncertainty.covariances(matrix.matrix)[j, j, j] == pytest.approx(law.var())
    assert matrix.uncertainty.validated is None


def test_numbers_people_and_limits_at_the_end_are_understood() -> None:
    sizes = lambda value: P.from_published(value, 0.97).uncertainty.sizes  # noqa: E731
    assert np.isinf(sizes(0.94)).all()
    assert sizes((0.94, 200))[1] == 200
    perfect = P.from_published(0.94, (1.0, (0.9637, 1.0)))  # the exact limit of 100 of 100: 0.025^(1/100)
    assert perfect.matrix[0, 0] == pytest.approx(100.5 / 101, abs=2e-5)
    assert perfect.uncertainty.sizes[0] == pytest.approx(102, rel=3e-3)
    assert P.from_published(0.94, (1.0, 100)).matrix[0, 0] == pytest.approx(100.5 / 101)
    one_sided = P.from_published(0.94, (0.99, (0.95, 1.0)))
    mass = one_sided.uncertainty.sizes[0] - 1
    assert beta(0.99 * mass, 0.01 * mass).ppf(0.025) == pytest.approx(0.95)


def test_covariances_are_those_of_proportions(rng: np.random.Generator) -> None:
    matrix = np.array([[0.7, 0.2, 0.1], [0.2, 0.6, 0.1], [0.1, 0.2, 0.8]])
    sizes = np.array([40.0, 90.0, 60.0])
    uncertainty = Uncertainty(sizes)
    drawn = uncertainty.drawn(matrix, 40_000, rng)
    np.testing.assert_allclose(drawn.sum(axis=1), 1)
    np.testing.assert_allclose(drawn.mean(axis=0), matrix, atol=2e-3)
    for j, expected in enumerate(uncertainty.covariances(matrix)):
        people = rng.multinomial(int(sizes[j]), matrix[:, j], 40_000) / sizes[j]
        np.testing.assert_allclose(np.cov(people.T), expected, atol=2e-4)
        np.testing.assert_allclose(np.cov(drawn[:, :, j].T), expected, atol=2e-4)
    value, error = uncertainty.distance(matrix)
    assert value == pytest.approx(np.linalg.svd(matrix)[1][-1])
    many = np.linalg.svd(Uncertainty(sizes * 100).drawn(matrix, 20_000, rng))[1][:, -1]
    assert error / 10 == pytest.approx(many.std(), rel=0.03)


def measured() -> pr.Mechanism:
    ear = {"left": P.from_validation(COUNTS), "right": P.from_validation(2 * COUNTS, prior=0.5)}
    return pr.Mechanism({"test": P.from_published((0.94, (0.90, 0.97)), 0.97), "ear": pr.Stratified("side", ear)})


def test_files_keep_the_uncertainty_and_readers_who_do_not_know_it_must_refuse(tmp_path: Path) -> None:
    measured().save(tmp_path / "m.json")
    assert worded((tmp_path / "m.json").read_text(encoding="utf-8")) == worded(GOLDEN.read_text(encoding="utf-8"))
    again = pr.Mechanism.load(GOLDEN)
    assert again == measured()
    assert again.assignments[0].channel.uncertainty.sizes[0] == np.inf
    assert next(iter(again.assignments[1].channel.parts.values())).uncertainty.validated == (89, 242)
    kinds = [c["randomization"]["channel"] for c in json.loads(GOLDEN.read_text())["pram"]["channels"]]
    assert kinds == ["measured_matrix", "stratified"]


def test_a_matrix_says_from_how_many_it_comes() -> None:
    assert "validated on 331 (89, 242 by true level)" in repr(P.from_validation(COUNTS))
    assert "published, as known as from ∞, 175 people by true level" in repr(
        P.from_published((0.94, (0.90, 0.97)), 0.97)
    )
    known = P.from_validation(COUNTS).measured(None)
    assert known == P.from_columns([0, 1], COUNTS / [89, 242])
    assert known != P.from_validation(COUNTS)


def test_the_summary_says_so_and_that_error_is_taken_as_non_differential() -> None:
    data: dict[str, Any] = {"y": [1] * 680 + [0] * 270, "side": ["left", "right"] * 475}
    text = pr.fit(pr.mean("y"), data, pr.Mechanism({"y": P.from_validation(COUNTS)})).summary()
    assert "Transition matrix: y validated on 331 (89, 242 by true level)" in text
    assert "non-differential" in text
    assert "Stratified" in text
    ear = pr.Stratified("side", {"left": P.from_validation(COUNTS), "right": P.binary(0.9, 0.8)})
    text = pr.fit(pr.mean("y"), data, pr.Mechanism({"y": ear})).summary()
    assert "y (side = left) validated on 331" in text
    assert "within each stratum" in text
