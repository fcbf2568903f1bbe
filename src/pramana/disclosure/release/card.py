"""The page that an agency puts beside the download."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pramana.arrays import Int
from pramana.disclosure.utility.costs import share_inflation
from pramana.mechanism import Assignment, Mechanism, TransitionMatrix
from pramana.mechanism.channels.matrix_forms import Mixture
from pramana.render import Sheet
from pramana.render.pages import Code, Heading, Page

LARGEST = 200
"""Levels above which a table of them helps nobody."""

Counts = Mapping[object, Int]

_HOW = {
    "fresh": "The draws come from a cryptographic keystream whose key was never stored: nobody, the publisher included, can repeat them.",
    "keyed": "The draws are derived from a secret key and each record's identifier: a record keeps its draw when the file is released again.",
    "seeded (insecure)": "The draws come from a seed: this file is an example, and whoever knows the seed can undo it.",
}


def card_page(name: str, mechanism: Mechanism, body: Mapping[str, Any], counts: Sequence[Counts]) -> Page:
    """What was perturbed, how, what it costs, and how to analyse the file; from published facts and released counts alone."""
    page = Page(f"About {name}")
    columns = ", ".join(mechanism.columns)
    page.add(
        f"Before publication some values of {columns} in this file were replaced at random, with probabilities that are known and "
        f"stated here. All other columns are as collected. Records: {body['rows']}.",
        Heading("What was perturbed"),
        _summary(mechanism),
        _HOW[str(body["randomness"])],
    )
    page.add(*(f"Limit: {text}" for text in body.get("limits") or ()))
    page.add(Heading("The probabilities"), *(s for a in mechanism.assignments for s in _matrices(a)))
    page.add(
        Heading("What it costs analysts"),
        "The variance of an estimated share is this many times what it would be without the randomisation; the effective sample "
        "size is the number of clean records that would tell as much. Other analyses pay other prices: the software reports them "
        "with every fit.",
        *(s for a, c in zip(mechanism.assignments, counts, strict=True) for s in _costs(a, c)),
        Heading("How to analyse it"),
        _recipe(name, mechanism.columns[0]),
        "Counting the released values as if they were true gives biased answers. The description of the randomisation is in "
        f"datapackage.json beside the file; its SHA-256 is {body['sha256']}.",
    )
    return page


def _recipe(name: str, column: str) -> Code:
    return Code(f'import pramana as pr\nresult = pr.fit(pr.proportions("{column}"), "{name}", "auto")\nprint(result)')


def _summary(mechanism: Mechanism) -> Sheet:
    rows = []
    for assignment in mechanism.assignments:
        for stratum, matrix in assignment.matrices.items():
            keep = np.diag(matrix.matrix) if len(matrix) <= LARGEST else _mixture_keep(matrix)
            kept = f"{keep.min():.3g}" if np.ptp(keep) < 5e-4 else f"{keep.min():.3g} to {keep.max():.3g}"
            where = " × ".join(assignment.columns) + (
                f", {assignment.channel.context[0]} {stratum}" if stratum is not None else ""
            )
            rows.append((where, len(matrix), kept, matrix.epsilon, matrix.condition_number))
    total = ("Epsilon of a whole record", f"{mechanism.epsilon:.4g}{mechanism.epsilon_condition}")
    return Sheet(
        ("column", "levels", "kept with probability", "epsilon", "condition number"), tuple(rows), facts=(total,)
    )


def _mixture_keep(matrix: TransitionMatrix) -> Any:
    form = matrix.form
    return 1 - form.refill * (1 - form.frequencies) if isinstance(form, Mixture) else np.array([np.nan])


def _matrices(assignment: Assignment) -> Iterator[Sheet]:
    for stratum, matrix in assignment.matrices.items():
        if len(matrix) <= 20:
            head = ("true value", *(_label(level) for level in matrix.levels))
            rows = tuple((_label(v), *map(float, matrix.matrix[:, j])) for j, v in enumerate(matrix.levels))
            yield Sheet(head, rows, _title(assignment, stratum) + ": probability of each released value, by true value")


def _costs(assignment: Assignment, counts: Counts) -> Iterator[Sheet]:
    for stratum, matrix in assignment.matrices.items():
        if len(matrix) > LARGEST:
            continue
        known = counts.get(stratum, np.zeros(len(matrix), dtype=np.int64))
        inflation = share_inflation(matrix, known)
        rows = tuple(
            (_label(v), int(c), float(f), int(known.sum() / f))
            for v, c, f in zip(matrix.levels, known, inflation, strict=True)
        )
        yield Sheet(
            ("level", "released records", "variance times", "effective sample size"), rows, _title(assignment, stratum)
        )


def _label(level: object) -> str:
    return " × ".join(map(str, level)) if isinstance(level, tuple) else str(level)


def _title(assignment: Assignment, stratum: object) -> str:
    name = " × ".join(assignment.columns)
    return name if stratum is None else f"{name}, {assignment.channel.context[0]} {stratum}"
