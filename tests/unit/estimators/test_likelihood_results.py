"""What a maximum likelihood fit shows: facts, JSON, comparison, command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import pramana as pr
from pramana.cli.application import app


def test_facts_and_json_hold_the_likelihood(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    result = pr.fit("income ~ age + edu", survey, mechanism, method="likelihood")
    assert isinstance(result, pr.LikelihoodResult)
    assert {"Covariate model", "Dispersion", "Log-likelihood", "AIC"} <= set(result.facts)
    likelihood = json.loads(json.dumps(result.to_dict()))["likelihood"]
    assert likelihood["log_likelihood"] == result.log_likelihood
    assert likelihood["aic"] == result.aic
    assert likelihood["parameters"] == result.parameter_count == 4 + 1 + 4
    assert "Log-likelihood" in str(result)
    with pytest.raises(pr.PramanaError, match="does not decompose"):
        result.price_of_privacy()


def test_names_of_the_methods() -> None:
    from pramana.estimators import method_of

    labels = {name: method_of(name).label for name in ("likelihood", "EM", "forward", "backward")}
    assert labels == {
        "likelihood": "likelihood",
        "EM": "likelihood",
        "forward": "forward correction",
        "backward": "backward correction",
    }


def test_a_starting_value_leads_to_the_same_maximum(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    first = pr.fit("income ~ age + edu", survey, mechanism, method="likelihood")
    second = pr.fit("income ~ age + edu", survey, mechanism, method="likelihood", start=[0, 0, 0.5, 1])
    np.testing.assert_allclose(first.estimate, second.estimate, atol=1e-5)


def test_the_command_line_compares_with_the_likelihood(
    tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    survey.to_csv(tmp_path / "public.csv", index=False)
    mechanism.save(tmp_path / "m.json")
    words = ["compare", "income ~ age + edu", str(tmp_path / "public.csv"), "-m", str(tmp_path / "m.json")]
    shown = CliRunner().invoke(app, [*words, "--method", "reversion", "--method", "likelihood"], catch_exceptions=False)
    assert shown.exit_code == 0
    assert "likelihood" in shown.stdout
