"""Where the climb begins: under strong noise a likelihood has several maxima, and the best of several starts is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations, islice, permutations
from typing import Protocol, TypeVar

import numpy as np

from pramana.arrays import Float, Int
from pramana.diagnostic import Diagnostic
from pramana.errors import SolveError
from pramana.estimators.likelihood.maximization import (
    Maximum,
    Reached,
    StalledError,
    at_face_value,
    climb,
    em_step,
    far_out,
    nearest_dispersion,
)
from pramana.estimators.likelihood.observed import ObservedLikelihood, State, Theta

CLEAR = 5.0
"""Signal of every perturbed column from which one start is enough."""
ENOUGH = 20_000
"""Different rows of a channel from which the signal is judged, where records are added up in blocks."""
SHARE_STEPS = 30
"""EM steps for the shares of the levels."""
SCATTERED = 12
"""Random starts; with the face value and reversion's root they are screened by a few EM steps."""
SCREENING = 10
"""EM steps of a start before it is compared with the others; passes, where records are read in blocks."""
FINALISTS = 4
"""Screened starts that climb to the end, in every round."""
SWAPS = 10
"""Relabelings of the best maximum that are screened, in every round."""
SWAP_ROUNDS = 4
LARGE = 2e6
"""Entries of the design (records × combinations × coefficients) beyond which every climb takes seconds."""
RARE = -5.0
"""Smallest logit of a relabeled table: what was absent may come back."""
SEED = 20120
"""Of the random starts: a fit gives one answer."""
MARGIN = 10.0
"""Log-likelihood by which a maximum of a sample may be lower and still be the best one of all records."""
REACH = 2.0
"""A maximum whose log-likelihood is lower by no more than this is reported."""


class Where(Protocol):
    """A parameter value, and the log-likelihood there."""

    @property
    def theta(self) -> Theta: ...

    @property
    def value(self) -> float: ...


@dataclass(frozen=True)
class Search:
    """The best maximum, and what else was seen on the way.

    Attributes
    ----------
    tried : starts, of which `climbed` went to the end; the others were left behind after a few EM steps.
    others : maxima with other coefficients than the best and each other, the highest first.
    endless : the highest climb that found no maximum, or None.
    led : how many climbs led to each maximum, the best first.
    where : what is said of the records that were climbed, where these were not all of them.
    """

    best: Maximum
    tried: int = 1
    climbed: int = 1
    others: tuple[Maximum, ...] = ()
    endless: Reached | None = None
    led: tuple[int, ...] = ()
    where: str = ""

    @classmethod
    def of(
        cls, maxima: Sequence[Maximum], endless: Sequence[Reached], tried: int, followers: Sequence[Where] = ()
    ) -> Search:
        """From all maxima that were found, where other climbs ended, and climbs that were left because they led to maxima that others had found."""
        best, *rest = sorted(maxima, key=_depth)
        others: list[Maximum] = []
        for found in rest:
            if all(differ(found, known, best.information) for known in (best, *others)):
                others.append(found)
        higher = [reached for reached in endless if reached.value > best.value + 1e-3]
        climbs = (*maxima, *followers)
        led = tuple(sum(not differ(climb, top, best.information) for climb in climbs) for top in (best, *others))
        return cls(best, tried, len(maxima) + len(endless), tuple(others), min(higher, key=_depth, default=None), led)

    @property
    def once(self) -> int:
        """Maxima to which one climb led."""
        return sum(count == 1 for count in self.led)

    def unsettled(self, scale: float) -> bool:
        """Whether most climbs led to maxima that no other found, as the next one then would (Good 1953), the best one among them, and not far above
        the others."""
        alone = self.led[0] == 1 and sum(self.led) > FINALISTS and 2 * self.once > sum(self.led)
        return alone and (self.best.value - self.others[0].value) * scale <= MARGIN

    @property
    def facts(self) -> dict[str, str]:
        climbed = f", {self.climbed} of them to the end" if self.tried > 1 else ""
        return {"Starts": f"{self.tried}{climbed}{self.where}"}


def maximize(
    model: ObservedLikelihood,
    beta: Float | None = None,
    *,
    root: Callable[[], Float | None] = lambda: None,
    scale: float = 1.0,
) -> Search:
    """One climb where the noise leaves no doubt, or a start is given; else the best of several.

    The budget is 14 starts, and 10 more in each of at most four rounds that exchange labels, each with 10 EM steps; four of
    them in a round, and the first, climb to the end. With more than `LARGE` entries in the design it is the first,
    reversion's root, and the two best exchanges of labels.

    Parameters
    ----------
    root : gives the coefficients of another start, such as reversion's, or None; asked where several are tried.
    scale : records that a unit of weight is worth.
    """
    found = explored(model, beta, root=root, scale=scale)
    if found.refusal is not None:
        raise found.refusal
    return found.search()


def explored(
    model: ObservedLikelihood, beta: Float | None, *, root: Callable[[], Float | None], scale: float
) -> Explored:
    """All that was found from these starts, as in `maximize`."""
    first, found = model.evaluate(at_face_value(model, beta)), Explored(model)
    failure = found.climb(first)
    found.doubtful = beta is None and not is_clear(channel_counts(model), scale)
    if not found.doubtful:
        found.refusal = failure
        return found
    count, swaps, rounds = (SCATTERED, SWAPS, SWAP_ROUNDS) if model.data.design.size <= LARGE else (0, 2, 1)
    found.climb_best([*_started(model, root()), *islice(scattered(model, first), count)])
    if failure is not None and not found.height > failure.reached.value:
        found.refusal = failure
        return found
    for _ in range(rounds):
        before = found.height
        found.climb_best(sorted(relabeled(model, found.best.theta), key=_depth)[:swaps])
        if found.height <= before + 1e-6:
            break
    return found


def _started(model: ObservedLikelihood, beta: Float | None) -> list[State]:
    try:
        return [] if beta is None else [model.evaluate(at_face_value(model, beta))]
    except SolveError:  # no residual is left
        return []


def _depth(place: Where) -> float:
    return -place.value


class Explored:
    """Starts tried so far, and where they led.

    Attributes
    ----------
    refusal : the failure of the first start, where no maximum lies higher.
    doubtful : the records alone say too little of the levels for one start to be enough.
    """

    refusal: StalledError | None = None
    doubtful: bool = False

    def __init__(self, model: ObservedLikelihood) -> None:
        self.model = model
        self.deviation = model.data.design.std(axis=(0, 1))
        self.tried = 0
        self.maxima: list[Maximum] = []
        self.failures: list[StalledError] = []

    def climb(self, start: State) -> StalledError | None:
        """Go to the end; where there is no maximum, tell."""
        self.tried += 1
        try:
            self.maxima.append(climb(self.model, start))
        except StalledError as failure:
            self.failures.append(failure)
            return failure
        return None

    def climb_best(self, starts: Sequence[State]) -> None:
        """Some EM steps from each, and the most promising to the end: the two highest, and of the next those far from them."""
        for start in promising(list(filter(None, map(self._begun, starts))), self.deviation):
            with suppress(SolveError):  # no residual is left
                self.climb(start)
        self.tried += max(len(starts) - FINALISTS, 0)

    def _begun(self, state: State) -> State | None:
        try:
            for _ in range(SCREENING):
                state = em_step(self.model, state)
        except SolveError:  # no residual is left
            return None
        return state if np.isfinite(state.value) else None

    @property
    def best(self) -> Maximum:
        return max(self.maxima, key=lambda m: m.value)

    @property
    def height(self) -> float:
        return max((m.value for m in self.maxima), default=-np.inf)

    def search(self) -> Search:
        return Search.of(self.maxima, [failure.reached for failure in self.failures], self.tried)

    def finalists(self, scale: float, clear: bool) -> list[Theta]:
        """Where climbs over more records begin: the best maximum, others that these records can hardly tell from it, and a climb without end;
        where these records leave a doubt, the face value too. Where all of them leave one as well, or these have no maximum that counts, every
        maximum.

        Of two models of which a sample prefers the wrong one by g, the likelihood ratio has a mean of −g at best, and a standard deviation of
        about √(2g): with g = `MARGIN`, that takes √(2g) = 4.5 standard deviations.

        Parameters
        ----------
        scale : records that a unit of weight is worth.
        clear : whether the noise leaves no doubt over all records.
        """
        best: list[Reached] = []
        endless: list[Reached] = [] if self.refusal is None else [self.refusal.reached]
        if self.maxima:
            search = self.search()
            margin = MARGIN if clear and self.refusal is None else np.inf
            best = [m for m in (search.best, *search.others) if (search.best.value - m.value) * scale <= margin]
            endless = endless or ([] if search.endless is None else [search.endless])
        return [
            *(place.theta for place in (*best[:FINALISTS], *endless)),
            *([at_face_value(self.model)] if self.doubtful or self.refusal is not None else []),
        ]


WhereT = TypeVar("WhereT", bound=Where)


def promising(places: Sequence[WhereT], deviation: Float) -> list[WhereT]:
    """The two highest, and of the next those far from them, by coefficients times the standard deviations (d,) of their columns."""
    begun = sorted(places, key=_depth)
    chosen, rest = begun[:2], begun[2 : 2 * FINALISTS]
    while rest and len(chosen) < FINALISTS:
        apart = [min(_apart(place, known, deviation) for known in chosen) for place in rest]
        chosen.append(rest.pop(int(np.argmax(apart))))
    return chosen


def _apart(one: Where, other: Where, deviation: Float) -> float:
    return float(np.linalg.norm((one.theta.beta - other.theta.beta) * deviation))


def differ(one: Where, other: Where, information: Float) -> bool:
    """A coefficient apart by a tenth of the standard error that it would have at this information were all others known."""
    apart = np.abs(one.theta.beta - other.theta.beta)
    return not np.all(apart * np.sqrt(np.abs(np.diag(information)[: apart.size])) <= 0.1)


def other_maxima(model: ObservedLikelihood, found: Search, scale: float) -> list[Diagnostic]:
    """A diagnostic where the likelihood is as high elsewhere, or nearly so."""
    value, names = found.best.value, model.data.function.parameters
    start = f"the best of {found.tried} starts is shown (log-likelihood {value:.2f}), but"
    if found.endless is not None:
        far = far_out(model, found.endless.theta.beta)
        grows = f" as {', '.join(far)} grow without bound" if far else ""
        message = (
            f"{start} from another one the likelihood rises to {found.endless.value:.2f} and no maximum was found there{grows}: "
            "this one is local, and its standard errors do not tell; use more records, merge levels, or fewer terms"
        )
        return [Diagnostic("several-maxima", "warning", message)]
    rival = found.others[0] if found.others else None
    if rival is None or (value - rival.value) * scale > REACH:
        return [_unsettled(start, found)] if found.unsettled(scale) else []
    both = zip(names, rival.theta.beta, found.best.theta.beta, strict=True)
    there = ", ".join(f"{name!r} is {a:.4g} instead of {b:.4g}" for name, a, b in both)
    message = (
        f"{start} a second maximum lies only {value - rival.value:.2g} lower, where {there}: the data can hardly tell "
        "them apart, and the standard errors hold for one of them alone; use more records, merge levels, or look at the other "
        f"with start={np.round(rival.theta.beta, 4).tolist()}"
    )
    return [Diagnostic("several-maxima", "warning", message)]


def _unsettled(start: str, found: Search) -> Diagnostic:
    message = (
        f"{start} {found.once} of {sum(found.led)} climbs ended at maxima that no other found, this one among them: another start may lead "
        "higher; use more records, merge levels, or start= with a guess of yours or with the coefficients of method='reversion'"
    )
    return Diagnostic("several-maxima", "warning", message)


@dataclass(frozen=True)
class ChannelCounts:
    """What the released values of a column say of its levels by themselves; what two parts of the records say adds.

    Attributes
    ----------
    chances : Pr(released | level) of records (R, K).
    weights : of the records that have them (R,).
    response : whether the column is the response.
    """

    chances: Float
    weights: Float
    response: bool

    def __add__(self, other: ChannelCounts) -> ChannelCounts:
        chances, weights = (
            np.concatenate(pair) for pair in ((self.chances, other.chances), (self.weights, other.weights))
        )
        return ChannelCounts(chances, weights, self.response).merged()

    def merged(self) -> ChannelCounts:
        """Each row of chances once, rows that are in proportion being the same; of more than `ENOUGH` rows some, evenly spaced."""
        shares = np.round(self.chances / self.chances.sum(axis=1, keepdims=True), 12)
        rows, place = np.unique(shares, axis=0, return_inverse=True)
        weights = np.bincount(place.ravel(), weights=self.weights).astype(float)
        step = -(-len(rows) // ENOUGH)
        return ChannelCounts(rows[::step], weights[::step] * step, self.response)

    @property
    def signal(self) -> float:
        """σ √(n p), σ the smallest singular value of P, and p the share of a covariate's rarest level, or of all but the most common level
        of a response. The face value led to a lower maximum only where it was below 3.2."""
        channel, weights, size = self.chances, self.weights, self.chances.shape[1]
        share = np.full(size, 1 / size)
        for _ in range(SHARE_STEPS):
            share = share * (weights / (channel @ share) @ channel) / weights.sum()
        seen = channel / channel.mean(axis=1, keepdims=True)
        middle = np.eye(size) - 1 / size  # shares sum to one, which leaves one eigenvalue of zero
        values = np.linalg.eigvalsh(middle @ ((seen * weights[:, None]).T @ seen) @ middle)
        part = 1 - share.max() if self.response else share.min()
        return float(np.sqrt(max(values[1], 0.0) * part / size))


def is_clear(columns: Sequence[ChannelCounts], scale: float) -> bool:
    """Whether one start is enough, by the column in which the noise hides most; a unit of weight is worth so many records."""
    return min((column.signal for column in columns), default=np.inf) * float(np.sqrt(scale)) >= CLEAR


def channel_counts(model: ObservedLikelihood) -> tuple[ChannelCounts, ...]:
    """Of the hidden columns."""
    data = model.data
    columns = [(codes, False) for codes in _levels(model)[:, data.place]] if data.hides_covariates else []
    if np.ptp(data.responses[0]) > 0:
        columns.append((np.unique(data.responses[0], return_inverse=True)[1], True))
    return tuple(
        ChannelCounts(data.channel @ (codes[:, None] == np.arange(codes.max() + 1)), model.weights, response)
        for codes, response in columns
    )


def _levels(model: ObservedLikelihood) -> Int:
    """Code of every hidden covariate (rows) in the M combinations."""
    nodes = model.data.combinations
    places = [{v: i for i, v in enumerate(dict.fromkeys(node[name] for node in nodes))} for name in nodes[0]]
    return np.array([[place[node[name]] for node in nodes] for name, place in zip(nodes[0], places, strict=True)])


def relabeled(model: ObservedLikelihood, theta: Theta) -> Iterator[State]:
    """The same distribution with the levels of a hidden covariate exchanged."""
    return map(model.evaluate, relabelings(model, theta))


def relabelings(model: ObservedLikelihood, theta: Theta) -> Iterator[Theta]:
    """All permutations of three levels, pairs of more; the cells of a table may be others than the model's."""
    if not model.data.hides_covariates:
        return
    levels = _levels(model)
    place = {tuple(node): m for m, node in enumerate(levels.T)}
    eta = model.data.design @ theta.beta
    gamma = np.maximum(theta.gamma, RARE) if model.covariates.saturated else theta.gamma
    for column, codes in enumerate(levels):
        for order in _orders(int(codes.max()) + 1):
            moved = levels.copy()
            moved[column] = order[codes]
            new = [place.get(tuple(node), -1) for node in moved.T]
            if min(new) >= 0:  # a joint channel need not have every combination
                beta = _coefficients(model, eta[:, new])
                yield Theta(beta, theta.log_dispersion, gamma[:, new] - gamma[:, new[:1]])


def _orders(size: int) -> Iterator[Int]:
    if size <= 3:
        yield from (np.array(order) for order in islice(permutations(range(size)), 1, None))
        return
    for pair in combinations(range(size), 2):
        order = np.arange(size)
        order[list(pair)] = pair[::-1]
        yield order


def scattered(model: ObservedLikelihood, state: State) -> Iterator[State]:
    """Without end, starts whose levels lie apart at random, as far as the responses are spread around what is known."""
    rng, data, theta = np.random.default_rng(SEED), model.data, state.theta
    spread = _spread(model, state)
    levels = _levels(model) if data.hides_covariates else np.zeros((0, 1), dtype=int)
    deviation = data.design.std(axis=(0, 1))
    while True:
        eta = data.design @ theta.beta
        for codes in levels:
            scores = np.linspace(-1.2, 1.2, int(codes.max()) + 1)
            eta = eta + spread * (rng.permutation(scores) + 0.3 * rng.normal(size=scores.size))[codes]
        beta = _coefficients(model, eta)
        if not data.hides_covariates:
            beta = beta + np.where(deviation > 0, rng.normal(size=beta.size) / np.maximum(deviation, 1e-300), 0.0)
        yield model.evaluate(Theta(beta, nearest_dispersion(model, beta, theta.log_dispersion), theta.gamma))


def _coefficients(model: ObservedLikelihood, eta: Float) -> Float:
    """Least squares for linear predictors (n, M) without their offset."""
    flat = model.data.design.reshape(-1, model.data.design.shape[2])
    return np.asarray(np.linalg.solve(flat.T @ flat, flat.T @ eta.ravel()))


def _spread(model: ObservedLikelihood, state: State) -> float:
    """Standard deviation of the responses around their means, on the scale of the linear predictor."""
    mu, slope = (model.data.at_nodes(v) for v in state.curve[:2])
    share = state.posterior * model.weights[:, None]
    with np.errstate(all="ignore"):
        residual = (model.data.responses - mu) / slope
        found = float(np.sqrt(np.sum(share * residual**2) / share.sum()))
    return found if np.isfinite(found) else 1.0
