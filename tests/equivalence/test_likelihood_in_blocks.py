"""The likelihood of records that are read in blocks is that of the records in memory, whatever is perturbed and however they were sampled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import dataset

import pramana as pr
from pramana.analysis import distinct, streaming
from pramana.estimators.likelihood import climbing, starts
from pramana.frames import cells, sources

N = 1500
LEVELS = ["low", "mid", "high"]
MECHANISM = pr.Mechanism(
    {
        "edu": pr.TransitionMatrix.randomized_response(LEVELS, keep=0.8),
        "ill": pr.TransitionMatrix.binary(0.9, 0.85),
        "job": pr.Stratified(
            "region", {"n": pr.TransitionMatrix.binary(0.9, 0.8), "s": pr.TransitionMatrix.binary(0.85, 0.9)}
        ),
    }
)


def released(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, edu, sex = rng.normal(size=n), rng.choice(3, n, p=[0.5, 0.3, 0.2]), rng.integers(0, 2, n)
    job = (rng.random(n) < 0.3 + 0.2 * sex).astype(int)
    frame = pd.DataFrame(
        {
            "x": x,
            "edu": np.array(LEVELS)[edu],
            "sex": np.array(["f", "m"])[sex],
            "job": job,
            "ill": (rng.random(n) < 1 / (1 + np.exp(0.5 - 0.8 * edu - 0.5 * x))).astype(int),
            "wage": 7 + 0.8 * edu + 0.3 * sex + 0.5 * job + 0.5 * rng.normal(size=n),
            "visits": rng.poisson(np.exp(0.5 + 0.2 * x + 0.4 * edu)),
            "w": np.where(rng.random(n) < 0.05, 0.0, rng.uniform(0.5, 2.0, n)),
            "times": rng.integers(0, 3, n),
            "firm": rng.integers(0, 25, n),
            "region": rng.choice(["n", "s"], n),
        }
    )
    return MECHANISM.perturb(frame, seed=seed)


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return released(N, 8)


@pytest.fixture(scope="module")
def folder(data: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = written(data, tmp_path_factory.mktemp("likelihood"))
    data.iloc[:0].to_parquet(out / "part-9.parquet", index=False)  # a file without records
    return out


def written(data: pd.DataFrame, out: Path) -> Path:
    for k, rows in enumerate(np.array_split(np.arange(len(data)), 5)):
        data.iloc[rows].to_parquet(out / f"part-{k}.parquet", index=False)
    return out


@pytest.fixture
def in_blocks(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Blocks of so many records, and a sample of so many."""

    def cut(size: int, pilot: int) -> None:
        monkeypatch.setattr(sources, "BATCH", size)
        monkeypatch.setattr(streaming, "PILOT", pilot)

    return cut


def fitted(what: Any, given: Any, **options: Any) -> pr.LikelihoodResult:
    found = pr.fit(what, given, options.pop("mechanism", MECHANISM), **{"method": "likelihood", **options})
    assert isinstance(found, pr.LikelihoodResult)
    return found


def same(found: pr.LikelihoodResult, whole: pr.LikelihoodResult) -> None:
    assert found.parameters == whole.parameters
    assert np.abs((found.estimate - whole.estimate) / whole.standard_errors).max() < 1e-9
    np.testing.assert_allclose(found.standard_errors, whole.standard_errors, rtol=1e-9)
    np.testing.assert_allclose(found.interval(), whole.interval(), rtol=1e-8)
    assert found.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-12)
    assert (found.n, found.inference, found.parameter_count) == (whole.n, whole.inference, whole.parameter_count)
    if whole.dispersion is not None:
        assert found.dispersion == pytest.approx(whole.dispersion, rel=1e-9)
    assert found.content == whole.content
    assert replace_starts(found) == replace_starts(whole)


def replace_starts(result: pr.LikelihoodResult) -> tuple[Any, ...]:
    """All that is said but for how starts were found."""
    return result.diagnostics, {name: text for name, text in result.facts.items() if name != "Starts"}


LOGIT = {"family": "binomial"}
DESIGN = pr.SurveyDesign(weights="w", strata="region", clusters="firm")
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    # perturbed response alone
    "response": ("ill ~ x + region", LOGIT),
    "response, weights": ("ill ~ x", {**LOGIT, "weights": "w"}),
    "response, clusters": ("ill ~ x", {**LOGIT, "clusters": "firm"}),
    "response, frequencies": ("ill ~ x", {**LOGIT, "frequencies": "times", "inference": pr.Sandwich("HC1")}),
    "response, design": ("ill ~ x", {**LOGIT, "design": DESIGN}),
    "nothing perturbed": ("wage ~ x + center(w)", {}),
    # perturbed covariates
    "one table": ("wage ~ edu", {}),
    "tables by cell": ("wage ~ edu + sex", {}),
    "a logit": ("wage ~ edu + x + sex", {}),
    "interaction": ("wage ~ edu * sex + x", {}),
    "counts": ("visits ~ edu + x", {"family": "poisson"}),
    "gamma": ("wage ~ edu + sex", {"family": "gamma", "link": "log"}),
    "covariate model": ("wage ~ edu", {"method": pr.Likelihood(covariate_model="sex + center(x)")}),
    "saturated": ("wage ~ edu + sex", {"method": pr.Likelihood(covariate_model="saturated"), "inference": "sandwich"}),
    "outside of the formula": ("wage ~ sex", {"method": pr.Likelihood(covariates=("job",))}),
    "offset": ("visits ~ edu + offset(x)", {"family": "poisson"}),
    "start": ("wage ~ edu + sex", {"start": [7.0, 0.5, 1.0, 0.0]}),
    # both, two columns, strata
    "response and covariate": ("ill ~ x + edu", LOGIT),
    "two columns, one by stratum": ("wage ~ edu + job + sex", {}),
    "covariates, weights": ("wage ~ edu + sex", {"weights": "w"}),
    "covariates, clusters": ("wage ~ edu + sex", {"clusters": "firm"}),
    "covariates, frequencies": ("wage ~ edu + sex", {"frequencies": "times"}),
    "covariates, design": ("wage ~ edu + x", {"design": DESIGN}),
    "subset": ("wage ~ edu + sex", {"subset": "x > -1 and region == 'n'", "weights": "w"}),
}
SIZES = ((10_000, N), (1000, 400), (150, 200))


@pytest.mark.parametrize(
    ("case", "size"),
    [pytest.param(case, SIZES[k % 3], id=f"{case} · {SIZES[k % 3][0]}") for k, case in enumerate(CASES)],
)
def test_blocks_give_the_answer_of_all_records(
    case: str, size: tuple[int, int], data: pd.DataFrame, folder: Path, in_blocks: Callable[[int, int], None]
) -> None:
    what, options = CASES[case]
    in_blocks(*size)
    same(fitted(what, folder, memory=1, **options), fitted(what, data, **options))


@pytest.mark.parametrize(("size", "source"), [(1, "folder"), (7, "folder"), (7, "dataset"), (1000, "folder")])
def test_the_size_of_blocks_changes_nothing(
    size: int, source: str, tmp_path: Path, in_blocks: Callable[[int, int], None]
) -> None:
    few = released(30 if size == 1 else 60, 3)
    given = (
        written(few, tmp_path)
        if source == "folder"
        else dataset.dataset(pa.Table.from_pandas(few, preserve_index=False))
    )
    in_blocks(size, len(few) - 10)
    whole = fitted("wage ~ edu + sex", few, clusters="firm")
    same(fitted("wage ~ edu + sex", given, clusters="firm", memory=1), whole)


def test_runs_of_a_block_are_added_up(
    data: pd.DataFrame, folder: Path, in_blocks: Callable[[int, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block whose records take too much at once is worked on in pieces."""
    in_blocks(10_000, 300)
    monkeypatch.setattr(climbing, "ENTRIES", 2000)
    for options in ({"weights": "w", "clusters": "firm"}, {"inference": pr.Sandwich("HC1")}):
        same(fitted("wage ~ edu + sex", folder, memory=1, **options), fitted("wage ~ edu + sex", data, **options))


def test_gaps_are_left_out(data: pd.DataFrame, tmp_path: Path, in_blocks: Callable[[int, int], None]) -> None:
    """In the formula, in a perturbed column and in one that the covariates' model alone reads; a level occurs in the last file only."""
    gaps = data.astype({"edu": object}).assign(place=np.where(np.arange(N) < N - 60, "here", "there"))
    gaps.loc[[3, 700], "wage"] = np.nan
    gaps.loc[[4, 900, 901], "edu"] = None
    gaps.loc[[1400], "x"] = np.nan
    written(gaps, tmp_path)
    in_blocks(90, 200)
    method = pr.Likelihood(covariate_model="x + place")
    options = {"method": method, "missing": "drop"}
    found, whole = (
        fitted("wage ~ edu + sex", tmp_path, memory=1, **options),
        fitted("wage ~ edu + sex", gaps, **options),
    )
    same(found, whole)
    assert found.n == N - 6


def test_cells_that_the_sample_lacks(in_blocks: Callable[[int, int], None], tmp_path: Path) -> None:
    """Thirty cells and sixty records of a sample: many of their tables begin from those of the others."""
    rng = np.random.default_rng(2)
    data = released(1500, 2)
    data["cell"] = rng.integers(0, 30, 1500)
    written(data, tmp_path)
    in_blocks(500, 60)
    method = pr.Likelihood(covariate_model="saturated")
    whole = fitted("wage ~ edu + cell", data, method=method)
    assert whole.parameter_count == 4 + 1 + 30 * 2
    same(fitted("wage ~ edu + cell", tmp_path, method=method, memory=1), whole)


@pytest.mark.parametrize(
    ("formula", "terms", "step"),
    [("y ~ g + x", "city", 5), ("y ~ g + x", "C(part)", 5), ("y ~ g + x + city", None, 11)],
)
def test_levels_that_a_thinned_sample_lacks(
    formula: str, terms: str | None, step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is a sample of itself, of which starts are tried on every fifth or eleventh record; two groups lie between these, and their records
    were taken for the first group's. Of one record of each the sample makes a probability of nothing, which all records take back."""
    rng = np.random.default_rng(3)
    n, x = 3000, rng.normal(size=3000)
    city = rng.choice(["a", "b", "c"], n).astype(object)
    city[7 :: 4 * step], city[3 + step * rng.choice(n // step, 8, replace=False)] = "r", "s"
    chance = np.select([city == "r", city == "s", city == "a"], [0.9, 0.5, 0.3], 0.6)
    g = np.where(rng.random(n) < chance, "p", "q")
    true = pd.DataFrame({"y": rng.normal(size=n) + (g == "q") + 0.3 * x, "g": g, "x": x, "city": city})
    true["part"] = np.unique(city.astype(str), return_inverse=True)[1]
    mechanism = pr.Mechanism({"g": pr.TransitionMatrix.randomized_response(["p", "q"], keep=0.8)})
    data = mechanism.perturb(true, seed=7)
    data.to_parquet(tmp_path / "one.parquet", index=False)
    monkeypatch.setattr("pramana.estimators.likelihood.maximum.LARGE", 4000)
    method = pr.Likelihood(covariate_model=terms)
    whole = pr.fit(formula, data, mechanism, method=method)
    found = pr.fit(formula, tmp_path, mechanism, method=method, memory=1)
    assert f" {-(-n // step) + 2} records, " in found.facts["Starts"]
    assert isinstance(found, pr.LikelihoodResult)
    assert isinstance(whole, pr.LikelihoodResult)
    same(found, whole)


@pytest.mark.parametrize("seeds", [(2, 8), pytest.param((1, 2, 3, 4, 8), marks=pytest.mark.verify)])
def test_a_probability_at_zero_is_found_and_let_go(
    seeds: tuple[int, ...], in_blocks: Callable[[int, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody has a level, all records put it at zero; a sample does so where some have it, and all records take that back."""
    opened: list[bool] = []
    look = climbing.Climber._opened

    def seen(self: Any, here: Any) -> Any:
        found = yield from look(self, here)
        opened.append(found is not None)
        return found

    monkeypatch.setattr(climbing.Climber, "_opened", seen)
    in_blocks(400, 100)
    codes: list[str] = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        cell = rng.integers(0, 2, 2000)
        edu = np.where(cell == 0, rng.choice([0, 1], 2000), rng.choice(3, 2000, p=[0.6, 0.37, 0.03]))
        true = pd.DataFrame({"edu": np.array(LEVELS)[edu], "cell": cell, "wage": edu + rng.normal(size=2000)})
        mechanism = pr.Mechanism({"edu": MECHANISM.assignments[0].channel})
        data = mechanism.perturb(true, seed=seed)
        source = dataset.dataset(pa.Table.from_pandas(data, preserve_index=False))
        whole = fitted("wage ~ edu + cell", data, mechanism=mechanism)
        same(fitted("wage ~ edu + cell", source, mechanism=mechanism, memory=1), whole)
        codes += [d.code for d in whole.diagnostics]
    assert "boundary" in codes, "no probability lies at zero: the test tests nothing"
    assert any(opened), "no sample held a probability at zero that all records let go: the test tests nothing"


MISLED: dict[str, tuple[Any, ...]] = {
    "weights": (9, 0.5, 100, "wage ~ edu + x", {"weights": "w"}),
    "a second maximum": (18, 0.5, 100, "wage ~ edu + x", {"weights": "w"}),
    "one table": (16, 0.45, 200, "wage ~ edu", {}),
    "counts": (16, 0.45, 100, "visits ~ edu", {"family": "poisson"}),
}
"""Seed, keep probability, size of the sample and question of files of which a sample led 6 to 23 units of log-likelihood too low."""


@pytest.mark.parametrize("case", MISLED)
def test_the_best_maximum_of_all_records_is_found_where_the_sample_misleads(
    case: str, in_blocks: Callable[[int, int], None]
) -> None:
    seed, keep, pilot, what, options = MISLED[case]
    rng = np.random.default_rng(seed)
    edu, x = rng.choice(3, 1500, p=[0.75, 0.2, 0.05]), rng.normal(size=1500)
    mean = 2.0 * edu + 0.5 * x
    response = (
        {"visits": rng.poisson(np.exp(mean / 2))} if "family" in options else {"wage": mean + rng.normal(size=1500)}
    )
    true = pd.DataFrame({"edu": np.array(LEVELS)[edu], "x": x, **response, "w": rng.uniform(0.2, 3.0, 1500)})
    mechanism = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(LEVELS, keep=keep)})
    data = mechanism.perturb(true, seed=seed)
    source = dataset.dataset(pa.Table.from_pandas(data, preserve_index=False))
    in_blocks(500, pilot)
    options = {"mechanism": mechanism, **options}
    same(fitted(what, source, memory=1, **options), fitted(what, data, **options))


@pytest.mark.parametrize("samples", [2, pytest.param(4, marks=pytest.mark.verify)])
def test_where_the_noise_leaves_several_maxima_the_best_is_kept_and_another_is_named(
    samples: int, in_blocks: Callable[[int, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All starts are tried on a sample that prefers another maximum now and then, and in memory on all records."""
    monkeypatch.setattr(starts, "REACH", 60.0)
    in_blocks(500, 250)
    mechanism = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(LEVELS, keep=0.42)})
    told = 0
    for seed in range(samples):
        rng = np.random.default_rng(seed)
        edu = rng.choice(3, 1500, p=[0.6, 0.3, 0.1])
        data = mechanism.perturb(
            pd.DataFrame({"edu": np.array(LEVELS)[edu], "wage": 3.0 * edu + rng.normal(size=1500)}), seed=seed
        )
        source = dataset.dataset(pa.Table.from_pandas(data, preserve_index=False))
        found = fitted("wage ~ edu", source, mechanism=mechanism, memory=1)
        whole = fitted("wage ~ edu", data, mechanism=mechanism)
        assert found.log_likelihood == pytest.approx(whole.log_likelihood, abs=1e-8)
        np.testing.assert_allclose(found.estimate, whole.estimate, atol=1e-9)
        climbed = found.facts["Starts"].split("then ")[1]
        told += int(climbed.split(" ")[0]) > 1 and any(d.code == "several-maxima" for d in found.diagnostics)
    assert told, "the sample shows one maximum each time: the test tests nothing"


def test_a_sample_without_a_maximum_is_no_verdict(in_blocks: Callable[[int, int], None]) -> None:
    """Of three hundred records the likelihood rises for ever; of two thousand it has a maximum."""
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix.randomized_response(["a", "b", "c"], keep=0.45)})
    rng = np.random.default_rng(3)
    code, x = rng.choice(3, 2000, p=[0.6, 0.3, 0.1]), rng.normal(size=2000)
    rng.integers(0, 2, 2000)
    y = (rng.random(2000) < 1 / (1 + np.exp(1 - code - 0.5 * x))).astype(int)
    data = mechanism.perturb(pd.DataFrame({"z": np.array(["a", "b", "c"])[code], "y": y, "x": x}), seed=3)
    source = dataset.dataset(pa.Table.from_pandas(data, preserve_index=False))
    in_blocks(400, 300)
    options = {"family": "binomial", "mechanism": mechanism}
    same(fitted("y ~ z + x", source, memory=1, **options), fitted("y ~ z + x", data, **options))


def test_the_result_says_how_the_start_was_found(folder: Path, in_blocks: Callable[[int, int], None]) -> None:
    in_blocks(400, 300)
    told = fitted("wage ~ edu + sex", folder, memory=1).facts["Starts"]
    assert told.startswith("1, on a random sample of 3")
    passes = int(told.split("1 over all records in ")[1].split(" ")[0])
    assert 2 <= passes <= 8, "Newton over all records takes a handful of passes"


def test_few_combinations_are_counted_once_and_need_no_further_pass(
    folder: Path, data: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = fitted("ill ~ edu + sex", data, **LOGIT)
    monkeypatch.setattr(cells, "ROWS", 100)
    monkeypatch.setattr(distinct, "ROWS", 100)
    for given in (folder, data):
        found = fitted("ill ~ edu + sex", given, memory=1, **LOGIT)
        same(found, whole)
        assert found.facts["Starts"] == whole.facts["Starts"]


@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("ill ~ x + edu", LOGIT),
        ("ill ~ x + sex", {**LOGIT, "weights": "w"}),
        ("wage ~ edu + sex + x", {"family": "gaussian", "covariate_model": "sex"}),
        ("job ~ x + sex", {**LOGIT, "frequencies": "times"}),
    ],
)
def test_the_specification_test_in_blocks(
    what: str, options: dict[str, Any], data: pd.DataFrame, folder: Path, in_blocks: Callable[[int, int], None]
) -> None:
    in_blocks(90, 300)
    found = pr.specification_test(what, folder, MECHANISM, memory=1, **options)
    whole = pr.specification_test(what, data, MECHANISM, **options)
    assert found.statistic == pytest.approx(whole.statistic, rel=1e-8)
    assert (found.df, found.advice) == (whole.df, whole.advice)


def test_a_comparison_in_blocks_tests_the_model(folder: Path, in_blocks: Callable[[int, int], None]) -> None:
    in_blocks(500, 300)
    methods = ("reversion", "likelihood")
    found = pr.compare("wage ~ edu + x", folder, MECHANISM, methods, memory=1)
    assert found.specification is not None
    assert list(found.results) == ["reversion", "likelihood"]


def test_nested_models_in_blocks(data: pd.DataFrame, folder: Path, in_blocks: Callable[[int, int], None]) -> None:
    in_blocks(500, 300)
    method = pr.Likelihood(covariates=("edu",), covariate_model="sex")
    small, large = (fitted(f, folder, memory=1, method=method) for f in ("wage ~ sex", "wage ~ sex + edu"))
    in_memory = [fitted(f, data, method=method) for f in ("wage ~ sex", "wage ~ sex + edu")]
    assert pr.lr_test(small, large).statistic == pytest.approx(pr.lr_test(*in_memory).statistic, rel=1e-9)
