"""Time of a multinomial logit with a perturbed response against statsmodels' MNLogit on clean data, in one run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.resampling import best

RECORDS, CLASSES, TERMS = 100_000, 5, 6


def clean_data(seed: int = 1) -> pd.DataFrame:
    """A response with five classes and five standard normal covariates beside the intercept."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(RECORDS, TERMS - 1))
    eta = np.column_stack([np.zeros(RECORDS), x @ rng.normal(scale=0.5, size=(TERMS - 1, CLASSES - 1))])
    code = np.argmax(eta + rng.gumbel(size=eta.shape), axis=1)
    frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(TERMS - 1)])
    return frame.assign(y=np.array(list("abcde"))[code], code=code)


def measure(repeats: int = 3) -> dict[str, float]:
    """Seconds of both, whole fits with standard errors."""
    import statsmodels.api as sm

    import pramana as pr

    data = clean_data()
    mechanism = pr.Mechanism({"y": pr.TransitionMatrix.randomized_response(list("abcde"), keep=0.8)})
    released = mechanism.perturb(data)
    names = [f"x{j}" for j in range(TERMS - 1)]
    formula = "y ~ " + " + ".join(names)
    design = sm.add_constant(data[names].to_numpy())

    def ours() -> Any:
        return pr.fit(pr.multinomial(formula), released, mechanism)

    def theirs() -> Any:
        return sm.MNLogit(data["code"].to_numpy(), design).fit(disp=0).bse

    return {"pramana, perturbed response": best(ours, repeats), "statsmodels MNLogit, clean": best(theirs, repeats)}


def main() -> None:
    from benchmarks.machine import described

    seconds = measure()
    mine, theirs = seconds.values()
    lines = [f"Multinomial logit, n = {RECORDS}, K = {CLASSES}, d = {TERMS} a class:", ""]
    lines += [f"- {who}: {1e3 * value:.0f} ms" for who, value in seconds.items()]
    lines.append(f"- ratio: {mine / theirs:.2f} (limit 3)")
    text = "\n".join(lines)
    print(text)
    page = f"# Multinomial logit\n\nMade by `make bench`; ratios matter. {described()}\n\n{text}\n"
    (Path(__file__).parent / "MULTINOMIAL.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
