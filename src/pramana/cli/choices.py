"""From the options of the analysis commands to the values that the library takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pramana.errors import DataError, PramanaError, listing, suggestion

INFERENCES = ("sandwich", "resampling", "jackknife", "woodruff")


def names(text: str | None) -> list[str]:
    """Names divided by commas."""
    return [] if text is None else [name.strip() for name in text.split(",") if name.strip()]


def resampling_options(text: str | None) -> dict[str, Any]:
    """Further options of resampling, as "scale=sd,weights=poisson,id=person"."""
    kinds: dict[str, Callable[[str], Any]] = {
        "weights": str,
        "scale": str,
        "id": str,
        "threads": int,
        "widened": lambda v: {"yes": True, "no": False}[v],
    }
    out: dict[str, Any] = {}
    for pair in names(text):
        name, _, value = pair.partition("=")
        if name not in kinds:
            raise PramanaError(
                f"--resampling {pair!r} is unknown: {suggestion(name, kinds)}, as in scale=sd,widened=no"
            )
        try:
            out[name] = kinds[name](value)
        except (ValueError, KeyError):
            wanted = "yes or no" if name == "widened" else "a whole number"
            raise PramanaError(f"--resampling {pair!r}: {name} must be {wanted}") from None
    return out


def numbers(text: str | None, option: str) -> list[float] | None:
    """Numbers divided by commas."""
    if text is None:
        return None
    try:
        return [float(part) for part in names(text)]
    except ValueError:
        raise PramanaError(f"{option} {text!r} must be numbers divided by commas, as 0.5,-1,2") from None


def mechanism_of(value: str) -> str | None:
    return None if value.lower() == "none" else value


def family_of(family: str | None, dispersion: float | None) -> Any:
    from pramana.estimating.families import negative_binomial, plain_name

    if dispersion is None:
        return family
    if family is None or plain_name(family) != "negative-binomial":
        raise PramanaError(f"--dispersion belongs to --family negative-binomial, not {family or 'gaussian'!r}")
    return negative_binomial(dispersion)


def methods_of(given: Sequence[str], covariate_model: str | None) -> list[Any]:
    """Methods by name; the model of the covariates goes to the likelihood."""
    from pramana.estimators import method_of

    chosen: list[Any] = [method_of(name) for text in given for name in names(text)]
    if not chosen:
        raise PramanaError("--method is empty: name at least one, such as reversion")
    if covariate_model is None:
        return chosen
    if not any(m.has_model for m in chosen):
        raise PramanaError(f"--covariate-model {covariate_model!r} belongs to --method likelihood: add it")
    return [m.with_covariate_model(covariate_model) if m.has_model else m for m in chosen]


def inference_of(
    name: str | None,
    draws: int | None,
    seed: int | None,
    correction: str | None,
    interval: str | None,
    more: Mapping[str, Any] | None = None,
) -> Any:
    """The inference by its name and options; `more` are those of resampling alone."""
    from pramana.inference import Jackknife, Resampling, Sandwich, Woodruff

    if name is None:
        wants_draws = interval == "percentile" or seed is not None or draws is not None or bool(more)
        name = "resampling" if wants_draws else "sandwich" if (correction or interval) else None
    if name is None:
        return None
    if name not in INFERENCES:
        raise PramanaError(f"inference {name!r} is unknown: {suggestion(name, INFERENCES)}")
    if correction is not None and name != "sandwich":
        raise PramanaError(f"--correction {correction} belongs to --inference sandwich: leave out one of the two")
    if name != "resampling" and (draws is not None or seed is not None):
        raise PramanaError(f"--draws and --seed belong to --inference resampling, not {name}: leave them out")
    if name != "resampling" and more:
        raise PramanaError(f"--resampling belongs to --inference resampling, not {name}: leave it out")
    if name == "sandwich":
        return Sandwich(correction=correction, interval=interval or "auto")  # type: ignore[arg-type]
    if name == "resampling":
        options: dict[str, Any] = {"interval": interval or "percentile", **(more or {})}
        return Resampling(draws=500 if draws is None else draws, seed=seed, **options)
    if name == "woodruff" and interval is not None:
        raise PramanaError(
            f"--interval {interval} does not go with --inference woodruff, which is a kind of interval: leave it out"
        )
    if name == "woodruff":
        return Woodruff()
    if interval not in (None, "wald"):
        raise PramanaError(f"--interval {interval} does not go with --inference jackknife, whose intervals are wald")
    return Jackknife()


@dataclass(frozen=True)
class SamplingOptions:
    """How the records were sampled, as options; columns by name."""

    weights: str | None
    frequencies: str | None
    clusters: str | None
    strata: str | None
    fpc: str | None
    target: str | None
    replicate_weights: str | None
    replicate_scale: str | None

    def options(self, data: Path) -> dict[str, Any]:
        """Arguments of `fit`: a design where an option asks for one, else weights, frequencies and clusters."""
        asked = self._of_a_design()
        if not asked:
            ways = names(self.clusters)
            clusters = tuple(ways) if len(ways) > 1 else self.clusters
            return {"weights": self.weights, "frequencies": self.frequencies, "clusters": clusters}
        if self.frequencies is not None:
            raise PramanaError(
                f"--frequencies cannot go with {asked[0]}, since a sampled record stands for itself: use --weights"
            )
        return {"design": self._design(data)}

    def _of_a_design(self) -> list[str]:
        own = ("strata", "fpc", "target", "replicate_weights", "replicate_scale")
        return [f"--{name.replace('_', '-')}" for name in own if getattr(self, name) is not None]

    def _design(self, data: Path) -> Any:
        from pramana.inference import SurveyDesign

        return SurveyDesign(
            weights=self.weights,
            strata=self.strata,
            clusters=self.clusters,
            fpc=self.fpc,
            target=self.target or "superpopulation",  # type: ignore[arg-type]
            replicate_weights=self._replicates(data),
            replicate_scale=self._scale(),
        )

    def _scale(self) -> float | list[float] | None:
        """One factor for all replicates, or one for each."""
        if self.replicate_scale is None:
            return None
        try:
            numbers = [float(text) for text in names(self.replicate_scale)]
        except ValueError:
            numbers = []
        if not numbers:
            raise PramanaError(f"--replicate-scale {self.replicate_scale!r} is no number: write 0.05, or 0.5,0.3")
        return numbers[0] if len(numbers) == 1 else numbers

    def _replicates(self, data: Path) -> tuple[str, ...]:
        given = names(self.replicate_weights)
        if self.replicate_weights is not None and not given:
            raise PramanaError("--replicate-weights is empty: name columns, as in r1,r2 or 'r*'")
        if not any(_is_pattern(name) for name in given):
            return tuple(given)
        from pramana.frames import read
        from pramana.frames.sources import paths_of

        known = [name for name in read(next(iter(paths_of(data)), data)).names if name != self.weights]
        return tuple(dict.fromkeys(column for name in given for column in _matching(name, known)))


def _is_pattern(name: str) -> bool:
    return any(mark in name for mark in "*?")


def _matching(name: str, known: Sequence[str]) -> list[str]:
    if not _is_pattern(name):
        return [name]
    found = [column for column in known if fnmatchcase(column, name)]
    if not found:
        raise DataError(f"--replicate-weights {name!r} matches no column: the columns are {listing(known, 20)}")
    return found
