"""How additive noise is undone in a function: by nodes that are exact in polynomials, in closed form, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from pramana.errors import FormulaError, listing, quoted_terms
from pramana.estimating import Equation, EstimatingFunction, GeneralizedLinear, Records
from pramana.estimating.cells import Factor
from pramana.estimating.distribution import DistributionFunction
from pramana.estimating.function import CallableFunction
from pramana.estimating.kept import KeptFunction
from pramana.estimating.noisy import NoisyLinear, NoisyRecords
from pramana.estimating.noisy_functions import NoisyFunction
from pramana.frames import Table
from pramana.kernels.additive import HIGHEST, Displacement
from pramana.kernels.predictor import IDENTITY, LOGIT, POWER
from pramana.mechanism import Assignment, Mechanism, Nodes

BOUNDED = (("gaussian", "identity"), ("binomial", "logit"), ("binomial", "probit"), ("negative-binomial", "log"))
"""Families whose scores grow no faster than a polynomial, so that their averages over heavy-tailed noise exist."""


def undone(function: EstimatingFunction, assignment: Assignment, table: Table) -> Nodes:
    """The nodes of a channel for a function: fewer, and for every noise, where the function is a polynomial."""
    channel = assignment.channel
    encoded, context = assignment.encoded(table), assignment.context(table)
    if channel.levels is not None:
        return channel.revert(encoded, context)
    if isinstance(function, DistributionFunction) and function.levels is not None and channel.lattice is not None:
        return _on_levels(function.levels, channel.lattice[0], assignment, table)
    own = [function.degree(name) for name in assignment.columns]
    degree = None if None in own else sum(power for power in own if power is not None)
    if degree is not None and 2 * degree > HIGHEST and isinstance(function, CallableFunction):
        raise FormulaError(
            f"the function is of degree {degree} in {listing(assignment.columns)} ({_kind(assignment)}), and noise is undone up to degree {HIGHEST // 2}: "
            "leave out the higher powers, or leave the column out of degree="
        )
    if degree is not None and 2 * degree > HIGHEST:
        raise FormulaError(
            f"the terms in {listing(assignment.columns)} ({_kind(assignment)}) are of degree {degree // 2}, and noise is undone up to degree {HIGHEST // 4}: "
            "leave out the higher powers"
        )
    if degree is not None:
        return channel.revert_polynomial(encoded, context, 2 * degree)  # of the function, and of its square
    _refuse_rough(function, assignment)
    if _grows_as_a_square(function, assignment):
        return channel.revert_bounded(encoded, context)
    if not channel.bounded:
        _refuse_growing(function, assignment)
    return channel.revert(encoded, context)


def _on_levels(levels: Factor, step: float, assignment: Assignment, table: Table) -> Nodes:
    """Numbers on a grid as a transition matrix would undo them: candidate values that all records share, and a row for each released value of a
    stratum."""
    pairs = np.column_stack([np.asarray(assignment.encoded(table), dtype=float), assignment.strata(table)])
    distinct, first, row = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    context = {name: column[first] for name, column in assignment.context(table).items()}
    nodes = assignment.channel.revert_lattice(distinct[:, 0], context)
    lowest, count = float(str(levels.levels[0])), np.arange(len(distinct))
    weights = np.zeros((len(distinct), len(levels.levels)))
    for value, mass in zip(nodes.values, nodes.weights.T, strict=True):
        weights[count, np.rint((np.asarray(value) - lowest) / step).astype(np.int64)] += mass
    released = np.rint((distinct[:, 0] - lowest) / step).astype(np.int64)
    return Nodes(levels.levels, weights, row.ravel(), released)


def _grows_as_a_square(function: EstimatingFunction, assignment: Assignment) -> bool:
    """A logit with terms that are linear in the columns: so does the square of its score."""
    if not isinstance(function, GeneralizedLinear) or function.family.curve.code != LOGIT:
        return False
    return all(function.degrees.get(name) == 1 for name in assignment.columns)


Closed: TypeAlias = Mapping[tuple[str, ...], Displacement]
"""Noisy columns that need no nodes, by channel, and what undoes their noise."""


def closed_form(function: EstimatingFunction, mechanism: Mechanism | None, table: Table) -> Closed:
    """The columns that a linear model, a logit or a log link with V(μ) = μ^p reads linearly, or of which a user's own function has what it takes."""
    if isinstance(function, CallableFunction) and mechanism is not None:
        return _of_own(function, mechanism, table)
    if isinstance(function, DistributionFunction) and mechanism is not None:
        return _of_distribution(function, mechanism, table)
    if not isinstance(function, GeneralizedLinear) or mechanism is None or function.parts is None:
        return {}
    if function.family.curve.code not in (IDENTITY, LOGIT, POWER):
        return {}
    found: dict[tuple[str, ...], Displacement] = {}
    for assignment in mechanism.used_by(function.variables):
        displaced = assignment.channel.noise(assignment.context(table))
        if displaced is not None and _linear(function, assignment.columns, displaced):
            assignment.channel.check_released(assignment.encoded(table), assignment.context(table))
            found[assignment.columns] = displaced
    if function.family.curve.code == LOGIT:
        found = _one_shifting(found)
    every = {name for columns in found for name in columns}
    mixed = {name for names in function.reads if len(names & every) > 1 for name in names}
    return {columns: displaced for columns, displaced in found.items() if not mixed.intersection(columns)}


def _of_own(function: CallableFunction, mechanism: Mechanism, table: Table) -> Closed:
    """Laplace noise in columns with a second derivative, and normal noise in those that may be complex numbers."""
    found: dict[tuple[str, ...], Displacement] = {}
    for assignment in mechanism.used_by(function.variables):
        displaced = assignment.channel.noise(assignment.context(table))
        if displaced is None or any(function.degree(name) is not None for name in assignment.columns):
            continue
        normal = all(np.any(o.variance) for o in displaced.operators)
        laplace = not normal and all(o.differential for o in displaced.operators)
        known = function.twice_differentiated if laplace else function.entire.__contains__
        if (normal or laplace) and all(known(name) for name in assignment.columns):
            assignment.channel.check_released(assignment.encoded(table), assignment.context(table))
            found[assignment.columns] = displaced
    return found


def _of_distribution(function: DistributionFunction, mechanism: Mechanism, table: Table) -> Closed:
    """The column itself, where some of its numbers were kept."""
    for assignment in mechanism.used_by((function.column,)):
        displaced = assignment.channel.noise(assignment.context(table))
        if displaced is not None and all(o.mixture is not None for o in displaced.operators):
            assignment.channel.check_released(assignment.encoded(table), assignment.context(table))
            return {assignment.columns: displaced}
    return {}


def _linear(function: GeneralizedLinear, columns: tuple[str, ...], displaced: Displacement) -> bool:
    """Terms are linear in the columns, and nothing else reads them."""
    elsewhere = function.offset_reads | (function.response_reads or frozenset())
    known = function.family.curve.code != LOGIT or all(o.differential or o.shifts for o in displaced.operators)
    return known and all(function.degrees.get(name) == 1 for name in columns) and not elsewhere.intersection(columns)


def _one_shifting(found: Mapping[tuple[str, ...], Displacement]) -> dict[tuple[str, ...], Displacement]:
    """With one alone of the columns whose noise a logit undoes by shifts, for two would be sums of sums: a uniform one first, which has no
    nodes either."""
    shifting = [columns for columns, displaced in found.items() if any(o.shifts for o in displaced.operators)]
    shifting.sort(key=lambda columns: found[columns].operators[0].by_nodes)
    return {columns: displaced for columns, displaced in found.items() if columns not in shifting[1:]}


def with_noise(records: Records, closed: Closed) -> Records:
    """Records in which the columns with a closed form are as released, with what undoes their noise."""
    if not closed:
        return records
    columns = tuple(name for own in closed for name in own)
    return NoisyRecords.of(records, columns, Displacement.together(list(closed.values())))


def equation_of(function: EstimatingFunction, records: Records) -> Equation:
    """The equation of records, in closed form where they hold noise."""
    if not isinstance(records, NoisyRecords):
        return function.equation(records)
    if isinstance(function, CallableFunction):
        return NoisyFunction.of(function, records)
    if isinstance(function, DistributionFunction):
        return KeptFunction.of(function).equation(records)
    assert isinstance(function, GeneralizedLinear)
    return NoisyLinear.of(function, records)


def _refuse_rough(function: EstimatingFunction, assignment: Assignment) -> None:
    """A step function of a column with Laplace or Gaussian noise cannot be estimated at the usual rate."""
    if (function.smooth and not function.rough) or not assignment.channel.smooth_only:
        return
    name, kind = assignment.columns[0], _kind(assignment)
    raise FormulaError(
        f"{quoted_terms(function.parameters[:3])} is not a smooth function of {name!r}, whose noise ({kind}) can be undone in smooth ones "
        f"alone: ask for mean({name!r}) or a regression, or have the column released on a grid, clamped, as the matrix of "
        "GeometricNoise(..., bounds=...).clamped()"
    )


def _refuse_growing(function: EstimatingFunction, assignment: Assignment) -> None:
    """e^{βz²} has no average over heavy tails, and other curves grow as fast as e^{βz}."""
    if function.grows and assignment.columns[0] != function.response:
        raise FormulaError(
            f"{quoted_terms(function.parameters[:3])} needs averages of exponentials of {assignment.columns[0]!r} ({_kind(assignment)}), which exist "
            "for small coefficients alone, and that is not checked here: fit the regression itself, or use a covariate without noise"
        )
    if not isinstance(function, GeneralizedLinear) or assignment.columns == (function.response,):
        return
    family = function.family
    if (family.name, family.link) in BOUNDED:
        return
    name, degree = assignment.columns[0], function.degrees.get(assignment.columns[0])
    if name in function.offset_reads:
        raise FormulaError(
            f"the offset reads {name!r} ({_kind(assignment)}), and with family {family.name!r} and link {family.link!r} noise is undone in terms alone: "
            f"make {name!r} a term, whose coefficient is then estimated, or use an offset without noise"
        )
    what = f"terms of degree {degree}" if degree is not None and degree > 1 else "such terms"
    raise FormulaError(
        f"family {family.name!r} with link {family.link!r} and {what} in {name!r} ({_kind(assignment)}): its score has no average over the "
        "noise that could be undone; use terms that are linear in the column with families 'poisson', 'gamma' or 'inverse-gaussian', or "
        "family 'gaussian', or 'binomial' with link 'logit' or 'probit'"
    )


def _kind(assignment: Assignment) -> str:
    return next(iter(assignment.channel.parts.values())).title
