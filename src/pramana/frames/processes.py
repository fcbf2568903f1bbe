"""Processes of our own that work on jobs, each a fresh interpreter: nothing of the caller's program runs in them.

Jobs and answers go through pipes, where nobody else reads them. A process ends with whoever started it, however that ends; what it
says on its own goes nowhere, for it may hold confidential values.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import Any, BinaryIO

from pramana.errors import PramanaError, PramanaWarning, confidential
from pramana.frames.workers import AHEAD, J, T, Workers, in_order

_SERVE = "from pramana.frames.processes import serve; serve()"


@dataclass(frozen=True)
class Processes(Workers):
    """So many processes; with one, the work is done here."""

    count: int

    def answers(self, work: Callable[[J], T], jobs: Iterable[J]) -> Iterator[T]:
        """`work` is a function of a module, which the processes import."""
        if self.count == 1:
            yield from map(work, jobs)
            return
        with ExitStack() as stack:
            pool = stack.enter_context(ThreadPoolExecutor(self.count))
            idle: SimpleQueue[Any] = SimpleQueue()
            for _ in range(self.count):
                idle.put(stack.enter_context(_started()))

            def asked(job: J) -> Any:
                process = idle.get()
                try:
                    return _asked(process, (work, job))
                finally:
                    idle.put(process)

            yield from in_order(lambda job: pool.submit(asked, job), jobs, AHEAD * self.count, _found)


@contextmanager
def _started() -> Iterator[Any]:
    """A process that waits for jobs, with the modules that this one finds; killed at the end, whatever it does."""
    known = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=known,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with suppress(OSError):  # what was not sent is not missed
                pipe.close()


def _asked(process: Any, question: tuple[Callable[[Any], Any], Any]) -> Any:
    try:
        pickle.dump(question, process.stdin)
        process.stdin.flush()
        return pickle.load(process.stdout)
    except (EOFError, OSError, pickle.UnpicklingError):
        code = process.wait()
        said = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise PramanaError(
            f"a process that worked on one of the files ended in the middle ({said}): is there enough memory? Take fewer (jobs=)"
        ) from None


def _found(future: Future[Any]) -> Any:
    """What a process answered, with its warnings; its error is ours."""
    failed, found, told = future.result()
    for text in told:
        warnings.warn(text, PramanaWarning, stacklevel=4)
    if failed:
        raise found
    return found


def serve() -> None:
    """Answer jobs, until nobody is there to ask."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asked decides what an interrupt means
    jobs, out = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    waiting: SimpleQueue[Any] = SimpleQueue()
    Thread(target=_listen, args=(jobs, waiting), daemon=True).start()
    while True:
        pickle.dump(_answer(*waiting.get()), out)
        out.flush()


def _listen(jobs: BinaryIO, waiting: SimpleQueue[Any]) -> None:
    """At the end of the pipe whoever asked is gone, and the work with it."""
    try:
        while True:
            waiting.put(pickle.load(jobs))
    finally:
        os._exit(1)


def _answer(work: Callable[[Any], Any], job: Any) -> tuple[bool, Any, list[str]]:
    """Whether it failed, the answer or the error, and what was warned of; no value of the data is in error or warnings."""
    found: Any
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", PramanaWarning)
        try:
            failed, found = False, confidential(work)(job)
        except PramanaError as error:
            failed, found = True, error
    return failed, found, [str(one.message) for one in told if issubclass(one.category, PramanaWarning)]
