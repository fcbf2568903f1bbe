"""From means to totals: a result in units of a population of known size."""

from __future__ import annotations

from dataclasses import replace

from pramana.result import Result


def multiplied(result: Result, size: float) -> Result:
    """The result for `size` times its parameters, the size taken as known."""
    squared = size**2
    return replace(
        result,
        estimate=result.estimate * size,
        covariance=result.covariance * squared,
        privacy=None if result.privacy is None else result.privacy * squared,
        sampling=None if result.sampling is None else result.sampling * squared,
        draws=None if result.draws is None else replace(result.draws, values=result.draws.values * size),
        bounds=None if result.bounds is None else result.bounds * size,
        facts={**result.facts, "Population size": f"{size:g}"},
    )
