"""Workers of a Dask cluster write logs of their own, in which no value of a confidential frame shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dask.dataframe as dd
import distributed
import pandas as pd
import pytest

import pramana as pr

SECRET = "zqx" + "secret"
LEVELS = ("low", "high")
MECHANISM = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(LEVELS, 0.8)})


@pytest.fixture(scope="module")
def client() -> Iterator[distributed.Client]:
    options: Any = {"n_workers": 1, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as found:
        yield found


def strict(part: pd.DataFrame) -> pd.DataFrame:
    """As a reader that stumbles over a field."""
    if len(part) and (part["edu"] == "low").all():
        raise ValueError(f"could not convert {part['town'].iloc[0]!r}")
    return part


def frame() -> Any:
    whole = pd.DataFrame({"edu": ["high", "low"] * 10 + ["low"] * 20, "town": [f"{SECRET}{k % 3}" for k in range(40)]})
    return dd.from_pandas(whole, npartitions=2)


def logs(client: distributed.Client) -> str:
    return str(client.get_worker_logs()) + str(client.cluster.get_logs())


def test_no_worker_logs_a_value(client: distributed.Client) -> None:
    broken = frame().map_partitions(strict, meta=frame()._meta)
    for call in (
        lambda: pr.risk(broken, MECHANISM, keys=["town"]),
        lambda: pr.frontier(broken, "edu", keys=["town"]),
    ):
        with pytest.raises(pr.PramanaError) as caught:
            call()
        assert SECRET not in str(caught.value)
    assert "withheld" in logs(client)
    assert SECRET not in logs(client)
    found = pr.risk(frame(), MECHANISM, keys=["town"])
    assert found.linkage is not None
    assert found.n == 40
    with pytest.raises(ValueError, match=SECRET):  # afterwards workers say what they like, so that the test could fail
        broken.compute()
    assert SECRET in logs(client)
