"""Validated records of the file used twice: the combination is never worse than either answer, and for a share it is the published one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.analysis.question import question
from pramana.analysis.task import Task
from pramana.engines import LocalEngine
from pramana.estimating.equation import central_slopes
from pramana.estimators.stack import Stack
from pramana.inference import solve

WHO = pr.Validated({"z": "true"})
LOGIT = {"family": "binomial"}


def sample(seed: int, n: int = 3000, share: float = 0.2, levels: int = 2) -> tuple[pd.DataFrame, pr.Mechanism]:
    """Records with a measured z, of whom a share is validated; and a mechanism with the matrix that these tell."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    true = (rng.random(n) < 1 / (1 + np.exp(0.5 - x))).astype(int) + (levels > 2) * (rng.random(n) < 0.4)
    z = np.where(rng.random(n) < 0.2, rng.integers(0, levels, n), true)
    seen = rng.random(n) < share
    counts = np.array([[np.sum(seen & (z == i) & (true == j)) for j in range(levels)] for i in range(levels)])
    matrix = pr.TransitionMatrix.from_validation(counts, levels=range(levels), internal=True, kind="numeric", prior=0)
    income = 1 + 2 * true + x + rng.normal(size=n)
    columns = {"z": z, "true": np.where(seen, true, np.nan), "x": x, "income": income, "house": rng.integers(0, 400, n)}
    return pd.DataFrame(columns).assign(job=rng.integers(0, 2, n), hidden=true), pr.Mechanism({"z": matrix})


def of_the_validated(what: Any, data: pd.DataFrame, **options: Any) -> pr.Result:
    known = data[data["true"].notna()]
    return pr.fit(what, known.assign(z=known["hidden"]), None, **options)


@pytest.mark.parametrize("share", [0.05, 0.2, 0.6])
def test_a_share_is_tenenbein_s_estimate(share: float) -> None:
    """Tenenbein (1970): Σ_i Pr(true | released i) among the validated, times the share released as i among all, is most likely; its variance is
    π(1 − π)[(1 − κ)/m + κ/n], κ the squared correlation of truth and released value."""
    data, mechanism = sample(1, 20_000, share)
    found = pr.fit(pr.mean("z"), data, mechanism, method=WHO)
    seen = data[data["true"].notna()]
    expected = float(seen.groupby("z")["true"].mean() @ data["z"].value_counts(normalize=True).sort_index())
    kappa, pi = float(np.corrcoef(seen["z"], seen["true"])[0, 1] ** 2), expected
    error = np.sqrt(pi * (1 - pi) * ((1 - kappa) / len(seen) + kappa / len(data)))
    assert found.estimate[0] == pytest.approx(expected, abs=0.03 * error)
    assert found.standard_errors[0] == pytest.approx(error, rel=0.03)


KINDS: list[tuple[Any, dict[str, Any]]] = [
    (pr.mean("z"), {}),
    ("z ~ x", LOGIT),
    ("income ~ z * x", {}),
    ("income ~ z + x", {"clusters": "house"}),
    ("income ~ z", {"weights": "house"}),
    (pr.mean("income", by="z"), {}),
]


@pytest.mark.parametrize(("what", "options"), KINDS, ids=lambda v: str(v)[:30])
def test_no_variance_is_above_that_of_either_answer(what: Any, options: dict[str, Any]) -> None:
    """Both covariances less that of the combination are positive semi-definite."""
    data, mechanism = sample(2)
    fixed = {**options, "inference": pr.Sandwich("HC0", "wald")}
    found = pr.fit(what, data, mechanism, method=WHO, **fixed)
    task = Task.read(question(what, **{k: v for k, v in options.items() if k == "family"}), data, mechanism)
    stack = WHO.bind(task.function, mechanism, task.table, np.ones(len(data))).equation
    assert isinstance(stack, Stack)
    one = of_the_validated(what, data, **fixed).covariance
    for alone in [one] if "weights" in options else [one, pr.fit(what, data, mechanism, **fixed).covariance]:
        scale = np.sqrt(np.diag(alone))
        values = np.linalg.eigvalsh((alone - found.covariance) / np.outer(scale, scale))
        # Reversion alone takes the cross term by reverted sums, which agree with the stack up to sampling error.
        assert values[0] > -0.03
    assert np.all(np.diag(found.covariance) < 0.95 * np.diag(one))


def test_the_stack_is_the_sum_of_its_records_and_the_combination_has_the_smallest_variance() -> None:
    for levels in (2, 3):
        data, mechanism = sample(5, 12_000, 0.3, levels)
        task = Task.read(question("income ~ z + x"), data, mechanism)
        stack = WHO.bind(task.function, mechanism, task.table, np.ones(len(data))).equation
        engine = LocalEngine.of(stack)
        root = solve(engine).beta
        np.testing.assert_allclose(root[:3], pr.fit("income ~ z + x", data, mechanism).estimate, rtol=1e-7)
        np.testing.assert_allclose(root[3:6], of_the_validated("income ~ z + x", data).estimate, rtol=1e-7)
        slope = engine.score_and_slope(root[None], engine.own)[1][0]
        slow = central_slopes(lambda v, s=stack: s.influence(v).sum(axis=0), root)  # type: ignore[misc]
        np.testing.assert_allclose(slope, slow, atol=1e-6 * np.abs(slow).max())
        phi = stack.influence(root)
        omega = (np.linalg.inv(slow) @ phi.T @ phi @ np.linalg.inv(slow).T)[:6, :6]
        stacked = np.vstack([np.eye(3), np.eye(3)])
        best = np.linalg.inv(stacked.T @ np.linalg.solve(omega, stacked))
        found = pr.fit("income ~ z + x", data, mechanism, method=WHO, inference=pr.Sandwich("HC0", "wald"))
        # Its weights come from the covariance at one β for both answers, so that it is the best up to their difference.
        np.testing.assert_allclose(np.diag(found.covariance), np.diag(best), rtol=1e-3)
        expected = best @ stacked.T @ np.linalg.solve(omega, root[:6])
        np.testing.assert_array_less(np.abs(found.estimate - expected), 0.05 * found.standard_errors)


def test_the_cross_term_is_that_of_reversion() -> None:
    """For a share, reversion with `internal=True` has the stacked equations' variance in closed form."""
    data, mechanism = sample(7)
    task = Task.read(question(pr.mean("z")), data, mechanism)
    stack = WHO.bind(task.function, mechanism, task.table, np.ones(len(data))).equation
    engine = LocalEngine.of(stack)
    root = solve(engine).beta
    phi, inverse = stack.influence(root), np.linalg.inv(engine.score_and_slope(root[None], engine.own)[1][0])
    error = np.sqrt((inverse @ phi.T @ phi @ inverse.T)[0, 0])
    plain = pr.fit(pr.mean("z"), data, mechanism, inference=pr.Sandwich("HC0", "wald"))
    assert plain.standard_errors[0] == pytest.approx(error, rel=1e-6)
    assert plain.estimate[0] == pytest.approx(root[0])


def test_with_everybody_validated_it_is_the_truth() -> None:
    data, mechanism = sample(3, 2000, 1.0)
    for what, options in [(pr.mean("z"), {}), ("z ~ x", LOGIT), ("income ~ z", {})]:
        found = pr.fit(what, data, mechanism, method=WHO, inference=pr.Sandwich("HC0", "wald"), **options)
        oracle = of_the_validated(what, data, inference=pr.Sandwich("HC0", "wald"), **options)
        np.testing.assert_allclose(found.standard_errors, oracle.standard_errors, rtol=0.02)
        np.testing.assert_array_less(np.abs(found.estimate - oracle.estimate), 0.1 * oracle.standard_errors)


def test_beside_another_perturbed_column() -> None:
    data, mechanism = sample(4)
    both = pr.Mechanism(
        {"z": mechanism.assignments[0].channel, "job": pr.TransitionMatrix.randomized_response([0, 1], 0.9)}
    )
    wald = pr.Sandwich(interval="wald")  # intervals are not compared
    found = pr.fit("income ~ z + job", data, both, method=WHO, inference=wald)
    plain = pr.fit("income ~ z + job", data, both, inference=wald)
    assert np.all(found.standard_errors < plain.standard_errors)
    assert found.parameters == plain.parameters
    drawn = pr.fit("income ~ z + job", data, both, method=WHO, inference=pr.Resampling(draws=100, seed=1))
    np.testing.assert_allclose(drawn.standard_errors, found.standard_errors, rtol=0.25)
    assert len(pr.fit("z ~ x", data, mechanism, method=WHO, **LOGIT).predict({"x": [0.0]})) == 1


MESSAGES: list[tuple[Any, Any, dict[str, Any], str]] = [
    (pr.Validated({"y": "true"}), pr.mean("z"), {}, r"reads no perturbed column 'y'"),
    (pr.Validated({}), pr.mean("z"), {}, r"one measured column and the column with its true values"),
    (pr.Validated({"z": "nothing"}), pr.mean("z"), {}, r"column 'nothing' is not in the data"),
    (pr.Validated({"z": "x"}), pr.mean("z"), {}, r"column 'x' has .* not levels"),
    (WHO, pr.total("z"), {}, r"'total\(z\)' is a sum, which is not combined"),
    (WHO, pr.median("income", by="z"), {}, r"is a step function, which is not combined"),
    (WHO, "z ~ x", {**LOGIT, "subset": "z == 1"}, r"knows no subset by perturbed columns"),
]


@pytest.mark.parametrize(("method", "what", "options", "message"), MESSAGES, ids=lambda v: str(v)[:30])
def test_what_cannot_be_combined(method: Any, what: Any, options: dict[str, Any], message: str) -> None:
    data, mechanism = sample(1)
    with pytest.raises(pr.PramanaError, match=message):
        pr.fit(what, data, mechanism, method=method, **options)


def test_studies_that_do_not_fit() -> None:
    data, mechanism = sample(1)
    apart = pr.Mechanism({"z": pr.TransitionMatrix.from_validation([[300, 40], [30, 200]])})
    with pytest.raises(pr.PramanaError, match="not measured on records of this file"):
        pr.fit(pr.mean("z"), data, apart, method=WHO)
    with pytest.raises(pr.DataError, match="no record has the true level 1 in 'true'"):
        pr.fit(pr.mean("z"), data.assign(true=data["true"].where(data["true"] != 1)), mechanism, method=WHO)
    unit = pr.Mechanism({"z": mechanism.assignments[0].channel}, unit="person")
    with pytest.raises(pr.PramanaError, match="draws that units share"):
        pr.fit(pr.mean("z"), data.assign(person=np.arange(len(data))), unit, method=WHO)
    chosen = data.assign(true=data["hidden"].where((data["z"] == 1) | (np.arange(len(data)) % 5 == 0)))
    found = pr.fit(pr.mean("z"), chosen, mechanism, method=WHO)
    assert "validated-unlike" in [d.code for d in found.diagnostics]
    assert [d.code for d in pr.fit(pr.mean("z"), data, mechanism, method=WHO).diagnostics] == ["validated-records"]


@pytest.mark.parametrize(("what", "options"), KINDS)
def test_the_price_adds_up(what: Any, options: dict[str, Any]) -> None:
    """The parts are those of the covariance: what is left of it is that of the oracle, who has everybody's truth."""
    data, mechanism = sample(4, 6000)
    found = pr.fit(what, data, mechanism, method=WHO, **options)
    price = found.price_of_privacy()
    if "clusters" not in options:
        oracle = pr.fit(what, data.assign(z=data["hidden"]), None, **options)
        left = price["variance"] * (1 - price["privacy_share"] - price["measurement_share"])
        np.testing.assert_allclose(left, np.diag(oracle.covariance), rtol=0.2)
    np.testing.assert_allclose(price["variance"], np.diag(found.covariance), rtol=0.05)
    assert (price["equivalent_records"] < len(data)).all()
    assert (price["privacy_share"] > 0).any()


def test_a_share_has_the_published_price() -> None:
    """Tenenbein's variance over π(1 − π)/n: what the errors and the measurement of P cost together."""
    data, mechanism = sample(1, 20_000, 0.2)
    price = pr.fit(pr.mean("z"), data, mechanism, method=WHO).price_of_privacy()
    seen = data[data["true"].notna()]
    kappa = float(np.corrcoef(seen["z"], seen["true"])[0, 1] ** 2)
    expected = 1 - 1 / ((1 - kappa) * len(data) / len(seen) + kappa)
    assert float(price["privacy_share"][0] + price["measurement_share"][0]) == pytest.approx(expected, abs=0.02)


def test_few_validated_records_pay_what_reversion_pays() -> None:
    """Where their own answer says nothing, the price is that of reversion with the same matrix, whose records are counted alike."""
    data, mechanism = sample(2, 20_000, 0.01)
    both = [pr.fit("income ~ z + x", data, mechanism, method=m).price_of_privacy() for m in (WHO, "reversion")]
    combined, reverted = (price["equivalent_records"].to_numpy() for price in both)
    assert (combined > 0.98 * reverted).all()


def test_with_everybody_validated_nothing_is_paid_and_nothing_is_weighed() -> None:
    data, mechanism = sample(5, share=1.1)
    for what in (pr.mean("z"), "income ~ z + x"):
        found = pr.fit(what, data, mechanism, method=WHO)
        price = found.price_of_privacy()
        np.testing.assert_allclose(price["privacy_share"] + price["measurement_share"], 0, atol=0.05)
        assert all(abs(float(weight)) < 2 for weight in found.facts["Weight of true values"].split(", "))


def test_the_equation_is_bound_and_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from pramana.estimators import estimate

    data, mechanism = sample(6, 500)
    calls: list[str] = []
    bind, root = pr.Validated.bind, estimate.solve
    monkeypatch.setattr(pr.Validated, "bind", lambda *a: calls.append("bind") or bind(*a))
    monkeypatch.setattr(estimate, "solve", lambda *a, **k: calls.append("solve") or root(*a, **k))
    pr.fit(pr.mean("z"), data, mechanism, method=WHO)
    assert calls == ["bind", "solve"]
