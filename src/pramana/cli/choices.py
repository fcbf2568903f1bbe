"""The options of the analysis commands in groups, and the values that the library takes for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer

from pramana.cli.completion import among, columns, condition
from pramana.errors import DataError, PramanaError, listing, suggestion

FAMILIES = among("gaussian", "binomial", "poisson", "gamma", "inverse-gaussian", "negative-binomial")
LINKS = among("identity", "logit", "probit", "cloglog", "log")
WeightsOption = Annotated[str | None, typer.Option(autocompletion=columns, help="Column of sampling weights.")]
FrequenciesOption = Annotated[
    str | None, typer.Option(autocompletion=columns, help="Column of counts of equal records.")
]
MissingOption = Annotated[str, typer.Option(help="error or drop.", autocompletion=among("error", "drop"))]
VerifyOption = Annotated[
    bool, typer.Option(help="Check the hash of a described file; rows, size and columns are always checked.")
]
DeviceOption = Annotated[str, typer.Option(autocompletion=among("cpu", "gpu"), help="cpu or gpu (through JAX).")]
MemoryOption = Annotated[
    str | None, typer.Option(help="What records may take, as '2 GB' (default 1 GB); beyond, they are read in blocks.")
]
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


@dataclass(frozen=True)
class ModelOptions:
    """The model that a formula is of."""

    family: Annotated[
        str | None,
        typer.Option(
            autocompletion=FAMILIES,
            help="Of a formula: gaussian (default), binomial, poisson, gamma, inverse-gaussian, negative-binomial.",
        ),
    ] = None
    link: Annotated[str | None, typer.Option(autocompletion=LINKS, help="Link; the family's usual one by default.")] = (
        None
    )
    dispersion: Annotated[float | None, typer.Option(help="Known dispersion of the negative binomial.")] = None

    @property
    def arguments(self) -> dict[str, Any]:
        """Of `fit`."""
        return {"family": self._family(), "link": self.link}

    def _family(self) -> Any:
        from pramana.estimating.families import negative_binomial, plain_name

        family, dispersion = self.family, self.dispersion
        if dispersion is None:
            return family
        if family is None or plain_name(family) != "negative-binomial":
            raise PramanaError(f"--dispersion belongs to --family negative-binomial, not {family or 'gaussian'!r}")
        return negative_binomial(dispersion)


@dataclass(frozen=True)
class InferenceOptions:
    """Standard errors and intervals, as options."""

    inference: Annotated[
        str | None,
        typer.Option(
            autocompletion=among(*INFERENCES),
            help="sandwich, resampling, jackknife or woodruff; by default what suits the method.",
        ),
    ] = None
    draws: Annotated[int | None, typer.Option(help="Resamples; 500 by default.")] = None
    seed: Annotated[int | None, typer.Option(help="Seed of the resampling draws (not of any perturbation).")] = None
    correction: Annotated[
        str | None,
        typer.Option(
            autocompletion=among("HC0", "HC1", "HC2"),
            help="HC0, HC1 or HC2; by default HC2 with t intervals where units are few.",
        ),
    ] = None
    interval: Annotated[
        str | None,
        typer.Option(
            autocompletion=among("auto", "wald", "score", "mid-p", "exact", "lang-reiczigel", "percentile"),
            help="auto, wald, score, mid-p, exact or lang-reiczigel (sandwich); percentile or wald (resampling).",
        ),
    ] = None
    resampling: Annotated[
        str | None,
        typer.Option(
            help="More of the resampling, as scale=sd,widened=no; also weights=poisson, id=person (a column) and threads=2."
        ),
    ] = None
    level: Annotated[float | None, typer.Option(help="Level of the intervals; 0.95 by default.")] = None

    def chosen(self) -> Any:
        """By its name and options; what follows from these where no name is given."""
        from pramana.inference import Jackknife, Resampling, Sandwich, Woodruff

        name, interval, more = self.inference, self.interval, resampling_options(self.resampling)
        draws, seed, correction = self.draws, self.seed, self.correction
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
            options: dict[str, Any] = {"interval": interval or "percentile", **more}
            return Resampling(draws=500 if draws is None else draws, seed=seed, **options)
        if name == "woodruff" and interval is not None:
            raise PramanaError(
                f"--interval {interval} does not go with --inference woodruff, which is a kind of interval: leave it out"
            )
        if name == "woodruff":
            return Woodruff()
        if interval not in (None, "wald"):
            raise PramanaError(
                f"--interval {interval} does not go with --inference jackknife, whose intervals are wald"
            )
        return Jackknife()


@dataclass(frozen=True)
class SamplingOptions:
    """How the records were sampled, as options; columns by name."""

    weights: WeightsOption = None
    frequencies: FrequenciesOption = None
    clusters: Annotated[
        str | None,
        typer.Option(
            autocompletion=columns,
            help="Column of clusters, or of sampling units within strata; two, as firm,year, for two-way clusters.",
        ),
    ] = None
    strata: Annotated[str | None, typer.Option(autocompletion=columns, help="Survey design: column of strata.")] = None
    fpc: Annotated[
        str | None,
        typer.Option(
            autocompletion=columns,
            help="Survey design: column of population sizes of the strata, or of sampling fractions.",
        ),
    ] = None
    target: Annotated[
        str | None,
        typer.Option(
            autocompletion=among("superpopulation", "finite", "file"),
            help="What the standard error is around: superpopulation (default), finite or file.",
        ),
    ] = None
    replicate_weights: Annotated[
        str | None,
        typer.Option(autocompletion=columns, help="Columns of replicate weights, as r1,r2 or a pattern such as 'r*'."),
    ] = None
    replicate_scale: Annotated[
        str | None, typer.Option(help="Factor of the replicates' squared differences, one or a list; 1/R by default.")
    ] = None

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
        return [f"--{name.replace('_', '-')}" for name in own if vars(self)[name] is not None]

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


@dataclass(frozen=True)
class RunOptions:
    """Which records are fitted, from where to start, and where the work is done."""

    absorb: Annotated[
        str | None,
        typer.Option(
            autocompletion=columns, help="Clean column whose values have an effect each, not shown (linear models)."
        ),
    ] = None
    subset: Annotated[
        str | None,
        typer.Option(
            autocompletion=condition,
            help="Condition on the records, clean or perturbed columns, as \"edu == 'high' and age > 30\".",
        ),
    ] = None
    missing: MissingOption = "error"
    start: Annotated[str | None, typer.Option(help="Starting values, one a parameter, as 0.5,-1,2.")] = None
    device: DeviceOption = "cpu"
    verify: VerifyOption = True
    memory: MemoryOption = None
    engine: Annotated[
        str | None,
        typer.Option(
            autocompletion=among("local", "duckdb", "dask", "spark"),
            help="Who reads and adds up files that do not fit into memory: local (default), duckdb, dask or spark.",
        ),
    ] = None
    passes: Annotated[
        int | None,
        typer.Option(help="1: one Newton step over files that do not fit into memory; by default as many as it takes."),
    ] = None

    @property
    def arguments(self) -> dict[str, Any]:
        """Of `fit`."""
        return {**vars(self), "start": numbers(self.start, "--start")}


def _is_pattern(name: str) -> bool:
    return any(mark in name for mark in "*?")


def _matching(name: str, known: Sequence[str]) -> list[str]:
    if not _is_pattern(name):
        return [name]
    found = [column for column in known if fnmatchcase(column, name)]
    if not found:
        raise DataError(f"--replicate-weights {name!r} matches no column: the columns are {listing(known, 20)}")
    return found
