"""Whether records are collapsed to cells depends on all of their values, and not on which of them come first."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pramana.frames import cells, sources
from pramana.frames.sources import DatasetSource


@pytest.mark.parametrize("varied", ["first", "last", "nowhere"])
@pytest.mark.parametrize("batch", [300, 5000])
def test_many_values_are_seen_wherever_they_stand(varied: str, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa
    from pyarrow import dataset

    monkeypatch.setattr(cells, "LEVELS", 50)
    monkeypatch.setattr(cells, "ROWS", 100)
    monkeypatch.setattr(sources, "BATCH", batch)
    n = 2000
    values = np.arange(n) % 4
    if varied == "first":
        values[:200] = np.arange(200)
    if varied == "last":
        values[-200:] = np.arange(200)
    table = pa.table({"x": values.astype(float), "g": pd.Categorical(np.array(["a", "b"])[values % 2])})
    found = cells.cells(DatasetSource(dataset.dataset(table)), ["x", "g"])
    if varied != "nowhere":
        assert found is None
    else:
        assert found is not None
        assert found[1].tolist() == [500] * 4
