"""The seam between records and inference: sums at given parameter values, under given weight draws."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Self, TypeAlias

from pramana.arrays import Float, Int
from pramana.engines.sampling import Sampling
from pramana.engines.totals import Totals
from pramana.errors import SolveError
from pramana.estimating.equation import About, Equation, Note
from pramana.kernels.leverage import Frame, Leverages, Units

Weights: TypeAlias = Any
"""An engine's own hold of the row weights of several draws. Whoever has it passes it on to the engine, and knows no more than
their number, `len(weights)`, one of them, `weights.draw(k)`, and their mean, `weights.average`."""

WEIGHT_ENTRIES = 4_000_000
"""Weights held at once (draws × rows): 32 MB."""


class Engine(ABC):
    """Whoever adds up sums over records. Only parameter values and sums travel.

    A new engine is a subclass in a file of its own, named in `ENGINES`. Its sums must not depend on how the records are
    divided, and a record's weight draw on nothing but the seed, the draw and the record's place.

    Attributes
    ----------
    equation : bound to the records.
    sampling : how they were sampled.
    """

    equation: Equation
    sampling: Sampling

    @abstractmethod
    def over(self, equation: Equation) -> Self:
        """The same records with another equation."""

    # Row weights: the sample's own, drawn ones, those that leave units out, published ones, given ones.

    @property
    @abstractmethod
    def own(self) -> Weights: ...

    @abstractmethod
    def drawn(self, law: str, seed: int, draws: Int) -> Weights: ...

    @abstractmethod
    def without(self, deleted: Int) -> Weights: ...

    @abstractmethod
    def replicated(self) -> Weights: ...

    # Sums.

    @abstractmethod
    def score(self, betas: Float, weights: Weights) -> Float:
        """Σ w φ (B, d); one draw serves several values."""

    @abstractmethod
    def score_and_slope(self, betas: Float, weights: Weights, draws: Int | None = None) -> tuple[Float, Float]:
        """Σ w φ (B, d) and Σ w ∂φ (B, d, d); `draws` names the draw of each value, one after the other by default.
        One value serves all draws."""

    @abstractmethod
    def slopes_at(self, betas: Float, weight: float) -> Float:
        """Σ ∂φ (B, d, d) at several values, all records weighing the same."""

    @abstractmethod
    def objective(self, betas: Float, weights: Weights) -> Float:
        """The concave objective (B,)."""

    @abstractmethod
    def recedes(self, direction: Float, weights: Weights) -> bool:
        """True when the objective never falls along the direction, so that no finite root exists."""

    @abstractmethod
    def spread(self, beta: Float, weights: Weights) -> Float:
        """Root of Σ (w φ_j)² (d,)."""

    @abstractmethod
    def outer(self, beta: Float, weights: Weights) -> Float:
        """Σ w² φφᵀ (d, d)."""

    @abstractmethod
    def totals(self, beta: Float, slope: Float | None = None) -> Totals:
        """Everything that a variance is made of, at one value; a slope that had to be estimated is given."""

    def totals_at(self, betas: Sequence[Float]) -> list[Totals | SolveError]:
        """Those of several values, or why one has none; in one pass where records are read in passes."""
        found: list[Totals | SolveError] = []
        for beta in betas:
            try:
                found.append(self.totals(beta))
            except SolveError as error:
                found.append(error)
        return found

    @abstractmethod
    def leverages(self, beta: Float, frame: Frame) -> Leverages:
        """The records' scores, corrected for the share of the fit that each record carries."""

    @abstractmethod
    def clusters(self, beta: Float, frame: Frame, sums: Float) -> Sequence[Units]:
        """The clusters, with score sums (G, d), in a frame: their shares of the fit where that is one of slopes, and else those of the products
        of their records' scores."""

    @abstractmethod
    def square_weights_by_unit(self) -> Float:
        """Σ w² of each cluster (G,)."""

    @abstractmethod
    def replicate_products(self) -> Float:
        """Products of the published weights with each other, summed over records (R, R)."""

    @abstractmethod
    def privacy_by_unit(self, beta: Float, shares: Float | None = None) -> Float:
        """Σ_u [φ_u φ_uᵀ − (U_u U_uᵀ)*] (d, d) for sums over the records of a unit, which share one draw: the variance that the
        randomisation costs. With shares (n,), the same within a unit, the terms are multiplied by them."""

    @abstractmethod
    def scores_by(self, influence: Callable[[Equation, slice], Float], codes: Int, groups: int) -> Float:
        """Σ w φ (groups, d) over the records that share a code (n,), φ (m, d) from a block's equation and its rows."""

    @abstractmethod
    def counted_by(self, codes: Callable[[Equation], Int], groups: int) -> Float:
        """Σ w (groups,) over the records that share a code, which a block's equation tells (m,)."""

    @abstractmethod
    def membership(self) -> tuple[float, float]:
        """The reverted share of the records' domain and its standard error; for records within one."""

    @abstractmethod
    def slope_moments(self, beta: Float, lefts: Float, rights: Float) -> Float:
        """(2, k): Σ w² (s − s̄)² and Σ w² s (lᵀφ) over records with slopes s = lᵀ ∂φ r, for directions l and r (k, d); a row with
        a count stands for so many equal records."""

    @abstractmethod
    def slope_turns(self, beta: Float, moved: Float, lefts: Float, rights: Float) -> tuple[Float, Float]:
        """Σ w lᵀ ∂φ (k, d) at other values, one for each direction l (k, d), and `slope_moments`."""

    @abstractmethod
    def direct(self, weights: Weights) -> Float | None:
        """Roots (B, d) without iteration, NaN where a draw has none; None where the equation must be solved."""

    @abstractmethod
    def refusal(self, weights: Weights) -> str:
        """Why there is no direct root under the first draw."""

    @abstractmethod
    def inverted(self, scores: Float) -> Float:
        """β (k, d) at which Σ w φ takes given values (k, d); for equations that know."""

    @abstractmethod
    def start(self, weights: Weights, solve: Callable[[Engine, Weights], Float]) -> Float:
        """A starting value (d,). An equation may ask for the root of an easier one, over some of the records perhaps and under weights of theirs."""

    @abstractmethod
    def learned(self) -> Self:
        """With whatever the equation learns from its records learned at their weights."""

    @abstractmethod
    def refitted(self, rebind: Callable[[Float], Equation], weights: Weights) -> Self:
        """With a nuisance fitted again under one draw; what was learned from the sample is kept."""

    @abstractmethod
    def remarks(self, beta: Float, covariance: Float) -> list[Note]:
        """What the analyst should know at the root."""

    @property
    def resident(self) -> bool:
        """Whether the equation is that of all records, which are in memory."""
        return True

    @property
    def draws_at_once(self) -> int:
        """Weight draws that are solved together."""
        return max(1, WEIGHT_ENTRIES // max(self.sampling.rows, 1))

    def sketch(self) -> tuple[Engine, float]:
        """Some of the records, where there are very many, whose sums stand for those of all, and how many each of them stands for."""
        return self, 1.0

    def pilot(self) -> Engine | None:
        """Some of the records, on which a first root is found when there are very many; None elsewhere."""
        return None

    # What follows from the equation.

    @cached_property
    def about(self) -> About:
        return self.equation.about

    @property
    def d(self) -> int:
        return len(self.about.parameters)

    @property
    def n(self) -> float:
        """Number of records that the rows stand for."""
        return self.sampling.n

    @property
    def units(self) -> float:
        """Records that a variance counts: those of weight zero are absent, but for sums, to which they add a zero."""
        return self.n if self.about.sums else self.sampling.counted

    @property
    def concave(self) -> bool:
        """The score is the gradient of a concave objective."""
        return self.equation.ascent is not None

    @property
    def facts(self) -> Mapping[str, str]:
        """What was chosen and how, for the head of the result."""
        return self.about.facts

    def debiased(self, beta: Float, covariance: Float) -> Float:
        """β without the bias that its curvature and covariance imply, where the plan asks for that."""
        direct = self.equation.direct
        return beta if direct is None else direct.debiased(beta, covariance)

    def divisors(self, beta: Float, covariance: Float) -> dict[str, float]:
        """What a function of moments divides by, in standard errors from zero, by name."""
        direct = self.equation.direct
        return {} if direct is None else direct.divisors(beta, covariance)

    def softened(self, t: float) -> Self:
        """A share t of the noise undone."""
        return self.over(self.equation.softened(t))

    def sharp(self) -> Self:
        """Of the equation by whose score a variance is summed."""
        other = self.about.sharp
        return self if other is None else self.over(other)

    def judge(self) -> Self:
        """Of the equation by which identification is judged."""
        other = self.about.judge
        return self if other is None else self.over(other)

    def averaged(self, covariance: Float) -> Self:
        """Of the equation whose score is averaged over normal deviations of β with this covariance; for equations that have one."""
        assert self.about.averaged is not None
        return self.over(self.about.averaged(covariance))
