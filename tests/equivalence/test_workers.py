"""Workers that read the files by themselves give the answer of this process: pools of threads and processes, and a cluster of Dask."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import distributed
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from test_sources import BY_REGION, MECHANISM, QUESTIONS, SAMPLINGS, N

import pramana as pr
from pramana.analysis import streaming, transforms
from pramana.engines.executor import Sent
from pramana.engines.streaming import StreamEngine
from pramana.estimating import binned
from pramana.frames import cells, sources
from pramana.frames.sources import FileSource, source_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five files of several row groups, and the same as text with other separators."""
    from test_sources import data

    out, whole = tmp_path_factory.mktemp("pieces"), data.__wrapped__()
    for kind in ("parts", "texts"):
        (out / kind).mkdir()
    for k, rows in enumerate(np.array_split(np.arange(N), 5)):
        whole.iloc[rows].to_parquet(out / "parts" / f"part-{k}.parquet", index=False, row_group_size=90)
        whole.iloc[rows].to_csv(out / "texts" / f"part-{k}.csv", index=False, sep=";", decimal=",")
    return out


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "PIECE", 200)
    monkeypatch.setattr(streaming, "PILOT", 700)


@contextmanager
def _cluster(processes: bool) -> Iterator[distributed.Client]:
    options: Any = {"threads_per_worker": 1, "protocol": "tcp://", "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(n_workers=2, processes=processes, **options) as found,
        distributed.Client(found, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def cluster() -> Iterator[distributed.Client]:
    """Two workers in this process, to whom all the same everything is sent."""
    with _cluster(processes=False) as client:
        yield client


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("forkserver")) as pool:
        yield pool


def same(found: pr.Result, local: pr.Result) -> None:
    np.testing.assert_allclose(found.estimate, local.estimate, rtol=1e-9)
    np.testing.assert_allclose(found.standard_errors, local.standard_errors, rtol=1e-9)
    np.testing.assert_allclose(found.interval(), local.interval(), rtol=1e-9)
    assert (found.n, found.parameters, found.inference) == (local.n, local.parameters, local.inference)
    assert found.diagnostics == local.diagnostics


def both(what: Any, data: Any, engine: Any, mechanism: pr.Mechanism = MECHANISM, **options: Any) -> None:
    options = {"memory": 1, **options}
    same(pr.fit(what, data, mechanism, engine=engine, **options), pr.fit(what, data, mechanism, **options))


CASES = [
    ("parts", "covariate", "resampling", MECHANISM),
    ("texts", "covariate", "both", MECHANISM),
    ("texts", "mean", "resampled clusters", MECHANISM),
    ("parts", "total", "resampling", BY_REGION),
    ("parts", "share", "design", BY_REGION),
]


@pytest.mark.parametrize(
    ("kind", "question", "sampling", "mechanism"),
    [pytest.param(*case, marks=pytest.mark.engines if k else ()) for k, case in enumerate(CASES)],
    ids=lambda v: str(v)[:20],
)
def test_a_cluster_gives_the_answer_of_this_process(
    kind: str, question: str, sampling: str, mechanism: pr.Mechanism, folder: Path, cluster: distributed.Client
) -> None:
    what, options = QUESTIONS[question]
    both(what, folder / kind, pr.DaskEngine(cluster), mechanism, **options, **SAMPLINGS[sampling])


@pytest.mark.parametrize("question", ["response", "noisy column", "classes", "visits", "correlation", "subset"])
def test_any_executor_gives_the_answer_of_this_process(question: str, folder: Path) -> None:
    what, options = QUESTIONS[question]
    with ThreadPoolExecutor(2) as pool:
        both(what, folder / "parts", pool, **options, **SAMPLINGS["weights"])


@pytest.mark.engines
def test_knots_do_not_depend_on_pieces(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those of a sample, to which the ends of ranges belong: the same records, whatever batches they came in."""
    with ThreadPoolExecutor(2) as pool:
        found = [pr.fit("inc ~ bs(x, df=5)", folder / "parts", MECHANISM, memory=1, engine=e) for e in (pool, "local")]
        monkeypatch.setattr(sources, "BATCH", 37)
        found.append(pr.fit("inc ~ bs(x, df=5)", folder / "texts", MECHANISM, memory=1, engine=pool))
    for other in found[1:]:
        np.testing.assert_allclose(other.estimate, found[0].estimate, rtol=1e-7)


@pytest.mark.engines
def test_a_pool_of_processes_does(folder: Path, processes: ProcessPoolExecutor) -> None:
    both("inc ~ x + g", folder / "parts", processes, **SAMPLINGS["both"])
    both(pr.mean("y"), folder / "texts", pr.ExecutorEngine(processes, ahead=2))


@pytest.mark.engines
def test_quantiles_knots_and_likelihoods_travel(folder: Path, processes: ProcessPoolExecutor) -> None:
    both(pr.median("inc"), folder / "parts", processes)
    both("inc ~ bs(x, df=4)", folder / "parts", processes)
    both("y ~ x", folder / "parts", processes, method="likelihood", family="binomial")
    both("inc ~ x + edu", folder / "parts", processes, method="likelihood", clusters="firm")


def test_a_result_can_be_saved_whoever_added_up(folder: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        found = pr.fit("inc ~ x", folder / "parts", MECHANISM, memory=1, engine=pool)
    assert pickle.loads(pickle.dumps(found)).n == N


def test_dask_by_its_name_is_the_client_at_hand(folder: Path, cluster: distributed.Client) -> None:
    with cluster.as_current():
        both(pr.mean("y"), folder / "parts", "dask")


def test_cells_are_counted_by_the_workers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "ROWS", 1000)
    monkeypatch.setattr(StreamEngine, "__init__", None)
    monkeypatch.setattr(FileSource, "batches", _piecewise(FileSource.batches))
    mechanism = pr.Mechanism({"edu": MECHANISM.assignments[1].channel})
    with ThreadPoolExecutor(2) as pool:
        assert pr.fit(pr.mean("y", by="edu"), folder / "parts", mechanism, memory=1, engine=pool).n == N


def test_no_pass_reads_the_files_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first look at whether they fit into memory ends with the first batch."""
    monkeypatch.setattr(streaming, "taken", lambda *_, **__: None)
    monkeypatch.setattr("pramana.analysis.task.taken", lambda *_, **__: None)
    monkeypatch.setattr(FileSource, "batches", _piecewise(FileSource.batches))
    with ThreadPoolExecutor(2) as pool:
        for kind in ("parts", "texts"):
            assert pr.fit("inc ~ x", folder / kind, MECHANISM, memory=1, engine=pool).n == N


def _piecewise(true: Callable[..., Any]) -> Callable[..., Any]:
    def batches(self: FileSource, columns: Any) -> Any:
        assert len(self.files) == 1
        return true(self, columns)

    return batches


@pytest.mark.parametrize("kind", ["parts", "texts"])
def test_pieces_travel_and_hold_the_records_in_their_order(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)  # where the worker is not
    source = source_of(kind, {}, 1e9)
    assert source is not None
    pieces = source.pieces()
    assert pieces is not None
    monkeypatch.chdir("/")
    columns = ["x", "g", "firm"]
    pieces = pickle.loads(pickle.dumps(pieces))
    found = pa.Table.from_batches([batch for piece in pieces for batch in piece.batches(columns)])
    monkeypatch.chdir(folder)
    assert found.equals(pa.Table.from_batches(list(source.batches(columns))))
    assert len(pieces) == (15 if kind == "parts" else 5)
    assert sum(piece.counted() for piece in pieces) == N


@pytest.mark.engines
def test_what_travels_holds_no_records(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    true = Sent.of.__func__

    def seen(cls: Any, work: Any) -> Any:
        sent = true(cls, work)
        sizes.append(len(sent.code))
        return sent

    monkeypatch.setattr(Sent, "of", classmethod(seen))
    monkeypatch.setattr(streaming, "PILOT", N)
    for room in (binned, transforms):
        monkeypatch.setattr(room, "BINS", 50)
    with ThreadPoolExecutor(2) as pool:
        engine = pr.ExecutorEngine(_Strange(pool))  # type: ignore[arg-type]
        asked: list[tuple[Any, dict[str, Any]]] = [
            ("inc ~ x + edu", {}),
            ("inc ~ x + edu", SAMPLINGS["resampled clusters"]),
            ("inc ~ bs(x, df=4)", {}),
            (pr.median("inc"), {}),
            (pr.quantile_regression("inc ~ x"), {}),
            ("y ~ x", {"family": "binomial", "method": "likelihood"}),
            ("inc ~ g + edu", {"method": "likelihood"}),
        ]
        for what, options in asked:
            pr.fit(what, folder / "parts", MECHANISM, memory=1, engine=engine, **options)
    assert 0 < max(sizes) < 8 * N  # not even one column, nor the draws of the clusters


@dataclass(frozen=True)
class _Strange:
    """An executor that is no pool of threads, for all that anyone knows."""

    pool: ThreadPoolExecutor

    def submit(self, *given: Any) -> Any:
        return self.pool.submit(*given)


# Faults.


@dataclass(frozen=True)
class Faulty(pr.DaskEngine):
    """Something happens after a few answers of the third pass."""

    happens: Callable[[distributed.Client], None] = print
    passes: list[int] = field(default_factory=list)

    def answers(self, work: Any, jobs: Any) -> Any:
        self.passes.append(0)
        for k, answer in enumerate(super().answers(work, jobs)):
            if len(self.passes) == 3 and k == 2:
                self.happens(self.client)
            yield answer


def _killed(client: distributed.Client) -> None:
    pid = next(iter(client.run(os.getpid).values()))
    os.kill(pid, signal.SIGKILL)


@pytest.mark.engines
def test_a_worker_killed_in_the_middle_changes_nothing(folder: Path) -> None:
    with _cluster(processes=True) as cluster:
        before = set(cluster.run(os.getpid).values())
        engine = Faulty(cluster, happens=_killed)
        both("inc ~ x + edu", folder / "parts", engine, **SAMPLINGS["resampling"])
        cluster.wait_for_workers(2, timeout=30)
        assert len(before & set(cluster.run(os.getpid).values())) == 1


def _slowly(job: int) -> int:
    time.sleep(0.2)
    return job


@pytest.mark.engines
def test_a_cluster_whose_workers_all_leave_is_no_hang(folder: Path) -> None:
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as found,
        distributed.Client(found, set_as_default=False) as client,
    ):
        answers = pr.DaskEngine(client, timeout=0.5).answers(_slowly, range(5))
        assert next(answers) == 0
        found.sync(found.workers[0].close)
        with pytest.raises(pr.PramanaError, match=r"had no worker for 0\.5 seconds"):
            list(answers)
        with pytest.raises(pr.PramanaError, match=r"had no worker for 0\.5 seconds"):
            pr.fit("inc ~ x", folder / "parts", MECHANISM, memory=1, engine=pr.DaskEngine(client, timeout=0.5))


def test_a_cluster_that_is_not_there_is_named(folder: Path) -> None:
    engine = pr.DaskEngine("tcp://127.0.0.1:9", timeout=0.5)
    with pytest.raises(pr.PramanaError, match=r"no Dask scheduler answered at tcp://127.0.0.1:9 within 0\.5 seconds"):
        pr.fit("inc ~ x", folder / "parts", MECHANISM, memory=1, engine=engine)
    with pytest.raises(pr.PramanaError, match="knows no cluster"):
        pr.fit("inc ~ x", folder / "parts", MECHANISM, memory=1, engine="dask")


@pytest.mark.parametrize("greeting", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_whoever_listens_and_is_no_scheduler_is_waited_for_no_longer_than_stated(greeting: bytes, folder: Path) -> None:
    """Dask waits for ever for its first word, and takes any other for the length of a message."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        met: list[socket.socket] = []

        def answers() -> None:
            with contextlib.suppress(OSError):
                while True:
                    met.append(server.accept()[0])
                    met[-1].sendall(greeting)

        threading.Thread(target=answers, daemon=True).start()
        engine = pr.DaskEngine(f"tcp://127.0.0.1:{server.getsockname()[1]}", timeout=0.5)
        with ThreadPoolExecutor(1) as pool:
            fitted = pool.submit(pr.fit, "inc ~ x", folder / "parts", MECHANISM, memory=1, engine=engine)
            try:
                with pytest.raises(pr.PramanaError, match=r"no Dask scheduler answered at .* within 0\.5 seconds"):
                    fitted.result(timeout=30)
            finally:
                for one in met:
                    one.close()


@pytest.mark.parametrize(("address", "message"), [(5, "was given int"), ("tls://127.0.0.1:9", "no Dask scheduler")])
def test_an_address_that_dask_cannot_use_is_refused_in_words(address: Any, message: str, folder: Path) -> None:
    with pytest.raises(pr.PramanaError, match=message):
        pr.fit("inc ~ x", folder / "parts", MECHANISM, memory=1, engine=pr.DaskEngine(address, timeout=0.5))


def test_a_pool_that_was_shut_down_is_named(folder: Path) -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(pr.PramanaError, match="the pool of engine= takes no work"):
        pr.fit("inc ~ x", folder / "parts", MECHANISM, memory=1, engine=pool)


def test_a_broken_pool_is_named(folder: Path) -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("forkserver")) as pool:
        os.kill(pool.submit(os.getpid).result(), signal.SIGKILL)
        with pytest.raises(pr.PramanaError, match="a process of the pool died"):
            pr.fit("inc ~ x", folder / "parts", MECHANISM, memory=1, engine=pool)


def test_a_corrupt_row_group_is_named_by_the_worker(folder: Path, tmp_path: Path, cluster: distributed.Client) -> None:
    frame = pd.read_parquet(folder / "parts" / "part-0.parquet")
    for k in range(3):
        frame.to_parquet(tmp_path / f"part-{k}.parquet", index=False, row_group_size=90)
    path = tmp_path / "part-1.parquet"
    from pyarrow import parquet

    column = parquet.ParquetFile(path).metadata.row_group(3).column(0)
    content = bytearray(path.read_bytes())
    start = column.dictionary_page_offset or column.data_page_offset
    content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(bytes(content))
    with pytest.raises(pr.DataError, match=r"part-1\.parquet.*row group 3"):
        pr.fit("inc ~ x", tmp_path, MECHANISM, memory=1, engine=pr.DaskEngine(cluster))


def test_what_are_no_files_is_refused(folder: Path) -> None:
    lazy = pl.scan_parquet(folder / "parts" / "part-0.parquet")
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(pr.PramanaError, match="read files by themselves, and the lazy frame is none"):
            pr.fit("inc ~ x", lazy, MECHANISM, memory=1, engine=pool)
        assert pr.fit("inc ~ x", lazy, MECHANISM, engine=pool).n == 420  # which fits into memory


@pytest.mark.engines
def test_a_function_that_cannot_travel_is_named(folder: Path, processes: ProcessPoolExecutor) -> None:
    lock = multiprocessing.get_context("forkserver").Lock()

    def half(values: Any) -> Any:
        with lock:
            return values / 2

    with pytest.raises(pr.PramanaError, match="cannot travel"):
        pr.fit("inc ~ half(x)", folder / "parts", MECHANISM, memory=1, engine=processes, functions={"half": half})


@pytest.mark.parametrize("engine", ["local", pytest.param("cluster", marks=pytest.mark.engines)])
def test_a_dask_frame_is_its_partitions(folder: Path, engine: str, request: pytest.FixtureRequest) -> None:
    """Partitions of files, one of them empty and one with a gap, read here or by the workers of the frame's own cluster."""
    import dask.dataframe as dd

    whole = pd.concat([pd.read_parquet(path) for path in sorted((folder / "parts").iterdir())])
    whole.loc[whole["x"] > 2.5, "x"] = np.nan
    frame = dd.from_map(
        _part_of, range(5), folder=str(folder / "parts"), meta=_part_of(0, str(folder / "parts")).iloc[:0]
    )
    by = {} if engine == "local" else {"engine": pr.DaskEngine(request.getfixturevalue("cluster"))}
    clustered: dict[str, Any] = {"clusters": "firm", "inference": pr.Resampling(draws=20, seed=3)}
    drawn: dict[str, Any] = {"inference": pr.Resampling(draws=20, seed=3)}
    for what, options in (("inc ~ x + g", clustered), (pr.mean("inc", by="edu"), drawn))[: 1 if by else 2]:
        options = {"missing": "drop", "subset": "x < 1", **options}
        in_memory = pr.fit(what, whole, MECHANISM, **options)
        found = pr.fit(what, frame, MECHANISM, memory=1, **by, **options)
        np.testing.assert_allclose(found.estimate, in_memory.estimate, rtol=1e-9)
        np.testing.assert_allclose(found.standard_errors, in_memory.standard_errors, rtol=1e-8)
    assert pr.fit("inc ~ x", frame.repartition(npartitions=3), MECHANISM, missing="drop").n == whole["x"].notna().sum()


def _part_of(k: int, folder: str) -> pd.DataFrame:
    found = pd.read_parquet(sorted(Path(folder).iterdir())[k])
    return found.assign(x=found["x"].where(found["x"] <= 2.5))


def test_a_dask_frame_that_fails_is_the_users_to_mend(folder: Path) -> None:
    import dask.dataframe as dd

    frame = dd.from_map(
        _part_of, range(9), folder=str(folder / "parts"), meta=_part_of(0, str(folder / "parts")).iloc[:0]
    )
    with pytest.raises(pr.DataError, match="the Dask frame could not be read"):
        pr.fit("inc ~ x", frame, MECHANISM, missing="drop")
