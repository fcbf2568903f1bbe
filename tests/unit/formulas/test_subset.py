"""The text of a subset: what it means, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import pramana as pr
from pramana.cli.application import app
from pramana.formulas.subset import Subset

MECHANISM = pr.Mechanism(
    {
        "edu": pr.TransitionMatrix.randomized_response(["low", "mid", "high"], 0.8),
        "smokes": pr.TransitionMatrix.binary(0.9, 0.8),
        ("sex", "job"): pr.TransitionMatrix.randomized_response(
            [("f", "no"), ("f", "yes"), ("m", "no"), ("m", "yes")], 0.8
        ),
    }
)


@pytest.fixture
def data(rng: np.random.Generator) -> pd.DataFrame:
    n = 600
    return pd.DataFrame(
        {
            "edu": rng.choice(["low", "mid", "high"], n),
            "smokes": rng.integers(0, 2, n),
            "sex": rng.choice(["f", "m"], n),
            "job": rng.choice(["no", "yes"], n),
            "age": rng.integers(18, 80, n),
            "region": rng.choice(["north", "south"], n),
            "odd name": rng.integers(0, 2, n),
            "y": rng.normal(size=n),
        }
    )


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("age > 30", lambda d: d.age > 30),
        ("30 < age <= 60", lambda d: (d.age > 30) & (d.age <= 60)),
        ("region == 'north' and not age > 30", lambda d: (d.region == "north") & ~(d.age > 30)),
        ("(region == 'north') | (age > 70)", lambda d: (d.region == "north") | (d.age > 70)),
        ("isin(region, ['south']) and age % 2 == 0", lambda d: (d.region == "south") & (d.age % 2 == 0)),
        ("~isin(age, [20, 21, 22])", lambda d: ~d.age.isin([20, 21, 22])),
        ("`odd name` == 1 and log(age) > 3.5", lambda d: (d["odd name"] == 1) & (np.log(d.age) > 3.5)),
    ],
)
def test_conditions_on_clean_columns(text: str, chosen: Any, data: pd.DataFrame) -> None:
    left, right = pr.fit("mean(y)", data, None, subset=text), pr.fit("mean(y)", data[chosen(data)], None)
    assert left.n == right.n
    assert left.estimate == pytest.approx(right.estimate)
    assert left.standard_errors == pytest.approx(right.standard_errors)
    assert left.facts["Subset"]


def test_words_bind_as_in_python() -> None:
    text = "a == 1 and (b == 2 or c == 3) and not d == 4"
    assert Subset.read(text).text == text
    assert [s.text for s in Subset.read(text).split({"b"}) if s is not None] == [
        "a == 1 and not d == 4",
        "b == 2 or c == 3",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("edu == 'hihg'", "'hihg' is no level of 'edu'; its levels are 'low', 'mid', 'high'"),
        ("isin(edu, ['high', 'hihg'])", "'hihg' is no level"),
        ("smokes == 'yes'", "'yes' is no level of 'smokes'"),
        ("edu > 'low'", "the alphabet is no order of text"),
        ("edu", "is no condition"),
        ("age + 1", "is no condition"),
        ("1 == 1", "names no column"),
        ("scale(age) > 0", "learns from all records"),
        ("edu = 'low'", "cannot stand here: equality is written =="),
        ("edu == 'low' && age > 3", "cannot stand here"),
        ("edu in ['low']", "cannot stand here"),
        ("ages > 3", "column 'ages' is not in the data"),
        ("age > 1000", "no record is in the subset"),
        ("y ~ age", "cannot stand here"),
        ("", "ends too early"),
        (3, "must be text"),
    ],
)
def test_what_is_no_condition_is_refused(text: Any, said: str, data: pd.DataFrame) -> None:
    with pytest.raises(pr.PramanaError, match="(?s)" + said.replace("(", r"\(")):
        pr.fit("mean(y)", data, MECHANISM, subset=text)


def test_a_share_that_is_not_positive_is_refused_and_a_faint_one_remarked(data: pd.DataFrame) -> None:
    few = data.assign(edu=np.where(np.arange(len(data)) % 40 == 0, "high", "low"))
    with pytest.raises(pr.DataError, match="reverted share of the subset edu == 'high' is -0"):
        pr.fit("mean(y)", few, MECHANISM, subset="edu == 'high'")
    some = data.assign(edu=np.where(np.arange(len(data)) % 7 == 0, "high", np.where(data.y > 0, "low", "mid")))
    codes = [d.code for d in pr.fit("mean(y)", some, MECHANISM, subset="edu == 'high'").diagnostics]
    assert "faint-domain" in codes
    pr.fit("total(y)", few, MECHANISM, subset="edu == 'high'")  # a sum divides by nothing


def test_one_column_of_a_joint_draw(data: pd.DataFrame) -> None:
    left = pr.fit("mean(y)", data, MECHANISM, subset="sex == 'f'")
    right = pr.fit("mean(y, by=sex)", data, MECHANISM)
    np.testing.assert_allclose(left.estimate[0], right.estimate[0])
    np.testing.assert_allclose(left.standard_errors[0], right.standard_errors[0])


def test_methods_that_know_no_domain_say_so(data: pd.DataFrame) -> None:
    for method in ("likelihood", "model1", "forward"):
        formula = "smokes ~ age"
        with pytest.raises(pr.PramanaError, match="knows no subset by perturbed columns"):
            pr.fit(formula, data, MECHANISM, family="binomial", method=method, subset="edu == 'high'")
        left = pr.fit(formula, data, MECHANISM, family="binomial", method=method, subset="age > 30")
        right = pr.fit(formula, data[data.age > 30], MECHANISM, family="binomial", method=method)
        np.testing.assert_allclose(left.estimate, right.estimate)


def test_a_comparison_takes_a_subset(data: pd.DataFrame) -> None:
    found = pr.compare("y ~ age", data, MECHANISM, truth=data, subset="edu == 'high'")
    assert set(found.results) == {"true data", "reversion", "naive"}
    true = pr.fit("y ~ age", data[data.edu == "high"], None)
    np.testing.assert_allclose(found.results["true data"].estimate, true.estimate)
    tested = pr.compare(
        "smokes ~ age", data, MECHANISM, ["reversion", "likelihood"], family="binomial", subset="age > 30"
    )
    assert tested.specification is not None or tested.untested


def test_functions_of_the_user(data: pd.DataFrame) -> None:
    left = pr.fit("y ~ age", data, MECHANISM, subset="old(age)", functions={"old": lambda x: x > 60})
    right = pr.fit("y ~ age", data[data.age > 60], MECHANISM)
    np.testing.assert_allclose(left.estimate, right.estimate)


def test_missing_values_of_its_columns_count(data: pd.DataFrame) -> None:
    gaps = data.assign(age=data.age.where(data.index % 5 > 0))
    with pytest.raises(pr.DataError, match="'age' \\(120\\)"):
        pr.fit("mean(y)", gaps, MECHANISM, subset="age > 30")
    found = pr.fit("mean(y)", gaps, MECHANISM, subset="age > 30", missing="drop")
    assert found.n == int((gaps.age > 30).sum())


def test_the_command_line(data: pd.DataFrame, tmp_path: Path) -> None:
    data.to_csv(tmp_path / "d.csv", index=False)
    MECHANISM.save(tmp_path / "m.json")
    where = [str(tmp_path / "d.csv"), "-m", str(tmp_path / "m.json"), "--subset", "edu == 'high' and age > 30"]
    for command in (["fit", "mean(y)"], ["compare", "mean(y)"]):
        found = CliRunner().invoke(app, [*command, *where])
        assert found.exit_code == 0, found.output
        assert "edu == 'high' and age > 30" in found.output
    expected = pr.fit("mean(y)", data, MECHANISM, subset="edu == 'high' and age > 30").estimate[0]
    assert f"{expected:.4f}"[:6] in CliRunner().invoke(app, ["fit", "mean(y)", *where]).output
