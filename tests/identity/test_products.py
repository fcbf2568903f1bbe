"""Designs kept as products, and the compiled sums over them, equal the expanded design with NumPy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.arrays import Float
from pramana.engines import LocalEngine
from pramana.estimating import Equation
from pramana.estimating.generalized_linear import PredictorEquation
from pramana.estimators.reversion import reverted_records
from pramana.frames import read
from pramana.kernels import backend, predictor, products
from randomizations import random_channel

N = 700
CLOSE: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-10}

FORMULAS = {
    "one level factor": "y ~ x + z + edu",
    "interaction with a clean number": "y ~ x * edu + z",
    "interaction with clean text": "y ~ region * edu + x:z",
    "two perturbed columns": "y ~ x + edu * job",
    "a perturbed number": "y ~ x + dose + x:dose + I(dose**2)",
    "without an intercept": "y ~ 0 + edu + x",
    "offset": "y ~ x + edu + offset(z)",
    "offset of a perturbed number": "y ~ x + edu + offset(dose)",
    "a spline of a clean column": "y ~ bs(x, df=4) + edu",
    "a factor that reads both": "y ~ z + I(x * dose) + edu",
}
FAMILIES = ("gaussian", "binomial", "poisson", "gamma")


@pytest.fixture(scope="module")
def data() -> tuple[pd.DataFrame, pr.Mechanism]:
    rng = np.random.default_rng(11)
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=N),
            "z": rng.uniform(-1, 1, N),
            "region": rng.choice(["n", "s", "w"], N),
            "edu": rng.choice(["low", "mid", "high"], N),
            "job": rng.choice(["no", "yes"], N),
            "dose": rng.choice([0.5, 1.0, 2.0], N),
        }
    )
    frame["gaussian"] = frame["x"] + rng.normal(size=N)
    frame["binomial"] = rng.integers(0, 2, N)
    frame["poisson"] = rng.poisson(2, N)
    frame["gamma"] = rng.gamma(2, size=N)
    by_region = {r: random_channel(rng, ["low", "mid", "high"]) for r in ("n", "s", "w")}
    mechanism = pr.Mechanism(
        {
            "edu": pr.Stratified("region", by_region),
            "job": random_channel(rng, ["no", "yes"]),
            "dose": random_channel(rng, [0.5, 1.0, 2.0], kind="numeric"),
            "binomial": pr.TransitionMatrix.binary(0.9, 0.8),
        }
    )
    return frame, mechanism


def equation_of(formula: str, family: str, data: tuple[pd.DataFrame, pr.Mechanism]) -> PredictorEquation:
    frame, mechanism = data
    table = read(frame)
    function = pr.glm(formula.replace("y ~", f"{family} ~"), family).prepare(table, mechanism.schema)
    return function.equation(reverted_records(function, mechanism, table))


@pytest.mark.parametrize("formula", FORMULAS.values(), ids=FORMULAS)
def test_the_products_are_the_design_at_every_node(formula: str, data: tuple[pd.DataFrame, pr.Mechanism]) -> None:
    equation = equation_of(formula, "binomial", data)
    records = equation.records
    slow = np.stack([equation.function.design_of(records.at(k), N) for k in range(len(records.nodes))], axis=1)
    np.testing.assert_allclose(equation.design.expanded(), slow, **CLOSE)
    flat = slow.reshape(-1, equation.d)
    np.testing.assert_allclose(equation.design.gram(), flat.T @ flat, rtol=1e-12)
    np.testing.assert_allclose(equation.design.sums(), flat.sum(axis=0), **CLOSE)
    np.testing.assert_allclose(equation.design.limits(), (flat.min(axis=0), flat.max(axis=0)), **CLOSE)


def test_only_what_reads_both_kinds_is_kept_densely(data: tuple[pd.DataFrame, pr.Mechanism]) -> None:
    dense = {name: equation_of(f, "binomial", data).design.dense.shape[1] for name, f in FORMULAS.items()}
    assert dense == {name: int(name == "a factor that reads both") for name in FORMULAS}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("formula", FORMULAS.values(), ids=FORMULAS)
def test_compiled_sums_equal_the_expanded_ones(
    formula: str, family: str, data: tuple[pd.DataFrame, pr.Mechanism]
) -> None:
    fast = backend.compiled()
    equation = equation_of(formula, family, data)
    if fast is None or equation.compact is None:
        pytest.skip("no compiled kernels" if fast is None else "a column is kept densely")
    rng = np.random.default_rng(3)
    beta = 0.2 * rng.normal(size=equation.d)
    w, w2 = rng.uniform(0, 2, (2, N))
    whole, part = equation.compact, equation.compact.rows(slice(100, 613))
    for compact, rows in ((whole, slice(0, N)), (part, slice(100, 613))):
        block = equation.rows(rows)
        score, slope, outer, clean, fourth = products.sums(fast, compact, beta, w[rows], w2[rows])
        phi = predictor.influence(block.data, beta)
        np.testing.assert_allclose(score, w[rows] @ phi, **CLOSE)
        expected = predictor.score_and_slope(block.data, beta[None], w[rows][None])
        np.testing.assert_allclose(score, expected[0][0], **CLOSE)
        np.testing.assert_allclose(slope, expected[1][0], **CLOSE)
        np.testing.assert_allclose(outer, (phi * w2[rows, None]).T @ phi, **CLOSE)
        np.testing.assert_allclose(fourth, np.sum((w2[rows, None] * phi**2) ** 2, axis=0), **CLOSE)
        np.testing.assert_allclose(clean, predictor.clean_outer(block.data, beta, w2[rows]), **CLOSE)
        lefts, rights, betas = rng.normal(size=(3, 4, equation.d))
        betas = beta + 0.1 * betas
        slopes = predictor.record_slopes_along(block.data, beta, lefts, rights)
        numeric = Equation.record_slopes_along(block, beta, lefts, rights)  # central differences
        np.testing.assert_allclose(slopes, numeric, rtol=1e-5, atol=1e-6 * np.abs(slopes).max())
        np.testing.assert_allclose(
            slopes, np.einsum("ki,nij,kj->kn", lefts, block.record_slopes(beta), rights), **CLOSE
        )
        np.testing.assert_allclose(products.record_slopes_along(fast, compact, beta, lefts, rights), slopes, **CLOSE)
        expected = Equation.left_slopes(block, betas, lefts, w[rows])
        np.testing.assert_allclose(predictor.left_slopes(block.data, betas, lefts, w[rows]), expected, **CLOSE)
        np.testing.assert_allclose(products.left_slopes(compact, betas, lefts, w[rows]), expected, **CLOSE)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("formula", FORMULAS.values(), ids=FORMULAS)
def test_sums_by_kept_products_of_columns_equal_those_made_anew(
    formula: str, family: str, data: tuple[pd.DataFrame, pr.Mechanism], monkeypatch: pytest.MonkeyPatch
) -> None:
    equation = equation_of(formula, family, data)
    rng = np.random.default_rng(5)
    beta = 0.2 * rng.normal(size=equation.d)
    w, w2 = rng.uniform(0, 2, (2, N))

    def found() -> list[Float]:
        block = equation.rows(slice(0, N, 1))  # arrays of its own
        sums = predictor.sums(block.data, beta, w, w2)
        return [*sums, *predictor.score_and_slope(block.data, beta[None], w[None]), block.clean_outer(beta, w2)]

    kept = found()
    monkeypatch.setattr(predictor, "PAIRS_ENTRIES", 0)
    for one, other in zip(kept, found(), strict=True):
        np.testing.assert_allclose(one, other, **CLOSE)
    phi = equation.influence(beta)
    np.testing.assert_allclose(kept[2], (phi * w2[:, None]).T @ phi, **CLOSE)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("formula", ["y ~ x * edu + z", "y ~ z + I(x * dose) + edu"])
def test_blocks_and_threads_change_nothing(
    formula: str, threads: int, data: tuple[pd.DataFrame, pr.Mechanism], monkeypatch: pytest.MonkeyPatch
) -> None:
    equation = equation_of(formula, "binomial", data)
    rng = np.random.default_rng(4)
    beta, clusters = 0.2 * rng.normal(size=equation.d), rng.integers(0, 9, N)
    ways = rng.normal(size=(2, 3, equation.d))
    sampling = {"weights": rng.uniform(0.5, 2, N), "clusters": clusters}
    whole = LocalEngine.of(equation, **sampling)
    values = beta + 0.1 * rng.normal(size=(3, equation.d))
    before = [
        whole.totals(beta),
        whole.spread(beta, whole.own),
        *whole.slope_turns(beta, values, *ways),
    ]
    monkeypatch.setattr("pramana.engines.local.SMALLEST", 64)
    monkeypatch.setattr("pramana.engines.local.BLOCK_ENTRIES", 64)
    cut = replace(LocalEngine.of(equation, **sampling), threads=threads)
    after = [
        cut.totals(beta),
        cut.spread(beta, cut.own),
        *cut.slope_turns(beta, values, *ways),
    ]
    for name in ("score", "slope", "outer", "clean_outer", "clusters", "meat"):
        np.testing.assert_allclose(getattr(after[0], name), getattr(before[0], name), rtol=1e-12, atol=1e-11)
    for one, other in zip(before[1:], after[1:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_some_of_the_records_are_summed_by_the_kernels_of_all(
    data: tuple[pd.DataFrame, pr.Mechanism], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample of a large file, too, and whatever measure it is put under; the sums are those of the expanded design."""
    pytest.importorskip("numba")
    equation = equation_of("y ~ x * edu + z", "binomial", data)
    monkeypatch.setattr("pramana.kernels.backend.WORTHWHILE", N * equation.about.nodes)
    every = slice(None, None, 5)
    parts = (equation.rows(every), equation.rows(slice(0, N // 5)), equation.under(equation.records).rows(every))
    beta = np.linspace(-0.2, 0.2, equation.d)
    for part in parts:
        weights, here = np.ones((1, part.n)), beta[None]
        expanded = predictor.score_and_slope(part.data, here, weights)
        with monkeypatch.context() as patched:
            patched.setattr("pramana.kernels.predictor.score_and_slope", None)
            found = part.score_and_slope(here, weights)
        for one, other in zip(found, expanded, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)


def test_categories_labelled_by_numbers_are_no_numbers(data: tuple[pd.DataFrame, pr.Mechanism]) -> None:
    """Two categories 3 and 7 are one indicator column, which must not be taken for the numbers."""
    frame, mechanism = data
    coded = frame.assign(
        k=pd.Categorical(np.where(frame["x"] > 0, 7, 3)), s=np.where(frame["x"] > 0, "seven", "a three")
    )
    by_code = pr.fit("gaussian ~ k * edu + z", coded, mechanism)
    by_text = pr.fit("gaussian ~ s * edu + z", coded, mechanism)
    np.testing.assert_allclose(by_code.estimate, by_text.estimate, rtol=1e-9)


def test_products_of_whole_numbers_do_not_overflow(data: tuple[pd.DataFrame, pr.Mechanism]) -> None:
    frame, mechanism = data
    whole = frame.assign(big=np.arange(N) * 10**8 + 10**12, also=(np.arange(N) % 7 + 1) * 10**9)
    plain = whole.assign(big=whole["big"].astype(float), also=whole["also"].astype(float))
    one, other = (pr.fit("gaussian ~ big:also:edu", d, mechanism).estimate for d in (whole, plain))
    np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("method", ["naive", "reversion"])
def test_categories_that_are_numbers_are_no_amounts(method: str) -> None:
    """Two levels make one column, which is an indicator whatever the levels are called."""
    rng = np.random.default_rng(4)
    clean, hidden = rng.integers(0, 2, 300), rng.integers(0, 2, 300)
    y = rng.normal(size=300) + clean + hidden
    fits = []
    for names in ([1, 2], ["one", "two"]):
        group, coded = pd.Categorical(np.take(names, clean), categories=names), np.take(names, hidden)
        channel = pr.TransitionMatrix.randomized_response(names, 0.8, kind="nominal")
        frame = pd.DataFrame({"y": y, "group": group, "coded": coded})
        fits.append(pr.fit("y ~ group + coded", frame, pr.Mechanism({"coded": channel}), method=method))
    np.testing.assert_allclose(fits[0].estimate, fits[1].estimate, **CLOSE)
    np.testing.assert_allclose(fits[0].covariance, fits[1].covariance, **CLOSE)
