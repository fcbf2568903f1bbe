"""The grammar of formulas: what is read, how it is spelled, and what is refused with which advice."""

from __future__ import annotations

import ast
import pickle
import random
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from formulaic import Formula
from formulaic.transforms import TRANSFORMS

import pramana as pr
from pramana.formulas import language
from pramana.formulas.design import COLUMNS, _refuse_wide
from pramana.formulas.evaluation import value_of
from pramana.formulas.functions import FUNCTIONS, implementation
from pramana.formulas.language import expression
from pramana.formulas.parsed import as_term, parse, parse_parts
from pramana.formulas.tree import names, written

GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "formulas-and-levels.md"


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    n = 120
    return pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "w": rng.uniform(1, 5, n),
            "g": rng.choice(list("abc"), n),
            "h": rng.choice(["u", "v"], n),
            "hh.size": rng.uniform(1, 5, n),
            "o d": rng.normal(size=n),
            "y": rng.normal(size=n),
        }
    )


@pytest.mark.parametrize(
    "text",
    [
        "x**-1",
        "(-x)**2",
        "-x**2",
        "(x**2)**3",
        "x- (y-z)",
        "-(-x)",
        "a*-b",
        "x % 3 // 2",
        "a|b&c",
        "~(a|b)",
        "(x<1)&(y>2)",
        "a<b<c",
        "(a<b)==c",
        "not a",
        "not (a and b)",
        "x == 'it\"s'",
        "x*1e3+1e-20",
        "bs(x,df=5,knots=[-1,2.])",
        "isin(x,(1,))",
        "C(x, contr.custom({'a':[1,2]}))",
        "np.where(x>1,.5,y)",
    ],
)
def test_an_expression_is_spelled_as_python_spells_it(text: str) -> None:
    assert written(expression(text)) == ast.unparse(ast.parse(text, mode="eval"))


@pytest.mark.parametrize(
    "text",
    ["x + 2*w - w/x", "x**2 % 3 // 1", "-x**2", "(x > 0) & (w < 3) | (x < -1)", "~(x > 0)", "1 < w", "x*-2 + w**-0.5"],
)
def test_an_expression_has_the_value_that_python_gives_it(text: str, frame: pd.DataFrame) -> None:
    expected = eval(text, {}, {name: frame[name] for name in ("x", "w")})
    np.testing.assert_array_equal(value_of(expression(text), frame, {}), expected)


def test_and_or_not_and_chains_hold_record_by_record(frame: pd.DataFrame) -> None:
    found = value_of(expression("not (0 < x < 1 or w > 3 and x < 0)"), frame, {})
    x, w = frame["x"], frame["w"]
    np.testing.assert_array_equal(found, ~(((x > 0) & (x < 1)) | ((w > 3) & (x < 0))))


def _random_terms(rng: random.Random, depth: int) -> str:
    if depth == 0:
        return rng.choice(["a", "b", "c", "log(x)", "`o d`", "I(x ** 2)"])
    one, other = _random_terms(rng, depth - 1), _random_terms(rng, depth - 1)
    shapes = (
        f"{one} + {other}",
        f"{one} + {other} - 1",
        f"{one} - {other}",
        f"{one} * {other}",
        f"{one}:{other}",
        f"{one} / {other}",
        f"{one} %in% {other}",
        f"({one})",
        f"({one} + {other}) ** 2",
        f"({one} + {other})^3",
    )
    return rng.choice(shapes)


def test_terms_multiply_out_as_formulaic_has_them() -> None:
    rng, compared = random.Random(7), 0
    for _ in range(600):
        text = f"y ~ {_random_terms(rng, rng.randint(1, 3))}"
        try:
            theirs = [tuple(f.expr for f in term.factors) for term in Formula(text).rhs]
        except TypeError:  # a product with nothing left of one side
            continue
        if not theirs or max(map(len, theirs)) > 7:
            continue
        try:
            ours = parse(text).terms
        except pr.FormulaError:  # the same, which ours says
            continue
        assert sorted(ours, key=lambda term: sum(f != "1" for f in term)) == theirs, text
        compared += 1
    assert compared > 400


@pytest.mark.parametrize("text", ["y ~ x + 0", "y ~ x - 1", "y ~ 0 + x", "y ~ -1 + x", "y ~ x + -1"])
def test_the_intercept_is_left_out_in_any_of_the_usual_ways(text: str) -> None:
    assert parse(text).terms == (("x",),)


def test_names_may_have_dots_and_backticks_hold_anything(frame: pd.DataFrame) -> None:
    odd = "__import__('os').system('touch pwned')"
    data = frame.rename(columns={"x": odd})
    expected = pr.fit("y ~ x + I(x ** 2)", frame, None).estimate
    found = pr.fit(f"y ~ `{odd}` + I(`{odd}` ** 2)", data, None)
    assert found.parameters == ("Intercept", odd, f"I(`{odd}` ** 2)")
    np.testing.assert_array_equal(found.estimate, expected)
    assert pr.fit("y ~ hh.size + I(hh.size ** 2)", frame, None).parameters[2] == "I(hh.size ** 2)"
    assert as_term("a~b") == "`a~b`"
    assert parse("`a~b` ~ `a|b`").variables == ("a~b", "a|b")


def test_levels_that_look_like_code_stay_text(frame: pd.DataFrame) -> None:
    level = "{0.__class__}'); __import__('os').system('x"
    data = frame.assign(g=frame["g"].replace("b", level))
    found = pr.fit("y ~ g", data, None)
    assert f"g[T.{level}]" in found.parameters
    assert found.test(f"g[T.{level}] = 0").df == 1


def test_a_column_and_an_expression_of_one_spelling_are_not_confused() -> None:
    with pytest.raises(pr.FormulaError, match=re.escape("both 'log(x)': rename the column")):
        parse("y ~ log(x) + `log(x)`")
    with pytest.raises(pr.FormulaError, match="both '1'"):
        parse("y ~ `1`")


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("y ~ I(age^2)", r"I\(age \*\* 2\), at character 10"),
        ("y ~ factor(x)", r"'factor\(x\)' at character 5 .*categories are written C\(x\)"),
        ("y ~ as.factor(x)", r"C\(x\)"),
        ("y ~ relevel(x, 'b')", r"contr.treatment\(base='level'\)"),
        ("y ~ ordered(x)", r"C\(x, contr.poly\)"),
        ("y ~ ns(x, 3)", r"cr\(x, df=4, constraints='center'\)"),
        ("y ~ s(x)", r"bs\(x, df=5\)"),
        ("y ~ log(x, 2)", r"log2\(x\), log10\(x\)"),
        ("y ~ x %in% c('a', 'b')", r"isin\(x, \['a', 'b'\]\)"),
        ("y ~ I(x %in% c('a'))", r"isin\(x, \['a', 'b'\]\)"),
        ("y ~ .", "name the columns instead"),
        ("y ~ x + (1|g)", r"random effects .*clusters='g'"),
        ("y ~ scale(x, TRUE)", "TRUE is written True"),
        ("y ~ ifelse(x > 1, 1, 0)", r"np.where\(condition, x, y\)"),
        ("y ~ pmin(x, 3)", r"np.minimum\(x, y\)"),
        ("y ~ cut(x, 3)", "digitize"),
        ("y ~ lag(x)", "order of the records"),
        ("y ~ I(x - mean(x))", r"center\(x\)"),
        ("y ~ x.mean()", r"x.mean\(\) is no function of formulas: it mixes"),
        ("y ~ x.clip(0)", r"functions={'clip': f}"),
        ("y ~ x > 3", r"I\(x > 3\)"),
        ("y ~ I(x in [1, 2])", r"isin\(x, \[..\]\)"),
        ("y ~ I(x == [1, 2])", r"isin\(x"),
        ("y ~ x**2.5", r"I\(x \*\* 2\)"),
        ("y ~ x y", "missing between 'x' and 'y', at character 7"),
        ("y ~ (x", r"'\(' was never closed, at character 5"),
        ("y ~ 'x'", "backticks"),
        ("y ~ bs(x, degree=30)", "degree of bs.. is at most 20"),
        ("y ~ C(x, contrasts=z)", "contrasts are one of"),
        ("y ~ logg(x)", "did you mean 'log'"),
        ("y ~ I(3)", "names no column"),
        ("y ~ log(x, out=z)", r"'out' cannot be given by name here; write log\(x\)"),
        ("y ~ x + offset(a, b)", "an offset is one expression"),
        ("y ~ I(offset(x))", "a term of its own"),
    ],
)
def test_a_refusal_points_at_the_place_and_says_what_to_write(text: str, advice: str) -> None:
    with pytest.raises(pr.FormulaError, match=advice):
        parse(text)


@pytest.mark.parametrize(
    ("family", "advice"),
    [
        ("logit", 'family="binomial"'),
        ("probit", 'link="probit"'),
        ("ols", 'family="gaussian"'),
        ("nb", "negative-binomial"),
    ],
)
def test_families_of_other_programs_are_translated(family: str, advice: str, frame: pd.DataFrame) -> None:
    with pytest.raises(pr.FormulaError, match=advice):
        pr.fit("y ~ x", frame, None, family=family)


def test_parts_are_divided_by_bars() -> None:
    main, first = parse_parts("y ~ x + w | z + w")
    assert (main.covariates, first.covariates, first.label) == (("x", "w"), ("z", "w"), "y")


def test_text_is_neither_repeated_nor_joined(frame: pd.DataFrame) -> None:
    for text in ("I(g * 100000000)", "I(g + g)", "I(x & w)"):
        with pytest.raises(pr.FormulaError, match="needs"):
            pr.fit(f"y ~ {text}", frame, None)


def test_columns_are_counted_before_they_are_made(frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    assert COLUMNS >= 1000
    monkeypatch.setattr("pramana.formulas.design.COLUMNS", 0)
    for terms, count in (("g", 3), ("g:h", 6), ("g * h * x", 12), ("0 + g:x", 3), ("poly(x, 2):g + C(h)", 8)):
        parsed = parse(f"y ~ {terms}")
        values = {text: value_of(f, frame, {}) for text, f in parsed.factors.items() if names(f)}
        with pytest.raises(pr.FormulaError, match=f"has {count} columns"):
            _refuse_wide(parsed, values)


# The list of functions


def test_every_function_of_the_list_can_be_called(frame: pd.DataFrame) -> None:
    for name, function in FUNCTIONS.items():
        implementation(name)
        if function.kind == "rows" and function.parameters == ("x",):
            assert np.all(np.isfinite(value_of(expression(f"{name}(w / 5)"), frame, {})))


def test_the_list_leaves_out_only_what_it_means_to_of_formulaic() -> None:
    assert set(TRANSFORMS) - set(FUNCTIONS) == {"np", "contr", "lag", "hashed", "Q", "exp10"}


def test_the_guide_shows_the_list_and_nothing_else() -> None:
    table = GUIDE.read_text(encoding="utf-8").split("| function | what it gives |")[1].split("\n\n")[0]
    shown = set(re.findall(r"^\| `([^`]+)`", table, re.MULTILINE))
    assert shown == {f.call for f in FUNCTIONS.values()} | {"offset(x)"}


def test_the_guide_and_the_reader_state_one_grammar() -> None:
    guide = GUIDE.read_text(encoding="utf-8").split("```text\n")[1].split("```")[0]
    assert guide.split() == str(language.__doc__).split("::")[1].split()


# Functions of the user's own


def _half(x: pd.Series) -> pd.Series:
    return x / 2


def test_functions_of_ones_own_can_be_called_everywhere(frame: pd.DataFrame) -> None:
    own = {"half": _half}
    plain = pr.fit("y ~ I(x / 2)", frame, None)
    for result in (
        pr.fit("y ~ half(x)", frame, None, functions=own),
        pr.fit(pr.glm("y ~ half(x)", functions=own), frame, None),
        pr.fit("glm(y ~ half(x))", frame, None, functions=own),
        pr.compare("y ~ half(x)", frame, None, ["naive"], functions=own).results["naive"],
        pr.fit("y ~ half(x)", frame, None, functions=own, method=pr.Naive()),
    ):
        np.testing.assert_allclose(result.estimate, plain.estimate, rtol=1e-12)
    assert pr.fit("half(y) ~ x + offset(half(w))", frame, None, functions=own).n == len(frame)
    margins = pr.fit("y ~ half(x)", frame, None, functions=own).margins(frame, "x")
    np.testing.assert_allclose(margins.estimate, plain.estimate[1:] / 2, rtol=1e-6)


def test_every_plan_with_a_formula_takes_functions_and_stays_picklable() -> None:
    own = {"half": _half}
    plans = (
        pr.glm("y ~ half(x)", functions=own),
        pr.multinomial("g ~ half(x)", functions=own),
        pr.ordinal("g ~ half(x)", functions=own),
        pr.quantile_regression("y ~ half(x)", functions=own),
        pr.two_stage_least_squares("y ~ half(x) | w", functions=own),
        pr.margins("y ~ half(x)", functions=own),
        pr.average_treatment_effect("y", "h", "half(x)", functions=own),
    )
    for plan in plans:
        again = pickle.loads(pickle.dumps(plan))
        assert again == plan
        assert "x" in again.variables


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({"log": np.log}, "'log' is a function of formulas already"),
        ({"a b": np.log}, "is no plain name"),
        ({"f": 3}, "'f' is a int, which cannot be called"),
        ([np.log], "must be a dictionary"),
        ({"f": np.mean}, r"gives 1 value\(s\) for 120 records"),
        ({"f": lambda x: x / (1 // 0)}, "could not be evaluated: .*by zero"),
    ],
)
def test_a_function_that_cannot_be_used_is_refused(functions: object, message: str, frame: pd.DataFrame) -> None:
    with pytest.raises(pr.FormulaError, match=message):
        pr.fit("y ~ f(x)", frame, None, functions=functions)


def test_functions_belong_to_a_formula(frame: pd.DataFrame) -> None:
    with pytest.raises(pr.FormulaError, match="belongs to a formula"):
        pr.fit(pr.mean("y"), frame, None, functions={"half": _half})
