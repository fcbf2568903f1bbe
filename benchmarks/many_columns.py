"""Linear regression on eight perturbed covariates of five levels each, beside the plain least-squares fit of clean data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.api as sm
from formulaic import model_matrix

import pramana as pr
from benchmarks.resampling import best

LEVELS = list("abcde")
NAMES = [f"v{k}" for k in range(8)]


def measure(n: int = 100_000) -> str:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({k: rng.choice(LEVELS, n) for k in NAMES} | {"x": rng.normal(size=n)})
    frame["y"] = frame["x"] + sum(0.5 * (frame[k] == "c") for k in NAMES) + rng.normal(size=n)
    mechanism = pr.Mechanism({k: pr.TransitionMatrix.randomized_response(LEVELS, 0.85) for k in NAMES})
    formula = "y ~ x + " + " + ".join(NAMES)
    design = np.asarray(model_matrix(formula.split("~")[1], frame), dtype=float)
    ours = best(lambda: pr.fit(formula, frame, mechanism), 3)
    plain = best(lambda: sm.OLS(frame["y"].to_numpy(), design).fit().bse, 3)
    return (
        f"Eight perturbed covariates of five levels (390 625 combinations), n = {n}, d = {design.shape[1]}: whole fit "
        f"{ours:.2f} s, statsmodels OLS of the clean design {plain:.2f} s, ratio {ours / plain:.1f} (limit 5)."
    )


def main() -> None:
    from benchmarks.machine import described

    text = measure()
    print(text)
    page = f"# Many perturbed covariates\n\nMade by `make bench`; ratios matter. {described()}\n\n{text}\n"
    (Path(__file__).parent / "MANY_COLUMNS.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
