"""Random transition matrices, and the equations that fits are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import pramana as pr
from pramana.estimators import Reversion
from pramana.frames import Schema, read


def random_matrix(rng: np.random.Generator, size: int, stay: float = 0.5) -> np.ndarray:
    """Columns sum to 1; half of the mass on the diagonal keeps the condition number below about 10."""
    return stay * np.eye(size) + (1 - stay) * rng.dirichlet(np.ones(size), size).T


def random_channel(
    rng: np.random.Generator, levels: Sequence[Any], kind: Any = None, stay: float = 0.5
) -> pr.TransitionMatrix:
    return pr.TransitionMatrix.from_columns(levels, random_matrix(rng, len(levels), stay), kind=kind)


def bound(what: Any, columns: Mapping[str, Any], mechanism: pr.Mechanism | None) -> Any:
    """The equation that `fit` would solve."""
    table = read(dict(columns))
    function = what.prepare(table, mechanism.schema if mechanism is not None else Schema())
    return Reversion().bind(function, mechanism, table, np.ones(table.n)).equation
