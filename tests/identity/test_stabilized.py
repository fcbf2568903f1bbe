"""Stabilised reversion: it is reversion where nothing is projected, and equals a slow version of its ten steps elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, softmax
from scipy.stats import norm

import pramana as pr
from pramana.engines import Sampling, local
from pramana.estimators.stabilized import Hull
from pramana.estimators.stabilized.released import STRENGTHS, Regressors, ReleasedLevels, released_regression
from pramana.estimators.tables.without_negative_cells import onto_simplex

Float = NDArray[np.float64]
PLAIN = pr.Stabilized(splines=False, products=False)
"""Main effects alone, without a ridge."""


def kept(levels: list[Any], keep: float) -> pr.TransitionMatrix:
    return pr.TransitionMatrix.randomized_response(levels, keep=keep)


def mild(n: int = 1500) -> dict[str, Any]:
    """Records whose probabilities stay far from 0 and 1."""
    rng = np.random.default_rng(3)
    x, g, region = rng.uniform(-1, 1, n), rng.integers(0, 3, n), np.array(["n", "s"])[rng.integers(0, 2, n)]
    y = (rng.random(n) < expit(0.2 + 0.5 * x)).astype(int)
    income = 1 + 0.2 * x + 0.2 * g + rng.normal(size=n)
    weights, counts = rng.uniform(1, 3, n), rng.integers(1, 4, n)
    columns = {"x": x, "g": np.array(list("abc"))[g], "region": region, "y": y, "income": income}
    return columns | {"w": weights, "f": counts, "village": rng.integers(0, 80, n)}


def swapped(data: dict[str, Any], mechanism: pr.Mechanism) -> dict[str, Any]:
    with pytest.warns(pr.PramanaWarning):
        return dict(mechanism.perturb(data, seed=5))


CASES: dict[str, tuple[Any, pr.Mechanism, dict[str, Any]]] = {
    "logit": ("y ~ x + region", pr.Mechanism({"y": kept([0, 1], 0.9)}), {"family": "binomial"}),
    "weighted": ("y ~ x", pr.Mechanism({"y": kept([0, 1], 0.9)}), {"family": "binomial", "weights": "w"}),
    "counted": ("y ~ x", pr.Mechanism({"y": kept([0, 1], 0.9)}), {"family": "binomial", "frequencies": "f"}),
    "three classes": (pr.multinomial("g ~ x"), pr.Mechanism({"g": kept(list("abc"), 0.85)}), {}),
    "covariate": ("income ~ g", pr.Mechanism({"g": kept(list("abc"), 0.9)}), {}),
    "shares": (pr.proportions("g"), pr.Mechanism({"g": kept(list("abc"), 0.8)}), {}),
    "total": (pr.total("y"), pr.Mechanism({"y": kept([0, 1], 0.8)}), {"weights": "w"}),
    "odds ratio": (pr.odds_ratio("y", "region"), pr.Mechanism({"y": kept([0, 1], 0.9)}), {}),
    "by stratum": (
        "y ~ x",
        pr.Mechanism({"y": pr.Stratified("region", {"n": kept([0, 1], 0.85), "s": kept([0, 1], 0.95)})}),
        {"family": "binomial"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_without_projection_and_ridge_it_is_reversion(name: str) -> None:
    what, mechanism, options = CASES[name]
    data = swapped(mild(), mechanism)
    plain, found = (pr.fit(what, data, mechanism, method=m, **options) for m in ("reversion", PLAIN))
    assert isinstance(found, pr.StabilizedResult)
    assert found.projected == 0
    assert found.weight < 1e-8  # D = 0
    for values in (found.plug_in, found.one_step, found.estimate):
        assert values == pytest.approx(plain.estimate, rel=1e-8, abs=1e-8)
    assert found.standard_errors == pytest.approx(plain.standard_errors, rel=1e-6)


def strong(kind: str) -> tuple[Slow, dict[str, Any], pr.Mechanism, dict[str, Any]]:
    """Data in which many records are projected, and U written out."""
    rng, n = np.random.default_rng(8), 150 if kind == "response" else 110
    x, z = rng.normal(size=n), rng.normal(size=n)
    if kind == "response":
        y = (rng.random(n) < expit(-0.5 + 1.5 * x)).astype(int)
        mechanism, one = pr.Mechanism({"y": kept([0, 1], 0.8)}), np.column_stack([np.ones(n), x, z])

        def u(beta: Float, k: int) -> Float:
            return one * (k - expit(one @ beta))[:, None]

        data = swapped({"y": y, "x": x, "z": z}, mechanism)
        return Slow(u, data["y"], 3, 2), data, mechanism, {"what": "y ~ x + z", "family": "binomial"}
    g = rng.integers(0, 3, n)
    y = np.array([0.0, 2.0, 4.0])[g] + x + rng.normal(size=n)
    mechanism = pr.Mechanism({"g": kept(list("abc"), 0.75)})
    data = swapped({"y": y, "x": x, "g": np.array(list("abc"))[g]}, mechanism)

    def u(beta: Float, k: int) -> Float:
        design = np.column_stack([np.ones(n), x, np.full(n, float(k == 1)), np.full(n, float(k == 2))])
        return design * (y - design @ beta)[:, None]

    return Slow(u, np.searchsorted(list("abc"), data["g"]), 4, 3), data, mechanism, {"what": "y ~ x + g"}


@dataclass(frozen=True)
class Slow:
    """Steps 2 to 9, record by record or by differences, for U(β, k) (n, d) of an analysis with K released levels coded 0 … K − 1."""

    u: Any
    released: Any
    d: int
    k: int

    def shares(self, gamma: Float, z: Float) -> Float:
        eta = np.column_stack([np.zeros(len(z)), z @ gamma.reshape(self.k - 1, -1).T])
        return np.asarray(softmax(eta, axis=1))

    def ridge(self, penalty: Float) -> Float:
        """Of 2 Σ_k |γ_k − γ̄|²/2, whose gradient is this matrix times γ."""
        return np.kron(2 * (np.eye(self.k) - 1 / self.k)[1:, 1:], np.diag(penalty))

    def regression(self, z: Float, penalty: Float, weights: Float, start: Float | None = None) -> Float:
        """Newton with differences of the score."""
        ridge, seen = self.ridge(penalty), np.eye(self.k)[self.released]

        def score(gamma: Float) -> Float:
            residual = (seen - self.shares(gamma, z))[:, 1:] * weights[:, None]
            return np.asarray((residual.T @ z).ravel() - ridge @ gamma)

        return newton(score, np.zeros(z.shape[1] * (self.k - 1)) if start is None else start)

    def probabilities(self, gamma: Float, z: Float, q: Float) -> Float:
        return np.stack([nearest(row) for row in self.shares(gamma, z) @ q.T])

    def total(self, p: Float, beta: Float, weights: Float) -> Float:
        return np.asarray(sum((p[:, k] * weights) @ self.u(beta, k) for k in range(self.k)))

    def answer(self, z: Float, penalty: Float, q: Float) -> dict[str, Any]:
        n = len(z)
        ones = np.ones(n)
        gamma = self.regression(z, penalty, ones)
        p = self.probabilities(gamma, z, q)
        m = newton(lambda b: self.total(p, b, ones), np.zeros(self.d))
        bread = np.linalg.inv(-jacobian(lambda b: self.total(p, b, ones), m))
        phi = sum(q[k, self.released][:, None] * self.u(m, k) for k in range(self.k))
        step = bread @ phi.sum(axis=0)
        psi = np.stack([self.influence(i, m, z, penalty, q, gamma) for i in range(n)])
        own, other = (np.cov((v @ bread.T).T) * (n - 1) * n / (n - self.d) for v in (phi, phi - psi))
        t = float(step @ np.linalg.solve(other + 1e-3 * own, step))
        w = t / (t + 2 * self.d)
        b, o = m + w * step, m + step
        own, other = (np.sqrt(np.diag(self.covariance(beta, p, q))) for beta in (b, o))
        z = norm.ppf(0.975)
        below, above = (z * (own + z * self.growth(b, p, q, sign)) for sign in (-1, 1))
        low, high = np.minimum(b - below, o - z * other), np.maximum(b + above, o + z * other)
        return {"psi": psi, "p": p, "m": m, "o": o, "t": t, "w": w, "b": b, "low": low, "high": high}

    def influence(self, i: int, m: Float, z: Float, penalty: Float, q: Float, near: Float) -> Float:
        """What more of record i adds to Σ p U: everything is fitted anew."""

        def at(more: float) -> Float:
            weights = np.ones(len(z))
            weights[i] += more
            return self.total(self.probabilities(self.regression(z, penalty, weights, near), z, q), m, weights)

        return np.asarray((at(1e-4) - at(-1e-4)) / 2e-4)

    def covariance(self, beta: Float, p: Float, q: Float) -> Float:
        bread = np.linalg.inv(jacobian(lambda b: self.total(p, b, np.ones(len(p))), beta))
        phi = sum(q[k, self.released][:, None] * self.u(beta, k) for k in range(self.k))
        return np.asarray(bread @ (phi.T @ phi) @ bread.T)

    def growth(self, beta: Float, p: Float, q: Float, sign: int) -> Float:
        """A quarter of what each error grows by within two of them, the other parameters following as they do by chance."""
        at, out = self.covariance(beta, p, q), []
        for j, error in enumerate(np.sqrt(np.diag(at))):
            further = self.covariance(beta + 2 * sign * at[j] / error, p, q)
            out.append(max(float(np.sqrt(further[j, j])) - error, 0.0) / 4)
        return np.array(out)


def nearest(row: Float) -> Float:
    """The nearest point of the simplex, face by face."""
    best, out = np.inf, row
    for face in range(1, 2 ** len(row)):
        inside = np.array([bool(face >> k & 1) for k in range(len(row))])
        tried = np.where(inside, row - (row[inside].sum() - 1) / inside.sum(), 0.0)
        away = float(np.sum((tried - row) ** 2))
        if tried.min() >= 0 and away < best - 1e-15:
            best, out = away, tried
    return np.asarray(out)


def jacobian(function: Any, at: Float) -> Float:
    return np.stack([(function(at + 1e-5 * e) - function(at - 1e-5 * e)) / 2e-5 for e in np.eye(len(at))], axis=1)


def newton(score: Any, beta: Float) -> Float:
    for _ in range(40):
        step = np.linalg.solve(jacobian(score, beta), score(beta))
        beta = beta - step
        if np.abs(step).max() < 1e-9:
            break
    return beta


def parts(kind: str) -> tuple[Slow, dict[str, Any], pr.Mechanism, dict[str, Any], Regressors, Float, Float]:
    slow, data, mechanism, options = strong(kind)
    q = np.linalg.inv(mechanism.assignments[0].channel.matrix)  # type: ignore[attr-defined]
    clean = {name: data[name] for name in data if name not in mechanism.columns}
    code = np.asarray(slow.released, dtype=np.int64)
    released = ReleasedLevels(code, np.zeros_like(code), q.T[None])
    plan = Regressors.of(clean, released, Sampling(len(code)), splines=True, products=True)
    return slow, data, mechanism, options, plan, plan.shrunk * 10.0, q


@pytest.mark.parametrize("kind", ["response", "covariate"])
def test_the_ten_steps(kind: str) -> None:
    slow, data, mechanism, options, plan, penalty, q = parts(kind)
    truth = slow.answer(plan.design, penalty, q)
    inference = pr.Sandwich("HC0")
    found = pr.fit(**options, data=data, mechanism=mechanism, method=pr.Stabilized(ridge=10.0), inference=inference)
    assert isinstance(found, pr.StabilizedResult)
    assert 0.05 < found.projected == pytest.approx(np.mean(truth["p"].min(axis=1) == 0))
    assert found.plug_in == pytest.approx(truth["m"], rel=1e-6)
    assert found.one_step == pytest.approx(truth["o"], rel=1e-6)
    assert found.evidence == pytest.approx(truth["t"], rel=1e-4)
    assert found.weight == pytest.approx(truth["w"], rel=1e-4)
    assert found.estimate == pytest.approx(truth["b"], rel=1e-4)
    assert found.interval() == pytest.approx(np.column_stack([truth["low"], truth["high"]]), rel=1e-4)


@pytest.mark.parametrize("kind", ["response", "covariate"])
def test_the_strength_of_the_ridge_is_that_of_aic(kind: str) -> None:
    """Each strength fitted to the end."""
    slow, _, _, _, plan, _, q = parts(kind)
    seen = np.eye(slow.k)[slow.released]

    def aic(strength: float) -> float:
        ridge = slow.ridge(strength * plan.shrunk)
        gamma = slow.regression(plan.design, strength * plan.shrunk, np.ones(len(seen)))
        shares = slow.shares(gamma, plan.design)
        score = lambda g: ((seen - slow.shares(g, plan.design))[:, 1:].T @ plan.design).ravel()  # noqa: E731
        bend = -jacobian(score, gamma)
        worth = float(np.sum(np.log(shares[seen == 1])))
        return float(2 * np.trace(np.linalg.solve(bend + ridge, bend)) - 2 * worth)

    code = np.asarray(slow.released, dtype=np.int64)
    released = ReleasedLevels(code, np.zeros_like(code), q.T[None])
    found = released_regression(plan, released, Sampling(len(code)), None)
    assert aic(found.strength) == pytest.approx(min(aic(s) for s in STRENGTHS), abs=0.05)


def test_projection_is_the_nearest_point() -> None:
    rng = np.random.default_rng(1)
    for k in (2, 3, 5):
        rows = rng.dirichlet(np.ones(k), 200) * 2 - 1 / k
        assert onto_simplex(rows) == pytest.approx(np.stack([nearest(row) for row in rows]), abs=1e-12)


def test_counts_are_records() -> None:
    what, mechanism, options = "y ~ x + region", pr.Mechanism({"y": kept([0, 1], 0.7)}), {"family": "binomial"}
    data = swapped(mild(400), mechanism)
    rows = np.repeat(np.arange(400), data["f"])
    repeated = {name: np.asarray(values)[rows] for name, values in data.items()}
    counted = pr.fit(what, data, mechanism, method="stabilized", frequencies="f", **options)
    plain = pr.fit(what, repeated, mechanism, method="stabilized", **options)
    assert counted.estimate == pytest.approx(plain.estimate, rel=1e-8)
    assert counted.interval() == pytest.approx(plain.interval(), rel=1e-8)


def test_the_unit_of_weights_and_the_order_of_levels_change_nothing() -> None:
    mechanism = pr.Mechanism({"g": kept(list("abc"), 0.6)})
    other = pr.Mechanism({"g": kept(list("cab"), 0.6)})
    data = swapped(mild(500), mechanism)
    larger = data | {"w": np.asarray(data["w"]) * 1000}
    fits = [
        pr.fit("income ~ x + C(g, contr.treatment(base='a'))", d, m, method="stabilized", weights="w")
        for d, m in ((data, mechanism), (larger, mechanism), (data, other))
    ]
    order = [fits[2].parameters.index(p) for p in fits[0].parameters]
    for found in (fits[1].estimate, fits[2].estimate[order]):
        assert found == pytest.approx(fits[0].estimate, rel=1e-6)


def test_clusters_of_one_record_are_records() -> None:
    mechanism = pr.Mechanism({"y": kept([0, 1], 0.7)})
    data = swapped(mild(400), mechanism) | {"id": np.arange(400)}
    plain, alone = (
        pr.fit("y ~ x", data, mechanism, family="binomial", method="stabilized", clusters=c) for c in (None, "id")
    )
    assert alone.estimate == pytest.approx(plain.estimate, rel=1e-3)
    assert alone.standard_errors == pytest.approx(plain.standard_errors, rel=0.02)


def test_the_hull_holds_both_intervals_and_its_test() -> None:
    _, data, mechanism, options = strong("response")
    found = pr.fit(**options, data=data, mechanism=mechanism, method="stabilized")
    assert isinstance(found, pr.StabilizedResult)
    for level in (0.8, 0.95, 0.99):
        low, high = found.interval(level).T
        assert np.all(
            (low < np.minimum(found.estimate, found.one_step)) & (high > np.maximum(found.estimate, found.one_step))
        )
    for row in found.to_dicts():
        p = row["p_value"]
        if 1e-6 < p < 1:
            assert min(np.abs(found.interval(1 - p)[found.parameters.index(row["term"])])) == pytest.approx(0, abs=1e-6)


def test_a_design_with_one_stratum_and_single_records_is_a_weighted_sample() -> None:
    mechanism = pr.Mechanism({"y": kept([0, 1], 0.7)})
    data = swapped(mild(400), mechanism) | {"one": np.zeros(400), "id": np.arange(400)}
    options = {"family": "binomial", "method": "stabilized"}
    plain = pr.fit("y ~ x", data, mechanism, weights="w", **options)
    designed = pr.fit("y ~ x", data, mechanism, design=pr.SurveyDesign("w", "one", "id"), **options)
    assert isinstance(plain, pr.StabilizedResult)
    assert isinstance(designed, pr.StabilizedResult)
    assert designed.plug_in == pytest.approx(plain.plug_in, rel=1e-8)
    assert designed.evidence == pytest.approx(plain.evidence, rel=0.01)
    assert designed.standard_errors == pytest.approx(plain.standard_errors, rel=0.02)


def test_a_column_of_a_joint_channel_that_is_not_used_is_summed_out() -> None:
    """With a channel that leaves the other column alone, the answer is that of the first column's own channel."""
    own = kept(list("abc"), 0.7)
    pairs = [(a, b) for a in "abc" for b in "ns"]
    both = pr.TransitionMatrix(pairs, np.kron(own.matrix, np.eye(2)))
    data = swapped(mild(500), pr.Mechanism({"g": own}))
    method = pr.Stabilized(splines=False, products=False)
    alone = pr.fit(pr.proportions("g"), data, pr.Mechanism({"g": own}), method=method)
    joint = pr.fit(pr.proportions("g"), data, pr.Mechanism({("g", "region"): both}), method=method)
    assert joint.estimate == pytest.approx(alone.estimate, rel=1e-8)


def test_some_of_very_many_records_tell_how_the_error_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = pr.Mechanism({"y": kept([0, 1], 0.65)})
    data = swapped(mild(1200), mechanism)

    def fitted() -> tuple[Float, Float]:
        found = pr.fit("y ~ x + region", data, mechanism, family="binomial", method="stabilized")
        assert isinstance(found.limits, Hull)
        return found.interval(), found.limits.growth

    whole, growth = fitted()
    monkeypatch.setattr(local, "PILOT", 300)
    some, other = fitted()
    assert growth.max() > 0
    assert np.any(other != growth)
    assert some == pytest.approx(whole, abs=0.02 * np.diff(whole).max())
