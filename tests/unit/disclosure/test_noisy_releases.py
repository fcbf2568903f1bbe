"""Columns with noise in a release: files streamed, keyed and by stratum, what is published of them, and what is refused."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.disclosure.release.streaming import Moments
from pramana.frames.blocks import csv_files, parquet_files

pa = pytest.importorskip("pyarrow")
AGE = pr.GeometricNoise(3.0, bounds=(18, 90))
WAGE = pr.LaplaceNoise(4.0, bounds=(0, 200))
EDU = pr.TransitionMatrix.randomized_response(["low", "high"], 0.8)
M = pr.Mechanism({"age": AGE, "wage": WAGE, "edu": EDU})
NOISES: dict[str, Any] = {
    "laplace": WAGE,
    "geometric": pr.GeometricNoise(3.0, step=0.5, bounds=(0, 200)),
    "keep or noise": pr.KeepOrNoise(0.4, pr.GeometricNoise(3.0, step=0.25)),
    "gaussian": pr.GaussianNoise(5.0, bounds=(0, 200)),
    "keep or uniform": pr.KeepOrNoise(0.6, pr.UniformNoise(30.0)),
    "discrete gaussian": pr.DiscreteGaussianNoise(5.0, bounds=(0, 200)),
    "uniform": pr.UniformNoise(10.0),
    "by stratum": pr.Stratified("region", {"n": pr.GeometricNoise(2.0), "s": pr.GeometricNoise(5.0, step=0.5)}),
}
KEY = bytes(range(32))
FORMATS = [("csv", "csv"), ("csv.gz", "csv.gz"), ("parquet", "parquet"), ("csv", "parquet")]


@pytest.fixture
def frame(rng: np.random.Generator) -> pd.DataFrame:
    n = 1500
    out = pd.DataFrame(
        {
            "id": np.arange(n),
            "age": rng.integers(18, 90, n),
            "wage": np.round(rng.lognormal(3, 0.5, n), 2),
            "edu": rng.choice(["low", "high"], n),
            "region": rng.choice(["n", "s"], n),
        }
    )
    out.loc[[3, 700], "wage"] = np.nan
    return out


def released(
    frame: pd.DataFrame, folder: Path, mechanism: Any = M, ending: str = "csv", into: str | None = None, **options: Any
) -> Path:
    source, public = folder / f"raw.{ending}", folder / "public"
    public.mkdir(exist_ok=True)
    if ending == "parquet":
        frame.to_parquet(source, index=False)
    else:
        frame.to_csv(source, index=False)
    pr.release(source, public / f"file.{into or ending}", mechanism, force=True, **options)
    return public / f"file.{into or ending}"


def read(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)


def entry(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path.parent / "datapackage.json").read_text())["resources"][0]
    return found


@pytest.mark.parametrize(("ending", "into"), FORMATS)
@pytest.mark.parametrize("name", NOISES)
def test_a_keyed_file_has_the_draws_of_a_frame(
    frame: pd.DataFrame, tmp_path: Path, name: str, ending: str, into: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the format and the blocks: the draws belong to the records, and gaps stay."""
    monkeypatch.setattr(csv_files, "SIZE", 4096)
    monkeypatch.setattr(parquet_files, "LONGEST", 400)
    monkeypatch.setattr(parquet_files, "CELLS", 1)
    mechanism, key = pr.Mechanism({"wage": NOISES[name], "edu": EDU}), KEY
    found = read(released(frame, tmp_path, mechanism, ending, into, key=key, id="id"))
    expected = mechanism.perturb(frame, key=key, id="id")
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)
    assert found["wage"].isna().sum() == 2
    assert np.isfinite(pr.fit("wage ~ age", found, mechanism, missing="drop").estimate).all()


@pytest.mark.parametrize("name", NOISES)
def test_blocks_do_not_change_seeded_draws(
    frame: pd.DataFrame, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism = pr.Mechanism({"wage": NOISES[name]})
    whole = read(released(frame, tmp_path, mechanism, seed=3, allow="seed"))
    monkeypatch.setattr(csv_files, "SIZE", 2048)
    pd.testing.assert_frame_equal(read(released(frame, tmp_path, mechanism, seed=3, allow="seed")), whole)


@pytest.mark.parametrize(("ending", "into"), FORMATS)
@pytest.mark.parametrize("kind", ["int8", "int64", "float32", "float64"])
def test_numbers_get_a_type_that_holds_the_noise(
    frame: pd.DataFrame, tmp_path: Path, ending: str, into: str, kind: str
) -> None:
    narrow = frame.assign(age=frame["age"].astype(kind))[["age"]]
    for noise, expected in ((pr.GeometricNoise(40.0, bounds=(18, 90)), "int64"), (pr.LaplaceNoise(60.0), "float64")):
        path = released(narrow, tmp_path, pr.Mechanism({"age": noise}), ending, into)
        found = read(path)["age"]
        assert found.dtype == expected
        assert entry(path)["schema"]["fields"][0]["type"] == ("integer" if expected == "int64" else "number")
        assert found.max() > 127
        assert not noise.off_grid(found.to_numpy()).any()


def test_a_comma_for_a_decimal_mark_is_kept(tmp_path: Path) -> None:
    source, public = tmp_path / "raw.csv", tmp_path / "public"
    public.mkdir()
    source.write_text("id;wage\n" + "".join(f"{k};{k % 7},{k % 4}5\n" for k in range(200)))
    mechanism = pr.Mechanism({"wage": pr.LaplaceNoise(2.0)})
    pr.release(source, public / "a.csv", mechanism, key=KEY, id="id")
    found = pd.read_csv(public / "a.csv", sep=";", decimal=",")
    clean = pd.read_csv(source, sep=";", decimal=",")
    pd.testing.assert_frame_equal(found, mechanism.perturb(clean, key=KEY, id="id"))
    assert np.isfinite(pr.fit(pr.mean("wage"), public / "a.csv", "auto").estimate).all()


def test_units_share_a_draw(frame: pd.DataFrame, tmp_path: Path) -> None:
    people = frame.assign(person=frame["id"] // 3, age=frame["age"].to_numpy()[frame["id"] // 3 * 3])
    path = released(people, tmp_path, pr.Mechanism({"age": AGE}), unit="person")
    assert (read(path).groupby("person")["age"].nunique() == 1).all()
    assert entry(path)["pram"]["unit"] == {"column": "person", "varies": False}
    astray = people.assign(age=frame["age"])
    with pytest.raises(pr.DataError, match="person"):
        released(astray, tmp_path, pr.Mechanism({"age": AGE}), unit="person")


def test_description_and_card_say_what_the_noise_is(frame: pd.DataFrame, tmp_path: Path) -> None:
    mechanism = pr.Mechanism({"age": pr.GaussianNoise(8.0, bounds=(18, 90)), "wage": WAGE, "edu": EDU})
    path = released(frame, tmp_path, mechanism, card=True)
    body = entry(path)["pram"]
    assert pr.Mechanism.load(path.parent / "datapackage.json") == mechanism
    assert (body["version"], body["epsilon"], body["released"][:2]) == ("1.3", None, [[], []])
    assert any("clamped, rounded" in limit for limit in body["limits"])
    assert any("'age'" in limit or "of age has no finite epsilon" in limit for limit in body["limits"])
    text = path.with_name("file.csv.card.md").read_text()
    for told in (
        "some values of edu in this file were replaced at random, and random numbers were added to age, wage",
        "| age | 18 to 90 |",
        "age: normal noise of standard deviation 8 was added",
        "wage: Laplace noise of scale 4 was added",
        "Epsilon is infinite for age",
        f"rho = {mechanism.rho:.4g}",
        f"epsilon = {mechanism.epsilon_at(1e-6):.4g} but for a probability of 1e-06",
        'pr.fit(pr.mean("age"), "file.csv", "auto")',
    ):
        assert told in text
    spread = read(path)["wage"].var()
    row = next(line for line in text.splitlines() if line.startswith("| wage | 1498"))
    assert f"{spread / (spread - 32):.4f}" in row


def test_moments_of_blocks_add(rng: np.random.Generator) -> None:
    values = rng.gamma(2.0, size=1000)
    whole, parts = Moments.of(values), [Moments.of(part) for part in np.split(values, [0, 10, 700])]
    total = sum(parts, start=Moments())
    np.testing.assert_allclose(
        [total.count, total.mean, total.squares, total.cubes, total.fourths],
        [whole.count, whole.mean, whole.squares, whole.cubes, whole.fourths],
    )
    assert whole.variance == pytest.approx(values.var(ddof=1))


@pytest.mark.parametrize(
    ("values", "noise", "message"),
    [
        (
            ["1", "x", "3"],
            WAGE,
            r"'wage' has at least 1 value\(s\) that are no finite numbers, first in row 1.*\(missing=\)",
        ),
        (["1", "inf", "3"], WAGE, r"no finite numbers, first in row 1"),
        (["1", "1e999", "3"], WAGE, r"no finite numbers, first in row 1"),
        (["1", "NA", "3"], WAGE, r"no finite numbers, first in row 1"),
        (["1", "2", "1e17"], pr.LaplaceNoise(1.0), r"steps of .* cannot be told apart"),
        (
            ["1", "2", "3"],
            pr.LaplaceNoise(0.05),
            r"all values of 'wage' are round numbers, and its noise.*rounding undoes it",
        ),
        (["1", "2", "3"], pr.GeometricNoise(0.1), r"values of 'wage' go out as they are"),
        (["1.5", "2", "3"], pr.KeepOrNoise(0.9999, pr.GeometricNoise(2.0)), r"values of 'wage' go out as they are"),
    ],
)
def test_bad_numbers_are_refused_without_a_value(tmp_path: Path, values: list[str], noise: Any, message: str) -> None:
    (tmp_path / "raw.csv").write_text("wage\n" + "\n".join(values) + "\n")
    with pytest.raises(pr.PramanaError, match=message):
        pr.release(tmp_path / "raw.csv", tmp_path / "a.csv", pr.Mechanism({"wage": noise}))
    assert not (tmp_path / "a.csv").exists()
    frame = pa.table({"wage": values})
    pa.parquet.write_table(frame, tmp_path / "raw.parquet")
    with pytest.raises(pr.PramanaError, match=r"no numbers|go out as they are"):
        pr.release(tmp_path / "raw.parquet", tmp_path / "a.parquet", pr.Mechanism({"wage": noise}))


def test_declared_marks_are_gaps(tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_text("wage\n" + "1.5\n-8\nNA\n" * 50)
    mechanism = pr.Mechanism({"wage": WAGE})
    made = pr.release(tmp_path / "raw.csv", tmp_path / "a.csv", mechanism, missing=["-8", "NA"])
    assert made.missing == {"wage": 100}
    assert read(tmp_path / "a.csv")["wage"].isna().sum() == 0  # blank lines of a file with one column
    pd.DataFrame({"wage": [1.5, -8.0, None] * 50}).to_parquet(tmp_path / "raw.parquet")
    made = pr.release(tmp_path / "raw.parquet", tmp_path / "a.parquet", mechanism, missing=["-8"])
    assert made.missing == {"wage": 100}
    assert read(tmp_path / "a.parquet")["wage"].isna().sum() == 100


def test_policies_bound_noise_by_its_epsilon(frame: pd.DataFrame, tmp_path: Path) -> None:
    def ruled(text: str) -> Path:
        (tmp_path / "policy.toml").write_text(text)
        return tmp_path / "policy.toml"

    weak = pr.Mechanism({"wage": pr.LaplaceNoise(4.0)})
    with pytest.raises(pr.PramanaError, match=r"epsilon of 'wage' is infinite: give bounds"):
        released(frame, tmp_path, weak, policy=ruled('version = 1\nforbid = ["infinite-epsilon"]\n'))
    with pytest.raises(pr.PramanaError, match=r"epsilon of 'wage' is 50, above 10: use more noise, or narrower bounds"):
        released(frame, tmp_path, pr.Mechanism({"wage": WAGE}), policy=ruled("version = 1\n[limits]\ncolumn = 10\n"))
    kept = pr.Mechanism({"wage": pr.KeepOrNoise(0.9, pr.GeometricNoise(2.0))})
    with pytest.raises(pr.PramanaError, match=r"kept with 0\.9\d*, above 0\.8: use more noise"):
        released(frame, tmp_path, kept, policy=ruled("version = 1\n[limits]\nkeep = 0.8\n"))


@pytest.mark.parametrize("values", [["40000"], ["0", "0", "0"], ["40000", "", "40000"]])
def test_one_number_alone_keeps_no_distance(tmp_path: Path, values: list[str]) -> None:
    """Noise of 30 hides a wage of 40 000, though that is a multiple of 10 000, and no message says so; noise of 0.05 hides no whole number."""
    (tmp_path / "raw.csv").write_text("wage,n\n" + "".join(f"{v},1\n" for v in values))
    pr.release(tmp_path / "raw.csv", tmp_path / "a.csv", pr.Mechanism({"wage": pr.LaplaceNoise(30.0)}))
    with pytest.raises(pr.PramanaError, match="all values of 'wage' are round numbers") as caught:
        pr.release(tmp_path / "raw.csv", tmp_path / "b.csv", pr.Mechanism({"wage": pr.LaplaceNoise(0.05)}))
    assert "0000" not in str(caught.value)


def test_a_column_without_numbers_is_no_round_one(tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_text("wage,n\n,1\n,2\n")
    pr.release(tmp_path / "raw.csv", tmp_path / "a.csv", pr.Mechanism({"wage": pr.LaplaceNoise(0.05)}))


def test_one_odd_number_does_not_hide_that_rounding_undoes_the_noise(tmp_path: Path) -> None:
    """A mark such as -9 among wages in thousands."""
    wages = np.random.default_rng(1).integers(1, 50, 500) * 1000
    wages[7] = -9
    pd.DataFrame({"wage": wages}).to_csv(tmp_path / "raw.csv", index=False)
    mechanism = pr.Mechanism({"wage": pr.LaplaceNoise(50, bounds=(0, 50_000))})
    with pytest.raises(pr.PramanaError, match=r"nearly all values of 'wage' are round numbers.*rounding undoes it"):
        pr.release(tmp_path / "raw.csv", tmp_path / "o.csv", mechanism)
    wages = wages + np.arange(500) % 997  # no longer round
    pd.DataFrame({"wage": wages}).to_csv(tmp_path / "raw.csv", index=False)
    pr.release(tmp_path / "raw.csv", tmp_path / "o.csv", pr.Mechanism({"wage": pr.LaplaceNoise(50)}))


@pytest.mark.parametrize("strata", [False, True])
def test_numbers_outside_the_bounds_are_counted_in_a_warning(strata: bool, tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": [-9, 20, 30, 99] * 25, "sex": ["f", "f", "m", "m"] * 25})
    frame.to_csv(tmp_path / "raw.csv", index=False)
    noise = pr.LaplaceNoise(9, bounds=(18, 65))
    channel = pr.Stratified("sex", {"f": noise, "m": pr.LaplaceNoise(9, bounds=(18, 99))}) if strata else noise
    said = f"{25 if strata else 50} of 100 numbers of 'age' lie outside the bounds of its noise.*declare a mark"
    with pytest.warns(pr.PramanaWarning, match=said):
        pr.release(tmp_path / "raw.csv", tmp_path / "o.csv", pr.Mechanism({"age": channel}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inside = pr.Mechanism({"age": pr.LaplaceNoise(9, bounds=(18, 99))})
        pr.release(tmp_path / "raw.csv", tmp_path / "p.csv", inside, missing=["-9"])
