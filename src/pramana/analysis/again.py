"""How a formula was fitted, so that its margins can be: settings and names of columns, and no record of the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pramana.analysis.task import Job
from pramana.errors import PramanaError
from pramana.estimators import Method
from pramana.inference import Jackknife, Resampling, Sandwich, SurveyDesign
from pramana.mechanism import Mechanism
from pramana.models.generalized_linear import Glm
from pramana.models.marginal import margins
from pramana.result import Result


@dataclass(frozen=True)
class Refit:
    """The settings of a fit.

    Attributes
    ----------
    columns : what weights, frequencies, clusters and design are called in the data.
    arrays : which of them were given as arrays and must be given again.
    """

    plan: Glm
    mechanism: Mechanism | None
    method: Method
    inference: Sandwich | Resampling | Jackknife | None
    missing: str
    columns: Mapping[str, Any]
    arrays: tuple[str, ...]

    @classmethod
    def of(
        cls,
        plan: Glm,
        mechanism: Mechanism | None,
        method: Method,
        inference: Sandwich | Resampling | Jackknife | None,
        beside: Mapping[str, Any],
        missing: str,
    ) -> Refit:
        if isinstance(inference, Sandwich) and inference.interval == "score":
            inference = replace(inference, interval="wald")  # a system of equations has no score intervals
        named = {k: v for k, v in beside.items() if v is not None and _holds_no_records(v)}
        arrays = tuple(k for k, v in beside.items() if v is not None and k not in named)
        return cls(plan, mechanism, method, inference, missing, named, arrays)

    def __call__(self, variables: Sequence[str], data: Any, given: Mapping[str, Any]) -> Result:
        """Average marginal effects of the variables over the records of `data`."""
        absent = [name for name in self.arrays if name not in given]
        if absent:
            raise PramanaError(f"{absent[0]} came as an array, and a result keeps no array: give {absent[0]}= again")
        strange = [name for name in given if name not in (*self.columns, *self.arrays)]
        if strange:
            raise PramanaError(f"{strange[0]}= was no part of this fit: leave it out, or fit again with it")
        beside = dict.fromkeys(("weights", "frequencies", "clusters", "design")) | dict(self.columns) | dict(given)
        plan = margins(self.plan.formula, variables, self.plan.family, functions=dict(self.plan.functions))
        job = Job.read(plan, data, self.mechanism, None, None, missing=self.missing, **beside)
        return job.run(self.method, self.inference, None)


def _holds_no_records(given: Any) -> bool:
    """A column name, or a design that is made of them."""
    if not isinstance(given, SurveyDesign):
        return isinstance(given, str)
    columns = (given.weights, given.strata, given.clusters, given.fpc, *given.replicate_weights)
    return all(column is None or isinstance(column, str) for column in columns)
