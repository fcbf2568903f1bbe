"""Channels of other programs: sdcMicro's matrix, the protocols of multi-freq-ldpy, randomised responses and noise of OpenDP and diffprivlib.

Each function takes what the other program was told, or reports, and gives the channel that was at work. What has no channel here is
refused by its name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pramana.arrays import Float
from pramana.errors import MechanismError, listing, suggestion
from pramana.frames import Kind, Level
from pramana.frames.levels import is_number
from pramana.mechanism.cell_keys import CellKeys
from pramana.mechanism.channel import Channel, Conditional
from pramana.mechanism.channels.checks import checked_epsilon
from pramana.mechanism.channels.clamped_noise import ClampedLaplaceNoise
from pramana.mechanism.channels.encodings.hashing import LocalHashing
from pramana.mechanism.channels.encodings.subsets import SubsetSelection
from pramana.mechanism.channels.encodings.unary import UnaryEncoding
from pramana.mechanism.channels.noise import (
    DiscreteGaussianNoise,
    GaussianNoise,
    GeometricNoise,
    LaplaceNoise,
    UniformNoise,
)
from pramana.mechanism.channels.transition import DENSE_LIMIT, TransitionMatrix

ONE_BY_ONE = (5, 5, 2)
"""Before this version of sdcMicro, `pram` went through the levels one by one and changed again what it had just changed."""


def sdcmicro(
    matrix: Any,
    levels: Sequence[Level] | None = None,
    *,
    version: str,
    kind: Kind | None = None,
    conditional: Conditional = True,
) -> TransitionMatrix:
    """The matrix of `pram` of the R package sdcMicro, `attr(x, "pram_params")$variable$Rs`: rows are original levels and sum to 1.

    Parameters
    ----------
    matrix : Rs as an array, or as a frame whose row and column names are the levels.
    levels : the factor's levels in R's order; left out where `matrix` is a frame.
    version : of sdcMicro, `packageVersion("sdcMicro")`. Before 5.5.2 the matrix was not what it says: values were drawn level after
        level, and one that had become a later level was drawn once more. The matrix of all steps is returned then.
    conditional : Rs is made from frequencies of the confidential data, unless it was given to `pram` as its `pd`.

    >>> Rs = [[0.9, 0.1], [0.3, 0.7]]
    >>> sdcmicro(Rs, ["no", "yes"], version="5.7.8").matrix
    array([[0.9, 0.3],
           [0.1, 0.7]])
    >>> sdcmicro(Rs, ["no", "yes"], version="5.5.1").matrix.round(3)
    array([[0.93, 0.3 ],
           [0.07, 0.7 ]])
    """
    rows, levels = _named(matrix, levels)
    plain = TransitionMatrix.from_rows(levels, rows, kind=kind, conditional=conditional)
    if _version(version) >= ONE_BY_ONE:
        return plain
    return TransitionMatrix.from_rows(levels, _one_by_one(plain.to_rows()), kind=kind, conditional=conditional)


def _named(matrix: Any, levels: Sequence[Level] | None) -> tuple[npt.ArrayLike, Sequence[Level]]:
    import pandas as pd

    if not isinstance(matrix, pd.DataFrame):
        if levels is None:
            raise MechanismError(
                "levels are needed: give the factor's levels in R's order, or Rs as a frame with row and column names"
            )
        return matrix, levels
    rows, columns = matrix.index.tolist(), matrix.columns.tolist()
    if rows != columns or (levels is not None and list(levels) != rows):
        other = columns if rows != columns else list(levels or ())
        raise MechanismError(
            f"the rows of the matrix are {listing(rows)} and its columns or levels {listing(other)}: sdcMicro's matrix has the factor's levels "
            "for both, in one order"
        )
    return matrix.to_numpy(), rows


def _one_by_one(rows: Float) -> Float:
    """The matrix of all steps: in step i what is level i by then is drawn from row i."""
    total = np.eye(len(rows))
    for i, row in enumerate(rows):
        step = np.eye(len(rows))
        step[i] = row
        total = total @ step
    return total


def _version(text: object) -> tuple[int, ...]:
    if not isinstance(text, str) or not re.fullmatch(r"[0-9]+([.-][0-9]+)*", text):
        raise MechanismError(
            f"version={text!r} must be a version of sdcMicro such as '5.7.8': the meaning of its matrix changed at 5.5.2"
        )
    return tuple(int(part) for part in re.split(r"[.-]", text))


def multi_freq_ldpy(
    protocol: str,
    levels: Sequence[Level],
    epsilon: float,
    *,
    columns: Sequence[str] | None = None,
    kind: Kind | None = None,
) -> Channel:
    """A protocol of multi-freq-ldpy (checked with 0.2.5) by its name: GRR, SUE, OUE, SS, BLH or OLH.

    Its clients take numbers from 0 to k − 1, which here are the places of `levels`. `UE_Client` gives a vector of bits, `SS_Client` a set of
    numbers and `LH_Client` a pair (value, seed): write bits and sets to 0/1 columns, a pair to two columns, and name them as `columns`, for a
    pair as [seed, value].

    >>> multi_freq_ldpy("OUE", ["bus", "car", "train"], 1.5)
    UnaryEncoding(3 levels: 'bus', 'car', 'train'; nominal; epsilon 1.5, p 0.5, q 0.1824)
    """
    made: dict[str, Callable[[], Channel]] = {
        "GRR": lambda: TransitionMatrix.from_epsilon(levels, epsilon, kind=kind),
        "SUE": lambda: UnaryEncoding.symmetric(levels, epsilon, columns=columns, kind=kind),
        "OUE": lambda: UnaryEncoding.optimized(levels, epsilon, columns=columns, kind=kind),
        "SS": lambda: SubsetSelection(levels, epsilon, columns=columns, kind=kind),
        "BLH": lambda: LocalHashing(levels, epsilon, 2, columns=columns, kind=kind),
        "OLH": lambda: LocalHashing(levels, epsilon, columns=columns, kind=kind),
    }
    remedies = {
        "ADP": "it is GRR or OUE, whichever has the smaller variance: name the one that it chose",
        "HE": "its reports are bits with Laplace noise, for which there is no channel",
        "SHE": "its reports are bits with Laplace noise, for which there is no channel",
        "THE": "its reports depend on a threshold: use UnaryEncoding(levels, p, q) with the chances of a bit above it",
    }
    name = str(protocol).upper()
    if name not in made:
        remedy = remedies.get(name, suggestion(name, list(made)))
        raise MechanismError(
            f"protocol {protocol!r} of multi-freq-ldpy is not read: {remedy}. For several attributes give the channel and the epsilon of "
            "each (SPL divides epsilon by their number); longitudinal and sampling solutions (L_…, SMP, RS+FD) have none"
        )
    return made[name]()


def opendp(
    measurement: str,
    levels: Sequence[Level] = (False, True),
    *,
    prob: float | None = None,
    f: float | None = None,
    scale: float | None = None,
    integers: bool = False,
    bounds: Sequence[float] | None = None,
    version: str | None = None,
    columns: Sequence[str] | None = None,
    kind: Kind | None = None,
) -> Channel:
    """A measurement of OpenDP (checked with 0.16.0) by the name of its constructor.

    `make_randomized_response(categories, prob)`, `make_randomized_response_bool(prob)`, and `make_randomized_response_bitvec(..., f)` on
    vectors with one 1, whose bits are each flipped with probability f/2. `make_laplace`, `make_gaussian` and `make_geometric`, of numbers, with their
    `scale`; of whole numbers (`integers=True`) the first two are noise on them.

    Parameters
    ----------
    bounds : to which the numbers were clamped before (`make_clamp`).
    version : of OpenDP; one that is newer than what was checked is refused.

    >>> round(opendp("make_randomized_response", [2, 3, 5, 6], prob=0.75).epsilon, 4)     # ln 9
    2.1972
    >>> opendp("make_laplace", scale=2.0, bounds=(0, 100)).epsilon
    50.0
    """
    _refuse_newer("OpenDP", version, (0, 16))
    name = str(measurement).removeprefix("make_").removeprefix("then_").removeprefix("base_")
    if name in ("laplace", "gaussian", "geometric", "discrete_laplace", "discrete_gaussian"):
        if scale is None or prob is not None or f is not None:
            raise MechanismError(f"{measurement} needs scale= and no prob= or f=: the number that it was made with")
        return _number_noise(name, scale, integers or name.startswith("discrete"), bounds)
    given = {"randomized_response": prob, "randomized_response_bool": prob, "randomized_response_bitvec": f}
    if name not in given:
        raise MechanismError(
            f"{measurement!r} of OpenDP has no channel: this reads {', '.join(f'make_{known}' for known in given)}, make_laplace, make_gaussian and make_geometric"
        )
    wanted = "f" if name.endswith("bitvec") else "prob"
    other = prob if wanted == "f" else f
    if given[name] is None or any(value is not None for value in (other, scale, bounds)) or integers:
        raise MechanismError(f"{measurement} needs {wanted}= and nothing else: the number that it was made with")
    if name == "randomized_response_bool" and tuple(levels) != (False, True):
        raise MechanismError(f"{measurement} is of true and false, not of {listing(levels)}: leave levels out")
    if not is_number(given[name]):
        raise MechanismError(f"{wanted}={given[name]!r} of {measurement} must be a number")
    if name.endswith("bitvec"):
        return UnaryEncoding.rappor(levels, float(f or 0), columns=columns, kind=kind)
    return TransitionMatrix.randomized_response(levels, float(prob or 0), kind=kind)


def _number_noise(name: str, scale: float, integers: bool, bounds: Sequence[float] | None) -> Channel:
    limits: Any = bounds
    if name == "geometric" or (integers and name.endswith("laplace")):
        return GeometricNoise(scale, bounds=limits)
    if name.endswith("laplace"):
        return LaplaceNoise(scale, limits)
    return DiscreteGaussianNoise(scale, bounds=limits) if integers else GaussianNoise(scale, limits)


def _refuse_newer(program: str, version: str | None, checked: tuple[int, int]) -> None:
    if version is None:
        return
    if not isinstance(version, str) or not re.fullmatch(r"[0-9]+([.-][0-9a-z]+)*", version):
        raise MechanismError(
            f"version={version!r} must be a version of {program} such as '{checked[0]}.{checked[1]}.0'"
        )
    found = [int(part) for part in re.findall(r"[0-9]+", version)[:2]]
    if tuple(found) > checked:
        raise MechanismError(
            f"version {version} of {program} is newer than {checked[0]}.{checked[1]}, with which this was compared: leave version out if its documentation "
            "gives the mechanism the same probabilities, or build the channel from what it says"
        )


def diffprivlib(mechanism: str, *, version: str | None = None, **parameters: Any) -> Channel:
    """A mechanism of diffprivlib (checked with 0.6.6) by its name and parameters: Binary, Geometric, GeometricTruncated, GeometricFolded, Laplace,
    LaplaceTruncated, Gaussian or Uniform. A `version` that is newer than what was checked is refused.

    GeometricTruncated and GeometricFolded move whole numbers, and bring them back to `lower` … `upper`: transition matrices over those numbers. Other noise
    is added to numbers: scale Δ/(ε − ln(1 − δ)) for Laplace, sd Δ√(2 ln(1.25/δ))/ε for Gaussian, width Δ/δ for Uniform; LaplaceTruncated is clamped afterwards.

    >>> diffprivlib("Binary", epsilon=1.0, value0="no", value1="yes").matrix.round(3)
    array([[0.731, 0.269],
           [0.269, 0.731]])
    >>> diffprivlib("GeometricTruncated", epsilon=1.0, lower=0, upper=2).matrix.round(3)
    array([[0.731, 0.269, 0.099],
           [0.17 , 0.462, 0.17 ],
           [0.099, 0.269, 0.731]])
    """
    _refuse_newer("diffprivlib", version, (0, 6))
    known: dict[str, Callable[..., Channel]] = {
        "Binary": _binary,
        "Geometric": _geometric,
        "GeometricTruncated": _truncated,
        "GeometricFolded": _folded,
        "Laplace": _laplace,
        "LaplaceTruncated": _clamped_laplace,
        "Gaussian": _gaussian,
        "Uniform": _uniform,
    }
    if mechanism not in known:
        remedies = {
            "LaplaceFolded": "what is mirrored at bounds on a continuum cannot be undone",
            "LaplaceBoundedDomain": "its noise depends on the true value",
            "LaplaceBoundedNoise": "its noise is cut off, for which there is no channel",
            "GaussianAnalytic": "take its scale, `mechanism._scale`, as GaussianNoise(scale)",
            "GaussianDiscrete": "take its scale, `mechanism._scale`, as DiscreteGaussianNoise(scale)",
        }
        remedy = remedies.get(str(mechanism), suggestion(str(mechanism), list(known)))
        raise MechanismError(f"mechanism {mechanism!r} of diffprivlib is not read: {remedy}")
    parameters.pop("random_state", None)
    try:
        return known[mechanism](**parameters)
    except TypeError as error:
        raise MechanismError(f"parameters of {mechanism}: {str(error).partition('() ')[2]}") from None


def ptable(table: Any) -> CellKeys:
    """The cell-key noise of the R package ptable (as of 1.0.0) for published tables of counts: `ptab@pTable`, with the columns i, j (or v) and p.

    Its `total` sums published counts with given weights: noise has mean zero and a known variance. Its `matrix` is a channel for a column of
    such counts, where no small ones are blocked (`js = 0`).

    >>> noise = ptable({"i": [0, 1, 1, 1, 2, 2, 2], "j": [0, 0, 1, 2, 1, 2, 3], "p": [1, 0.25, 0.5, 0.25, 0.25, 0.5, 0.25]})
    >>> noise
    CellKeys(counts moved by at most 1, variance 0.5)
    >>> noise.total([12, 7, 30], weights=[1, 1, -1])
    CellSum(estimate=-11.0, standard_error=1.224744871391589, reach=3.0)
    """
    return CellKeys.of(table)


def _binary(*, epsilon: float, value0: Level, value1: Level) -> TransitionMatrix:
    return TransitionMatrix.from_epsilon([value0, value1], epsilon)


def _geometric(*, epsilon: float, sensitivity: float = 1) -> GeometricNoise:
    return GeometricNoise(_positive("sensitivity", sensitivity) / checked_epsilon(epsilon))


def _laplace(*, epsilon: float, sensitivity: float, delta: float = 0.0) -> LaplaceNoise:
    return LaplaceNoise(_laplace_scale(epsilon, sensitivity, delta))


def _clamped_laplace(
    *, epsilon: float, sensitivity: float, lower: float, upper: float, delta: float = 0.0
) -> ClampedLaplaceNoise:
    return LaplaceNoise(_laplace_scale(epsilon, sensitivity, delta), (lower, upper)).clamped()


def _laplace_scale(epsilon: float, sensitivity: float, delta: float) -> float:
    if not (is_number(delta) and 0 <= delta < 1):
        raise MechanismError(f"delta={delta!r} must be at least 0 and below 1")
    return _positive("sensitivity", sensitivity) / (checked_epsilon(epsilon) - math.log(1 - delta))


def _gaussian(*, epsilon: float, delta: float, sensitivity: float) -> GaussianNoise:
    if not (is_number(delta) and 0 < delta < 1):
        raise MechanismError(f"delta={delta!r} must lie between 0 and 1")
    if checked_epsilon(epsilon) > 1:
        raise MechanismError(
            f"epsilon={epsilon!r} is above 1, which Gaussian of diffprivlib does not take: it was GaussianAnalytic"
        )
    return GaussianNoise(_positive("sensitivity", sensitivity) * math.sqrt(2 * math.log(1.25 / delta)) / epsilon)


def _uniform(*, delta: float, sensitivity: float) -> UniformNoise:
    if not (is_number(delta) and 0 < delta <= 0.5):
        raise MechanismError(f"delta={delta!r} must be above 0 and at most 0.5, as diffprivlib demands")
    return UniformNoise(_positive("sensitivity", sensitivity) / delta)


def _truncated(*, epsilon: float, lower: int, upper: int, sensitivity: float = 1) -> TransitionMatrix:
    """Numbers beyond a bound become it: the tails add up there."""
    levels, ratio = _whole(lower, upper), _ratio(epsilon, sensitivity)
    matrix = _steps(levels, ratio) * (1 - ratio) / (1 + ratio)
    matrix[0], matrix[-1] = (ratio ** np.abs(levels - bound) / (1 + ratio) for bound in (levels[0], levels[-1]))
    return TransitionMatrix.from_columns(levels.tolist(), matrix, kind="numeric")


def _folded(*, epsilon: float, lower: float, upper: float, sensitivity: float = 1) -> TransitionMatrix:
    """Numbers beyond a bound are mirrored at it, again and again: what lands on i is i or 2·lower − i, and whole periods away."""
    if not all(is_number(b) and float(2 * b).is_integer() for b in (lower, upper)):
        raise MechanismError(f"bounds {lower!r} and {upper!r} must be whole or half numbers, as diffprivlib demands")
    levels, ratio = _whole(math.ceil(lower), math.floor(upper)), _ratio(epsilon, sensitivity)
    period = round(2 * (upper - lower))
    images = [levels, np.asarray(round(2 * lower) - levels)]
    alone = (images[1] - images[0]) % period == 0  # on a bound: its mirror image is itself
    total = np.zeros((len(levels), len(levels)))
    for k, image in enumerate(images):
        away = (image[:, None] - levels) % period
        sums = (ratio**away + ratio ** (period - away)) / (1 - ratio**period)
        total += sums if k == 0 else np.where(alone[:, None], 0.0, sums)
    return TransitionMatrix.from_columns(levels.tolist(), total * (1 - ratio) / (1 + ratio), kind="numeric")


def _whole(lower: int, upper: int) -> Any:
    if not (isinstance(lower, int) and isinstance(upper, int) and lower < upper):
        raise MechanismError(f"lower={lower!r} and upper={upper!r} must be whole numbers, the lower one first")
    if upper - lower >= DENSE_LIMIT:
        raise MechanismError(
            f"{lower} … {upper} are more than the limit of {DENSE_LIMIT} levels: round the column to a coarser grid"
        )
    return np.arange(lower, upper + 1)


def _positive(name: str, value: Any) -> float:
    if not (is_number(value) and 0 < value < math.inf):
        raise MechanismError(f"{name}={value!r} must be positive")
    return float(value)


def _ratio(epsilon: float, sensitivity: float) -> float:
    """α = e^(−ε/Δ), the chance of one step more over that of one less."""
    return math.exp(-checked_epsilon(epsilon) / _positive("sensitivity", sensitivity))


def _steps(levels: Any, ratio: float) -> Float:
    return np.asarray(ratio ** np.abs(levels[:, None] - levels))
