"""Missing values are weighed as the release holds them: published as missing, known of a person, counted among all records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import pramana as pr
from pramana.cli.application import app

LEVELS = ["a", "b", "c"]
P = pr.TransitionMatrix.randomized_response(LEVELS, 0.7)
MECHANISM = pr.Mechanism({"z": P})
OPEN = pr.Mechanism({"z": pr.TransitionMatrix(  # the same, and a level that stays
    [*LEVELS, "?"], np.block([[P.matrix, np.zeros((3, 1))], [np.zeros((1, 3)), np.ones((1, 1))]])
)})  # fmt: skip


def frame(n: int = 120, gaps: float = 0.4) -> pd.DataFrame:
    rng = np.random.default_rng(10)
    z = rng.choice(LEVELS, n, p=[0.6, 0.3, 0.1]).astype(object)
    z[rng.random(n) < gaps] = None
    age = rng.integers(20, 40, n).astype(object)
    age[rng.random(n) < 0.1] = None
    return pd.DataFrame({"z": z, "age": age, "y": rng.normal(size=n), "sex": rng.integers(0, 2, n)})


@pytest.mark.parametrize("keys", [["age", "z"], ["z"], ["age"], ["age", "sex", "z"]])
def test_a_missing_value_is_a_key_like_another(keys: list[str]) -> None:
    """Recoded as a level that stays, missing values give the same links; dropped, they would not."""
    data = frame()
    kept = pr.risk(data, MECHANISM, keys=keys).linkage
    recoded = pr.risk(data.fillna({"z": "?", "age": -1}), OPEN, keys=keys).linkage
    assert kept is not None
    assert recoded is not None
    for name in ("n", "uniques", "after_largest", "survive_mean", "survive_largest", "released_uniques"):
        assert getattr(kept, name) == pytest.approx(getattr(recoded, name)), name
    assert kept.classes == recoded.classes
    for which in ("before", "after", "exact", "ratio"):
        assert getattr(kept, f"{which}_mean") == pytest.approx(getattr(recoded, f"{which}_mean"))
    dropped = pr.risk(data, MECHANISM, keys=keys, missing="drop").linkage
    assert dropped is not None
    assert dropped.n < kept.n == len(data)
    assert dropped.before_mean != pytest.approx(kept.before_mean)


def test_posteriors_are_over_records_with_a_value() -> None:
    data = frame()
    whole, complete = pr.risk(data, MECHANISM)["z"], pr.risk(data.dropna(subset="z"), MECHANISM)["z"]
    assert whole.missing == data.z.isna().sum()
    assert whole.bare == 0
    assert [v.posterior for v in whole.levels] == [v.posterior for v in complete.levels]
    assert whole.exposure.mean == pytest.approx(complete.exposure.mean)
    assert sum(v.share for v in whole.levels) == pytest.approx(data.z.notna().mean())
    text = str(pr.risk(data, MECHANISM))
    assert f"{whole.missing} records, published as missing: the randomisation does not hide which" in text


def test_what_drop_does_is_said() -> None:
    data = frame()
    report = pr.risk(data, MECHANISM, missing="drop")
    assert report.n + report.left_out == len(data)
    assert f"{report.left_out} with missing values were left out, as if they were not released" in str(report)
    with pytest.raises(pr.DataError, match=r"of 120 records have missing values, in 'z'"):
        pr.risk(data, MECHANISM, missing="error")


def test_tables_count_missing_values_and_analyses_leave_them_out() -> None:
    data = frame()
    report = pr.risk(data, MECHANISM, keys=["sex"], analyses="y ~ z")
    recoded = pr.risk(data.fillna({"z": "?"}), OPEN, keys=["sex"])
    for mine, other in zip(report.utility.tables, recoded.utility.tables, strict=True):
        assert (mine.cells, mine.moved, mine.chi_square) == pytest.approx((other.cells, other.moved, other.chi_square))
    assert report.utility.analyses[0].variance.n == data.z.notna().sum()
    assert f"y ~ z: without {data.z.isna().sum()} records that have missing values" in str(report)


def test_a_group_with_one_missing_column_is_published_as_it_is() -> None:
    """The other column then shows its true value, by which a person can be found."""
    pairs = [("m", "x"), ("m", "y"), ("f", "x"), ("f", "y")]
    mechanism = pr.Mechanism({("sex", "job"): pr.designs.linked(pairs, keep=0.5)})
    data = pd.DataFrame({"sex": ["m", "m", "f", "f", "f"], "job": ["x", "y", "x", None, "y"]})
    report = pr.risk(data, mechanism, keys=["sex", "job"])
    column = report["sex"]
    assert (column.missing, column.bare) == (1, 1)
    assert "Published as they are" in str(report)
    assert report.linkage is not None
    assert report.linkage.row == 3
    assert report.linkage.after_largest == pytest.approx(1.0)


def test_strata_of_missing_values_do_not_matter() -> None:
    channel = pr.Stratified("region", {"n": P, "s": pr.TransitionMatrix.randomized_response(LEVELS, 0.9)})
    data = pd.DataFrame({"z": ["a", None, "b", "c"], "region": ["n", None, "s", "n"]})
    report = pr.risk(data, pr.Mechanism({"z": channel}), keys=["z"])
    assert report["z"].missing == 1
    assert report.linkage is not None
    assert report.linkage.n == 4
    with pytest.raises(pr.DataError, match=r"'region' has 1 missing value\(s\), first in row 2"):
        pr.risk(data.assign(region=["n", "s", None, "n"]), pr.Mechanism({"z": channel}))


def test_a_column_without_any_value_is_refused() -> None:
    with pytest.raises(pr.DataError, match="'z' has no value in any of 2 records"):
        pr.risk(pd.DataFrame({"z": [None, None]}), MECHANISM)


def test_the_released_file_has_its_gaps_where_the_true_one_has() -> None:
    data = frame()
    released: Any = MECHANISM.perturb(data)
    report = pr.risk(data, MECHANISM, keys=["age", "z"], released=released)
    assert report.linkage is not None
    assert report.linkage.realised is not None
    assert sum(count for _, count in report.linkage.realised.classes) == len(data)
    holes = released.assign(
        z=released.z.where(released.z.isna() | (np.arange(len(data)) != released.z.notna().argmax()))
    )
    with pytest.raises(pr.DataError, match=r"'z' is missing in only one .* in 1 record"):
        pr.risk(data, MECHANISM, released=holes)


def shuffled(tmp_path: Path, data: pd.DataFrame) -> tuple[Path, Path, Path]:
    """A true file, its release with other rows and identifiers, and the link file between them."""
    order = np.random.default_rng(4).permutation(len(data))
    released: Any = MECHANISM.perturb(data).iloc[order].assign(id=np.arange(len(data)) + 5000).drop(columns="sex")
    link = pd.DataFrame({"original_row": order, "original_id": data["id"].to_numpy()[order]})
    paths = tmp_path / "true.parquet", tmp_path / "released.parquet", tmp_path / "link.parquet"
    for frame_, path in zip((data, released, link), paths, strict=True):
        frame_.to_parquet(path, index=False)
    return paths


def test_a_shuffled_release_is_weighed_through_its_link_file(tmp_path: Path) -> None:
    data = frame().assign(id=np.arange(120) + 100)
    true, released, link = shuffled(tmp_path, data)
    report = pr.risk(true, MECHANISM, keys=["age", "sex", "z"], released=released, link=link)
    assert report.unreleased == ("sex",)
    assert "Not in the released file, so of no use to an attacker: sex" in " ".join(str(report).split())
    assert report.linkage is not None
    assert report.linkage.clear == ("age",)
    again = pd.read_parquet(released).iloc[np.argsort(pd.read_parquet(link)["original_row"].to_numpy())]
    aligned = pr.risk(true, MECHANISM, keys=["age", "z"], released=again.reset_index(drop=True))
    assert aligned.linkage is not None
    assert report.linkage.realised == aligned.linkage.realised
    assert report["z"].realised == aligned["z"].realised
    with pytest.raises(pr.DataError, match="a shuffled release needs its link file"):
        pr.risk(true, MECHANISM, keys=["age"], released=released)
    with pytest.raises(pr.PramanaError, match="link belongs to released"):
        pr.risk(true, MECHANISM, link=link)
    with pytest.raises(pr.DataError, match="'id' is not perturbed, yet 120 of its values differ"):
        pr.risk(true, MECHANISM, keys=["id"], released=released, link=link)


def test_new_identifiers_match_nobody(tmp_path: Path) -> None:
    """The description says which column holds identifiers of the release's own."""
    data = frame().assign(id=np.arange(120) + 100)
    true, released, link = shuffled(tmp_path, data)
    body = MECHANISM.document()["pram"] | {"new_id": "id"}
    resource = {"name": "r", "path": released.name, "pram": body}
    (tmp_path / "datapackage.json").write_text(json.dumps({"resources": [resource]}))
    report = pr.risk(true, MECHANISM, keys=["id", "age"], released=released, link=link)
    assert report.unreleased == ("id",)
    assert report.linkage is not None
    assert report.linkage.keys == ("age",)


def test_the_command_keeps_missing_values_and_reads_designs(tmp_path: Path) -> None:
    """`risk -m design.toml` before a release of several columns, built as `perturb -d` builds it."""
    data = frame().assign(job=np.random.default_rng(1).choice(["x", "y"], 120))
    path, design = tmp_path / "true.csv", tmp_path / "d.toml"
    data.to_csv(path, index=False)
    design.write_text('[columns.z]\nkeep = 0.7\ninvariant = true\nfrequencies = "data"\n\n[columns.job]\nkeep = 0.8\n')
    outcome = CliRunner().invoke(app, ["risk", str(path), "-m", str(design), "--keys", "age,z", "-f", "json"])
    assert outcome.exit_code == 0, outcome.output
    report = pr.risk(path, design, keys=["age", "z"])
    assert report.to_dict()["records"] == 120
    assert [c.name for c in report.columns] == ["z", "job"]
    assert report["z"].conditional
    assert report["z"].missing == data.z.isna().sum()
    front = pr.frontier(path, ["z", "job"], [0.7, 0.9], chosen=design)
    assert front.chosen is not None
    assert front.chosen.epsilon == report.epsilon
    assert front.n == 120


def test_a_plan_knows_what_the_design_does_to_the_other_columns(tmp_path: Path) -> None:
    data = frame(gaps=0).assign(job=np.random.default_rng(1).choice(["x", "y"], 120))
    design = tmp_path / "d.toml"
    design.write_text("[columns.z]\nkeep = 0.7\n\n[columns.job]\nkeep = 0.8\n")
    alone = pr.plan(data, "z", "y ~ z + job", se={"z": 1.0}, simulate=0)
    beside = pr.plan(data, "z", "y ~ z + job", se={"z": 1.0}, mechanism=design, simulate=0)
    assert beside.keep > alone.keep
    assert beside.mechanism.columns == ["job", "z"]
    assert "Perturbed as designed: job" in " ".join(str(beside).split())
    clean = pr.plan(data, "z", "y ~ z + job", se={"job": 1.0}, simulate=0).targets[0].clean
    with pytest.raises(pr.PramanaError, match="even with 'z' unperturbed, because of what the design does to 'job'"):
        pr.plan(data, "z", "y ~ z + job", se={"job": clean * 1.01}, mechanism=design)


def test_a_design_that_merges_and_fills_is_weighed_as_it_would_be_released(tmp_path: Path) -> None:
    """Rare values are merged and missing ones get their level before the risk is weighed, and before the release."""
    rng = np.random.default_rng(8)
    job = rng.choice(["nurse", "clerk", "smith"], 150).astype(object)
    job[:4], job[5:20] = ["dean", "judge", "mayor", "vicar"], None
    path, design = tmp_path / "true.parquet", tmp_path / "d.toml"
    pd.DataFrame({"job": job, "person": np.arange(150)}).to_parquet(path)
    design.write_text('unit = "person"\n[columns.job]\nkeep = 0.7\nmerge_below = 3\nmissing_level = "none"\n')
    report = pr.risk(path, design, keys=["job"])
    column = report["job"]
    assert {v.released for v in column.levels} == {"nurse", "clerk", "smith", "other", "none"}
    assert column.missing == 0
    assert report.unit == "person"
    assert "Epsilon of all sensitive columns of a person given the rest" in str(report)
    assert "given the list of levels" in str(report)
    assert "records of one person share their draws" in str(report)
    assert pr.frontier(path, "job", [0.5, 0.9], chosen=design).n == 150
    public, link = tmp_path / "public" / "z.parquet", tmp_path / "link.parquet"
    public.parent.mkdir()
    pr.release(path, public, design, card=True, link=link, shuffle=True)
    done = pr.risk(path, design, keys=["job"], released=public, link=link)
    assert done["job"].realised is not None
    card = public.with_name("z.parquet.card.md").read_text()
    assert "Levels of job that fewer than 3 people hold were merged into other" in card
    assert "The records are in a random order" in card
    assert "dean" not in str(report) + str(done) + card


def test_the_level_of_missing_values_is_read_from_the_description(tmp_path: Path) -> None:
    path = tmp_path / "true.csv"
    pd.DataFrame({"z": ["a", "b", None, "b"] * 10, "n": range(40)}).to_csv(path, index=False)
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix.randomized_response(["a", "b", "none"], 0.7)})
    made = pr.release(path, tmp_path / "public.csv", mechanism, missing_level="none")
    report = pr.risk(path, made.path, released=made.path)
    assert report["z"].missing == 0
    assert report["z"].realised is not None
