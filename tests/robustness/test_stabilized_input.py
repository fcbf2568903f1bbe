"""What the stabilized estimator is asked for in vain, and what it makes do with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pramana as pr

N = 300


def people(n: int = N) -> dict[str, Any]:
    rng = np.random.default_rng(4)
    x = rng.normal(size=n)
    y = (rng.random(n) < 1 / (1 + np.exp(-x))).astype(int)
    return {
        "x": x,
        "y": np.where(rng.random(n) < 0.8, y, 1 - y),
        "z": rng.normal(size=n),
        "g": np.array(list("abc"))[rng.integers(0, 3, n)],
        "name": np.array([f"person {k}" for k in range(n)]),
        "w": rng.uniform(1, 2, n),
    }


def kept(levels: list[Any], keep: float = 0.8) -> pr.TransitionMatrix:
    return pr.TransitionMatrix.randomized_response(levels, keep=keep)


Y = pr.Mechanism({"y": kept([0, 1])})


def fitted(what: Any, data: Any, mechanism: Any, **options: Any) -> pr.StabilizedResult:
    found = pr.fit(what, data, mechanism, method=options.pop("method", "stabilized"), **options)
    assert isinstance(found, pr.StabilizedResult)
    return found


REFUSED: dict[str, tuple[Any, dict[str, Any], Any, dict[str, Any], str]] = {
    "noise": (
        "z ~ x",
        {},
        pr.Mechanism({"x": pr.LaplaceNoise(0.2)}),
        {},
        "needs levels, and 'x' is a number with noise",
    ),
    "nothing perturbed": ("z ~ x", {}, Y, {}, "none of 'z', 'x' is perturbed"),
    "clean data": ("z ~ x", {}, None, {}, "none of 'z', 'x' is perturbed"),
    "steps": (pr.median("z", by="y"), {}, Y, {}, "step function"),
    "draws": ("y ~ x", {}, Y, {"inference": pr.Resampling(50)}, "hull around two estimates, and no 'Resampling'"),
    "score intervals": ("y ~ x", {}, Y, {"inference": pr.Sandwich(interval="score")}, "no 'score'"),
    "replicates": (
        "y ~ x",
        {},
        Y,
        {"design": pr.SurveyDesign(weights="w", replicate_weights=["w", "w"])},
        "no replicate weights",
    ),
    "perturbed subset": ("z ~ x", {}, Y, {"subset": "y == 1"}, "no subset by perturbed columns"),
    "too many combinations": (
        "z ~ C(a) + C(b)",
        {"a": np.arange(N) % 6, "b": np.arange(N) // 6 % 6},
        pr.Mechanism({"a": kept(list(range(6))), "b": kept(list(range(6)))}),
        {},
        "36 combinations of levels, above the limit of 30",
    ),
    "too many levels": (
        "z ~ C(a)",
        {"z": np.arange(24.0), "x": np.arange(24.0), "a": np.arange(24) % 12},
        pr.Mechanism({"a": kept(list(range(12)))}),
        {},
        "12 released levels and 2 columns of clean variables ask for 22 coefficients of 24 records",
    ),
    "names": (
        pr.from_callable(lambda b, y, name: (y - b[0] + 0.0 * (name == "person 1"))[:, None], ["share"]),
        {},
        Y,
        {},
        "column 'name' has 300 values, too many for a regression on 300 records",
    ),
    "infinite": ("y ~ x", {"x": np.r_[np.inf, np.zeros(N - 1)]}, Y, {"family": "binomial"}, "infinite"),
    "few records": ("y ~ x", {"x": np.array([0.0, 1.0]), "y": np.array([0, 1])}, Y, {"family": "binomial"}, "record"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    what, changed, mechanism, options, message = REFUSED[name]
    data = people() | changed
    size = min(len(v) for v in data.values())
    with pytest.raises(pr.PramanaError, match=message):
        fitted(what, {k: v[:size] for k, v in data.items()}, mechanism, **options)


def test_a_bad_ridge_is_refused() -> None:
    with pytest.raises(pr.PramanaError, match="ridge=-1 of Stabilized must be a number from 0 on"):
        pr.Stabilized(ridge=-1)


def codes(result: pr.Result) -> list[str]:
    return [note.code for note in result.diagnostics]


def test_collinear_variables_leave_a_smaller_regression_that_is_reported() -> None:
    data = people()
    twice = data | {"double": 2 * data["x"]}
    u = pr.from_callable(lambda b, y, x, double: (y * (x + double) - b[0])[:, None], ["moment"])
    v = pr.from_callable(lambda b, y, x: (y * 3 * x - b[0])[:, None], ["moment"])
    found, plain = fitted(u, twice, Y), fitted(v, data, Y)
    assert "smaller-regression" in codes(found)
    assert "collinear" in str(found)
    assert found.plug_in == pytest.approx(plain.plug_in, rel=0.05)


def test_few_records_leave_a_smaller_regression_that_is_reported() -> None:
    rng = np.random.default_rng(1)
    n = 40
    data = {k: rng.normal(size=n) for k in "abcd"} | {"g": np.array(list("uvw"))[rng.integers(0, 3, n)]}
    found = fitted(pr.multinomial("g ~ a + b + c + d"), data, pr.Mechanism({"g": kept(list("uvw"), 0.7)}))
    assert "smaller-regression" in codes(found)
    assert "products (6 columns)" in str(found)
    assert np.all(np.isfinite(found.interval()))


def test_separated_levels_are_shrunk_and_reported() -> None:
    """A released level that a clean variable tells apart has no finite logit."""
    data = people()
    inside = np.arange(N) % 10 == 0
    data |= {"flag": inside.astype(int), "y": np.where(inside, 1, data["y"])}
    u = pr.from_callable(lambda b, y, x, flag: (y * x + flag - b[0])[:, None], ["moment"])
    found = fitted(u, data, Y, method=pr.Stabilized(products=False, splines=False))
    assert "separation" in codes(found)
    assert np.all(np.isfinite(found.plug_in))


def test_a_level_that_was_never_released_and_one_level_alone() -> None:
    data = people()
    four = pr.Mechanism({"g": kept(list("abcd"), 0.7)})
    shares = fitted(pr.proportions("g"), data, four)
    assert shares.plug_in.min() >= 0
    assert shares.plug_in.sum() == pytest.approx(1)
    alone = fitted(pr.mean("y"), data | {"y": np.ones(N, dtype=int)}, Y)
    assert alone.plug_in == pytest.approx([1.0])
    assert alone.one_step == pytest.approx(pr.fit(pr.mean("y"), data | {"y": np.ones(N, dtype=int)}, Y).estimate)


def test_missing_values_are_left_out_on_request() -> None:
    data = people() | {"x": np.r_[np.nan, np.nan, people()["x"][2:]]}
    with pytest.raises(pr.DataError, match="missing"):
        fitted("y ~ x", data, Y, family="binomial")
    dropped = fitted("y ~ x", data, Y, family="binomial", missing="drop")
    rest = fitted("y ~ x", {k: v[2:] for k, v in data.items()}, Y, family="binomial")
    assert dropped.estimate == pytest.approx(rest.estimate)


def test_data_that_object_are_remarked() -> None:
    """Levels that were never perturbed are no draw from P."""
    x = np.linspace(-3, 3, 800)
    data = {"x": x, "y": (x > 0.1 * np.sin(37 * x)).astype(int)}
    found = fitted("y ~ x", data, Y, family="binomial")
    assert found.weight > 0.6
    assert "plug-in-rejected" in codes(found)
    assert "object to the plug-in" in str(found)


@pytest.mark.parametrize("size", [20, 60, 117, 300])
@pytest.mark.parametrize("options", [{}, {"weights": "w"}, {"subset": "x > -0.5"}])
def test_a_mean_of_records_that_all_have_the_same_probabilities(size: int, options: dict[str, Any]) -> None:
    """Without clean variables each record says the same, so that scores at the root are rounding: that is a root all the same."""
    data = {k: v[:size] for k, v in people().items()}
    for keep in (0.65, 0.8, 0.95):
        mechanism = pr.Mechanism({"y": kept([0, 1], keep)})
        found, plain = (
            fitted(pr.mean("y"), data, mechanism, **options),
            pr.fit(pr.mean("y"), data, mechanism, **options),
        )
        assert found.plug_in == pytest.approx(np.clip(plain.estimate, 0, 1))
        assert found.one_step == pytest.approx(plain.estimate)


def test_a_step_that_leads_anywhere_is_said() -> None:
    """A logit whose plug-in is far out has no slope there to speak of."""
    x = np.linspace(-3, 3, 200)
    data = {"x": x, "y": (x > 0).astype(int)}
    found = fitted("y ~ x", data, Y, family="binomial")
    assert "weakly-identified" in codes(found)
    assert "too noisy to trust: at the end of the step back to reversion" in str(found)
    steady = people()
    assert "weakly-identified" not in codes(fitted("y ~ x", steady, Y, family="binomial"))


def test_without_a_ridge_columns_that_say_the_same_are_left_out() -> None:
    """Products with all levels of a clean variable, of which one follows from the others."""
    data = people(600)
    found = fitted("y ~ x + z + g", data, Y, family="binomial", method=pr.Stabilized(ridge=0))
    assert np.all(np.isfinite(found.interval()))
    nearly = fitted("y ~ x + z + g", data, Y, family="binomial", method=pr.Stabilized(ridge=1e-6))
    assert found.estimate == pytest.approx(nearly.estimate, rel=1e-3)


def test_one_released_level_needs_no_regression() -> None:
    """Three records with one released level: no coefficient is asked for, and none can be refused."""
    data = {"x": np.array([0.0, 1.0, 2.0]), "y": np.array([1, 1, 1])}
    with pytest.raises(pr.SolveError, match="no finite root exists"):
        fitted("y ~ x", data, Y, family="binomial")


def test_totals_of_a_subset_are_refused_by_name() -> None:
    with pytest.raises(
        pr.PramanaError, match=r"none of totals and counts .x > 0.: .* filter the data by clean columns"
    ):
        fitted(pr.total("y"), people(), Y, subset="x > 0")
