"""`risk`: what an attacker gains from a release and what an analyst loses, on the custodian's side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pramana.analysis.question import questions, several
from pramana.analysis.task import bytes_of
from pramana.disclosure.collapsed_records import (
    CELL,
    Collapsed,
    Look,
    Margin,
    Published,
    TrueSource,
    counted_in_blocks,
    published_source,
    rearranged,
    source_in_blocks,
)
from pramana.disclosure.release.handling import Asked
from pramana.disclosure.release.ledger import Composition, compose
from pramana.disclosure.risk.noise import Guess
from pramana.disclosure.risk.posterior import ColumnRisk, LevelRisk, column_risks
from pramana.disclosure.risk.reidentification import Linkage, keys_through, linking_columns
from pramana.disclosure.risk.reidentification import link as links
from pramana.disclosure.true_records import (
    Counted,
    CountedBy,
    Missing,
    aligned,
    check_missing,
    given_mechanism,
    held_bytes,
    read_confidential,
    text_levels,
    told_of_release,
    touched,
    unreleased,
    used_columns,
)
from pramana.disclosure.utility.costs import (
    MARGIN_LIMIT,
    AnalysisCost,
    TableChange,
    Utility,
    columns_of,
    rows_of_analysis,
    table_changes,
    table_sides,
)
from pramana.disclosure.utility.expected_variance import FEWEST, analysis_columns, pilot_of
from pramana.disclosure.utility.summed_variance import summed_variance
from pramana.errors import DataError, PramanaError, confidential, listing
from pramana.estimating import Family
from pramana.estimating.function import Question
from pramana.frames import Table, read
from pramana.frames.cells import CELLS, LEVELS, ordered_among
from pramana.frames.folders import files_of, read_files
from pramana.frames.marks import refuse_undeclared
from pramana.frames.sources import Source
from pramana.mechanism import Mechanism
from pramana.numbers import count
from pramana.progress import Tell, silent
from pramana.render import Report, Sheet

SHOWN = 12
"""Released levels shown in a table; the others are in the JSON."""


def column_sheet(column: ColumnRisk) -> Sheet:
    """Posteriors by released level, the most telling ones where there are many."""
    levels = sorted(column.levels, key=lambda v: -v.posterior)[:SHOWN] if len(column.levels) > SHOWN else column.levels
    strata = any(v.stratum is not None for v in column.levels)
    head = ("stratum",) if strata else ()
    exposure = column.exposure
    given = f",{column.condition}, taken from the confidential data" if column.condition else ""
    facts = [("Epsilon", f"{column.epsilon:.4g}{given}"), *_missing_facts(column)]
    facts += [] if column.guess is None else _guess_facts(column.guess)
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


def _guess_facts(guess: Guess) -> list[tuple[str, str]]:
    off = f"off by {guess.after:.4g} (root mean square); by {guess.before:.4g} without the release"
    return [
        ("Noise", guess.law),
        *([("Guess and posteriors of records", f"from {', '.join(guess.seen)} together")] if guess.seen else []),
        ("Values that count as one", f"within {guess.step:.3g}"),
        ("Best guess at a true value", off),
    ]


def _missing_facts(column: ColumnRisk) -> Iterator[tuple[str, str]]:
    """Missing values pass the randomisation by."""
    if column.missing:
        yield "Missing", f"{column.missing} records, published as missing: the randomisation does not hide which"
    if column.bare:
        yield (
            "Published as they are",
            f"{column.bare} of these records have values of {column.name}, which are not perturbed",
        )


def _level_row(level: LevelRisk, strata: bool) -> tuple[object, ...]:
    head = (str(level.stratum),) if strata else ()
    numbers = (level.prior, level.posterior, level.odds_factor, level.bound)
    return (*head, str(level.released), level.share, str(level.exposed), *numbers)


def linkage_sheet(link: Linkage, unreleased: Sequence[str] = (), unit: str | None = None) -> Sheet:
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
    sizes = ", ".join(f"{label}: {count(records)}" for label, records in link.classes)
    facts = [
        ("Clear keys", ", ".join(link.clear) or "none"),
        ("Perturbed keys", ", ".join(link.perturbed) or "none"),
        ("Records by size of their class of true keys", sizes),
    ]
    if unreleased:
        facts.append(("Not in the released file, so of no use to an attacker", ", ".join(unreleased)))
    if link.realised is not None:
        facts.append(("The same for released keys", ", ".join(f"{k}: {count(v)}" for k, v in link.realised.classes)))
    shared = f"records of one {unit} share their draws; links are weighed a record at a time, as if each were drawn by itself"
    kept = (
        f"; such a record keeps them and stays alone with probability {link.survive_mean:.4f} on average, "
        f"at most {link.survive_largest:.4f}"
    )
    notes = (
        *([] if unit is None else [shared]),
        f"worst record after the release: row {link.row}",
        f"records alone with their true keys: {count(link.uniques)}{kept if link.uniques else ''}",
        f"expected to be alone with their released keys: {link.released_uniques:.1f}",
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
    notes = tuple(f"{a.label}: without {a.left_out} records that have missing values" for a in analyses if a.left_out)
    notes += tuple(
        f"{a.label}: {', '.join(a.sampled)} learned from a random sample of the records" for a in analyses if a.sampled
    )
    drawn = [a for a in analyses if a.variance.draws is not None]
    notes += tuple(f"{a.label}: averaged over {a.variance.draws} draws of its noise, right to about 1 %" for a in drawn)
    how = "expectation" if drawn else "exact expectation"
    return Sheet(columns, tuple(rows), f"Variance of analyses (reversion estimator, {how})", notes=notes)


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


@dataclass(frozen=True, repr=False)
class Risk(Report):
    """The report of `risk`. It names levels, and records by their row number; never a record's values.

    Attributes
    ----------
    n : records that were assessed: all of the file, unless those with missing values were left out.
    left_out : how many were left out.
    unreleased : keys that the released file does not have, or has with new identifiers, by which nobody can be matched.
    condition : what must be said after epsilon. unit : the column of those whose epsilon it is; None for a record's.
    """

    n: int
    epsilon: float
    columns: tuple[ColumnRisk, ...]
    linkage: Linkage | None
    utility: Utility
    composition: Composition | None
    left_out: int = 0
    unreleased: tuple[str, ...] = ()
    condition: str = ""
    unit: str | None = None

    def __getitem__(self, column: str) -> ColumnRisk:
        for one in self.columns:
            if column in (*one.columns, one.name):
                return one
        raise PramanaError(
            f"column {column!r} is not perturbed: the columns are {', '.join(c.name for c in self.columns)}"
        )

    def sheets(self) -> tuple[Sheet, ...]:
        found = [column_sheet(c) for c in self.columns]
        found[0] = _with_whole(found[0], self)
        if self.linkage is not None:
            found.append(linkage_sheet(self.linkage, self.unreleased, self.unit))
        if self.utility.tables:
            found.append(tables_sheet(self.utility.tables))
        if self.utility.analyses:
            found.append(analysis_sheet(self.utility.analyses))
        if self.composition is not None:
            found.append(composition_sheet(self.composition))
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        return {
            "records": self.n,
            "left_out": self.left_out,
            "unreleased": list(self.unreleased),
            "epsilon": self.epsilon,
            "columns": [_column_of(c) for c in self.columns],
            "linkage": None if self.linkage is None else asdict(self.linkage),
            "tables": [asdict(t) for t in self.utility.tables],
            "analyses": [row for a in self.utility.analyses for row in rows_of_analysis(a)],
            "composition": None
            if self.composition is None
            else {**asdict(self.composition), "total": self.composition.total},
        }

    def report(
        self, path: str | Path, *, figure: Any = None, without: str = "", command: str = "", force: bool = False
    ) -> Path:
        """Write one HTML file that needs no other: the tables, a `figure` (that of `frontier(...).plot()`, or why there is none), what they mean,
        and the `command` where one is given. It holds no record's values; it is the custodian's all the same."""
        from pramana.render.figures import drawn
        from pramana.render.pages import Drawing, Heading, Page
        from pramana.reporting import references, with_command, write_page

        page = Page("Risk and utility of a release")
        page.add(_FOR_WHOM, *self.sheets())
        page.add(*([Drawing(drawn(figure, ".png"), "Risk against utility", "")] if figure is not None else []))
        page.add(*([f"No picture: {without}"] if without else []))
        page.add(Heading("Methods"), _IN_WORDS, *references(_IN_WORDS))
        return write_page(with_command(page, command), path, force=force)


_FOR_WHOM = "For the custodian: shares of true levels and numbers of rows are not for publication. No value of any record is in this file."
_IN_WORDS = (
    "The release randomises the sensitive columns with known probabilities (Gouweleeuw et al., 1998). Epsilon is the largest logarithm of the ratio "
    "of a released value's probabilities under two true values of one record. The posterior of a true value is what an attacker holds after "
    "seeing the released one, with the shares of the file as prior. Re-identification counts correct links of an attacker who knows the true keys of everybody. The variance of "
    "analyses is that of the reversion estimator (Tian and Zhao), in expectation over the randomisation."
)


def _column_of(column: ColumnRisk) -> dict[str, Any]:
    """A guess at a number is said of numbers alone."""
    held = {**asdict(column), "zeros": column.zeros}
    return {key: value for key, value in held.items() if key != "guess" or value is not None}


def _with_whole(sheet: Sheet, risk: Risk) -> Sheet:
    epsilon = (
        f"Epsilon of all sensitive columns{'' if risk.unit is None else f' of a {risk.unit}'} given the rest",
        f"{risk.epsilon:.4g}{risk.condition}",
    )
    rest = f"; {risk.left_out} with missing values were left out, as if they were not released" if risk.left_out else ""
    whole = (("Records", f"{risk.n}{rest}"), epsilon)
    return replace(sheet, facts=(*whole, *sheet.facts))


@confidential
def risk(
    data: Any,
    mechanism: Mechanism | str | Path,
    *,
    keys: Sequence[str] | None = None,
    prior: Mapping[str, Any] | None = None,
    analyses: Sequence[Any] | Any = (),
    family: str | Family | None = None,
    weights: str | None = None,
    released: Any = None,
    link: str | Path | None = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    missing: Missing = "keep",
    memory: float | str | None = None,
    tell: Tell = silent,
) -> Risk:
    """Disclosure risk and utility of a mechanism on the custodian's true file.

    Parameters
    ----------
    data : the confidential file or frame; or files that stand for one: a folder, a pattern or a list.
    mechanism : a Mechanism, the path of its description, or that of a design file (TOML).
    keys : columns by which an attacker knows a person; perturbed ones are matched through P, those with noise not at all.
    prior : frequencies that an attacker is taken to know, by column; those of the file without them.
    analyses : formulas or estimating functions whose variance is to be weighed.
    family : of the formulas among them; gaussian without it (`glm(formula, family, link)` for one of its own).
    weights : column of sampling weights of the analyses.
    released : the released file, its rows in the order of the true one: adds what the draws made of it.
    link : the link file of a release that was shuffled or got new identifiers; its rows may then be in any order.
    ledger : the custodian's ledger of earlier releases; `dataset` is the records' name in it.
    missing : "keep" looks at all records as the release holds them: a missing value is published as such, so that it is known
        of a person like any other key, and links are counted among all records. "drop" looks at a release of the complete
        records alone, "error" refuses missing values.
    memory : bytes that the records may take, or a text such as "500 MB"; 1 GB by default. Files beyond that are read block by block and
        collapsed to distinct combinations of values; the answer is the same. Frames are in memory already.
    tell : called with how many of the links through the keys were weighed, and of how many: most of the work, done last.

    >>> import pramana as pr
    >>> P = pr.TransitionMatrix.randomized_response(["no", "yes"], keep=0.8)
    >>> report = pr.risk({"ill": ["no"] * 90 + ["yes"] * 10}, pr.Mechanism({"ill": P}))
    >>> [(level.released, level.exposed, round(level.posterior, 3)) for level in report["ill"].levels]
    [('no', 'no', 0.973), ('yes', 'no', 0.692)]
    """
    check_missing(missing)
    body = told_of_release(released)
    given = given_mechanism(mechanism, data, body)
    known = given.mechanism
    if link is not None and released is None:
        raise PramanaError("link belongs to released: give the released file, or leave out the link file")
    if body.get("shuffled") and link is None:
        raise PramanaError("the records of the released file were shuffled: give its link file too")
    _check_prior(prior, known)
    asked = _Asked(
        data,
        given,
        tuple(several(keys)),
        tuple(questions(analyses, family)),
        weights,
        prior or {},
        released,
        None if link is None else Path(link),
        body,
        missing,
        bytes_of(memory),
    )
    records = asked.read()
    columns = tuple(
        c for a in known.assignments for c in column_risks(a, records.needed(touched(a)), _given(prior, a.columns))
    )
    costs = tuple(map(records.cost, asked.plans))
    tables = tuple(table_changes(records.margins, known, records.clear))
    names = records.keys
    found = links(records.needed(linking_columns(known, names)), known, names, tell) if names else None
    return Risk(
        records.n,
        known.epsilon,
        columns,
        found,
        Utility(tables, costs),
        None if ledger is None else compose(ledger, known, data, dataset, released),
        records.left_out,
        tuple(k for k in asked.keys if k not in names),
        known.epsilon_condition,
        None if known.unit is None else known.unit.column,
    )


@dataclass(frozen=True)
class _Records:
    """The records that are assessed, in memory or collapsed.

    Attributes
    ----------
    keys : those that the release has. clear : columns that are tabulated with the perturbed ones.
    cost : from an analysis to what the randomisation costs it.
    """

    n: int
    left_out: int
    keys: tuple[str, ...]
    clear: tuple[str, ...]
    margins: CountedBy
    cost: Callable[[Question], AnalysisCost]

    def needed(self, columns: Sequence[str]) -> Counted:
        found = self.margins(columns)
        assert found is not None
        return found


@dataclass(frozen=True)
class _Asked:
    """What is to be assessed."""

    data: Any
    given: Asked
    keys: tuple[str, ...]
    plans: tuple[Question, ...]
    weights: str | None
    prior: Mapping[str, Any]
    released: Any
    link: Path | None
    body: Mapping[str, Any]
    missing: Missing
    memory: float

    @property
    def mechanism(self) -> Mechanism:
        return self.given.mechanism

    @property
    def columns(self) -> list[str]:
        """Whatever is looked at."""
        return [*self.keys, *(v for p in self.plans for v in p.variables), *several(self.weights)]

    def read(self) -> _Records:
        used = used_columns(self.columns, self.mechanism)
        source = source_in_blocks(self.data, text_levels(self.mechanism), len(used), self.memory)
        return self._held() if source is None else self._collapsed(source, used)

    def _matched(self, released: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Keys that a released file with these columns has, and clear columns that go with them."""
        hidden = unreleased([k for k in self.keys if k not in self.mechanism.columns], released, self.body)
        names = tuple(k for k in self.keys if k not in hidden)
        clear = dict.fromkeys([*names, *self.mechanism.context])
        return names, tuple(c for c in clear if c not in self.mechanism.columns)

    # In memory.

    def _held(self) -> _Records:
        known, text = self.mechanism, text_levels(self.mechanism)
        public = None
        if self.released is not None:
            files = files_of(self.released)
            wanted = {*known.columns, *known.file_columns, *self.keys}
            public = read_files(files, text, wanted) if files else read(self.released, text=text)
        names, clear = self._matched(self.keys if public is None else public.names)
        table, kept = read_confidential(self.data, self.given, self.columns, self.missing, memory=np.inf)
        shown = None if public is None else aligned(public, self.link, kept, table, known, clear)
        records = Counted.of(table, np.flatnonzero(kept), shown)

        def cost(plan: Question) -> AnalysisCost:
            pilot = pilot_of(plan, table, known, self.weights)
            return AnalysisCost(pilot.label, pilot.expected(known), table.n - pilot.n)

        return _Records(table.n, kept.size - table.n, names, clear, lambda _: records, cost)

    # In blocks.

    def _collapsed(self, source: Source, used: Sequence[str]) -> _Records:
        known, text = self.mechanism, text_levels(self.mechanism)
        source.require(used)
        levels = {v.name: v.levels or () for v in known.schema.variables.values()}
        refuse_undeclared(self.data, levels, self.given.missing)
        public = None if self.released is None else published_source(self.released, text)
        names, clear = self._matched(self.keys if public is None else public.names)
        if names:
            keys_through(known, names, used)
        shown = None
        if public is not None:
            wanted = tuple(dict.fromkeys([*known.columns, *clear]))
            public.require(wanted)
            public = public if self.link is None else rearranged(public, wanted, self.link, self.memory)
            shown = Published(public, wanted, clear, self.link is not None)
        look = Look(
            self.given,
            tuple(used),
            self.missing,
            int(self.memory / CELL),
            tuple(self._margins(names, clear, public is not None)),
            clear,
        )
        found = counted_in_blocks(source, look, shown, self.prior, self.memory)
        records = TrueSource(found.source, self.given, () if self.missing == "keep" else tuple(used))
        cost = partial(self._cost, records, found)
        return _Records(found.n, found.rows - found.n, names, clear, found.margins, cost)

    def _margins(self, names: Sequence[str], clear: Sequence[str], released: bool) -> Iterator[Margin]:
        """What is counted: each combination of columns once."""
        known = self.mechanism
        asked = [Margin(touched(a), f"the values of {listing(a.columns)}", released, a) for a in known.assignments]
        for sides in table_sides(known, clear):
            few = {side: MARGIN_LIMIT for side in sides if isinstance(side, str)}
            columns = columns_of(sides)
            asked.append(Margin(columns, f"the columns {listing(columns)} of a table", released, values=few))
        if names:
            asked.append(Margin(linking_columns(known, names), f"the keys {listing(names)}", released))
        for plan in self.plans:
            columns = analysis_columns(plan, known, self.weights)
            asked.append(Margin(columns, plan.label, values=dict.fromkeys(columns, LEVELS), cells=CELLS))
        found: dict[tuple[str, ...], Margin] = {}
        for margin in asked:
            found.setdefault(margin.columns, margin)
        yield from found.values()

    def _cost(self, source: Source, found: Collapsed, plan: Question) -> AnalysisCost:
        """Of an analysis: from its cells where these are few, else from sums over blocks, or in memory where it draws noise."""
        known = self.mechanism
        columns = analysis_columns(plan, known, self.weights)
        cells = found.margins(columns)
        if any(a.numeric for a in known.used_by(plan.variables)):
            held = _held_columns(source, columns, found.n, plan.label, self.memory)
            pilot = pilot_of(plan, held, known, self.weights)
        elif cells is not None and not ordered_among(source.schema, columns):
            pilot = pilot_of(plan, cells.table, known, self.weights, cells.counts)
        else:
            summed = summed_variance(plan, source, known, self.weights)
            left = found.n - summed.variance.n
            return AnalysisCost(plan.label, summed.variance, left, summed.sampled)
        return AnalysisCost(pilot.label, pilot.expected(known), found.n - pilot.n)


def _held_columns(source: Source, columns: Sequence[str], n: int, label: str, memory: float) -> Table:
    """Records of an analysis that draws noise, each of them several times."""
    needed = held_bytes(n, len(columns)) * FEWEST
    if needed > memory:
        raise DataError(
            f"the analysis {label!r} uses numbers with noise, for which each of {n} records is drawn {FEWEST} times in memory, about "
            f"{needed / 1e9:.2g} GB: raise memory= (now {memory / 1e9:g} GB), or take a random part of the file as the pilot"
        )
    schema = pa.schema([source.schema.field(name) for name in columns])
    return source.table(pa.Table.from_batches(source.batches(columns), schema))


def _given(prior: Mapping[str, Any] | None, columns: tuple[str, ...]) -> Any:
    if prior is None:
        return None
    return prior.get(columns[0] if len(columns) == 1 else " × ".join(columns))


def _check_prior(prior: Mapping[str, Any] | None, mechanism: Mechanism) -> None:
    known = [" × ".join(a.columns) for a in mechanism.assignments]
    wrong = [name for name in prior or {} if name not in known]
    if wrong:
        raise PramanaError(
            f"prior names {wrong[0]!r}, which is not perturbed: the perturbed columns are {', '.join(known)}"
        )
