"""Audit of a released file: does it match its description, and does anything in it give the secrets away?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pramana.disclosure.reports import Report
from pramana.errors import DataError, MechanismError, PramanaError, confidential, released
from pramana.frames.blocks.stream import open_reader, require
from pramana.frames.dialects import CsvFile, DataFile, data_file
from pramana.mechanism import Mechanism
from pramana.mechanism.description.document import PramModel, from_document, parsed
from pramana.mechanism.description.reading import descriptions
from pramana.render import Sheet

Severity = Literal["error", "warning", "ok"]
_ORDER: dict[str, int] = {"error": 0, "warning": 1, "ok": 2}


@dataclass(frozen=True)
class Finding:
    """One check and how it ended."""

    check: str
    severity: Severity
    message: str


@dataclass(frozen=True)
class Audit(Report):
    """All findings about a released file. `clean` when none is an error."""

    path: str
    findings: tuple[Finding, ...]

    @property
    def clean(self) -> bool:
        return not any(f.severity == "error" for f in self.findings)

    def of(self, severity: Severity) -> list[Finding]:
        return [f for f in self.findings if f.severity == severity]

    def to_dict(self) -> dict[str, Any]:
        return {"path": self.path, "clean": self.clean, "findings": [asdict(f) for f in self.findings]}

    def sheets(self) -> tuple[Sheet, ...]:
        """The findings, the worst first."""
        rows = sorted(((f.severity, f.check, f.message) for f in self.findings), key=lambda row: _ORDER[row[0]])
        counts = [f"{len(self.of(s))} {s}" for s in ("error", "warning", "ok") if self.of(s)]
        return (Sheet(("severity", "check", "finding"), tuple(rows), f"Audit of {self.path}: {', '.join(counts)}"),)


def verdict(check: str, problems: Sequence[Finding], good: str) -> list[Finding]:
    """The problems found, or one line that says what was in order."""
    return list(problems) or [Finding(check, "ok", good)]


EPSILON_LIMIT = 10.0
CONDITION_LIMIT = 100.0


@released
def audit(
    path: str | Path,
    *,
    original: str | Path | CsvFile | None = None,
    link: str | Path | None = None,
    ledger: str | Path | None = None,
    epsilon_limit: float = EPSILON_LIMIT,
    condition_limit: float = CONDITION_LIMIT,
) -> Audit:
    """Check a released file against its description; on the custodian's side, against the original and the ledger too.

    Parameters
    ----------
    path : the released CSV or Parquet file, with its datapackage.json beside it.
    original : the confidential file, for a test of the transitions and a search for what gives secrets away.
    link : the custodian's link file, where the release moved the rows.
    ledger : the custodian's file of releases, for a second independent draw of the same records.
    epsilon_limit, condition_limit : a record's epsilon and a matrix's condition number above them are warned of.
    """
    from pramana.disclosure.audit import description as audit_description
    from pramana.disclosure.audit.contents import check_contents

    path = Path(path)
    if link is not None and original is None:
        raise PramanaError("a link file says which record of the original each released one is: give the original too")
    reader = open_reader(path)
    given = descriptions(path)
    findings = audit_description.check_presence(given) + audit_description.check_secrets(given)
    mechanism, body = _mechanism(given, path, findings)
    findings += audit_description.check_metadata(path, mechanism.columns if mechanism is not None else [])
    if mechanism is None or body is None:
        return Audit(path.name, tuple(findings))
    findings += audit_description.check_file(path, body, given)
    findings += audit_description.check_schema(reader, given, mechanism)
    findings += audit_description.check_strength(mechanism, body, epsilon_limit, condition_limit)
    findings += audit_description.check_epsilon(mechanism, body)
    if ledger is not None:
        findings += audit_description.check_ledger(Path(ledger), path, mechanism)
    needed = [*mechanism.columns, *mechanism.context, *([] if mechanism.unit is None else [mechanism.unit.column])]
    try:
        require(reader, needed, "the description")
    except DataError as error:
        return Audit(path.name, (*findings, Finding("columns", "error", str(error))))
    findings += check_contents(path, mechanism, body)
    if original is not None and not any(f.check == "levels" and f.severity == "error" for f in findings):
        findings += _against_original(path, data_file(original), mechanism, body, Path(link) if link else None)
    return Audit(path.name, (*findings, _promise(mechanism, searched=original is not None)))


def _promise(mechanism: Mechanism, *, searched: bool) -> Finding:
    """What epsilon bounds, and what silence does not mean."""
    unit = "record" if mechanism.unit is None else mechanism.unit.column
    found = (
        "a search that finds nothing proves nothing" if searched else "nothing of it was searched without the original"
    )
    return Finding(
        "promise",
        "ok",
        f"epsilon bounds what the released values of {', '.join(mechanism.columns)} add to what is known of a {unit} anyway; it does not "
        "bound what clear columns, gaps, the order of the rows, identifiers or other rows of the same person tell: "
        f"{found}",
    )


def _mechanism(given: Any, path: Path, findings: list[Finding]) -> tuple[Mechanism | None, PramModel | None]:
    document = given.document
    if document is None:
        return None, None
    try:
        return from_document(document, path.name), parsed(document, path.name)
    except MechanismError as error:
        findings.append(Finding("description", "error", str(error)))
        return None, None


@confidential
def _against_original(
    path: Path, original: DataFile, mechanism: Mechanism, body: PramModel, link: Path | None
) -> list[Finding]:
    """The true records beside the released ones; a file that cannot be compared is an error that stops the rest."""
    from pramana.disclosure.audit.contents import check_transitions, side_by_side
    from pramana.disclosure.audit.giveaways.released_file import check_giveaways
    from pramana.disclosure.release.link import read_link

    if body.shuffled and link is None:
        what = "the records were shuffled, so that they cannot be compared with the original row by row: give the link file"
        return [Finding("transitions", "error", what)]
    reader = open_reader(original)
    require(reader, [*mechanism.columns, *mechanism.context], "the description")
    rows = None if link is None else read_link(link, sum(block.rows for block in open_reader(path).blocks()))
    found = check_transitions(side_by_side(path, original, mechanism, body, rows), mechanism)
    if any(f.severity == "error" and "cannot be compared" in f.message for f in found):
        return found
    return found + check_giveaways(path, side_by_side(path, original, mechanism, body, rows), mechanism)
