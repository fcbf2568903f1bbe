"""Searches that go side by side over records which are read in passes: a pass answers what all of them ask at the same time.

A search is a function that asks for sums at one parameter value after the other. Each has a thread of its own, which waits when it asks; once
all of them wait, or are done, one pass answers every question, and they go on. What a search finds does not depend on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Condition
from typing import Generic, TypeAlias, TypeVar

from pramana.arrays import Float
from pramana.engines import Engine, Totals, Weights
from pramana.errors import SolveError

MOST = 256
"""Searches that go side by side."""

PATIENCE = 2.0
"""Seconds without a new question after which those that were asked are answered."""

T = TypeVar("T")


Extra: TypeAlias = Callable[[Sequence[Float]], list[Float | SolveError]]
"""Variance of the score at several parameter values that the records do not show, or why there is none."""


@dataclass(frozen=True)
class ScoreAndVariance:
    """Score (d,), its slope and its variance (d, d), of all records at one value."""

    score: Float
    slope: Float
    meat: Float

    @classmethod
    def of(cls, totals: Totals | SolveError, added: Float | SolveError | None) -> ScoreAndVariance | SolveError:
        """With whatever is added to the variance."""
        if isinstance(totals, SolveError):
            return totals
        if isinstance(added, SolveError):
            return added
        return cls(totals.score, totals.slope, totals.meat if added is None else totals.meat + added)


class Together(Generic[T]):
    """An engine, as several searches ask it.

    Parameters
    ----------
    extra : variance of the score that the records do not show.
    """

    def __init__(self, engine: Engine, extra: Extra | None = None) -> None:
        self.engine, self.extra = engine, extra
        self.known: dict[bytes, ScoreAndVariance | SolveError] = {}
        self._wanted: dict[bytes, Float] = {}
        self._changed = Condition()
        self._under_way: set[bytes] = set()
        self._searching = self._waiting = 0
        self._broken: BaseException | None = None

    @property
    def d(self) -> int:
        return self.engine.d

    @property
    def own(self) -> Weights:
        return self.engine.own

    def spread(self, beta: Float, weights: Weights) -> Float:
        return self.engine.spread(beta, weights)

    def sums(self, beta: Float) -> ScoreAndVariance:
        """Those of the next pass, unless an earlier one told them."""
        self.ask(beta[None])
        found = self.known[beta.tobytes()]
        if isinstance(found, SolveError):
            raise found
        return found

    def ask(self, betas: Float) -> None:
        """Wait until the sums at these values (k, d) are known, if they are not."""
        with self._changed:
            asked = {beta.tobytes(): beta.copy() for beta in betas if beta.tobytes() not in self.known}
            if asked:
                self._wanted |= {key: beta for key, beta in asked.items() if key not in self._under_way}
                self._waiting += 1
                self._changed.notify_all()
                self._changed.wait_for(lambda: asked.keys() <= self.known.keys() or self._broken is not None)
            if self._broken is not None:
                raise self._broken

    def score_and_slope(self, beta: Float) -> tuple[Float, Float]:
        found = self.sums(beta)
        return found.score[None], found.slope[None]

    def searched(self, searches: Sequence[Callable[[], T]]) -> list[T]:
        """What each search finds, in their order."""
        out: list[T] = []
        for low in range(0, len(searches), MOST):
            out += self._side_by_side(searches[low : low + MOST])
        return out

    def _side_by_side(self, searches: Sequence[Callable[[], T]]) -> list[T]:
        self._searching = len(searches)
        with ThreadPoolExecutor(len(searches)) as pool:
            found = [pool.submit(self._one, search) for search in searches]
            try:
                while wanted := self._next():
                    self._answer(wanted)
            except BaseException as error:
                self._break_off(error)
                raise
            return [one.result() for one in found]

    def _one(self, search: Callable[[], T]) -> T:
        try:
            return search()
        finally:
            with self._changed:
                self._searching -= 1
                self._changed.notify_all()

    def _next(self) -> list[Float]:
        """What is asked once every search waits; nothing when all are done. Should one of them wait for another, those that ask are answered after
        a while."""
        with self._changed:
            while self._searching:
                self._changed.wait_for(lambda: self._waiting >= self._searching, PATIENCE)
                if self._wanted:
                    break
            wanted = list(self._wanted.values())
            self._under_way = set(self._wanted)
            self._wanted.clear()
            return wanted

    def _answer(self, wanted: list[Float]) -> None:
        totals = self.engine.totals_at(wanted)
        added = [None] * len(wanted) if self.extra is None else self.extra(wanted)
        found = map(ScoreAndVariance.of, totals, added)
        with self._changed:
            self.known |= {beta.tobytes(): one for beta, one in zip(wanted, found, strict=True)}
            self._under_way = set()
            self._waiting = 0  # whoever asked in the meantime is answered after a while
            self._changed.notify_all()

    def _break_off(self, error: BaseException) -> None:
        with self._changed:
            self._broken = error
            self._changed.notify_all()
