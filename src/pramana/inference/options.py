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
    correction : None (HC0, CR0 with clusters) or "HC1" (n/(n − d); with clusters G/(G − 1) · (n − 1)/(n − d)).
    interval : "wald", or "score", which inverts the score test and keeps its coverage under weak identification, or
        "lang-reiczigel", for a share of a column with two levels whose transition matrix was measured.
    level : the level of score intervals, which are computed with the fit because they need the data.
    """

    correction: Literal["HC0", "HC1"] | None = None
    interval: Literal["wald", "score", "lang-reiczigel"] = "wald"
    level: float = 0.95

    def __post_init__(self) -> None:
        if self.correction not in (None, "HC0", "HC1"):
            raise PramanaError(
                f"correction {self.correction!r} is unknown: {suggestion(str(self.correction), ['HC0', 'HC1'])}"
            )
        _check_choice("interval", self.interval, ("wald", "score", "lang-reiczigel"))
        check_level(self.level)


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
    """

    draws: int = 500
    weights: Literal["exponential", "poisson", "two-point"] = "exponential"
    scale: Literal["iqr", "sd"] = "iqr"
    interval: Literal["percentile", "wald"] = "percentile"
    seed: int | None = None
    threads: int = 1

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


def _check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise PramanaError(f"{name}={value!r} is unknown: {suggestion(value, known)}")


def check_level(level: float) -> None:
    """Refuse levels such as 95."""
    if not (isinstance(level, int | float) and 0 < level < 1):
        raise PramanaError(f"level={level!r} must lie between 0 and 1: for a 95 % interval give 0.95")
