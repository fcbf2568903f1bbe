"""What `pramana fit`, `compare` and `specification` can be asked: parameters by name, survey designs, several methods."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import pramana as pr
from pramana.cli.application import app

DRAWS = ("--draws", "20", "--seed", "1")
DESIGN = ("--weights", "w", "--strata", "region", "--clusters", "village")


@pytest.fixture
def folder(
    tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism, rng: np.random.Generator, monkeypatch: Any
) -> Path:
    survey["village"], survey["w"] = rng.integers(0, 10, len(survey)), rng.uniform(1, 3, len(survey))
    survey["units"], survey["household size"] = 40, rng.integers(1, 6, len(survey))
    for k in (1, 2, 3, 4):
        survey[f"w{k}"] = survey["w"] * rng.choice([0, 2], len(survey))
    survey.to_csv(tmp_path / "truth.csv", index=False)
    with pytest.warns(UserWarning, match="not secure"):
        mechanism.perturb(survey, seed=1).to_csv(tmp_path / "public.csv", index=False)
    mechanism.save(tmp_path / "m.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(command: str, what: str, *more: str) -> str:
    result = CliRunner().invoke(app, [command, what, "public.csv", "-m", "m.json", *more], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def found(command: str, what: str, *more: str) -> Any:
    return json.loads(run(command, what, *more, "--format", "json"))


def refused(command: str, what: str, *more: str) -> str:
    result = CliRunner().invoke(app, [command, what, "public.csv", "-m", "m.json", *more])
    assert isinstance(result.exception, pr.PramanaError)
    assert result.stdout == ""
    return str(result.exception)


def test_a_parameter_is_the_same_as_in_python(folder: Path, mechanism: pr.Mechanism) -> None:
    shown = found("fit", "mean(income, by=edu)")
    fitted = pr.fit(pr.mean("income", by="edu"), folder / "public.csv", mechanism)
    assert shown["Parameter"] == "mean(income, by=edu)"
    assert [row["term"] for row in shown["coefficients"]] == list(fitted.parameters)
    assert [row["std_error"] for row in shown["coefficients"]] == pytest.approx(fitted.standard_errors)


@pytest.mark.parametrize("style", ["text", "json", "markdown", "latex", "html"])
@pytest.mark.parametrize("what", ["median(income, by=edu)", "odds_ratio(female, employed)", "multinomial(edu ~ age)"])
def test_parameters_have_every_format(style: str, what: str, folder: Path) -> None:
    assert run("fit", what, *DRAWS, "--privacy", "--format", style)


def test_odds_ratios_show_as_ratios(folder: Path) -> None:
    plain, ratio = (found("fit", "odds_ratio(female, employed)", *more) for more in ((), ("--exponentiate",)))
    assert ratio["coefficients"][0]["estimate"] == pytest.approx(np.exp(plain["coefficients"][0]["estimate"]))
    assert ratio["Scale"].startswith("exponentiated")


def test_the_jackknife_is_an_inference(folder: Path) -> None:
    assert found("fit", "mean(income)", "--inference", "jackknife")["inference"].startswith("jackknife")


def test_columns_with_blanks_are_quoted(folder: Path) -> None:
    assert found("fit", 'mean("household size")')["coefficients"][0]["term"] == "mean(household size)"


def test_a_formula_with_a_call_is_a_formula(folder: Path) -> None:
    assert found("fit", "I(income + 1) ~ age")["Formula"] == "I(income + 1) ~ age"


@pytest.mark.parametrize(
    ("what", "more", "message"),
    [
        ("", (), "'' has no '~' and is no call: give a formula such as"),
        ("income", (), "has no '~' and is no call"),
        ("meen(income)", (), "did you mean 'mean'"),
        ("mean(incme)", (), "did you mean 'income'"),
        ("mean(income)", ("--family", "binomial"), "family and link belong to a formula"),
        ("mean(income)", ("--link", "log"), "family and link belong to a formula"),
        ("mean(income)", ("--dispersion", "1"), "--dispersion belongs to --family negative-binomial"),
        ("mean(income, by=age)", (), "400 records cannot carry 400 parameters"),
        ("mean(income)", ("--method", "reversion,naive"), "2 methods: fit takes one; `pramana compare` takes several"),
        ("mean(income)", ("--inference", "jackknife", "--draws", "30"), "--draws and --seed belong to"),
        ("mean(income)", ("--inference", "jackknife", "--interval", "score"), "whose intervals are wald"),
        ("income ~ age", ("--covariate-model", "age"), "belongs to --method likelihood: add it"),
    ],
)
def test_a_wrong_question_is_refused(what: str, more: tuple[str, ...], message: str, folder: Path) -> None:
    assert message in refused("fit", what, *more)


def test_a_survey_design_is_the_same_as_in_python(folder: Path, mechanism: pr.Mechanism) -> None:
    design = pr.SurveyDesign(weights="w", strata="region", clusters="village", fpc="units", target="finite")
    expected = pr.fit("income ~ edu", folder / "public.csv", mechanism, design=design)
    shown = found("fit", "income ~ edu", *DESIGN, "--fpc", "units", "--target", "finite")
    assert shown["inference"] == expected.inference
    assert [row["std_error"] for row in shown["coefficients"]] == pytest.approx(expected.standard_errors)


@pytest.mark.parametrize("given", ["w*", "w1,w2,w3,w4", "w?", "w1,w?"])
def test_replicate_weights_by_name_or_pattern(given: str, folder: Path) -> None:
    shown = found("fit", "mean(income)", "--weights", "w", "--replicate-weights", given, "--replicate-scale", "0.5")
    assert shown["inference"].startswith("4 replicate weights")


def test_replicates_can_have_a_scale_each(folder: Path) -> None:
    given = ("--weights", "w", "--replicate-weights", "w?")
    one, each = (found("fit", "mean(income)", *given, "--replicate-scale", s) for s in ("0.5", "0.5,0.5,0.5,0.5"))
    assert one["covariance"] == each["covariance"]


def test_weights_and_clusters_alone_are_no_design(folder: Path) -> None:
    assert found("fit", "mean(income)", "--weights", "w", "--clusters", "village")["inference"].startswith("sandwich")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--strata", "regin"), "did you mean 'region'"),
        (("--strata", "edu"), "is a perturbed column"),
        (("--target", "finit"), "did you mean 'finite'"),
        (("--target", "finite"), "needs fpc"),
        (("--strata", "region", "--frequencies", "female"), "--frequencies cannot go with --strata"),
        (("--replicate-scale", "0.5"), "replicate_scale is the factor of replicate_weights, and there are none"),
        (("--replicate-scale", "half"), "--replicate-scale 'half' is no number: write 0.05, or 0.5,0.3"),
        (("--replicate-weights", "q*"), "--replicate-weights 'q*' matches no column"),
        (("--replicate-weights", ","), "--replicate-weights is empty"),
        (("--weights", "w", "--replicate-weights", "w*", "--strata", "region"), "leave those out"),
    ],
)
def test_a_wrong_design_is_refused(more: tuple[str, ...], message: str, folder: Path) -> None:
    assert message in refused("fit", "mean(income)", *more)


def test_parameters_and_designs_can_be_compared(folder: Path) -> None:
    shown = found("compare", "mean(income, by=edu)", *DESIGN, "--truth", "truth.csv")
    assert list(shown) == ["true data", "reversion", "naive"]
    assert "2 strata" in shown["reversion"]["inference"]


@pytest.mark.parametrize(
    "given", [("--methods", "reversion,likelihood,naive"), ("--method", "reversion,likelihood", "--method", "naive")]
)
def test_several_methods_in_a_list(given: tuple[str, ...], folder: Path) -> None:
    shown = found("compare", "employed ~ age + edu", "--family", "binomial", *given)
    assert list(shown)[:3] == ["reversion", "likelihood", "naive"]
    assert "employed ~ age + edu" in run("compare", "employed ~ age + edu", "--family", "binomial", *given)


def test_the_stabilized_estimator_by_name(folder: Path) -> None:
    shown = found("fit", "employed ~ age + edu", "--family", "binomial", "--method", "stabilized")
    assert shown["method"] == "stabilized"
    assert 0 <= shown["stabilized"]["weight"] < 1
    assert "Weight of the step" in run("fit", "employed ~ age + edu", "--family", "binomial", "--method", "stabilized")


def test_the_likelihood_takes_a_model_of_the_covariates(folder: Path) -> None:
    likely = ("--method", "likelihood", "--covariate-model", "age")
    assert found("fit", "employed ~ age + edu", "--family", "binomial", *likely)["method"] == "likelihood"


def test_the_specification_test(folder: Path, mechanism: pr.Mechanism) -> None:
    expected = pr.specification_test("income ~ age + edu", folder / "public.csv", mechanism, family="gaussian")
    shown = found("specification", "income ~ age + edu", "--family", "gaussian")
    assert shown["p_value"] == pytest.approx(expected.p_value)
    assert expected.advice in run("specification", "income ~ age + edu", "--family", "gaussian")
    assert "give a formula such as 'y ~ x'" in refused("specification", "mean(income)")


def test_a_question_has_one_family_by_default(folder: Path, mechanism: pr.Mechanism) -> None:
    """What is tested without a word on the family is what `fit` and `compare` fit without one."""
    public = folder / "public.csv"
    stated = pr.specification_test("income ~ age + edu", public, mechanism, family="gaussian")
    assert pr.specification_test("income ~ age + edu", public, mechanism) == stated
    assert pr.compare("income ~ age + edu", public, mechanism, ["reversion", "likelihood"]).specification == stated
    assert found("specification", "income ~ age + edu")["p_value"] == pytest.approx(stated.p_value)
    with pytest.raises(pr.FormulaError, match="family and link belong to a formula"):
        pr.specification_test(pr.glm("income ~ age + edu"), public, mechanism, family="gaussian")  # type: ignore[arg-type]
