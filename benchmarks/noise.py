"""Time of regressions on numbers with noise, as multiples of the same model on the true numbers, in one run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

SIZES = (10_000, 100_000, 1_000_000)
BINARY = "perturbed covariate"


def clean_data(n: int, seed: int = 1) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    z, x, v, g = rng.normal(size=n), rng.normal(size=n), rng.normal(size=n), rng.integers(0, 2, n)
    eta = 0.2 + 0.5 * z - 0.4 * x + 0.2 * g
    y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    counts, spread = rng.poisson(np.exp(eta / 2)), eta + rng.normal(size=n)
    return {"z": z, "v": v, "x": x, "g": g, "y": y, "c": counts, "s": spread}


def cases() -> Mapping[str, tuple[str, str, dict[Any, Any], float | None]]:
    """What it is called, formula, family, noisy columns, and the limit of the ratio where one was set."""
    import pramana as pr

    laplace, normal = pr.LaplaceNoise(0.5), pr.GaussianNoise(0.6)
    joint = pr.JointGaussianNoise([[0.3, 0.1], [0.1, 0.3]])
    kept = pr.KeepOrNoise(0.6, pr.LaplaceNoise(0.8))
    return {
        "linear, Laplace": ("s ~ z + x", "gaussian", {"z": laplace}, 3),
        "Poisson, normal": ("c ~ z + x", "poisson", {"z": normal}, None),
        "logit, Laplace": ("y ~ z + x", "binomial", {"z": laplace}, 3),
        f"logit, Laplace, {BINARY}": ("y ~ z + x + g", "binomial", {"z": laplace}, 3),
        "logit, normal": ("y ~ z + x", "binomial", {"z": normal}, 6),
        "logit, normal, interaction": ("y ~ z * x", "binomial", {"z": normal}, 6),
        "logit, two columns share normal noise": ("y ~ z + v + x", "binomial", {("z", "v"): joint}, None),
        "logit, uniform": ("y ~ z + x", "binomial", {"z": pr.UniformNoise(2.0)}, None),
        "logit, kept or Laplace": ("y ~ z + x", "binomial", {"z": kept}, None),
    }


def measure(n: int) -> dict[str, tuple[float, float]]:
    """Least seconds of the processor with noise and without, taken in turns, whole fits with standard errors."""
    import pramana as pr

    data, binary = clean_data(n), {"g": pr.TransitionMatrix.binary(0.9, 0.9)}
    repeats = max(4, 200_000 // n)  # short fits are timed more often
    out = {}
    for name, (formula, family, noise, _) in cases().items():
        beside: dict[Any, Any] = binary if BINARY in name else {}
        mechanism, without = pr.Mechanism({**noise, **beside}), pr.Mechanism(beside) if beside else None
        released = mechanism.perturb(data)
        true = {**released, **{c: data[c] for c in mechanism.noisy}}
        ways = ((released, mechanism), (true, without))
        out[name] = in_turns([partial(pr.fit, formula, *way, family=family) for way in ways], repeats)
    return out


def in_turns(calls: list[Any], repeats: int) -> tuple[float, float]:
    """Least seconds of the processor of two calls, which take turns; the first turn does not count."""
    times = np.full((repeats + 1, len(calls)), np.inf)
    for turn in range(repeats + 1):
        for k, call in enumerate(calls):
            start = process_time()
            call()
            times[turn, k] = process_time() - start
    first, second = times[1:].min(axis=0).tolist()
    return first, second


def main() -> None:
    from benchmarks.machine import described

    limits = {name: limit for name, (*_, limit) in cases().items()}
    rows = [
        f"| {name} | {n} | {1e3 * noisy:.0f} | {1e3 * clean:.0f} | {noisy / clean:.1f} | {limits[name] or ''} |"
        for n in SIZES
        for name, (noisy, clean) in measure(n).items()
    ]
    head = [
        "| model and noise | records | with noise, ms | without, ms | ratio | limit |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    text = "\n".join(["Whole fits with standard errors, time of the processor.", "", *head, *rows])
    print(text)
    page = f"# Noise in covariates\n\nMade by `make bench`; ratios matter. {described()}\n\n{text}\n"
    (Path(__file__).parent / "NOISE.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
