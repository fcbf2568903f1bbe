"""Randomised-response surveys as two-level matrices: level 1 (or the second level) is the sensitive "yes".

The respondent's own device randomises the answer, so that the same estimators apply to interviews as to released files.
In every design the released level is the answer as given, and `Pr(answer | truth)` is known. The last three have an unknown as well,
of those who cheat or of the harmless question, which two groups with other probabilities tell: `fit` estimates it along.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pramana.errors import MechanismError
from pramana.frames import Level
from pramana.mechanism.channels.checks import check_probabilities
from pramana.mechanism.channels.free import FreeMatrix
from pramana.mechanism.channels.transition import TransitionMatrix

_BINARY = (0, 1)


def warner(p: float, *, levels: Sequence[Level] = _BINARY) -> TransitionMatrix:
    """Warner (1965): with probability p the statement "I have the trait" is put, else its negation.

    >>> warner(0.7).matrix
    array([[0.7, 0.3],
           [0.3, 0.7]])
    """
    check_probabilities(p=p)
    return _answers("Warner's design", p, 1 - p, f"p={p:.6g} must differ from 1/2", levels)


def forced_response(truth: float, yes: float, *, levels: Sequence[Level] = _BINARY) -> TransitionMatrix:
    """Answer truthfully with probability `truth`, say yes whatever the truth with probability `yes`, else say no.

    >>> forced_response(truth=0.75, yes=0.125).matrix
    array([[0.875, 0.125],
           [0.125, 0.875]])
    """
    check_probabilities(truth=truth, yes=yes)
    if truth + yes > 1 + 1e-12:
        raise MechanismError(
            f"truth={truth:.6g} and yes={yes:.6g} sum to {truth + yes:.6g}: at most 1, the rest says no"
        )
    return _answers("forced response", min(truth + yes, 1.0), yes, "truth=0 must be positive", levels)


def unrelated_question(p: float, prevalence: float, *, levels: Sequence[Level] = _BINARY) -> TransitionMatrix:
    """With probability p the sensitive question, else a harmless one to which a known share `prevalence` says yes.

    >>> unrelated_question(0.5, prevalence=0.25).matrix
    array([[0.875, 0.375],
           [0.125, 0.625]])
    """
    check_probabilities(p=p, prevalence=prevalence)
    innocent = (1 - p) * prevalence
    return _answers("the unrelated question", p + innocent, innocent, "p=0 must be positive", levels)


def kuk(theta1: float, theta0: float, *, levels: Sequence[Level] = _BINARY) -> TransitionMatrix:
    """Kuk (1990), one card: red ("yes") has probability theta1 in the deck of those with the trait, theta0 in the other.

    >>> kuk(0.8, 0.2).matrix.round(2)
    array([[0.8, 0.2],
           [0.2, 0.8]])
    """
    check_probabilities(theta1=theta1, theta0=theta0)
    return _answers("Kuk's design", theta1, theta0, f"theta1 and theta0, both {theta1:.6g}, must differ", levels)


def crosswise(prevalence: float, *, levels: Sequence[Level] = _BINARY) -> TransitionMatrix:
    """Yu, Tian and Tang (2008): are your answers to the sensitive question and to a harmless one the same?

    The released level is 1 for "the same" and 0 for "different"; `prevalence` is the share that says yes to the harmless
    question, known and independent of the trait.

    >>> crosswise(prevalence=0.25).matrix
    array([[0.25, 0.75],
           [0.75, 0.25]])
    """
    check_probabilities(prevalence=prevalence)
    wanted = f"prevalence={prevalence:.6g} must differ from 1/2"
    return _answers("the crosswise design", prevalence, 1 - prevalence, wanted, levels)


def mangat(p: float, *, levels: Sequence[Level] = _BINARY) -> TransitionMatrix:
    """Mangat (1994): those with the trait say yes; the others say no with probability p and yes otherwise.

    >>> mangat(0.75).matrix
    array([[0.75, 0.  ],
           [0.25, 1.  ]])
    """
    check_probabilities(p=p)
    return _answers("Mangat's design", 1.0, 1 - p, "p=0 must be positive", levels)


def mangat_singh(direct: float, p: float, *, levels: Sequence[Level] = _BINARY) -> TransitionMatrix:
    """Mangat and Singh (1990): the plain question with probability `direct`, else Warner's device with p.

    >>> mangat_singh(direct=0.5, p=0.75).matrix
    array([[0.875, 0.125],
           [0.125, 0.875]])
    """
    check_probabilities(direct=direct, p=p)
    yes_with, yes_without = direct + (1 - direct) * p, (1 - direct) * (1 - p)
    return _answers("Mangat and Singh's design", yes_with, yes_without, "direct + (1 - direct) (2 p - 1) is 0", levels)


def stochastic_lie_detector(by: str, p: Mapping[Level, float], *, levels: Sequence[Level] = _BINARY) -> FreeMatrix:
    """Moshagen, Musch and Erdfelder (2012): Mangat's design, where an unknown share `honest` of those with the trait says yes, the others no.

    Those without the trait say no with probability p, which differs between the groups of column `by`.

    >>> stochastic_lie_detector("group", {"a": 0.2, "b": 0.8})
    FreeMatrix(2 levels: 0, 1; numeric; 'honest' unknown, 2 groups of 'group')
    """
    groups = {g: (_yes(0.0, 1 - c), _yes(1.0, 1 - c)) for g, c in _chances("the stochastic lie detector", p).items()}
    return FreeMatrix(by, groups, ["honest"], levels=levels)


def cheating_detection(
    by: str, yes: Mapping[Level, float], no: Mapping[Level, float] | None = None, *, levels: Sequence[Level] = _BINARY
) -> FreeMatrix:
    """Clark and Desharnais (1998): told to say yes with probability `yes`, by group of column `by`, and to say no with probability `no`, an
    unknown share of people says no whatever they are told.

    Level 1 are those with the trait who do as they are told. Of all others, whose trait is unknown where they cheat, a share `honest` does so too:
    cheaters are (1 − share of level 1) (1 − honest) of everybody.

    >>> cheating_detection("group", {"a": 0.25, "b": 0.75}).at(honest=0.8).strata["a"].matrix
    array([[0.8, 0. ],
           [0.2, 1. ]])
    """
    told = _chances("the cheating detection model", yes)
    silent = dict.fromkeys(told, 0.0) if no is None else _chances("the cheating detection model", no)
    if set(silent) != set(told):
        raise MechanismError(f"yes= is of groups {list(told)} and no= of {list(silent)}: give both for every group")
    beyond = [g for g, chance in told.items() if chance + silent[g] > 1]
    if beyond:
        raise MechanismError(
            f"in group {beyond[0]!r} people are told to say yes with probability {told[beyond[0]]:g} and no with {silent[beyond[0]]:g}, which is more "
            "than 1 together: give chances that leave room for a truthful answer"
        )
    groups = {g: (_yes(1 - silent[g], 0.0), _yes(1 - silent[g], c)) for g, c in told.items()}
    return FreeMatrix(by, groups, ["honest"], levels=levels)


def unrelated_question_unknown(by: str, p: Mapping[Level, float], *, levels: Sequence[Level] = _BINARY) -> FreeMatrix:
    """Greenberg et al. (1969): the sensitive question with probability p, by group of column `by`, else a harmless one to which an unknown share
    `innocent` says yes.

    >>> unrelated_question_unknown("group", {"a": 0.3, "b": 0.8}).at(innocent=0.5).strata["a"].matrix.round(2)
    array([[0.65, 0.35],
           [0.35, 0.65]])
    """
    groups = {g: (_yes(c, 0.0), _yes(1.0, 1 - c)) for g, c in _chances("the unrelated question", p).items()}
    return FreeMatrix(by, groups, ["innocent"], levels=levels)


def _chances(design: str, groups: Mapping[Level, float]) -> dict[Level, float]:
    """A probability for each group."""
    if not isinstance(groups, Mapping):
        raise MechanismError(
            f"{design} needs a dictionary from groups to probabilities, such as {{'a': 0.2, 'b': 0.7}}"
        )
    check_probabilities(**{f"group {group!r}": chance for group, chance in groups.items()})
    return {group: float(chance) for group, chance in groups.items()}


def _yes(yes_with: float, yes_without: float) -> list[list[float]]:
    """The matrix with these chances of a yes."""
    return [[1 - yes_without, 1 - yes_with], [yes_without, yes_with]]


def _answers(
    design: str, yes_with: float, yes_without: float, wanted: str, levels: Sequence[Level]
) -> TransitionMatrix:
    """`Pr(yes | trait)` and `Pr(yes | no trait)`, which must differ."""
    if len(levels) != 2:
        raise MechanismError(f"{design} has two levels, no and yes, not {len(levels)}")
    if abs(yes_with - yes_without) < 1e-8:
        raise MechanismError(f"the answers of {design} say nothing about the trait: {wanted}")
    return TransitionMatrix.binary(yes_with, 1 - yes_without, levels=levels)
