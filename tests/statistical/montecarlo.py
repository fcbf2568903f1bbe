"""Replicates of a setting with fixed seeds, and bounds that follow from their Monte Carlo error."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import pramana as pr

BOUND = 4.5
"""Monte Carlo standard errors allowed. One two-sided check fails by chance with probability 7e-6."""
LONG = 200
"""Replicates of an analyst with a wrong P in a long run."""
CLEAR = 8.0
"""Monte Carlo standard errors by which a wrong transition matrix must be seen."""
COVERAGE_ALLOWANCE = 0.01
"""For intervals that are exact only as n grows: at the sizes used here coverage is off by order 1/n, about 0.005."""
SPREAD_ALLOWANCE = 0.02
"""Relative, for the same reason, in standard errors against the spread of the estimates."""

Data = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """A population, what is released of it and what is asked.

    Attributes
    ----------
    generate : draws true data, a dictionary of columns.
    wrong : what an analyst believes who is off by 0.05 in every keep probability.
    truth : the parameter (d,).
    options : passed on to `fit`.
    """

    generate: Callable[[np.random.Generator], Data]
    mechanism: pr.Mechanism
    wrong: pr.Mechanism
    what: Any
    truth: tuple[float, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def fit(self, released: Data, mechanism: pr.Mechanism | None = None, **options: Any) -> pr.Result:
        return pr.fit(self.what, released, mechanism or self.mechanism, **{**self.options, **options})


@dataclass(frozen=True)
class Replicates:
    """Of R samples with an answer.

    Attributes
    ----------
    estimates, errors, sides : (R, d); a side is -1 where the interval lies below the truth, 1 where above, 0 where it covers.
    flagged : (R,), whether a fit carries a warning or an error.
    refused : samples without an answer.
    inference : the kind of standard errors and intervals that most fits have.
    """

    parameters: tuple[str, ...]
    truth: np.ndarray
    estimates: np.ndarray
    errors: np.ndarray
    sides: np.ndarray
    flagged: np.ndarray
    refused: int = 0
    inference: str = ""

    @property
    def size(self) -> int:
        return len(self.estimates)

    @property
    def bias(self) -> np.ndarray:
        return self.estimates.mean(axis=0) - self.truth

    @property
    def spread(self) -> np.ndarray:
        return self.estimates.std(axis=0, ddof=1)

    @property
    def bias_error(self) -> np.ndarray:
        return self.spread / np.sqrt(self.size)

    @property
    def z(self) -> np.ndarray:
        return self.bias / self.bias_error

    @property
    def coverage(self) -> np.ndarray:
        return 1 - self.below - self.above

    @property
    def below(self) -> np.ndarray:
        """Share of the intervals (d,) that lie below the truth."""
        return np.asarray((self.sides < 0).mean(axis=0))

    @property
    def above(self) -> np.ndarray:
        return np.asarray((self.sides > 0).mean(axis=0))

    @property
    def spread_ratio(self) -> np.ndarray:
        """Mean standard error over the spread of the estimates."""
        return self.errors.mean(axis=0) / self.spread

    @property
    def spread_ratio_error(self) -> np.ndarray:
        """Delta method, each replicate's share in numerator and denominator taken together."""
        share = self.errors / self.errors.mean(axis=0) - 0.5 * _squares(self.estimates) / self.spread**2
        return self.spread_ratio * share.std(axis=0, ddof=1) / np.sqrt(self.size)

    def rows(self, against: Replicates | None = None) -> list[dict[str, Any]]:
        """One row a parameter for the log; `against` holds the replicates of the wrong analyst."""
        columns: dict[str, Any] = {
            "parameter": self.parameters,
            "replicates": [self.size] * len(self.parameters),
            "truth": self.truth,
            "bias": self.bias,
            "MC error": self.bias_error,
            "z": self.z,
            "SD": self.spread,
            "SE / SD": self.spread_ratio,
            **self._intervals(),
        }
        if self.refused:
            columns["no root"] = [self.refused / (self.size + self.refused)] * len(self.parameters)
        if against is not None:
            columns["z, P off by 0.05"] = against.z
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def interval_rows(self) -> list[dict[str, Any]]:
        """One row a parameter about the intervals alone."""
        size, d = self.size + self.refused, len(self.parameters)
        columns = {"inference": [self.inference] * d, "parameter": self.parameters, "replicates": [size] * d}
        columns |= {**self._intervals(), "refused": [self.refused / size] * d}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def _intervals(self) -> dict[str, Any]:
        shares = {"below": self.below, "above": self.above, "coverage": self.coverage}
        return shares | {"flagged": [float(self.flagged.mean())] * len(self.parameters)}


def samples(setting: Setting, replicates: int, seed: int) -> Iterator[tuple[Data, Data]]:
    """True and released data, a pure function of the seed and the replicate's number."""
    for child in np.random.SeedSequence(seed).spawn(replicates):
        rng = np.random.default_rng(child)
        true = setting.generate(rng)
        yield true, perturb(setting.mechanism, true, int(rng.integers(2**63)))


def perturb(mechanism: pr.Mechanism, data: Data, seed: int) -> Data:
    """Perturb with a seed, without the warning that a seed is not secure."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        released: Data = mechanism.perturb(data, seed=seed)
    return released


def replicate(
    setting: Setting,
    replicates: int,
    seed: int,
    *,
    mechanism: pr.Mechanism | None = None,
    rootless: bool = False,
    **options: Any,
) -> Replicates:
    """Fit every sample, with the analyst's own idea of the mechanism where one is given; samples without a root are counted where `rootless`
    says that there may be some, and an error elsewhere."""

    def fitted(number: int, data: Data) -> pr.Result | None:
        try:
            return setting.fit(data, mechanism, **_own_draws(options, number))
        except pr.SolveError:
            if not rootless:
                raise
            return None

    released = (released for _, released in samples(setting, replicates, seed))
    return gather((fitted(i, data) for i, data in enumerate(released)), setting.truth)


def _own_draws(options: dict[str, Any], number: int) -> dict[str, Any]:
    """Resampling draws of each replicate's own, so that their error averages out."""
    inference = options.get("inference")
    return (
        {**options, "inference": replace(inference, seed=number)} if isinstance(inference, pr.Resampling) else options
    )


def gather(results: Iterable[pr.Result | None], truth: tuple[float, ...]) -> Replicates:
    """What the fits found; None stands for a refusal."""
    every = list(results)
    fits = [result for result in every if result is not None]
    return Replicates(
        fits[0].parameters,
        np.asarray(truth),
        np.array([r.estimate for r in fits]),
        np.array([r.standard_errors for r in fits]),
        np.array([sides(r.interval(), truth) for r in fits]),
        np.array([bool(r.flags) for r in fits]),
        len(every) - len(fits),
        Counter(re.sub(r" \(.*?\)|,? [^,]*\d.*| for '.*", "", r.inference) for r in fits).most_common(1)[0][0],
    )


def sides(limits: np.ndarray, truth: Any) -> np.ndarray:
    """-1 where an interval lies below the truth, 1 where above, 0 where it covers."""
    return 1 * (limits[..., 0] > truth) - 1 * (limits[..., 1] < truth)


def check_bias(found: Replicates) -> None:
    off = np.abs(found.z) > BOUND
    assert not off.any(), f"biased: {_listed(found, found.z, off)} Monte Carlo errors from 0 (limit {BOUND})"


def check_coverage(found: Replicates, *, allowance: float = COVERAGE_ALLOWANCE) -> None:
    limit = BOUND * np.sqrt(0.95 * 0.05 / found.size) + allowance
    off = np.abs(found.coverage - 0.95) > limit
    assert not off.any(), f"coverage: {_listed(found, found.coverage, off)}, more than {limit:.3f} from 0.95"


def check_spread(found: Replicates, *, allowance: float = SPREAD_ALLOWANCE) -> None:
    limit = BOUND * found.spread_ratio_error + allowance
    off = np.abs(found.spread_ratio - 1) > limit
    assert not off.any(), f"SE over SD: {_listed(found, found.spread_ratio, off)}, more than {limit} from 1"


def check_rejects(wrong: Replicates, right: Replicates) -> None:
    """A wrong P is seen: by its bias, or in a short run by how far it moves the estimates of the same samples, which takes fewer of them."""
    moved = wrong.estimates - (right.truth if wrong.size >= LONG else right.estimates[: wrong.size])
    z = moved.mean(axis=0) / (moved.std(axis=0, ddof=1) / np.sqrt(wrong.size))
    assert np.max(np.abs(z)) > CLEAR, f"a wrong P went unseen: the largest z is {np.max(np.abs(z)):.1f}"


def replicate_wrong(setting: Setting, replicates: int, seed: int, **options: Any) -> Replicates:
    """Of the analyst with the wrong P."""
    size = LONG if replicates >= 500 else min(24, replicates)
    return replicate(setting, size, seed, mechanism=setting.wrong, **options)


def check(
    setting: Setting,
    replicates: int,
    seed: int,
    log: Callable[[str, object], None],
    *,
    rootless: float = 0.0,
    **options: Any,
) -> None:
    """Bias, coverage and standard errors at the true P; a clear bias at a P off by 0.05. At most the share `rootless` of the samples has no root."""
    right = replicate(setting, replicates, seed, rootless=rootless > 0, **options)
    wrong = replicate_wrong(setting, replicates, seed, rootless=rootless > 0)
    log("rows", right.rows(wrong))
    assert right.refused <= rootless * replicates, f"{right.refused} of {replicates} samples have no root"
    check_bias(right)
    check_coverage(right)
    check_spread(right)
    check_rejects(wrong, right)


def _squares(values: np.ndarray) -> np.ndarray:
    return (values - values.mean(axis=0)) ** 2


def _listed(found: Replicates, values: np.ndarray, which: np.ndarray) -> str:
    return ", ".join(f"{p} {v:.4g}" for p, v, w in zip(found.parameters, values, which, strict=True) if w)
