"""Tables of several models: what stands in them, in every format, and what is refused."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.model_table import Model, of_models


@pytest.fixture
def models(survey: pd.DataFrame, mechanism: pr.Mechanism) -> dict[str, pr.Result]:
    return {
        "short": pr.fit("income ~ edu", survey, mechanism),
        "long": pr.fit("income ~ age + edu", survey, mechanism),
        "work": pr.fit("employed ~ age + edu", survey, mechanism, family="binomial"),
    }


def lines(made: pr.ModelTable) -> dict[str, list[str]]:
    """The cells of each line that has a label."""
    return {str(row[0]): list(row[1:]) for row in made.sheet().rows if row[0]}


def test_models_are_lined_up_by_the_names_of_their_terms(models: dict[str, pr.Result]) -> None:
    made = pr.table(models)
    found = lines(made)
    assert list(found)[:4] == ["Intercept", "edu[T.mid]", "edu[T.high]", "age"]
    assert found["age"] == ["", f"{models['long']['age'].estimate:.3f}", f"{models['work']['age'].estimate:.3f}"]
    below = made.sheet().rows[1]
    assert below == ("", *(f"({r['Intercept'].std_error:.3f})" for r in models.values()))
    assert found["Records"] == ["400", "400", "400"]
    assert found["Outcome"] == ["income", "income", "employed"]
    assert repr(made) == str(made) == made.summary()


def test_a_list_has_numbers_and_a_comparison_its_labels(
    models: dict[str, pr.Result], survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    assert pr.table(list(models.values())).sheet().columns == ("", "(1)", "(2)", "(3)")
    assert pr.table(models["long"]).sheet().columns == ("", "(1)")
    compared = pr.compare("income ~ edu", survey, mechanism)
    assert pr.table(compared).sheet().columns == ("", "reversion", "naive")


def test_labels_join_terms_of_different_models_and_never_of_one(models: dict[str, pr.Result]) -> None:
    other = pr.fit("y ~ years", {"y": [1.0, 2.0, 4.0, 4.5], "years": [0, 1, 2, 3]}, None)
    found = lines(pr.table({"long": models["long"], "other": other}, labels={"age": "Age", "years": "Age"}))
    assert found["Age"] == [f"{models['long']['age'].estimate:.3f}", f"{other['years'].estimate:.3f}"]
    with pytest.raises(pr.PramanaError, match="two terms of one model have the label 'Age'"):
        pr.table(models, labels={"age": "Age", "edu[T.mid]": "Age"})
    with pytest.raises(pr.PramanaError, match=r"did you mean 'edu\[T.mid\]'"):
        pr.table(models, labels={"edu[mid]": "Middle"})


def test_stars_are_off_by_default_and_as_many_as_levels_that_p_is_below() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=300)
    fitted = pr.fit("y ~ x", {"y": x + rng.normal(size=300), "x": x}, None)
    p = fitted["Intercept"].p_value
    assert "*" not in str(pr.table([fitted]))
    assert lines(pr.table([fitted], stars=True))["x"][0].endswith("***")
    assert lines(pr.table([fitted], stars=(p / 2, p * 1.001)))["Intercept"][0].endswith("*")
    assert not lines(pr.table([fitted], stars=(p,)))["Intercept"][0].endswith("*")
    assert "* p < 0.1, ** p < 0.05" in str(pr.table([fitted], stars=(0.05, 0.1)))


@pytest.mark.parametrize("stars", [(0.0,), (2,), ("a",), (0.05, 0.05), (0.5, 0.4, 0.3, 0.2, 0.1, 0.05)])
def test_levels_that_are_none_are_refused(stars: object, models: dict[str, pr.Result]) -> None:
    with pytest.raises(pr.PramanaError, match="are no levels"):
        pr.table(models, stars=stars)


def test_ratios_have_errors_by_the_delta_method_and_transformed_limits(models: dict[str, pr.Result]) -> None:
    work = models["work"]
    row = work["age"]
    made = pr.table([work], exponentiate=True, below="interval", level=0.9)
    low, high = np.exp(work.interval(0.9)[work.parameters.index("age")])
    k = [r[0] for r in made.sheet().rows].index("age")
    assert made.sheet().rows[k][1] == f"{np.exp(row.estimate):.3f}"
    assert made.sheet().rows[k + 1][1] == f"[{low:.3f}, {high:.3f}]"
    assert "90 % intervals in brackets." in made.sheet().notes
    assert any("ratios, with the limits of the logarithms exponentiated" in note for note in made.sheet().notes)
    plain = pr.table([work], exponentiate=True)
    assert plain.sheet().rows[k + 1][1] == f"({np.exp(row.estimate) * row.std_error:.3f})"
    assert any("delta method" in note for note in plain.sheet().notes)
    with pytest.raises(pr.PramanaError, match="exponentiate makes ratios of logarithms"):
        pr.table(models, exponentiate=True)


@pytest.mark.parametrize("below", ["std_error", "interval", "statistic", "p_value", "nothing"])
def test_what_stands_below_is_said(below: str, models: dict[str, pr.Result]) -> None:
    made = pr.table([models["long"]], below=below)
    row = models["long"]["age"]
    k = [r[0] for r in made.sheet().rows].index("age")
    shown = {
        "std_error": f"({row.std_error:.3f})",
        "interval": f"[{row.conf_low:.3f}, {row.conf_high:.3f}]",
        "statistic": f"({row.statistic:.3f})",
        "p_value": "(<0.001)",
    }
    assert below == "nothing" or made.sheet().rows[k + 1][1] == shown[below]
    own = [note for note in made.sheet().notes if not note.startswith("(1): ")]
    assert len(own) == (below != "nothing")


def test_headers_span_their_models(models: dict[str, pr.Result]) -> None:
    made = pr.table(models, groups={"Income": ["short", "long"]})
    assert made.sheet().spans == (("", 1), ("Income", 2), ("", 1))
    assert r"\multicolumn{2}{c}{Income}" in made.to_latex()
    assert r"\cmidrule(lr){2-3}" in made.to_latex()
    assert '<th colspan="2" style="text-align:center">Income</th>' in made.to_html()
    assert "| Income: short | Income: long | work |" in made.to_markdown()
    assert "Income" in str(made).splitlines()[1]
    with pytest.raises(pr.PramanaError, match="side by side"):
        pr.table(models, groups={"A": ["short", "work"], "B": ["long"]})
    with pytest.raises(pr.PramanaError, match="in the groups 'A' and 'B'"):
        pr.table(models, groups={"A": ["short", "long"], "B": ["long"]})
    with pytest.raises(pr.PramanaError, match="did you mean 'long'"):
        pr.table(models, groups={"A": ["lon"]})


def test_statistics_are_those_asked_for(models: dict[str, pr.Result], survey: pd.DataFrame) -> None:
    likely = pr.fit(
        "employed ~ edu",
        survey,
        pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(["low", "mid", "high"], keep=0.9)}),
        family="binomial",
        method="likelihood",
    )
    found = lines(pr.table({"a": models["work"], "b": likely}))
    assert found["AIC"] == ["", likely.facts["AIC"]]
    chosen = lines(pr.table(models, statistics=["Standard errors", "Family"]))
    assert list(chosen)[-2:] == ["Standard errors", "Family"]
    assert "Records" not in chosen
    assert list(lines(pr.table(models, statistics=[]))) == ["Intercept", "edu[T.mid]", "edu[T.high]", "age"]
    with pytest.raises(pr.PramanaError, match="did you mean 'Records'"):
        pr.table(models, statistics=["records"])


def test_terms_are_chosen_and_ordered(models: dict[str, pr.Result]) -> None:
    assert list(lines(pr.table(models, terms=["age", "edu[T.high]"], statistics=[]))) == ["age", "edu[T.high]"]


def test_numbers_of_a_model_have_one_format(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    rich = pr.fit("money ~ age + edu", survey.assign(money=1e6 * survey["income"]), mechanism)
    cells = lines(pr.table([rich], statistics=[]))
    assert all("e+" not in cell[0] and "." not in cell[0] for cell in cells.values())
    assert "," in cells["Intercept"][0]
    small = pr.fit("money ~ age", survey.assign(money=1e-5 * survey["income"]), None)
    shown = {float(cell[0]) for cell in lines(pr.table([small], statistics=[])).values()}
    assert 0.0 not in shown


def test_a_result_that_is_not_to_be_trusted_says_so_below() -> None:
    mechanism = pr.Mechanism({"y": pr.TransitionMatrix.binary(sensitivity=0.8, specificity=0.9)})
    found = pr.fit(pr.mean("y"), {"y": [1] * 5 + [0] * 95}, mechanism)
    assert any(note.startswith("(1): warning: mean(y)") for note in pr.table([found]).sheet().notes)


NASTY = "a_b & 50% $x$ #1 {y} ~ ^ \\ <i> | `q` [z] *s*"


GREEK = "αβγδεζηθικλμνξπρστυφχψω ΓΔΘΛΞΠΣΥΦΨΩ β₀₁₂ ≤ × ∞"


def test_greek_letters_are_mathematics_in_latex(models: dict[str, pr.Result]) -> None:
    tex = pr.table(models, labels={"age": "β₁"}, notes=GREEK).to_latex()
    assert r"$\beta$$_1$ &" in tex
    assert tex.isascii()


def test_text_is_data_in_every_format(models: dict[str, pr.Result]) -> None:
    made = pr.table(
        {NASTY: models["long"]}, labels={"age": f"[1] {NASTY}"}, groups={NASTY: [NASTY]}, notes=NASTY, title=NASTY
    )
    tex = made.to_latex()
    bare = tex.replace("% needs \\usepackage{booktabs}", "").replace(r"\\", "")
    for mark in "&%$#_":
        assert not [i for i, c in enumerate(bare) if c == mark and bare[i - 1] != "\\" and mark not in "&$"]
    assert "<" not in tex.replace("$<$", "")
    assert tex.count("\n{}[1]") == 1  # or the line before would take it for its own argument
    text = made.to_html()
    assert "<i>" not in text
    seen: list[str] = []

    class Reader(HTMLParser):
        def handle_data(self, data: str) -> None:
            seen.append(data)

    Reader().feed(text)
    assert seen.count(NASTY) == 4
    rows = [line for line in made.to_markdown().splitlines() if line.startswith("|")]
    assert len({row.replace("\\|", "").count("|") for row in rows}) == 1


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("t.txt", "---"), ("t.md", "|"), ("t.tex", "% needs"), ("t.html", "<!doctype html>"), ("t.csv", "model,label"), ("t.json", "{"),
    ],
)  # fmt: skip
def test_saved_by_the_ending_and_never_over_another_file(
    name: str, start: str, models: dict[str, pr.Result], tmp_path: Path
) -> None:
    made, path = pr.table(models), tmp_path / name
    made.save(path)
    kept = path.read_text()
    assert kept.startswith(start)
    with pytest.raises(pr.PramanaError, match="exists"):
        made.save(path)
    pr.table(models, digits=1).save(path, force=True)
    assert name in ("t.csv", "t.json") or path.read_text() != kept
    assert [p.name for p in tmp_path.iterdir()] == [name]
    with pytest.raises(pr.PramanaError, match=r"unknown ending: use \.txt"):
        made.save(tmp_path / "t.docx")


def test_numbers_are_kept_in_full(models: dict[str, pr.Result]) -> None:
    made = pr.table(models, labels={"age": "Age"})
    read = list(csv.DictReader(io.StringIO(made.to_csv())))
    frame = made.to_frame()
    assert len(read) == len(frame) == 3 + 4 + 4
    row = next(r for r in read if r["model"] == "long" and r["term"] == "age")
    assert float(row["estimate"]) == models["long"]["age"].estimate
    assert row["label"] == "Age"
    assert json.loads(made.summary("json"))["statistics"]["long"]["Records"] == "400"


def test_a_result_written_as_json_makes_the_same_table(models: dict[str, pr.Result]) -> None:
    back = {name: Model.from_document(json.loads(r.summary("json")), name) for name, r in models.items()}
    assert str(of_models(back)) == str(pr.table(models))
    ratio = Model.from_document(json.loads(models["work"].summary("json")), "work", exponentiate=True)
    assert str(of_models({"(1)": ratio}, below="interval")) == str(
        pr.table([models["work"]], exponentiate=True, below="interval")
    )
    before = json.loads(models["work"].summary("json", exponentiate=True))
    assert str(of_models({"(1)": Model.from_document(before, "work")})) == str(
        pr.table([models["work"]], exponentiate=True)
    )
    with pytest.raises(pr.PramanaError, match="holds no logarithms"):
        Model.from_document(json.loads(models["long"].summary("json")), "long", exponentiate=True)


def test_the_names_of_ratios_go_with_them(survey: pd.DataFrame) -> None:
    found = pr.fit(pr.odds_ratio("employed", "region"), survey, None)
    document = json.loads(found.summary("json"))
    back = of_models({"(1)": Model.from_document(document, "a", exponentiate=True)})
    assert str(back) == str(pr.table([found], exponentiate=True))


@pytest.mark.parametrize("wrong", [{}, {"digits": 9}, {"digits": True}, {"below": "se"}])
def test_what_cannot_be_is_refused_in_words(wrong: dict[str, object], models: dict[str, pr.Result]) -> None:
    with pytest.raises(pr.PramanaError, match=r"Result|digits|std_error"):
        pr.table(models if wrong else {"a": 3}, **wrong)
    with pytest.raises(pr.PramanaError, match="no models"):
        pr.table([])


def test_latex_is_taken_by_tex(models: dict[str, pr.Result], tmp_path: Path) -> None:
    program = next((p for p in ("pdflatex", "xelatex", "lualatex", "tectonic") if shutil.which(p)), None)
    if program is None:
        pytest.skip("no TeX is installed here")
    made = pr.table(
        {NASTY: models["long"], "b": models["work"]}, groups={NASTY: [NASTY]}, title=NASTY, notes=[NASTY, GREEK]
    )
    opening = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n"
    (tmp_path / "t.tex").write_text(f"{opening}{made.to_latex()}\n\\end{{document}}\n")
    options = [] if program == "tectonic" else ["-interaction=nonstopmode", "-halt-on-error"]
    done = subprocess.run([program, *options, "t.tex"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]


def test_maketables_takes_our_results_beside_those_of_statsmodels(
    survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    maketables = pytest.importorskip("maketables", reason="maketables is not installed")
    import statsmodels.formula.api as smf

    ours, theirs = pr.fit("income ~ age + edu", survey, mechanism), smf.ols("income ~ age", survey).fit()
    shown = maketables.ETable([ours, theirs], model_stats=["N", "se_type"]).df.astype(str)
    assert f"{ours['age'].estimate:.3f}" in shown.loc[("coef", "age")].iloc[0]
    assert shown.loc[("stats", "S.E. type")].iloc[0] == ours.inference
    assert {column[0] for column in shown.columns} == {"income"}


def test_the_protocol_of_maketables_holds_the_numbers_of_the_table(models: dict[str, pr.Result]) -> None:
    found = models["long"]
    table = found.__maketables_coef_table__
    assert table.index.name == "Coefficient"
    assert list(table.index) == list(found.parameters)
    np.testing.assert_array_equal(table["b"], found.estimate)
    np.testing.assert_array_equal(table["se"], found.standard_errors)
    np.testing.assert_array_equal(table["p"], found.pvalues)
    np.testing.assert_array_equal(table[["ci95l", "ci95u"]], found.interval(0.95))
    assert found.__maketables_stat__("N") == 400
    assert found.__maketables_stat__("method") == "reversion"
    assert found.__maketables_stat__("Family") == "gaussian, identity link"
    assert found.__maketables_stat__("r2") is None
    assert found.__maketables_depvar__ == "income"
    assert found.__maketables_vcov_info__ == {"vcov_type": found.inference}
