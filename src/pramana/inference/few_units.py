"""Few records, few clusters, few units a stratum: variances that are not too small, and how many degrees of freedom they have.

The arithmetic, and the sources, are in `kernels/leverage.py`. A variance of very many units is left as it is, unless their
scores show that it rests on few of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pramana.arrays import Bool, Float
from pramana.engines import Engine, Stratification
from pramana.inference.sandwich import Linear
from pramana.kernels.leverage import Frame, Leverages, Units, corrections, idle, leverages, size_of_many

ENOUGH = 100
"""Units for each parameter, and one more, from which a correction of 1/200 of a standard error, and 0.001 of coverage, is left out …"""
EFFECTIVE = 50
"""… unless the variance of a score rests on fewer units than this, (Σφ²)²/Σφ⁴, which is a third of them for normal scores."""
DENSE = 150
"""Sampling units up to which degrees of freedom take the strata into account unit by unit."""
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
    frame = Frame.of(totals.slope, linear.inverse, totals.outer)
    found = engine.leverages(beta, frame)
    if not _adds_up(found.share):
        frame = Frame.of_scores(linear.inverse, totals.outer)
        found = engine.leverages(beta, frame)
    return _of_leverages(found, frame, before)


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
    if strata is None:
        return _of_clusters(engine, beta, linear, totals.clusters)
    frame, shares, working = _shares(engine, beta, linear)
    retained = linear.retained if strata is not None and strata.target == "finite" else None
    return of_units(frame, totals.clusters, shares, working, strata, linear.covariance, retained)


def _of_clusters(engine: Engine, beta: Float, linear: Linear, sums: Float) -> SmallSample:
    totals = linear.totals
    frame = Frame.of(totals.slope, linear.inverse, totals.outer)
    if engine.about.smooth and frame.sloped:
        found = engine.leverages_of_clusters(beta, frame, sums)
        if _adds_up(found.share):
            return _of_leverages(found, frame, linear.covariance)
    frame = Frame.of_scores(linear.inverse, totals.outer)
    return _of_leverages(engine.leverages_of_clusters(beta, frame, sums), frame, linear.covariance)


def of_units(
    frame: Frame,
    sums: Float,
    shares: Float,
    working: Float,
    strata: Stratification | None,
    before: Float,
    retained: Float | None = None,
) -> SmallSample:
    """Of units with score sums (G, d), shares of the fit and working variances (G, d, d) in a frame, whose covariance was
    (d, d) without the correction; `retained` is the part of it that does not come from the spread of the units."""
    scores = frame.scores(sums)
    if strata is not None:
        return _designed(scores, shares, working, strata, frame, before, retained)
    return _of_leverages(_together(frame, scores, shares, working), frame, before)


def _together(frame: Frame, scores: Float, shares: Float, working: Float) -> Leverages:
    units = Units(frame, scores, shares, working, np.ones(len(scores)))
    return leverages(lambda part: part(units), len(scores))


def _shares(engine: Engine, beta: Float, linear: Linear) -> tuple[Frame, Float, Float]:
    """A frame, the units' shares of the fit in it, and their working variances (G, d, d).

    Where records have no slope of their own (step functions, slopes that were estimated), and where slopes are no shares (systems of
    different equations), the share of a unit is that of the products of its records' scores.
    """
    totals = linear.totals
    frame = Frame.of(totals.slope, linear.inverse, totals.outer)
    if engine.about.sums:
        return frame, *_of_sums(engine)
    if engine.about.smooth and frame.sloped:
        shares, squared = engine.shares_by_unit(beta, frame)
        if _adds_up(shares.sum(axis=0)):
            return frame, shares, size_of_many(squared)
    frame = Frame.of_scores(linear.inverse, totals.outer)
    squares = engine.squares_by_unit(beta, frame)
    return frame, squares, squares


def _of_sums(engine: Engine) -> tuple[Float, Float]:
    """No unit has a share in a sum's slope; its variance goes with the squares of its weights."""
    sizes = engine.square_weights_by_unit()
    return np.zeros((len(sizes), engine.d, engine.d)), sizes[:, None, None] * np.eye(engine.d)


def _designed(
    scores: Float,
    shares: Float,
    working: Float,
    strata: Stratification,
    frame: Frame,
    before: Float,
    retained: Float | None,
) -> SmallSample:
    """Units vary around the mean of their stratum, which takes 1/n_h of each; the fit takes the rest."""
    sizes = strata.sizes[strata.stratum]
    left = shares - strata.means(shares.reshape(len(shares), -1))[strata.stratum].reshape(shares.shape)
    drawn_out, alone = corrections(left + np.eye(shares.shape[1]) / sizes[:, None, None], frame.back)
    shrink = (1 - strata.fraction if strata.target == "finite" else np.ones(len(strata.fraction)))[strata.stratum]
    centred = np.einsum("nij,nj->ni", drawn_out, scores - strata.means(scores)[strata.stratum])
    meat = (centred * shrink[:, None]).T @ centred
    u = drawn_out @ frame.back.T * np.sqrt(shrink)[:, None, None]
    present = np.einsum("nii->n", working) > 0
    most = float(present.sum() - len(np.unique(strata.stratum[present])))
    if len(scores) <= DENSE:
        df = _dense(u, left, working, strata)
    else:
        df = _together(frame, scores, left, working).degrees_of_freedom
    after = frame.covariance(meat) + (0.0 if retained is None else retained)
    return SmallSample.of(before, after, np.minimum(df, max(most, 1.0)), alone.sum(axis=0))


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
