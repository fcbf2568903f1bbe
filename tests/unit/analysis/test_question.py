"""One reading of a question: what one function or command takes, all of them take."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import pramana as pr
from pramana.analysis.question import question
from pramana.cli.application import app
from pramana.frames import read

LEVELS = ["low", "mid", "high"]
MECHANISM = pr.Mechanism(
    {
        "edu": pr.TransitionMatrix.randomized_response(LEVELS, 0.85, kind="ordinal"),
        "b": pr.TransitionMatrix.binary(0.9, 0.9),
    }
)
QUESTIONS: dict[str, tuple[Any, str | None]] = {
    "formula": ("y ~ x + edu", None),
    "formula with a family": ("b ~ x + edu", "binomial"),
    "negative binomial": ("count ~ x + edu", "negative-binomial"),
    "mean as text": ("mean(y)", None),
    "mean by domain as text": ("mean(y, by=edu)", None),
    "shares as text": ("proportions(edu)", None),
    "plan": (pr.mean("y", by="edu"), None),
    "multinomial": (pr.multinomial("edu ~ x"), None),
    "negative binomial as a plan": (pr.glm("count ~ x + edu", "negative-binomial"), None),
    "negative binomial as text": ("glm('count ~ x + edu', 'Negative Binomial')", None),
    "inequality by domain": ("gini(income, by=edu)", None),
}
EVERY: list[Any] = [
    *QUESTIONS.values(),
    ("total(y)", None),
    ("counts(edu, by=region)", None),
    ("crosstab(edu, region)", None),
    ("odds_ratio(b, t)", None),
    ("risk_ratio(b, t, strata=region)", None),
    ("risk_difference(b, t)", None),
    ("correlation(x, y)", None),
    ("correlation(edu, region, kind='cramer')", None),
    ("median(income, by=edu)", None),
    ("gini(income)", None),
    ("poverty_rate(income)", None),
    ("income ~ bs(x, df=4) + C(region) + offset(z)", "gamma"),
    (pr.ordinal("edu ~ x"), None),
    (pr.quantile_regression("y ~ x + edu", 0.5), None),
    (pr.two_stage_least_squares("y ~ x + b | z + b"), None),
    (pr.average_treatment_effect("y", "t", ["edu"]), None),
    (pr.margins("b ~ x + edu", "x", "binomial"), None),
]


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    n = 400
    x, edu = rng.normal(size=n), rng.integers(0, 3, n)
    return pd.DataFrame(
        {
            "x": x,
            "z": rng.normal(size=n),
            "y": x + edu + rng.normal(size=n),
            "count": rng.negative_binomial(2, 0.3, n),
            "b": (rng.random(n) < 0.3 + 0.2 * (edu > 0)).astype(int),
            "t": rng.integers(0, 2, n),
            "income": rng.gamma(2, size=n),
            "region": rng.choice(["n", "s"], n),
            "edu": np.array(LEVELS)[edu],
        }
    )


def asked(name: str) -> tuple[Any, dict[str, Any]]:
    what, family = QUESTIONS[name]
    return what, {} if family is None else {"family": family}


@pytest.mark.parametrize("name", QUESTIONS)
def test_fit_and_compare_take_it(name: str, data: pd.DataFrame) -> None:
    what, family = asked(name)
    result = pr.fit(what, data, MECHANISM, **family)
    both = pr.compare(what, data, MECHANISM, ["reversion", "naive"], **family)
    np.testing.assert_allclose(both.results["reversion"].estimate, result.estimate, rtol=1e-12)


@pytest.mark.parametrize("name", QUESTIONS)
def test_risk_plan_and_frontier_take_it(name: str, data: pd.DataFrame) -> None:
    what, family = asked(name)
    plan = question(what, **family)
    fitted = pr.fit(what, data, MECHANISM, method="naive", **family)
    report = pr.risk(data, MECHANISM, analyses=what, **family)
    rows = report.to_dict()["analyses"]
    assert {row["term"] for row in rows} == set(fitted.parameters)
    assert rows == pr.risk(data, MECHANISM, analyses=plan).to_dict()["analyses"]
    assert all(row["expected_std_error"] >= row["clean_std_error"] > 0 for row in rows)
    term = fitted.parameters[0]
    found = pr.plan(data, "edu", analysis=what, se={term: 10.0}, simulate=0, **family)
    assert found.keep is not None
    assert pr.frontier(data, "edu", [0.9], analysis=what, simulate=0, **family).points
    if "edu" in plan.variables:
        assert pr.optimal_design(what, data, "edu", epsilon=2.0, starts=0, **family).design


def test_a_family_is_that_of_the_formulas(data: pd.DataFrame) -> None:
    both = pr.risk(data, MECHANISM, analyses=["b ~ x + edu", "mean(y)"], family="binomial").to_dict()["analyses"]
    alone = pr.risk(data, MECHANISM, analyses=pr.glm("b ~ x + edu", "binomial")).to_dict()["analyses"]
    assert both[:-1] == alone
    for call in (pr.risk, lambda d, _, analyses, family: pr.plan(d, "edu", analyses, se=1.0, family=family)):
        with pytest.raises(pr.FormulaError, match="to a formula"):
            call(data, MECHANISM, analyses="mean(y)", family="binomial")
    with pytest.raises(pr.FormulaError, match="to a formula"):
        pr.plan(data, "edu", se=1.0, family="binomial")


@pytest.mark.parametrize("name", ["formula", "formula with a family", "mean as text"])
def test_a_scenario_takes_it(name: str, data: pd.DataFrame) -> None:
    what, family = asked(name)
    columns = {k: data[k].to_numpy() for k in data}
    truth = pr.fit(what, data, None, **family).estimate

    def generate(rng: np.random.Generator, n: int) -> dict[str, Any]:
        rows = rng.integers(0, len(data), n)
        return {k: v[rows] for k, v in columns.items()}

    scenario = pr.Scenario(generate, MECHANISM, what, truth, 300, **family)
    found = pr.simulate(scenario, ["reversion", "naive"], replicates=3)
    assert {row["method"] for row in found.rows} == {"reversion", "naive"}


@pytest.mark.parametrize("name", [n for n, (what, _) in QUESTIONS.items() if isinstance(what, str)])
def test_the_commands_take_it(name: str, data: pd.DataFrame, tmp_path: Path) -> None:
    what, family = QUESTIONS[name]
    path, description = tmp_path / "d.csv", tmp_path / "m.json"
    data.to_csv(path, index=False)
    MECHANISM.save(description)
    own = ["--family", family] if family else []
    runner = CliRunner()
    for command in (
        ["fit", what, str(path), "--mechanism", str(description), *own],
        ["compare", what, str(path), "--mechanism", str(description), *own],
        ["risk", str(path), "--mechanism", str(description), "--analysis", what, *own],
    ):
        done = runner.invoke(app, command)
        assert done.exit_code == 0, (command[0], done.output, done.exception)


@pytest.mark.parametrize(("what", "family"), EVERY, ids=lambda v: str(v)[:40])
def test_a_question_and_what_it_learned_can_be_pickled_and_hold_no_records(
    what: Any, family: str | None, data: pd.DataFrame
) -> None:
    plan = question(what, family)
    back = pickle.loads(pickle.dumps(plan))
    assert (back.label, back.facts, back.variables) == (plan.label, plan.facts, plan.variables)
    more = pd.concat([data] * 20, ignore_index=True)
    sizes = [len(pickle.dumps(plan.prepare(read(d), MECHANISM.schema))) for d in (data, more)]
    assert sizes[1] < sizes[0] + 200, "twenty times the records must not make it larger"


@pytest.mark.parametrize("what", [3, None, ["y ~ x"], object()])
def test_what_is_no_question_is_refused(what: Any) -> None:
    with pytest.raises(pr.FormulaError, match="cannot estimate"):
        question(what)


def test_family_and_functions_belong_to_a_formula() -> None:
    with pytest.raises(pr.FormulaError, match="family and link belong to a formula"):
        question("mean(y)", "binomial")
    with pytest.raises(pr.FormulaError, match="functions= belongs to a formula"):
        question(pr.mean("y"), functions={"f": abs})
