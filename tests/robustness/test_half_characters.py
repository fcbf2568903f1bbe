"""Text with half a character (a lone surrogate), which a wrong decoding leaves: refused where it would matter, harmless elsewhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr

HALF = "caf\udce9"
N = 120
EDU = pr.TransitionMatrix.randomized_response(["low", "high"], 0.8)
MECHANISM = pr.Mechanism({"edu": EDU})


def columns(**more: Any) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {"y": rng.normal(size=N), "edu": rng.choice(["low", "high"], N), **more}


def places() -> np.ndarray:
    return np.array([HALF, "bar"], dtype=object)[np.arange(N) % 2]


def frame() -> pd.DataFrame:
    return pd.DataFrame(columns()).assign(place=pd.Series(places(), dtype=object))


REFUSED: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "a level": (
        pr.MechanismError,
        "level 'caf\\\\udce9' holds half a character",
        lambda: pr.TransitionMatrix.randomized_response([HALF, "bar"], 0.8),
    ),
    "a joint level": (
        pr.MechanismError,
        "holds half a character",
        lambda: pr.TransitionMatrix.randomized_response([("a", HALF), ("a", "b")], 0.8),
    ),
    "a dictionary": (
        pr.DataError,
        "column 'place' holds text with half a character .* in 60 record",
        lambda: pr.fit("y ~ edu + place", columns(place=places()), MECHANISM),
    ),
    "a dictionary, perturbed": (
        pr.PramanaError,
        "column 'place' holds text with half a character .* in 60 record",
        lambda: MECHANISM.perturb(columns(place=places())),
    ),
    "a formula": (pr.DataError, "column 'place' .* 60 record", lambda: pr.fit("y ~ edu + place", frame(), MECHANISM)),
    "domains": (pr.DataError, "'place' .* 60 record", lambda: pr.fit(pr.mean("y", by="place"), frame(), MECHANISM)),
    "a perturbed column": (
        pr.MechanismError,
        "the column name 'caf\\\\udce9' holds half",
        lambda: pr.Mechanism({HALF: pr.LaplaceNoise(1)}),
    ),
    "a unit": (pr.MechanismError, "the column name .* holds half", lambda: pr.Mechanism({"edu": EDU}, unit=HALF)),
    "a stratum's column": (
        pr.MechanismError,
        "the column name .* holds half",
        lambda: pr.Mechanism({"edu": pr.Stratified(HALF, {"a": EDU, "b": EDU})}),
    ),
    "a stratum": (
        pr.MechanismError,
        "a value of 's', by which 'edu' is drawn, holds half",
        lambda: pr.Mechanism({"edu": pr.Stratified("s", {"a": EDU, HALF: EDU})}),
    ),
    "a group": (
        pr.MechanismError,
        "a value of 'form', by which 'edu' is drawn, holds half",
        lambda: pr.Mechanism({"edu": pr.designs.cheating_detection("form", yes={"A": 0.25, HALF: 0.75})}),
    ),
    "a name": (
        pr.DataError,
        "the column name 'caf\\\\udce9' holds half",
        lambda: pr.fit("y ~ edu", columns(**{HALF: np.ones(N)}), MECHANISM),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_half_a_character_is_refused_with_its_place(case: str) -> None:
    kind, message, call = REFUSED[case]
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.parametrize(
    "options",
    [
        {"clusters": np.array([f"{HALF}{k % 20}" for k in range(N)], dtype=object)},
        {"design": pr.SurveyDesign(strata=places(), clusters=np.arange(N) // 2)},
    ],
    ids=["clusters", "strata"],
)
def test_it_may_name_groups(options: dict[str, Any]) -> None:
    assert np.all(np.isfinite(pr.fit("y ~ edu", columns(), MECHANISM, **options).standard_errors))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("options", [{"new_id": HALF}, {"missing": [HALF]}, {}], ids=["new_id", "missing", "target"])
def test_what_a_release_would_have_to_write_is_refused_first(options: Any, ending: str, tmp_path: Path) -> None:
    """As the shell hands on a name in another encoding."""
    pd.DataFrame(columns()).to_csv(tmp_path / "raw.csv", index=False)
    target = tmp_path / f"{'o' if options else HALF}.{ending}"
    with pytest.raises(pr.PramanaError, match=r"holds half a character .*: write it in UTF-8"):
        pr.release(tmp_path / "raw.csv", target, MECHANISM, ledger=tmp_path / "ledger", **options)
    assert [p.name for p in tmp_path.iterdir()] == ["raw.csv"]


@pytest.mark.parametrize(
    "command", [["key", f"{HALF}.key"], ["design", HALF, "--levels", "a,b", "--keep", "0.8", "-o", "d.toml"]]
)
def test_the_command_line_says_it_in_a_line(command: list[str], tmp_path: Path) -> None:
    """A key may have any name that the system has; what a file would have to hold is refused."""
    done = subprocess.run([sys.executable, "-m", "pramana", *command], cwd=tmp_path, capture_output=True, text=True)
    said = "caf\\udce9" in done.stdout + done.stderr and not done.stderr.count("\n") > 1
    assert (done.returncode, said) == (0 if command[0] == "key" else 2, True), done.stderr


@pytest.mark.parametrize("style", ["text", "json", "markdown", "latex", "html"])
def test_every_rendering_can_be_written(style: str) -> None:
    own = pr.from_callable(lambda beta, y: (y - beta[0])[:, None], [HALF])
    assert "caf" in pr.fit(own, columns(), MECHANISM).summary(style).encode().decode()
