"""The thin slice through every layer."""

from __future__ import annotations

import subprocess
import sys

import pandas as pd

import pramana as pr


def test_a_released_frame_gives_a_table(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    result = pr.fit("income ~ age + edu + female", survey, mechanism)
    assert result.parameters == ("Intercept", "age", "edu[T.mid]", "edu[T.high]", "female")
    assert "edu[T.high]" in str(result)


def test_a_fit_in_memory_needs_neither_pydantic_nor_cryptography() -> None:
    """They are for files and for secret draws; a machine that only estimates may lack them."""
    code = (
        "import sys; sys.modules['pydantic'] = sys.modules['cryptography'] = None\n"
        "import pramana as pr\n"
        "m = pr.Mechanism({'y': pr.TransitionMatrix.binary(0.9, 0.8)})\n"
        "pr.fit(pr.mean('y'), m.perturb({'y': [0, 1, 1, 0] * 5}, seed=1), m)\n"
        "pr.fit('y ~ 1', {'y': [0, 1, 1, 0] * 5}, m, family='binomial', method='likelihood')\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, capture_output=True)
