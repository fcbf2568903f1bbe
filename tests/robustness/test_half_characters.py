"""Text with half a character (a lone surrogate), which a wrong decoding leaves: refused where it would matter, harmless elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr

HALF = "caf\udce9"
N = 120
MECHANISM = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(["low", "high"], 0.8)})


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


@pytest.mark.parametrize("style", ["text", "json", "markdown", "latex", "html"])
def test_every_rendering_can_be_written(style: str) -> None:
    own = pr.from_callable(lambda beta, y: (y - beta[0])[:, None], [HALF])
    assert "caf" in pr.fit(own, columns(), MECHANISM).summary(style).encode().decode()
