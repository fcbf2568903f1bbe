"""What must not change the stabilized answer: the order of rows, levels and columns, their names, the unit of weights, counts for rows, and a P that does nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit

import pramana as pr

Float = NDArray[np.float64]
Data = dict[str, Any]
N = 240


def kept(levels: list[Any], keep: float = 0.7) -> pr.TransitionMatrix:
    return pr.TransitionMatrix.randomized_response(levels, keep=keep)


def moments(beta: Float, y: Any, x: Any) -> Float:
    residual = y - beta[0] - beta[1] * x
    return np.column_stack([residual, x * residual])


def people(n: int = N) -> Data:
    rng = np.random.default_rng(11)
    x, z, g = rng.normal(size=n), rng.normal(size=n), rng.choice(3, n, p=[0.5, 0.3, 0.2])
    d = (rng.random(n) < expit(0.5 * z)).astype(int)
    y = (rng.random(n) < expit(0.3 + 1.2 * x)).astype(int)
    income = 1 + 0.5 * x + 0.8 * d + 0.4 * g + rng.normal(size=n)
    columns = {"x": x, "z": z, "g": np.array(list("abc"))[g], "d": d, "y": y, "income": income}
    columns |= {"k": np.clip(np.round(x + rng.logistic(size=n)) + 2, 1, 4).astype(int)}
    columns |= {
        "counts": rng.poisson(np.exp(0.2 + 0.3 * x + 0.4 * d)),
        "s": np.array(["n", "s"])[rng.integers(0, 2, n)],
    }
    return columns | {"w": rng.uniform(0.5, 3, n), "f": rng.integers(1, 4, n)}


Y, G, D = {"y": kept([0, 1])}, {"g": kept(list("abc"))}, {"d": kept([0, 1])}
PAIRS = [(a, b) for a in (0, 1) for b in "abc"]
CASES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "logit": ("y ~ x + g", Y, {"family": "binomial"}),
    "probit": ("y ~ x", Y, {"family": "binomial", "link": "probit"}),
    "spline": ("y ~ bs(x, df=4)", Y, {"family": "binomial"}),
    "strata": ("y ~ x", {"y": pr.Stratified("s", {"n": kept([0, 1]), "s": kept([0, 1], 0.8)})}, {"family": "binomial"}),
    "covariate": ("income ~ x + g", G, {}),
    "interaction": ("income ~ x * d", D, {}),
    "counts": ("counts ~ x + d", D, {"family": "poisson"}),
    "both": ("y ~ x + d", Y | D, {"family": "binomial"}),
    "joint": (
        "y ~ g",
        {("y", "g"): pr.TransitionMatrix(PAIRS, np.kron(kept([0, 1]).matrix, kept(list("abc")).matrix))},
        {},
    ),
    "classes": (pr.multinomial("g ~ x"), G, {}),
    "ordinal": (pr.ordinal("k ~ x + d"), D, {}),
    "shares": (pr.proportions("g", by="s"), G, {}),
    "means": (pr.mean("income", by="g"), G, {}),
    "total": (pr.total("y"), Y, {}),
    "table": (pr.crosstab("g", "s"), G, {}),
    "odds": (pr.odds_ratio("d", "y"), D, {}),
    "correlation": (pr.correlation("x", "d"), D, {}),
    "instruments": (pr.two_stage_least_squares("income ~ d + x | z + x"), D, {}),
    "treatment": (pr.average_treatment_effect("income", "d", ["x"]), D, {}),
    "margins": (pr.margins("y ~ x + d", family="binomial"), D, {}),
    "own function": (pr.from_callable(moments, ["a", "b"]), Y, {}),
}


def released(name: str) -> tuple[Any, Data, pr.Mechanism, dict[str, Any]]:
    what, channels, options = CASES[name]
    mechanism = pr.Mechanism(channels)
    with pytest.warns(pr.PramanaWarning):
        return what, dict(mechanism.perturb(people(), seed=4)), mechanism, options


def fitted(what: Any, data: Data, mechanism: Any, **options: Any) -> pr.StabilizedResult:
    found = pr.fit(what, data, mechanism, method=options.pop("method", "stabilized"), **options)
    assert isinstance(found, pr.StabilizedResult)
    return found


def same(found: pr.StabilizedResult, wanted: pr.StabilizedResult, rel: float = 1e-6) -> None:
    assert found.parameters == wanted.parameters
    unit = wanted.standard_errors
    assert (found.estimate - wanted.estimate) / unit == pytest.approx(0 * unit, abs=rel)
    assert (found.interval() - wanted.interval()) / unit[:, None] == pytest.approx(
        np.zeros((len(unit), 2)), abs=10 * rel
    )
    assert found.weight == pytest.approx(wanted.weight, abs=rel)


@pytest.mark.filterwarnings("ignore::pramana.PramanaWarning")
@pytest.mark.parametrize("name", CASES)
def test_order_and_unit(name: str) -> None:
    """Rows and columns in another order, and weights in another unit."""
    what, data, mechanism, options = released(name)
    wanted = fitted(what, data, mechanism, weights="w", **options)
    order = np.random.default_rng(1).permutation(N)
    shuffled = {k: np.asarray(data[k])[order] for k in reversed(data)}
    same(fitted(what, shuffled, mechanism, weights="w", **options), wanted)
    if name != "total":  # which is in the unit of the weights
        same(fitted(what, data | {"w": 7 * data["w"]}, mechanism, weights="w", **options), wanted)


@pytest.mark.filterwarnings("ignore::pramana.PramanaWarning")
@pytest.mark.parametrize("name", CASES)
def test_counts_are_rows(name: str) -> None:
    what, data, mechanism, options = released(name)
    if name == "spline":  # bs() learns its knots from rows, whatever they count, for any method
        what = "y ~ x + I(x**2)"
    rows = np.repeat(np.arange(N), data["f"])
    repeated = {k: np.asarray(v)[rows] for k, v in data.items()}
    same(fitted(what, data, mechanism, frequencies="f", **options), fitted(what, repeated, mechanism, **options))


@pytest.mark.filterwarnings("ignore::pramana.PramanaWarning")
@pytest.mark.parametrize("name", CASES)
def test_a_matrix_that_does_nothing_leaves_the_clean_answer(name: str) -> None:
    what, channels, options = CASES[name]
    none = pr.Mechanism({c: unchanged(channel) for c, channel in channels.items()})
    clean = pr.fit(what, people(), None, **options)
    found = fitted(what, people(), none, **options)
    assert found.estimate == pytest.approx(clean.estimate, rel=1e-7, abs=1e-9)
    assert found.weight < 1e-6


def unchanged(channel: Any) -> pr.Channel:
    if isinstance(channel, pr.Stratified):
        return pr.Stratified(channel.by, {k: unchanged(one) for k, one in channel.strata.items()})
    return pr.TransitionMatrix(channel.levels, np.eye(len(channel.levels)))


def test_names_of_levels_and_columns_mean_nothing() -> None:
    """Also those of clean levels, which products with a ridge are made of."""
    data, mechanism = people(), pr.Mechanism(Y)
    found = fitted("y ~ x + g", data, mechanism, family="binomial")
    other = np.array(["q", "p", "o"])[np.searchsorted(list("abc"), data["g"])]
    renamed = {"age": data["x"], "job": other, "ill": np.where(data["y"] == 1, "no", "yes")}
    swapped = pr.Mechanism({"ill": kept(["yes", "no"])})
    u = pr.glm("ill ~ age + C(job, contr.treatment(base='q'))", "binomial")
    again = fitted(u, renamed, swapped)
    order = [0, 1, 3, 2]  # o stands for c, and p for b
    assert found.projected > 0
    assert np.abs(again.estimate[order]) == pytest.approx(np.abs(found.estimate), rel=1e-6)
    assert again.weight == pytest.approx(found.weight, rel=1e-4)


@pytest.mark.filterwarnings("ignore::pramana.PramanaWarning")
@pytest.mark.parametrize("formula", ["y ~ bs(x, df=4)", "y ~ x * s", "y ~ I(x**2)", "y ~ C(k)", "y ~ np.sin(3 * x)"])
def test_regressors_of_a_formula_are_not_shrunk(formula: str) -> None:
    """Whatever the formula makes of the clean variables: with a canonical link the plug-in is reversion as long as nothing is projected."""
    mechanism = pr.Mechanism({"y": kept([0, 1], 0.97)})
    data = dict(mechanism.perturb(people(900), seed=4))
    plain = pr.fit(formula, data, mechanism, family="gaussian")
    found = fitted(formula, data, mechanism, family="gaussian")
    gap = np.abs(found.plug_in - plain.estimate) / plain.standard_errors
    assert found.projected < 0.05
    assert gap.max() < (1e-6 if found.projected == 0 else 0.2)
