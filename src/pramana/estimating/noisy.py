"""Generalised linear scores with noise added to covariates, undone in closed form: no nodes for the noisy columns.

With t_j the distance of the true from the released value of noisy column j, the design is x(t) = x₀ + Σ_j x_j t_j and the linear
predictor η(t) = η + Σ_j c_j t_j. The score is x(t) a(η(t)) (y − μ(η(t))), so that it, its slope and its square need the
reversions of g, t_j g and t_j t_l g for a few functions g of η alone:

    identity                g = 1, η, η²: by the moments of the inverse
    log link, V(μ) = μ^p    g = e^{kη}: (e^{kη(t)})* = e^{kη} Π_j (1/M_j)(k c_j), and t_j brings (1/M_j)′ in place of 1/M_j
    logit                   g = H, H′: derivatives of H where 1/M_j is a polynomial; normal noise by the mixture of Monahan and
                            Stefanski, H(η) ≈ Σ p_k Φ(s_k η)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from pramana.arrays import Column, Float, Int
from pramana.estimating.equation import About, Equation, FirstStage, Note, paired
from pramana.estimating.generalized_linear import GeneralizedLinear, PredictorEquation
from pramana.estimating.noisy_curves import (
    IdentityCurve,
    LogisticCurve,
    PowerCurve,
    Reverted,
    RevertedCurve,
    largest_power,
)
from pramana.estimating.records import Records
from pramana.kernels import backend, noisy_products
from pramana.kernels.additive import Displacement, Operator
from pramana.kernels.blocks import gram
from pramana.kernels.logistic import EIGHT, FOUR, MIXTURE_REACH, THREE
from pramana.kernels.noisy_products import Noises
from pramana.kernels.predictor import IDENTITY, LOGIT, POWER, Grouped
from pramana.kernels.products import ProductSums

DROWNED = 5.0
"""Ratio of noise to signal, as standard deviations, from which it is remarked on."""
LABOUR = 2
"""How many times the work of a clean record one with noise is, for the choice of kernels."""
FEW_NODES = 8
"""Nodes up to which adding their values one after the other is quicker than a sum over an axis."""


@dataclass(frozen=True)
class NoisyRecords(Records):
    """Records whose columns in `noisy` are as released.

    Attributes
    ----------
    operators : what undoes each of as many independent noises.
    mixing : (q, q), from these to the noise of the columns; the identity unless columns share a noise.
    share : of the noise that is undone.
    """

    noisy: tuple[str, ...] = ()
    operators: tuple[Operator, ...] = ()
    mixing: Float = field(default_factory=lambda: np.eye(0))
    share: float = 1.0

    @classmethod
    def of(cls, records: Records, noisy: tuple[str, ...], displaced: Displacement) -> NoisyRecords:
        return cls(**vars(records), noisy=noisy, operators=displaced.operators, mixing=displaced.mixing)

    @property
    def spreads(self) -> Float:
        """Largest standard deviation (q,) of the noise of each column."""
        return np.sqrt(self.mixing**2 @ np.array([float(np.max(o.spread)) ** 2 for o in self.operators]))

    def rows(self, rows: slice) -> NoisyRecords:
        operators = tuple(o.mapped(lambda v: v[rows]) for o in self.operators)
        displaced = Displacement(operators, self.mixing)
        return replace(NoisyRecords.of(super().rows(rows), self.noisy, displaced), share=self.share)

    def softened(self, t: float) -> NoisyRecords:
        softer = super().softened(t)
        assert isinstance(softer, NoisyRecords)
        return replace(softer, share=t)


@dataclass(frozen=True)
class NoisyLinear(Equation):
    """A generalised linear equation with noisy covariates that enter its terms linearly.

    Attributes
    ----------
    naive : the equation that takes released numbers for the true ones; other channels are undone in it.
    records : those of `naive`, with the noise.
    columns : for every independent noise, the positions (m_j) of the design columns that it moves.
    tilts : their derivatives by it (N, m_j), N = records × nodes; (1, m_j) where all are the same.
    """

    naive: PredictorEquation
    records: NoisyRecords
    columns: tuple[Int, ...]
    tilts: tuple[Float, ...]

    @classmethod
    def of(cls, function: GeneralizedLinear, records: NoisyRecords) -> NoisyLinear:
        naive = function.equation(records)
        reads = function.reads
        columns: tuple[Int, ...] = tuple(np.flatnonzero([name in own for own in reads]) for name in records.noisy)
        tilts = tuple(
            _tilt(function, records, naive.data.design, name, spread, own)
            for name, spread, own in zip(records.noisy, records.spreads.tolist(), columns, strict=True)
        )
        return cls(naive, records, *_mixed(records.mixing, columns, tilts))

    @property
    def function(self) -> GeneralizedLinear:
        return self.naive.function

    @property
    def about(self) -> About:
        fades = self.function.family.curve.code != IDENTITY
        return replace(self.naive.about, curved=False, fades=fades, reach=self._reach, patched=self._mixed_logit)

    @cached_property
    def _reach(self) -> str:
        """Of normal noise in a logit, and of heavy tails with a log link, where a search ends that strays beyond."""
        code = self.function.family.curve.code
        if self._mixed_logit:
            told = (
                f"that of {name!r} has a standard deviation of {sd:.4g}, and its coefficient must stay below {MIXTURE_REACH / sd:.3g}"
                for name, sd in zip(self.records.noisy, self.records.spreads.tolist(), strict=True)
            )
            return (
                f"Normal noise is undone in a logit up to a standard deviation of {MIXTURE_REACH:.3g} on the scale of the linear predictor: {'; '.join(told)}. "
                "Use less noise, LaplaceNoise in its place, or method='conditional-score' if the logit is true. "
            )
        ends = {
            name: float(np.min(o.reach))
            for name, o in zip(self.records.noisy, self.records.operators, strict=True)
            if np.all(np.isfinite(o.reach))
        }
        if code != POWER or not ends:
            return ""
        times = largest_power(self.function.family.curve.shape)
        told = (
            f"that of {name!r} has a scale of {1 / end:.4g}, and its coefficient must stay below {end / times:.3g}"
            for name, end in ends.items()
        )
        return (
            f"With a log link noise is undone, and has a variance, while {times:g} times the coefficient times the scale stays below 1: {'; '.join(told)}. "
            "Use less noise, GaussianNoise in its place, or family 'gaussian' or 'binomial'. "
        )

    @property
    def _mixed_logit(self) -> bool:
        """Whether mixtures of normal distributions stand for the logistic function, one after the other."""
        return self.function.family.curve.code == LOGIT and any(np.any(o.variance) for o in self.records.operators)

    def rows(self, rows: slice) -> NoisyLinear:
        nodes = len(self.records.nodes)
        tilts = tuple(
            t if len(t) == 1 else t.reshape(self.n, nodes, -1)[rows].reshape(-1, t.shape[1]) for t in self.tilts
        )
        return NoisyLinear(self.naive.rows(rows), self.records.rows(rows), self.columns, tilts)

    def under(self, records: NoisyRecords) -> NoisyLinear:
        """All nodes stay: the derivatives are of every one of them."""
        naive = replace(self.naive, records=records, part=False, compact=None)
        return NoisyLinear(naive, records, self.columns, self.tilts)

    @property
    def first(self) -> FirstStage:
        return FirstStage(self.naive)

    def start(self, weights: Float) -> Float:
        return self.naive.start(weights)

    def remarks(self, beta: Float, weights: Float, covariance: Float, squares: Float) -> list[Note]:  # noqa: ARG002
        return [*self._coarser(beta), *drowned(self.records, weights)]

    def _coarser(self, beta: Float) -> list[Note]:
        """That the logit stands for itself to fewer digits where normal noise is strong."""
        curve = self._curve_at(np.zeros(1), self._slopes(beta))
        if not isinstance(curve, LogisticCurve) or curve.strongest <= EIGHT.alone:
            return []
        used = FOUR if curve.strongest < FOUR.gone else THREE
        message = (
            f"the normal noise has a standard deviation of {curve.strongest:.3g} on the scale of the linear predictor: above {EIGHT.alone:g} the logit is undone "
            f"as a mixture of {used.shares.size} normal distribution functions, right to {used.error:g} in probabilities, in place of one of eight, right to "
            f"{EIGHT.error:g}; method='conditional-score' has no such error, if the logit is true"
        )
        return [("coarser-logit", "info", message)]

    @cached_property
    def operators(self) -> tuple[Operator, ...]:
        """One number a record and node."""
        nodes = len(self.records.nodes)
        return tuple(o.mapped(lambda v: np.repeat(v, nodes)) for o in self.records.operators)

    def _curve(self, beta: Float) -> RevertedCurve:
        """The one of the last β is kept: solver and inference ask for several sums at one."""
        known, curve = self._last.get("curve", (None, None))
        if curve is None or known != beta.tobytes():
            curve = self._curved(beta)
            self._last["curve"] = beta.tobytes(), curve
        return curve

    @cached_property
    def _last(self) -> dict[str, tuple[bytes, RevertedCurve]]:
        return {}

    def _curved(self, beta: Float, *, rising: bool = False) -> RevertedCurve:
        """η and its derivatives by the noisy columns, with the functions that the family needs of them; those of a slope alone where `rising`."""
        return self._curve_at(self.naive.data.eta(beta[None])[0].ravel(), self._slopes(beta), rising=rising)

    def _slopes(self, beta: Float) -> Float:
        """Of η by the independent noises: (q, N), or (q, 1) where all records share them."""
        own = [t @ beta[columns] for t, columns in zip(self.tilts, self.columns, strict=True)]
        return np.stack(np.broadcast_arrays(*own))

    def _curve_at(self, eta: Float, slopes: Float, *, rising: bool = False) -> RevertedCurve:
        curve = self.function.family.curve
        common = (eta, slopes, self.operators, self.records.share)
        if curve.code == POWER:
            return PowerCurve(*common, curve.shape)
        return LogisticCurve(*common, rising) if curve.code == LOGIT else IdentityCurve(*common)

    def _compiled(self, beta: Float, weights: Float, squares: Float | None) -> ProductSums | None:
        """Everything at one β in one pass, where the compiled kernels know the equation and are worth it."""
        compact, nodes = self.naive.compact, len(self.records.nodes)
        if compact is None or not self._by_kernel:
            return None
        noises, fast = self._noises, backend.compiled_noise()
        terms = None if noises is None else noises.terms(self._slopes(beta), nodes)
        if noises is None or terms is None or fast is None:
            return None
        return noisy_products.sums(fast, compact, noises, terms, self._tilts, beta, weights, squares)

    @cached_property
    def _by_kernel(self) -> bool:
        """Whether there are records enough for the compiled kernels."""
        compact, nodes = self.naive.compact, len(self.records.nodes)
        if compact is None or self.records.share != 1:
            return False
        return backend.worthwhile(1, LABOUR * self.naive.out_of * nodes)

    @cached_property
    def _noises(self) -> Noises | None:
        curve = self.function.family.curve
        return Noises.of(curve.code, curve.shape, self.records.operators, self.columns)

    @cached_property
    def _tilts(self) -> Float:
        """As the compiled kernels take them: (1 or n, 1 or nodes, all columns that noise moves)."""
        tilts = np.concatenate(self.tilts, axis=1) if len(self.tilts) > 1 else self.tilts[0]
        return tilts.reshape(-1, len(self.records.nodes) if len(tilts) > 1 else 1, tilts.shape[1])

    @cached_property
    def weight(self) -> Float:
        """Signed weights (N,), or a 1 where nothing else is undone."""
        whole = self.records.table.shape == (1, 1) and self.records.table[0, 0] == 1
        return np.ones(1) if whole else self.naive.data.weight.ravel()

    def _force(self, curve: RevertedCurve) -> Reverted:
        """a (S − W μ)."""
        terms = ((self.naive.data.first.ravel(), curve.a(0)), (-self.weight, curve.mean(0)))
        return _combined(*terms, pairs=False)

    def _bend(self, curve: RevertedCurve) -> Reverted:
        """Its derivative by η."""
        return _combined((self.naive.data.first.ravel(), curve.a(1)), (-self.weight, curve.mean(1)))

    def influence(self, beta: Float) -> Float:
        with np.errstate(all="ignore"):
            return self._influence(self._curve(beta))

    def _influence(self, curve: RevertedCurve) -> Float:
        force = self._force(curve)
        out = force.plain[:, None] * self.naive.data.design
        for own, tilt, part in zip(self.columns, self.tilts, force.first, strict=True):
            out[:, own] += part[:, None] * tilt
        return _over_nodes(out, len(self.records.nodes))

    def _score(self, curve: RevertedCurve, weights: Float) -> Float:
        """Σ w φ (d,), without φ of every record."""
        force, row_weights = self._force(curve), self._row_weights(weights)
        out = (force.plain * row_weights) @ self.naive.data.design
        for own, tilt, part in zip(self.columns, self.tilts, force.first, strict=True):
            moved = part * row_weights
            out[own] += tilt[0] * moved.sum() if len(tilt) == 1 else moved @ tilt
        return np.asarray(out)

    def _row_weights(self, weights: Float) -> Float:
        nodes = len(self.records.nodes)
        return weights if nodes == 1 else np.repeat(weights, nodes)

    def _gram(self, terms: Reverted, weights: Float) -> Float:
        """Σ w (x(t) x(t)ᵀ g)* (d, d)."""
        row_weights = self._row_weights(weights)
        x = self.naive.data.design
        out = gram(x, terms.plain * row_weights)
        for j, (own, tilt) in enumerate(zip(self.columns, self.tilts, strict=True)):
            side = crossed(tilt, terms.first[j] * row_weights, x)
            out[own] += side
            out[:, own] += side.T
            for k, (other, tilted) in enumerate(zip(self.columns, self.tilts, strict=True)):
                out[np.ix_(own, other)] += crossed(tilt, terms.second[j, k] * row_weights, tilted)
        return out

    def slope(self, beta: Float, weights: Float) -> Float:
        with np.errstate(all="ignore"):
            return self._gram(self._bend(self._curve(beta)), weights)

    def score_and_slope(self, betas: Float, weights: Float, rows: Int | None = None) -> tuple[Float, Float]:
        betas, weights = paired(betas, weights, rows)
        scores, slopes = np.empty((len(weights), self.d)), np.empty((len(weights), self.d, self.d))
        with np.errstate(all="ignore"):
            for k, (beta, w) in enumerate(zip(betas, weights, strict=True)):
                found = self._compiled(beta, w, None)
                if found is not None:
                    scores[k], slopes[k] = found.score, found.slope
                    continue
                curve = self._curve(beta)
                scores[k], slopes[k] = self._score(curve, w), self._gram(self._bend(curve), w)
        return scores, slopes

    def grouped(self, groups: int) -> NoisyGroups:
        size = self.n // groups
        sets = tuple(self.rows(slice(g * size, (g + 1) * size)) for g in range(groups))
        return NoisyGroups(lambda: self.naive.data, groups, sets=sets)

    def sums(self, beta: Float, weights: Float, squares: Float) -> tuple[Float, Float, Float, Float, Float]:
        with np.errstate(all="ignore"):
            found = self._compiled(beta, weights, squares)
            if found is not None:
                self._curve_at(np.zeros(1), self._slopes(beta)).refuse_far(self.records.noisy)
                return found
            curve = self._curve(beta)
            phi = self._influence(curve)
            slope = self._gram(self._bend(curve), weights)
            fourth = np.sum((phi**2 * squares[:, None]) ** 2, axis=0)
            return weights @ phi, slope, gram(phi, squares), self._clean_outer(curve, squares), fourth

    def outer(self, beta: Float, weights: Float) -> Float:
        found = self._compiled(beta, weights, weights)
        return super().outer(beta, weights) if found is None else found.outer

    def record_slopes_along(self, beta: Float, lefts: Float, rights: Float) -> Float:
        with np.errstate(all="ignore"):
            bend, x = self._bend(self._curve(beta)), self.naive.data.design
            l0, r0 = lefts @ x.T, rights @ x.T
            l1, r1 = (
                [side[:, own] @ t.T for t, own in zip(self.tilts, self.columns, strict=True)]
                for side in (lefts, rights)
            )
            out = bend.plain * l0 * r0
            for j in range(len(self.tilts)):
                out += bend.first[j] * (l1[j] * r0 + l0 * r1[j])
                for k in range(len(self.tilts)):
                    out += bend.second[j, k] * l1[j] * r1[k]
            return out if len(self.records.nodes) == 1 else np.asarray(out.reshape(len(out), self.n, -1).sum(axis=2))

    def slope_parts(self, beta: Float) -> tuple[Float, Float]:
        """In the vectors x and t of a node the slope is a small symmetric matrix, which its own axes make diagonal."""
        with np.errstate(all="ignore"):
            bend, x = self._bend(self._curve(beta)), self.naive.data.design
        size = 1 + len(self.tilts)
        vectors, inner = np.zeros((len(x), size, self.d)), np.empty((len(x), size, size))
        vectors[:, 0], inner[:, 0, 0] = x, bend.plain
        for j, (own, tilt) in enumerate(zip(self.columns, self.tilts, strict=True), 1):
            vectors[:, j, own] = tilt
            inner[:, 0, j] = inner[:, j, 0] = bend.first[j - 1]
            for k in range(1, size):
                inner[:, j, k] = bend.second[j - 1, k - 1]
        values, axes = np.linalg.eigh(inner)
        return (axes.transpose(0, 2, 1) @ vectors).reshape(self.n, -1, self.d), values.reshape(self.n, -1)

    def left_slopes(self, betas: Float, lefts: Float, weights: Float) -> Float:
        """Without the score, and without giving up the curve of the last β, which is asked for again."""
        if self._by_kernel:
            return super().left_slopes(betas, lefts, weights)
        with np.errstate(all="ignore"):
            bends = (self._bend(self._curved(beta, rising=True)) for beta in betas)
            return np.stack([left @ self._gram(bend, weights) for left, bend in zip(lefts, bends, strict=True)])

    def clean_outer(self, beta: Float, weights: Float) -> Float:
        with np.errstate(all="ignore"):
            return self._clean_outer(self._curve(beta), weights)

    def _clean_outer(self, curve: RevertedCurve, weights: Float) -> Float:
        data = self.naive.data
        curve.refuse_far(self.records.noisy)
        a, b, c = curve.squares()
        square = _combined((data.second.ravel(), a), (-2 * data.first.ravel(), b), (self.weight, c))
        return self._gram(square, weights)


@dataclass(frozen=True)
class NoisyGroups(Grouped):
    """Data sets with noise, each an equation of its own."""

    sets: tuple[NoisyLinear, ...] = ()

    def spread(self, betas: Float) -> Float:
        ones = np.ones(self.sets[0].n)
        return np.sqrt(np.stack([np.diag(own.outer(beta, ones)) for own, beta in zip(self.sets, betas, strict=True)]))

    def score_and_slope(self, betas: Float, group: Int) -> tuple[Float, Float]:
        ones = np.ones((1, self.sets[0].n))
        found = [self.sets[g].score_and_slope(beta[None], ones) for beta, g in zip(betas, group, strict=True)]
        return np.concatenate([score for score, _ in found]), np.concatenate([slope for _, slope in found])


def _combined(*terms: tuple[Float, Reverted | None], pairs: bool = True) -> Reverted:
    """Σ (moments of the response) · (reverted functions of η); None is a function that is zero. Products t_j t_l where asked for."""
    known = [(moment, function) for moment, function in terms if function is not None]
    plain, first = (_summed([(moment, function[part]) for moment, function in known]) for part in (0, 1))
    second = _summed([(moment, function.second) for moment, function in known]) if pairs else known[0][1].second
    return Reverted(plain, first, second)


def _summed(terms: list[tuple[Float, Float]]) -> Float:
    """Σ moment · value, without values that are zero for all records."""
    parts = [moment * value for moment, value in terms if value.shape[-1] > 1 or np.any(value)]
    return sum(parts[1:], start=parts[0]) if parts else np.zeros_like(terms[0][1])


def _over_nodes(values: Float, nodes: int) -> Float:
    """Sums (n, d) of values (n · nodes, d) over the nodes of each record."""
    if nodes == 1:
        return values
    if nodes > FEW_NODES:
        return np.asarray(values.reshape(-1, nodes, values.shape[1]).sum(axis=1))
    return np.asarray(sum((values[k::nodes] for k in range(1, nodes)), start=values[::nodes]))


def drowned(records: NoisyRecords, weights: Float) -> list[Note]:
    """Remarks on columns of whose spread next to nothing is left without the noise."""
    return [
        note
        for name, spread in zip(records.noisy, records.spreads.tolist(), strict=True)
        for note in _drowned(name, records.columns[name], spread, weights)
    ]


def _drowned(name: str, column: Column, noise: float, weights: Float) -> list[Note]:
    values = np.asarray(column, dtype=float)
    spread = float(np.sqrt(np.average((values - np.average(values, weights=weights)) ** 2, weights=weights)))
    signal = float(np.sqrt(max(spread**2 - noise**2, 0.0)))
    if noise < DROWNED * signal:
        return []
    ratio = f"{noise / signal:.3g} times" if signal > 0 else "all of"
    message = (
        f"the noise of {name!r} has a standard deviation of {noise:.4g}, {ratio} what the released values (sd {spread:.4g}) leave for the "
        "true ones: they hardly tell its effect; use more records, or less noise"
    )
    return [("noise-outweighs-signal", "warning", message)]


def crossed(left: Float, weights: Float, right: Float) -> Float:
    """Σ w l rᵀ over rows l and r, either of which may be one row for all."""
    if len(left) == 1:
        return np.outer(left[0], weights.sum() * right[0] if len(right) == 1 < len(weights) else weights @ right)
    if len(right) == 1:
        return np.outer(weights @ left, right[0])
    return np.asarray((left * weights[:, None]).T @ right)


def _mixed(
    mixing: Float, columns: tuple[Int, ...], tilts: tuple[Float, ...]
) -> tuple[tuple[Int, ...], tuple[Float, ...]]:
    """Design columns and their derivatives by the independent noises, from those by the noisy columns."""
    out = []
    for shares in mixing.T:
        moved = [(columns[j], share * tilts[j]) for j, share in enumerate(shares) if share != 0]
        own: Int = np.unique(np.concatenate([places for places, _ in moved]))
        tilt = np.zeros((max(len(part) for _, part in moved), own.size))
        for places, part in moved:
            tilt[:, np.searchsorted(own, places)] += part
        out.append((own, tilt))
    return tuple(own for own, _ in out), tuple(tilt for _, tilt in out)


def _tilt(function: GeneralizedLinear, records: Records, released: Float, name: str, step: float, own: Int) -> Float:
    """Derivatives (N, m) of the design columns that read a noisy column, in which they are linear; `released` is their design (N, d)."""
    parts = [function.parts[place] for place in own] if function.parts else []
    if parts and all(part.factors == ({name},) and part.plain == (True,) for part in parts):  # the column as it is
        return np.ones((1, own.size))
    if all(function.reads[place] == {name} for place in own):  # what is linear in one column has one slope
        first = {c: v[:1].repeat(2) if isinstance(v, np.ndarray) else v for c, v in records.at(0).items()}
        design = function.design_of({**first, name: np.array([0.0, step])}, 2)[:, own]
        return np.asarray((design[1:] - design[:1]) / step)
    values = np.asarray(records.columns[name], dtype=float)
    moved = replace(records, columns={**records.columns, name: values + step})
    ahead = [function.design_of(moved.at(c), records.n)[:, own] for c in range(len(records.nodes))]
    return np.asarray((np.stack(ahead, axis=1).reshape(-1, len(own)) - released[:, own]) / step)
