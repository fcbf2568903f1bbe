"""Maximum likelihood of a logistic regression with a perturbed response, ours and the rival's, in one run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import pramana as pr
from benchmarks.machine import described
from benchmarks.resampling import best
from benchmarks.rivals import statsmodels_em
from pramana.analysis.question import question
from pramana.analysis.task import Task
from pramana.estimators.likelihood.maximum import Likelihood, observed_likelihood, searched

HERE = Path(__file__).parent
N, KEEP, SEED = 1000, 0.85, 20240607
TOLERANCE = 1e-8
"""EM ends about ten times as far from the maximum as its last step is long; ours ends within 1e-9."""


def released() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(SEED)
    x = rng.normal(size=N)
    y = rng.random(N) < 1 / (1 + np.exp(0.5 - x))
    return {"x": x, "y": np.where(rng.random(N) < KEEP, y, ~y).astype(int)}


def measure() -> tuple[list[tuple[str, float]], int, float]:
    """Names with seconds, the rival's EM steps, and the largest distance between the two answers."""
    data, matrix = released(), pr.TransitionMatrix.binary(KEEP, KEEP)
    mechanism = pr.Mechanism({"y": matrix})
    task = Task.read(question("y ~ x", "binomial"), data, mechanism)
    model = observed_likelihood(Likelihood(), task)
    design = np.column_stack([np.ones(N), data["x"]])

    def rival() -> tuple[np.ndarray, int]:
        return statsmodels_em.solve(design, data["y"], matrix.matrix, tolerance=TOLERANCE)

    def whole() -> pr.Result:
        return pr.fit("y ~ x", data, mechanism, family="binomial", method="likelihood")

    beta, steps = rival()
    apart = float(np.max(np.abs(beta - whole().estimate)))
    times = [
        ("pramana, maximum and its information", best(lambda: searched(model, task), 10)),
        ("pramana, whole fit with its formula and table", best(whole, 10)),
        (f"{statsmodels_em.NAME}, coefficients alone", best(rival, 2)),
    ]
    return times, steps, apart


def main() -> None:
    times, steps, apart = measure()
    first, second, last = (seconds for _, seconds in times)
    rows = "\n".join(
        f"| {name} | {1e3 * seconds:.1f} | {seconds / first:.1f} | {seconds / second:.1f} |" for name, seconds in times
    )
    text = f"""# Maximum likelihood of a perturbed response

Made by `make bench`; ratios matter, not milliseconds. {described()}

Logistic regression, n = {N}, d = 2, sensitivity and specificity {KEEP}. The EM by hand stops when no coefficient moves by
more than {TOLERANCE:.0e} ({steps} steps); the answers differ by {apart:.0e}. The whole fit is {last / second:.0f} times faster than
it, the maximum alone {last / first:.0f} times.

| who | ms | times our maximum | times our whole fit |
| --- | ---: | ---: | ---: |
{rows}
"""
    (HERE / "LIKELIHOOD.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
