"""What an analyst should know about a root that no table shows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pramana.diagnostic import Diagnostic
from pramana.engines import Engine
from pramana.estimating.equation import About
from pramana.estimating.rounding import ROUNDING
from pramana.estimators.uncertainty import RootUncertainty
from pramana.inference import Root, Sandwich
from pramana.inference.few_units import SmallSample
from pramana.inference.resampling import Draws
from pramana.inference.sandwich import Linear
from pramana.inference.weak_intervals import weakness
from pramana.inference.woodruff import Inverted, open_ended
from pramana.parameters.quantiles import EXTREME
from pramana.result import Result

ROOTLESS_LIMIT = 0.01
"""Share of resamples without a root from which they are a warning."""

FEW_CLUSTERS = 40
"""Below this the sandwich of cluster sums is too small: with 8 clusters its 95 % intervals cover about 77 to 87 %."""

TOO_FEW_CLUSTERS = 5
"""Below this even t intervals lean on cluster totals that are about normal."""
STEADIER = "method='stabilized', which is steadier under strong noise (0.59 to 0.99 of reversion's error at keep up to 0.65 in study d1)"
NOTHING_RANDOM = Diagnostic(
    "no-randomisation",
    "warning",
    "around the file only the randomisation is uncertain, and no perturbed column is used here: the standard errors are zero "
    "and tests mean nothing; use target='superpopulation' or 'finite'",
)
EXACT_FIT = Diagnostic(
    "exact-fit",
    "info",
    "every record lies on the fit, up to rounding: the standard errors are zero and tests mean nothing",
)


def remarks(
    engine: Engine, root: Root, found: RootUncertainty, *, split: bool, steadier: bool = False
) -> list[Diagnostic]:
    """Everything about a root and its uncertainty; `split` where its variance is that of the sample and of the randomisation, `steadier` where
    method 'stabilized' answers the same question."""
    names, linear = engine.about.parameters, found.linear
    weak = [] if found.judged is None else weakness(engine, found.judged, found.limits)
    return [
        *_of_the_root(engine, root, found, split=split),
        *([replace(note, message=f"{note.message}, or {STEADIER}") for note in weak] if steadier else weak),
        *_nothing_random(found),
        *found.own.remarks(names),
        *_mute(engine, found),
        *_few_units(engine, found),
        *(open_ended(names, linear.limits) if isinstance(linear, Inverted) else []),
        *_resting_on_one(engine, found.small),
    ]


def _nothing_random(found: RootUncertainty) -> list[Diagnostic]:
    if not found.known or found.linear is None:
        return []
    return [NOTHING_RANDOM if np.any(found.linear.totals.outer) else EXACT_FIT]


def _of_the_root(engine: Engine, root: Root, found: RootUncertainty, *, split: bool) -> list[Diagnostic]:
    """Its path, its place, and the draws around it."""
    out: list[Diagnostic] = []
    if root.path == "continuation":
        out.append(Diagnostic("continuation", "info", "Newton needed a continuation in the noise to find this root"))
    if found.linear is not None and split:
        out += _privacy_sign(found.linear, engine.about)
    out += _outside(engine, root)
    of_the_equation = [Diagnostic(*note) for note in engine.remarks(root.beta, found.large)]  # type: ignore[arg-type]
    out += [note for note in of_the_equation if not _settled(note, found.linear)]
    return out + ([] if found.draws is None else _rootless(found.draws))


def _rootless(draws: Draws) -> list[Diagnostic]:
    if not draws.rootless:
        return []
    total = draws.rootless + len(draws.values)
    share = draws.rootless / total
    severity = "warning" if share > ROOTLESS_LIMIT else "info"
    message = f"{draws.rootless} of {total} resamples ({share:.1%}) have no root and were left out"
    return [Diagnostic("rootless", severity, message)]  # type: ignore[arg-type]


def _privacy_sign(linear: Linear, about: About) -> list[Diagnostic]:
    """Of the parameters that are shown: nuisance has no share to be read."""
    kept = [k for k, name in enumerate(about.parameters) if about.shown is None or name in about.shown]
    privacy = linear.privacy[np.ix_(kept, kept)]
    values = np.linalg.eigvalsh((privacy + privacy.T) / 2)
    whole = linear.inverse @ linear.totals.outer @ linear.inverse.T
    if values[0] >= -1e-8 * max(float(np.diag(whole).max()), 1e-300):
        return []
    message = "the estimated privacy part of the variance is not positive semi-definite: read its shares with caution"
    return [Diagnostic("privacy-sign", "warning", message)]


def _outside(engine: Engine, root: Root) -> list[Diagnostic]:
    """A share outside [0, 1] is reported, not hidden: the estimator is unbiased, the sample is not the population."""
    limits = engine.about.plausible
    if limits is None:
        return []
    low, high = limits
    reach = ROUNDING * max(abs(low), abs(high))
    beyond = (root.beta < low - reach) | (root.beta > high + reach)
    out = [f"{p} = {b:.4g}" for p, b, o in zip(engine.about.parameters, root.beta, beyond, strict=True) if o]
    if not out:
        return []
    return [
        Diagnostic(
            "outside-range", "warning", f"{', '.join(out)} lies outside [{low:g}, {high:g}]: noise outweighs the data"
        )
    ]


def _settled(found: Diagnostic, linear: Linear | None) -> bool:
    """Errors that are too small beyond the last records are those of draws and deletions; an inverted interval is wide there."""
    return isinstance(linear, Inverted) and found.code == EXTREME


def few_clusters(groups: int | None, remedy: str) -> list[Diagnostic]:
    """For a sandwich with large-sample intervals."""
    if groups is None or groups >= FEW_CLUSTERS:
        return []
    message = f"a sandwich of {groups} clusters (fewer than {FEW_CLUSTERS}) is too small and its intervals cover too little: {remedy}"
    return [Diagnostic("few-clusters", "warning", message)]


def too_few_clusters(groups: int | None) -> list[Diagnostic]:
    """For intervals that know how few clusters there are."""
    if groups is None or groups >= TOO_FEW_CLUSTERS:
        return []
    message = (
        f"{groups} clusters (fewer than {TOO_FEW_CLUSTERS}) say little about how clusters differ: intervals are wide, and hold only if totals "
        "of clusters are about normal; name smaller units as clusters if these are independent"
    )
    return [Diagnostic("few-clusters", "warning", message)]


def _few_units(engine: Engine, found: RootUncertainty) -> list[Diagnostic]:
    chosen = found.chosen
    if engine.sampling.strata is not None:
        return []
    if isinstance(chosen, Sandwich) and not chosen.small_sample:
        return few_clusters(engine.sampling.live_groups, "use inference=pr.Sandwich(), whose intervals are those of t")
    return too_few_clusters(engine.sampling.live_groups)


def _mute(engine: Engine, found: RootUncertainty) -> list[Diagnostic]:
    names = [repr(p) for p, mute in zip(engine.about.parameters, found.mute, strict=True) if mute]
    if not names:
        return []
    message = (
        f"every released record says the same of {', '.join(names[:5])}, which noise makes all but impossible: no standard error is "
        "given; is this the mechanism by which the records were perturbed, and are they all there?"
    )
    return [Diagnostic("no-variation", "error", message)]


def _resting_on_one(engine: Engine, small: SmallSample | None) -> list[Diagnostic]:
    """Coefficients that a single unit determines, as a dummy does that is 1 in one cluster only."""
    if small is None or not small.alone.any():
        return []
    found = [repr(p) for p, alone in zip(engine.about.parameters, small.alone, strict=True) if alone]
    names = ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
    unit = "cluster" if engine.sampling.clustered else "record"
    message = (
        f"one {unit} alone determines {names}, and its residuals say nothing about the error: no standard error is given; the "
        "other rows are not affected"
    )
    return [Diagnostic("one-unit", "warning", message)]


def wholly_outside(engine: Engine, result: Result) -> list[Diagnostic]:
    """An interval without a possible value is no accident of the noise, or hardly ever."""
    limits, shares = engine.about.plausible, result.shares
    if limits is None and shares is not None:
        limits = (0.0, shares.total)
    if limits is None or limits[0] <= result.estimate.min() <= result.estimate.max() <= limits[1]:
        return []
    (low, high), size = limits, 1.0 if engine.about.size is None or shares is not None else engine.about.size
    ends = result.interval()
    beyond = (ends[:, 1] < low * size) | (ends[:, 0] > high * size)
    names = [f"{p} ({a:.4g} to {b:.4g})" for p, (a, b), o in zip(result.parameters, ends, beyond, strict=True) if o]
    if not names:
        return []
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    message = (
        f"the whole interval of {', '.join(names[:5])}{more} lies outside [{low * size:g}, {high * size:g}], which chance seldom does: is this the "
        "mechanism by which the records were perturbed, and are they all there?"
    )
    return [Diagnostic("interval-outside", "warning", message)]
