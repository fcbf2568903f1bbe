"""Label-noise corrections of a classifier's loss (Patrini et al. 2017), as estimating equations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pramana.arrays import Float
from pramana.errors import FormulaError, MechanismError
from pramana.estimating import EstimatingFunction, Family, GeneralizedLinear, Records
from pramana.estimating.equation import About, Equation
from pramana.estimators.method import Binding, EquationMethod
from pramana.estimators.reversion import Reversion
from pramana.frames import Table
from pramana.kernels.predictor import Curve, CurveValues
from pramana.mechanism import Mechanism, TransitionMatrix
from pramana.models.multinomial import MultinomialFunction, by_class


@dataclass(frozen=True)
class ForwardClasses(Equation):
    """U = (r(y*, x) − p(x)) ⊗ x, r the probabilities of the classes after the released one was seen.

    Attributes
    ----------
    design : (n, q).
    channel : Pr(released class | class), (n, K); the first class is the reference.
    """

    parameters: tuple[str, ...]
    design: Float
    channel: Float
    records: Records

    @property
    def about(self) -> About:
        return About(self.parameters)

    def rows(self, rows: slice) -> ForwardClasses:
        return ForwardClasses(self.parameters, self.design[rows], self.channel[rows], self.records.rows(rows))

    def under(self, records: Records) -> ForwardClasses:  # noqa: ARG002 - there is no noise to continue in
        return self

    def _probabilities(self, beta: Float) -> tuple[Float, Float]:
        """p and r of the classes after the first, (n, K − 1)."""
        eta = self.design @ beta.reshape(self.channel.shape[1] - 1, -1).T
        eta = np.column_stack([np.zeros(self.n), eta])
        with np.errstate(all="ignore"):
            grown = np.exp(eta - eta.max(axis=1, keepdims=True))
            before = grown / grown.sum(axis=1, keepdims=True)
            joint = self.channel * before
            after = joint / joint.sum(axis=1, keepdims=True)
        return before[:, 1:], after[:, 1:]

    def influence(self, beta: Float) -> Float:
        before, after = self._probabilities(beta)
        return np.asarray(((after - before)[:, :, None] * self.design[:, None, :]).reshape(self.n, -1))

    def slope(self, beta: Float, weights: Float) -> Float:
        """Σ w {(diag r − r rᵀ) − (diag p − p pᵀ)} ⊗ x xᵀ."""
        p, r = (part.T for part in self._probabilities(beta))
        return by_class(
            self.design,
            len(p),
            lambda j, k: weights * ((r[j] - p[j] if j == k else 0.0) - r[j] * r[k] + p[j] * p[k]),
        )

    def record_slopes_along(self, beta: Float, lefts: Float, rights: Float) -> Float:
        before, after = self._probabilities(beta)
        out = np.empty((len(lefts), self.n))
        for row, left, right in zip(out, lefts, rights, strict=True):
            a, b = (self.design @ v.reshape(before.shape[1], -1).T for v in (left, right))
            row[:] = _covariance(a, b, after) - _covariance(a, b, before)
        return out


def _covariance(a: Float, b: Float, p: Float) -> Float:
    """Of values a and b (n, K − 1) of the classes after the first, 0 in the first, under probabilities p (n, K − 1)."""
    return np.asarray(np.sum(a * b * p, axis=1) - np.sum(a * p, axis=1) * np.sum(b * p, axis=1))


def forward_classes(function: MultinomialFunction, mechanism: Mechanism | None, table: Table) -> ForwardClasses:
    """Bind to a table whose response alone is perturbed."""
    used = mechanism.used_by(function.variables) if mechanism is not None else []
    name = function.classes.column
    if len(used) != 1 or used[0].columns != (name,) or used[0].channel.levels is None:
        raise MechanismError(
            f"the forward correction is for noise in the response {name!r} alone: use method='reversion'"
        )
    columns = {v: table.column(v) for v in function.variables}
    channel = used[0].channel.likelihood(used[0].encoded(table), used[0].context(table))
    design = function.design({k: v for k, v in columns.items() if k != name}, table.n)
    return ForwardClasses(function.parameters, design, channel, Records.clean(table.n, columns))


@dataclass(frozen=True)
class BackwardCorrection(Reversion):
    """The loss ℓ(y*, x) = Σ_y Q[y, y*] ℓ(y, x), Q = P⁻¹: unbiased, and for a logistic loss the reversion of its score.

    >>> import numpy as np, pramana as pr
    >>> P = pr.TransitionMatrix.binary(sensitivity=0.9, specificity=0.8)
    >>> data = {"y": np.repeat([0, 1, 0, 1], [300, 200, 150, 350]), "x": np.repeat([0, 1], 500)}
    >>> pr.fit("y ~ x", data, pr.Mechanism({"y": P}), family="binomial", method="backward").estimate.round(4)
    array([-0.9163,  1.8326])
    """

    label: str = "backward correction"


@dataclass(frozen=True)
class ForwardCorrection(EquationMethod):
    """The loss −log Σ_y P[y*, y] p_y(x): the classifier's probabilities pass through P before they meet the labels.

    For a binary response it is a generalised linear model whose link is composed with P, and the likelihood of that
    response; for `multinomial(formula)` the same with K classes. Standard errors come from the sandwich.

    >>> import numpy as np, pramana as pr
    >>> P = pr.TransitionMatrix.binary(sensitivity=0.9, specificity=0.8)
    >>> data = {"y": np.repeat([0, 1, 0, 1], [300, 200, 150, 350]), "x": np.repeat([0, 1], 500)}
    >>> pr.fit("y ~ x", data, pr.Mechanism({"y": P}), family="binomial", method="forward").estimate.round(4)
    array([-0.9163,  1.8326])
    """

    label: str = "forward correction"

    @property
    def by_blocks(self) -> bool:
        return True

    def bind(
        self,
        function: EstimatingFunction,
        mechanism: Mechanism | None,
        table: Table,
        weights: Float,  # noqa: ARG002 - no nuisance fit
    ) -> Binding:
        if isinstance(function, MultinomialFunction):
            return Binding(forward_classes(function, mechanism, table))
        model, channel = _checked(function, mechanism)
        composed = replace(model, family=through(model.family, *_false_and_true(model, channel)))
        columns = {name: table.column(name) for name in model.variables}
        return Binding(composed.equation(Records.clean(table.n, columns)))


def through(family: Family, false: float, true: float) -> Family:
    """A binomial family observed through a channel: μ* = Pr(1 | 0) + (Pr(1 | 1) − Pr(1 | 0)) μ."""

    def link_of(mean: float) -> float:
        share = (mean - false) / (true - false)
        return family.link_of(min(max(share, 0.05), 0.95))

    curve = Curve(partial(_composed, family.curve, false, true))
    return replace(family, curve=curve, link_of=link_of, potential=None, recession=None)


def _composed(curve: Curve, false: float, true: float, eta: Float) -> CurveValues:
    """(μ*, μ*′, a*, a*′) from (μ, μ′, a, a′): μ″ follows from a = μ′/V."""
    mu, dmu, a, da = curve(eta)
    bend = da * mu * (1 - mu) + a * dmu * (1 - 2 * mu)
    seen, slope, second = false + (true - false) * mu, (true - false) * dmu, (true - false) * bend
    spread = seen * (1 - seen)
    force = slope / spread
    return seen, slope, force, second / spread - force**2 * (1 - 2 * seen)


def _checked(function: EstimatingFunction, mechanism: Mechanism | None) -> tuple[GeneralizedLinear, TransitionMatrix]:
    if not isinstance(function, GeneralizedLinear) or function.family.name != "binomial" or function.response is None:
        raise FormulaError(
            "this needs a formula with family='binomial' and a response of its own: use method='reversion', or "
            "method='likelihood' with fit"
        )
    used = mechanism.used_by(function.variables) if mechanism is not None else []
    if len(used) != 1 or used[0].columns != (function.response,):
        raise MechanismError(
            f"this corrects noise in the response {function.response!r} alone, and the formula's perturbed columns are "
            f"{', '.join(c for a in used for c in a.columns) or 'none'}: use method='likelihood' or 'reversion' with fit"
        )
    channel = used[0].channel
    if not isinstance(channel, TransitionMatrix) or len(channel) != 2:
        raise MechanismError("this needs one transition matrix over two levels: use method='likelihood' with fit")
    return function, channel


def _false_and_true(model: GeneralizedLinear, channel: TransitionMatrix) -> tuple[float, float]:
    """Pr(1 | 0) and Pr(1 | 1), whichever level comes first."""
    y = model.response_values(np.asarray(channel.levels, dtype=object if isinstance(channel.levels[0], str) else None))
    one, zero = int(np.argmax(y)), int(np.argmin(y))
    return float(channel.matrix[one, zero]), float(channel.matrix[one, one])
