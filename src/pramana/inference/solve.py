"""From an equation to its root: Newton, the concave line search, continuation in the noise, or no derivative at all."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from pramana.arrays import Float
from pramana.engines import Engine, Weights
from pramana.errors import SolveError, quoted, quoted_terms
from pramana.inference.derivative_free import solve_steps
from pramana.inference.guided import guided
from pramana.kernels.newton import ROUNDING, SETTLED, TOLERANCE, Roots, newton_alone, norm_of, predicted, solve_one

LAST_DIGITS = 1e-12
"""Newton step, relative to the parameter, that rounding alone leaves: a root also where a part of the score is the same in every record, as that
of an effect that all have alike, and so has no standard deviation to be measured by."""
ENOUGH = 1.0
"""Standard deviations of a score below which a Newton step of a concave objective is safe once it shrinks the score tenfold."""
WIDTH = 1e-6
"""Of a difference of scores, relative to the parameter."""
FLAT = 1e-6
"""Share of its usual slope below which a score has not crossed zero but faded away; its square for one parameter alone."""


@dataclass(frozen=True)
class Root:
    """A parameter value at which the score vanishes, and the way it was found.

    `slope` is set where it had to be estimated (step functions), else None.
    """

    beta: Float
    norm: float
    steps: int
    path: str
    slope: Float | None = None


def solve(engine: Engine, weights: Weights | None = None, start: Float | None = None) -> Root:
    """The root of Σ w φ(β), or a SolveError that says what was tried.

    Parameters
    ----------
    weights : one draw; the sample's own weights by default.
    start : (d,); the equation's own starting value by default.
    """
    weights = engine.own if weights is None else weights
    direct = engine.direct(weights)
    if direct is not None:
        if not np.all(np.isfinite(direct[0])):
            raise SolveError(engine.refusal(weights))
        return Root(direct[0], 0.0, 0, "direct")
    near = _pilot_root(engine) if start is None and weights is engine.own else None
    if near is not None:
        sums = _Sums(engine, weights)
        with suppress(SolveError):  # some of the records may mislead, as where values come in turns
            return _guided(sums, near) or _searched(sums, near, usual=near)
    return _searched(_Sums(engine, weights), start)


@dataclass(frozen=True)
class _Sums:
    """Score (1, d) and slope (1, d, d) under one draw of weights: a pass over the records for each parameter value, and none for one known."""

    engine: Engine
    weights: Weights
    known: dict[bytes, tuple[Float, Float]] = field(default_factory=dict)

    def at(self, beta: Float) -> tuple[Float, Float]:
        key = beta.tobytes()
        if key not in self.known:
            self.known[key] = self.engine.score_and_slope(beta[None], self.weights)
        return self.known[key]


@dataclass(frozen=True)
class _Differences(_Sums):
    """The same with the slope taken from differences of the score, for an equation whose own slope is not all of it."""

    def at(self, beta: Float) -> tuple[Float, Float]:
        key = beta.tobytes()
        if key not in self.known:
            widths = WIDTH * (1 + np.abs(beta))
            ahead, behind = (
                np.stack([self._score(beta + shift) for shift in np.diag(way)]) for way in (widths, -widths)
            )
            slope = ((ahead - behind) / (2 * widths[:, None])).T
            self.known[key] = self._score(beta)[None], slope[None]
        return self.known[key]

    def _score(self, beta: Float) -> Float:
        return self.engine.score_and_slope(beta[None], self.weights)[0][0]


def _guided(sums: _Sums, near: Float) -> Root | None:
    """From the root of some of the records, which also tell how the score bends on the way; None where they do not lead to a root."""
    engine = sums.engine
    if not engine.about.smooth:
        return None
    _refuse_falling(engine, near)
    found = guided(sums.at, *engine.sketch(), near, score_scale(engine, near, sums.weights))
    if found is None or not _small(found.beta - near, near, 1.0):
        return None
    _refuse_flat(engine, found.beta, found.slope, sums.at(near)[1][0])
    return Root(found.beta, found.norm, found.steps, "concave" if engine.concave else "newton")


def _searched(sums: _Sums, start: Float | None, usual: Float | None = None) -> Root:
    """From a start; `usual` is a place that is known to lie among the records, where that is not the equation's own start."""
    engine, weights = sums.engine, sums.weights
    beta = _started(engine, weights, start)
    scale = score_scale(engine, beta, weights)
    if not engine.about.smooth:
        found = solve_steps(engine, weights, beta, scale)
        return Root(found.beta, found.norm, found.steps, "derivative-free", found.slope)
    if engine.concave:
        return _ascend(sums, beta, scale)
    roots = _newton(sums, beta, scale)
    if roots.converged[0]:
        usual = beta if start is None else _started(engine, weights, None) if usual is None else usual
        if engine.about.fades:
            _refuse_flat(engine, roots.beta[0], *(sums.at(b)[1][0] for b in (roots.beta[0], usual)))
        return Root(roots.beta[0], float(roots.norm[0]), int(roots.steps[0]), "newton")
    try:
        return _continue(engine, weights, beta, roots)
    except SolveError:
        root = _between_patches(sums, roots.beta[0]) if engine.about.patched else None
        if root is None:
            raise
        return root


def _between_patches(sums: _Sums, beta: Float) -> Root | None:
    """From where Newton ended: where one approximation gives way to the next the score may fall twice as fast as its slope says, and
    Newton then jumps from one side of the root to the other. None where there is no root."""
    engine, weights = sums.engine, sums.weights
    exact = _Differences(engine, weights)
    roots = _newton(exact, beta, score_scale(engine, beta, weights))
    if not roots.converged[0]:
        return None
    slope = exact.at(roots.beta[0])[1][0]
    if np.linalg.eigvalsh(slope + slope.T)[-1] >= 0:  # the score turns back towards zero at the end of its reach
        return None
    return Root(roots.beta[0], float(roots.norm[0]), int(roots.steps[0]), "newton")


def _pilot_root(engine: Engine) -> Float | None:
    """A root of some of the records to start from, where there are very many; None where there is none."""
    pilot = engine.pilot()
    if pilot is not None:
        with suppress(SolveError):
            return solve(pilot).beta
    return None


def _started(engine: Engine, weights: Weights, start: Float | None) -> Float:
    if start is None:
        return engine.start(weights, lambda easier, under: solve(easier, under).beta)
    beta = np.asarray(start, dtype=float)
    _refuse_falling(engine, beta)
    return beta


def _refuse_falling(engine: Engine, beta: Float) -> None:
    """There is no score where parameters that must rise do not."""
    rising, names = engine.about.rising, engine.about.parameters
    if rising is not None and np.any(np.diff(beta[rising]) <= 0):
        named = ", ".join(f"{p} = {b:.4g}" for p, b in zip(names[rising], beta[rising], strict=True))
        raise SolveError(f"the thresholds {quoted(named)} are out of order: give start= with thresholds that rise")


def _refuse_flat(engine: Engine, beta: Float, slope: Float, usual: Float) -> None:
    """A generalised linear score also vanishes at infinity, where its slope does beside the usual one: that is no root."""
    with np.errstate(all="ignore"):
        share = np.abs(np.diag(slope) / np.diag(usual))
    if engine.about.fades and (np.all(share < FLAT) or np.any(share < FLAT**2)):
        raise SolveError(_no_root(engine, beta))


def score_scale(engine: Engine, beta: Float, weights: Weights) -> Float:
    """Inverse standard deviation of each component of the score."""
    spread = engine.spread(beta, weights)
    floor = np.nanmax(spread, initial=0.0) * 1e-12
    return 1 / np.where(np.isfinite(spread) & (spread > floor), spread, 1.0)


def _newton(sums: _Sums, start: Float, scale: Float) -> Roots:
    """Newton, resumed where the score is small next to that of a far start, or fades towards infinity, but is no root."""
    steps = np.zeros(1, dtype=np.int64)
    for _ in range(5):
        roots = newton_alone(sums.at, start, scale)
        start, steps = roots.beta[0], steps + roots.steps
        if not roots.converged[0] and _settled(sums, start, LAST_DIGITS):
            return Roots(roots.beta, np.full(1, ROUNDING), steps)
        if not roots.converged[0] or _settled(sums, start):
            return Roots(roots.beta, roots.norm, steps)
        scale = score_scale(sums.engine, start, sums.weights)
    return Roots(roots.beta, np.full(1, np.inf), steps)


def _settled(sums: _Sums, beta: Float, share: float = SETTLED) -> bool:
    score, slope = sums.at(beta)
    return _small(solve_one(slope[0], score[0]), beta, share)


def _small(step: Float, beta: Float, share: float = SETTLED) -> bool:
    return bool(np.all(np.abs(step) <= share * (1 + np.abs(beta))))


def _ascend(sums: _Sums, beta: Float, scale: Float) -> Root:
    """Newton with a line search on the concave objective; certifies the absence of a root where there is none."""
    engine, weights = sums.engine, sums.weights
    score, slope = sums.at(beta)
    before = np.inf
    for step in range(200):
        norm = norm_of(score, scale)
        direction = -solve_one(slope[0], score[0])
        if norm <= TOLERANCE and _small(direction, beta):
            return Root(beta, norm, step, "concave")
        if _small(direction, beta, LAST_DIGITS):
            # Records that all say the same have scores of rounding there, which are no measure.
            return Root(beta, min(norm, ROUNDING), step, "concave")
        left = predicted(norm, before) if norm <= ENOUGH else np.inf
        if left <= 0.1 * TOLERANCE and _small(direction, beta):  # known to land
            return Root(beta + direction, left, step + 1, "concave")
        before = norm
        if np.all(np.isfinite(direction)):  # close to the root a whole step is good, and no objective need be asked
            there = sums.at(beta + direction)
            if norm_of(there[0], scale) <= min(0.1 * norm, ENOUGH):
                beta, (score, slope) = beta + direction, there
                continue
        for ray in (beta, direction):
            if np.all(np.isfinite(ray)) and engine.recedes(ray, weights):
                raise SolveError(_no_root(engine, ray))
        moved = _line_search(engine, weights, beta, direction, float(score[0] @ direction))
        if moved is None:
            if norm <= ROUNDING:
                return Root(beta, norm, step, "concave")
            break
        beta = moved
        score, slope = sums.at(beta)
    raise SolveError(_gave_up(engine, norm, step, "the concave line search"))


def _line_search(engine: Engine, weights: Weights, beta: Float, direction: Float, rise: float) -> Float | None:
    if not np.all(np.isfinite(direction)):
        return None
    here, size = engine.objective(beta[None], weights)[0], 1.0
    for _ in range(40):
        trial: Float = beta + size * direction
        there = engine.objective(trial[None], weights)[0]
        if (
            np.isfinite(there)
            and there >= here + 1e-4 * size * rise - 1e-14 * abs(here)
            and not np.array_equal(trial, beta)
        ):
            return trial
        size /= 2
    return None


def _continue(engine: Engine, weights: Weights, beta: Float, failed: Roots) -> Root:
    """Follow the root from the naive equation (t = 0) to the reverted one (t = 1)."""
    t, step, steps = 0.0, 0.25, int(failed.steps[0])
    here = _naive_root(engine, weights, beta, failed)
    while t < 1:
        target = min(1.0, t + step)
        softened = engine.softened(target) if target < 1 else engine
        roots = _newton(_Sums(softened, weights), here, score_scale(softened, here, weights))
        steps += int(roots.steps[0])
        if roots.converged[0]:
            t, here, step = target, roots.beta[0], 1.5 * step
        elif (step := step / 2) < 1 / 256:
            norm = float(failed.norm[0])
            raise SolveError(
                _gave_up(engine, norm, steps, f"Newton and a continuation that reached {t:.0%} of the noise")
            )
    return Root(here, float(roots.norm[0]), steps, "continuation")


def _naive_root(engine: Engine, weights: Weights, beta: Float, failed: Roots) -> Float:
    naive = engine.softened(0.0)
    scale = score_scale(naive, beta, weights)
    if naive.concave:
        return _ascend(_Sums(naive, weights), beta, scale).beta
    roots = _newton(_Sums(naive, weights), beta, scale)
    if not roots.converged[0]:
        raise SolveError(
            _gave_up(engine, float(failed.norm[0]), int(failed.steps[0]), "Newton, from the naive root too")
        )
    return roots.beta[0]


def _no_root(engine: Engine, direction: Float) -> str:
    share = np.abs(direction) / np.abs(direction).max()
    names = [p for p, s in zip(engine.about.parameters, share, strict=True) if s > 1e-3]
    return (
        f"no finite root exists: the fit improves for ever as {quoted_terms(names)} grow without bound (perfect separation, or "
        "too few records for this much noise). Drop or merge the terms involved, or use more data"
    )


def _gave_up(engine: Engine, norm: float, steps: int, how: str) -> str:
    left = f"is {norm:.2g} standard deviations from zero (limit {ROUNDING:.0e})"
    if not np.isfinite(norm):
        left = "fades away without crossing zero (perfect separation, or too few records for this much noise)"
    return (
        f"no root was found for {quoted_terms(engine.about.parameters)}: after {steps} steps of {how}, the score {left}. "
        f"{engine.about.reach}Try start=, fewer terms, merged levels or more data"
    )
