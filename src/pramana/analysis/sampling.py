"""What is given beside the data, one value a record: weights, counts, clusters, designs; and which records are complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pramana.arrays import Bool, Column, Float, Int
from pramana.diagnostic import Diagnostic
from pramana.engines import Sampling, Stratification
from pramana.errors import DataError, PramanaError, quoted, suggestion
from pramana.frames import Table
from pramana.frames.table import is_missing
from pramana.inference import SurveyDesign
from pramana.inference.survey import stratified
from pramana.mechanism import Mechanism

ColumnLike = str | Sequence[Any] | Column | None

SECOND = "clusters (second)"
"""The second of two columns of clusters."""
LABELS = ("clusters", SECOND, "strata", "id")
"""What tells units apart."""
WHOLE = 2.0**53
"""From which on numbers with a decimal point do not tell neighbouring whole numbers apart."""


@dataclass(frozen=True)
class SamplingArguments:
    """How the records were sampled, as a user says it: names of columns, or arrays.

    Attributes
    ----------
    weights : sampling weights; `frequencies` are counts of equal records and are never merged with them.
    clusters : labels of records that depend on each other; a pair of column names for two-way clusters.
    design : a `SurveyDesign` in place of weights and clusters.
    id : the column by which records draw their weights in a resampling.
    """

    weights: ColumnLike = None
    frequencies: ColumnLike = None
    clusters: ColumnLike = None
    design: SurveyDesign | None = None
    id: str | None = None

    def arrays(self, table: Table, mechanism: Mechanism | None) -> dict[str, Column]:
        """The arrays (n,) by name."""
        given = {k: v for k, v in self._columns().items() if v is not None}
        return {name: _array(name, column, table, mechanism) for name, column in given.items()}

    def _columns(self) -> dict[str, ColumnLike]:
        """Columns of the design among the others; nothing may be said twice."""
        plain = {"weights": self.weights, "frequencies": self.frequencies, "clusters": self.clusters}
        if self.crossed_names:
            plain |= dict(zip(("clusters", SECOND), self.crossed_names, strict=True))
        design = self.design
        together = (
            "clusters" if self.clusters is not None else "frequencies" if self.frequencies is not None else "design"
        )
        if self.id is not None and (together != "design" or design is not None):
            raise PramanaError(
                f"Resampling(id={self.id!r}) draws for every record by itself, and {together}= draws for several: leave one out"
            )
        if design is None:
            return plain | {"id": self.id}
        if not isinstance(design, SurveyDesign):
            raise PramanaError(
                f"design={design!r} must be a SurveyDesign, such as SurveyDesign(weights='w', strata='region')"
            )
        for name in ("weights", "clusters"):
            if plain[name] is not None:
                raise PramanaError(f"{name}= and design= both speak of {name}: put them into SurveyDesign(...)")
        if self.frequencies is not None:
            raise PramanaError("frequencies= cannot go with design=: a sampled record stands for itself")
        own = {"weights": design.weights, "strata": design.strata, "clusters": design.clusters, "fpc": design.fpc}
        return own | {f"replicate_weights[{k}]": column for k, column in enumerate(design.replicate_weights)}

    def sampling(self, arrays: Mapping[str, Column], keep: Bool) -> Sampling:
        """The sampling of the records kept; units of a design are counted before records with gaps go, which were sampled too."""
        units, strata = self._units(arrays, keep)
        crossed = None
        if units is not None and SECOND in arrays:
            second = _cluster_codes(arrays[SECOND][keep])
            crossed = np.stack([units, second])  # type: ignore[list-item]
            units = np.unique(crossed, axis=1, return_inverse=True)[1].ravel()
        kept = {name: values[keep] for name, values in arrays.items()}
        replicates = [checked_weights(v, k) for k, v in kept.items() if k.startswith("replicate_weights")]
        return Sampling(
            int(keep.sum()),
            checked_weights(kept.get("weights"), "weights"),
            checked_weights(kept.get("frequencies"), "frequencies"),
            units,
            strata,
            np.stack(replicates) if replicates else None,  # type: ignore[arg-type]
            None if self.design is None else self.design.replicate_scale,
            keys=record_keys(kept.get("id"), self.id),
            crossed=crossed,
        )

    def _units(self, arrays: Mapping[str, Column], keep: Bool) -> tuple[Int | None, Stratification | None]:
        design = self.design
        if design is None or len(design.replicate_weights):
            clusters = arrays.get("clusters")
            return _cluster_codes(None if clusters is None else clusters[keep]), None
        own = {name: arrays[name] for name in ("strata", "clusters", "fpc") if name in arrays}
        known = ~np.logical_or.reduce([is_missing(v) for v in own.values()] + [np.zeros(len(keep), dtype=bool)])
        columns = {name: v[known] for name, v in own.items()}
        units, strata = stratified(
            columns.get("strata"), columns.get("clusters"), columns.get("fpc"), design.target, int(known.sum())
        )
        return units[keep[known]], strata

    @property
    def by_name(self) -> SamplingArguments:
        """Without what came as arrays, which a result does not keep."""
        named = {k: v for k, v in self._given().items() if k not in self.as_arrays}
        return SamplingArguments(**named)  # the id goes with the inference

    @property
    def as_arrays(self) -> tuple[str, ...]:
        """What came as arrays."""
        named = ("clusters",) if self.crossed_names else ()
        return tuple(k for k, v in self._given().items() if k not in named and not _holds_no_records(v))

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns that are named."""
        return tuple(c for c in self._columns().values() if isinstance(c, str))

    @property
    def crossed_names(self) -> tuple[str, ...]:
        """The two columns of two-way clusters; none elsewhere."""
        given = self.clusters
        if not isinstance(given, tuple | list) or not 1 < len(given) < 4 or not all(isinstance(c, str) for c in given):
            return ()
        if len(given) > 2 or given[0] == given[1]:
            raise PramanaError(
                f"clusters={given!r} must be one column or two different ones, as in clusters=('firm', 'year')"
            )
        return tuple(given)

    @property
    def clusters_name(self) -> str | None:
        """The column of the clusters, where they are one."""
        given = self.clusters if self.design is None else self.design.clusters
        return given if isinstance(given, str) else None

    def _given(self) -> dict[str, Any]:
        named = {
            "weights": self.weights,
            "frequencies": self.frequencies,
            "clusters": self.clusters,
            "design": self.design,
        }
        return {k: v for k, v in named.items() if v is not None}

    @property
    def names(self) -> tuple[str, ...]:
        """What was given."""
        return tuple(self._given())


def _holds_no_records(given: Any) -> bool:
    """A column name, or a design that is made of them."""
    if not isinstance(given, SurveyDesign):
        return isinstance(given, str)
    columns = (given.weights, given.strata, given.clusters, given.fpc, *given.replicate_weights)
    return all(column is None or isinstance(column, str) for column in columns)


def _array(name: str, given: ColumnLike, table: Table, mechanism: Mechanism | None) -> Column:
    if isinstance(given, str):
        if mechanism is not None and given in mechanism.columns:
            raise DataError(f"{name}={given!r} is a perturbed column: {name} must be unperturbed")
        return _telling(name, table.column(given))
    values = np.asarray(given)
    if values.shape != (table.n,):
        two = ", or for two-way clusters the names of two columns, as in clusters=('firm', 'year')"
        raise DataError(
            f"{name} have shape {values.shape} but the data have {table.n} records: give one value a record"
            f"{two if name == 'clusters' and 2 in values.shape else ''}"
        )
    return _telling(name, values)


def _telling(name: str, values: Column) -> Column:
    """Labels that tell units apart: long identifiers, read as numbers with a decimal point, are rounded, and several are one."""
    if name not in LABELS or values.dtype.kind != "f" or not np.any(rounded := np.abs(values) >= WHOLE):
        return values
    raise DataError(
        f"{name} hold {int(rounded.sum())} number(s) of 16 digits or more that are no whole numbers to the computer, and were rounded when they were "
        "read, so that several labels may have become one: store the column as text, or as 64-bit integers without gaps"
    )


def complete(
    table: Table, columns: Sequence[str], arrays: Mapping[str, Column], missing: str, counts: Int | None = None
) -> tuple[Bool, tuple[Diagnostic, ...]]:
    """Rows without gaps in anything that is used; `counts` are the records that each stands for."""
    gaps = {name: rows for name in columns if (rows := table.gaps(name)) is not None}
    gaps |= {name: rows for name, values in arrays.items() if (rows := is_missing(values)).any()}
    rows = np.logical_or.reduce([*gaps.values(), np.zeros(table.n, dtype=bool)])
    each = np.ones(table.n, dtype=np.int64) if counts is None else counts
    where = {name: int(each[v].sum()) for name, v in gaps.items()}
    return ~rows, gaps_in_words(int(each[rows].sum()), int(each.sum()), where, missing)


def gaps_in_words(count: int, n: int, where: Mapping[str, int], missing: str) -> tuple[Diagnostic, ...]:
    """What is said of `count` of n records with missing values, so many in each column; refused unless they are to be dropped."""
    if missing not in ("error", "drop"):
        raise PramanaError(f"missing={missing!r} is unknown: {suggestion(missing, ['error', 'drop'])}")
    if not count:
        return ()
    named = ", ".join(f"{name!r} ({found})" for name, found in where.items())
    if missing == "error":
        raise DataError(
            f"{count} of {n} records have missing values, in {named}: use missing='drop' to leave them out, "
            "or recode them as a level of their own"
        )
    if count == n:
        raise DataError(f"every one of the {n} records has a missing value, in {named}: nothing is left to fit")
    note = f"{count} of {n} records left out for missing values, in {named}"
    return (Diagnostic("missing-dropped", "info", note),)


def checked_weights(values: Column | None, name: str) -> Float | None:
    if values is None:
        return None
    try:
        numbers = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise DataError(
            f"{name} must be numbers, not {quoted(repr(values.tolist()[0]))}: give a numeric column or array"
        ) from None
    if not np.all(np.isfinite(numbers)):
        count = int(np.sum(~np.isfinite(numbers)))
        raise DataError(f"{name} hold {count} infinite or missing value(s): every one must be a finite number")
    if np.any(numbers < 0):
        raise DataError(
            f"{name} hold {int(np.sum(numbers < 0))} negative value(s), the smallest {quoted(f'{numbers.min():g}')}: the limit is 0"
        )
    if not np.any(numbers > 0):
        raise DataError(f"{name} are zero throughout: at least one must be positive")
    if not 1e-100 < numbers.max() < 1e100:
        raise DataError(
            f"the largest of the {name} is {quoted(f'{numbers.max():g}')}: rescale them to lie between 1e-100 and 1e+100"
        )
    broken = np.flatnonzero(numbers != np.round(numbers))
    if name == "frequencies" and broken.size:
        raise DataError(
            f"frequencies hold {broken.size} value(s) such as {quoted(f'{numbers[broken[0]]:g}')}; they are counts of equal records and must be whole numbers: use weights= for sampling weights"
        )
    return numbers


def record_keys(values: Column | None, name: str | None) -> Int | None:
    """Numbers by which records draw their weights: their identifiers, or hashes of these where they are text."""
    import pandas as pd

    if values is None:
        return None
    whole = values.dtype.kind in "iu"
    if not whole and not all(isinstance(v, str) for v in values):
        raise DataError(f"id={name!r} must hold whole numbers or text, which tell records apart")
    keys = np.asarray(values if whole else pd.util.hash_array(values)).astype(np.uint64).view(np.int64)
    refuse_twice(keys, name)
    return keys


def refuse_twice(keys: Int, name: str | None, more: str = "") -> None:
    """Refuse identifiers of which one occurs again; `more` goes before their number, where these are some of all."""
    import pandas as pd

    twice = int(pd.Series(keys).duplicated().sum())
    if twice:
        raise DataError(
            f"id={name!r} holds {more}{twice} value(s) a second time, and records of one value would share their draws: name a column that tells "
            "records apart, or clusters="
        )


def _cluster_codes(values: Column | None) -> Int | None:
    if values is None:
        return None
    import pandas as pd

    codes, labels = pd.factorize(values)
    if len(labels) < 2:
        raise DataError(f"clusters have {len(labels)} distinct value(s): a cluster-robust variance needs at least 2")
    return np.asarray(codes, dtype=np.int64)


def checked_start(start: Sequence[float] | None, d: int) -> Float | None:
    if start is None:
        return None
    try:
        values = np.asarray(start, dtype=float)
    except (TypeError, ValueError):
        raise PramanaError(f"start must hold {d} finite numbers, one a parameter, not {start!r}") from None
    if values.shape != (d,) or not np.all(np.isfinite(values)):
        raise PramanaError(f"start must hold {d} finite numbers, one a parameter; it has shape {values.shape}")
    return values
