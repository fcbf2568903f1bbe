"""What the library does for the same work."""

from __future__ import annotations

import numpy as np

import pramana as pr
from benchmarks.cases import Case, Float
from pramana.engines import LocalEngine
from pramana.estimators import Reversion
from pramana.frames import read
from pramana.inference import Root, solve
from pramana.inference.resampling import resample


def engine_of(case: Case) -> tuple[LocalEngine, Root]:
    """The bound equation and its root, from which every rival starts too."""
    table = read(case.frame)
    function = pr.glm(case.formula, "binomial").prepare(table, case.mechanism.schema)
    engine = LocalEngine.of(Reversion().bind(function, case.mechanism, table, np.ones(case.n)).equation)
    return engine, solve(engine)


def draws(engine: LocalEngine, root: Root, count: int, seed: int, threads: int) -> Float:
    return resample(engine, root, pr.Resampling(draws=count, seed=seed, threads=threads)).values


def whole_fit(case: Case, count: int, seed: int, threads: int) -> pr.Result:
    options = pr.Resampling(draws=count, seed=seed, threads=threads)
    return pr.fit(case.formula, case.frame, case.mechanism, family="binomial", inference=options)
