"""`pramana fit`, `pramana compare` and `pramana specification`."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pramana.cli.choices import (
    INFERENCES,
    SamplingOptions,
    family_of,
    inference_of,
    mechanism_of,
    methods_of,
    numbers,
    resampling_options,
)
from pramana.cli.completion import among, columns, condition, parameters
from pramana.cli.output import (
    AllowErrors,
    Force,
    FormatOption,
    ReportOption,
    check_output,
    leave_on_errors,
    save_figure,
    save_report,
    say,
    warnings_in_a_line,
)
from pramana.cli.reading import reading
from pramana.cli.speech import in_the_shell, said_in_the_shell
from pramana.errors import PramanaError
from pramana.numbers import PValue
from pramana.progress import bar

if TYPE_CHECKING:
    from pramana.inference.hypotheses import SpecificationTest

What = Annotated[
    str,
    typer.Argument(
        metavar="WHAT",
        help="R-style formula, such as 'income ~ age + edu', or a parameter by name, such as 'median(income, by=edu)'.",
        autocompletion=parameters,
    ),
]
Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="Released file: .csv, .tsv (or .gz of these), .parquet or .arrow; a folder or a quoted pattern of them; - for what is piped in.",
    ),
]
MechanismOption = Annotated[
    str,
    typer.Option(
        "--mechanism",
        "-m",
        help="Description of the randomisation (JSON); 'auto' finds it with the data; 'none' for clean data.",
    ),
]
FAMILIES = among("gaussian", "binomial", "poisson", "gamma", "inverse-gaussian", "negative-binomial")
LINKS = among("identity", "logit", "probit", "cloglog", "log")
METHODS = among(
    "reversion", "naive", "stabilized", "model1", "model2", "likelihood", "forward", "backward", "conditional-score"
)
FamilyOption = Annotated[
    str | None,
    typer.Option(
        autocompletion=FAMILIES,
        help="Of a formula: gaussian (default), binomial, poisson, gamma, inverse-gaussian, negative-binomial.",
    ),
]
LinkOption = Annotated[str | None, typer.Option(autocompletion=LINKS, help="Link; the family's usual one by default.")]
DispersionOption = Annotated[float | None, typer.Option(help="Known dispersion of the negative binomial.")]
CovariateModelOption = Annotated[
    str | None,
    typer.Option(
        help="Of the likelihood: terms on which perturbed covariates depend, such as 'age + sex', or saturated."
    ),
]
InferenceOption = Annotated[
    str | None,
    typer.Option(
        autocompletion=among(*INFERENCES),
        help="sandwich, resampling, jackknife or woodruff; by default what suits the method.",
    ),
]
ResamplingOption = Annotated[
    str | None,
    typer.Option(
        help="More of the resampling, as scale=sd,widened=no; also weights=poisson, id=person (a column) and threads=2."
    ),
]
LevelOption = Annotated[float | None, typer.Option(help="Level of the intervals; 0.95 by default.")]
AbsorbOption = Annotated[
    str | None,
    typer.Option(
        autocompletion=columns, help="Clean column whose values have an effect each, not shown (linear models)."
    ),
]
StartOption = Annotated[str | None, typer.Option(help="Starting values, one a parameter, as 0.5,-1,2.")]
DrawsOption = Annotated[int | None, typer.Option(help="Resamples; 500 by default.")]
SeedOption = Annotated[int | None, typer.Option(help="Seed of the resampling draws (not of any perturbation).")]
CorrectionOption = Annotated[
    str | None,
    typer.Option(
        autocompletion=among("HC0", "HC1", "HC2"),
        help="HC0, HC1 or HC2; by default HC2 with t intervals where units are few.",
    ),
]
IntervalOption = Annotated[
    str | None,
    typer.Option(
        autocompletion=among("auto", "wald", "score", "mid-p", "exact", "lang-reiczigel", "percentile"),
        help="auto, wald, score, mid-p, exact or lang-reiczigel (sandwich); percentile or wald (resampling).",
    ),
]
WeightsOption = Annotated[str | None, typer.Option(autocompletion=columns, help="Column of sampling weights.")]
FrequenciesOption = Annotated[
    str | None, typer.Option(autocompletion=columns, help="Column of counts of equal records.")
]
ClustersOption = Annotated[
    str | None,
    typer.Option(
        autocompletion=columns,
        help="Column of clusters, or of sampling units within strata; two, as firm,year, for two-way clusters.",
    ),
]
StrataOption = Annotated[str | None, typer.Option(autocompletion=columns, help="Survey design: column of strata.")]
FpcOption = Annotated[
    str | None,
    typer.Option(
        autocompletion=columns,
        help="Survey design: column of population sizes of the strata, or of sampling fractions.",
    ),
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        autocompletion=among("superpopulation", "finite", "file"),
        help="What the standard error is around: superpopulation (default), finite or file.",
    ),
]
ReplicatesOption = Annotated[
    str | None,
    typer.Option(autocompletion=columns, help="Columns of replicate weights, as r1,r2 or a pattern such as 'r*'."),
]
ScaleOption = Annotated[
    str | None, typer.Option(help="Factor of the replicates' squared differences, one or a list; 1/R by default.")
]
SubsetOption = Annotated[
    str | None,
    typer.Option(
        autocompletion=condition,
        help="Condition on the records, clean or perturbed columns, as \"edu == 'high' and age > 30\".",
    ),
]
MissingOption = Annotated[str, typer.Option(help="error or drop.", autocompletion=among("error", "drop"))]
VerifyOption = Annotated[
    bool, typer.Option(help="Check the hash of a described file; rows, size and columns are always checked.")
]
DeviceOption = Annotated[str, typer.Option(autocompletion=among("cpu", "gpu"), help="cpu or gpu (through JAX).")]
MemoryOption = Annotated[
    str | None, typer.Option(help="What records may take, as '2 GB' (default 1 GB); beyond, they are read in blocks.")
]
EngineOption = Annotated[
    str | None,
    typer.Option(
        autocompletion=among("local", "duckdb", "dask", "spark"),
        help="Who reads and adds up files that do not fit into memory: local (default), duckdb, dask or spark.",
    ),
]
PassesOption = Annotated[
    int | None,
    typer.Option(help="1: one Newton step over files that do not fit into memory; by default as many as it takes."),
]
FigureOption = Annotated[Path | None, typer.Option("--figure", help="Also write a figure (.png, .svg or .pdf).")]


@reading("data")
def fit(
    what: What,
    data: Data,
    mechanism: MechanismOption = "auto",
    family: FamilyOption = None,
    link: LinkOption = None,
    dispersion: DispersionOption = None,
    method: Annotated[
        str,
        typer.Option(
            autocompletion=METHODS,
            help="reversion, naive, stabilized, model1, model2, likelihood, forward, backward, conditional-score.",
        ),
    ] = "reversion",
    covariate_model: CovariateModelOption = None,
    inference: InferenceOption = None,
    draws: DrawsOption = None,
    seed: SeedOption = None,
    correction: CorrectionOption = None,
    interval: IntervalOption = None,
    resampling: ResamplingOption = None,
    level: LevelOption = None,
    weights: WeightsOption = None,
    frequencies: FrequenciesOption = None,
    clusters: ClustersOption = None,
    strata: StrataOption = None,
    fpc: FpcOption = None,
    target: TargetOption = None,
    replicate_weights: ReplicatesOption = None,
    replicate_scale: ScaleOption = None,
    absorb: AbsorbOption = None,
    subset: SubsetOption = None,
    missing: MissingOption = "error",
    start: StartOption = None,
    device: DeviceOption = "cpu",
    verify: VerifyOption = True,
    memory: MemoryOption = None,
    engine: EngineOption = None,
    passes: PassesOption = None,
    exponentiate: Annotated[bool, typer.Option("--exponentiate", help="Show ratios instead of log ratios.")] = False,
    privacy: Annotated[bool, typer.Option("--privacy", help="Also show the price of privacy.")] = False,
    cross: Annotated[
        bool, typer.Option("--cross", help="Show the table of crosstab(...) in two dimensions, with totals.")
    ] = False,
    style: FormatOption = "text",
    figure: FigureOption = None,
    report: ReportOption = None,
    force: Force = False,
    allow_errors: AllowErrors = False,
) -> None:
    """Estimate a regression, or a parameter by name, from a released file. Exit code 1 when the numbers mean nothing."""
    from pramana.pipeline import fit as fit_model

    check_output(style, figure, report=report, force=force, inputs=[data])
    sampling = SamplingOptions(weights, frequencies, clusters, strata, fpc, target, replicate_weights, replicate_scale)
    asked = inference_of(inference, draws, seed, correction, interval, resampling_options(resampling))
    options: dict[str, Any] = {
        "family": family_of(family, dispersion),
        "link": link,
        "method": _only(methods_of([method], covariate_model)),
        "absorb": absorb,
        "subset": subset,
        "missing": missing,
        "start": numbers(start, "--start"),
        "device": device,
        "verify": verify,
        "memory": memory,
        "engine": engine,
        "passes": passes,
        **sampling.options(data),
    }
    with warnings_in_a_line(), bar(f"Fitting {data.name}", unit="rows"):
        result = fit_model(what, data, mechanism_of(mechanism), inference=asked, **options)
        again = _knowing(result, asked, level)
        if again is not None:
            result = fit_model(what, data, mechanism_of(mechanism), inference=again, **options)
    result = _as_asked(result, what, exponentiate)
    price = _privacy_table(result, style) if privacy else ""
    shown = replace(result.cross(), facts=tuple(result.facts.items())) if cross else None
    say(result.summary(style, exponentiate=exponentiate, level=level) if shown is None else shown.summary(style))
    if privacy and style != "json":
        say("\n" + price)
    save_figure(partial(result.plot, exponentiate=exponentiate, level=level), figure, force=force)
    save_report(result.report, report, force=force, exponentiate=exponentiate, level=level)
    leave_on_errors({result.method: result}, allowed=allow_errors)


def _as_asked(result: Any, what: str, exponentiate: bool = False) -> Any:
    """A parameter by name is shown as it was asked for, since its columns alone do not say what it is."""
    facts = dict(result.facts)
    if "Parameter" in facts:
        facts["Parameter"] = what
    if exponentiate:
        facts["Scale"] = "exponentiated: ratios, not their logarithms"
    return said_in_the_shell(replace(result, facts=facts))


def _knowing(result: Any, asked: Any, level: float | None) -> Any:
    """The inference that knows intervals at a level which need the data; None where the result has what it takes."""
    from pramana.inference import Sandwich, Woodruff

    if level is None or result.limits is None:
        return None
    try:
        result.interval(level)
    except PramanaError:
        return Woodruff(level) if result.limits.kind == "woodruff" else replace(asked or Sandwich(), level=level)
    return None


def _only(methods: list[Any]) -> Any:
    if len(methods) > 1:
        raise PramanaError(f"{len(methods)} methods: fit takes one; `pramana compare` takes several")
    return methods[0]


def _privacy_table(result: Any, style: str) -> str:
    from pramana.render import Sheet, render

    rows = result.to_dict().get("price_of_privacy")
    if rows is None:
        result.price_of_privacy()
    return render(Sheet(tuple(rows[0]), tuple(tuple(r.values()) for r in rows), "Price of privacy"), style)


@reading("data", "truth")
def compare(
    what: What,
    data: Data,
    mechanism: MechanismOption = "auto",
    truth: Annotated[Path | None, typer.Option(help="The unperturbed file, to be fitted beside the others.")] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            "--methods",
            autocompletion=METHODS,
            metavar="<str>",
            help="As reversion,likelihood,naive, or repeated: reversion, naive, stabilized, model1, model2, likelihood, forward, "
            "backward, conditional-score. By default reversion,naive.",
        ),
    ] = None,
    family: FamilyOption = None,
    link: LinkOption = None,
    dispersion: DispersionOption = None,
    covariate_model: CovariateModelOption = None,
    inference: InferenceOption = None,
    draws: DrawsOption = None,
    seed: SeedOption = None,
    correction: CorrectionOption = None,
    interval: IntervalOption = None,
    resampling: ResamplingOption = None,
    level: LevelOption = None,
    weights: WeightsOption = None,
    frequencies: FrequenciesOption = None,
    clusters: ClustersOption = None,
    strata: StrataOption = None,
    fpc: FpcOption = None,
    target: TargetOption = None,
    replicate_weights: ReplicatesOption = None,
    replicate_scale: ScaleOption = None,
    absorb: AbsorbOption = None,
    subset: SubsetOption = None,
    missing: MissingOption = "error",
    start: StartOption = None,
    device: DeviceOption = "cpu",
    verify: VerifyOption = True,
    memory: MemoryOption = None,
    engine: EngineOption = None,
    passes: PassesOption = None,
    style: FormatOption = "text",
    figure: FigureOption = None,
    report: ReportOption = None,
    force: Force = False,
    allow_errors: AllowErrors = False,
) -> None:
    """Fit several estimators to a released file, side by side. Exit code 1 when the numbers of one of them mean nothing."""
    from pramana.pipeline import compare as compare_methods

    check_output(style, figure, report=report, force=force, inputs=[data])
    sampling = SamplingOptions(weights, frequencies, clusters, strata, fpc, target, replicate_weights, replicate_scale)
    asked = inference_of(inference, draws, seed, correction, interval, resampling_options(resampling))
    run = partial(
        compare_methods,
        what,
        data,
        mechanism_of(mechanism),
        methods_of(method or ["reversion", "naive"], covariate_model),
        truth=truth,
        family=family_of(family, dispersion),
        link=link,
        absorb=absorb,
        subset=subset,
        missing=missing,
        start=numbers(start, "--start"),
        device=device,
        verify=verify,
        memory=memory,
        engine=engine,
        passes=passes,
        **sampling.options(data),
    )
    with warnings_in_a_line(), bar(f"Fitting {data.name}", unit="rows"):
        comparison = run(inference=asked)
        knowing = (_knowing(result, asked, level) for result in comparison.results.values())
        again = next((found for found in knowing if found is not None), None)
        if again is not None:
            comparison = run(inference=again)
    comparison = replace(
        comparison,
        results={k: _as_asked(r, what) for k, r in comparison.results.items()},
        specification=_test_in_the_shell(comparison.specification),
        untested=in_the_shell(comparison.untested),
    )
    say(comparison.summary(style, level=level))
    save_figure(partial(comparison.plot, level=level), figure, force=force)
    save_report(comparison.report, report, force=force, level=level)
    leave_on_errors(comparison.results, allowed=allow_errors)


def _test_in_the_shell(test: SpecificationTest | None) -> SpecificationTest | None:
    """The test of the likelihood's model, with advice that names options."""
    return None if test is None else replace(test, advice=in_the_shell(test.advice))


@reading("data")
def specification(
    formula: Annotated[str, typer.Argument(metavar="FORMULA", help="R-style formula, such as 'employed ~ age + edu'.")],
    data: Data,
    mechanism: MechanismOption = "auto",
    family: FamilyOption = None,
    link: LinkOption = None,
    dispersion: DispersionOption = None,
    covariate_model: CovariateModelOption = None,
    weights: WeightsOption = None,
    frequencies: FrequenciesOption = None,
    missing: MissingOption = "error",
    verify: VerifyOption = True,
    style: FormatOption = "text",
) -> None:
    """Test the model that maximum likelihood believes in against reversion, which does not need it."""
    from pramana.pipeline import specification_test
    from pramana.render import Sheet, render

    check_output(style)
    with bar(f"Testing {data.name}"):
        test = specification_test(
            formula,
            data,
            mechanism_of(mechanism),
            family=family_of(family, dispersion),
            link=link,
            covariate_model=covariate_model,
            weights=weights,
            frequencies=frequencies,
            missing=missing,  # type: ignore[arg-type]
            verify=verify,
        )
    row = (test.statistic, test.df, PValue(test.p_value))
    sheet = Sheet(
        ("chi-square", "df", "p"), (row,), "Specification test", (("Formula", formula),), (in_the_shell(test.advice),)
    )
    say(render(replace(sheet, data={"formula": formula, **asdict(test)}), style))
