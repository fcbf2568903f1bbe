"""The page that an agency puts beside the download."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pramana.arrays import Float, Int
from pramana.disclosure.release.streaming import Moments, Spread
from pramana.disclosure.utility.costs import share_inflation
from pramana.mechanism import Assignment, Mechanism, TransitionMatrix
from pramana.mechanism.channel import CONDITIONS
from pramana.mechanism.channels.additive_noise import GridNoise
from pramana.mechanism.channels.joint_noise import JointGaussianNoise
from pramana.mechanism.channels.matrix_forms import Banded, Mixture
from pramana.numbers import count
from pramana.render import Sheet
from pramana.render.figures import drawn, heat_map
from pramana.render.pages import Code, Drawing, Heading, Page
from pramana.render.tables import visible

LARGEST = 200
"""Levels above which a table of them helps nobody."""
TABLE = 20
"""Levels up to which a matrix is shown as a table; above, it is drawn."""
CELLS = 100
"""Most rows and columns of a drawn matrix."""

DELTA = 1e-6
"""Probability for which epsilon is stated where no epsilon holds for certain."""

_HOW = {
    "fresh": "The draws come from a cryptographic keystream whose key was never stored: nobody, the publisher included, can repeat them.",
    "keyed": "The draws are derived from a secret key and each record's identifier: a record keeps its draw when the file is released again.",
    "seeded (insecure)": "The draws come from a seed: this file is an example, and whoever knows the seed can undo it.",
}


def card_page(
    name: str,
    mechanism: Mechanism,
    body: Mapping[str, Any],
    counts: Sequence[Mapping[object, Any]],
    *,
    folder: bool = False,
) -> Page:
    """What was perturbed, how, what it costs, and how to analyse the file or the folder; from published facts and released counts alone.

    Of `body`, the `pram` object, the facts about the file as a whole are shown where they are stated: `missing`,
    `missing_level`, `dropped`, `shuffled`, `new_id`, `merged`, `unit` and `allowed`.
    """
    page = Page(f"About {name}")
    changes = list(_changes(body))
    page.add(
        f"Before publication {_done(mechanism)}, with probabilities that are known and "
        f"stated here. All other columns are as collected{', but for what is stated below' if changes else ''}. "
        f"Records: {count(body['rows'])}.",
        Heading("What was perturbed"),
        *_summary(mechanism),
        _HOW[str(body["randomness"])],
        *_promise(mechanism, body),
    )
    page.add(*(f"Limit: {text}" for text in body.get("limits") or ()))
    if changes:
        page.add(Heading("What else was done to the file"), *changes)
    page.add(Heading("Missing values"), *_missing(body))
    page.add(Heading("The probabilities"), *(block for a in mechanism.assignments for block in _matrices(a)))
    page.add(
        Heading("What it costs analysts"),
        f"The variance of an estimated {_estimated(mechanism)} is this many times what it would be without the randomisation; the effective sample "
        "size is the number of clean records that would tell as much"
        + (" (not stated where records share their draws)" if mechanism.unit is not None else "")
        + ". Other analyses pay other prices: the software reports them with every fit.",
        *(
            s
            for a, c in zip(mechanism.by_column.assignments, counts, strict=True)
            for s in _cost(a, c, mechanism.unit is None)
        ),
        Heading("How to analyse it"),
        _recipe(name, mechanism),
        f"{'Taking' if mechanism.noisy else 'Counting'} the released values as if they were true gives biased answers. The description of the randomisation is in "
        f"datapackage.json beside {'the files; the SHA-256 of the sorted list of theirs' if folder else 'the file; its SHA-256'} is {body['sha256']}.",
    )
    return page


def _done(mechanism: Mechanism) -> str:
    replaced = [c for c in mechanism.columns if c not in mechanism.noisy]
    told = [f"some values of {', '.join(replaced)} in this file were replaced at random"] if replaced else []
    told += [f"random numbers were added to {', '.join(mechanism.noisy)} in this file"] if mechanism.noisy else []
    return ", and ".join(told)


def _estimated(mechanism: Mechanism) -> str:
    kinds = {"mean" if a.numeric else "share" for a in mechanism.assignments}
    return " or ".join(sorted(kinds, reverse=True))


def _recipe(name: str, mechanism: Mechanism) -> Code:
    """Names as Python texts: JSON's are, and so are the escapes of what cannot be seen."""
    first = mechanism.columns[0]
    column, file = (visible(json.dumps(text, ensure_ascii=False)) for text in (first, name))
    what = "mean" if first in mechanism.noisy else "proportions"
    return Code(f'import pramana as pr\nresult = pr.fit(pr.{what}({column}), {file}, "auto")\nprint(result)')


def _promise(mechanism: Mechanism, body: Mapping[str, Any]) -> Iterator[str]:
    """What epsilon bounds, of whom, and given what."""
    of = "of a person" if body.get("unit") else "of a record"
    yield (
        f"Epsilon bounds what the released values {of} can tell about the true ones in {', '.join(mechanism.columns)}, to someone who "
        "knows everything else: the odds between any two true values change by a factor of at most e to the power of epsilon. It "
        "says nothing about what the other columns give away, nor about which values are missing."
    )
    yield from _of_noise(mechanism, of)
    matrices = [(_title(a, s), m) for a in mechanism.assignments if not a.numeric for s, m in a.matrices.items()]
    for title, matrix in (pair for pair in matrices if not np.isfinite(pair[1].epsilon)):
        yield (
            f"Epsilon is infinite for {title}: some released values rule out some true ones. Among the true values that a released one "
            f"leaves possible it is {matrix.form.epsilon_within:.4g}."
        )
    if mechanism.conditional:
        yield (
            f"Of {', '.join(mechanism.conditional)} something was taken from the confidential file itself{_from_the_file(mechanism)}: "
            "whoever reads the probabilities learns it, and epsilon holds given it."
        )


def _of_noise(mechanism: Mechanism, of: str) -> Iterator[str]:
    """What holds where noise has no epsilon."""
    unbounded = [c for a in mechanism.assignments for c in a.columns if a.numeric and np.isinf(a.channel.epsilon)]
    if not unbounded:
        return
    told = f"Epsilon is infinite for {', '.join(unbounded)}: the noise does not bound how much one released value can tell."
    rho, known = mechanism.rho, mechanism.epsilon_at(DELTA)
    if np.isfinite(rho):
        told += f" All columns {of} together have rho = {rho:.4g} of concentrated differential privacy"
        told += f", which is epsilon = {known:.4g} but for a probability of {DELTA:g}." if np.isfinite(known) else "."
    deltas = [f"{a.channel.delta:.3g} ({', '.join(a.columns)})" for a in mechanism.assignments if a.channel.delta > 0]
    told += f" Two true values are told apart with a probability of up to {', '.join(deltas)}." if deltas else ""
    yield told


def _from_the_file(mechanism: Mechanism) -> str:
    found = [CONDITIONS[w] for w in CONDITIONS if any(w in a.channel.given for a in mechanism.assignments)]
    return f" ({' and '.join(found)})"


def _changes(body: Mapping[str, Any]) -> Iterator[str]:
    """What was done to the file besides the randomisation, one sentence each."""
    dropped = body.get("dropped")
    if dropped:
        named = f" ({', '.join(map(str, dropped))})" if isinstance(dropped, list) else ""
        count = len(dropped) if isinstance(dropped, list) else int(dropped)
        yield f"Columns of the original that are not in this file: {count}{named}."
    if body.get("shuffled"):
        yield "The records are in a random order, which tells nothing about the order in which they were collected."
    if body.get("new_id"):
        yield f"The identifiers in column {body['new_id']} were drawn anew: they link to no other file."
    for column, how in (body.get("merged") or {}).items():
        which = f"{how['levels']} level(s)" if how.get("levels") else "Levels"
        into = "the nearest other level" if how.get("into") is None else how["into"]
        yield (
            f"{which} of {column} that fewer than {how['below']} people hold were merged into {into}; which levels are rare comes from "
            "the confidential file, and epsilon holds given that."
        )
    yield from _unit(body.get("unit"))
    if body.get("allowed"):
        yield f"The publisher allowed what the software refuses by default: {', '.join(map(str, body['allowed']))}."


def _unit(unit: Mapping[str, Any] | None) -> Iterator[str]:
    if not unit:
        return
    name = unit["column"]
    yield (
        f"Records with the same {name} belong together, and equal true values among them were released as one draw. Standard errors "
        f"must be clustered by {name}, which the software does by itself."
    )
    if unit.get("varies"):
        yield (
            f"True values differ within {name}: unequal released values then prove a change, so that no finite epsilon holds for a whole "
            "one of them. The stated epsilon, times the number of distinct true values, holds given the pattern of changes."
        )


def _missing(body: Mapping[str, Any]) -> Iterator[str | Sheet]:
    counts = body.get("missing")
    if counts:
        rows = tuple((column, int(count), int(count) / max(body["rows"], 1)) for column, count in counts.items())
        yield Sheet(("column", "missing values", "share of the records"), rows)
    for column, level in (body.get("missing_level") or {}).items():
        yield f"The level {level} of {column} stands for a missing value, and is perturbed like another."
    if counts and any(counts.values()):
        yield "Missing values are published as missing. Missingness is unprotected: the randomisation does not hide which values they are."
    else:
        yield "No value of the perturbed columns is published as missing."


def _summary(mechanism: Mechanism) -> Iterator[Sheet]:
    rows = []
    for assignment in (a for a in mechanism.assignments if not a.numeric):
        for stratum, matrix in assignment.matrices.items():
            keep = matrix.diagonal
            kept = f"{keep.min():.3g}" if np.ptp(keep) < 5e-4 else f"{keep.min():.3g} to {keep.max():.3g}"
            rows.append((_title(assignment, stratum), len(matrix), kept, matrix.epsilon, matrix.condition_number))
    whole = "record" if mechanism.unit is None else mechanism.unit.column
    total = (f"Epsilon of a whole {whole}", f"{mechanism.epsilon:.4g}{mechanism.epsilon_condition}")
    heads = ("column", "levels", "kept with probability", "epsilon", "condition number")
    noisy = tuple(_noise_row(_title(a, s), n) for a in mechanism.by_column.assignments for s, n in a.noises.items())
    if rows:
        yield Sheet(heads, tuple(rows), facts=(total,))
    if noisy:
        heads = ("column", "true values clamped to", "rounded to", "standard deviation of the noise", "epsilon")
        yield Sheet(heads, noisy, facts=() if rows else (total,))


def _noise_row(title: str, noise: GridNoise) -> tuple[object, ...]:
    clamped = "no bounds" if noise.bounds is None else f"{noise.bounds[0]:g} to {noise.bounds[1]:g}"
    return title, clamped, noise.drawn_on, float(noise.spread), noise.epsilon


def _matrices(assignment: Assignment) -> Iterator[str | Sheet | Drawing]:
    """Every matrix: its rule where it has one, then a table while it is small and a picture where it is wide. Noise in words."""
    if assignment.numeric:
        yield from _laws(assignment)
        return
    for stratum, matrix in assignment.matrices.items():
        title, rule = _title(assignment, stratum), _rule(matrix)
        if rule is not None:
            yield f"{title}: {rule}"
        if len(matrix) <= TABLE:
            head = ("true value", *(_label(level) for level in matrix.levels))
            rows = tuple((_label(v), *map(float, matrix.matrix[:, j])) for j, v in enumerate(matrix.levels))
            yield Sheet(head, rows, f"{title}: probability of each released value, by true value")
        else:
            yield _drawing(title, matrix)


def _laws(assignment: Assignment) -> Iterator[str | Sheet]:
    """What was added; a noise that columns share with its covariance."""
    after = "was added. Estimates are of the clamped and rounded values."
    for stratum, noise in assignment.noises.items():
        yield f"{_title(assignment, stratum)}: {noise.law} {after}"
    if isinstance(assignment.channel, JointGaussianNoise):
        yield f"{_title(assignment, None)}: normal noise that these columns share {after}"
        rows = [(name, *row) for name, row in zip(assignment.columns, assignment.channel.covariance, strict=True)]
        yield Sheet(("covariance", *assignment.columns), tuple(rows))


def _rule(matrix: TransitionMatrix) -> str | None:
    """In words how a value is released, for the forms that follow a rule."""
    form = matrix.form
    if isinstance(form, Mixture):
        if np.ptp(form.frequencies) < 1e-12:
            keep, count = float(matrix.diagonal[0]), len(matrix) - 1
            others = "the other one" if count == 1 else "any one of the others"
            return f"a value is kept with probability {keep:.4g}, and becomes {others} with probability {(1 - keep) / count:.4g}."
        return (
            f"a value stays with probability {1 - form.refill:.4g}; with probability {form.refill:.4g} one is drawn in its place, by fixed "
            "frequencies that are in the description."
        )
    width = form.width if isinstance(form, Banded) else _reach(form.matrix)
    if width >= len(matrix) - 1:
        return None
    steps = "1 step" if width == 1 else f"{width} steps"
    return f"a value moves at most {steps} along the order of its levels, from {_label(matrix.levels[0])} to {_label(matrix.levels[-1])}."


def _reach(matrix: Float) -> int:
    """The longest move that can happen."""
    released, true = np.nonzero(matrix)
    return int(np.abs(released - true).max())


def _drawing(title: str, matrix: TransitionMatrix) -> Drawing:
    """A matrix too wide for a table; beyond `CELLS` levels its cells are averages over neighbouring levels."""
    size = len(matrix)
    step = -(-size // CELLS)
    place = np.arange(size) // step
    cells = int(place[-1]) + 1
    shares = (place[:, None] == np.arange(cells)) / np.bincount(place)
    chances = np.zeros((cells, cells))
    np.add.at(chances, place, matrix.form.moved(shares))
    merged = f"; a cell stands for {step} neighbouring levels" if step > 1 else ""
    named = matrix.levels if step == 1 else (matrix.levels[0], matrix.levels[-1])
    keep = matrix.diagonal
    kept = f"{keep.min():.4g}" if np.ptp(keep) < 5e-5 else f"{keep.min():.4g} to {keep.max():.4g}"
    return Drawing(
        drawn(heat_map(chances, [_label(v) for v in named]), ".png"),
        f"{title}: probability of each released value (rows) by true value (columns){merged}",
        f"The matrix has {size} levels. A true value is kept with probability {kept}. All its numbers are in the description, "
        "datapackage.json.",
    )


def _cost(assignment: Assignment, counts: Mapping[object, Any], apart: bool) -> Iterator[str | Sheet]:
    if not isinstance(counts, Spread):
        yield from _costs(assignment, counts, apart)
        return
    rows = tuple(_noise_cost(_title(assignment, s), counts[s], counts.added[s], apart) for s in assignment.noises)
    heads = ("mean of", "released records", "variance times", *(["effective sample size"] if apart else []))
    yield Sheet(heads, rows)


def _noise_cost(title: str, found: Moments, added: Moments, apart: bool) -> tuple[object, ...]:
    """The variance of what stands for true values is the true one plus what the noise adds."""
    left = found.variance - added.mean
    factor = found.variance / left if left > 0 else np.inf
    return (title, found.count, float(factor), *([int(found.count / factor)] if apart else []))


def _costs(assignment: Assignment, counts: Mapping[object, Int], apart: bool) -> Iterator[str | Sheet]:
    """By level; `apart` says that every record has a draw of its own, so that records can be counted."""
    for stratum, matrix in assignment.matrices.items():
        if len(matrix) > LARGEST:
            yield f"{_title(assignment, stratum)}: not listed for its {len(matrix)} levels."
            continue
        known = counts.get(stratum, np.zeros(len(matrix), dtype=np.int64))
        inflation = share_inflation(matrix, known)
        rows = tuple(
            (_label(v), int(c), float(f), *([int(known.sum() / f)] if apart else []))
            for v, c, f in zip(matrix.levels, known, inflation, strict=True)
        )
        heads = ("level", "released records", "variance times", *(["effective sample size"] if apart else []))
        yield Sheet(heads, rows, _title(assignment, stratum))


def _label(level: object) -> str:
    return " × ".join(map(str, level)) if isinstance(level, tuple) else str(level)


def _title(assignment: Assignment, stratum: object) -> str:
    name = " × ".join(assignment.columns)
    return name if stratum is None else f"{name}, {assignment.channel.context[0]} {stratum}"
