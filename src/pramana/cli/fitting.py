"""`pramana fit`, `pramana compare` and `pramana specification`."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pramana.cli.choices import (
    FrequenciesOption,
    InferenceOptions,
    MissingOption,
    ModelOptions,
    RunOptions,
    SamplingOptions,
    VerifyOption,
    WeightsOption,
    mechanism_of,
    methods_of,
)
from pramana.cli.completion import among, parameters
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
METHODS = among(
    "reversion", "naive", "stabilized", "model1", "model2", "likelihood", "forward", "backward", "conditional-score"
)
CovariateModelOption = Annotated[
    str | None,
    typer.Option(
        help="Of the likelihood: terms on which perturbed covariates depend, such as 'age + sex', or saturated."
    ),
]
FigureOption = Annotated[Path | None, typer.Option("--figure", help="Also write a figure (.png, .svg or .pdf).")]


@reading("data")
def fit(
    what: What,
    data: Data,
    mechanism: MechanismOption = "auto",
    *,
    model: ModelOptions,
    method: Annotated[
        str,
        typer.Option(
            autocompletion=METHODS,
            help="reversion, naive, stabilized, model1, model2, likelihood, forward, backward, conditional-score.",
        ),
    ] = "reversion",
    covariate_model: CovariateModelOption = None,
    intervals: InferenceOptions,
    sampling: SamplingOptions,
    run: RunOptions,
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
    asked, level = intervals.chosen(), intervals.level
    options: dict[str, Any] = {
        "method": _only(methods_of([method], covariate_model)),
        **model.arguments,
        **run.arguments,
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
    *,
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
    model: ModelOptions,
    covariate_model: CovariateModelOption = None,
    intervals: InferenceOptions,
    sampling: SamplingOptions,
    run: RunOptions,
    style: FormatOption = "text",
    figure: FigureOption = None,
    report: ReportOption = None,
    force: Force = False,
    allow_errors: AllowErrors = False,
) -> None:
    """Fit several estimators to a released file, side by side. Exit code 1 when the numbers of one of them mean nothing."""
    from pramana.pipeline import compare as compare_methods

    check_output(style, figure, report=report, force=force, inputs=[data])
    asked, level = intervals.chosen(), intervals.level
    fitted = partial(
        compare_methods,
        what,
        data,
        mechanism_of(mechanism),
        methods_of(method or ["reversion", "naive"], covariate_model),
        truth=truth,
        **model.arguments,
        **run.arguments,
        **sampling.options(data),
    )
    with warnings_in_a_line(), bar(f"Fitting {data.name}", unit="rows"):
        comparison = fitted(inference=asked)
        knowing = (_knowing(result, asked, level) for result in comparison.results.values())
        again = next((found for found in knowing if found is not None), None)
        if again is not None:
            comparison = fitted(inference=again)
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
    *,
    model: ModelOptions,
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
            **model.arguments,
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
