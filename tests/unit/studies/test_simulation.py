"""Replicates are keyed by index: neither their company nor the kernels that solve them change their numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pramana as pr
from pramana.estimators import ModelDependent
from pramana.frames import read
from pramana.inference.many import DataSets
from pramana.kernels import backend
from pramana.kernels.streams import fractions, starts_of, uniforms
from pramana.kernels.variates import CountedVariates, Variates, perturbing
from pramana.studies import Population, Scenario, run_replicates, simulate
from pramana.studies.study import MODEL_1, A, B, study_of
from pramana.studies.summary import jackknife, jackknife_pairs, summarize

FIVE = ("reversion", "true data", "naive", "model1", "model2")


def small(n: int = 300, keep: float = 0.85) -> Scenario:
    mechanism = pr.Mechanism({"y": pr.TransitionMatrix.binary(keep, keep)})
    return Scenario(A, mechanism, "y ~ x", (-1.0, 1.5), n, "binomial", label={"p": keep})


def test_a_subset_of_replicates_gives_the_same_bits() -> None:
    whole = run_replicates(small(), FIVE, 12, inference=pr.Resampling(40))
    some = run_replicates(small(), FIVE, [7, 3, 11], inference=pr.Resampling(40), block=2)
    for method, numbers in some.values.items():
        for name, values in numbers.items():
            np.testing.assert_array_equal(values, whole.values[method][name][[7, 3, 11]])


def test_another_seed_gives_other_data() -> None:
    one, two = (run_replicates(small(), ["naive"], 3, seed=s).values["naive"]["estimate"] for s in (1, 2))
    assert np.all(one != two)


def test_replicates_scenarios_and_seeds_have_bits_of_their_own() -> None:
    """Also apart from the words that perturb them, and from the weights of their resamples."""
    first, second = small(300), small(300, 0.75)
    starts = [int(s) for scenario in (first, second) for seed in (1, 2) for s in scenario.starts(seed, range(50))]
    assert len(set(starts)) == 200
    np.testing.assert_array_equal(first.starts(1, [7, 3]), first.starts(1, range(8))[[7, 3]])
    draw = CountedVariates.of(first.starts(1, [3]), 300)
    data, words = draw.uniform(), fractions(draw.words(perturbing(0, 0)))
    weights = uniforms(first.draw_seed(1, 3), np.arange(40), np.arange(300))
    assert np.unique(np.concatenate([data, words, weights])).size == 42 * 300


@pytest.mark.parametrize("method", ["reversion", "naive", "model1", "model2"])
def test_many_data_sets_at_once_give_what_fit_gives(method: str) -> None:
    scenario = small()
    truth, released = scenario.data(1, [4])
    alone = pr.fit(
        "y ~ x", {k: released.column(k) for k in ("x", "y")}, scenario.mechanism, family="binomial", method=method
    )
    together = run_replicates(scenario, [method], 6).values[alone.method]["estimate"][4]
    np.testing.assert_allclose(together, alone.estimate, rtol=1e-9)
    assert truth.n == scenario.n


def test_numpy_and_compiled_kernels_agree_on_many_data_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    fast = run_replicates(small(1000, 0.75), ["reversion"], 3, inference=pr.Resampling(300)).values["reversion"]
    monkeypatch.setattr(backend, "compiled", lambda: None)
    slow = run_replicates(small(1000, 0.75), ["reversion"], 3, inference=pr.Resampling(300)).values["reversion"]
    for name in fast:
        np.testing.assert_allclose(fast[name], slow[name], atol=1e-8)


@pytest.mark.parametrize(
    ("family", "link"), [("gaussian", None), ("binomial", None), ("poisson", None), ("gamma", None)]
)
def test_every_compiled_curve_equals_its_numpy_form(
    family: str, link: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    rng = np.random.default_rng(5)
    n = 700
    frame = {"x": rng.normal(size=n), "z": rng.integers(0, 3, n), "y": rng.integers(0, 2, n) + (family == "gamma")}
    P = pr.TransitionMatrix.randomized_response([0, 1, 2], 0.8, kind="nominal")
    binding = _bound("y ~ x + z + offset(x)", frame, pr.Mechanism({"z": P}), family, link)
    betas, weights = 0.2 * rng.normal(size=(200, 4)), rng.exponential(size=(200, n))
    fast = binding.score_and_slope(betas, weights)
    monkeypatch.setattr(backend, "compiled", lambda: None)
    slow = binding.score_and_slope(betas, weights)
    for a, b in zip(fast, slow, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-8)


def _bound(formula: str, frame: dict[str, np.ndarray], mechanism: pr.Mechanism, family: str, link: str | None):
    from pramana.estimators import Reversion
    from pramana.frames import read

    table = read(frame)
    function = pr.glm(formula, family, link).prepare(table, mechanism.schema)
    return Reversion().bind(function, mechanism, table, np.ones(table.n)).equation


def covariate(n: int, keep: float) -> Scenario:
    mechanism = pr.Mechanism({"x": pr.TransitionMatrix.binary(keep, keep)})
    return Scenario(B, mechanism, "y ~ x", (-1.0, 1.0), n, label={"p": keep})


@pytest.mark.parametrize(
    ("scenario", "methods"),
    [
        (small(250, 0.7), (*FIVE, ModelDependent(clip=True), "likelihood")),
        (replace(small(250, 0.7), generate=A.running), (*FIVE, "likelihood")),
        (covariate(300, 0.75), (*FIVE, ModelDependent(clip=True))),
    ],
    ids=["response", "response, data from generators", "covariate"],
)
def test_all_methods_on_a_device_give_what_the_cpu_gives(
    scenario: Scenario, methods: tuple[Any, ...], as_if_gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Draws without a root among them, several launches, and a likelihood whose curve the device does not know."""
    monkeypatch.setattr(as_if_gpu, "STRAGGLERS", (8, 16))
    monkeypatch.setattr(as_if_gpu, "BATCH_ENTRIES", 3 * 60 * 512)
    host, device = (
        run_replicates(scenario, methods, 8, inference=pr.Resampling(60), device=where) for where in ("cpu", "gpu")
    )
    for method, numbers in host.values.items():
        for name, values in numbers.items():
            np.testing.assert_allclose(device.values[method][name], values, atol=1e-8, err_msg=f"{method} {name}")
    if scenario.n == 250:
        assert np.nansum(host.values["reversion"]["rootless"]) > 0


def three_levels(draw: Variates) -> dict[str, Any]:
    z, x = draw.coin(0.6) + draw.coin(0.5), draw.normal()
    return {"z": z, "x": x, "y": 0.5 + x * (z == 2) - (z == 1) + draw.normal()}


THREE = pr.Mechanism({"z": pr.TransitionMatrix.randomized_response([0, 1, 2], 0.8, kind="nominal")})
DENSE = pr.Mechanism(
    {
        "z": pr.TransitionMatrix.from_columns(
            [0, 1, 2], [[0.8, 0.15, 0.1], [0.1, 0.7, 0.1], [0.1, 0.15, 0.8]], kind="nominal"
        )
    }
)


@pytest.mark.parametrize(
    ("mechanism", "formula", "made"),
    [
        (DENSE, "y ~ x * z", True),
        (DENSE, "x ~ z + y:z + y", True),
        (DENSE, "y ~ I(x**2) + z", False),
        (DENSE, "y ~ offset(x) + z", False),
        (THREE, "y ~ x + z", False),
    ],
)
def test_what_a_device_cannot_make_is_made_for_it(
    mechanism: pr.Mechanism, formula: str, made: bool, as_if_gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Levels that are multiplied with a column are made there; transforms, offsets and draws of two words are not, and give the
    same answers."""
    assert as_if_gpu is not None
    names = pr.glm(formula).prepare(read(_some(three_levels)), mechanism.schema).parameters
    scenario = Scenario(Population(three_levels), mechanism, formula, (0.0,) * len(names), 400, "gaussian")
    host = run_replicates(scenario, ["reversion", "true data", "naive"], 5).values
    asked: list[int] = []
    data = Scenario.data

    def counted(self: Scenario, seed: int, replicates: Any) -> Any:
        asked.append(len(replicates))
        return data(self, seed, replicates)

    monkeypatch.setattr(Scenario, "data", counted)
    device = run_replicates(scenario, ["reversion", "true data", "naive"], 5, device="gpu").values
    assert (max(asked) < 5) == made
    for method, numbers in host.items():
        np.testing.assert_allclose(device[method]["estimate"], numbers["estimate"], rtol=1e-9, atol=1e-9)


def _some(columns: Any, n: int = 50) -> dict[str, np.ndarray]:
    return {name: v[0] for name, v in columns(CountedVariates.of(starts_of([1]), n)).items()}


def test_a_study_on_a_device_sends_no_data_there(as_if_gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every estimator of the paper's studies is bound to records that were made there; of them all, one data set comes to the CPU."""
    assert as_if_gpu is not None
    monkeypatch.setattr(as_if_gpu.DeviceSets, "of", None)
    monkeypatch.setattr("pramana.studies.simulation.DataSets", None)
    for name, cell in (("a1", 17), ("b1", 17)):  # whose methods are those of a2 and b2, and more
        study = study_of(name)
        found = run_replicates(study.scenarios[cell], study.methods, 3, device="gpu")
        assert len(found.values) == len(study.methods)
        assert all(np.isfinite(numbers["estimate"]).all() for numbers in found.values.values())


def test_generated_values_that_are_no_levels_are_refused_on_a_device_too(as_if_gpu: Any) -> None:
    assert as_if_gpu is not None
    wrong = replace(covariate(50, 0.8), generate=Population(lambda draw: {"x": 2 * draw.coin(0.5), "y": draw.normal()}))
    with pytest.raises(pr.PramanaError):
        run_replicates(wrong, ["naive"], 2)
    from pramana.kernels.device_data import make

    with pytest.raises(pr.PramanaError, match=r"values of 'x' .* none of its levels 0, 1: generate levels"):
        make(wrong.generate.columns, starts_of([1, 2]), 50, "x", (0, 1), np.array([[2**63], [2**62]], dtype=np.uint64))


@pytest.mark.parametrize(
    "y", [lambda x, draw: np.exp(x) + draw.normal(), lambda x, draw: draw.normal() if x.sum() > 0 else draw.uniform()]
)
def test_a_population_that_a_device_cannot_follow_is_refused(y: Any, as_if_gpu: Any) -> None:
    assert as_if_gpu is not None

    def columns(draw: Variates) -> dict[str, Any]:
        x = draw.coin(0.5)
        return {"x": x, "y": y(x, draw)}

    scenario = replace(covariate(50, 0.8), generate=Population(columns))
    assert np.isfinite(run_replicates(scenario, ["naive"], 2).values["naive"]["estimate"]).all()
    with pytest.raises(pr.PramanaError, match=r"cannot be made on a device, which says: .*; write it in arithmetic"):
        run_replicates(scenario, ["naive"], 2, device="gpu")


@pytest.mark.parametrize("scenario", [small(25, 0.6), covariate(6, 0.8)], ids=["response", "covariate"])
def test_data_sets_without_a_root_are_missing_on_a_device_too(
    scenario: Scenario, as_if_gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a covariate is the same in all records of a data set, which the design of a block must not mind."""
    assert as_if_gpu is not None
    monkeypatch.setattr("pramana.studies.simulation.LEARNED", 5 * scenario.n)
    ways = ("reversion", "true data", "naive")
    host, device = (run_replicates(scenario, ways, 60, device=where).values for where in ("cpu", "gpu"))
    missing = [np.isnan(host[method]["estimate"]).mean() for method in ways]
    assert 0 < max(missing) < 1
    for method in ways:
        np.testing.assert_allclose(device[method]["estimate"], host[method]["estimate"], rtol=1e-8, atol=1e-8)


def test_responses_that_a_family_cannot_have_are_refused_on_a_device_too(as_if_gpu: Any) -> None:
    """In whichever data set they are."""
    assert as_if_gpu is not None
    rare = Population(lambda draw: {"x": draw.coin(0.5), "y": 3.4 + draw.normal()})
    scenario = replace(covariate(1000, 0.8), generate=rare, family="gamma")
    for device in ("cpu", "gpu"):
        with pytest.raises(pr.PramanaError, match=r"response 'y' has .* family 'gamma' cannot have"):
            run_replicates(scenario, ["naive"], 40, device=device)


def test_data_sets_one_after_the_other_are_solved_as_by_themselves() -> None:
    scenario = small()
    _, released = scenario.data(1, range(3))
    function = scenario.plan.prepare(released, scenario.mechanism.schema)
    from pramana.estimators import Naive

    sets = DataSets(Naive().bind(function, scenario.mechanism, released, np.ones(released.n)).equation, 3)
    beta = np.array([[-0.5, 0.9], [0.1, 0.2], [0.0, 0.0]])
    score, slope = sets.grouped.score_and_slope(beta, np.arange(3))
    for g in range(3):
        part = sets.part(g)
        one = part.score_and_slope(beta[g][None], part.own)
        np.testing.assert_allclose(score[g], one[0][0], rtol=1e-11)
        np.testing.assert_allclose(slope[g], one[1][0], rtol=1e-11)


def test_the_jackknife_equals_leaving_each_one_out() -> None:
    values = np.random.default_rng(3).standard_t(3, 40)
    left_out = np.array([np.delete(values, i).std(ddof=1) for i in range(40)])
    expected = np.sqrt(39 / 40 * np.sum((left_out - left_out.mean()) ** 2))

    def sd(sums: np.ndarray, squares: np.ndarray, size: int) -> np.ndarray:
        return np.sqrt((squares - sums**2 / size) / (size - 1))

    assert jackknife(sd, values) == pytest.approx(expected, rel=1e-9)
    pair = np.random.default_rng(4).normal(size=(30, 2))
    ratios = np.array(
        [np.sum(np.delete(pair[:, 0], i) ** 2) / np.sum(np.delete(pair[:, 1], i) ** 2) for i in range(30)]
    )
    assert jackknife_pairs(pair) == pytest.approx(np.sqrt(29 / 30 * np.sum((ratios - ratios.mean()) ** 2)), rel=1e-9)


def test_the_summary_counts_failures_and_divides_mean_squares() -> None:
    replicates = simulate(small(600), ["reversion", "model1"], 30).replicates
    assert replicates is not None
    replicates.values["reversion"]["estimate"][2] = np.nan
    rows = summarize(small(600), replicates, MODEL_1.label).rows
    first = rows[0]
    assert (first["failures"], first["replicates"]) == (1, 30)
    error = np.delete(replicates.values["reversion"]["estimate"][:, 0], 2) + 1
    other = np.delete(replicates.values[MODEL_1.label]["estimate"][:, 0], 2) + 1
    assert first["bias"] == pytest.approx(error.mean())
    assert first["re"] == pytest.approx(np.sum(error**2) / np.sum(other**2))


def test_the_papers_studies_have_the_papers_cells() -> None:
    assert [len(study_of(name).scenarios) for name in ("a1", "a2", "b1", "b2")] == [18, 441, 18, 441]
    data = B.running(np.random.default_rng(1), 200_000)
    assert np.mean(data["y"][data["x"] == 1]) == pytest.approx(0.0, abs=0.02)


def test_wrong_truth_and_wrong_sizes_are_refused() -> None:
    mechanism = pr.Mechanism({"y": pr.TransitionMatrix.binary(0.8, 0.8)})
    with pytest.raises(pr.PramanaError, match="truth has 1 values but the estimates are Intercept, x"):
        run_replicates(Scenario(A, mechanism, "y ~ x", (1.0,), 50, "binomial"), ["naive"], 2)
    with pytest.raises(pr.PramanaError, match="where n=50 were asked for"):
        run_replicates(
            Scenario(lambda rng, n: A.running(rng, n + 1), mechanism, "y ~ x", (1.0, 1.0), 50, "binomial"), ["naive"], 2
        )


QUESTIONS: dict[str, tuple[Any, dict[str, str]]] = {
    "shares": ("proportions(x)", {}),
    "correlation": ("correlation(y, c)", {}),
    "median": ("median(y, by='x')", {}),
    "quantile regression": ("quantile_regression(y ~ x)", {}),
    "negative binomial": ("c ~ x", {"family": "negative-binomial"}),
    "two stages": ("two_stage_least_squares(y ~ c | x)", {}),
    "effects": ("margins(y ~ x + c)", {}),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_scenario_takes_every_question_of_fit(name: str) -> None:
    """What is not solved for many data sets together goes to `fit`, one after the other; so does the true data's answer."""
    what, options = QUESTIONS[name]

    def generate(rng: np.random.Generator, n: int) -> dict[str, Any]:
        x = rng.choice(["a", "b"], n)
        return {"x": x, "y": rng.normal(size=n) + (x == "b"), "c": rng.poisson(rng.gamma(1, 2 + (x == "b"), n))}

    mechanism = pr.Mechanism({"x": pr.TransitionMatrix.randomized_response(["a", "b"], 0.9)})
    first = Scenario(generate, mechanism, what, (), 400, **options)
    truth, released = first.data(1, [1])
    expected = pr.fit(what, released, mechanism, **options)
    scenario = Scenario(generate, mechanism, what, (0.0,) * len(expected.estimate), 400, **options)
    found = run_replicates(scenario, ["reversion", "true data"], 2, seed=1)
    assert found.parameters == expected.parameters
    np.testing.assert_array_equal(found.values["reversion"]["estimate"][1], expected.estimate)
    np.testing.assert_array_equal(found.values["reversion"]["se_fit"][1], expected.standard_errors)
    np.testing.assert_allclose(
        found.values["true data"]["estimate"][1], pr.fit(what, truth, None, **options).estimate, rtol=1e-9, atol=1e-9
    )
    with pytest.raises(pr.PramanaError, match="truth has 0 values but the estimates are"):
        run_replicates(first, ["reversion"], 1, seed=1)
