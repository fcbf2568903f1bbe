"""Studies c1 to c6 in small: what their analysts find, that a seed fixes it, and that a wrong belief is seen."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pramana as pr
from pramana.cli.studies import run_studies
from pramana.errors import PramanaError
from pramana.studies import Analyst, Scenario, run_replicates
from pramana.studies.noise import AS_KNOWN, RATIO, STUDIES, WRONG_SCALE
from pramana.studies.noise_page import must_fail, passes
from pramana.studies.simulation import Study, label_of
from pramana.studies.study import study_of
from pramana.studies.summary import variances_over_true

NOISE = ("c1", "c2", "c3", "c4", "c5")
PAGES = Path(__file__).parents[3] / "docs" / "reproduction"


def small(name: str, cell: int = 0, n: int = 500) -> tuple[Study, Scenario]:
    study = study_of(name)
    return study, replace(study.scenarios[cell], n=n)


@pytest.mark.parametrize("name", STUDIES)
def test_a_replicate_depends_on_seed_and_index_alone(name: str) -> None:
    study, scenario = small(name)
    several = run_replicates(scenario, study.methods, 3, seed=4)
    alone = run_replicates(scenario, study.methods, [2], seed=4)
    other = run_replicates(scenario, study.methods, [2], seed=5)
    assert list(several.values) == [label_of(m) for m in study.methods]
    for label, numbers in several.values.items():
        for key, values in numbers.items():
            np.testing.assert_array_equal(values[2], alone.values[label][key][0])
        assert not np.array_equal(alone.values[label]["estimate"], other.values[label]["estimate"])


@pytest.mark.parametrize("name", NOISE)
def test_analysts_find_what_fit_finds(name: str) -> None:
    """One by one and many together, with all columns perturbed, and with one."""
    study, scenario = small(name, n=1000)
    x = scenario.mechanism.columns[0]
    ways = (Analyst("fit"), Analyst("many", by="wald"), Analyst("x", columns=[x]), Analyst("many x", [x], by="point"))
    found = run_replicates(scenario, ways, 2, seed=1).values
    released = scenario.data(1, [1])[1]
    alone = pr.fit(scenario.what, released, scenario.mechanism, family=scenario.family)
    plain = pr.fit(
        scenario.what, released, scenario.mechanism, family=scenario.family, inference=pr.Sandwich(correction="HC0")
    )
    np.testing.assert_array_equal(found["fit"]["estimate"][1], alone.estimate)
    np.testing.assert_array_equal(found["fit"]["se_fit"][1], alone.standard_errors)
    np.testing.assert_array_equal(found["fit"]["low_fit"][1], alone.interval()[:, 0])
    np.testing.assert_allclose(found["many"]["estimate"], found["fit"]["estimate"], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found["many"]["se_sandwich"][1], plain.standard_errors, rtol=1e-5)
    np.testing.assert_allclose(found["many x"]["estimate"], found["x"]["estimate"], rtol=1e-5, atol=1e-7)
    assert np.all(found["x"]["se_fit"] <= 1.02 * found["fit"]["se_fit"])
    assert study.prices["interaction"] == {"reversion": 1, f"only {x}": -1, **_second(study), "true data": 1}


def _second(study: Study) -> dict[str, int]:
    return {f"only {study.scenarios[0].mechanism.columns[1]}": -1}


@pytest.mark.parametrize("name", NOISE)
def test_a_scale_10_percent_off_is_seen_where_the_true_one_is_right(name: str) -> None:
    """In the strongest noise, by the coefficient of x, between the two analyses of the same data."""
    study = study_of(name)
    scenario = study.scenarios[-1]
    assert float(str(scenario.label[RATIO])) >= 0.5
    wrong = next(m for m in study.methods if isinstance(m, Analyst) and m.label == WRONG_SCALE)
    found = run_replicates(scenario, [Analyst("right", by="wald"), wrong], 16, seed=2)
    j = found.parameters.index("x")
    right, off = (found.values[m]["estimate"][:, j] for m in ("right", WRONG_SCALE))
    error = found.values["right"]["se_sandwich"][:, j].mean()
    assert abs(right.mean() - scenario.truth[j]) < 4.5 * error / 4
    gap = off - right
    assert gap.mean() > 8 * gap.std(ddof=1) / 4
    assert gap.mean() > 0.4 * error


def test_a_measured_p_comes_anew_with_every_data_set_and_widens_the_errors() -> None:
    study, scenario = small("c6", cell=1, n=2000)
    measuring, known = (m for m in study.methods if isinstance(m, Analyst) and m.measures is not None)
    found = run_replicates(scenario, [measuring, known], 4, seed=1).values
    np.testing.assert_allclose(found["reversion"]["estimate"], found[AS_KNOWN]["estimate"], rtol=1e-8)
    assert np.all(found["reversion"]["se_fit"][:, 2:] > found[AS_KNOWN]["se_fit"][:, 2:])
    ideas = [measuring.idea(scenario, scenario.draw_seed(1, r)) for r in (0, 1, 0)]
    assert ideas[0] == ideas[2] != ideas[1]


def test_an_analyst_who_measures_is_given_to_fit() -> None:
    with pytest.raises(PramanaError, match="leave out by= and believes="):
        Analyst("m", measures=lambda s, _rng: s.mechanism, by="wald")


def test_a_data_set_without_a_root_is_counted() -> None:
    """All responses equal: the logit has no root, and its row is missing."""

    def generate(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        return {"x": rng.normal(size=n), "y": np.ones(n, dtype=int)}

    scenario = Scenario(generate, pr.Mechanism({"x": pr.LaplaceNoise(0.3)}), "y ~ x", (0.0, 1.0), 50, "binomial")
    found = run_replicates(scenario, [Analyst("fit")], 2, seed=1)
    assert np.isnan(found.values["fit"]["estimate"]).all()
    assert found.values["fit"]["low_fit"].shape == (2, 2)


def test_prices_are_sums_of_variances_over_the_oracle() -> None:
    rng = np.random.default_rng(1)
    oracle = rng.normal(size=4000)
    column = {"true data": oracle, "a": oracle + 0.5 * rng.normal(size=4000), "b": oracle + rng.normal(size=4000)}
    column["b"][7] = np.nan
    good = np.isfinite(column["b"])
    plain = (2 * np.var(column["b"][good]) - np.var(column["a"][good])) / np.var(oracle[good])
    value, error = variances_over_true(column, {"b": 2, "a": -1})
    assert value == pytest.approx(plain, rel=1e-12)
    assert abs(value - 2.75) < 4.5 * error
    assert error < 0.15


def test_the_test_of_a_cell() -> None:
    row = {"replicates": 2000, "bias": 0.01, "se_fit": 0.1, "cp_fit": 0.95, "truth": 0.7, "parameter": "x", RATIO: 0.5}
    assert passes(row)
    assert not passes(row | {"bias": -0.021})
    assert not passes(row | {"cp_fit": 0.91})
    assert not passes(row | {"cp_fit": 0.99})
    assert must_fail(row)
    assert not must_fail(row | {RATIO: 0.4})
    assert not must_fail(row | {"truth": 0.5})


def table(path: Path) -> list[dict[str, Any]]:
    """The rows of a study's CSV; empty cells left out."""
    with path.open(encoding="utf-8", newline="") as file:
        return [{k: _number(v) for k, v in row.items() if v} for row in csv.DictReader(file)]


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


@pytest.mark.parametrize("path", sorted(PAGES.glob("c?.csv")), ids=lambda path: path.stem)
def test_committed_results_are_of_the_studies_as_they_are_and_reach_what_they_must(path: Path) -> None:
    study, rows = study_of(path.stem), table(path)
    cells = dict.fromkeys(tuple(str(row[k]) for k in (*study.scenarios[0].label, "n")) for row in rows)
    kept = [tuple(str(_number(str(v))) for v in (*s.label.values(), s.n)) for s in study.scenarios]
    assert list(cells) == kept
    own = [row for row in rows if row["method"] == "reversion"]
    assert all(row["replicates"] >= 2000 and passes(row) for row in own)
    wrong = [row for row in rows if row["method"] == WRONG_SCALE]
    asked = [other for row, other in zip(own, wrong, strict=False) if must_fail(row)]
    assert not any(passes(row) for row in asked)
    assert asked or path.stem == "c6"


def test_the_page_of_a_study(tmp_path: Path) -> None:
    options = {
        "replicates": 6,
        "resamples": 20,
        "workers": 1,
        "device": "cpu",
        "resume": False,
        "seed": 1,
        "data": None,
    }
    written = {path.name for path in run_studies("c6", tmp_path, **options)}
    pictures = {f"c6-{stem}.{kind}" for stem in ("coverage", "price") for kind in ("png", "svg")}
    assert written == {"c6.csv", "c6.md", "c6.html"} | pictures
    page = (tmp_path / "c6.md").read_text(encoding="utf-8")
    for words in ("coverage 95 %", "measured P", AS_KNOWN, "(c6-coverage.png)", "(c6-price.png)", "|β|/SE"):
        assert words in page.replace("\\", "")
