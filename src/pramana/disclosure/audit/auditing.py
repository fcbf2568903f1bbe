"""Audit of a released file: does it match its description, and does anything in it give the secrets away?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pramana.errors import DataError, MechanismError, PramanaError, confidential, released
from pramana.frames.blocks.stream import open_reader, require
from pramana.frames.dialects import CsvFile, DataFile, data_file
from pramana.frames.folders import files_of, open_files
from pramana.frames.workers import Threads
from pramana.frames.writing import sha256, sha256_of
from pramana.mechanism import Mechanism
from pramana.mechanism.description.document import PramModel, from_document, parsed
from pramana.mechanism.description.reading import descriptions, listed_files
from pramana.render import Report, Sheet

Severity = Literal["error", "warning", "ok"]
_ORDER: dict[str, int] = {"error": 0, "warning": 1, "ok": 2}


@dataclass(frozen=True)
class Finding:
    """One check and how it ended."""

    check: str
    severity: Severity
    message: str


@dataclass(frozen=True, repr=False)
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
    path: str | Path | Sequence[str | Path],
    *,
    original: str | Path | CsvFile | Sequence[str | Path | CsvFile] | None = None,
    link: str | Path | None = None,
    ledger: str | Path | None = None,
    epsilon_limit: float = EPSILON_LIMIT,
    condition_limit: float = CONDITION_LIMIT,
) -> Audit:
    """Check a released file against its description; on the custodian's side, against the original and the ledger too.

    Parameters
    ----------
    path : the released CSV or Parquet file, with its datapackage.json beside it; or a folder, a pattern or a list of them, which are audited
        as one file.
    original : the confidential file, or the folder (pattern, list) whose files have the names of the released ones, for a test of the transitions and a search for what gives secrets away.
    link : the custodian's link file, where the release moved the rows.
    ledger : the custodian's file of releases, for a second independent draw of the same records.
    epsilon_limit, condition_limit : a record's epsilon and a matrix's condition number above them are warned of.
    """
    from pramana.disclosure.audit import description as audit_description
    from pramana.disclosure.audit.contents import check_contents

    if link is not None and original is None:
        raise PramanaError("a link file says which record of the original each released one is: give the original too")
    files = files_of(path)
    listed = files or (data_file(path),)  # type: ignore[arg-type]
    name = Path(path).name if isinstance(path, str | os.PathLike) else f"{len(listed)} files"
    folder = Path(path) if isinstance(path, str | os.PathLike) and Path(path).is_dir() else None
    parts = list(Threads().answers(lambda file: _described(Path(file), audit_description), listed))
    findings = _gathered(parts, named=bool(files)) + ([] if folder is None else _check_listed(folder))
    mechanism = parts[0].mechanism
    if mechanism is None or any(part.body is None for part in parts):
        return Audit(name, tuple(findings))
    if any(part.mechanism is None or part.mechanism.document() != mechanism.document() for part in parts):
        what = "the files were perturbed in different ways, as their descriptions say: audit them one by one"
        return Audit(name, (*findings, Finding("description", "error", what)))
    body = _together([part.body for part in parts if part.body is not None])
    findings += audit_description.check_strength(mechanism, body, epsilon_limit, condition_limit)
    findings += audit_description.check_epsilon(mechanism, body)
    if ledger is not None:
        digest = sha256_of(sha256(Path(file)) for file in listed)
        findings += audit_description.check_ledger(Path(ledger), digest, mechanism)
    needed = [*mechanism.columns, *mechanism.context, *([] if mechanism.unit is None else [mechanism.unit.column])]
    try:
        require(open_files(listed), needed, "the description")
    except DataError as error:
        return Audit(name, (*findings, Finding("columns", "error", str(error))))
    findings += check_contents(listed, mechanism, body)
    if original is not None and not any(f.check == "levels" and f.severity == "error" for f in findings):
        findings += _against_original(listed, original, mechanism, body, Path(link) if link else None)
    return Audit(name, (*findings, _promise(mechanism, searched=original is not None)))


@dataclass(frozen=True)
class _Part:
    """One of the files: what it is described as, and how it holds to that."""

    name: str
    mechanism: Mechanism | None
    body: PramModel | None
    findings: tuple[Finding, ...]


def _described(path: Path, checks: Any) -> _Part:
    """A file against its own description."""
    reader = open_reader(path)
    given = descriptions(path)
    findings = checks.check_presence(given) + checks.check_secrets(given)
    mechanism, body = _mechanism(given, path, findings)
    findings += checks.check_metadata(path, mechanism.columns if mechanism is not None else [])
    if mechanism is not None and body is not None:
        findings += checks.check_file(path, body, given)
        findings += checks.check_schema(reader, given, mechanism)
    return _Part(path.name, mechanism, body, tuple(findings))


def _gathered(parts: Sequence[_Part], *, named: bool) -> list[Finding]:
    """What was found of each file, by its name where there are several; what is in order in all of them is said once."""
    if not named:
        return list(parts[0].findings)
    wrong = [
        replace(f, message=f"{part.name}: {f.message}") for part in parts for f in part.findings if f.severity != "ok"
    ]
    good = {f.check: f for part in parts for f in part.findings if f.severity == "ok"}
    bad = {f.check for f in wrong}
    return wrong + [Finding(c, "ok", f"in order in {len(parts)} file(s)") for c in good if c not in bad]


def _check_listed(folder: Path) -> list[Finding]:
    """Every file that the description of a folder lists is there."""
    lost = [name for name in listed_files(folder) if not (folder / name).is_file()]
    problems = [Finding("files", "error", f"{name}: described, but not in the folder") for name in lost]
    return verdict("files", problems, "all files that are described are there")


def _together(bodies: Sequence[PramModel]) -> PramModel:
    """What the descriptions of the files of one release say of all records."""
    rows = [body.rows for body in bodies]
    whole = None if None in rows else sum(count for count in rows if count is not None)
    return bodies[0].model_copy(update={"rows": whole})


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
    files: Sequence[DataFile], original: Any, mechanism: Mechanism, body: PramModel, link: Path | None
) -> list[Finding]:
    """The true records beside the released ones; a file that cannot be compared is an error that stops the rest."""
    from pramana.disclosure.audit.contents import check_transitions, side_by_side
    from pramana.disclosure.audit.giveaways.released_file import check_giveaways
    from pramana.disclosure.release.link import read_link

    if body.shuffled and link is None:
        what = "the records were shuffled, so that they cannot be compared with the original row by row: give the link file"
        return [Finding("transitions", "error", what)]
    true = files_of(original) or (data_file(original),)
    if len(true) != len(files) or (len(true) > 1 and [f.name for f in true] != [f.name for f in files]):
        what = f"the release has {len(files)} file(s) and the original {len(true)}, or they have other names: give the folder it was made from"
        return [Finding("transitions", "error", what)]
    require(open_files(true), [*mechanism.columns, *mechanism.context], "the description")
    rows = None if link is None else read_link(link, sum(block.rows for block in open_files(files).blocks()))
    found = check_transitions(side_by_side(files, true, mechanism, body, rows), mechanism)
    if any(f.severity == "error" and "cannot be compared" in f.message for f in found):
        return found
    return found + check_giveaways(files, side_by_side(files, true, mechanism, body, rows), mechanism)
