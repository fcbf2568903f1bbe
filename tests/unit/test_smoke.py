"""The thin slice through every layer."""

from __future__ import annotations

import pandas as pd

import pramana as pr


def test_a_released_frame_gives_a_table(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    result = pr.fit("income ~ age + edu + female", survey, mechanism)
    assert result.parameters == ("Intercept", "age", "edu[T.mid]", "edu[T.high]", "female")
    assert "edu[T.high]" in str(result)
