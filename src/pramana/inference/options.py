"""The two ways to a standard error, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pramana.errors import PramanaError, suggestion
from pramana.kernels.streams import LAWS


@dataclass(frozen=True)
class Sandwich:
    """Linearised variance `J⁻¹ (Σ φφᵀ) J⁻ᵀ`.

    Parameters
    ----------
    correction : None corrects for few records, clusters or units (HC2, CR2, with t intervals of as many degrees of freedom as
        each variance has), and leaves large samples as they are. "HC2" corrects these too. "HC0" (CR0 with clusters) and "HC1"
        (n/(n − d); with clusters G/(G − 1) · (n − 1)/(n − d)) are those of other programs, with normal intervals.
    interval : "auto" (by default), "wald", "score", "mid-p", "exact" or "lang-reiczigel". "score" inverts the score test and keeps its coverage
        under weak identification and near a boundary. "mid-p" and "exact" (Blaker's) are for shares and counts that are
        binomial, since a record can be released in one of two ways; exact ones cover at least their level, always. "auto" is
        mid-P for these (exact below 15 records), the score for the other shares of a table and for parameters whose signal
        is too faint for Wald's, and Wald's elsewhere. "lang-reiczigel" is for a share of a column with two levels whose
        transition matrix was measured.
    level : the level shown, and that of score intervals which are computed with the fit because they need the data; "auto"
        computes them at 0.90, 0.95 and 0.99 as well.
    """

    correction: Literal["HC0", "HC1", "HC2"] | None = None
    interval: Literal["auto", "wald", "score", "mid-p", "exact", "lang-reiczigel"] = "auto"
    level: float = 0.95

    def __post_init__(self) -> None:
        if self.correction not in (None, "HC0", "HC1", "HC2"):
            known = ["HC0", "HC1", "HC2"]
            raise PramanaError(f"correction {self.correction!r} is unknown: {suggestion(str(self.correction), known)}")
        _check_choice("interval", self.interval, ("auto", "wald", "score", "mid-p", "exact", "lang-reiczigel"))
        check_level(self.level)

    @property
    def tabled(self) -> tuple[float, ...]:
        """Levels at which "auto" computes score intervals beside its own, so that tables at the usual ones can be had."""
        return (0.9, 0.95, 0.99)

    @property
    def small_sample(self) -> bool:
        """Corrected for few units."""
        return self.correction in (None, "HC2")


@dataclass(frozen=True)
class Resampling:
    """Random-weight resampling: solve again under weights of mean 1 and variance 1 (Jin, Ying and Wei, 2001).

    Parameters
    ----------
    draws : number of resamples.
    weights : "exponential", "poisson" or "two-point".
    scale : "iqr" (interquartile range over 1.349, robust to heavy tails) or "sd".
    interval : "percentile" or "wald".
    seed : for repeatable draws; a fresh one is taken and recorded in the result otherwise.
    threads : threads that solve draws; the answer does not depend on them.
    widened : draws of few records, clusters or sampling units are too near to each other: they are spread, and their percentiles
        drawn out to t, as the sandwich of so few is. False leaves the draws as they are.
    device : "gpu" draws and solves on a GPU, through JAX, as `fit(device="gpu")` does all else too. Same draws, to 1e-8.
    id : a column of whole numbers or text that tells records apart, by which their draws go in place of their places in the file: for
        sources whose order may change, such as a query without one. Not with clusters, a design or frequencies.
    """

    draws: int = 500
    weights: Literal["exponential", "poisson", "two-point"] = "exponential"
    scale: Literal["iqr", "sd"] = "iqr"
    interval: Literal["percentile", "wald"] = "percentile"
    seed: int | None = None
    threads: int = 1
    widened: bool = True
    device: Literal["cpu", "gpu"] = "cpu"
    id: str | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.threads, int) and self.threads >= 1):
            raise PramanaError(f"threads={self.threads!r} must be a whole number of at least 1")
        if not (isinstance(self.draws, int) and self.draws >= 20):
            raise PramanaError(f"draws={self.draws!r} must be a whole number of at least 20; 500 is usual")
        if self.seed is not None and not isinstance(self.seed, int):
            raise PramanaError(f"seed={self.seed!r} must be a whole number, or None for a fresh one")
        _check_choice("weights", self.weights, tuple(LAWS))
        _check_choice("scale", self.scale, ("iqr", "sd"))
        _check_choice("interval", self.interval, ("percentile", "wald"))
        _check_choice("device", self.device, ("cpu", "gpu"))
        if self.id is not None and (not isinstance(self.id, str) or self.device == "gpu"):
            raise PramanaError(f"id={self.id!r} must be the name of a column, and goes with device='cpu'")


def _check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise PramanaError(f"{name}={value!r} is unknown: {suggestion(value, known)}")


def check_level(level: float) -> None:
    """Refuse levels such as 95."""
    if not (isinstance(level, int | float) and 0 < level < 1):
        raise PramanaError(f"level={level!r} must lie between 0 and 1: for a 95 % interval give 0.95")
