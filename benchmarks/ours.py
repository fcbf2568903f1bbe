"""What the library does for the same work."""

from __future__ import annotations

import numpy as np

import pramana as pr
from benchmarks.cases import Case, Float
from pramana.analysis.task import Job
from pramana.estimators import Reversion
from pramana.inference import Root, Sample, solve
from pramana.inference.resampling import resample


def sample_of(case: Case) -> tuple[Sample, Root]:
    """The bound equation and its root, from which every rival starts too."""
    job = Job.read(case.formula, case.frame, case.mechanism, "binomial", None, None, None, None, "error")
    function = job.plan.prepare(job.table, case.mechanism.schema)
    sample = Sample(Reversion().bind(function, case.mechanism, job.table, np.ones(case.n)).equation)
    return sample, solve(sample.equation, sample.row_weights)


def draws(sample: Sample, root: Root, count: int, seed: int, threads: int) -> Float:
    return resample(sample, root, pr.Resampling(draws=count, seed=seed, threads=threads)).values


def whole_fit(case: Case, count: int, seed: int, threads: int) -> pr.Result:
    options = pr.Resampling(draws=count, seed=seed, threads=threads)
    return pr.fit(case.formula, case.frame, case.mechanism, family="binomial", inference=options)
