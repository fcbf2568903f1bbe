"""Label-noise corrections of a classifier's loss (Patrini et al. 2017), as estimating equations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pramana.arrays import Float
from pramana.errors import FormulaError, MechanismError
from pramana.estimating import EstimatingFunction, Family, GeneralizedLinear, Records
from pramana.estimators.binding import Binding
from pramana.estimators.forward_classes import forward_classes
from pramana.estimators.reversion import Reversion
from pramana.formulas.multinomial import MultinomialFunction
from pramana.frames import Table
from pramana.kernels.predictor import Curve, Moments
from pramana.mechanism import Mechanism, TransitionMatrix


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
class ForwardCorrection:
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
    reverts: bool = False

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


def _composed(curve: Curve, false: float, true: float, eta: Float) -> Moments:
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
