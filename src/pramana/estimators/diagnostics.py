"""What the analyst should know about a root: its identification, its place, and the draws around it."""

from __future__ import annotations

import numpy as np

from pramana.inference import Root, Sample
from pramana.inference.identification import WEAK, weakest
from pramana.inference.resampling import Draws
from pramana.inference.sandwich import Linear
from pramana.result import Diagnostic

ROOTLESS_LIMIT = 0.01


def diagnostics_of(sample: Sample, root: Root, linear: Linear | None, draws: Draws | None) -> list[Diagnostic]:
    """Everything about a root that a table does not show."""
    found: list[Diagnostic] = []
    if root.path == "continuation":
        found.append(Diagnostic("continuation", "info", "Newton needed a continuation in the noise to find this root"))
    if linear is not None:
        if sample.equation.smooth:
            found += _identified(sample, root, linear)
        found += _privacy_sign(linear)
    found += _outside(sample, root)
    if hasattr(sample.equation, "notes"):
        found += [Diagnostic(*note) for note in sample.equation.notes(root.beta, sample.row_weights)]
    if draws is not None and draws.rootless:
        total = draws.rootless + len(draws.values)
        share = draws.rootless / total
        severity = "warning" if share > ROOTLESS_LIMIT else "info"
        message = f"{draws.rootless} of {total} resamples ({share:.1%}) have no root and were left out"
        found.append(Diagnostic("rootless", severity, message))  # type: ignore[arg-type]
    return found


def _identified(sample: Sample, root: Root, linear: Linear) -> list[Diagnostic]:
    judged = weakest(sample, root.beta, linear.totals.slope)
    if judged is None or judged.ratio >= WEAK:
        return []
    names = [repr(p) for p, v in zip(sample.equation.parameters, np.abs(judged.direction), strict=True) if v > 0.3]
    score = "" if getattr(sample.equation, "stacked", False) else "Sandwich(interval='score'), "
    remedy = f"use {score}more records or fewer terms"
    if judged.eigenvalue <= 0:
        message = f"the reverted variance along {', '.join(names)} is negative: estimate and standard errors mean nothing; {remedy}"
        return [Diagnostic("not-identified", "error", message)]
    message = (
        f"weak identification of {', '.join(names)} (smallest eigenvalue of the slope is {judged.ratio:.1f} of its standard "
        f"errors from zero; {WEAK:g} is the limit for Wald intervals): {remedy}"
    )
    return [Diagnostic("weakly-identified", "warning", message)]


def _privacy_sign(linear: Linear) -> list[Diagnostic]:
    values = np.linalg.eigvalsh((linear.privacy + linear.privacy.T) / 2)
    whole = linear.inverse @ linear.totals.outer @ linear.inverse.T
    if values[0] >= -1e-8 * max(float(np.diag(whole).max()), 1e-300):
        return []
    message = "the estimated privacy part of the variance is not positive semi-definite: read its shares with caution"
    return [Diagnostic("privacy-sign", "warning", message)]


def _outside(sample: Sample, root: Root) -> list[Diagnostic]:
    """A share outside [0, 1] is reported, not hidden: the estimator is unbiased, the sample is not the population."""
    limits = getattr(sample.equation, "plausible", None)
    if limits is None:
        return []
    low, high = limits
    out = [f"{p} = {b:.4g}" for p, b in zip(sample.equation.parameters, root.beta, strict=True) if not low <= b <= high]
    if not out:
        return []
    return [
        Diagnostic(
            "outside-range", "warning", f"{', '.join(out)} lies outside [{low:g}, {high:g}]: noise outweighs the data"
        )
    ]
