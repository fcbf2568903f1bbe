"""Questions that are no plain sums give in blocks the answer that they give in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import dataset

import pramana as pr
from pramana.analysis import streaming
from pramana.engines import ranked
from pramana.estimating import binned
from pramana.frames import sources

N = 3000
LEVELS = ["low", "mid", "high"]
MECHANISM = pr.Mechanism(
    {
        "edu": pr.TransitionMatrix.randomized_response(LEVELS, keep=0.8, kind="ordinal"),
        "ill": pr.TransitionMatrix.binary(0.85, 0.85),
        "score": pr.TransitionMatrix.randomized_response([0, 1, 2, 5], keep=0.85),
    }
)


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng = np.random.default_rng(8)
    x, edu = rng.normal(size=N), rng.integers(0, 3, N)
    frame = pd.DataFrame(
        {
            "x": x,
            "edu": np.array(LEVELS)[edu],
            "ill": (rng.random(N) < 0.4).astype(int),
            "score": rng.choice([0, 1, 2, 5], N),
            "income": np.exp(7 + 0.3 * edu + rng.normal(size=N)),
            "visits": rng.poisson(np.exp(0.5 + 0.2 * x) * rng.gamma(2, 0.5, N)),
            "w": rng.uniform(0.0, 2.0, N),
            "times": rng.integers(0, 3, N),
            "firm": rng.integers(0, 50, N),
            "region": rng.choice(["n", "s"], N),
        }
    )
    return MECHANISM.perturb(frame, seed=2)


@pytest.fixture(scope="module")
def folder(data: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("models")
    for k, rows in enumerate(np.array_split(np.arange(N), 7)):
        data.iloc[rows].to_parquet(out / f"part-{k}.parquet", index=False)
    data.iloc[:0].to_parquet(out / "part-9.parquet", index=False)  # a file without records
    return out


SIZES = {"one block": (10_000, N), "seven blocks": (500, 400), "many blocks": (90, 150)}


@pytest.fixture
def in_blocks(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Blocks of so many records, and a sample of so many."""

    def cut(size: str) -> None:
        batch, pilot = SIZES[size]
        monkeypatch.setattr(sources, "BATCH", batch)
        monkeypatch.setattr(streaming, "PILOT", pilot)
        monkeypatch.setattr(binned, "BINS", pilot // 4)

    return cut


def covered(cases: dict[str, Any], everywhere: int = 1) -> list[Any]:
    """Every case in blocks of some size, the first ones in those of every size."""
    turns = [(case, list(SIZES)[k % 3]) for k, case in enumerate(cases)]
    turns += [(case, size) for case in list(cases)[:everywhere] for size in SIZES if (case, size) not in turns]
    return [pytest.param(case, size, id=f"{case} · {size}") for case, size in turns]


def same(found: pr.Result, whole: pr.Result) -> None:
    scale = np.where(whole.standard_errors > 0, whole.standard_errors, 1.0)
    assert found.parameters == whole.parameters
    np.testing.assert_allclose(found.estimate / scale, whole.estimate / scale, rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(found.standard_errors, whole.standard_errors, rtol=1e-8)
    np.testing.assert_allclose(found.interval(), whole.interval(), rtol=1e-8)
    assert (found.n, found.inference, found.facts) == (whole.n, whole.inference, whole.facts)
    assert found.diagnostics == whole.diagnostics


QUANTILES: dict[str, tuple[Any, dict[str, Any]]] = {
    "by": (pr.quantile("income", 0.9, by=["edu", "region"]), {}),
    "median": (pr.median("income"), {}),
    "weights": (pr.median("income", by="edu"), {"weights": "w"}),
    "frequencies": (pr.quantile("visits", 0.75, by="edu"), {"frequencies": "times"}),
    "clusters": (pr.median("income", by="ill"), {"clusters": "firm"}),
    "design": (
        pr.median("income", by="edu"),
        {"design": pr.SurveyDesign(weights="w", strata="region", clusters="firm")},
    ),
    "subset": (pr.median("income"), {"subset": "edu == 'high' and x > -1"}),
    "bandwidth": (pr.median("income", bandwidth=500.0), {}),
    "several": (pr.quantile("income", [0.1, 0.5, 0.9], by="edu"), {}),
    "end": (pr.quantile("income", 0.999), {}),
    "levels": (pr.median("score", by="edu"), {"weights": "w"}),
    "drawn levels": (pr.quantile("score", 0.4), {"inference": pr.Resampling(draws=20, seed=3)}),
}


@pytest.mark.parametrize(("case", "size"), covered(QUANTILES))
def test_quantiles(case: str, size: str, data: pd.DataFrame, folder: Path, in_blocks: Callable[[str], None]) -> None:
    in_blocks(size)
    what, options = QUANTILES[case]
    same(pr.fit(what, folder, MECHANISM, memory=1, **options), pr.fit(what, data, MECHANISM, **options))


MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "ordinal": (pr.ordinal("edu ~ x + ill"), {}),
    "ordinal, clusters": (pr.ordinal("edu ~ x + ill"), {"clusters": "firm", "weights": "w"}),
    "negative binomial": ("visits ~ x + edu", {"family": "negative-binomial"}),
    "negative binomial, draws": (
        "visits ~ x + edu",
        {"family": "negative-binomial", "inference": pr.Resampling(draws=20, seed=3)},
    ),
}


@pytest.mark.parametrize(("case", "size"), covered(MODELS))
def test_models(case: str, size: str, data: pd.DataFrame, folder: Path, in_blocks: Callable[[str], None]) -> None:
    in_blocks(size)
    what, options = MODELS[case]
    same(pr.fit(what, folder, MECHANISM, memory=1, **options), pr.fit(what, data, MECHANISM, **options))


@pytest.mark.parametrize("size", ["one block", "seven blocks"])
def test_score_intervals_that_look_far_out(size: str, data: pd.DataFrame, in_blocks: Callable[[str], None]) -> None:
    """A mean of e¹²³ is tried on the way, and sums at the values after it do not begin from that one's."""
    in_blocks(size)
    some = data.iloc[:600].assign(time=np.random.default_rng(1).gamma(1.0, size=600))
    source = dataset.dataset(pa.Table.from_pandas(some, preserve_index=False))
    for formula in ("visits ~ edu", "visits ~ edu + offset(log(time))"):
        options: dict[str, Any] = {"family": "poisson", "inference": pr.Sandwich(interval="score")}
        same(pr.fit(formula, source, MECHANISM, memory=1, **options), pr.fit(formula, some, MECHANISM, **options))


COUNTS = [[90, 8, 4], [6, 95, 9], [4, 7, 97]]
MEASURED = pr.Mechanism(
    {
        "edu": pr.TransitionMatrix.from_validation(COUNTS, levels=LEVELS),
        "ill": pr.Stratified(
            "region",
            {
                "n": pr.TransitionMatrix.from_validation([[170, 20], [30, 80]]),
                "s": pr.TransitionMatrix.from_validation([[70, 20], [30, 180]]),
            },
        ),
    }
)
ALONE = pr.Mechanism({"ill": pr.TransitionMatrix.from_validation([[170, 20], [30, 80]])})
STUDIED: dict[str, tuple[Any, pr.Mechanism, dict[str, Any]]] = {
    "draws": ("income ~ edu", MEASURED, {"inference": pr.Resampling(draws=20, seed=3)}),
    "two columns": ("income ~ ill + edu + x", MEASURED, {"clusters": "firm"}),
    "response": ("ill ~ x + edu", MEASURED, {"family": "binomial"}),
    "levels": (pr.median("income", by="edu"), MEASURED, {"weights": "w"}),
    "subset": ("income ~ x", MEASURED, {"subset": "edu == 'high'"}),
    "prevalence": (pr.mean("ill"), ALONE, {"inference": pr.Sandwich(interval="lang-reiczigel")}),
    "forward": ("ill ~ x", MECHANISM, {"family": "binomial", "method": "forward"}),
}


@pytest.mark.parametrize(("case", "size"), covered(STUDIED))
def test_a_measured_matrix_and_the_forward_correction(
    case: str, size: str, data: pd.DataFrame, folder: Path, in_blocks: Callable[[str], None]
) -> None:
    in_blocks(size)
    what, mechanism, options = STUDIED[case]
    same(pr.fit(what, folder, mechanism, memory=1, **options), pr.fit(what, data, mechanism, **options))


def test_gaps_and_a_level_of_the_last_file(
    data: pd.DataFrame, tmp_path: Path, in_blocks: Callable[[str], None]
) -> None:
    in_blocks("many blocks")
    gaps = data.assign(place=np.where(np.arange(N) < N - 60, "here", "there"))
    gaps.loc[[3, 1400, 1401], "income"] = np.nan
    for k, rows in enumerate(np.array_split(np.arange(N), 4)):
        gaps.iloc[rows].to_parquet(tmp_path / f"part-{k}.parquet", index=False)
    what = pr.median("income", by="place")
    same(pr.fit(what, tmp_path, MECHANISM, memory=1, missing="drop"), pr.fit(what, gaps, MECHANISM, missing="drop"))


def test_blocks_without_a_record_in_use(data: pd.DataFrame, in_blocks: Callable[[str], None]) -> None:
    """The first and the last blocks are outside of the subset, and some records weigh nothing."""
    in_blocks("many blocks")
    ordered = data.sort_values("x").assign(w=np.where(np.arange(N) % 97 == 0, 0.0, data["w"]))
    source = dataset.dataset(pa.Table.from_pandas(ordered, preserve_index=False))
    options: dict[str, Any] = {"subset": "x > 0.3 and x < 1", "clusters": "firm", "weights": "w"}
    for what, more in (
        (pr.median("income", by="region"), {}),
        ("ill ~ bs(x, df=4)", {"family": "binomial", "method": "likelihood"}),
    ):
        found = pr.fit(what, source, MECHANISM, memory=1, **options, **more)
        same(replace(found, facts={}), replace(pr.fit(what, ordered, MECHANISM, **options, **more), facts={}))


def test_what_cannot_be_added_up_is_refused_with_a_way_out(folder: Path) -> None:
    cases: list[tuple[Callable[[], pr.Result], str]] = [
        (lambda: pr.fit(pr.gini("income"), folder, MECHANISM, memory=1), "gini.*raise memory="),
        (lambda: pr.fit(pr.poverty_rate("income"), folder, MECHANISM, memory=1), "poverty.*raise memory="),
        (
            lambda: pr.fit(pr.crosstab("edu", "ill"), folder, MECHANISM, memory=1, method="likelihood"),
            "a maximum-likelihood table is counted in memory",
        ),
    ]
    for ask, message in cases:
        with pytest.raises(pr.PramanaError, match=message):
            ask()


def test_a_kernel_that_needs_very_many_records_is_refused(
    folder: Path, in_blocks: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_blocks("many blocks")
    monkeypatch.setattr(ranked, "MOST", 100)
    with pytest.raises(pr.PramanaError, match=r"above the limit of 100: give a smaller bandwidth="):
        pr.fit(pr.median("income", bandwidth=1e4), folder, MECHANISM, memory=1)


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ({"bandwidth": 200.0}, {}),
        ({}, {}),
        ({"q": 0.3}, {"weights": "w"}),
        ({}, {"frequencies": "times"}),
        ({}, {"subset": "edu == 'mid'"}),
        ({}, {"inference": pr.Resampling(draws=20, seed=3)}),
    ],
    ids=["a bandwidth", "its own", "weights", "counts", "a domain", "draws"],
)
def test_a_quantile_regression_learns_from_all_records(
    options: dict[str, Any], more: dict[str, Any], data: pd.DataFrame, folder: Path, in_blocks: Callable[[str], None]
) -> None:
    """The spread of the residuals of least squares, from which its bandwidth follows and where its standard errors begin."""
    in_blocks("seven blocks")
    formula = "income ~ x" if "subset" in more else "income ~ x + edu"
    what = pr.quantile_regression(formula, **options)
    found, whole = pr.fit(what, folder, MECHANISM, memory=1, **more), pr.fit(what, data, MECHANISM, **more)
    assert found.facts["Bandwidth"] == whole.facts["Bandwidth"]
    np.testing.assert_allclose(found.estimate, whole.estimate, rtol=1e-9)
    np.testing.assert_allclose(found.standard_errors, whole.standard_errors, rtol=1e-9)
    np.testing.assert_allclose(found.interval(), whole.interval(), rtol=1e-9)


def test_a_quantile_regression_that_fits_exactly_is_refused_as_in_memory(tmp_path: Path) -> None:
    x = np.linspace(-2, 2, 600)
    pd.DataFrame({"x": x, "y": 1 + 2 * x}).to_parquet(tmp_path / "line.parquet")
    for memory in (1e9, 1):
        with pytest.raises(pr.FormulaError, match="fits the response exactly"):
            pr.fit(pr.quantile_regression("y ~ x"), tmp_path / "line.parquet", None, memory=memory)


def test_a_step_function_of_ones_own_crosses_where_it_does_in_memory(
    data: pd.DataFrame, folder: Path, in_blocks: Callable[[str], None]
) -> None:
    """Between the jumps of two records a score may be zero, and any point there is a root: much less than a standard error."""
    in_blocks("seven blocks")
    what = pr.from_callable(lambda beta, income: (0.5 - (income <= beta[0]))[:, None], ["median"], smooth=False)
    options: dict[str, Any] = {"inference": pr.Resampling(draws=200, seed=3)}
    found, whole = pr.fit(what, folder, MECHANISM, memory=1, **options), pr.fit(what, data, MECHANISM, **options)
    gap = np.abs(found.estimate - whole.estimate) / whole.standard_errors
    assert gap[0] < 0.02, "a jump of one record of a few thousand"
    below = [float((data["income"] <= result.estimate[0]).mean()) for result in (found, whole)]
    assert abs(below[0] - below[1]) <= 1.0 / len(data)


def test_a_model_without_a_root_is_refused_as_in_memory() -> None:
    """Where the sample has no root either, that of an easier equation over the sample is asked for, under the sample's weights."""
    x = np.linspace(-2, 2, 150)
    parted = pd.DataFrame({"ill": (x > 0).astype(int), "x": x})
    what = pr.margins("ill ~ x", "x", "binomial")
    mechanism = pr.Mechanism({"ill": pr.TransitionMatrix.binary(0.6, 0.6)})
    for source in (parted, dataset.dataset(pa.Table.from_pandas(parted))):
        with pytest.raises(pr.SolveError, match="no root was found for 'coefficient:Intercept'"):
            pr.fit(what, source, mechanism, memory=1)


@pytest.mark.parametrize(("dispersion", "seed"), [(0.0, 7), (0.01, 8), (0.03, 4), (0.03, 5)])
def test_all_records_decide_whether_counts_vary_more_than_poissons(
    dispersion: float, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The counts of the first file vary less, those of a sample of it more; the other way round in the others."""
    monkeypatch.setattr(sources, "BATCH", 1000)
    monkeypatch.setattr(streaming, "PILOT", 200)
    rng, mechanism = np.random.default_rng(seed), pr.Mechanism({"edu": MECHANISM.assignments[0].channel})
    x, edu = rng.normal(size=4000), rng.integers(0, 3, 4000)
    mu = np.exp(0.3 + 0.3 * x + 0.2 * edu)
    visits = rng.negative_binomial(1 / dispersion, 1 / (1 + dispersion * mu)) if dispersion else rng.poisson(mu)
    data = mechanism.perturb(pd.DataFrame({"x": x, "edu": np.array(LEVELS)[edu], "visits": visits}), seed=seed)
    source = dataset.dataset(pa.Table.from_pandas(data, preserve_index=False))
    answers = []
    for given in (data, source):
        try:
            answers.append(pr.fit("visits ~ x + edu", given, mechanism, family="negative-binomial", memory=1).estimate)
        except pr.SolveError as refusal:
            answers.append(str(refusal).split(": use family='poisson'")[0])
    if isinstance(answers[0], str):
        assert "vary more around its mean than Poisson" in answers[0]
        assert answers[0] == answers[1]
    else:
        np.testing.assert_allclose(answers[1], answers[0], rtol=1e-7)


@pytest.mark.parametrize("seed", [7, 8])
def test_the_square_of_a_sign_is_no_record_that_noise_made_alike(seed: int) -> None:
    """A moment of a correlation of two-level columns is the same whatever was released; what rounding leaves of its variance is no randomisation."""
    rng = np.random.default_rng(seed)
    records = pd.DataFrame({"ill": rng.integers(0, 2, 300), "t": rng.integers(0, 2, 300), "w": rng.uniform(0, 2, 300)})
    source = dataset.dataset(pa.Table.from_pandas(records, preserve_index=False))
    what, mechanism = pr.correlation("ill", "t"), pr.Mechanism({"ill": pr.TransitionMatrix.binary(0.85, 0.9)})
    same(
        pr.fit(what, source, mechanism, weights="w", memory=1),
        pr.fit(what, records, mechanism, weights="w"),
    )
