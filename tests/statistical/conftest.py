"""What a short run leaves to the long one."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    """Of the simulations of a file, the first runs short, in its first setting; `make verify` runs all of them long.

    Only what has a long twin is left out: the same test and setting, with more replicates.
    """
    if "not verify" not in config.option.markexpr:
        return
    long = {_setting(item) for item in items if item.get_closest_marker("verify")}
    tests = {setting[0] for setting in long}
    seen: set[Any] = set()
    left: set[Any] = set()
    for item in items:
        if _test(item) not in tests or item.get_closest_marker("verify") or _setting(item) not in long:
            continue
        if item.path in seen:
            left.add(item)
        seen.add(item.path)
    config.hook.pytest_deselected(items=[item for item in items if item in left])
    items[:] = [item for item in items if item not in left]


def _test(item: Any) -> Any:
    return item.function if hasattr(item, "function") else item


def _setting(item: Any) -> Any:
    """The test and its parameters but for the length of the run."""
    given = item.callspec.params if hasattr(item, "callspec") else {}
    return _test(item), *(repr(v) for k, v in sorted(given.items()) if k not in ("replicates", "n"))
