"""The variance of analyses that use numbers with noise, before anything is released, and the strength that a precision needs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.analysis.question import question
from pramana.disclosure.planning.keep_probability import NoisePlan, spread_of, stronger
from pramana.disclosure.utility import expected_variance
from pramana.disclosure.utility.expected_variance import by_unit, pilot_of
from pramana.engines import LocalEngine
from pramana.estimators import Reversion
from pramana.frames import read

NOISES: dict[str, Any] = {
    "laplace": pr.LaplaceNoise(5.0),
    "geometric": pr.GeometricNoise(5.0),
    "keep or noise": pr.KeepOrNoise(0.5, pr.LaplaceNoise(6.0)),
    "gaussian": pr.GaussianNoise(7.0, bounds=(0, 100)),
    "discrete gaussian": pr.DiscreteGaussianNoise(6.0, step=2.0),
    "uniform": pr.UniformNoise(20.0),
}


@pytest.fixture
def frame(rng: np.random.Generator) -> pd.DataFrame:
    n = 1000
    age = rng.integers(18, 66, n)
    out = pd.DataFrame({"age": age, "region": rng.choice(["n", "s"], n), "edu": rng.choice(["low", "high"], n)})
    out["y"] = 0.02 * age + (out.edu == "high") + rng.normal(size=n)
    out["b"] = (rng.random(n) < 1 / (1 + np.exp((40 - age) / 15))).astype(int)
    return out


def expected(data: pd.DataFrame, mechanism: pr.Mechanism, analysis: Any, weights: str | None = None) -> Any:
    pilot = pilot_of(question(analysis), read(data), mechanism, weights)
    return by_unit(pilot, mechanism).expected(mechanism)


def variance(noise: Any) -> float:
    return float(noise.chances @ noise.values**2)


@pytest.mark.parametrize("name", NOISES)
def test_a_mean_loses_the_variance_of_the_noise(frame: pd.DataFrame, name: str) -> None:
    """E V²/n, and not that of a noise 10 % stronger."""
    noise = NOISES[name]
    found = expected(frame, pr.Mechanism({"age": noise}), pr.mean("age"))
    n = len(frame)
    assert found.privacy[0, 0] == pytest.approx(variance(noise) / n, rel=0.03)
    assert found.privacy[0, 0] < 0.9 * variance(stronger(noise, 1.1)) / n
    true = frame.age if name != "discrete gaussian" else 2 * np.rint(frame.age / 2)
    assert found.clean[0, 0] == pytest.approx(true.var(ddof=0) / n, rel=1e-4)


@pytest.mark.parametrize(("formula", "family"), [("y ~ age + edu", "gaussian"), ("b ~ age + I(age ** 2)", "gaussian")])
def test_the_average_over_draws_is_the_sum_over_the_law(
    frame: pd.DataFrame, formula: str, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every value of the noise, one after the other, with its probability."""
    data, noise = frame.head(60), pr.GeometricNoise(1.0)
    mechanism = pr.Mechanism({"age": noise})
    pilot = pilot_of(question(formula, family), read(data), mechanism)
    exact = np.zeros((len(pilot.parameters),) * 2)
    for value, chance in zip(noise.values, noise.chances, strict=True):
        if chance < 1e-12:
            continue
        moved = read(data.assign(age=data.age + int(value)))
        bound = Reversion().bind(pilot.function, mechanism, moved, np.ones(60)).equation
        away = LocalEngine.of(bound).learned().equation.influence(pilot.estimate) - pilot.u
        exact += chance * away.T @ away
    monkeypatch.setattr(expected_variance, "DRAWN", 400_000)
    found = pilot.privacy_meat(mechanism)
    scale = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    np.testing.assert_allclose(found / scale, exact / scale, atol=0.04)


def test_noise_and_levels_and_weights_together(frame: pd.DataFrame) -> None:
    """Without noise in the formula it is the exact sum; a weight of 2 for everybody changes nothing."""
    edu = pr.TransitionMatrix.randomized_response(["low", "high"], 0.8)
    both = pr.Mechanism({"age": pr.LaplaceNoise(1e-3), "edu": edu})
    exact = expected(frame, pr.Mechanism({"edu": edu}), "y ~ age + edu")
    found = expected(frame, both, "y ~ age + edu")
    assert exact.draws is None
    assert found.draws == 100_000
    np.testing.assert_allclose(np.diag(found.total), np.diag(exact.total), rtol=0.02)
    twice = expected(frame.assign(w=2.0), both, "y ~ age + edu", "w")
    np.testing.assert_allclose(twice.total, found.total, rtol=1e-9)


def test_units_and_strata_and_joint_noise(frame: pd.DataFrame) -> None:
    """Two records of a person with one draw lose twice as much; strata lose what each has; joint noise what its column has."""
    n = len(frame)
    twin = pd.concat([frame, frame]).assign(person=np.tile(np.arange(n), 2))
    noise = pr.GaussianNoise(7.0)
    shared = expected(twin, pr.Mechanism({"age": noise}, unit="person"), pr.mean("age"))
    assert shared.privacy[0, 0] == pytest.approx(49 / n, rel=0.03)
    by = pr.Stratified("region", {"n": pr.LaplaceNoise(3.0), "s": pr.LaplaceNoise(6.0)})
    north = float((frame.region == "n").mean())
    assert expected(frame, pr.Mechanism({"age": by}), pr.mean("age")).privacy[0, 0] * n == pytest.approx(
        18 * north + 72 * (1 - north), rel=0.03
    )
    joint = pr.Mechanism({("age", "y"): pr.JointGaussianNoise([[49.0, 3.0], [3.0, 1.0]])})
    found = expected(frame, joint, pr.mean("age"))
    assert found.privacy[0, 0] * n == pytest.approx(49, rel=0.03)


def test_risk_shows_what_analyses_lose(frame: pd.DataFrame) -> None:
    report = pr.risk(frame, pr.Mechanism({"age": pr.LaplaceNoise(5.0)}), analyses=["y ~ age"])
    assert report.utility.analyses[0].variance.inflation[1] > 1.2
    assert "averaged over 100000 draws of its noise" in str(report)


@pytest.mark.parametrize("name", NOISES)
def test_a_plan_for_a_mean_has_its_closed_form(frame: pd.DataFrame, name: str) -> None:
    """(s² + E V²)/n = se²; kind, bounds and step stay as they are."""
    noise, n, se = NOISES[name], len(frame), 0.65
    made = pr.plan(frame, "age", se=se, mechanism=pr.Mechanism({"age": noise}), simulate=0)
    assert isinstance(made, NoisePlan)
    true = frame.age if name != "discrete gaussian" else 2 * np.rint(frame.age / 2)
    wanted = n * se**2 - true.var(ddof=0)
    assert variance(made.noise) == pytest.approx(wanted, rel=0.03)
    assert type(made.noise) is type(noise)
    assert made.noise.bounds == noise.bounds  # type: ignore[attr-defined]
    assert made.targets[0].expected == pytest.approx(se, rel=1e-3)
    assert made.sd == spread_of(made.noise) == pytest.approx(math.sqrt(wanted), rel=0.6)
    assert made.to_dict()["noise"] == made.noise.document()
    assert "Standard deviation of the noise" in str(made)


def test_a_plan_is_tried_out(frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a perturbed column, with strata; what is simulated is what was asked for."""
    monkeypatch.setattr(expected_variance, "DRAWN", 10_000)
    by = pr.Stratified("region", {"n": pr.LaplaceNoise(1.0), "s": pr.LaplaceNoise(2.0)})
    edu = pr.TransitionMatrix.randomized_response(["low", "high"], 0.9)
    design = pr.Mechanism({"age": by, "edu": edu})
    made = pr.plan(frame.head(500), "age", "y ~ age + edu", se={"age": 0.005}, mechanism=design, simulate=40)
    assert isinstance(made, NoisePlan)
    assert made.simulation is not None
    assert made.simulation.failed == 0
    (row,) = made.targets
    assert row.simulated is not None
    assert row.error is not None
    assert row.simulated == pytest.approx(0.005, abs=4 * row.error + 0.02 * 0.005)
    north, south = (part.scale for part in made.noise.parts.values())  # type: ignore[attr-defined]
    assert south == pytest.approx(2 * north)
    assert made.mechanism.columns == ["edu", "age"]


def test_strengths_that_cannot_be(frame: pd.DataFrame, tmp_path: Path) -> None:
    noise = pr.Mechanism({"age": pr.GaussianNoise(1.0)})
    with pytest.raises(pr.PramanaError, match=r"cannot be reached with 1000 records: without any perturbation"):
        pr.plan(frame, "age", se=0.1, mechanism=noise, simulate=0)
    with pytest.raises(pr.PramanaError, match=r"one value in all records"):
        pr.plan(frame.assign(age=3.0), "age", "y ~ edu", se=1.0, mechanism=noise, simulate=0)
    joint = pr.Mechanism({("age", "y"): pr.JointGaussianNoise([[1.0, 0.1], [0.1, 1.0]])})
    with pytest.raises(pr.PramanaError, match=r"perturbed together with 'age', 'y'"):
        pr.plan(frame, "age", se=0.7, mechanism=joint, simulate=0)
    with pytest.raises(pr.PramanaError, match=r"log"):
        pr.plan(frame, "age", "y ~ log(age)", se=1.0, mechanism=noise, simulate=0)
    with pytest.raises(pr.PramanaError, match=r"adds noise to age, and a frontier is of keep probabilities"):
        pr.frontier(frame, "age", [0.8], chosen=noise)
    any_will_do = pr.plan(frame, "age", "y ~ edu", se=1.0, mechanism=noise, simulate=0)
    assert any_will_do.note is not None
    assert "any strength will do" in any_will_do.note


def test_a_design_file_and_the_command_line_plan_noise(frame: pd.DataFrame, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from pramana.cli.application import app

    frame.to_csv(tmp_path / "raw.csv", index=False)
    (tmp_path / "design.toml").write_text("[columns.age]\nnoise = 'geometric'\nscale = 1\nbounds = [18, 65]\n")
    out = tmp_path / "m.json"
    command = ["plan", str(tmp_path / "raw.csv"), "age", "--se", "0.65", "--simulate", "0"]
    shown = CliRunner().invoke(app, [*command, "-m", str(tmp_path / "design.toml"), "-o", str(out)])
    assert shown.exit_code == 0, shown.output
    channel: Any = pr.Mechanism.load(out).assignments[0].channel
    assert channel.bounds == (18, 65)
    assert channel.scale > 5
