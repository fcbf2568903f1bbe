"""Noise in design files: what is asked for is what is built, written and read again; what cannot be is refused in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.mechanism.designs.design_file import Design

ASKED: dict[str, tuple[str, Any]] = {
    "laplace": ("noise = 'laplace'\nscale = 2.5", pr.LaplaceNoise(2.5)),
    "laplace from epsilon": (
        "noise = 'laplace'\nepsilon = 2\nbounds = [18, 66]",
        pr.LaplaceNoise(24.0, bounds=(18, 66)),
    ),
    "geometric": ("noise = 'geometric'\nscale = 3\nstep = 0.5", pr.GeometricNoise(3.0, step=0.5)),
    "gaussian": ("noise = 'gaussian'\nsd = 4\nbounds = [0, 8]", pr.GaussianNoise(4.0, bounds=(0, 8))),
    "gaussian from rho": ("noise = 'gaussian'\nrho = 2\nbounds = [0, 8]", pr.GaussianNoise(4.0, bounds=(0, 8))),
    "discrete gaussian": (
        "noise = 'discrete-gaussian'\nsd = 4\nstep = 2\nbounds = [0, 8]",
        pr.DiscreteGaussianNoise(4.0, 2.0, bounds=(0, 8)),
    ),
    "uniform": ("noise = 'uniform'\nwidth = 9", pr.UniformNoise(9.0)),
    "keep or noise": (
        "noise = 'geometric'\nscale = 3\nkeep = 0.4\nbounds = [0, 9]\nepsilon = 7",
        pr.KeepOrNoise(0.4, pr.GeometricNoise(3.0, bounds=(0, 9))),
    ),
    "by stratum": (
        "noise = 'laplace'\nby = 'region'\nbounds = [0, 9]\n[[columns.x.strata]]\nvalue = 'n'\nscale = 2\n"
        "[[columns.x.strata]]\nvalue = 's'\nepsilon = 3",
        pr.Stratified("region", {"n": pr.LaplaceNoise(2.0, bounds=(0, 9)), "s": pr.LaplaceNoise(3.0, bounds=(0, 9))}),
    ),
}
JOINT = """[[linked]]
columns = ["u", "v"]
noise = "gaussian"
covariance = [[4.0, 1.0], [1.0, 1.0]]
bounds = [[0, 2], [0, 1]]
rho = 2.1
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "design.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", ASKED)
def test_noise_is_what_was_asked_for(tmp_path: Path, name: str) -> None:
    """Built from the file, and from the file that is written of it."""
    text, channel = ASKED[name]
    path = written(tmp_path, f"[columns.x]\n{text}\n")
    expected = pr.Mechanism({"x": channel})
    assert pr.read_design(path) == expected
    Design.read(path).write(tmp_path / "again.toml")
    assert pr.read_design(tmp_path / "again.toml") == expected


def test_joint_noise_is_linked(tmp_path: Path) -> None:
    path = written(tmp_path, JOINT)
    expected = pr.Mechanism({("u", "v"): pr.JointGaussianNoise([[4, 1], [1, 1]], bounds=[(0, 2), (0, 1)])})
    assert pr.read_design(path) == expected
    Design.read(path).write(tmp_path / "again.toml")
    assert pr.read_design(tmp_path / "again.toml") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("noise = 'laplac'\nscale = 1", r"noise 'laplac' is unknown: did you mean 'laplace'"),
        ("noise = 'laplace'", r"strength of laplace noise is not given: give scale, or epsilon and bounds"),
        ("noise = 'uniform'", r"strength of uniform noise is not given: give width$"),
        ("noise = 'laplace'\nepsilon = 1", r"a privacy loss needs bounds"),
        ("noise = 'laplace'\nscale = 0", r"scale=0 must be a positive number"),
        ("noise = 'laplace'\nscale = 1\nepsilon = 1\nbounds = [0, 9]", r"epsilon is 9, above the 1 asked for"),
        ("noise = 'gaussian'\nsd = 1\nrho = 1\nbounds = [0, 9]", r"rho is 40.5, above the 1 asked for"),
        ("noise = 'gaussian'\nrho = 0\nbounds = [0, 9]", r"rho=0 must be a positive number"),
        ("noise = 'gaussian'\nscale = 1", r"scale does not belong to gaussian noise.*strength is sd"),
        ("noise = 'gaussian'\nsd = 1\nepsilon = 1", r"epsilon does not belong to gaussian noise"),
        ("noise = 'laplace'\nscale = 1\nstep = 1", r"step does not belong to laplace noise"),
        (
            "noise = 'gaussian'\nsd = 1\nkeep = 0.5",
            r"keep=0.5 is not above 0.5: GaussianNoise that is added with a probability of 0.5",
        ),
        ("noise = 'gaussian'\nkeep = 0.7\nrho = 1\nbounds = [0, 1]", r"with keep, rho does not tell the sd: give sd"),
        ("noise = 'laplace'\nkeep = 0.5\nepsilon = 1\nbounds = [0, 1]", r"epsilon does not tell the scale"),
        ("noise = 'laplace'\nscale = 1\nlevels = ['a']", r"unknown key 'levels'"),
        ("noise = 'laplace'\nscale = 'much'", r"scale is 'much': give a number"),
        ("noise = 'laplace'\nscale = 1\nbounds = [1]", r"bounds=\(1,\) must be two numbers"),
        ("noise = 'laplace'\nscale = 1\nby = 'r'", r"strata need both"),
        (
            "noise = 'laplace'\nby = 'r'\n[[columns.x.strata]]\nvalue = 1\nscale = -1",
            r"stratum 1 of 'r': scale=-1 must be a positive number",
        ),
    ],
)
def test_what_makes_no_noise_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(pr.MechanismError, match=message):
        pr.read_design(written(tmp_path, f"[columns.x]\n{text}\n"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("rho = 2.1", "rho = 1"), r"rho is 2.*, above the 1 asked for"),
        (('noise = "gaussian"', 'noise = "laplace"'), r"columns share normal noise alone"),
        (("covariance = [[4.0, 1.0], [1.0, 1.0]]\n", ""), r"with a covariance"),
        (("[[0, 2], [0, 1]]", "[0, 2]"), r"bounds is \[0, 2\]: give a list of pairs of numbers"),
        (("[1.0, 1.0]]", "[1.0]]"), r"covariance must be a square table"),
    ],
)
def test_joint_noise_that_cannot_be(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    with pytest.raises(pr.MechanismError, match=message):
        pr.read_design(written(tmp_path, JOINT.replace(*change)))


def test_a_design_with_noise_and_levels_is_released(tmp_path: Path) -> None:
    """Marks of missing values, rare levels and noise in one design; the analyst's description holds it all."""
    rng = np.random.default_rng(4)
    data = pd.DataFrame({"edu": [*rng.choice(["a", "b"], 498), "rare", "rare"], "age": rng.integers(18, 66, 500)})
    data.assign(age=[*data.age[:-1].astype(str), "-8"]).to_csv(tmp_path / "raw.csv", index=False)
    path = written(
        tmp_path,
        "missing = ['-8']\n[columns.edu]\nkeep = 0.8\nmerge_below = 5\nother = 'b'\n"
        "[columns.age]\nnoise = 'geometric'\nepsilon = 4\nbounds = [18, 66]\n",
    )
    (tmp_path / "public").mkdir()
    made = pr.release(tmp_path / "raw.csv", tmp_path / "public" / "out.csv", path, merge_below=4)
    known = pr.Mechanism.load(made.path)
    assert known.used_by(["age"])[0].channel == pr.GeometricNoise(12.0, bounds=(18, 66))
    assert made.missing == {"age": 1}
    assert pr.audit(made.path, original=tmp_path / "raw.csv").clean


def run(*arguments: str) -> Any:
    from typer.testing import CliRunner

    from pramana.cli.application import app

    return CliRunner().invoke(app, list(arguments))


def test_the_command_line_asks_for_noise(tmp_path: Path) -> None:
    pd.DataFrame({"age": [20, 30, None], "job": ["a", "b", "a"]}).to_csv(tmp_path / "raw.csv", index=False)
    out, source = tmp_path / "design.toml", ["--from", str(tmp_path / "raw.csv")]
    shown = run("design", "age", *source, "--noise", "laplace", "--epsilon", "2", "--bounds", "18,66", "-o", str(out))
    assert shown.exit_code == 0, shown.output
    assert "Laplace noise of scale 24" in shown.output
    assert run("design", "job", "--levels", "a,b", "--keep", "0.8", "-o", str(out), "--append").exit_code == 0
    assert pr.read_design(out) == pr.Mechanism(
        {
            "age": pr.LaplaceNoise(24.0, bounds=(18, 66)),
            "job": pr.TransitionMatrix.randomized_response(["a", "b"], 0.8),
        }
    )
    for arguments, message in (
        (("age", "--scale", "2"), "--scale belongs to noise: add --noise, or leave out --scale"),
        (("age", "--noise", "laplace", "--levels", "1,2"), "--levels belongs to columns with levels"),
        (("job", *source, "--noise", "laplace", "--scale", "2"), "holds no numbers"),
    ):
        failed = run("design", *arguments)
        assert message in str(failed.exception)
