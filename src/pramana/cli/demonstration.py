"""The embedded example: GSS wages 2006 with education perturbed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pramana.frames.writing import Folder

SEED = 2006
KEEP = 0.85
FILES = ("table.md", "figure.png", "mechanism.json", "released.csv")


def run_demonstration(out: Folder, style: str) -> Iterator[tuple[str, bool]]:
    """Perturb, compare, write; yields what to print, and whether it is prose around the table."""
    from pramana.comparison import Comparison
    from pramana.estimators import ModelDependent
    from pramana.inference import Resampling
    from pramana.mechanism import Mechanism, TransitionMatrix
    from pramana.pipeline import compare
    from pramana.studies.application import FORMULA, wages

    out.check(*FILES)
    truth = wages()
    mechanism = Mechanism({"edu": TransitionMatrix.binary(sensitivity=KEEP, specificity=KEEP)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        released = mechanism.perturb(truth, seed=SEED)
    plain = compare(FORMULA, released, mechanism, ["reversion", "naive"], truth=truth)
    models = [ModelDependent(), ModelDependent(link="probit")]  # which have no sandwich
    resampled = compare(FORMULA, released, mechanism, models, inference=Resampling(seed=1))
    comparison = Comparison({**plain.results, **resampled.results})
    files = _write(out, comparison, mechanism, released)
    yield (
        f"GSS wages 2006, {len(truth)} full-time earners; edu kept with probability {KEEP} (demo seed {SEED}: not a secure release)",
        True,
    )
    yield comparison.summary(style), False
    share = comparison["reversion"].to_dict()["price_of_privacy"]
    shares = ", ".join(f"{row['term']} {row['privacy_share']:.0%}" for row in share)
    yield f"Share of each variance that the randomisation costs: {shares}", True
    yield f"wrote {', '.join(str(f) for f in files)}", True


def _write(out: Folder, comparison: Any, mechanism: Any, released: Any) -> list[Path]:
    from pramana.mechanism.description.document import save
    from pramana.render.figures import drawn

    table, figure, description, data = FILES
    plot = comparison.plot(title="GSS wages 2006: effect on standardised income")
    files = [out.text(table, comparison.summary("markdown") + "\n"), out.bytes(figure, drawn(plot, ".png"))]
    save(mechanism, out.path / description, force=out.force)
    return [*files, out.path / description, out.text(data, released.to_csv(index=False, lineterminator="\n"))]
