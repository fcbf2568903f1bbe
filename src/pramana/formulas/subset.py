"""A subset: a condition on the records, in the language of formulas, such as `edu == 'Graduate' and age > 30`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pramana.arrays import Bool
from pramana.errors import FormulaError, listing, quoted
from pramana.estimating.records import broadcast
from pramana.formulas.evaluation import reason, value_of
from pramana.formulas.functions import Own
from pramana.formulas.language import TextReader
from pramana.formulas.tree import (
    COMPARISONS,
    Call,
    Items,
    Literal,
    Name,
    Node,
    Operation,
    learning,
    names,
    walk,
    written,
)
from pramana.frames import Schema


@dataclass(frozen=True)
class Subset:
    """Records for which every one of the conditions holds.

    >>> subset = Subset.read("edu == 'Graduate' and age > 30")
    >>> subset.text, subset.variables
    ("edu == 'Graduate' and age > 30", ('edu', 'age'))
    >>> clean, perturbed = subset.split({"edu"})
    >>> clean.text, perturbed.text
    ('age > 30', "edu == 'Graduate'")
    >>> subset.inside({"edu": "Graduate", "age": np.array([20, 40])}, 2)
    array([False,  True])
    """

    conditions: tuple[Node, ...]
    own: Own = ()

    @classmethod
    def read(cls, text: str, own: Own = ()) -> Subset:
        """Text is parsed against the grammar and never run."""
        reader = TextReader(text, "subset", own)
        node = reader.expression()
        reader.finish()
        if not names(node):
            reader.refuse(node, "it names no column, so that it says nothing of the records: leave it out")
        if learning(node):
            reader.refuse(
                node, f"{learning(node)[0]}() learns from all records and is no condition on one: compute it first"
            )
        return cls(tuple(_conjuncts(node)), own)

    @property
    def text(self) -> str:
        parts = [written(node) for node in self.conditions]
        return (
            parts[0]
            if len(parts) == 1
            else " and ".join(_bracketed(n, p) for n, p in zip(self.conditions, parts, strict=True))
        )

    @property
    def variables(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return tuple(dict.fromkeys(name for node in self.conditions for name in names(node)))

    def split(self, perturbed: Collection[str]) -> tuple[Subset | None, Subset | None]:
        """The conditions on clean columns alone, and the others; None where there are none."""
        hidden = set(perturbed)
        clean = tuple(node for node in self.conditions if not hidden.intersection(names(node)))
        rest = tuple(node for node in self.conditions if node not in clean)
        return (Subset(clean, self.own) if clean else None), (Subset(rest, self.own) if rest else None)

    def check(self, schema: Schema) -> None:
        """Values that are no levels of a perturbed column, and an order of words, are slips that would choose silently."""
        noisy = [name for name in self.variables if name in schema and schema[name].smooth_only]
        if noisy:
            raise FormulaError(
                f"subset {self.text!r} asks for {noisy[0]!r}, which holds noise: whether a record is inside cannot be undone; use a column "
                "without noise, or one with noise on a grid (GeometricNoise)"
            )
        for node in (part for condition in self.conditions for part in walk(condition)):
            for name, literals, ordered in _compared(node):
                text = [v for v in literals if isinstance(v, str)]
                if ordered and text:
                    raise FormulaError(
                        f"subset {written(node)!r}: the alphabet is no order of text: name the values, as in isin({name}, [...])"
                    )
                levels = schema[name].levels if name in schema else None
                strange = [] if levels is None or ordered else [v for v in literals if v not in levels]
                if strange and levels is not None:
                    raise FormulaError(
                        f"subset {written(node)!r}: {strange[0]!r} is no level of {name!r}; its levels are {listing(levels, 10)}"
                    )

    def inside(self, columns: Mapping[str, object], n: int) -> Bool:
        """Whether each record is in it (n,); a level stands for a whole column of itself."""
        import pandas as pd

        frame = {name: pd.Series(broadcast(columns[name], n)) for name in self.variables}
        return np.logical_and.reduce([self._holds(node, frame, n) for node in self.conditions])

    def _holds(self, node: Node, frame: Mapping[str, Any], n: int) -> Bool:
        try:
            with np.errstate(all="ignore"):
                found = np.asarray(value_of(node, frame, {}, self.own))
        except FormulaError:
            raise
        except Exception as error:
            raise FormulaError(f"subset {written(node)!r} could not be evaluated: {quoted(reason(error))}") from None
        if found.dtype.kind == "O" and all(isinstance(v, bool | np.bool_) for v in found.ravel()):
            found = found.astype(bool)
        if found.dtype.kind != "b" or found.shape != (n,):
            raise FormulaError(
                f"subset {written(node)!r} is no condition: it must be true or false for every record, as in x > 3"
            )
        return found


def _conjuncts(node: Node) -> Iterator[Node]:
    if isinstance(node, Operation) and len(node.operands) == 2 and node.mark in ("and", "&"):
        for part in node.operands:
            yield from _conjuncts(part)
    else:
        yield node


def _bracketed(node: Node, text: str) -> str:
    return f"({text})" if isinstance(node, Operation) and node.mark == "or" else text


def _compared(node: Node) -> Iterator[tuple[str, list[Any], bool]]:
    """Columns that are compared with values written out: name, values, and whether by their order."""
    if isinstance(node, Operation) and node.mark in COMPARISONS:
        for mark, pair in zip(node.marks, zip(node.operands, node.operands[1:], strict=False), strict=True):
            for column, value in (pair, pair[::-1]):
                if isinstance(column, Name) and isinstance(value, Literal):
                    yield column.name, [value.value], mark not in ("==", "!=")
    if isinstance(node, Call) and node.function.removeprefix("np.") == "isin" and isinstance(node.arguments[0], Name):
        listed = [
            item.value
            for part in node.parts[1:]
            if isinstance(part, Items)
            for item in part.items
            if isinstance(item, Literal)
        ]
        yield node.arguments[0].name, listed, False
