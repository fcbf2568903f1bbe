"""Estimators as values: by name, one of one's own, and several of the same kind side by side."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.analysis.task import Task
from pramana.estimators import Method, method_of


@dataclass(frozen=True)
class Halfway(Method):
    """The mean of the naive and the reversion estimate."""

    share: float = 0.5
    label: str = "halfway"

    def estimate(self, task: Task) -> pr.Result:
        naive, reverted = pr.Naive().estimate(task), pr.Reversion().estimate(task)
        middle = (1 - self.share) * naive.estimate + self.share * reverted.estimate
        return replace(reverted, estimate=middle, method=self.label)


def test_an_estimator_is_whatever_answers_a_task(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    found = pr.fit("income ~ edu", survey, mechanism, method=Halfway())
    naive, reverted = (pr.fit("income ~ edu", survey, mechanism, method=m) for m in ("naive", "reversion"))
    assert found.estimate == pytest.approx((naive.estimate + reverted.estimate) / 2)
    assert found.method == "halfway"


def test_methods_with_the_same_label_stand_side_by_side(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    both = pr.compare("income ~ edu", survey, mechanism, [Halfway(0.1), Halfway(0.9)])
    assert list(both.results) == ["halfway", "halfway (again, 2)"]
    first, second = both.results.values()
    assert first.estimate[1] != second.estimate[1]


def test_methods_are_known_by_name_class_and_value() -> None:
    assert method_of("Reversion") == method_of(pr.Reversion) == method_of(pr.Reversion())
    with pytest.raises(pr.PramanaError, match="method 'revision' is unknown: did you mean"):
        method_of("revision")
    with pytest.raises(pr.PramanaError, match="method of type int"):
        method_of(3)  # type: ignore[arg-type]


def test_a_covariate_model_belongs_to_a_method_with_a_model() -> None:
    assert pr.Likelihood().with_covariate_model("age").covariate_model == "age"
    with pytest.raises(pr.PramanaError, match="belongs to method likelihood"):
        pr.Reversion().with_covariate_model("age")


def test_the_stabilized_estimator_in_compare_and_in_its_summary() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=300)
    y = (rng.random(300) < 1 / (1 + np.exp(-x))).astype(int)
    data = {"x": x, "y": np.where(rng.random(300) < 0.7, y, 1 - y)}
    mechanism = pr.Mechanism({"y": pr.TransitionMatrix.binary(sensitivity=0.7, specificity=0.7)})
    table = pr.compare("y ~ x", data, mechanism, ["reversion", "stabilized"], family="binomial", inference="resampling")
    found = table["stabilized"]
    assert isinstance(found, pr.StabilizedResult)
    for words in ("Records projected", "Weight of the step", "T = ", "Plug-in m", "One step o", "Released levels on"):
        assert words in str(found)
    assert found.to_dict()["stabilized"]["weight"] == pytest.approx(found.weight)
    weak = pr.fit("y ~ x", data, pr.Mechanism({"y": pr.TransitionMatrix.binary(0.68, 0.68)}), family="binomial")
    assert any("method='stabilized'" in note.message for note in weak.diagnostics)


def test_a_sample_without_a_root_is_pointed_to_the_stabilized_estimator() -> None:
    x = np.linspace(-2, 2, 200)
    data = {"x": x, "y": (x > 0).astype(int)}
    mechanism = pr.Mechanism({"y": pr.TransitionMatrix.binary(sensitivity=0.8, specificity=0.8)})
    with pytest.raises(pr.SolveError, match="or use method='stabilized'"):
        pr.fit("y ~ x", data, mechanism, family="binomial")
    assert np.all(np.isfinite(pr.fit("y ~ x", data, mechanism, family="binomial", method="stabilized").interval()))
    with pytest.raises(pr.SolveError, match=r"or use more data$"):
        pr.fit("y ~ x", data, None, family="binomial")
