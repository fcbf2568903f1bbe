"""Multinomial logit for a response with classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pramana.arrays import Float, Int
from pramana.estimating.equation import Records
from pramana.estimating.generalized_linear import refuse_collinear
from pramana.estimating.multinomial import MultinomialEquation
from pramana.formulas.classes import Classes
from pramana.formulas.generalized_linear import Design
from pramana.formulas.parsed import parse
from pramana.formulas.regressors import parse_plain, regressors, variables_in
from pramana.frames import Schema, Table


@dataclass(frozen=True)
class Multinomial:
    """Plan of `multinomial(formula)`."""

    formula: str
    log_scale: ClassVar[bool] = True

    @property
    def variables(self) -> tuple[str, ...]:
        return variables_in(parse(self.formula))

    def prepare(self, table: Table, schema: Schema) -> MultinomialFunction:
        parsed = parse_plain(self.formula)
        classes = Classes.of(parsed, table, schema)
        return MultinomialFunction(self.variables, classes, regressors(parsed, table, schema))


def multinomial(formula: str) -> Multinomial:
    """Multinomial logit: log Pr(y = k | x) / Pr(y = first | x) = xᵀβ_k, for a response with three or more levels.

    The first level is the reference, in the order of the mechanism (or of the categories, or sorted). A perturbed
    response is reverted with the whole inverse of its transition matrix, all classes at once. Parameters are named
    "level:term".

    >>> import pramana as pr
    >>> levels = ["walk", "bus", "car"]
    >>> mechanism = pr.Mechanism({"mode": pr.TransitionMatrix.randomized_response(levels, keep=0.8)})
    >>> data = {"mode": levels * 60 + ["car"] * 40, "far": [0, 0, 1, 1] * 55}
    >>> result = pr.fit(multinomial("mode ~ far"), data, mechanism)
    >>> result.parameters
    ('bus:Intercept', 'bus:far', 'car:Intercept', 'car:far')
    """
    return Multinomial(formula)


@dataclass(frozen=True)
class MultinomialFunction:
    """U = (indicator(y) − p(x)) ⊗ x."""

    variables: tuple[str, ...]
    classes: Classes
    design: Design
    response: str | None = None
    smooth: bool = True

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(f"{label}:{name}" for label in self._labels for name in self.design.names)

    @property
    def _labels(self) -> tuple[str, ...]:
        return tuple(str(level) for level in self.classes.levels[1:])

    def response_values(self, values: Any) -> Float:
        raise NotImplementedError("classes are summed out by the equation")

    def equation(self, records: Records) -> MultinomialEquation:
        """Nodes that differ in the response alone share a row of the design."""
        places, settings = _covariate_nodes(records, self.classes.column)
        parts = [self.design({**records.columns, **setting}, records.n) for setting in settings]
        design = np.stack(parts, axis=1).reshape(-1, len(self.design.names))
        refuse_collinear([design], self.design.names)

        def spread(under: Records) -> tuple[Float, Float]:
            return _reverted(under, self.classes, places, len(settings))

        indicators, mass = spread(records)
        clean = len(settings) == 1
        return MultinomialEquation(
            self.design.names, design, indicators, records, self._labels, None if clean else mass, spread
        )


def _covariate_nodes(records: Records, response: str) -> tuple[Int, list[Mapping[str, object]]]:
    """For every node, its place among the settings of the covariates, and those settings."""
    settings: list[Mapping[str, object]] = []
    seen: dict[tuple[object, ...], int] = {}
    places = np.empty(len(records.nodes), dtype=np.int64)
    for k, node in enumerate(records.nodes):
        setting = {name: value for name, value in node.items() if name != response}
        key = tuple(id(v) if isinstance(v, np.ndarray) else v for v in setting.values())
        if key not in seen:
            seen[key] = len(settings)
            settings.append(setting)
        places[k] = seen[key]
    return places, settings


def _reverted(records: Records, classes: Classes, places: Int, size: int) -> tuple[Float, Float]:
    """Reverted indicators (n·size, K) and masses (n·size,)."""
    out = np.zeros((records.n, size, len(classes.levels)))
    rows = np.arange(records.n)
    for k, weight in enumerate(records.weights.T):
        value = records.nodes[k].get(classes.column)
        if value is None or isinstance(value, np.ndarray):
            np.add.at(out, (rows, places[k], classes.codes(records.at(k), records.n)), weight)
        else:
            out[:, places[k], classes.levels.index(value)] += weight
    flat = out.reshape(-1, len(classes.levels))
    return flat, flat.sum(axis=1)
