"""Sums on a cluster of Dask, whose workers read the files by themselves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from threading import Event
from typing import Any, TypeVar

from pramana.engines.executor import Sent
from pramana.errors import PramanaError
from pramana.frames.workers import Workers, in_order

J = TypeVar("J")
T = TypeVar("T")
POLL = 1.0
"""Seconds after which an answer that is not there makes one look whether anyone still works on it."""


@dataclass(frozen=True)
class DaskEngine(Workers):
    """Pieces of files, read and added up by the workers of a Dask cluster. A piece whose worker is lost is done again by another.

    Attributes
    ----------
    client : a `distributed.Client`, or the address of a scheduler such as "tcp://host:8786"; by default the client that this
        process made last, or else the scheduler that Dask is configured for (`DASK_SCHEDULER_ADDRESS`).
    timeout : seconds that may pass until the scheduler answers, and that it may be without workers.
    """

    client: Any = None
    timeout: float = 30.0

    def answers(self, work: Callable[[J], T], jobs: Iterable[J]) -> Iterator[T]:
        client, sent = self._connected(), Sent.of(work)
        most = max(16, 4 * self._cores(client))
        yield from in_order(
            lambda job: client.submit(sent, job, pure=False), jobs, most, lambda future: self._result(client, future)
        )

    def _connected(self) -> Any:
        try:
            import distributed
        except ImportError:
            raise PramanaError("engine='dask' needs the package distributed: pip install 'pramana[dask]'") from None
        if isinstance(self.client, distributed.Client):
            client = self.client
        else:
            client = _client(distributed, self.client, self.timeout)
        try:
            client.wait_for_workers(1, timeout=self.timeout)
        except TimeoutError:
            raise self._deserted(client) from None
        except (OSError, ValueError, RuntimeError):
            raise self._lost() from None
        return client

    def _result(self, client: Any, future: Any) -> Any:
        """The answer, unless nobody is left to give it. It is asked for once it is there, and may be lost again with its worker."""
        import distributed

        seen, answered = time.monotonic(), Event()
        future.add_done_callback(lambda _: answered.set())
        while True:
            if answered.wait(POLL):
                try:
                    return future.result(timeout=POLL)
                except distributed.KilledWorker:
                    raise PramanaError(
                        "several Dask workers died over the same piece of a file: do they run out of memory? Give them more, or fewer threads"
                    ) from None
                except distributed.CancelledError:
                    raise self._lost() from None
                except TimeoutError:
                    if future.status == "error":  # the work's own
                        raise
                except UnboundLocalError:  # of Dask, whose answer was lost while it was fetched
                    pass
            if self._cores(client):
                seen = time.monotonic()
            elif time.monotonic() - seen > self.timeout:
                raise self._deserted(client)

    def _cores(self, client: Any) -> int:
        try:
            return sum(client.nthreads().values())
        except (OSError, RuntimeError):
            raise self._lost() from None

    def _lost(self) -> PramanaError:
        return PramanaError("the Dask client is closed or lost its scheduler: connect anew, and fit again")

    def _deserted(self, client: Any) -> PramanaError:
        return PramanaError(
            f"the Dask scheduler {client.scheduler.address} had no worker for {self.timeout:g} seconds: start workers, or raise timeout= of "
            "DaskEngine"
        )


def _client(distributed: Any, address: str | None, timeout: float) -> Any:
    """The client of a scheduler, the last one made where there is one."""
    import dask

    address = address or dask.config.get("scheduler-address", None)
    if not isinstance(address, str | None):
        raise PramanaError(
            f"DaskEngine takes a distributed.Client or the address of a scheduler, and was given {type(address).__name__}"
        )
    try:
        if address and _is_new(distributed, address):
            _greet(distributed, address, timeout)
        return distributed.get_client(address, timeout=timeout)
    except ValueError:
        raise PramanaError(
            f"engine='dask' knows no cluster (address {address!r}): make a distributed.Client(...) before, set DASK_SCHEDULER_ADDRESS, or "
            "give engine=DaskEngine('tcp://host:8786')"
        ) from None
    except (
        OSError,
        TypeError,
        MemoryError,
    ):  # of whoever listens there and is none, Dask reads any number for a length
        raise PramanaError(
            f"no Dask scheduler answered at {address} within {timeout:g} seconds: is it running, and is the address right?"
        ) from None


def _is_new(distributed: Any, address: str) -> bool:
    """Whether a client would be made for the address: neither a task of Dask asks, nor is there one already."""
    with suppress(ValueError):
        distributed.get_worker()
        return False
    with suppress(ValueError):
        known = distributed.Client.current().scheduler
        return known is None or known.address != address
    return True


def _greet(distributed: Any, address: str, timeout: float) -> None:
    """Exchange the first words with a scheduler: a client would wait for them for ever where whoever listens says nothing."""
    from distributed.comm.core import connect

    async def exchanged() -> None:
        known = distributed.Security().get_connection_args("client")
        met = await asyncio.wait_for(connect(address, timeout=timeout, **known), timeout)  # type: ignore[no-untyped-call]
        await met.close()

    with ThreadPoolExecutor(1) as pool:  # a notebook has a loop of its own in this thread
        pool.submit(lambda: asyncio.run(exchanged())).result()
