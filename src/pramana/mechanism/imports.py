"""Channels of other programs: sdcMicro's matrix, the protocols of multi-freq-ldpy, randomised responses of OpenDP and diffprivlib.

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
from pramana.mechanism.channels.encodings.hashing import LocalHashing
from pramana.mechanism.channels.encodings.subsets import SubsetSelection
from pramana.mechanism.channels.encodings.unary import UnaryEncoding
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
    return matrix.to_numpy(dtype=float), rows


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
    columns: Sequence[str] | None = None,
    kind: Kind | None = None,
) -> Channel:
    """A randomised response of OpenDP (checked with 0.16.0) by the name of its constructor.

    `make_randomized_response(categories, prob)`, `make_randomized_response_bool(prob)`, and `make_randomized_response_bitvec(..., f)` on
    vectors with one 1, whose bits are each flipped with probability f/2.

    >>> round(opendp("make_randomized_response", [2, 3, 5, 6], prob=0.75).epsilon, 4)     # ln 9
    2.1972
    """
    name = measurement.removeprefix("make_").removeprefix("then_")
    given = {"randomized_response": prob, "randomized_response_bool": prob, "randomized_response_bitvec": f}
    if name not in given:
        raise MechanismError(
            f"{measurement!r} of OpenDP is no randomisation of levels: this reads {', '.join(f'make_{known}' for known in given)}"
        )
    wanted = "f" if name.endswith("bitvec") else "prob"
    if given[name] is None or (prob is not None and f is not None):
        raise MechanismError(f"{measurement} needs {wanted}= and nothing else: the number that it was made with")
    if name == "randomized_response_bool" and tuple(levels) != (False, True):
        raise MechanismError(f"{measurement} is of true and false, not of {listing(levels)}: leave levels out")
    if name.endswith("bitvec"):
        return UnaryEncoding.rappor(levels, float(f or 0), columns=columns, kind=kind)
    return TransitionMatrix.randomized_response(levels, float(prob or 0), kind=kind)


def diffprivlib(mechanism: str, **parameters: Any) -> TransitionMatrix:
    """A mechanism of diffprivlib (checked with 0.6.6) by its name and parameters: Binary, GeometricTruncated or GeometricFolded.

    The geometric ones move whole numbers, and bring them back to `lower` … `upper`: transition matrices over those numbers.

    >>> diffprivlib("Binary", epsilon=1.0, value0="no", value1="yes").matrix.round(3)
    array([[0.731, 0.269],
           [0.269, 0.731]])
    >>> diffprivlib("GeometricTruncated", epsilon=1.0, lower=0, upper=2).matrix.round(3)
    array([[0.731, 0.269, 0.099],
           [0.17 , 0.462, 0.17 ],
           [0.099, 0.269, 0.731]])
    """
    known: dict[str, Callable[..., TransitionMatrix]] = {
        "Binary": _binary,
        "GeometricTruncated": _truncated,
        "GeometricFolded": _folded,
    }
    if mechanism not in known:
        raise MechanismError(
            f"mechanism {mechanism!r} of diffprivlib is not read: {suggestion(mechanism, list(known))}. Noise that is not brought back to "
            "bounds, or is of decimals, is no transition matrix"
        )
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


def _truncated(*, epsilon: float, lower: int, upper: int, sensitivity: float = 1) -> TransitionMatrix:
    """Numbers beyond a bound become it: the tails add up there."""
    levels, ratio = _whole(lower, upper), _ratio(epsilon, sensitivity)
    matrix = _steps(levels, ratio) * (1 - ratio) / (1 + ratio)
    matrix[0], matrix[-1] = (ratio ** np.abs(levels - bound) / (1 + ratio) for bound in (levels[0], levels[-1]))
    return TransitionMatrix.from_columns(levels.tolist(), matrix, kind="numeric")


def _folded(*, epsilon: float, lower: float, upper: float, sensitivity: float = 1) -> TransitionMatrix:
    """Numbers beyond a bound are mirrored at it, again and again: what lands on i is i or 2·lower − i, and whole periods away."""
    levels, ratio = _whole(math.ceil(lower), math.floor(upper)), _ratio(epsilon, sensitivity)
    if not all(is_number(b) and float(2 * b).is_integer() for b in (lower, upper)):
        raise MechanismError(f"bounds {lower!r} and {upper!r} must be whole or half numbers, as diffprivlib demands")
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


def _ratio(epsilon: float, sensitivity: float) -> float:
    """α = e^(−ε/Δ), the chance of one step more over that of one less."""
    if not (is_number(sensitivity) and sensitivity > 0):
        raise MechanismError(f"sensitivity={sensitivity!r} must be positive")
    return math.exp(-checked_epsilon(epsilon) / sensitivity)


def _steps(levels: Any, ratio: float) -> Float:
    return np.asarray(ratio ** np.abs(levels[:, None] - levels))
