"""Predictions for new records: what transforms learnt from the fitted file stays learnt."""

from __future__ import annotations

import numpy as np
import pytest

import pramana as pr

LEVELS = ["a", "b"]
MECHANISM = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(LEVELS, 0.9)})


@pytest.fixture
def data(rng: np.random.Generator) -> dict[str, np.ndarray]:
    n = 300
    columns = {"x": rng.normal(3, 1, n), "z": rng.normal(size=n), "edu": rng.choice(LEVELS, n)}
    return {**columns, "y": rng.poisson(2, n)}


@pytest.mark.parametrize(
    "term", ["center(x)", "offset(center(x))", "offset(0.1 * scale(x) + z)", "offset(center(abs(x)))"]
)
@pytest.mark.parametrize("family", ["poisson", "gaussian"])
def test_a_record_is_predicted_alike_alone_and_among_others(
    term: str, family: str, data: dict[str, np.ndarray]
) -> None:
    result = pr.fit(f"y ~ edu + {term}", data, MECHANISM, family=family)
    few = {name: values[:3] for name, values in data.items()}
    np.testing.assert_allclose(
        result.predict(few)["prediction"], result.predict(data)["prediction"][:3], rtol=1e-12, atol=0
    )


def test_an_offset_is_learnt_from_all_records(data: dict[str, np.ndarray]) -> None:
    centred = data | {"c": data["x"] - data["x"].mean()}
    given = pr.fit("y ~ edu + offset(c)", centred, MECHANISM)
    learnt = pr.fit("y ~ edu + offset(center(x))", data, MECHANISM)
    np.testing.assert_allclose(learnt.estimate, given.estimate, rtol=1e-12)
