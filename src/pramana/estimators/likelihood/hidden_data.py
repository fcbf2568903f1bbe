"""Records with hidden values: everything about them that does not depend on a parameter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

import numpy as np

from pramana.arrays import Columns, Float, Int
from pramana.errors import DataError, FormulaError, MechanismError
from pramana.estimating import EstimatingFunction, GeneralizedLinear
from pramana.estimating.collinearity import refuse_collinear
from pramana.estimating.densities import Density, density_of
from pramana.estimators.likelihood.covariate_model import RECORDS_PER_ENTRY
from pramana.formulas.response import Response
from pramana.frames import Table
from pramana.mechanism import Assignment, Mechanism
from pramana.numbers import count

NODE_LIMIT = 4e7
"""Largest number of design entries (records × combinations of covariate levels × coefficients)."""

NodeValues = Mapping[str, object]


@dataclass(frozen=True)
class HiddenData:
    """n records, each with C candidates (nodes) for its hidden values, of which M differ in the covariates.

    Attributes
    ----------
    design : (n, M, d), and offset (n, M) or None.
    place : (C,), the combination of covariates that a node has.
    responses : (n, C), the response at each node.
    channel : (n, C), Pr(released | node).
    combinations : the M combinations of hidden covariates; one empty one when no covariate is perturbed.
    clean : the unperturbed covariates, and the columns that the channels depend on.
    """

    function: GeneralizedLinear
    design: Float
    offset: Float | None
    place: Int
    responses: Float
    channel: Float
    combinations: tuple[NodeValues, ...]
    clean: Columns

    @property
    def n(self) -> int:
        return len(self.channel)

    @cached_property
    def density(self) -> Density:
        return density_of(self.function.family)

    @cached_property
    def log_channel(self) -> Float:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.channel))

    def at_nodes(self, values: Float) -> Float:
        """Values by combination of covariates (n, M) at the nodes: (n, C), or (n, 1) where they all agree."""
        return values if values.shape[1] == 1 else values[:, self.place]

    @property
    def hides_covariates(self) -> bool:
        return len(self.combinations) > 1


def hidden_data(
    function: EstimatingFunction,
    mechanism: Mechanism | None,
    table: Table,
    also: tuple[str, ...] = (),
    records: float | None = None,
) -> HiddenData:
    """Spread the records over the values that may lie behind the released ones.

    Parameters
    ----------
    also : perturbed columns outside the formula whose distribution is part of the likelihood.
    records : that the rows stand for, one each by default.
    """
    model, answers = checked_model(function)
    used, covariates = _hidden(model, answers, mechanism, also)
    perturbed = {c for a in used for c in a.columns}
    _refuse_perturbed_density(model, perturbed.intersection(answers))
    _refuse_too_many(table.n, table.n if records is None else records, used, covariates, len(model.parameters))
    nodes = joint_nodes(used)
    combinations, place = _distinct(nodes, covariates)
    observed = {v: table.column(v) for v in model.variables if v not in perturbed}
    designs = [model.design_of({**observed, **_padded(nodes, k)}, table.n) for k in combinations]
    offsets = [model.offset_of({**observed, **_padded(nodes, k)}, table.n) for k in combinations if model.offset_of]
    refuse_collinear(designs, model.parameters)
    contexts = {c: table.column(c) for a in used for c in a.channel.context}
    return HiddenData(
        function=model,
        design=np.stack(designs, axis=1),
        offset=np.stack(offsets, axis=1) if offsets else None,
        place=place,
        responses=_responses(model, observed, nodes, table.n, answers),
        channel=channel_probabilities(used, table),
        combinations=combinations,
        clean={k: v for k, v in {**observed, **contexts}.items() if k not in answers},
    )


def _hidden(
    model: GeneralizedLinear, answers: tuple[str, ...], mechanism: Mechanism | None, also: tuple[str, ...]
) -> tuple[list[Assignment], list[str]]:
    """The channels of a likelihood, and the perturbed covariates."""
    variables = (*model.variables, *also)
    used = mechanism.used_by(variables) if mechanism is not None else []
    for assignment in used:
        _refuse_unsupported(assignment, variables)
    perturbed = {c for a in used for c in a.columns}
    return used, [c for c in dict.fromkeys(variables) if c in perturbed and c not in answers]


def entries_of_record(function: EstimatingFunction, mechanism: Mechanism | None, also: tuple[str, ...] = ()) -> int:
    """Numbers that the largest array holds of every record."""
    model, answers = checked_model(function)
    combinations, nodes = _sizes(*_hidden(model, answers, mechanism, also))
    return max(combinations * len(model.parameters), nodes)


def _sizes(used: list[Assignment], names: list[str]) -> tuple[int, int]:
    """Combinations of the covariates' levels, and nodes."""
    combinations = prod(len({tuple(node[c] for c in names if c in node) for node in joint_nodes([a])}) for a in used)
    return combinations, prod(len(a.channel.levels or ()) for a in used)


def checked_model(function: EstimatingFunction) -> tuple[GeneralizedLinear, tuple[str, ...]]:
    """The generalised linear model behind a formula, and the columns of its response."""
    if not isinstance(function, GeneralizedLinear) or not isinstance(function.response_of, Response):
        raise FormulaError(
            "a likelihood needs a formula and a family, as in fit('y ~ x', ..., family='binomial', method='likelihood'); "
            "for multinomial(...) with a perturbed response use method='forward', the same by another name, and for shares and "
            "the ratios and correlations made of them table_em(), or crosstab() with method='likelihood'"
        )
    return function, function.response_of.variables


def joint_nodes(used: list[Assignment]) -> tuple[NodeValues, ...]:
    """Every combination of levels of the channels, the last one running fastest."""
    parts: list[list[NodeValues]] = []
    for assignment in used:
        names, levels = assignment.columns, assignment.channel.levels or ()
        parts.append([{names[0]: v} if len(names) == 1 else dict(zip(names, v, strict=True)) for v in levels])  # type: ignore[call-overload]
    return tuple({k: v for part in combination for k, v in part.items()} for combination in product(*parts))


def channel_probabilities(used: list[Assignment], table: Table) -> Float:
    """Pr(released | node), (n, C)."""
    out = np.ones((table.n, 1))
    for assignment in used:
        part = assignment.channel.likelihood(assignment.encoded(table), assignment.context(table))
        out = (out[:, :, None] * part[:, None, :]).reshape(table.n, -1)
    return out


def _distinct(nodes: tuple[NodeValues, ...], names: list[str]) -> tuple[tuple[NodeValues, ...], Int]:
    keys = [tuple(node[name] for name in names) for node in nodes]
    places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    combinations = tuple(dict(zip(names, key, strict=True)) for key in places)
    return combinations, np.array([places[key] for key in keys])


def _padded(nodes: tuple[NodeValues, ...], combination: NodeValues) -> NodeValues:
    """A combination of covariates with some value for the other hidden columns, which the design does not use."""
    return {**nodes[0], **combination}


def _responses(
    model: GeneralizedLinear, observed: Columns, nodes: tuple[NodeValues, ...], n: int, names: object
) -> Float:
    hidden = any(name in nodes[0] for name in names)  # type: ignore[attr-defined]
    at = [model.response_of({**observed, **node}, n) for node in (nodes if hidden else nodes[:1])]
    for y in at:
        model.family.check_response(y, model.label)
        if model.family.name == "binomial" and not np.all((y == 0) | (y == 1)):
            raise DataError(
                f"response {model.label!r} has values besides 0 and 1: the likelihood of shares is not known"
            )
    return np.stack(at, axis=1) if hidden else np.repeat(at[0][:, None], len(nodes), axis=1)


def _refuse_unsupported(assignment: Assignment, variables: tuple[str, ...]) -> None:
    names = " × ".join(assignment.columns)
    if assignment.channel.levels is None:
        raise MechanismError(f"a likelihood needs levels, and {names!r} has a continuous channel: use 'reversion'")
    unused = [c for c in assignment.columns if c not in variables]
    if unused:
        raise MechanismError(
            f"a likelihood needs every column of the joint channel {names!r} in the formula, and {unused[0]!r} is not in "
            "it: add it, or use method='reversion'"
        )


def _refuse_perturbed_density(model: GeneralizedLinear, answers: set[str]) -> None:
    if answers and not density_of(model.family).discrete:
        raise FormulaError(
            f"the response {sorted(answers)[0]!r} is perturbed between levels, but family {model.family.name!r} has a density "
            "over all numbers: use family='binomial' or 'poisson', or method='reversion'"
        )


def _refuse_too_many(n: int, records: float, used: list[Assignment], names: list[str], d: int) -> None:
    """Before anything is laid out by combination: a few columns more, and the list of them would not end."""
    combinations, nodes = _sizes(used, names)
    size = f"the perturbed covariates {', '.join(names)} have {combinations} combinations of levels"
    if n * max(combinations * d, nodes) > NODE_LIMIT:
        raise DataError(
            f"{size}: {n} records with {d} coefficients exceed the limit of {NODE_LIMIT:.0e} entries; merge levels, give the "
            "file with a smaller memory=, so that it is read in blocks, or use method='reversion'"
        )
    if RECORDS_PER_ENTRY * (combinations - 1) > records:
        raise DataError(
            f"{size}, too many for {count(records)} records (the limit is {RECORDS_PER_ENTRY} records a free probability): merge "
            "levels, or use method='reversion'"
        )
