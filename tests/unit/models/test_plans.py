"""What a plan says of itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pramana as pr
from pramana.estimating.function import Question

PLANS: dict[str, Question] = {
    "glm": pr.glm("y ~ x", "binomial"),
    "multinomial": pr.multinomial("y ~ x"),
    "ordinal": pr.ordinal("y ~ x"),
    "quantile regression": pr.quantile_regression("y ~ x"),
    "two stages": pr.two_stage_least_squares("y ~ x | z"),
    "margins": pr.margins("y ~ x", "x"),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_formula_is_its_label_and_among_its_facts(name: str) -> None:
    plan = PLANS[name]
    assert plan.facts["Formula"] == plan.label
    assert "x" in plan.variables


@pytest.mark.parametrize(
    ("plan", "logs"),
    [
        (pr.glm("y ~ x"), False),
        (pr.glm("log(y) ~ x"), True),
        (pr.glm("y ~ x", "binomial"), True),
        (pr.glm("y ~ x", "binomial", "probit"), False),
        (pr.glm("y ~ x", "poisson"), True),
        (pr.multinomial("y ~ x"), True),
        (pr.mean("y"), False),
        (pr.odds_ratio("a", "b"), True),
        (pr.risk_difference("a", "b"), False),
    ],
)
def test_logarithms_are_known(plan: Any, logs: bool) -> None:
    assert plan.log_scale is logs


def test_margins_follow_from_a_regression_alone() -> None:
    estimate = np.zeros(2)
    assert pr.glm("y ~ x", "binomial").margins(["x"], estimate) == pr.margins("y ~ x", ["x"], "binomial")
    assert pr.mean("y").margins(["x"], estimate) is None


def test_an_instrument_that_is_the_term_itself_is_least_squares() -> None:
    """Its first stage has no error, so that no F statistic can be divided by one."""
    rng = np.random.default_rng(2)
    data = {"y": rng.normal(size=60), "g": np.resize(["a", "b", "c"], 60), "x": rng.normal(size=60)}
    data["twin"] = data["x"]
    for formula, plain in (("y ~ g | C(g)", "y ~ g"), ("y ~ x | twin", "y ~ x")):
        result = pr.fit(pr.two_stage_least_squares(formula), data, None)
        np.testing.assert_allclose(result.estimate, pr.fit(plain, data, None).estimate, rtol=1e-9)
        assert "weak-instruments" not in {d.code for d in result.diagnostics}
