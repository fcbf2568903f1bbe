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


def run(out: Folder, style: str) -> Iterator[str]:
    """Perturb, compare, write; yields the lines to print."""
    from pramana.estimators import Method, ModelDependent
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


def _write(out: Folder, comparison: Any, mechanism: Any, released: Any) -> list[Path]:
    from pramana.mechanism.description.document import save
    from pramana.render.figures import drawn

    table, figure, description, data = FILES
    plot = comparison.plot(title="GSS wages 2006: effect on standardised income")
    files = [out.text(table, comparison.summary("markdown") + "\n"), out.bytes(figure, drawn(plot, ".png"))]
    save(mechanism, out.path / description, force=out.force)
    return [*files, out.path / description, out.text(data, released.to_csv(index=False, lineterminator="\n"))]
