"""Corrections for few units against the formulas written out: HC2, CR2, and the degrees of freedom of Bell and McCaffrey."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import pramana as pr
from pramana.estimating.equation import Equation
from pramana.estimating.generalized_linear import PredictorEquation
from pramana.estimating.noisy import NoisyLinear
from pramana.kernels import leverage
from pramana.kernels.leverage import (
    Frame,
    Units,
    corrections,
    in_directions,
    leverages_of,
    size_of_many,
    size_of_one,
)
from pramana.models.multinomial import MultinomialEquation

BINARY = pr.Mechanism({"z": pr.TransitionMatrix.randomized_response([0, 1], keep=0.8)})


def people(n: int = 90, seed: int = 1) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    x, z = np.exp(rng.normal(size=n)), rng.integers(0, 2, n)
    return {
        "x": x,
        "v": rng.normal(size=n),
        "z": z,
        "y": x + z + rng.normal(size=n) * x,
        "c": np.sort(rng.integers(0, 9, n)),
        "w": rng.uniform(0.5, 3, n),
        "count": rng.integers(1, 4, n),
    }


def design_of(data: dict[str, Any]) -> np.ndarray:
    return np.column_stack([np.ones(len(data["x"])), data["x"], data["v"]])


def power(matrix: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.where(values > 1e-12, values, 1.0) ** -0.5 @ vectors.T


def bell_mccaffrey(x: np.ndarray, codes: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standard errors and degrees of freedom (d,) of CR2 under the working assumption of equal independent errors."""
    n, d = x.shape
    bread = np.linalg.inv(x.T @ x)
    annihilator = np.eye(n) - x @ bread @ x.T
    errors, freedom = np.empty(d), np.empty(d)
    for j in range(d):
        rows = []
        for g in np.unique(codes):
            own = codes == g
            rows.append(bread[j] @ x[own].T @ power(annihilator[np.ix_(own, own)]) @ annihilator[own])
        loads = np.array(rows)  # of each cluster's share on the errors
        errors[j] = np.sqrt(np.sum((loads @ residual) ** 2))
        freedom[j] = np.trace(loads @ loads.T) ** 2 / np.sum((loads @ loads.T) ** 2)
    return errors, freedom


def test_records_without_noise_have_hc2() -> None:
    data = people()
    result = pr.fit("y ~ x + v", data, None)
    expected = sm.OLS(data["y"], design_of(data)).fit(cov_type="HC2")
    np.testing.assert_allclose(result.covariance, expected.cov_params(), rtol=1e-7)
    _, freedom = bell_mccaffrey(design_of(data), np.arange(90), expected.resid)
    np.testing.assert_allclose(result.degrees_of_freedom, freedom, rtol=1e-6)


def test_clusters_without_noise_have_cr2() -> None:
    data = people()
    result = pr.fit("y ~ x + v", data, None, clusters="c")
    residual = sm.OLS(data["y"], design_of(data)).fit().resid
    errors, freedom = bell_mccaffrey(design_of(data), data["c"], residual)
    np.testing.assert_allclose(result.standard_errors, errors, rtol=1e-7)
    np.testing.assert_allclose(result.degrees_of_freedom, freedom, rtol=1e-6)


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_counts_are_rows(family: str) -> None:
    data = people()
    data["y"] = np.round(np.abs(data["y"]))
    repeated = {name: np.repeat(values, data["count"]) for name, values in data.items()}
    left = pr.fit("y ~ x + z", data, BINARY, frequencies="count", family=family, inference=pr.Sandwich("HC2"))
    right = pr.fit("y ~ x + z", repeated, BINARY, family=family, inference=pr.Sandwich("HC2"))
    np.testing.assert_allclose(left.covariance, right.covariance, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(left.degrees_of_freedom, right.degrees_of_freedom, rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"weights": "w"}, {"clusters": "c"}, {"clusters": "c", "weights": "w"}])
def test_the_scale_and_the_origin_of_a_covariate_do_not_matter(options: dict[str, Any]) -> None:
    data = people()
    moved = {**data, "x": 100 + 1000 * data["x"]}
    left, right = (pr.fit("y ~ x + z", d, BINARY, **options) for d in (data, moved))
    scale = np.array([1000.0, 1.0])
    np.testing.assert_allclose(left.standard_errors[1:], scale * right.standard_errors[1:], rtol=1e-6)
    np.testing.assert_allclose(left.degrees_of_freedom[1:], right.degrees_of_freedom[1:], rtol=1e-5)


def dense(shares: np.ndarray, working: np.ndarray, back: np.ndarray) -> np.ndarray:
    """(tr D)²/tr D² with every share's loads on every score written out."""
    drawn_out = corrections(shares, back)[0]
    out = []
    for row in back:
        u = drawn_out @ row
        away = np.einsum("nij,nj->ni", shares, u)
        loads = np.eye(len(u))[:, :, None] * u[:, None, :] - away[:, None, :]
        d = np.einsum("gki,kij,hkj->gh", loads, working, loads)
        out.append(np.trace(d) ** 2 / np.sum(d**2))
    return np.array(out)


def signed(units: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Shares of either sign that add up to the identity, and scores."""
    rng = np.random.default_rng(seed)
    shares = rng.normal(size=(units, d, d))
    shares = shares + shares.transpose(0, 2, 1) + np.eye(d)
    root = np.linalg.inv(np.linalg.cholesky(shares.sum(axis=0)))
    return root @ shares @ root.T, rng.normal(size=(units, d))


@pytest.mark.parametrize("size", [size_of_one, size_of_many])
@pytest.mark.parametrize(("units", "d"), [(6, 2), (150, 3)])
def test_degrees_of_freedom_from_sums_are_the_dense_ones(units: int, d: int, size: Any) -> None:
    shares, scores = signed(units, d, 2)
    working, frame = size(shares), Frame(np.eye(d), np.random.default_rng(5).normal(size=(d, d)))
    whole = leverages_of([Units(frame, scores, shares, working, np.ones(units))])
    np.testing.assert_allclose(whole.degrees_of_freedom, dense(shares, working, frame.back), rtol=1e-8)
    cut = units // 3
    parts = leverages_of(
        [
            Units(frame, scores[s], shares[s], working[s], np.ones(len(scores[s])))
            for s in (slice(cut), slice(cut, None))
        ]
    )
    np.testing.assert_allclose(parts.degrees_of_freedom, whole.degrees_of_freedom, rtol=1e-10)
    np.testing.assert_allclose(parts.meat, whole.meat, rtol=1e-10)


def few_directions(units: int, q: int, r: int, *, signed: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vectors (units, q, r) and values (units, q) whose products add up to the identity, and scores."""
    rng = np.random.default_rng(units + q)
    vectors, values = rng.normal(size=(units, q, r)), rng.uniform(0.5, 1.5, (units, q))
    values[:, 0] *= np.where(signed & (np.arange(units) % 3 == 0), -0.4, 1.0)
    total = np.einsum("nq,nqi,nqj->ij", values, vectors, vectors)
    return vectors @ np.linalg.inv(np.linalg.cholesky(total)).T, values, rng.normal(size=(units, r))


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(("units", "q", "r"), [(9, 1, 4), (60, 1, 5), (60, 2, 5), (12, 3, 4), (40, 2, 3)])
def test_units_in_their_own_directions_are_those_of_the_frame(units: int, q: int, r: int, signed: bool) -> None:
    """Copies, working variances that are other than the shares, and units beyond the share that is drawn out."""
    vectors, values, scores = few_directions(units, q, r, signed=signed)
    rng = np.random.default_rng(3)
    frame, copies = Frame(np.eye(r), rng.normal(size=(r + 1, r))), rng.integers(1, 3, units).astype(float)
    full = np.einsum("nq,nqi,nqj->nij", values, vectors, vectors)
    basis, own, _ = in_directions(vectors, values)
    np.testing.assert_allclose(basis.transpose(0, 2, 1) @ own @ basis, full, atol=1e-12)
    for size in (size_of_one, size_of_many, lambda shares: shares):
        wide = leverages_of([Units(frame, scores, full, size(full), copies)])
        narrow = leverages_of([Units(frame, scores, own, size(own), copies, basis)])
        for one, other in zip(vars(narrow).values(), vars(wide).values(), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(
            wide.degrees_of_freedom,
            dense(*(np.repeat(m, copies.astype(int), axis=0) for m in (full, size(full))), frame.back),
            rtol=1e-8,
        )


def test_where_steps_are_too_many_the_diagonal_tells_degrees_of_freedom(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parameters with the fewest stay exact; of the others one in as many as there are is missing."""
    rng = np.random.default_rng(4)
    sizes = np.array([5, 8, 30, 60, 100])
    group = np.repeat(np.arange(5), sizes)
    x = np.eye(5)[group] / np.sqrt(sizes[group])[:, None]
    basis, shares, _ = in_directions(x[:, None], np.ones((len(x), 1)))
    units = Units(Frame(np.eye(5), np.eye(5)), rng.normal(size=(len(x), 5)), shares, shares, np.ones(len(x)), basis)
    np.testing.assert_allclose(leverages_of([units]).degrees_of_freedom, sizes - 1, rtol=1e-9)
    monkeypatch.setattr(leverage, "STEPS", 2.5 * len(x) * 25)
    np.testing.assert_allclose(leverages_of([units]).degrees_of_freedom, [4, 7, 30, 60, 100], rtol=1e-9)


def groups_of_records() -> pd.DataFrame:
    rng = np.random.default_rng(6)
    n = 700
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "f": rng.integers(0, 12, n).astype(str),
            "z": rng.integers(0, 2, n),
            "y": rng.poisson(2, n),
        }
    )
    frame["g"], frame["w"] = rng.integers(0, 90, n) // rng.integers(1, 4, n), rng.uniform(0.5, 2, n)
    frame["k"], frame["h"] = rng.choice(["a", "b", "c"], n), rng.choice(["u", "v", "w"], n)
    frame["s"], frame["many"] = frame["g"] % 5, rng.integers(1, 4, n)
    return frame


THREE = pr.Mechanism({"k": pr.TransitionMatrix.randomized_response(["a", "b", "c"], keep=0.8)})
NOISY = pr.Mechanism({"x": pr.LaplaceNoise(0.2)})
QUESTIONS = {
    "counts": (pr.glm("y ~ x + z + f", "poisson"), BINARY),
    "linear": (pr.glm("y ~ x + z + f"), BINARY),
    "classes": (pr.multinomial("k ~ x + f"), THREE),
    "classes by a perturbed covariate": (pr.multinomial("h ~ x + z"), BINARY),
    "noise": (pr.glm("y ~ x + f", "poisson"), NOISY),
}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weights": "w"},
        {"clusters": "g"},
        {"clusters": "g", "weights": "w"},
        {"frequencies": "many"},
        {"design": pr.SurveyDesign(strata="s", clusters="g")},
        {"design": pr.SurveyDesign(strata="s", weights="w")},
    ],
    ids=["plain", "weights", "clusters", "weighted clusters", "counts", "strata", "weighted strata"],
)
@pytest.mark.parametrize("name", QUESTIONS)
def test_slopes_of_low_rank_are_slopes(name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits by the directions of records, and by full matrices of each."""
    question, mechanism = QUESTIONS[name]
    robust = pr.Sandwich("HC2" if "design" not in options else None, interval="wald")
    ask = lambda: pr.fit(question, groups_of_records(), mechanism, inference=robust, **options)  # noqa: E731
    narrow = ask()
    for kind in (PredictorEquation, NoisyLinear, MultinomialEquation):
        monkeypatch.setattr(kind, "slope_parts", Equation.slope_parts)
    wide = ask()
    np.testing.assert_allclose(narrow.covariance, wide.covariance, rtol=1e-7, atol=1e-11)
    if wide.degrees_of_freedom is not None:
        np.testing.assert_allclose(narrow.degrees_of_freedom, wide.degrees_of_freedom, rtol=1e-7)


def test_the_power_series_is_that_of_the_eigenvalues() -> None:
    """Exact for one eigenvalue, and to a third of the cube of the share for any."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(50, 3))
    clean = x[:, :, None] * x[:, None, :]
    clean *= rng.uniform(0, 0.05, 50)[:, None, None] / np.einsum("nii->n", clean)[:, None, None]
    mixed = signed(2000, 3, 4)[0]
    mixed = mixed[np.linalg.norm(mixed, axis=(1, 2)) < 0.05]
    for shares, tolerance in ((clean, 1e-9), (mixed, 0.05**3 / 3)):
        expected = np.array([power(np.eye(3) - h) for h in shares])
        np.testing.assert_allclose(corrections(shares, np.eye(3))[0], expected, atol=tolerance)


def test_equal_units_of_strata_have_the_textbooks_variance() -> None:
    """A mean of equal units: n_h/(n_h − 1) within strata is all that there is to correct, and units less strata remain."""
    rng = np.random.default_rng(8)
    unit = np.repeat(np.arange(8), 5)
    data = {"y": rng.normal(size=40) + rng.normal(size=8)[unit], "unit": unit, "stratum": unit // 2}
    design = pr.SurveyDesign(strata="stratum", clusters="unit")
    new, old = (pr.fit(pr.mean("y"), data, None, design=design, inference=pr.Sandwich(c)) for c in (None, "HC0"))
    np.testing.assert_allclose(new.covariance, old.covariance, rtol=1e-10)
    assert new.df == pytest.approx([4.0])
    assert old.df == 4.0


def test_exponential_draws_of_few_clusters_have_the_corrected_error() -> None:
    """For a mean of equal clusters exactly: G/(G − 1) of the sandwich, and the Dirichlet's G/(G + 1) undone."""
    unit = np.repeat(np.arange(8), 5)
    data = {"y": np.random.default_rng(8).normal(size=8)[unit], "unit": unit}
    drawn = pr.fit(pr.mean("y"), data, None, clusters="unit", inference=pr.Resampling(8000, scale="sd", seed=1))
    exact = pr.fit(pr.mean("y"), data, None, clusters="unit")
    assert drawn.standard_errors[0] == pytest.approx(exact.standard_errors[0], rel=5 / np.sqrt(2 * 8000))
    assert drawn.df == pytest.approx(exact.df)
    assert exact.df == pytest.approx([7.0])


@pytest.mark.parametrize("offset", [0.0, 1e-17, 1e-14])
def test_an_equation_without_records_of_its_own_changes_nothing(offset: float) -> None:
    """A difference of two others: whether its score is zero at the root, or what rounding leaves, units are as many as they were."""
    rng = np.random.default_rng(2)
    data = {"y": rng.normal(size=900), "v": rng.normal(1, 2, 900), "z": rng.integers(0, 2, 900)}

    def two(beta: Any, y: Any, v: Any) -> Any:
        return np.column_stack([y - beta[0], v - beta[1]])

    def three(beta: Any, y: Any, v: Any) -> Any:
        left = beta[2] - (beta[1] - beta[0]) + offset * (np.abs(y) > 2.5)
        return np.column_stack([two(beta, y, v), left])

    alone = pr.fit(pr.from_callable(two, ["y", "v"]), data, BINARY)
    beside = pr.fit(pr.from_callable(three, ["y", "v", "difference"]), data, BINARY)
    assert alone.df is beside.df is None
    np.testing.assert_allclose(beside.standard_errors[:2], alone.standard_errors, rtol=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_scores_that_are_rounding_or_repeat_others_change_nothing(seed: int) -> None:
    """A function of other parameters has an equation whose score is zero in every record, up to rounding: whether its products have a
    Cholesky root, or a rounded score its share, depends on the processor."""
    rng = np.random.default_rng(seed)
    scores, inverse = rng.standard_t(3, size=(60, 3)), rng.normal(size=(3, 3))
    noise = 1e-16 * rng.normal(size=(60, 2)) * rng.integers(0, 2, (60, 2))
    wider = np.column_stack([scores, noise, scores @ [1.0, 2.0, -1.0]])
    onwards = np.zeros((6, 6))
    onwards[:3, :3], onwards[3:5, :3], onwards[3:5, 3:5] = inverse, rng.normal(size=(2, 3)), np.eye(2)
    onwards[5, 5] = 1.0

    def corrected(z: np.ndarray, j: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        frame = Frame.of_scores(j, z.T @ z)
        own = frame.scores(z)
        squares = own[:, :, None] * own[:, None, :]
        found = leverages_of([Units(frame, own, squares, squares, np.ones(len(z)))])
        np.testing.assert_allclose(found.share, np.eye(3), atol=1e-9)
        return frame.covariance(found.meat), found.degrees_of_freedom

    plain, wide = corrected(scores, inverse), corrected(wider, onwards)
    np.testing.assert_allclose(wide[0][:3, :3], plain[0], rtol=1e-9)
    np.testing.assert_allclose(wide[1][:3], plain[1], rtol=1e-9)
    along = onwards[3:5, :3] @ np.linalg.inv(inverse)
    np.testing.assert_allclose(wide[0][3:5, 3:5], along @ plain[0] @ along.T, rtol=1e-9)
