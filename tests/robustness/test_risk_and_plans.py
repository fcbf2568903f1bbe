"""Bad input on the custodian's side: one clear error that holds no value of the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import pramana as pr
from pramana.cli.application import app
from pramana.disclosure.planning.keep_probability import keep_for_proportion

EDU = ("low", "mid", "high")
SECRET = "xyzzy"
P = pr.TransitionMatrix.randomized_response(EDU, 0.8)
MECHANISM = pr.Mechanism({"edu": P})


def frame(n: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(77)
    return pd.DataFrame(
        {
            "edu": rng.choice(EDU, n),
            "sex": rng.integers(0, 2, n),
            "y": rng.normal(size=n),
            "constant": SECRET,
            "job": rng.choice(["nurse", SECRET], n),
            "code": rng.integers(1, 4, n),
        }
    )


def changed(column: str, value: object) -> pd.DataFrame:
    out = frame().astype({column: object})
    out.loc[5, column] = value
    return out


def wide() -> tuple[dict[str, Any], pr.Mechanism]:
    many = pr.TransitionMatrix.randomized_response(range(60), 0.9, kind="nominal")
    return {"a": list(range(60)), "b": list(range(60))}, pr.Mechanism({"a": many, "b": many})


RISK: list[tuple[Callable[[], Any], str]] = [
    (lambda: pr.risk(changed("edu", SECRET), MECHANISM), r"'edu' has 1 value\(s\) .* first in row 5"),
    (
        lambda: pr.risk(changed("sex", None), MECHANISM, keys=["sex"], missing="error"),
        r"1 of 200 .*'sex' \(1, first in row 5\)",
    ),
    (lambda: pr.risk(frame().drop(columns="edu"), MECHANISM), "needs column.*'edu'"),
    (lambda: pr.risk(frame(), MECHANISM, keys=["sx"]), "'sx', which the data lack: did you mean 'sex'"),
    (lambda: pr.risk(frame(), MECHANISM, keys=["sex", "sex"]), "each once"),
    (lambda: pr.risk(frame(), MECHANISM, analyses="y ~ nope"), "'nope'"),
    (
        lambda: pr.risk(frame(), MECHANISM, analyses="y ~ constant"),
        "'constant' is constant, .withheld. in all 200 records",
    ),
    (lambda: pr.risk(frame(), MECHANISM, analyses="job ~ edu"), "needs numbers"),
    (
        lambda: pr.risk(frame(), MECHANISM, analyses=pr.glm("y ~ edu", "binomial")),
        r"different values outside \[0, 1\], such as .withheld.:",
    ),
    (lambda: pr.risk(frame(), MECHANISM, analyses=3), "cannot estimate a int"),
    (lambda: pr.risk(frame(), MECHANISM, analyses="y ~ edu", weights="edu"), "'edu' is a perturbed column"),
    (lambda: pr.risk(frame(), MECHANISM, analyses="y ~ edu", weights="y"), r"'y' have \d+ value.* first in row \d+"),
    (lambda: pr.risk(frame(), MECHANISM, analyses="y ~ edu", weights="job"), "'job' have 200 value"),
    (lambda: pr.risk(frame(), MECHANISM, analyses="y ~ edu", weights="absent"), "'absent', which the data lack"),
    (lambda: pr.risk(frame(), None), "mechanism of type NoneType"),  # type: ignore[arg-type]
    (lambda: pr.risk(frame(), "absent.json"), "'absent.json' does not exist"),
    (lambda: pr.risk(frame(), MECHANISM, prior={"edu": [0.5, 0.5]}), "2 number.*give 3"),
    (lambda: pr.risk(frame(), MECHANISM, prior={"sex": [0.5, 0.5]}), "'sex', which is not perturbed"),
    (lambda: pr.risk(frame(), MECHANISM, released=frame(10)), "10 records and the true one 200"),
    (
        lambda: pr.risk(frame(), MECHANISM, released=changed("sex", 7), keys=["sex"]),
        "1 of its values differ .* first in row 5",
    ),
    (lambda: pr.risk(frame(), MECHANISM, released=changed("edu", SECRET)), "first in row 5"),
    (lambda: pr.risk(frame(), MECHANISM, missing="dorp"), "did you mean 'drop'"),  # type: ignore[arg-type]
    (lambda: pr.risk(frame().iloc[:0], MECHANISM), "no records"),
    (lambda: pr.risk(frame(), MECHANISM, ledger="absent.jsonl"), "'absent.jsonl' does not exist"),
    (lambda: pr.risk(*wide(), keys=["a", "b"]), "3.6e[+]03 combinations of levels; the limit is 2000"),
    (lambda: pr.risk(frame(), MECHANISM)["sex"], "'sex' is not perturbed"),
    (lambda: pr.frontier(frame(), "edu", [0.2, 0.5]), r"\[0.2\] must lie above 0.3333"),
    (lambda: pr.frontier(frame(), "edu", []), "must lie above"),
    (lambda: pr.frontier(frame(), "ed"), "did you mean 'edu'"),
    (lambda: pr.frontier(frame(), "constant"), "1 distinct value.*nothing to randomise"),
    (lambda: pr.frontier(frame(), "edu", analysis="y ~ edu", term="x"), "no term 'x'"),
    (lambda: pr.frontier(frame(), "edu", term="x"), "needs an analysis"),
    (lambda: pr.frontier(frame(), "sex", chosen=MECHANISM), "perturbs edu but the frontier is of sex"),
    (lambda: pr.frontier(frame(), "edu", chosen="a"), "'a' does not exist"),
    (lambda: pr.frontier(frame(), "edu", chosen=[1]), "mechanism of type list"),  # type: ignore[arg-type]
    (lambda: pr.plan(frame(), "edu", se=0.1, missing="keep"), "known are error, drop"),  # type: ignore[arg-type]
]

PLAN: list[tuple[Callable[[], Any], str]] = [
    (lambda: pr.plan(frame(), "edu"), "one of the two"),
    (lambda: pr.plan(frame(), "edu", se=0.1, effect={"edu": 1}), "one of the two"),
    (lambda: pr.plan(frame(), "edu", "y ~ edu", se={"ed": 0.1}), "no term 'ed'"),
    (lambda: pr.plan(frame(), "edu", "y ~ edu", se=-1), "se must be positive numbers, by term, not -1"),
    (lambda: pr.plan(frame(), "edu", "y ~ edu", se="x"), "se='x' must be a number"),  # type: ignore[arg-type]
    (lambda: pr.plan(frame(), "edu", "y ~ edu", effect={"edu": 0.3}, power=2), "power=2 must lie between 0 and 1"),
    (lambda: pr.plan(frame(), "edu", "y ~ edu", effect={"edu": 0.3}, power=0.01), "above alpha=0.05"),
    (lambda: pr.plan(frame(), "edu", "y ~ edu", effect={"edu": 0}), "effect must be positive"),
    (lambda: pr.plan(frame(), "edu", "y ~ edu", se=0.1, n=0), "n=0 must be a whole number"),
    (
        lambda: pr.plan(frame(), "edu", "y ~ edu", se={"edu[T.mid]": 0.001}),
        r"0.001 for 'edu\[.withheld.\]' .term 3 of 3. cannot be reached with 200 records: without any perturbation it is 0.1\d+; use at least \d+",
    ),
    (lambda: pr.plan(frame(), "edu", pr.counts("edu"), se=9.0), "a total grows with the file"),
    (lambda: pr.plan(frame(), "code", "y ~ code", se=1.0), "may be amounts or codes"),
    (lambda: pr.plan(frame(), "edu", se=0.1, kind="nomnal"), "did you mean 'nominal'"),  # type: ignore[arg-type]
    (lambda: pr.plan(changed("edu", SECRET), "edu", se=0.1, levels=EDU), "first in row 5"),
    (lambda: keep_for_proportion(0.1, 100, 0.001), "without any perturbation it is 0.03"),
    (lambda: keep_for_proportion(2, 100, 0.1), "share=2"),
    (lambda: pr.optimal_design("y ~ edu", frame(), "edu"), "give one privacy constraint .* not 0"),
    (lambda: pr.optimal_design("y ~ edu", frame(), "edu", epsilon=1, odds=2), "give one privacy constraint .* not 2"),
    (lambda: pr.optimal_design("y ~ edu", frame(), "edu", epsilon=-1), "epsilon=-1 must be a positive number"),
    (lambda: pr.optimal_design("y ~ edu", frame(), "edu", odds=0.1), "below the odds .* ask for more than"),
    (lambda: pr.optimal_design("y ~ edu", frame(), "edu", reidentification=0.1), "needs keys among which is 'edu'"),
    (
        lambda: pr.optimal_design("y ~ edu", frame(), "edu", reidentification=1e-4, keys=["sex", "edu"]),
        "at most 0.0001: the least possible is 0.0",
    ),
    (lambda: pr.optimal_design("y ~ sex", frame(), "edu", epsilon=1), "does not use column 'edu'"),
    (lambda: pr.optimal_design([], frame(), "edu", epsilon=1), "at least one analysis"),
    (lambda: pr.optimal_design("y ~ edu", frame(), "edu", epsilon=1, importance={"zz": 1}), "no term 'zz'"),
    (lambda: pr.optimal_design("y ~ edu", frame(), "edu", epsilon=1, importance={"edu": -1}), "importance -1 of 'edu'"),
    (lambda: pr.optimal_design("y ~ edu", frame(), "edu", epsilon=1, importance={"edu": 0}), "zero throughout"),
    (
        lambda: pr.optimal_design("y ~ edu", frame(), "edu", epsilon=1, importance={"edu": "a"}),  # type: ignore[dict-item]
        "importance 'a' of 'edu'",
    ),
    (lambda: pr.optimal_design("y ~ edu", frame(), "edu", epsilon=1, floor=0.5), "floor=0.5 .* below 1/K"),
    (lambda: pr.optimal_design("y ~ edu", frame(), "edu", epsilon=1, starts=-1), "starts=-1"),
    (lambda: pr.optimal_design("y ~ edu", frame(), "edu", epsilon=1, levels=["low", "mid"]), "not levels"),
]


@pytest.mark.parametrize(("make", "message"), [*RISK, *PLAN])
def test_a_mistake_is_one_clear_error_without_a_value(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(pr.PramanaError, match=message) as caught:
        make()
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


COMMANDS: list[tuple[list[str], str]] = [
    (["plan", "edu"], "say what is asked for"),
    (["plan", "edu", "--se", "0.2", "--optimal"], "leave out one of the two"),
    (["plan", "edu", "--se", "0.2", "--epsilon", "1"], "belong to --optimal"),
    (["plan", "edu", "--se", "edu=abc"], "'abc' is not a number"),
    (["plan", "edu", "--effect", "0.2"], "must name a term and a number"),
    (["plan", "edu", "--se", "1", "--analysis", "y ~ edu", "--analysis", "y ~ sex"], "takes one --analysis"),
    (["risk", "--mechanism", "absent.json"], "does not exist"),
]


@pytest.mark.parametrize(("arguments", "message"), COMMANDS)
def test_the_commands_say_what_is_wrong(arguments: list[str], message: str, tmp_path: Path) -> None:
    path = tmp_path / "true.csv"
    frame().to_csv(path, index=False)
    name, *rest = arguments
    outcome = CliRunner().invoke(app, [name, str(path), *rest])
    assert isinstance(outcome.exception, pr.PramanaError)
    assert message in str(outcome.exception)
