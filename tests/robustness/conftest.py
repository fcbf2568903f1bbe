"""Plans are tried on few files here: what is tested is what they refuse and show, not their numbers."""

import pytest


@pytest.fixture(autouse=True)
def _few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pramana.disclosure.planning.simulated.BUDGET", 0)
