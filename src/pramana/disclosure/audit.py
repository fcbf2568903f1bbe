"""Audit of a released file: does it match its description, and does anything in it give the secrets away?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pramana.disclosure.blocks import context_columns, open_reader, require
from pramana.disclosure.findings import Audit, Finding
from pramana.errors import DataError, MechanismError
from pramana.mechanism import Mechanism
from pramana.mechanism.document import PramModel, from_document, parsed

EPSILON_LIMIT = 10.0
CONDITION_LIMIT = 100.0


def audit(
    path: str | Path,
    *,
    original: str | Path | None = None,
    ledger: str | Path | None = None,
    epsilon_limit: float = EPSILON_LIMIT,
    condition_limit: float = CONDITION_LIMIT,
) -> Audit:
    """Check a released file against its description; on the custodian's side, against the original and the ledger too.

    Parameters
    ----------
    path : the released CSV or Parquet file, with its datapackage.json beside it.
    original : the confidential file, for a test of the transitions and a search for columns that give secrets away.
    ledger : the custodian's file of releases, for a second independent draw of the same records.
    epsilon_limit, condition_limit : a record's epsilon and a matrix's condition number above them are warned of.
    """
    from pramana.disclosure import audit_description, audit_frequencies

    path = Path(path)
    reader = open_reader(path)
    given = audit_description.descriptions(path)
    findings = audit_description.check_presence(given) + audit_description.check_secrets(given)
    mechanism, body = _mechanism(given, path, findings)
    if mechanism is None or body is None:
        return Audit(path.name, tuple(findings))
    findings += audit_description.check_file(path, body, given)
    findings += audit_description.check_schema(reader, given, mechanism)
    findings += audit_description.check_strength(mechanism, body, epsilon_limit, condition_limit)
    if ledger is not None:
        findings += audit_description.check_ledger(Path(ledger), path, mechanism)
    try:
        require(reader, [*mechanism.columns, *context_columns(mechanism)], "the description")
    except DataError as error:
        return Audit(path.name, (*findings, Finding("columns", "error", str(error))))
    findings += audit_frequencies.check_contents(path, mechanism, body)
    if original is not None and not any(f.check == "levels" and f.severity == "error" for f in findings):
        findings += _against_original(path, Path(original), mechanism)
    return Audit(path.name, tuple(findings))


def _mechanism(given: Any, path: Path, findings: list[Finding]) -> tuple[Mechanism | None, PramModel | None]:
    document = given.document
    if document is None:
        return None, None
    try:
        return from_document(document, path.name), parsed(document, path.name)
    except MechanismError as error:
        findings.append(Finding("description", "error", str(error)))
        return None, None


def _against_original(path: Path, original: Path, mechanism: Mechanism) -> list[Finding]:
    from pramana.disclosure.audit_giveaways import check_giveaways
    from pramana.disclosure.audit_transitions import check_transitions

    reader = open_reader(original)
    require(reader, [*mechanism.columns, *context_columns(mechanism)], "the description")
    return check_transitions(path, original, mechanism) + check_giveaways(original, mechanism)
