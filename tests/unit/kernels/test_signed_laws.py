"""The signed law that undoes noise added now and then, beside its series summed term by term."""

from __future__ import annotations

from math import comb, erf, factorial

import numpy as np
import pytest

from pramana.kernels.signed_laws import LaplaceLaw, signed_law

X = np.array([-7.3, -2.01, -0.4, 0.0, 0.013, 1.2, 3.9, 11.0])


def normal_sum(x: float, k: int) -> tuple[float, float]:
    """Density and distribution function of k normal numbers added."""
    sd = k**0.5
    return np.exp(-(x**2) / (2 * k)) / sd / (2 * np.pi) ** 0.5, (1 + erf(x / sd / 2**0.5)) / 2


def uniform_sum(x: float, k: int) -> tuple[float, float]:
    """The same of k numbers uniform between −1 and 1, by Irwin and Hall."""
    parts = [((-1) ** j * comb(k, j), max((x + k) / 2 - j, 0.0)) for j in range(k + 1)]
    density = sum(c * (up ** (k - 1) if k > 1 else float(up > 0)) for c, up in parts) / factorial(k - 1) / 2
    return density, sum(c * up**k for c, up in parts) / factorial(k)


@pytest.mark.parametrize(
    ("uniform", "keep", "most"),
    [(False, 0.55, 400), (False, 0.7, 200), (False, 0.95, 60), (True, 0.85, 14), (True, 0.95, 12)],
)
def test_the_law_is_its_series(uniform: bool, keep: float, most: int) -> None:
    """Of uniform numbers few terms, for the powers of Irwin and Hall cancel; what is left out of the series is known."""
    added = uniform_sum if uniform else normal_sum
    odds = (1 - keep) / keep
    law = signed_law(keep, uniform)
    left = odds**most / keep
    x = X[np.abs(X) < 5] + 0.007 if uniform else X
    for order, part in ((3, 0), (2, 1)):
        slow = [sum((-odds) ** (k - 1) / keep * added(v, k)[part] for k in range(1, most + 1)) for v in x]
        np.testing.assert_allclose(law.at(x, order), slow, atol=1e-11 + left)


@pytest.mark.parametrize("law", [LaplaceLaw(), signed_law(0.6, False), signed_law(0.8, True)], ids=str)
def test_each_order_is_the_derivative_of_the_one_before(law: LaplaceLaw) -> None:
    x, h = X + 0.0301, 1e-4
    for order in range(3):
        slope = (law.at(x + h, order) - law.at(x - h, order)) / (2 * h)
        np.testing.assert_allclose(slope, law.at(x, order + 1), atol=2e-7)
    far = np.array([60.0])
    assert law.at(far, 2) == pytest.approx(1.0, abs=1e-14)
    assert law.at(-far, 0) == pytest.approx(0.0, abs=1e-14)
