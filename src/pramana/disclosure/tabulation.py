"""The tables of a risk report."""

from __future__ import annotations

from collections.abc import Sequence

from pramana.disclosure.composition import Composition
from pramana.disclosure.keys import Linkage
from pramana.disclosure.posterior import ColumnRisk, LevelRisk
from pramana.disclosure.utility import AnalysisCost, TableChange, rows_of_analysis
from pramana.render import Sheet

SHOWN = 12
"""Released levels shown in a table; the others are in the JSON."""


def column_sheet(column: ColumnRisk) -> Sheet:
    """Posteriors by released level, the most telling ones where there are many."""
    levels = sorted(column.levels, key=lambda v: -v.posterior)[:SHOWN] if len(column.levels) > SHOWN else column.levels
    strata = any(v.stratum is not None for v in column.levels)
    head = ("stratum",) if strata else ()
    exposure = column.exposure
    facts = [("Epsilon", f"{column.epsilon:.4g}")]
    facts.append(("Posterior of the true value", f"{exposure.mean:.4f} on average over records and draws"))
    facts.append(
        (
            "Worst record",
            f"row {exposure.row} (and {exposure.alike - 1} alike): expected posterior of its true value {exposure.expected:.4f}, "
            f"at most {exposure.largest:.4f}",
        )
    )
    if column.realised is not None:
        facts.append(("Largest posterior of a true value in the released file", f"{column.realised:.4f}"))
    notes = [column.zeros] if column.zeros else []
    if len(levels) < len(column.levels):
        notes.append(f"the {SHOWN} largest of {len(column.levels)} posteriors are shown")
    return Sheet(
        (*head, "released", "share", "points to", "prior", "posterior", "odds times", "at most"),
        tuple(_level_row(v, strata) for v in levels),
        f"What a released value of {column.name} tells",
        tuple(facts),
        tuple(notes),
    )


def _level_row(level: LevelRisk, strata: bool) -> tuple[object, ...]:
    head = (str(level.stratum),) if strata else ()
    numbers = (level.prior, level.posterior, level.odds_factor, level.bound)
    return (*head, str(level.released), level.share, str(level.exposed), *numbers)


def linkage_sheet(link: Linkage) -> Sheet:
    """Re-identification before and after."""
    rows: list[tuple[object, ...]] = [
        ("before: exact matching on the true file", link.before_mean, link.before_largest, link.n * link.before_mean),
        ("after: exact matching on released keys", link.exact_mean, link.exact_largest, link.n * link.exact_mean),
        ("after: likelihood under P", link.after_mean, link.after_largest, link.n * link.after_mean),
        ("after: the same over released shares", link.ratio_mean, link.ratio_largest, link.n * link.ratio_mean),
    ]
    if link.realised is not None:
        done = link.realised
        rows.append(("after: in the released file", done.mean, done.largest, done.correct))
    sizes = ", ".join(f"{label}: {count}" for label, count in link.classes)
    facts = [
        ("Clear keys", ", ".join(link.clear) or "none"),
        ("Perturbed keys", ", ".join(link.perturbed) or "none"),
        ("Records by size of their class of true keys", sizes),
    ]
    if link.realised is not None:
        facts.append(("The same for released keys", ", ".join(f"{k}: {v}" for k, v in link.realised.classes)))
    notes = (
        f"worst record after the release: row {link.row}",
        f"{link.uniques} records are alone with their true keys; such a record keeps them and stays alone with probability "
        f"{link.survive_mean:.4f} on average, at most {link.survive_largest:.4f}",
        f"{link.released_uniques:.1f} records are expected to be alone with their released keys",
    )
    return Sheet(
        ("attacker", "mean", "largest", "correct links"), tuple(rows), "Re-identification", tuple(facts), notes
    )


def tables_sheet(tables: Sequence[TableChange]) -> Sheet:
    """How far tables of released values, taken as they stand, are from the true ones."""
    realised = any(t.realised_moved is not None for t in tables)
    head = ("table", "cells", "share moved", "chi-square")
    rows = [
        (" × ".join(t.columns), t.cells, t.moved, t.chi_square)
        + ((t.realised_moved, t.realised_chi_square) if realised else ())
        for t in tables
    ]
    note = "expected over the draws; tables as released, without reverting them"
    columns = (*head, "realised share", "realised chi-square") if realised else head
    return Sheet(columns, tuple(rows), "Change of tables", notes=(note,))


def analysis_sheet(analyses: Sequence[AnalysisCost]) -> Sheet:
    """What the analyses lose."""
    found = [row for cost in analyses for row in rows_of_analysis(cost)]
    rows = [(*list(row.values())[:-1], round(row["effective_n"])) for row in found]
    columns = ("analysis", "term", "clean s.e.", "expected s.e.", "variance times", "effective n")
    return Sheet(columns, tuple(rows), "Variance of analyses (reversion estimator, exact expectation)")


def composition_sheet(composition: Composition) -> Sheet:
    """Earlier releases of the same records."""
    rows = [(c.column, c.releases, c.draws, c.epsilon, c.total) for c in composition.columns]
    note = "keyed releases with the same key and matrix repeat one draw; every other release adds its epsilon"
    return Sheet(
        ("column", "earlier releases", "draws", "epsilon spent", "with this release"),
        tuple(rows),
        "Composition over releases",
        (
            ("Earlier releases of these records", str(composition.releases)),
            ("Epsilon of a record in all", f"{composition.total:.4g}"),
        ),
        (note,),
    )
