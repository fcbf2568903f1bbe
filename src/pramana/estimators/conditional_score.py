"""The conditional score of Stefanski and Carroll (1987, Biometrika 74, 703-716): a logit on numbers with normal noise of any size.

With w = x + V, V normal with covariance Σ, and slopes b of the linear predictor, δ = w + yΣb holds all that the record tells of x, and
Pr(y = 1 | δ) = H(η(δ) − bᵀΣb/2) whatever x is. So (y − H) times the design at δ has mean zero, if the logit is true.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pramana.arrays import Float
from pramana.errors import FormulaError
from pramana.estimating import EstimatingFunction, GeneralizedLinear
from pramana.estimating.equation import About, Equation, FirstStage, Note
from pramana.estimating.noisy import NoisyLinear, NoisyRecords, crossed
from pramana.estimators.method import Binding, EquationMethod
from pramana.estimators.noise import closed_form
from pramana.estimators.reversion import reverted_records
from pramana.frames import Table
from pramana.kernels.logistic import logistic_derivatives
from pramana.kernels.predictor import LOGIT
from pramana.mechanism import Mechanism


@dataclass(frozen=True)
class ConditionalEquation(Equation):
    """(W − S) U(0) + S U(1), with the reverted weights W and moments S of the response, and U of either outcome.

    With s = bᵀΣb and m = ∂s/∂β / 2, by which the design moves from w to δ where y = 1: U(0) = −H(η − s/2) x and
    U(1) = (1 − H(η + s/2)) (x + m).
    """

    noisy: NoisyLinear

    @property
    def records(self) -> NoisyRecords:
        return self.noisy.records

    @property
    def about(self) -> About:
        return self.noisy.about

    def rows(self, rows: slice) -> ConditionalEquation:
        return ConditionalEquation(self.noisy.rows(rows))

    def under(self, records: Any) -> ConditionalEquation:
        return ConditionalEquation(self.noisy.under(records))

    @property
    def first(self) -> FirstStage | None:
        return self.noisy.first

    def start(self, weights: Float) -> Float:
        return self.noisy.start(weights)

    def remarks(self, beta: Float, weights: Float, covariance: Float, squares: Float) -> list[Note]:
        return self.noisy.remarks(beta, weights, covariance, squares)

    def _moved(self, beta: Float) -> tuple[Float, Float, Float]:
        """η (N,), s (N,) and m (N, d)."""
        noisy = self.noisy
        eta = noisy.naive.data.eta(beta[None])[0].ravel()
        s, m = np.zeros(eta.size), np.zeros((eta.size, self.d))
        for tilt, own, variance in zip(noisy.tilts, noisy.columns, self._variances, strict=True):
            c = tilt @ beta[own]
            s += variance * c**2
            m[:, own] += (variance * c)[:, None] * tilt
        return eta, s, m

    @property
    def _variances(self) -> list[Any]:
        """Of the noise along each direction, a number or by record and node, as far as it is undone."""
        return [self.records.share * operator.variance for operator in self.noisy.operators]

    @property
    def _outcomes(self) -> tuple[Float, Float]:
        """Signed weights (N,) of y = 0 and y = 1."""
        first = self.noisy.naive.data.first.ravel()
        return self.noisy.weight - first, first

    def influence(self, beta: Float) -> Float:
        with np.errstate(all="ignore"):
            eta, s, m = self._moved(beta)
            (none, one), x = self._outcomes, self.noisy.naive.data.design
            low, high = logistic_derivatives(eta - s / 2, 0)[0], logistic_derivatives(eta + s / 2, 0)[0]
            ahead = one * (1 - high)
            out = (ahead - none * low)[:, None] * x + ahead[:, None] * m
            return np.asarray(out.reshape(self.n, -1, self.d).sum(axis=1))

    def slope(self, beta: Float, weights: Float) -> Float:
        with np.errstate(all="ignore"):
            eta, s, m = self._moved(beta)
            (none, one), x = self._outcomes, self.noisy.naive.data.design
            w = np.repeat(weights, len(self.records.nodes))
            low = logistic_derivatives(eta - s / 2, 1)[1]
            high, steep = logistic_derivatives(eta + s / 2, 1)
            out = -(x * (w * none * low)[:, None]).T @ (x - m)
            out -= ((x + m) * (w * one * steep)[:, None]).T @ (x + m)
            for tilt, own, variance in zip(self.noisy.tilts, self.noisy.columns, self._variances, strict=True):
                out[np.ix_(own, own)] += crossed(tilt, w * one * (1 - high) * variance, tilt)
            return np.asarray(out)


@dataclass(frozen=True)
class ConditionalScore(EquationMethod):
    """Logistic regression on columns with normal noise, however large, if the logit is true.

    Reversion needs sd · |b| below 1.25 and no such assumption. Other perturbed columns are undone as there.

    >>> import numpy as np, pramana as pr
    >>> rng = np.random.default_rng(1)
    >>> x = rng.normal(size=20_000)
    >>> y = (rng.random(20_000) < 1 / (1 + np.exp(-1.2 * x))).astype(int)
    >>> mechanism, noisy = pr.Mechanism({"x": pr.GaussianNoise(0.8)}), {"y": y, "x": x + 0.8 * rng.normal(size=20_000)}
    >>> pr.fit("y ~ x", noisy, mechanism, family="binomial", method="conditional-score").estimate.round(2)
    array([0.02, 1.16])
    >>> pr.fit("y ~ x", noisy, mechanism, family="binomial", method="naive").estimate.round(2)
    array([0.01, 0.64])
    """

    label: str = "conditional score"

    def bind(
        self,
        function: EstimatingFunction,
        mechanism: Mechanism | None,
        table: Table,
        weights: Float,  # noqa: ARG002 - no nuisance fit
    ) -> Binding:
        if not isinstance(function, GeneralizedLinear) or function.family.curve.code != LOGIT:
            raise FormulaError("the conditional score is for family 'binomial' with a logit: use method='reversion'")
        closed = closed_form(function, mechanism, table)
        operators = [o for displaced in closed.values() for o in displaced.operators]
        strange = [name for name in _noisy(function, mechanism) if not any(name in columns for columns in closed)]
        if not closed or strange or not all(np.all(o.variance) and not np.any(o.coarseness) for o in operators):
            raise FormulaError(
                "the conditional score is for covariates with GaussianNoise or JointGaussianNoise in terms that are linear in them, and no other "
                "noise: use method='reversion'"
            )
        records = reverted_records(function, mechanism, table, closed=closed)
        assert isinstance(records, NoisyRecords)
        noisy = NoisyLinear.of(function, records)
        y = np.unique(noisy.naive.data.first.ravel() / noisy.weight) if records.response is None else np.zeros(1)
        if not np.all(np.isin(y, (0, 1))):
            raise FormulaError("the conditional score needs a response of 0 and 1: use method='reversion'")
        return Binding(ConditionalEquation(noisy), facts={"Assumes": "that the logit is true"})


def _noisy(function: GeneralizedLinear, mechanism: Mechanism | None) -> list[str]:
    used = [] if mechanism is None else mechanism.used_by(function.variables)
    return [name for a in used if a.channel.levels is None for name in a.columns]
