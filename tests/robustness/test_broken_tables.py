"""Tables that the noise has broken, domains that vanish, and plans that make no sense."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr

NOISY = pr.Mechanism({"x": pr.TransitionMatrix.binary(0.7, 0.7)})
CELLS = {"x": [0, 0, 1, 1], "y": [0, 1, 0, 1]}


def counted(*counts: int) -> dict[str, Any]:
    """Cells (x, y) = 00, 01, 10, 11."""
    return {**CELLS, "f": list(counts)}


def fit(what: Any, data: Any, mechanism: pr.Mechanism | None = NOISY, **options: Any) -> pr.Result:
    return pr.fit(what, data, mechanism, frequencies="f", **options)


def test_negative_cells_are_reported_and_maximum_likelihood_is_offered() -> None:
    data = counted(400, 300, 400, 40)
    result = fit(pr.crosstab("x", "y"), data)
    assert result.estimate.min() < 0
    assert result.estimate.sum() == pytest.approx(1)
    found = [d for d in result.diagnostics if d.code == "reverted-negative"]
    assert "x=1, y=1 (-" in found[0].message
    assert "table_em()" in found[0].message
    likely = pr.table_em(["x", "y"], data, NOISY, frequencies="f")
    assert likely.estimate.min() >= 0
    assert likely.estimate.sum() == pytest.approx(1)
    assert [d.code for d in likely.diagnostics] == ["boundary"]


def test_the_likelihood_of_a_table_on_the_boundary_cannot_be_raised(rng: np.random.Generator) -> None:
    likely = pr.table_em(["x", "y"], counted(400, 300, 400, 40), NOISY, frequencies="f")
    chances = np.kron(pr.TransitionMatrix.binary(0.7, 0.7).matrix, np.eye(2))
    counts = np.array([400, 300, 400, 40])
    best = counts @ np.log(chances @ likely.estimate)
    for other in rng.dirichlet(np.ones(4), 500):
        mixed = 0.99 * likely.estimate + 0.01 * other
        assert counts @ np.log(chances @ mixed) <= best + 1e-6


@pytest.mark.parametrize("what", [pr.odds_ratio("x", "y"), pr.risk_ratio("x", "y")])
def test_a_ratio_at_its_boundary_is_an_error(what: Any) -> None:
    with pytest.raises(pr.SolveError, match=r"at or beyond its boundary.*table_em\(\)"):
        fit(what, counted(400, 300, 400, 40))


def test_an_empty_cell_of_clean_data_is_an_error_too() -> None:
    with pytest.raises(pr.SolveError, match=r"x=0, y=1 \(0\)"):
        fit(pr.odds_ratio("x", "y"), counted(10, 0, 10, 10), None)


def test_a_risk_difference_survives_a_negative_cell() -> None:
    result = fit(pr.risk_difference("x", "y"), counted(400, 300, 400, 40))
    assert np.isfinite(result.estimate).all()
    assert "reverted-negative" in [d.code for d in result.diagnostics]


def test_resamples_at_the_boundary_are_left_out_and_counted() -> None:
    inference = pr.Resampling(draws=400, seed=1)
    result = fit(pr.odds_ratio("x", "y"), counted(40, 25, 25, 30), inference=inference)
    assert result.draws is not None
    assert result.draws.rootless > 0
    assert "rootless" in [d.code for d in result.diagnostics]


def test_a_vanished_domain_is_an_error_that_names_it() -> None:
    data = {"g": ["a"] * 80 + ["b"] * 12, "y": np.arange(92.0)}
    mechanism = pr.Mechanism({"g": pr.TransitionMatrix.randomized_response(["a", "b"], keep=0.8)})
    with pytest.raises(pr.SolveError, match=r"reverted share of the domain\(s\) g=b \(-0.1159\) is not positive"):
        pr.fit(pr.mean("y", by="g"), data, mechanism)
    total = pr.fit(pr.total("y", by="g"), data, mechanism)
    assert np.isfinite(total.estimate).all()


def test_a_domain_that_is_hardly_there_is_a_warning() -> None:
    data = {"g": ["a"] * 760 + ["b"] * 240, "y": np.tile([1.0, 2.0], 500)}
    mechanism = pr.Mechanism({"g": pr.TransitionMatrix.randomized_response(["a", "b"], keep=0.8)})
    result = pr.fit(pr.mean("y", by="g"), data, mechanism)
    assert "weakly-identified" in [d.code for d in result.diagnostics]


MEASURES = pytest.mark.parametrize("make", [pr.odds_ratio, pr.risk_ratio, pr.risk_difference])
STRATA = {"s": ["a"] * 4 + ["b"] * 4, "x": CELLS["x"] * 2, "y": CELLS["y"] * 2}


@MEASURES
def test_strata_that_vanish_are_named(make: Any) -> None:
    mechanism = pr.Mechanism({"s": pr.TransitionMatrix.randomized_response(["a", "b"], keep=0.8)})
    with pytest.raises(pr.SolveError, match=r"share of stratum s=b \(-0.\d+\) is not positive"):
        fit(make("x", "y", strata="s"), {**STRATA, "f": [50, 40, 40, 60, 1, 1, 1, 1]}, mechanism)


@pytest.mark.parametrize(
    ("what", "sum_of"),
    [
        (pr.odds_ratio("x", "y", strata="s"), "numerator"),
        (pr.risk_ratio("x", "y", strata="s"), "numerator"),
    ],
)
def test_a_pooled_ratio_at_its_boundary_is_an_error(what: Any, sum_of: str) -> None:
    data = {**STRATA, "f": [400, 300, 400, 40, 400, 300, 400, 40]}
    with pytest.raises(pr.SolveError, match=rf"Mantel–Haenszel {sum_of} \(-0.*risk_difference\(\), or table_em\(\)"):
        fit(what, data)


def test_a_pooled_difference_needs_both_arms_somewhere() -> None:
    data = {**STRATA, "f": [50, 40, 0, 0, 0, 0, 40, 60]}
    with pytest.raises(
        pr.SolveError, match=r"Mantel–Haenszel weights \(0\) is not positive. Use .*strata, or table_em"
    ) as caught:
        fit(pr.risk_difference("x", "y", strata="s"), data, None)
    assert "risk_difference()," not in str(caught.value)


def test_a_pooled_difference_survives_a_negative_cell() -> None:
    result = fit(pr.risk_difference("x", "y", strata="s"), {**STRATA, "f": [400, 300, 400, 40, 400, 300, 400, 400]})
    assert np.isfinite(result.estimate).all()
    assert "reverted-negative" in [d.code for d in result.diagnostics]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pr.crosstab("x", "x"), "column 'x' is named twice"),
        (lambda: pr.odds_ratio("x", "y", strata="x"), "column 'x' is named twice"),
        (lambda: pr.risk_ratio("x", "y", strata="y"), "column 'y' is named twice"),
        (lambda: pr.risk_difference("x", "y", strata=3), "strata must be a column name"),  # type: ignore[arg-type]
        (lambda: pr.mean("y", by="y"), "column 'y' is named twice"),
        (lambda: pr.mean("y", by=[1, 2]), r"by must be a column name or a list of names, not \[1, 2\]"),
        (lambda: pr.correlation("x", "y", "kendal"), "kind 'kendal' is unknown: did you mean 'kendall'"),  # type: ignore[arg-type]
        (lambda: pr.correlation("x", "x"), "column 'x' is named twice"),
        (lambda: pr.correlation("x", "y", corrected=True), "corrected=True is for kind='cramer', .*not for 'pearson'"),
    ],
)
def test_plans_that_make_no_sense_are_refused_when_made(make: Any, message: str) -> None:
    with pytest.raises(pr.FormulaError, match=message):
        make()


THREE = pd.DataFrame(
    {"z": ["a", "b", "c"] * 20, "x": [0, 1] * 30, "one": 1, "text": ["u", "v", "w"] * 20, "i": range(60)}
)


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        (
            pr.odds_ratio("z", "x"),
            pr.FormulaError,
            "the odds ratio needs two levels, and column 'z' has 3: 'a', 'b', 'c'",
        ),
        (pr.risk_ratio("x", "one"), pr.FormulaError, "column 'one' has 1: 1"),
        (pr.crosstab("z", "nope"), pr.DataError, "column 'nope' is not in the data"),
        (pr.mean("text", by="z"), pr.DataError, "'text' holds text, such as"),
        (pr.total("text"), pr.DataError, "'text' holds text, such as"),
        (pr.correlation("z", "x"), pr.DataError, "'z' holds text, such as"),
        (pr.correlation("z", "x", "kendall"), pr.FormulaError, "needs ordered levels, and the order of those of 'z'"),
        (pr.correlation("x", "one"), pr.SolveError, "reverted variance of 'one' is not positive"),
        (
            pr.correlation("one", "x", "cramer"),
            pr.FormulaError,
            r"'one' has 1 level\(s\): a correlation needs at least 2",
        ),
        (pr.correlation("x", "z", "cramer"), pr.SolveError, r"exactly 0, .*table_em\(\)"),
        (pr.mean("x", by="i"), pr.DataError, "60 records cannot carry 60 parameters"),
    ],
)
def test_columns_that_do_not_suit(what: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        pr.fit(what, THREE, None)


def test_tables_with_too_many_cells_are_refused() -> None:
    data = {"a": np.arange(200), "b": np.arange(200)}
    with pytest.raises(pr.DataError, match=r"'a' \(200\) × 'b' \(200\) have 40000 cells, above the limit of 5000"):
        pr.fit(pr.crosstab("a", "b"), data, None)


def test_a_projection_must_be_asked_for_and_says_so() -> None:
    result = fit(pr.crosstab("x", "y"), counted(400, 300, 400, 40))
    projected = pr.to_simplex(result)
    assert projected.estimate.min() == 0
    assert projected.estimate.sum() == pytest.approx(1)
    assert "projected" in [d.code for d in projected.diagnostics]
    with pytest.raises(pr.PramanaError, match="is no cell of a table"):
        pr.to_simplex(fit(pr.odds_ratio("x", "y"), counted(90, 45, 45, 90)))


NEGATIVE = counted(400, 300, 400, 40)
COUNTS = [
    pr.counts("x", by="y"),
    pr.counts("y", by="x"),
    pr.counts("y", by="x", size=5000),
    pr.crosstab("x", "y", counts=True),
]


@pytest.mark.parametrize("plan", COUNTS)
def test_negative_counts_are_reported_as_negative_shares_are(plan: Any) -> None:
    result = fit(plan, NEGATIVE)
    assert result.estimate.min() < 0
    found = [d.message for d in result.diagnostics if d.code == "reverted-negative"]
    assert len(found) == 1
    assert "x=1" in found[0]
    assert "table_em()" in found[0]


def test_negative_counts_of_one_column() -> None:
    result = fit(pr.counts("x"), counted(400, 400, 100, 100))
    assert "reverted-negative" in [d.code for d in result.diagnostics]


@pytest.mark.parametrize("plan", COUNTS)
def test_projected_counts_keep_their_sum(plan: Any) -> None:
    result = fit(plan, NEGATIVE)
    projected = pr.to_simplex(result)
    assert projected.estimate.min() == 0
    assert projected.estimate.sum() == pytest.approx(result.estimate.sum())
    shares = pr.to_simplex(fit(pr.crosstab("x", "y"), NEGATIVE)).estimate
    np.testing.assert_allclose(np.sort(projected.estimate / projected.estimate.sum()), np.sort(shares), atol=1e-12)


def test_shares_within_domains_are_projected_in_each() -> None:
    result = fit(pr.proportions("x", by="y"), NEGATIVE)
    assert result.estimate.min() < 0
    projected = pr.to_simplex(result).estimate.reshape(2, 2)
    np.testing.assert_allclose(projected.sum(axis=1), 1)
    assert projected.min() == 0
    np.testing.assert_allclose(projected[0], result.estimate[:2])


@pytest.mark.parametrize("plan", [pr.total("y"), pr.mean("y", by="x"), pr.risk_difference("x", "y")])
def test_other_results_have_no_simplex(plan: Any) -> None:
    with pytest.raises(pr.PramanaError, match=r"proportions\(\), crosstab\(\) or counts\(\)"):
        pr.to_simplex(fit(plan, counted(400, 300, 400, 260)))


def test_a_table_needs_a_column_and_no_sampling_weights() -> None:
    with pytest.raises(pr.FormulaError, match="at least one column"):
        pr.table_em([], NEGATIVE, NOISY)
    with pytest.raises(pr.PramanaError, match=r"takes no sampling weights.*crosstab"):
        pr.table_em(["x", "y"], NEGATIVE, NOISY, weights="f")


@pytest.mark.parametrize("plan", [pr.odds_ratio("x", "y"), pr.correlation("x", "y", "cramer"), pr.counts("x")])
def test_the_likelihood_of_a_ratio_is_that_of_its_table(plan: Any) -> None:
    with pytest.raises(pr.FormulaError, match=r"table_em\(\)"):
        fit(plan, counted(90, 45, 45, 90), method="likelihood")


def test_a_joint_matrix_with_a_column_left_out_has_no_table_likelihood() -> None:
    levels = [(a, b) for a in (0, 1) for b in (0, 1)]
    joint = pr.Mechanism(
        {("x", "y"): pr.TransitionMatrix.from_columns(levels, np.kron(*[[[0.8, 0.2], [0.2, 0.8]]] * 2))}
    )
    with pytest.raises(pr.MechanismError, match="every column of a joint channel in the table; 'y' is not in it"):
        pr.table_em("x", counted(4, 3, 4, 5), joint, frequencies="f")


def test_a_correlation_beyond_one_is_reported() -> None:
    mechanism = pr.Mechanism({"x": pr.TransitionMatrix.binary(0.7, 0.7), "y": pr.TransitionMatrix.binary(0.7, 0.7)})
    result = fit(pr.correlation("x", "y"), counted(90, 10, 10, 90), mechanism)
    assert result.estimate[0] > 1
    assert "outside-range" in [d.code for d in result.diagnostics]


def test_an_association_within_the_noise_is_said_to_be_so(rng: np.random.Generator) -> None:
    mechanism = pr.Mechanism({"x": pr.TransitionMatrix.binary(0.7, 0.7)})
    near = fit(pr.correlation("x", "y", "cramer"), counted(255, 245, 245, 255), mechanism)
    far = fit(pr.correlation("x", "y", "cramer"), counted(1600, 1400, 1400, 1600), mechanism)
    assert "near-boundary" in [d.code for d in near.diagnostics]
    assert "near-boundary" not in [d.code for d in far.diagnostics]


def test_a_corrected_association_with_nothing_left_is_zero(rng: np.random.Generator) -> None:
    cells = {"x": [0, 0, 0, 1, 1, 1], "y": [0, 1, 2] * 2, "f": [100, 101, 99, 100, 99, 101]}
    result = fit(pr.correlation("x", "y", "cramer", corrected=True), cells)
    assert result.estimate[0] == 0
    assert np.isfinite(result.standard_errors[0])
    assert "near-boundary" in [d.code for d in result.diagnostics]


def test_em_that_stalls_says_how_far_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pramana.estimators.tables.likelihood.LIMIT", 2)
    with pytest.raises(pr.SolveError, match=r"EM stalled: after 2 rounds the likelihood still rises by .*merge levels"):
        pr.table_em(["x", "y"], counted(400, 300, 400, 40), NOISY, frequencies="f")


def test_the_likelihood_of_a_table_by_method() -> None:
    data = counted(400, 300, 400, 140)
    named = pr.table_em(["x", "y"], data, NOISY, frequencies="f")
    np.testing.assert_array_equal(named.estimate, fit(pr.crosstab("x", "y"), data, method="likelihood").estimate)
    one = fit(pr.proportions("x"), data, method="likelihood")
    np.testing.assert_allclose(one.estimate, fit(pr.proportions("x"), data).estimate, atol=1e-6)
    for options in ({"weights": [1.0, 2, 3, 4]}, {"inference": "sandwich"}, {"clusters": [1, 1, 2, 2]}):
        with pytest.raises(pr.PramanaError, match="takes frequencies, but no weights, clusters or inference="):
            fit(pr.crosstab("x", "y"), data, method="likelihood", **options)
    with pytest.raises(pr.PramanaError, match="maximum likelihood gives shares"):
        fit(pr.crosstab("x", "y", counts=True), data, method="likelihood")
