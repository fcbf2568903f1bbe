"""The model-dependent estimators of Section 4: U averaged over a fitted p(z | z*, x)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pramana.analysis.task import Inference
from pramana.arrays import Column, Columns, Float, Int
from pramana.engines import LocalEngine
from pramana.errors import MechanismError, PramanaError, SolveError, suggestion
from pramana.estimating import FAMILIES, Equation, EstimatingFunction, GeneralizedLinear, Records
from pramana.estimating.products import ProductDesign
from pramana.estimators.made import MadeRecords
from pramana.estimators.method import Binding, EquationMethod
from pramana.estimators.reversion import reverted_records
from pramana.frames import Table
from pramana.inference import Resampling, Sandwich, solve
from pramana.inference.many import DataSets
from pramana.kernels.blocks import runs
from pramana.mechanism import Assignment, Mechanism
from pramana.models.multinomial import MultinomialEquation


@dataclass(frozen=True)
class ModelDependent(EquationMethod):
    """Fit p(z* | x) by maximum likelihood, turn it into p(z | x) with P⁻¹, then p(z | z*, x) by Bayes' rule.

    The nuisance_regressors are the function's other variables, each with its main effect. Model 1 of the paper is the default;
    Model 2 is `intercept=False` in the simulations and `link="probit"` in the application. Its standard errors come
    from `Resampling`, which fits the nuisance model again in every draw.

    Parameters
    ----------
    clip : cut p(z | x) to [0, 1] before Bayes' rule; smaller variance at the price of a bias that stays.
    """

    link: Literal["logit", "probit"] = "logit"
    intercept: bool = True
    clip: bool = False

    def __post_init__(self) -> None:
        if self.link not in ("logit", "probit"):
            raise PramanaError(
                f"link {self.link!r} of ModelDependent is unknown: {suggestion(self.link, ['logit', 'probit'])}"
            )

    @property
    def label(self) -> str:
        parts = ["" if self.intercept else "no intercept", "clipped" if self.clip else ""]
        extra = "".join(f", {p}" for p in parts if p)
        return f"model-dependent ({self.link}{extra})"

    def bind(self, function: EstimatingFunction, mechanism: Mechanism | None, table: Table, weights: Float) -> Binding:
        equation, nuisance = nuisance_of(self, function, mechanism, table)

        def rebind(row_weights: Float) -> Equation:
            return equation.under(equation.records.reweighted(nuisance.posterior(row_weights)))

        return Binding(rebind(weights), rebind)

    def suited(self, inference: Inference | None) -> Inference | None:
        """A nuisance fit has no sandwich."""
        return Resampling() if isinstance(inference, Sandwich) else inference

    def bind_each(
        self,
        function: EstimatingFunction,
        mechanism: Mechanism | None,
        table: Table,
        groups: int,
        device: str = "cpu",
    ) -> Equation:
        equation, nuisance = nuisance_of(self, function, mechanism, table)
        if len(nuisance.reversion) != 2:
            raise PramanaError("simulate fits the model-dependent estimator for two released levels only")
        each = DataSets(nuisance.equation, groups, device)
        mu = each.means(each.solve(np.zeros(nuisance.equation.d)))[:, 0]
        fitted = np.stack([1 - mu, mu]).T
        return equation.under(equation.records.reweighted(nuisance.posterior_from(fitted)))

    def bind_made(self, made: MadeRecords) -> Any | None:
        """The nuisance fitted to each data set, and Bayes' rule, on the device; where no fit was found there, NaN lets `MadeDataSets` look again
        on the CPU."""
        if self.link != "logit" or made.levels != 2:
            return None
        nuisance = made.regression(self.intercept)
        alpha, found = nuisance.roots(np.zeros(nuisance.layout.d))
        chances = nuisance.fitted(np.where(found[:, None], alpha, np.nan))[..., 0]
        return made.spread(made.data.posterior(chances, made.matrix, made.inverse, clip=self.clip))


def nuisance_of(
    options: ModelDependent, function: EstimatingFunction, mechanism: Mechanism | None, table: Table
) -> tuple[Equation, Nuisance]:
    """The equation over all nodes, and the regression that will weigh them."""
    used = mechanism.used_by(function.variables) if mechanism is not None else []
    if not used:
        raise MechanismError("the model-dependent estimator needs a perturbed column in the formula: there is none")
    records = reverted_records(function, mechanism, table, collapse=False)
    nuisance = Nuisance.of(options, records, used, table, function.variables)
    return function.equation(records), nuisance


@dataclass(frozen=True)
class Nuisance:
    """The regression of the released combination of levels on the other variables."""

    options: ModelDependent
    equation: Equation
    likelihood: Float
    reversion: tuple[Float, ...]

    @classmethod
    def of(
        cls, options: ModelDependent, records: Records, used: list[Assignment], table: Table, variables: tuple[str, ...]
    ) -> Nuisance:
        for assignment in used:
            _refuse_unsupported(assignment, variables)
        design, names = nuisance_regressors(records.columns, options.intercept, table.n)
        size = len(records.nodes)
        released = records.released[records.row]
        equation = _regression(options, design, names, released, size, records)
        contexts = [a.context(table) for a in used]
        encoded = [a.encoded(table) for a in used]
        likelihood = _product([a.channel.likelihood(e, c) for a, e, c in zip(used, encoded, contexts, strict=True)])
        reversion = tuple(reversion_at(used, contexts, k, table.n) for k in range(size))
        return cls(options, equation, likelihood, reversion)

    def posterior(self, weights: Float) -> Float:
        """p(z | z*, x) for every node (n, C); it can leave [0, 1] when not clipped."""
        try:
            alpha = solve(LocalEngine.of(self.equation, weights=weights)).beta
        except SolveError as error:
            raise SolveError(f"the model of the released variable could not be fitted: {error.marked}") from None
        return self.posterior_from(self.probabilities(alpha, self.equation))

    @staticmethod
    def probabilities(alpha: Float, equation: Any) -> Float:
        """Fitted probabilities of the released combinations (n, C)."""
        if isinstance(equation, MultinomialEquation):
            return equation.probabilities(alpha)
        mu = equation.data.curve(equation.data.eta(alpha[None])[0])[0][:, 0]
        return np.stack([1 - mu, mu]).T

    def posterior_from(self, fitted: Float) -> Float:
        """P⁻¹ on the fitted probabilities, then Bayes' rule."""
        out = np.empty(self.likelihood.shape)
        for rows in runs(len(out)):  # which stay in the cache, one node after the other
            truth = sum(fitted[rows, k] * reversion[rows].T for k, reversion in enumerate(self.reversion))
            if self.options.clip:
                truth = np.clip(truth, 1e-12, 1.0)  # never exactly 0, so that every released value stays possible
            joint = self.likelihood[rows].T * truth
            out[rows] = (joint / joint.sum(axis=0)).T
        return out


def _refuse_unsupported(assignment: Assignment, variables: tuple[str, ...]) -> None:
    assignment.refuse_reports("the model-dependent estimator has a model of the released levels")
    if assignment.channel.levels is None:
        raise MechanismError(
            f"the model-dependent estimator needs levels, and {assignment.columns} have a continuous channel"
        )
    unused = [c for c in assignment.columns if c not in variables]
    if unused:
        raise MechanismError(
            f"the model-dependent estimator needs every column of a joint channel in the formula; {unused[0]!r} is not in it"
        )


def _product(parts: list[Float]) -> Float:
    out = parts[0]
    for part in parts[1:]:
        out = (out[:, :, None] * part[:, None, :]).reshape(len(out), -1)
    return out


def reversion_at(used: list[Assignment], contexts: list[Columns], node: int, n: int) -> Float:
    """Columns of Q for one released combination, as rows (n, C); they vary between rows only by stratum."""
    sizes = [len(a.channel.levels or ()) for a in used]
    codes = np.unravel_index(node, sizes)
    parts = []
    for assignment, context, code in zip(used, contexts, codes, strict=True):
        rows = n if assignment.channel.context else 1
        parts.append(assignment.channel.revert(np.full(rows, code), context).weights)
    return _product([p if len(p) == n else np.broadcast_to(p, (n, p.shape[1])) for p in parts])


def nuisance_regressors(
    columns: Columns, intercept: bool, n: int, known: Mapping[str, Sequence[Any]] | None = None
) -> tuple[Float, tuple[str, ...]]:
    """Numbers as they are, text as indicators without the first level; `known` are the levels of text that is in blocks."""
    parts: list[tuple[str, Any]] = [("Intercept", np.ones(n))] if intercept else []
    for name, values in columns.items():
        levels = _levels(values) if known is None else known.get(name)
        parts += [(name, values.astype(float))] if levels is None else _indicators(name, values, levels)
    if not parts:
        raise PramanaError("the model-dependent estimator without intercept needs at least one unperturbed variable")
    return np.column_stack([v for _, v in parts]), tuple(k for k, _ in parts)


def _levels(values: Column) -> list[Any] | None:
    """In their order; None for numbers."""
    return None if values.dtype.kind in "iufb" else sorted(set(values.tolist()), key=str)


def _indicators(name: str, values: Column, levels: Sequence[Any]) -> list[tuple[str, Float]]:
    return [(f"{name}[T.{level}]", (values == level).astype(float)) for level in levels[1:]]


def _regression(
    options: ModelDependent, design: Float, names: tuple[str, ...], released: Int, size: int, records: Records
) -> Equation:
    if options.link == "logit" and size > 2:
        clean = Records.clean(records.n, {})
        return MultinomialEquation(names, design, np.eye(size)[released], clean)
    if size != 2:
        raise PramanaError(f"link 'probit' needs two released levels, not {size}: use link='logit' (multinomial)")
    function = GeneralizedLinear(names, (), FAMILIES["binomial", options.link], _at_hand, _at_hand)
    return function.bound(Records.clean(records.n, {}), ProductDesign.given(design), released[None].astype(float))


def _at_hand(columns: Mapping[str, object], n: int) -> Float:
    raise NotImplementedError("design and response of a nuisance model are given as arrays")
