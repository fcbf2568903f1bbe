"""Parameters read from text, never run as a program."""

from __future__ import annotations

import re
import typing
from importlib import import_module
from pathlib import Path

import pytest

import pramana as pr
from pramana.formulas.text import ARGUMENTS, PARAMETERS, is_call

README = Path(__file__).parents[3] / "README.md"


@pytest.mark.parametrize(
    ("text", "plan"),
    [
        ("median(income, by=edu)", pr.median("income", by="edu")),
        (" median ( income , by = edu ) ", pr.median("income", by="edu")),
        ("quantile(income, 0.9, [edu, sex], bandwidth=2)", pr.quantile("income", 0.9, ["edu", "sex"], bandwidth=2)),
        ("odds_ratio(exposed, case, strata=site)", pr.odds_ratio("exposed", "case", strata="site")),
        ("risk_ratio(a, b)", pr.risk_ratio("a", "b")),
        ("risk_difference(a, b)", pr.risk_difference("a", "b")),
        ("crosstab(edu, sex, counts=True)", pr.crosstab("edu", "sex", counts=True)),
        ("correlation(x, y, kendall)", pr.correlation("x", "y", "kendall")),
        ("poverty_rate(income, .5, by=(edu, sex))", pr.poverty_rate("income", 0.5, by=["edu", "sex"])),
        ("gini(income)", pr.gini("income")),
        ("share(income, 1, 2.5, by=edu)", pr.share("income", 1, 2.5, by="edu")),
        ("share(income, high=-1)", pr.share("income", high=-1.0)),
        ("total(y)", pr.total("y")),
        ("counts(edu)", pr.counts("edu")),
        ("proportions(edu, by=None)", pr.proportions("edu")),
        ("multinomial(edu ~ age)", pr.multinomial("edu ~ age")),
        ('multinomial("edu ~ age")', pr.multinomial("edu ~ age")),
        ("ordinal(formula=edu ~ poly(age, 2))", pr.ordinal("edu ~ poly(age, 2)")),
        ("quantile_regression(y ~ x, 0.9)", pr.quantile_regression("y ~ x", 0.9)),
        ("two_stage_least_squares(y ~ x + w | z + w)", pr.two_stage_least_squares("y ~ x + w | z + w")),
        (
            "average_treatment_effect(y, t, [x, z], aipw)",
            pr.average_treatment_effect("y", "t", ["x", "z"], "aipw"),
        ),
        ('margins(y ~ x + C(g, "a, b"), g, binomial)', pr.margins('y ~ x + C(g, "a, b")', "g", "binomial")),
        ("glm(y ~ x, binomial, probit)", pr.glm("y ~ x", "binomial", "probit")),
        ('mean("household size")', pr.mean("household size")),
        ('mean("a~b")', pr.mean("a~b")),
        ("mean(hh.size)", pr.mean("hh.size")),
        ("mean(ﬁrm)", pr.mean("ﬁrm")),  # Python would read the ligature as "firm"
        ("mean('été')", pr.mean("été")),
    ],
)
def test_a_call_in_text_is_the_call_in_python(text: str, plan: object) -> None:
    assert pr.parameter(text) == plan


def test_a_family_with_an_argument_can_be_one() -> None:
    assert pr.parameter("margins(y ~ x, x, negative_binomial(0.5))").model.family.name == "negative-binomial"


def test_every_parameter_of_the_readme_has_its_name_here() -> None:
    table = README.read_text(encoding="utf-8").split("| parameter | call |")[1].split("| method | call |")[0]
    named = set(re.findall(r"pr\.(\w+)\(", table)) - {"fit", "from_callable"}
    assert named == {*PARAMETERS, *ARGUMENTS} - {"glm"}


@pytest.mark.parametrize(("name", "home"), [*PARAMETERS.items(), *ARGUMENTS.items()])
def test_names_are_those_of_the_library_and_their_types_can_be_checked(name: str, home: str) -> None:
    function = getattr(import_module(f"pramana.{home}"), name)
    assert function is getattr(pr, name)
    assert typing.get_type_hints(function)


@pytest.mark.parametrize(
    "text", ["y ~ x", "log(y) ~ x", "`a(b` ~ x", "y ~ C(x)", "income", "", "(y ~ x)", "f(x) ~ g(y)"]
)
def test_formulas_and_words_are_no_calls(text: str) -> None:
    assert not is_call(text)
    with pytest.raises(pr.FormulaError, match="is no call of a parameter"):
        pr.parameter(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("medain(x)", "there is no parameter 'medain': did you mean 'median'?"),
        ("log(y)", "there is no parameter 'log'.*a formula has a '~' outside"),
        ("median()", r"missing a required argument: 'column'; .* median\(column, by=None, \*, bandwidth=None\)"),
        ("median(x, y, z)", "too many positional arguments; its arguments are median"),
        ("median(x, bye=edu)", "'bye' which is none of its arguments: did you mean 'by'"),
        ("median(x, by=a, by=b)", "'by' twice"),
        ("quantile(x, q=0.5, column=y)", "multiple values for argument 'column'"),
        ("quantile(x, high)", "q='high' must be a number"),
        ("quantile(x, 2)", "q=2 must be a number between 0 and 1"),
        ("quantile(x, -1)", "q=-1 must be a number between 0 and 1"),
        ("mean(3)", "column=3 must be text"),
        ("mean(x, by=[1, 2])", r"by=\[1, 2\] must be text or a list of names"),
        ("crosstab(a, 3)", "columns=3 must be text"),
        ("crosstab(a, b, counts=yes)", "counts='yes' must be True or False"),
        ("correlation(a, b, spearman)", "did you mean 'pearson'"),
        ("mean(x + y)", "the argument 'x \\+ y' is no name"),
        ("mean(*x)", "is no name"),
        ("mean(**x)", "is no name"),
        ("mean(lambda: 1)", "is no name"),
        ("mean(household size)", "put column names that are not plain words in quotes"),
        ("mean(x", "never closed"),
        ('mean("x)', "unterminated string"),
        ("mean(" * 500 + "x" + ")" * 500, "cannot be an argument"),
        ("mean(" + "[" * 500 + "x" + "]" * 500 + ")", "nested deeper"),
        ("mean(x) + mean(y)", "is more than one call"),
        ("mean(x)(y)", "is more than one call"),
        ("mean(open(x))", r"open\(...\) cannot be an argument: of functions, only negative_binomial can"),
        ('mean(__import__("os"))', "cannot be an argument"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(pr.FormulaError, match=message):
        pr.parameter(text)


def test_only_text_is_read() -> None:
    with pytest.raises(pr.FormulaError, match="is no call of a parameter"):
        pr.parameter(pr.mean("y"))  # type: ignore[arg-type]


def test_fit_and_compare_take_a_parameter_as_text() -> None:
    data = {"exposed": [0, 1] * 50, "case": [0, 1, 1, 1, 0] * 20}
    asked = pr.fit("odds_ratio(exposed, case)", data, None)
    assert asked.estimate == pr.fit(pr.odds_ratio("exposed", "case"), data, None).estimate
    assert pr.compare("mean(case, by=exposed)", data, None, ["naive"]).parameters == (
        "mean(case)[exposed=0]",
        "mean(case)[exposed=1]",
    )
    with pytest.raises(pr.FormulaError, match="belong to a formula"):
        pr.fit("mean(case)", data, None, family="binomial")


def test_an_exponentiated_ratio_is_called_so() -> None:
    result = pr.fit("odds_ratio(exposed, case)", {"exposed": [0, 1] * 50, "case": [0, 1, 1, 1, 0] * 20}, None)
    assert result.to_dicts()[0]["term"] == "log odds ratio(exposed, case)"
    assert result.to_dicts(exponentiate=True)[0]["term"] == "odds ratio(exposed, case)"
