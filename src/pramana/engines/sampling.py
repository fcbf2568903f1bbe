"""How the records were sampled: weights, counts, clusters, strata, replicate weights, and the draws that repeat it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from pramana.arrays import Bool, Float, Int
from pramana.errors import DataError, PramanaError
from pramana.kernels.streams import multipliers, uniforms

Target: TypeAlias = Literal["superpopulation", "finite", "file"]


@dataclass(frozen=True)
class Stratification:
    """A survey design as codes.

    Attributes
    ----------
    stratum : (G,), stratum of each primary sampling unit.
    fraction : (H,), sampling fraction of each stratum, zero without a finite population correction.
    target : what the standard error is around.
    """

    stratum: Int
    fraction: Float
    target: Target

    @property
    def sizes(self) -> Int:
        """Units in each stratum (H,)."""
        return np.bincount(self.stratum, minlength=len(self.fraction))

    def degrees_of_freedom(self, units: Int, weights: Float) -> float | None:
        """Units less strata among records (unit codes and weights, (n,)) of positive weight.

        None around the file, where the randomisation alone counts, drawn anew for every record.
        """
        if self.target == "file":
            return None
        present = np.bincount(units[weights > 0], minlength=len(self.stratum)) > 0
        found = int(present.sum()) - len(np.unique(self.stratum[present]))
        if found < 1:
            raise DataError(
                "the records in use leave no stratum with two sampling units, so there are no degrees of freedom: merge "
                "strata, or use more records"
            )
        return float(found)

    def between(self, sums: Float) -> Float:
        """Σ_h (1 − f_h) n_h/(n_h − 1) Σ_c (z_hc − z̄_h)(z_hc − z̄_h)ᵀ for unit sums z (G, d)."""
        shrink = (1 - self.fraction) if self.target == "finite" else np.ones(len(self.fraction))
        factor = (shrink * self.sizes / (self.sizes - 1))[self.stratum]
        centred = sums - self.means(sums)[self.stratum]
        return np.asarray((centred * factor[:, None]).T @ centred)

    def means(self, sums: Float) -> Float:
        """Mean of the unit sums in each stratum (H, d)."""
        totals = np.zeros((len(self.fraction), sums.shape[1]))
        np.add.at(totals, self.stratum, sums)
        return np.asarray(totals / self.sizes[:, None])

    def rao_wu(self, seed: int, draws: Int) -> Float:
        """Multipliers of the units (draws, G): n_h − 1 of a stratum's n_h units drawn with replacement, rescaled to mean 1.

        Unlike independent multipliers they are centred within strata, so that few units a stratum do not inflate the
        variance.
        """
        if self.target != "superpopulation":
            raise PramanaError(
                f"Resampling knows no finite population correction: use Sandwich() for target={self.target!r}"
            )
        out = np.zeros((len(draws), len(self.stratum)))
        u = uniforms(seed, draws, np.arange(len(self.stratum)))
        for h, size in enumerate(self.sizes):
            members = np.flatnonzero(self.stratum == h)
            picked = members[(u[:, members[:-1]] * size).astype(np.int64)]
            for column in picked.T:
                np.add.at(out, (np.arange(len(draws)), column), size / (size - 1))
        return out


def product(rows: int, *factors: Float | None) -> Float:
    """The product (n,) of those weights and counts that are given."""
    out: Float | None = None
    for factor in factors:
        if factor is not None:
            out = factor if out is None else out * factor
    return np.ones(rows) if out is None else out


@dataclass(frozen=True)
class Sampling:
    """What is known of each record besides its values.

    Attributes
    ----------
    rows : number of records at hand.
    weights : sampling weights (n,), squared in a variance; or None.
    frequencies : counts (n,), each standing for so many equal records; or None.
    clusters : codes 0 … G − 1 (n,), or None; under a design its sampling units.
    strata : the design of the clusters and what the standard error is around, or None.
    replicates : weights (R, n) published to replace `weights` one at a time; or None.
    replicate_scale : the factor of each replicate's squared difference; None for 1/R.
    sharing : codes 0 … G − 1 (n,) of the persons whose records share one draw of the noise; None where each has its own.
    keys : numbers (n,) by which the records' weights are drawn; None where these go by the places of records.
    crossed : codes (2, n) of two columns of clusters whose combinations `clusters` are; None for one column.
    """

    rows: int
    weights: Float | None = None
    frequencies: Float | None = None
    clusters: Int | None = None
    strata: Stratification | None = None
    replicates: Float | None = None
    replicate_scale: float | Sequence[float] | None = None
    sharing: Int | None = None
    keys: Int | None = None
    crossed: Int | None = None

    @property
    def ways(self) -> tuple[Sampling, Sampling, Sampling]:
        """Of crossed clusters: with those of the first column, of the second, and their combinations."""
        assert self.crossed is not None
        first, second = (replace(self, clusters=codes, crossed=None) for codes in self.crossed)
        return first, second, replace(self, crossed=None)

    @property
    def n(self) -> float:
        """Number of records that the rows stand for."""
        return float(self.rows if self.frequencies is None else self.frequencies.sum())

    @cached_property
    def row_weights(self) -> Float:
        """Weights of the rows in a sum."""
        return product(self.rows, self.weights, self.frequencies)

    @property
    def square_weights(self) -> Float:
        """Weights of the rows in a variance: w² for sampling weights, counts as they are."""
        if self.weights is None:
            return self.row_weights
        return product(self.rows, self.weights, self.weights, self.frequencies)

    @property
    def total(self) -> float:
        """The sum of the row weights."""
        return float(self.row_weights.sum())

    @property
    def fractions(self) -> Float:
        """The sampling fraction of each row's stratum (n,)."""
        assert self.strata is not None
        assert self.clusters is not None
        return self.strata.fraction[self.strata.stratum[self.clusters]]

    def cut(self, rows: slice) -> Sampling:
        """Of some of the rows; codes stay those of all."""
        weights, counts = (None if v is None else v[rows] for v in (self.weights, self.frequencies))
        clusters, sharing, keys = (None if v is None else v[rows] for v in (self.clusters, self.sharing, self.keys))
        replicates = None if self.replicates is None else self.replicates[:, rows]
        size = len(range(*rows.indices(self.rows)))
        return Sampling(size, weights, counts, clusters, self.strata, replicates, self.replicate_scale, sharing, keys)

    @property
    def plain(self) -> bool:
        """Every record counts once."""
        return self.weights is None and self.frequencies is None

    @property
    def clustered(self) -> bool:
        """Records depend on each other."""
        return self.clusters is not None

    @property
    def replications(self) -> int:
        """How many weights were published to replace the sample's own."""
        return 0 if self.replicates is None else len(self.replicates)

    @property
    def simple(self) -> bool:
        """The records are so many independent draws, of which each counts once."""
        return self.weights is None and not self.clustered and self.strata is None and not self.replications

    @property
    def pseudo(self) -> bool:
        """Weights or clusters, with which a likelihood of the records is a pseudo-likelihood."""
        return self.weights is not None or self.clustered

    @property
    def present(self) -> float:
        """Records whose weight is not zero; where there are counts, the records that they stand for."""
        return self.n if self.frequencies is not None else float(np.count_nonzero(self.row_weights))

    @property
    def square_worth(self) -> float:
        """(Σw²)² / Σw⁴: how many records a sum of squared weights rests on."""
        squares, counts = self.square_weights, self.frequencies
        fourth = np.sum(squares**2 if counts is None else squares**2 / np.maximum(counts, 1))
        return float(squares.sum() ** 2 / fourth)

    @property
    def counted(self) -> float:
        """Records of positive weight."""
        if self.plain:
            return float(self.rows)
        counts = np.ones(self.rows) if self.frequencies is None else self.frequencies
        return float(counts[self.row_weights > 0].sum())

    @property
    def effective_n(self) -> float:
        """Records of equal weight that are worth as much, (Σw)² / Σw²: the counts themselves where there are only counts."""
        return float(self.row_weights.sum() ** 2 / self.square_weights.sum())

    @cached_property
    def groups(self) -> int | None:
        """Clusters; under a design its units, also those of which no record is left."""
        if self.strata is not None:
            return len(self.strata.stratum)
        return None if self.clusters is None else int(self.clusters.max()) + 1

    @property
    def live_groups(self) -> int | None:
        """Clusters with a record of positive weight."""
        return None if self.clusters is None else len(np.unique(self.clusters[self.row_weights > 0]))

    @property
    def degrees_of_freedom(self) -> float | None:
        """Of a design: sampling units less strata; None without one."""
        if self.strata is None or self.clusters is None:
            return None
        return self.strata.degrees_of_freedom(self.clusters, self.row_weights)

    def thinned(self, step: int) -> Sampling:
        """Weights and counts of every step-th record."""
        weights, counts = (None if v is None else v[::step] for v in (self.weights, self.frequencies))
        return Sampling(len(range(0, self.rows, step)), weights, counts)

    @property
    def weighing(self) -> Sampling:
        """Of the records with a positive weight; of all under a design, whose units count without records too."""
        live = self.live
        if live.all():
            return self
        weights, counts = (None if v is None else v[live] for v in (self.weights, self.frequencies))
        clusters, sharing = (
            None if v is None else np.unique(v[live], return_inverse=True)[1] for v in (self.clusters, self.sharing)
        )
        return replace(
            self,
            rows=int(live.sum()),
            weights=weights,
            frequencies=counts,
            clusters=clusters,
            sharing=sharing,
            keys=None if self.keys is None else self.keys[live],
        )

    @property
    def live(self) -> Bool:
        """Which records `weighing` keeps (n,)."""
        return np.ones(self.rows, dtype=bool) if self.strata is not None else self.row_weights > 0

    def drawn(self, law: str, seed: int, draws: Int, *, sums: bool) -> Float:
        """Random row weights (draws, n): one multiplier a record, or one a cluster; counts draw the law of their sum.

        Multipliers of sums have mean 1 in every draw: the number of sampled units is fixed.
        """
        if self.clusters is not None and self.strata is not None:
            return self.strata.rao_wu(seed, draws)[:, self.clusters] * self.row_weights
        if self.clusters is not None:
            by_cluster = multipliers(law, seed, draws, np.arange(self.groups or 0))
            if sums:
                by_cluster = _mean_one(by_cluster, by_cluster.shape[1])
            return by_cluster[:, self.clusters] * self.row_weights
        counts = self.frequencies
        places = np.arange(self.rows) if self.keys is None else self.keys
        drawn = multipliers(law, seed, draws, places, None if counts is None else np.maximum(counts, 1))
        if counts is not None:
            drawn = np.where(counts > 0, drawn, 0.0)  # a sum over no records
        if sums:
            drawn = _mean_one(drawn, self.n)
        return drawn if self.weights is None else drawn * self.weights

    def deletions(self, *, sums: bool) -> Deletions:
        """The units that a jackknife leaves out one at a time."""
        if self.strata is not None:
            assert self.clusters is not None
            stratum, finite = self.strata.stratum, self.strata.target == "finite"
            fraction = self.strata.fraction if finite else np.zeros(len(self.strata.fraction))
            return Deletions(self.row_weights, self.clusters, stratum, np.ones(len(stratum)), fraction)
        rows = self.clusters is None
        unit = np.arange(self.rows) if self.clusters is None else self.clusters
        count = int(unit.max()) + 1
        copies = np.ones(count) if self.frequencies is None or not rows else self.frequencies
        if rows and not sums:
            copies = np.where(self.row_weights > 0, copies, 0.0)
        return Deletions(self.row_weights, unit, np.zeros(count, dtype=np.int64), copies, np.zeros(1))


@dataclass(frozen=True)
class SampledSums:
    """What sums over all records tell of their weights; those of two parts add.

    Attributes
    ----------
    rows, n : rows, and records that they stand for.
    total, squares, fourth : Σw, Σw² and Σw⁴, counts taken for so many equal records.
    counted, present : as in `Sampling`.
    """

    rows: int = 0
    n: float = 0.0
    total: float = 0.0
    squares: float = 0.0
    fourth: float = 0.0
    counted: float = 0.0
    present: float = 0.0

    @classmethod
    def of(cls, s: Sampling) -> SampledSums:
        if s.plain:
            return cls(s.rows, *(6 * [float(s.rows)]))
        squares = s.square_weights
        fourth = np.sum(squares**2 if s.frequencies is None else squares**2 / np.maximum(s.frequencies, 1))
        return cls(s.rows, s.n, s.total, float(squares.sum()), float(fourth), s.counted, s.present)

    def __add__(self, other: SampledSums) -> SampledSums:
        return SampledSums(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True)
class StreamedSampling(Sampling):
    """The sampling of records that are not at hand: arrays are those of a block, and here is what all of them tell.

    Attributes
    ----------
    sums : of the weights.
    given : which of weights, frequencies, clusters and replicates there are.
    units : clusters, or sampling units of a design.
    live : units with a record of positive weight (G,).
    published : replicate weights that each record has.
    """

    sums: SampledSums = SampledSums()
    given: frozenset[str] = frozenset()
    units: int | None = None
    live_units: Bool | None = None
    published: int = 0

    @property
    def n(self) -> float:
        return self.sums.n

    @property
    def total(self) -> float:
        return self.sums.total

    @property
    def plain(self) -> bool:
        return not self.given & {"weights", "frequencies"}

    @property
    def clustered(self) -> bool:
        return self.units is not None

    @property
    def simple(self) -> bool:
        return "weights" not in self.given and not self.clustered and not self.replications

    @property
    def pseudo(self) -> bool:
        return "weights" in self.given or self.clustered

    @property
    def replications(self) -> int:
        return self.published

    @property
    def counted(self) -> float:
        return self.sums.counted

    @property
    def present(self) -> float:
        return self.sums.present

    @property
    def square_worth(self) -> float:
        return self.sums.squares**2 / self.sums.fourth

    @property
    def effective_n(self) -> float:
        return self.sums.total**2 / self.sums.squares

    @property
    def weighing(self) -> StreamedSampling:
        if self.strata is not None:
            return self
        live = self.live_units
        units = None if live is None else int(live.sum())
        return replace(
            self,
            sums=replace(self.sums, n=self.sums.counted),
            units=units,
            live_units=None if live is None else live[live],
        )

    @property
    def groups(self) -> int | None:
        return self.units

    @property
    def live_groups(self) -> int | None:
        return None if self.live_units is None else int(self.live_units.sum())

    @property
    def degrees_of_freedom(self) -> float | None:
        if self.strata is None or self.live_units is None:
            return None
        present = np.flatnonzero(self.live_units)
        return self.strata.degrees_of_freedom(present, np.ones(len(present)))


def _mean_one(law: Float, units: float) -> Float:
    """Multipliers whose sum over the units is their number; NaN where all were zero, a draw without a root."""
    sums = law.sum(axis=1, keepdims=True)
    return law * np.divide(units, sums, out=np.full_like(sums, np.nan), where=sums > 0)


@dataclass(frozen=True)
class Deletions:
    """Which units can be left out.

    Attributes
    ----------
    row_weights : (n,).
    unit : (n,), of each row.
    stratum : (G,), of each unit.
    copies : (G,), equal units that it stands for: the frequency of a row, else 1.
    fraction : (H,), share of each stratum's population that was sampled, where the variance is around that population.
    """

    row_weights: Float
    unit: Int
    stratum: Int
    copies: Float
    fraction: Float

    def __len__(self) -> int:
        return len(self.stratum)

    @property
    def sizes(self) -> Float:
        """Units in each stratum (H,)."""
        return np.asarray(np.bincount(self.stratum, weights=self.copies, minlength=len(self.fraction)), dtype=float)

    @property
    def shares(self) -> Float:
        """Factor of each unit's squared difference (G,)."""
        share = (1 - self.fraction) * (self.sizes - 1) / self.sizes
        return np.asarray(share[self.stratum] * self.copies)

    def weights(self, deleted: Int) -> Float:
        """Row weights (m, n): the deleted unit's rows lose one copy, its stratum is weighted up to the size that it had."""
        up = (self.sizes / (self.sizes - 1))[self.stratum[deleted]][:, None]
        left = np.maximum(self.copies - 1, 0) / np.maximum(self.copies, 1)
        same = self.stratum[self.unit][None, :] == self.stratum[deleted][:, None]
        own = self.unit[None, :] == deleted[:, None]
        kept = np.where(same, up, 1.0) * np.where(own, left[deleted][:, None], 1.0)
        return np.asarray(kept * self.row_weights)
