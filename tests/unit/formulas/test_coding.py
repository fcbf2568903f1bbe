"""Designs that are put together here have formulaic's rows, to the last bit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from formulaic.errors import DataMismatchWarning

import pramana as pr
from pramana.formulas.design import FormulaDesign, regressors
from pramana.formulas.parsed import parse
from pramana.frames import read

N = 60
LEVELS = ("low", "mid", "high")
MECHANISM = pr.Mechanism(
    {
        "edu": pr.TransitionMatrix.randomized_response(LEVELS, keep=0.8),
        "score": pr.TransitionMatrix.randomized_response([0, 2, 5], keep=0.8, kind="numeric"),
        "code": pr.TransitionMatrix.randomized_response([3, 1], keep=0.8, kind="nominal"),
    }
)
CODED = (
    "edu",
    "edu + sex",
    "edu * sex * region",
    "edu:sex - 1",
    "0 + sex + edu",
    "edu / sex",
    "(edu + sex + x)**2",
    "x:sex + edu",
    "edu:x - 1",
    "edu * x * z",
    "region:edu:x + member",
    "score + score:x + edu:score",
    "code * sex + x",
    "C(edu) * sex",
    "C(kids) * edu",
    "x + kids:member:x + edu",
    "center(x) + scale(z):edu",
    "I(x**2):edu + log(kids + 1)",
    "2:x + edu",
)
ASKED = ("poly(x, 2) + edu", "bs(x, df=4) + edu", "C(sex, contr.sum) + edu", "C(kids, levels=[3, 2, 1, 0]) + edu")


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    return pd.DataFrame(
        {
            "x": rng.normal(size=N),
            "z": rng.normal(size=N),
            "kids": rng.integers(0, 4, N),
            "sex": rng.choice(["f", "m"], N),
            "region": pd.Categorical(rng.choice(["n", "s", "w"], N), categories=["w", "n", "s"]),
            "member": rng.random(N) < 0.5,
            "edu": rng.choice(LEVELS, N),
            "score": rng.choice([0, 2, 5], N),
            "code": rng.choice([3, 1], N),
        }
    )


def learned(formula: str, frame: pd.DataFrame) -> tuple[FormulaDesign, dict[str, object]]:
    table = read(frame)
    design = regressors(parse(f"x ~ {formula}"), table, MECHANISM.schema)
    return design, {name: table.column(name) for name in design.variables}


def rows_of_formulaic(design: FormulaDesign, columns: dict[str, object]) -> np.ndarray:
    return design._matrix(design.frame(columns, N))


@pytest.mark.parametrize("formula", [*CODED, *ASKED])
def test_rows_are_those_of_formulaic(formula: str, frame: pd.DataFrame) -> None:
    design, columns = learned(formula, frame)
    assert (design.coding is not None) == (formula in CODED)
    one = {name: (v.levels or ())[1] for name, v in design.described.items() if v is not None}
    for given in (columns, {**columns, **one}):
        found = design(given, N)
        assert found.flags.c_contiguous
        assert found.tobytes() == rows_of_formulaic(design, given).tobytes()


def test_values_that_were_not_learned_are_left_to_formulaic(frame: pd.DataFrame) -> None:
    """It warns of a level that nobody had, and refuses a gap."""
    design, columns = learned("edu + sex + z", frame)
    other = np.array(["f", "x"] * (N // 2), dtype=object)
    with pytest.warns(DataMismatchWarning):
        found = design({**columns, "sex": other}, N)
    assert found[:, design.names.index("sex[T.m]")].sum() == 0
    with pytest.raises(pr.errors.FormulaError, match="could not be evaluated"):
        design({**columns, "z": np.where(np.arange(N) == 3, np.nan, 1.0)}, N)


def test_numbers_of_fewer_digits_are_multiplied_as_they_are(frame: pd.DataFrame) -> None:
    few = frame.assign(z=frame["z"].astype(np.float32))
    design, columns = learned("edu * z", few)
    columns["z"] = few["z"].to_numpy()
    assert design(columns, N).tobytes() == rows_of_formulaic(design, columns).tobytes()
