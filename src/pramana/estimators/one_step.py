"""One pass over records that are read in blocks: a Newton step from the root of a random sample of them.

With m records in the sample the step is of the order √(n/m) standard errors, and what a second one would add of the order n/m times a
standard error over √n: nothing that counts where m is much larger than √n. The sums of that pass, at the root of the sample, also make the
sandwich.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pramana.analysis.task import Inference
from pramana.arrays import Float
from pramana.engines import Engine, Totals
from pramana.engines.streaming import StreamEngine
from pramana.errors import PramanaError, SolveError, quoted_terms
from pramana.inference import Root, Sandwich, solve
from pramana.inference.sandwich import bread

ENOUGH = 10.0
"""Times √n, the records of a sample below which the step is warned of."""


DIRECT = "sums of all records give the root itself, without a Newton step; further ones its variance"
"""What is said of an equation with a direct solution."""


def one_pass(asked: Inference | None, engine: Engine) -> Sandwich:
    """The inference that one pass allows: the sandwich; after a step, which ends beside the root, with Wald's intervals."""
    about = engine.about
    if about.ranked:
        raise PramanaError(
            f"passes=1 takes a Newton step, and quantiles such as {quoted_terms(about.parameters[:1])} take none: a pass or two find where they lie, and "
            "two more ask for the records there. Leave passes= out"
        )
    if not about.smooth or about.averaged is not None:
        raise PramanaError(
            f"passes=1 takes a Newton step, and {quoted_terms(about.parameters[:3])} solve no smooth equation: leave passes= out"
        )
    if engine.sampling.replications:
        raise PramanaError(
            "passes=1 has the sandwich, and replicate weights have a root each, which take passes of their own: leave passes= out, or the replicate "
            "weights"
        )
    if asked is not None and not isinstance(asked, Sandwich):
        raise PramanaError("passes=1 has the sandwich and Wald's intervals: leave inference= out, or passes=")
    asked = asked or Sandwich()
    return asked if engine.equation.direct is not None else unsearched(asked)


def unsearched(asked: Sandwich) -> Sandwich:
    """The same with intervals that need no search for their ends, a pass for every step."""
    if asked.interval == "score":
        raise PramanaError(
            "passes=1 has the sandwich and Wald's intervals, and score intervals are searched in many passes: use Sandwich(interval='wald'), or "
            "leave passes= out"
        )
    return replace(asked, interval="wald") if asked.interval == "auto" else asked


def one_step(engine: StreamEngine, given: Float | None) -> tuple[Root, Mapping[str, str]]:
    """The root after one step, and what is to be said of it; `given` is where the search in the sample starts, if not of itself."""
    assert engine.few is not None
    try:
        start = solve(engine.few, start=given).beta
    except SolveError as error:
        raise SolveError(
            f"passes=1 takes a Newton step from the root of {engine.few.sampling.rows} random records, which was not found: {error.marked}; or leave "
            "passes= out"
        ) from None
    totals = engine.totals(start)
    inverse = bread(totals, engine.about.parameters)
    beta = start - inverse @ totals.score
    engine.kept.keep(beta, _at_root(totals))
    errors = np.sqrt(np.diag(inverse @ totals.meat @ inverse.T))
    moved = ", ".join(
        f"{name} {step:+.2g}" for name, step in zip(engine.about.parameters, (beta - start) / errors, strict=True)
    )
    m, n = engine.few.sampling.rows, engine.sampling.rows
    enough = (
        "" if m >= ENOUGH * np.sqrt(n) else f", too few: they should be much more than √n, {ENOUGH:g} times at least"
    )
    facts = {
        "Passes": f"1, a Newton step from the root of {m} random records (√n = {np.sqrt(n):.4g}{enough})",
        "Step": f"{moved} standard errors",
    }
    return Root(beta, 0.0, 1, "one step"), facts


def _at_root(totals: Totals) -> Totals:
    """The sums that the variance of the step is made of: those of the pass, around their mean, which the step has taken away."""
    score, n = totals.score, totals.n
    own = np.outer(score, score) / n
    clusters = totals.clusters
    if clusters is not None:
        clusters = clusters - score / len(clusters)
    return replace(
        totals,
        score=np.zeros_like(score),
        outer=totals.outer - own,
        clean_outer=totals.clean_outer - own,
        clusters=clusters,
    )
