"""Few records, few clusters, few units a stratum: variances that are not too small, and how many degrees of freedom they have.

The arithmetic, and the sources, are in `kernels/leverage.py`. A variance of very many units is left as it is, unless their
scores show that it rests on few of them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from pramana.arrays import Bool, Float, Int
from pramana.engines import Engine, Stratification
from pramana.estimating.equation import Quotients
from pramana.inference.sandwich import Linear
from pramana.kernels.blocks import add_by_group
from pramana.kernels.leverage import Frame, Leverages, Units, corrections, idle, leverages, leverages_of

ENOUGH = 100
"""Units for each parameter, and one more, from which a correction of 1/200 of a standard error, and 0.001 of coverage, is left out …"""
EFFECTIVE = 50
"""… unless the variance of a score rests on fewer units than this, (Σφ²)²/Σφ⁴, which is a third of them for normal scores."""
DENSE = 150
"""Sampling units up to which degrees of freedom take the strata into account unit by unit."""
MATRICES = 2_000_000
"""Numbers of the units' matrices that are held at once."""
LONG = 1e9
"""Steps, records times the cube of the parameters, from which on matrices of single records take very long."""
ADDS_UP = 0.05
"""How far the units' shares may add up to something else than the identity, as they do for estimated slopes."""


@dataclass(frozen=True)
class SmallSample:
    """What few units change.

    Attributes
    ----------
    covariance : corrected (d, d).
    factor : standard errors over those without the correction (d,).
    df : degrees of freedom of each variance (d,).
    alone : the parameters that one unit determines alone, whose variance cannot be known (d,).
    """

    covariance: Float
    factor: Float
    df: Float
    alone: Bool

    @classmethod
    def scaled(cls, covariance: Float, squares: Float, df: Float) -> SmallSample:
        """A covariance (d, d) whose variances are too small by the factors `squares` (d,)."""
        factor = np.sqrt(squares)
        return cls(covariance * np.outer(factor, factor), factor, df, np.zeros(len(df), dtype=bool))

    @classmethod
    def of(cls, before: Float, after: Float, df: Float, alone: Float) -> SmallSample:
        """From the covariances without and with the correction."""
        was, now = np.diag(before), np.diag(after)
        factor = np.sqrt(np.divide(now, was, out=np.ones_like(now), where=(was > 0) & (now > 0)))
        return cls(after, factor, np.where(df >= 1, df, 1.0), alone > 1e-6)

    def factor_of_draws(self, law: str) -> Float:
        """By which draws of units are too near to the estimate (d,).

        Exponential weights of m units share the variance of a Dirichlet, m/(m + 1) of that of their sandwich.
        """
        few = np.sqrt((self.df + 2) / (self.df + 1)) if law == "exponential" else 1.0
        return np.where(self.alone, np.nan, self.factor * few)

    def blanked(self, covariance: Float) -> Float:
        """The covariance with the rows that cannot be known left blank."""
        return np.where(self.alone[:, None] | self.alone[None, :], np.nan, covariance)


def small_sample(engine: Engine, beta: Float, linear: Linear, *, always: bool = False) -> SmallSample | None:
    """The correction at a root; None where units are many, where the variance is that of the randomisation alone, and for step
    functions of single records, whose draws say what can be said."""
    strata = engine.sampling.strata
    if strata is not None and strata.target == "file":
        return None
    if not engine.sampling.clustered and not engine.about.smooth:
        return None
    if not np.isfinite(linear.covariance).all():
        return None
    if not always and enough(engine, linear):
        return None
    if engine.sampling.clustered:
        return _of_units(engine, beta, linear)
    return _of_records(engine, beta, linear)


def enough(engine: Engine, linear: Linear) -> bool:
    """Units are so many, and so alike, that nothing would change."""
    groups = engine.sampling.groups
    units = engine.units if groups is None else groups
    return bool(units >= ENOUGH * (engine.d + 1) and np.all(effective(linear) >= EFFECTIVE))


def effective(linear: Linear) -> Float:
    """(Σφ²)² / Σφ⁴ of each score (d,): the units, where all have the same square; infinite for a score that no variance comes from.

    Such is one that is the same in all records, as an equation for a function of the others is: at the root it is zero, or what
    rounding left of it.
    """
    totals = linear.totals
    if totals.clusters is None:
        assert totals.fourth is not None
        squares, fourth = np.diag(totals.outer), totals.fourth
    else:
        shares = totals.clusters**2
        squares, fourth = shares.sum(axis=0), (shares**2).sum(axis=0)
    still = idle(linear.inverse, squares, np.diag(linear.covariance))
    return np.where(still, np.inf, np.divide(squares**2, fourth, out=np.zeros(len(squares)), where=fourth > 0))


def _of_records(engine: Engine, beta: Float, linear: Linear) -> SmallSample:
    totals, before = linear.totals, linear.covariance
    if engine.about.sums:
        n, df = engine.n, max(engine.sampling.square_worth, 2.0) - 1
        return SmallSample.scaled(before, np.full(engine.d, n / (n - 1)), np.full(engine.d, df))
    if engine.sampling.rows * engine.d**3 > LONG and _are_means(engine):
        # Every record has the share 1/n of every parameter, so that its matrix need not be made.
        n = engine.units
        return SmallSample.scaled(before, np.full(engine.d, n / (n - 1)), np.full(engine.d, n - 1))
    frame = Frame.of(totals.slope, linear.inverse, totals.outer)
    found = engine.leverages(beta, frame)
    if not _adds_up(found.share):
        frame = Frame.of_scores(linear.inverse, totals.outer)
        found = engine.leverages(beta, frame)
    return _of_leverages(found, frame, before)


def _are_means(engine: Engine) -> bool:
    """Whether the parameters are means over all records, which count alike."""
    means = engine.about.of_means() if engine.about.of_means is not None and engine.sampling.simple else None
    return isinstance(means, Quotients) and bool(np.all(means.below == 1))


def _of_leverages(found: Leverages, frame: Frame, before: Float) -> SmallSample:
    return SmallSample.of(before, frame.covariance(found.meat), found.degrees_of_freedom, found.alone)


def _adds_up(share: Float) -> bool:
    return bool(np.abs(share - np.eye(len(share))).max() < ADDS_UP)


def _of_units(engine: Engine, beta: Float, linear: Linear) -> SmallSample:
    """Clusters and sampling units; the units of a sum vary around their mean as those of a stratum do."""
    totals, strata = linear.totals, engine.sampling.strata
    assert totals.clusters is not None
    if engine.about.sums and strata is None:
        strata = Stratification(np.zeros(len(totals.clusters), dtype=np.int64), np.zeros(1), "superpopulation")
    frame, units = _units(engine, beta, linear, totals.clusters)
    if strata is None:
        return of_clusters(frame, units, linear.covariance)
    retained = linear.retained if strata.target == "finite" else None
    return of_strata(frame, units, totals.clusters, strata, linear.covariance, retained)


def _units(engine: Engine, beta: Float, linear: Linear, sums: Float) -> tuple[Frame, Sequence[Units]]:
    """A frame, and the units in it, with score sums (G, d).

    Where records have no slope of their own (step functions, slopes that were estimated), and where slopes are no shares (systems of
    different equations), the share of a unit is that of the products of its records' scores.
    """
    totals = linear.totals
    frame = Frame.of(totals.slope, linear.inverse, totals.outer)
    if engine.about.sums:
        return frame, [_of_sums(engine, frame, sums)]
    if engine.about.smooth and frame.sloped:
        units = engine.clusters(beta, frame, sums)
        if _adds_up(np.sum([one.share for one in units], axis=0)):
            return frame, units
    frame = Frame.of_scores(linear.inverse, totals.outer)
    return frame, engine.clusters(beta, frame, sums)


def _of_sums(engine: Engine, frame: Frame, sums: Float) -> Units:
    """No unit has a share in a sum's slope; its variance goes with the squares of its weights."""
    sizes = engine.square_weights_by_unit()
    working = sizes[:, None, None] * np.eye(engine.d)
    places = np.arange(len(sizes))
    return Units(frame, frame.scores(sums), np.zeros_like(working), working, np.ones(len(sizes)), places=places)


def of_clusters(frame: Frame, units: Sequence[Units], before: Float) -> SmallSample:
    """Of units in a frame, whose covariance was (d, d) without the correction."""
    return _of_leverages(leverages_of(units), frame, before)


def of_strata(
    frame: Frame,
    units: Sequence[Units],
    sums: Float,
    strata: Stratification,
    before: Float,
    retained: Float | None = None,
) -> SmallSample:
    """Of units with score sums (G, d), whose covariance was (d, d) without the correction; `retained` is the part of it that does not come from
    the spread of the units.

    Units vary around the mean of their stratum, which takes 1/n_h of each; the fit takes the rest.
    """
    stratum, scores, r = strata.stratum, frame.scores(sums), len(frame.into)
    mean, present = np.zeros((len(strata.fraction), r, r)), np.zeros(len(stratum), dtype=bool)
    for rows, shares, working in _matrices(units):
        add_by_group(mean, shares, stratum[rows])
        present[rows] = np.einsum("nii->n", working) > 0
    mean /= strata.sizes[:, None, None]

    def parts() -> Iterator[tuple[Int, Float, Float]]:
        """Places, what is left of the shares, and working variances."""
        return ((rows, shares - mean[stratum[rows]], working) for rows, shares, working in _matrices(units))

    shrink = (1 - strata.fraction if strata.target == "finite" else np.ones(len(strata.fraction)))[stratum]
    centred, sizes = scores - strata.means(scores)[stratum], strata.sizes[stratum]
    meat, alone, loads = np.zeros((r, r)), np.zeros(len(frame.back)), []
    for rows, left, working in parts():
        drawn_out, own = corrections(left + np.eye(r) / sizes[rows, None, None], frame.back)
        corrected = np.einsum("nij,nj->ni", drawn_out, centred[rows])
        meat += (corrected * shrink[rows, None]).T @ corrected
        alone += own.sum(axis=0)
        if len(stratum) <= DENSE:
            loads.append((rows, drawn_out @ frame.back.T * np.sqrt(shrink[rows])[:, None, None], left, working))
    if len(stratum) <= DENSE:
        order = np.argsort(np.concatenate([rows for rows, *_ in loads]))
        u, left, working = (np.concatenate([found[k] for found in loads])[order] for k in (1, 2, 3))
        df = _dense(u, left, working, strata)
    else:

        def summed(part: Callable[[Units], Any]) -> Any:
            found = (Units(frame, scores[rows], left, working, np.ones(len(rows))) for rows, left, working in parts())
            return reduce(operator.add, map(part, found))

        df = leverages(summed, len(stratum)).degrees_of_freedom
    most = float(present.sum() - len(np.unique(stratum[present])))
    after = frame.covariance(meat) + (0.0 if retained is None else retained)
    return SmallSample.of(before, after, np.minimum(df, max(most, 1.0)), alone)


def _matrices(units: Sequence[Units]) -> Iterator[tuple[Int, Float, Float]]:
    """Places of some units, their shares and working variances (m, r, r)."""
    for one in units:
        step = max(1, MATRICES // one.scores.shape[1] ** 2)
        for rows in (slice(k, k + step) for k in range(0, len(one.scores), step)):
            yield one.places[rows], *one.matrices(rows)


def _dense(u: Float, left: Float, working: Float, strata: Stratification) -> Float:
    """(tr D)²/tr D² (d,) with D the working covariance of the units' corrected shares, each less its stratum's mean."""
    same = strata.stratum[:, None] == strata.stratum[None, :]
    centring = np.eye(len(u)) - same / strata.sizes[strata.stratum][:, None]
    out = np.empty(u.shape[2])
    for j in range(u.shape[2]):
        own = u[:, :, j]
        away = np.einsum("nij,nj->ni", left, own)
        loads = centring[:, :, None] * own[:, None, :] - away[:, None, :]  # (G, G, d): of each unit on every score
        d = np.einsum("gki,kij,hkj->gh", loads, working, loads, optimize=True)
        squares = np.sum(d**2)
        out[j] = np.trace(d) ** 2 / squares if squares > 0 else 1.0
    return out
