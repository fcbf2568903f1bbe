"""Survey designs: strata, clusters, finite populations, and what a standard error is around."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pramana.arrays import Column, Float, Int
from pramana.engines.sampling import Stratification, Target
from pramana.errors import DataError, PramanaError, quoted, suggestion
from pramana.inference.options import Sandwich

TARGETS = ("superpopulation", "finite", "file")


@dataclass(frozen=True)
class SurveyDesign:
    """How the records were sampled; columns by name, or arrays.

    Parameters
    ----------
    weights : sampling weights.
    strata, clusters : strata and primary sampling units; cluster labels are taken within strata (`nest=TRUE` in R).
    fpc : finite population correction: units in the population of each record's stratum, or its sampling fraction. Used
        around the finite population alone.
    target : what the standard error is around: the "superpopulation" that the finite population came from, the "finite"
        population, or the confidential "file" (what it would have given: only the randomisation is then uncertain). The
        randomisation's share of the variance never shrinks with the finite population correction.
    replicate_weights : columns of weights that replace `weights` one at a time, as published with the file.
    replicate_scale : the factor of the squared differences from the full estimate, one for all R replicates or one for each;
        1/R by default, as for balanced repeated replication and the bootstrap.

    >>> SurveyDesign(weights="w", strata="region", clusters="village").target
    'superpopulation'
    """

    weights: Any = None
    strata: Any = None
    clusters: Any = None
    fpc: Any = None
    target: Target = "superpopulation"
    replicate_weights: Sequence[Any] = field(default=())
    replicate_scale: float | Sequence[float] | None = None

    def __post_init__(self) -> None:
        if self.target not in TARGETS:
            raise PramanaError(f"target={self.target!r} is unknown: {suggestion(str(self.target), TARGETS)}")
        if self.target == "finite" and self.fpc is None:
            raise PramanaError(
                "target='finite' needs fpc=: the size of each stratum's population, or its sampling fraction"
            )
        if len(self.replicate_weights):
            self._check_replicates()
        elif self.replicate_scale is not None:
            raise PramanaError("replicate_scale is the factor of replicate_weights, and there are none: leave it out")

    def _check_replicates(self) -> None:
        if isinstance(self.replicate_weights, str):
            raise PramanaError(
                f"replicate_weights={self.replicate_weights!r} must be a list of columns, one a replicate"
            )
        if self.strata is not None or self.clusters is not None or self.fpc is not None:
            raise PramanaError("replicate_weights carry the strata, clusters and fpc already: leave those out")
        if self.target != "superpopulation":
            raise PramanaError(
                f"replicate_weights bring their own target, so target={self.target!r} cannot be had from them: leave it out, or "
                "leave replicate_weights out"
            )
        if self.weights is None:
            raise PramanaError("replicate_weights replace weights= one at a time: give those as well")
        _check_scale(self.replicate_scale, len(self.replicate_weights))


def _check_scale(scale: float | Sequence[float] | None, count: int) -> None:
    if count < 2:
        raise PramanaError("1 column of replicate_weights shows no variance: give all that were published")
    try:
        values = np.asarray(1.0 if scale is None else scale, dtype=float)
    except (TypeError, ValueError):
        values = np.full(1, np.nan)
    if values.shape not in ((), (count,)) or not np.all((values > 0) & np.isfinite(values)):
        raise PramanaError(
            f"replicate_scale={scale!r} must be one positive number, or one for each of the {count} replicates"
        )


def stratified(
    strata: Column | None, clusters: Column | None, fpc: Column | None, target: Target, n: int
) -> tuple[Int, Stratification]:
    """Unit codes (n,) and the stratification; strata with a single unit are refused, for they show no variance."""
    import pandas as pd

    stratum_codes, stratum_names = pd.factorize(np.zeros(n) if strata is None else strata)
    label = np.arange(n) if clusters is None else pd.factorize(clusters)[0]
    units = np.asarray(pd.factorize(stratum_codes * n + label)[0], dtype=np.int64)  # n exceeds every label
    first = np.unique(units, return_index=True)[1]
    stratum = np.asarray(stratum_codes, dtype=np.int64)[first]
    sizes = np.bincount(stratum, minlength=len(stratum_names))
    lonely = [str(name) for name, size in zip(stratum_names, sizes, strict=True) if size < 2]
    if lonely and strata is None:
        raise DataError(
            "all records are in a single sampling unit, which shows no variance: name smaller units as clusters"
        )
    if lonely:
        raise DataError(
            f"{len(lonely)} of {len(sizes)} strata hold a single sampling unit ({quoted(', '.join(lonely[:5]))}), which shows no variance: "
            "merge each with a stratum like it, or, where it was sampled with certainty, make its records the units"
        )
    return units, Stratification(stratum, _fractions(fpc, stratum_codes, sizes, stratum_names), target)


def _fractions(fpc: Column | None, codes: Any, sizes: Int, names: Any) -> Float:
    if fpc is None:
        return np.zeros(len(sizes))
    try:
        values = np.asarray(fpc, dtype=float)
    except (TypeError, ValueError):
        raise DataError("fpc must hold numbers: population sizes, or sampling fractions") from None
    first = np.unique(np.asarray(codes), return_index=True)[1]
    own = values[first]
    astray = np.flatnonzero(values != own[np.asarray(codes)])
    if astray.size:
        where, here = codes[astray[0]], values[astray[0]]
        raise DataError(
            f"fpc differs within a stratum ({quoted(f'{own[where]:g} and {here:g} in {names[where]}')}): give one population size or fraction "
            "for each stratum"
        )
    if np.any(own <= 0) or not np.all(np.isfinite(own)):
        raise DataError(f"fpc holds {quoted(f'{own.min():g}')}: population sizes and fractions are positive")
    fractions = np.where(own <= 1, own, sizes / own)
    if np.any(fractions > 1):
        worst = int(np.argmax(fractions))
        raise DataError(
            f"a stratum ({quoted(str(names[worst]))}) has {sizes[worst]} sampling units but fpc says that its population has {quoted(f'{own[worst]:g}')}: "
            "count sampling units there, not records or people"
        )
    return np.asarray(fractions)


def refuse_correction(options: Sandwich) -> None:
    """A design's variance has its finite-sample factor in every stratum already."""
    if options.correction == "HC1":
        raise PramanaError(
            f"correction={options.correction!r} would come on top of the design's own n/(n - 1) within strata: use Sandwich()"
        )


def refuse_step_target(design: Stratification) -> None:
    """Draws and deletions of a step function are around the superpopulation alone."""
    if design.target != "superpopulation":
        raise PramanaError(
            f"target={design.target!r} cannot be had for step functions in this way: resampling knows no finite population, and "
            "linearisation needs a derivative. Leave inference= out for quantiles, which take Woodruff(); use target='superpopulation', "
            "whose standard errors are not smaller, or a smooth relative: quantile_regression('y ~ 1', q), or the proportion below a fixed "
            "value"
        )
