"""Bands held by their diagonals, and level sets far beyond what a square array could hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pramana as pr
from pramana.mechanism.channels.matrix_forms import Banded, Dense, Form, Mixture
from pramana.mechanism.designs import structures
from pramana.mechanism.draws.keystream import SeededKeystream

K = 300


def pair(width: int, invariant: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[Banded, Dense]:
    """The same band by its diagonals and as an array."""
    shares = np.random.default_rng(3).dirichlet(np.full(K, 5.0))
    made = []
    for wide in (256, 1000):
        monkeypatch.setattr(structures, "WIDE", wide)
        options = {"width": width, "frequencies": shares, "invariant": invariant}
        made.append(pr.designs.band(range(K), 0.7, kind="numeric", **options).form)
    band, dense = made
    assert isinstance(band, Banded)
    assert isinstance(dense, Dense)
    return band, dense


def agree(one: Form, other: Form) -> None:
    """Every hook of a form gives what the array gives."""
    rng = np.random.default_rng(4)
    size = one.size
    table, codes = rng.normal(size=(size, 2)), rng.integers(0, size, 40)
    true = rng.integers(0, size, 400)
    released = np.clip(true + rng.integers(-4, 5, 400), 0, size - 1)
    np.testing.assert_allclose(one.matrix, other.matrix, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(one.inverse, other.inverse, atol=1e-9)
    np.testing.assert_allclose(one.diagonal, other.diagonal, rtol=1e-12)
    np.testing.assert_allclose(one.largest, other.largest, rtol=1e-12)
    np.testing.assert_allclose(one.moved(table), other.moved(table), atol=1e-12)
    np.testing.assert_allclose(one.moved(table[:, 0]), other.moved(table[:, 0]), atol=1e-12)
    np.testing.assert_allclose(one.moved_squares(table), other.moved_squares(table), atol=1e-12)
    np.testing.assert_allclose(one.revert_table(table), other.revert_table(table), atol=1e-9)
    np.testing.assert_allclose(one.revert_rows(codes), other.revert_rows(codes), atol=1e-9)
    np.testing.assert_allclose(one.rows(codes), other.rows(codes), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(one.rows(codes, slice(3, 9)), other.rows(codes, slice(3, 9)), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(one.entries(released, true), other.entries(released, true), rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(one.groups(), other.groups())
    assert one.condition_number == pytest.approx(other.condition_number, rel=1e-3)
    assert one.epsilon == pytest.approx(other.epsilon)
    assert one.epsilon_within == pytest.approx(other.epsilon_within)


@pytest.mark.parametrize("invariant", [False, True])
@pytest.mark.parametrize("width", [1, 2, 20])
def test_a_band_by_its_diagonals_is_the_array(width: int, invariant: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    band, dense = pair(width, invariant, monkeypatch)
    agree(band, dense)
    codes = np.arange(K).repeat(40)
    drawn = band.draw(codes, SeededKeystream(3))
    np.testing.assert_array_equal(drawn, Dense(band.matrix).draw(codes, SeededKeystream(3)))
    assert np.abs(drawn - codes).max() == width


@pytest.mark.parametrize("refill", [0.0, 0.4])
@pytest.mark.parametrize("zero", [False, True])
def test_a_mixture_is_the_array(refill: float, zero: bool) -> None:
    shares = np.random.default_rng(5).dirichlet(np.full(12, 3.0))
    if zero:
        shares[2] = 0.0
        shares /= shares.sum()
    mixture = Mixture(refill, shares)
    agree(mixture, Dense(mixture.matrix))


@pytest.mark.parametrize("make", [
    lambda levels: pr.designs.band(levels, 0.7, width=3, kind="nominal"),
    lambda levels: pr.TransitionMatrix.invariant(levels, np.random.default_rng(6).dirichlet(np.full(K, 2.0)), 0.7, kind="nominal"),
    lambda levels: pr.TransitionMatrix.randomized_response(levels, 1.0, kind="nominal"),
])  # fmt: skip
def test_risk_does_not_depend_on_the_form(make) -> None:  # type: ignore[no-untyped-def]
    """Closed forms and narrow blocks say what the whole array says, level by level."""
    levels = list(range(K))
    made = make(levels)
    dense = pr.TransitionMatrix.from_columns(levels, made.matrix, kind="nominal")
    rng = np.random.default_rng(7)
    z = rng.choice(K - 5, 900, p=rng.dirichlet(np.full(K - 5, 0.5)))
    released = pr.Mechanism({"z": made}).perturb({"z": z})
    one, other = (pr.risk({"z": z}, pr.Mechanism({"z": m}), released=released) for m in (made, dense))
    first, second = one["z"], other["z"]
    for mine, theirs in zip(first.levels, second.levels, strict=True):
        assert (mine.released, mine.exposed, mine.ruled_out) == (theirs.released, theirs.exposed, theirs.ruled_out)
        numbers = [(v.share, v.prior, v.posterior, v.odds_factor, v.bound) for v in (mine, theirs)]
        assert numbers[0] == pytest.approx(numbers[1])
    assert first.exposure.mean == pytest.approx(second.exposure.mean)
    assert first.exposure.largest == pytest.approx(second.exposure.largest)
    assert first.realised == pytest.approx(second.realised)
    assert (first.blocks, first.zeros) == (second.blocks, second.zeros)
    assert one.utility.tables[0].moved == pytest.approx(other.utility.tables[0].moved)
    assert one.utility.tables[0].chi_square == pytest.approx(other.utility.tables[0].chi_square)


def test_a_long_band_from_design_to_fit(tmp_path: Path) -> None:
    """21 000 levels: minutes and gigabytes as an array, which is refused where it would be needed."""
    import pandas as pd

    size = 21_000
    z = np.random.default_rng(8).integers(0, size, 3000)
    pd.DataFrame({"z": z}).to_parquet(tmp_path / "true.parquet")
    mechanism = pr.Mechanism({"z": pr.designs.band(range(size), 0.6, width=2, kind="numeric")})
    assert pr.risk(tmp_path / "true.parquet", mechanism)["z"].epsilon_within == pytest.approx(np.log(6), rel=0.1)
    pr.release(tmp_path / "true.parquet", tmp_path / "public.parquet", mechanism, card=True, allow=["rare-levels"])
    assert pr.audit(tmp_path / "public.parquet").clean
    result = pr.fit(pr.mean("z"), tmp_path / "public.parquet", "auto")
    assert abs(result.estimate[0] - z.mean()) < 5 * result.standard_errors[0]
    assert pr.Mechanism.load(tmp_path / "public.parquet") == mechanism


def test_many_levels_from_design_to_fit(tmp_path: Path) -> None:
    """30 000 levels under randomised response, 7 GB as an array, through the file of a design."""
    import pandas as pd

    size = 30_000
    z = np.random.default_rng(9).integers(0, size, 2000)
    pd.DataFrame({"z": z}).to_parquet(tmp_path / "true.parquet")
    design = tmp_path / "d.toml"
    design.write_text(f'[columns.z]\nkeep = 0.8\nkind = "numeric"\nlevels = {list(range(size))}\n')
    report = pr.risk(tmp_path / "true.parquet", design)
    assert report["z"].levels[0].bound == pytest.approx(0.8 / (0.2 / (size - 1)))
    assert pr.frontier(tmp_path / "true.parquet", "z", [0.5], levels={"z": range(size)}, kind="numeric").points
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix.randomized_response(range(size), 0.8, kind="numeric")})
    pr.release(tmp_path / "true.parquet", tmp_path / "public.parquet", mechanism, card=True, allow=["rare-levels"])
    result = pr.fit(pr.mean("z"), tmp_path / "public.parquet", "auto")
    assert abs(result.estimate[0] - z.mean()) < 5 * result.standard_errors[0]


@pytest.mark.parametrize(("changes", "message"), [
    ({"width": 2}, r"shape \(3, 4\): give 5 × 4"),
    ({"width": 3}, "the width being from 1 to 2"),
    ({"diagonals": [[0, 0.2, 0.2, 0.2], [0.8, 0.6, 0.6, 0.8]]}, "shape"),
    ({"diagonals": [[0.1, 0.2, 0.2, 0.2], [0.7, 0.6, 0.6, 0.8], [0.2, 0.2, 0.2, 0]]}, "beyond the first or the last"),
    ({"diagonals": [[0, 0.2, 0.2, 0.2], [0.8, 0.5, 0.6, 0.8], [0.2, 0.2, 0.2, 0]]}, "column 1 .* sums to 0.9"),
    ({"diagonals": [[0, -0.2, 0.2, 0.2], [0.8, 1, 0.6, 0.8], [0.2, 0.2, 0.2, 0]]}, "outside"),
    ({"diagonals": [[0, 0.2], [0.8, 0.6, 0.6, 0.8]]}, "lists of numbers"),
    ({"diagonals": [[0, 0.5, 0.5, 0.5], [0.5, 0, 0, 0.5], [0.5, 0.5, 0.5, 0]]}, "singular"),
])  # fmt: skip
def test_a_broken_band_is_refused(changes: dict[str, object], message: str) -> None:
    good = [[0, 0.2, 0.2, 0.2], [0.8, 0.6, 0.6, 0.8], [0.2, 0.2, 0.2, 0]]
    document = {"channel": "band", "levels": list("abcd"), "width": 1, "diagonals": good}
    assert pr.TransitionMatrix.from_document(document).document()["diagonals"] == good
    with pytest.raises(pr.MechanismError, match=message):
        pr.TransitionMatrix.from_document({**document, **changes})


def test_what_needs_a_square_array_is_refused_at_once() -> None:
    with pytest.raises(pr.MechanismError, match="30000 levels is above the limit of 20000: use randomised response"):
        pr.designs.restricted(range(30_000), 0.8)


def test_blocks_of_many_levels_are_checked_quickly() -> None:
    """Members are looked up, not searched for."""
    made = pr.designs.blocks(range(600), [list(range(k, k + 2)) for k in range(0, 600, 2)], epsilon=1.0, kind="nominal")
    assert made.form.epsilon_within == pytest.approx(1.0)
