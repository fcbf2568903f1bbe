"""Without Monte Carlo: averaged over the noise, by quadrature or summation, the reverted score, slope and square are the true ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.analysis.question import question
from pramana.estimating.equation import central_slopes
from pramana.estimators import Reversion
from pramana.frames import read
from pramana.kernels.logistic import logistic_derivatives

EXACT = 1e-8
MIXTURE = 5e-7
"""Of the eight-component mixture for the logit: t²H′ is right to 5e-7, and everything else to less."""
CHANNELS: dict[str, Any] = {
    "laplace": pr.LaplaceNoise(0.6),
    "geometric": pr.GeometricNoise(0.7),
    "geometric on a fine grid": pr.GeometricNoise(0.6, step=0.25),
    "gaussian": pr.GaussianNoise(0.8),
    "discrete gaussian": pr.DiscreteGaussianNoise(1.1, step=0.5),
    "uniform": pr.UniformNoise(2.0),
    "keep or noise": pr.KeepOrNoise(0.3, pr.GeometricNoise(0.6)),
    "keep or laplace": pr.KeepOrNoise(0.4, pr.LaplaceNoise(0.7)),
    "keep or normal": pr.KeepOrNoise(0.6, pr.GaussianNoise(1.3)),
    "keep or discrete normal": pr.KeepOrNoise(0.51, pr.DiscreteGaussianNoise(1.1, step=1.0)),
    "keep or uniform": pr.KeepOrNoise(0.55, pr.UniformNoise(4.0)),
}
BINARY = pr.TransitionMatrix.binary(sensitivity=0.9, specificity=0.8)
TRUE = pd.DataFrame(
    {
        "z": [0.0, 1.0, 2.0, -1.0, 1.0, -2.0, 3.0],
        "x": [0.3, -1.2, 0.8, 1.5, -0.4, 0.9, -0.7],
        "g": [0, 1, 1, 0, 1, 0, 1],
        "h": [0, 1, 0, 1, 0, 1, 1],
        "y": [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0],
    }
)
LOG = ("gaussian", "poisson", "gamma", "inverse-gaussian")
SHARE = np.array([1.0, 0.7, 0.4, 1.3, 0.6, 0.9, 0.5])
FEW = 3
"""True records where each can be released in very many ways: the identity holds for every one of them."""


def law(channel: Any, *, curved: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Values of the noise and their probabilities: all of them on a grid, the classical quadratures, which are exact in polynomials
    and fast in exponentials, elsewhere, and panels of Gauss and Legendre for other curves."""
    if isinstance(channel, pr.KeepOrNoise):
        v, mass = law(channel.inner, curved=curved)
        return np.append(v, 0.0), np.append((1 - channel.keep) * mass, channel.keep)
    if isinstance(channel, pr.GeometricNoise):  # far beyond 2⁻⁶⁴, for functions that grow
        far = min(300, int(200 * channel.scale / channel.step) + 1)
        k = np.arange(-far, far + 1)
        return k * channel.step, (1 - channel.alpha) / (1 + channel.alpha) * channel.alpha ** np.abs(k)
    if isinstance(channel, pr.DiscreteGaussianNoise):
        masses = channel.masses
        k = np.arange(1 - len(masses), len(masses))
        return k * channel.step, masses[np.abs(k)]
    points, weights = np.polynomial.legendre.leggauss(16)
    if isinstance(channel, pr.UniformNoise):
        return points * channel.width / 2, weights / 2
    laplace = isinstance(channel, pr.LaplaceNoise)
    scale = channel.scale if laplace else channel.sd
    if curved and not laplace:
        t, mass = trapezoids()
        return scale * t, mass
    if curved:
        edges = np.linspace(0, 40, 30)
        v = ((edges[1:] + edges[:-1])[:, None] + np.diff(edges)[:, None] * points).ravel() / 2
        mass = (np.diff(edges)[:, None] * weights).ravel() / 2
        mass *= np.exp(-v) / 2
        return scale * np.concatenate([-v, v]), np.concatenate([mass, mass])
    if laplace:
        v, mass = np.polynomial.laguerre.laggauss(60)
        return scale * np.concatenate([-v, v]), np.concatenate([mass, mass]) / 2
    v, mass = np.polynomial.hermite_e.hermegauss(40)
    return scale * v, mass / np.sqrt(2 * np.pi)


def trapezoids() -> tuple[np.ndarray, np.ndarray]:
    """The normal law by the trapezoidal rule, whose error vanishes faster than any power for what is smooth."""
    t = np.arange(-14, 15) * 0.6
    return t, 0.6 * np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi)


def joint_law(channel: pr.JointGaussianNoise) -> tuple[np.ndarray, np.ndarray]:
    t = trapezoids()[0]
    z = np.stack(np.meshgrid(*[t] * channel.dimension, indexing="ij"), axis=-1).reshape(-1, channel.dimension)
    mass = np.exp(-(z**2).sum(axis=1) / 2)
    return z @ np.linalg.cholesky(channel.covariance).T, mass / mass.sum()


def released(
    channels: dict[Any, Any], *, curved: bool = False, some: int = len(TRUE)
) -> tuple[pd.DataFrame, np.ndarray]:
    """Every value that so many true records can be released as, with its weight."""
    frame, weight = TRUE[:some].copy(), SHARE[:some]
    for name, channel in channels.items():
        if channel is BINARY:
            parts = [(frame.assign(**{name: i}), weight * BINARY.matrix[i, frame[name]]) for i in (0, 1)]
            frame, weight = pd.concat([p for p, _ in parts]), np.concatenate([w for _, w in parts])
            continue
        v, p = joint_law(channel) if isinstance(name, tuple) else law(channel, curved=curved)
        names, moves = (name, v.T) if isinstance(name, tuple) else ((name,), v[None])
        repeated = frame.iloc[np.repeat(np.arange(len(frame)), p.size)]
        moved = {c: repeated[c].to_numpy() + np.tile(m, len(frame)) for c, m in zip(names, moves, strict=True)}
        frame = repeated.assign(**moved)
        weight = np.repeat(weight, p.size) * np.tile(p, weight.size)
    return frame.reset_index(drop=True), weight


def equation_of(what: Any, frame: pd.DataFrame, mechanism: pr.Mechanism | None, **options: Any) -> Any:
    plan, table = question(what, **options), read(frame)
    schema = mechanism.schema if mechanism is not None else pr.Mechanism({"q": BINARY}).schema
    function = plan.prepare(table, schema)
    return Reversion().bind(function, mechanism, table, np.ones(table.n)).equation


def slope(equation: Any, beta: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return equation.score_and_slope(beta[None], weight[None])[1][0]


def averages_are_true(
    what: Any, channels: dict[Any, Any], beta: list[float], tolerance: float, some: int = len(TRUE), **options: Any
) -> None:
    true, share = equation_of(what, TRUE[:some], None, **options), SHARE[:some]
    frame, weight = released(channels, curved=options.get("family") not in (None, *LOG), some=some)
    reverted = equation_of(what, frame, pr.Mechanism(channels), **options)
    b = np.array(beta)
    expected = share @ true.influence(b), slope(true, b, share), true.clean_outer(b, share)
    found = weight @ reverted.influence(b), slope(reverted, b, weight), reverted.clean_outer(b, weight)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * np.abs(other).max())
    slopes = weight @ reverted.record_slopes_along(b, np.ones((1, b.size)), np.eye(b.size)[[1]])[0]
    np.testing.assert_allclose(
        slopes, expected[1][:, 1].sum(), rtol=tolerance, atol=tolerance * np.abs(expected[1]).max()
    )


@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize(
    ("formula", "beta"),
    [
        ("y ~ z + x", [0.2, 0.5, -0.3]),
        ("y ~ z * x", [0.2, 0.5, -0.3, 0.4]),
        ("y ~ z + I((z - 1) ** 2)", [0.2, 0.5, 0.1]),
    ],
)
def test_linear_models(name: str, formula: str, beta: list[float]) -> None:
    averages_are_true(formula, {"z": CHANNELS[name]}, beta, EXACT)


@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize("family", ["poisson", "gamma", "inverse-gaussian"])
def test_log_links(name: str, family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TRUE, "y", TRUE["y"] + 0.5)
    averages_are_true("y ~ z + z:x", {"z": CHANNELS[name]}, [0.3, 0.15, -0.1], EXACT, family=family)


@pytest.mark.parametrize("name", CHANNELS)
def test_the_logit(name: str) -> None:
    options: Any = {"family": "binomial"}
    tolerance = MIXTURE if "gaussian" in name else EXACT
    averages_are_true("y ~ z + x", {"z": CHANNELS[name]}, [0.2, 0.5, -0.3], tolerance, **options)
    averages_are_true("y ~ z * x", {"z": CHANNELS[name]}, [0.2, 0.4, -0.3, 0.1], tolerance, **options)


LONG = {
    "uniform": pr.UniformNoise(9.0),
    "uniform, short": pr.UniformNoise(0.2),
    "keep or noise": pr.KeepOrNoise(0.5, pr.GeometricNoise(3.0, step=0.01)),
    "keep or noise, coarse": pr.KeepOrNoise(0.7, pr.GeometricNoise(20.0, step=2.0)),
    "keep or laplace": pr.KeepOrNoise(0.5, pr.LaplaceNoise(6.0)),
    "keep or normal": pr.KeepOrNoise(0.51, pr.GaussianNoise(9.0)),
    "keep or normal, on a grid": pr.KeepOrNoise(0.6, pr.DiscreteGaussianNoise(9.0, step=0.5)),
    "keep or uniform": pr.KeepOrNoise(0.51, pr.UniformNoise(20.0)),
    "keep or uniform, now and then": pr.KeepOrNoise(0.95, pr.UniformNoise(0.3)),
}
"""On the scale of η up to 4: no power series helps, and nodes would be thousands."""


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("slope", [0.7, -0.4])
def test_long_noise_in_a_logit_is_undone_by_shifts(name: str, slope: float) -> None:
    """(w^p g)* = Σ_j binom(p, j) w^(p−j) (t^j g)* averages to z^p g, for g = H, H′ and H″ and p = 0, 1, 2, by summation over
    fine panels, from a table and point by point alike."""
    channel, z, c = LONG[name], 0.4, np.array([slope])
    values, mass = fine_law(channel)
    w, eta = z + values, 0.3 + slope * (z + values)
    table = channel.operator.shifted(logistic_derivatives, eta, c, 2, 1.0)
    some = slice(None, None, max(1, eta.size // 50))
    by_record = channel.operator.shifted(logistic_derivatives, eta[some], np.full(eta[some].size, slope), 2, 1.0)
    np.testing.assert_allclose(by_record, table[:, :, some], rtol=1e-9, atol=1e-9 * np.abs(table).max())
    true = np.array(logistic_derivatives(np.array([0.3 + slope * z]), 2))[:, 0]
    plain, first, second = table
    for power, found in enumerate((plain, w * plain + first, w**2 * plain + 2 * w * first + second)):
        scale = np.abs(found).max()
        np.testing.assert_allclose(found @ mass, z**power * true, rtol=0, atol=EXACT * max(1.0, scale))


def fine_law(channel: Any) -> tuple[np.ndarray, np.ndarray]:
    """Panels of 0.05, or all points of a grid."""
    if isinstance(channel, pr.KeepOrNoise):
        v, mass = fine_law(channel.inner)
        return np.append(v, 0.0), np.append((1 - channel.keep) * mass, channel.keep)
    if isinstance(channel, pr.GeometricNoise):
        k = np.arange(-int(45 * channel.scale / channel.step), int(45 * channel.scale / channel.step) + 1)
        return k * channel.step, (1 - channel.alpha) / (1 + channel.alpha) * channel.alpha ** np.abs(k)
    if isinstance(channel, pr.DiscreteGaussianNoise):
        return law(channel)
    if isinstance(channel, pr.GaussianNoise):
        t = np.arange(-9, 9, 0.01)
        return channel.sd * t, 0.01 * np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi)
    far = channel.width / 2 if isinstance(channel, pr.UniformNoise) else 45 * channel.scale
    points, weights = np.polynomial.legendre.leggauss(8)
    edges = np.linspace(-far, far, 2 * int(np.ceil(far / 0.2)) + 1)
    v = ((edges[1:] + edges[:-1])[:, None] + np.diff(edges)[:, None] * points).ravel() / 2
    mass = (np.diff(edges)[:, None] * weights).ravel() / 2
    if isinstance(channel, pr.UniformNoise):
        return v, mass / channel.width
    return v, mass * np.exp(-np.abs(v) / channel.scale) / (2 * channel.scale)


def test_uniform_noise_on_the_grid_of_its_draws() -> None:
    """All 32 769 values: N times the central difference over the grid in place of width times u′ would be right to the last bit, and
    the derivative is so to (h/width)²."""
    noise, z, slope = pr.UniformNoise(3.0), 0.4, 0.9
    v, mass = noise.values, noise.chances
    plain, first, _ = noise.operator.shifted(logistic_derivatives, 0.3 + slope * (z + v), np.array([slope]), 1, 1.0)
    true = np.array(logistic_derivatives(np.array([0.3 + slope * z]), 1))[:, 0]
    np.testing.assert_allclose(plain @ mass, true, rtol=0, atol=EXACT)
    np.testing.assert_allclose(((z + v) * plain + first) @ mass, z * true, rtol=0, atol=EXACT)
    n, width, h = v.size, noise.width, noise.grid
    k = np.arange(60)[:, None]
    eta = 0.3 + slope * (z + v)
    heights = [logistic_derivatives(eta - slope * ((k + 0.5) * width - side * h / 2), 0)[0] for side in (1, -1)]
    assert n * (heights[0] - heights[1]).sum(axis=0) @ mass == pytest.approx(true[0], abs=1e-12)


@pytest.mark.parametrize("name", ["uniform", "keep or noise", "keep or laplace", "keep or normal", "keep or uniform"])
def test_outcomes_are_treated_alike(name: str) -> None:
    """The equation of the other outcome is the same with the opposite sign."""
    frame = TRUE.assign(z=TRUE["z"] + 1, other=1 - TRUE["y"])
    mechanism, beta = pr.Mechanism({"z": CHANNELS[name]}), np.array([0.2, 0.9, -0.3])
    one, other = (equation_of(f"{y} ~ z + x", frame, mechanism, family="binomial") for y in ("y", "other"))
    np.testing.assert_allclose(one.influence(beta), -other.influence(-beta), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("uniform", "gaussian"),
        ("laplace", "uniform"),
        ("keep or laplace", "gaussian"),
        ("keep or noise", "uniform"),
        ("keep or normal", "gaussian"),
    ],
)
def test_shifts_beside_other_noise_in_a_logit(one: str, other: str) -> None:
    channels = {"z": CHANNELS[one], "h": CHANNELS[other]}
    averages_are_true("y ~ z + h", channels, [0.2, 0.4, -0.3], MIXTURE, family="binomial")


def test_noise_now_and_then_beside_uniform_noise_in_a_logit() -> None:
    """By a hundred nodes of the one, and shifts of the other."""
    channels = {"z": CHANNELS["keep or laplace"], "h": CHANNELS["uniform"]}
    frame, weight = released(channels, curved=True, some=FEW)
    known, share = ((frame, pr.Mechanism(channels)), (TRUE[:FEW], None)), SHARE[:FEW]
    found, true = (equation_of("y ~ z + h", data, mechanism, family="binomial") for data, mechanism in known)
    assert len(found.records.nodes) < 110
    b = np.array([0.2, 0.9, -0.3])
    pairs = [
        (weight @ found.influence(b), share @ true.influence(b)),
        (slope(found, b, weight), slope(true, b, share)),
        (found.clean_outer(b, weight), true.clean_outer(b, share)),
    ]
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=0, atol=EXACT)


def test_two_uniform_noises_in_a_logit_are_refused() -> None:
    channels = {"z": CHANNELS["uniform"], "x": CHANNELS["uniform"]}
    with pytest.raises(pr.MechanismError, match=r"UniformNoise is undone in polynomials.*of one such column"):
        equation_of("y ~ z + x", TRUE, pr.Mechanism(channels), family="binomial")


BY_NODES: dict[str, tuple[str, Any]] = {
    "logit, squared": ("y ~ z + I(z ** 2)", {"family": "binomial"}),
    "probit": ("y ~ z + x", {"family": "binomial", "link": "probit"}),
    "negative binomial": ("y ~ z + x", {"family": pr.negative_binomial(0.7)}),
}


@pytest.mark.parametrize(
    ("name", "case"),
    [
        *((name, case) for name in ("laplace", "geometric", "keep or noise", "keep or laplace") for case in BY_NODES),
        ("keep or normal", "logit, squared"),
        ("keep or discrete normal", "probit"),
        ("keep or uniform", "negative binomial"),
    ],
)
def test_by_nodes_where_there_is_no_closed_form(name: str, case: str) -> None:
    formula, options = BY_NODES[case]
    averages_are_true(formula, {"z": CHANNELS[name]}, [0.2, 0.5, -0.1], EXACT, FEW, **options)


PAIRS = [("laplace", "gaussian"), ("gaussian", "uniform"), ("geometric", "laplace"), ("gaussian", "gaussian")]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_two_noisy_columns(one: str, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    channels = {"z": CHANNELS[one], "x": CHANNELS[other]}
    averages_are_true("y ~ z + x", channels, [0.2, 0.4, -0.3], EXACT, FEW)
    monkeypatch.setitem(TRUE, "y", TRUE["y"] + 0.5)
    averages_are_true("y ~ z + x", channels, [0.2, 0.15, -0.1], EXACT, FEW, family="gamma")


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_two_noisy_columns_in_a_logit(name: str) -> None:
    channels = {"z": CHANNELS[name], "x": pr.GeometricNoise(alpha=0.001, step=0.1)}
    averages_are_true("y ~ z + x", channels, [0.2, 0.4, -0.3], MIXTURE, family="binomial")


@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_noise_and_a_transition_matrix_in_any_order(name: str, family: str) -> None:
    beta = [0.2, 0.15, -0.3, 0.1]
    averages_are_true("y ~ z * g", {"z": CHANNELS[name], "g": BINARY}, beta, EXACT, family=family)
    averages_are_true("y ~ z * g", {"g": BINARY, "z": CHANNELS[name]}, beta, EXACT, family=family)


@pytest.mark.parametrize(
    "name", ["laplace", "gaussian", "geometric", "discrete gaussian", "uniform", "keep or laplace"]
)
def test_a_noisy_covariate_and_a_perturbed_response_in_a_logit(name: str) -> None:
    tolerance = MIXTURE if "gaussian" in name else EXACT
    averages_are_true("g ~ z + x", {"z": CHANNELS[name], "g": BINARY}, [0.2, 0.5, -0.3], tolerance, family="binomial")


@pytest.mark.parametrize("name", CHANNELS)
def test_a_noisy_response(name: str) -> None:
    averages_are_true("z ~ x + g", {"z": CHANNELS[name]}, [0.2, 0.5, -0.3], EXACT)


@pytest.mark.parametrize("name", CHANNELS)
def test_noise_by_stratum(name: str) -> None:
    """The same noise in both strata is the noise without strata, and each stratum pays for its own."""
    other = {"laplace": pr.LaplaceNoise(0.2), "gaussian": pr.GaussianNoise(0.3), "uniform": pr.UniformNoise(1.0)}
    other |= {"geometric": pr.GeometricNoise(0.4), "discrete gaussian": pr.DiscreteGaussianNoise(2.0)}
    other |= {"keep or noise": pr.KeepOrNoise(0.7, pr.GeometricNoise(0.8))}
    other |= {"keep or laplace": pr.KeepOrNoise(0.7, pr.LaplaceNoise(0.8))}
    other |= {"keep or normal": pr.KeepOrNoise(0.8, pr.GaussianNoise(0.5))}
    other |= {"keep or discrete normal": pr.KeepOrNoise(0.8, pr.DiscreteGaussianNoise(2.0))}
    other |= {"keep or uniform": pr.KeepOrNoise(0.8, pr.UniformNoise(1.5))}
    other |= {"geometric on a fine grid": pr.GeometricNoise(0.3, step=0.5)}
    strata = pr.Mechanism({"z": pr.Stratified("h", {0: CHANNELS[name], 1: other[name]})})
    parts = [released({"z": channel}) for channel in (CHANNELS[name], other[name])]
    kept = [(f[f["h"] == h], w[f["h"] == h]) for h, (f, w) in enumerate(parts)]
    frame, weight = pd.concat([f for f, _ in kept]).reset_index(drop=True), np.concatenate([w for _, w in kept])
    beta, true = np.array([0.2, 0.3, -0.3]), equation_of("y ~ z + x", TRUE, None)
    reverted = equation_of("y ~ z + x", frame, strata)
    np.testing.assert_allclose(weight @ reverted.influence(beta), SHARE @ true.influence(beta), rtol=0, atol=EXACT)
    np.testing.assert_allclose(reverted.clean_outer(beta, weight), true.clean_outer(beta, SHARE), rtol=0, atol=EXACT)


@pytest.mark.parametrize("name", CHANNELS)
def test_moments_of_a_correlation(name: str) -> None:
    frame, weight = released({"z": CHANNELS[name]})
    found = pr.fit(pr.correlation("z", "x"), frame, pr.Mechanism({"z": CHANNELS[name]}), weights=weight)
    expected = pr.fit(pr.correlation("z", "x"), TRUE, None, weights=SHARE)
    assert found.estimate[0] == pytest.approx(expected.estimate[0], abs=EXACT)


@pytest.mark.parametrize("name", ["geometric", "keep or noise"])
def test_every_function_of_the_grid(name: str) -> None:
    """The second difference undoes geometric noise exactly, also in a step, which is what u″ would get wrong by h²/12."""
    frame, weight = released({"z": CHANNELS[name]})
    nodes = CHANNELS[name].revert(frame["z"].to_numpy(), {})
    for u in (lambda z: (z > 1).astype(float), np.sin, lambda z: np.abs(z) ** 3):
        star = nodes.reverted(lambda z, u=u: u(z)[:, None])[:, 0]
        assert weight @ star == pytest.approx(SHARE @ u(TRUE["z"].to_numpy()), abs=EXACT)


def test_clamped_noise_is_a_transition_matrix() -> None:
    noise = pr.GeometricNoise(0.8, bounds=(0, 4))
    v, p = law(noise)
    expected = np.array([[p[np.clip(z + v, 0, 4) == i].sum() for z in range(5)] for i in range(5)])
    np.testing.assert_allclose(noise.clamped().matrix, expected, rtol=0, atol=1e-14)
    assert noise.clamped().levels == (0, 1, 2, 3, 4)
    assert noise.clamped().kind == "numeric"


@pytest.mark.parametrize("t", [0.0, 0.4])
@pytest.mark.parametrize(
    ("family", "name"), [("gaussian", "gaussian"), ("poisson", "laplace"), ("binomial", "laplace")]
)
def test_a_softened_equation_lies_between_the_naive_and_the_reverted(family: str, name: str, t: float) -> None:
    frame = TRUE.assign(z=TRUE["z"] + 0.3)
    beta = np.array([0.2, 0.3, -0.3])
    full = equation_of("y ~ z + x", frame, pr.Mechanism({"z": CHANNELS[name]}), family=family)
    naive = equation_of("y ~ z + x", frame, None, family=family)
    for hook in (lambda e: slope(e, beta, SHARE), lambda e: e.clean_outer(beta, SHARE)):
        np.testing.assert_allclose(hook(full.softened(t)), (1 - t) * hook(naive) + t * hook(full), atol=1e-12)
    np.testing.assert_allclose(full.softened(0.0).influence(beta), naive.influence(beta), atol=1e-12)


@pytest.mark.parametrize("family", ["gaussian", "poisson", "binomial"])
def test_sums_over_blocks_add(family: str) -> None:
    """Also where each stratum has noise of its own, and other channels spread the records over nodes."""
    strata = pr.Stratified("h", {0: pr.GaussianNoise(0.3), 1: pr.GaussianNoise(0.6)})
    whole = equation_of("y ~ z * g + x", TRUE, pr.Mechanism({"z": strata, "g": BINARY}), family=family)
    beta = np.array([0.2, 0.3, -0.3, 0.1, 0.2])
    for cuts in ((slice(0, 3), slice(3, 7)), (slice(0, 7, 2), slice(1, 7, 2))):
        parts = [(whole.rows(rows), SHARE[rows]) for rows in cuts]
        for own, added in zip(
            whole.sums(beta, SHARE, SHARE**2), zip(*(e.sums(beta, w, w**2) for e, w in parts), strict=True), strict=True
        ):
            np.testing.assert_allclose(sum(added), own, rtol=1e-12, atol=1e-12)
    found = whole.sums(beta, SHARE, SHARE**2)
    slow = (
        SHARE @ whole.influence(beta),
        whole.slope(beta, SHARE),
        whole.outer(beta, SHARE**2),
        whole.clean_outer(beta, SHARE**2),
        np.sum((whole.influence(beta) * SHARE[:, None]) ** 4, axis=0),
    )
    for one, other in zip(found, slow, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    slopes = whole.record_slopes(beta)
    np.testing.assert_allclose(np.tensordot(SHARE, slopes, 1), found[1], rtol=1e-12, atol=1e-12)
    vectors, values = whole.slope_parts(beta)
    np.testing.assert_allclose(np.einsum("nq,nqi,nqj->nij", values, vectors, vectors), slopes, rtol=1e-10, atol=1e-12)
    left, right = np.arange(1.0, 6.0), np.array([0.3, -0.2, 0.5, 1.0, 0.1])
    np.testing.assert_allclose(
        whole.record_slopes_along(beta, left[None], right[None])[0], slopes @ right @ left, rtol=1e-12, atol=1e-12
    )
    np.testing.assert_allclose(slopes, central_slopes(whole.influence, beta), rtol=1e-6, atol=1e-6)
    at_two = whole.score_and_slope(np.stack([beta, 0 * beta]), np.stack([SHARE, SHARE]))
    np.testing.assert_allclose(at_two[0][0], found[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(at_two[1][0], found[1], rtol=1e-12, atol=1e-12)


JOINT = pr.JointGaussianNoise([[0.5, 0.3], [0.3, 0.4]])


@pytest.mark.parametrize(
    ("formula", "beta"),
    [
        ("y ~ z + x", [0.2, 0.5, -0.3]),
        ("y ~ x + z:h + x:h", [0.2, 0.5, -0.3, 0.4]),
        ("y ~ z * x", [0.2, 0.5, -0.3, 0.4]),
        ("y ~ z + I(z ** 2) + x", [0.2, 0.5, -0.3, 0.1]),
        ("y ~ x", [0.2, 0.5]),
        ("z ~ x + h", [0.2, 0.5, -0.3]),
        ("I(z ** 2) ~ x", [0.2, 0.5]),
        ("z ~ h", [0.2, 0.5]),
    ],
)
def test_noise_that_columns_share_in_linear_models(formula: str, beta: list[float]) -> None:
    """In covariates, in a covariate and the response, and in columns that nobody uses."""
    averages_are_true(formula, {("z", "x"): JOINT}, beta, EXACT)


@pytest.mark.parametrize("family", ["poisson", "gamma", "inverse-gaussian"])
def test_noise_that_columns_share_in_log_links(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TRUE, "y", TRUE["y"] + 0.5)
    averages_are_true(
        "y ~ z * g + x", {("z", "x"): JOINT, "g": BINARY}, [0.2, 0.15, 0.3, -0.1, 0.2], EXACT, family=family
    )


@pytest.mark.parametrize("formula", ["y ~ z + x", "y ~ z * h + x * g", "g ~ z + x", "y ~ x"])
def test_noise_that_columns_share_in_a_logit(formula: str) -> None:
    beta = [0.2, 0.5, -0.4] if "*" not in formula else [0.2, 0.5, 0.3, -0.4, 0.2, 0.2, 0.1]
    beta = beta[:2] if formula == "y ~ x" else beta
    averages_are_true(formula, {("z", "x"): JOINT, "g": BINARY}, beta, MIXTURE, family="binomial")


def test_noise_that_columns_share_beside_other_noise() -> None:
    channels = {"h": CHANNELS["uniform"], ("z", "x"): JOINT}
    averages_are_true("y ~ h + z + x", channels, [0.2, 0.15, -0.1, 0.2], EXACT)
    averages_are_true("y ~ h + z + x", channels, [0.2, 0.15, -0.1, 0.2], MIXTURE, family="binomial")


def test_moments_of_noise_that_columns_share() -> None:
    frame, weight = released({("z", "x"): JOINT})
    found = pr.fit(pr.correlation("z", "x"), frame, pr.Mechanism({("z", "x"): JOINT}), weights=weight)
    expected = pr.fit(pr.correlation("z", "x"), TRUE, None, weights=SHARE)
    assert found.estimate[0] == pytest.approx(expected.estimate[0], abs=EXACT)


def test_noise_without_a_correlation_is_the_columns_own() -> None:
    frame = TRUE.assign(z=TRUE["z"] + 0.3, x=TRUE["x"] - 0.2)
    beta = np.array([0.2, 0.3, -0.3])
    for family in ("gaussian", "poisson", "binomial"):
        joint = pr.Mechanism({("z", "x"): pr.JointGaussianNoise([[0.25, 0.0], [0.0, 0.16]])})
        apart = pr.Mechanism({"z": pr.GaussianNoise(0.5), "x": pr.GaussianNoise(0.4)})
        one, other = (equation_of("y ~ z + x", frame, m, family=family) for m in (joint, apart))
        for a, b in zip(one.sums(beta, SHARE, SHARE), other.sums(beta, SHARE, SHARE), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
