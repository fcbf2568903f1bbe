"""A description and a file that do not belong together: refused with both values, through every door."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import pramana as pr
from pramana.cli.application import app

EDU = ["low", "mid", "high"]
OTHER = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(EDU, keep=0.6)})


@pytest.fixture(params=["csv", "parquet"])
def ending(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def public(tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism, ending: str) -> Path:
    """A released file with its datapackage.json, alone in its folder."""
    return released(tmp_path / "public", survey, mechanism, ending)


def released(folder: Path, frame: pd.DataFrame, mechanism: pr.Mechanism, ending: str) -> Path:
    folder.mkdir(exist_ok=True)
    source, target = folder.parent / f"true.{ending}", folder / f"public.{ending}"
    written(frame, source)
    pr.release(source, target, mechanism)
    return target


def written(frame: pd.DataFrame, path: Path) -> None:
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path, index=False)


def fitted(path: Any, **options: Any) -> pr.Result:
    return pr.fit("income ~ age + edu", path, "auto", **options)


def changed(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """The entry of the only file in its datapackage.json, changed in place."""
    package = path.with_name("datapackage.json")
    document = json.loads(package.read_text())
    change(document["resources"][0])
    package.write_text(json.dumps(document))


def rewritten(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """The data changed, with the metadata that they carry."""
    if path.suffix == ".csv":
        table = change(pa.Table.from_pandas(pd.read_csv(path, keep_default_na=False)))
        written(table.to_pandas(), path)
    else:
        table = pq.read_table(path)
        pq.write_table(change(table).replace_schema_metadata(table.schema.metadata), path)


def test_what_belongs_together_is_fitted(public: Path, mechanism: pr.Mechanism) -> None:
    assert fitted(public).parameters == fitted(public, verify=False).parameters
    assert pr.Mechanism.load(public) == pr.Mechanism.load(public, verify=True) == mechanism
    for path in (public, public.with_name("datapackage.json")):
        assert pr.fit("income ~ age + edu", public, path).n == 400
    assert pr.compare("income ~ age + edu", public, "auto", ["reversion", "naive"]).results["naive"].n == 400


CHANGES: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "rows removed": (lambda t: t.slice(10), r"(390 rows.*says 400|\d+ bytes, but its description says \d+)"),
    "rows appended": (lambda t: pa.concat_tables([t, t.slice(0, 3)]), r"(403 rows.*says 400|\d+ bytes.*says \d+)"),
    "column renamed": (
        lambda t: t.rename_columns(["age", "edu", "female", "region", "salary", "employed"]),
        r"(column 5 'salary'.*says 'income'|\d+ bytes.*says \d+)",
    ),
    "columns in another order": (
        lambda t: t.select(["edu", "age", "female", "region", "income", "employed"]),
        r"(column 1 'edu'.*says 'age'|\d+ bytes.*says \d+)",
    ),
    "column added": (lambda t: t.append_column("new", t["age"]), r"(7 columns.*says 6|\d+ bytes.*says \d+)"),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("verify", [True, False])
def test_a_changed_file_is_refused_without_its_hash(name: str, verify: bool, public: Path) -> None:
    """What costs nothing is checked always."""
    change, message = CHANGES[name]
    rewritten(public, change)
    with pytest.raises(pr.MechanismError, match=f"'public.*{message}.*it is not the file described; take file and"):
        fitted(public, verify=verify)
    with pytest.raises(pr.MechanismError, match=message):
        pr.Mechanism.load(public)


def test_other_types_are_refused(tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    public = released(tmp_path / "public", survey, mechanism, "parquet")
    rewritten(public, lambda t: t.set_column(2, "female", t["female"].cast(pa.string())))
    with pytest.raises(
        pr.MechanismError, match="the type string in column 'female', but its description says 'integer'"
    ):
        fitted(public, verify=False)


def test_swapped_data_of_the_same_shape_are_known_by_their_hash(
    tmp_path: Path, public: Path, survey: pd.DataFrame, mechanism: pr.Mechanism, ending: str
) -> None:
    """Another draw of the same records, under this file's name and description."""
    other = released(tmp_path / "other", survey, mechanism, ending)
    shutil.copy(other, public)
    if ending == "csv":
        changed(public, lambda entry: entry.pop("bytes"))
    with pytest.raises(pr.MechanismError, match=r"SHA-256 [0-9a-f]{16}…, but its description says [0-9a-f]{16}…"):
        fitted(public)
    with pytest.raises(pr.MechanismError, match="SHA-256"):
        pr.compare("income ~ age + edu", public, "auto")
    with pytest.raises(pr.MechanismError, match="SHA-256"):
        pr.specification_test("employed ~ age + edu", public, "auto")
    with pytest.raises(pr.MechanismError, match="SHA-256"):
        pr.Mechanism.load(public, verify=True)
    assert fitted(public, verify=False).n == 400  # asked for


def test_an_old_file_under_a_new_mechanism_is_refused(
    tmp_path: Path, public: Path, survey: pd.DataFrame, ending: str
) -> None:
    new = released(tmp_path / "new", survey, OTHER, ending)
    old = public.read_bytes()
    shutil.copy(new.with_name("datapackage.json"), public.with_name("datapackage.json"))
    public.write_bytes(old)
    message = r"differ: pram.channels.0.randomization.refill is 0.6\d* in datapackage.json and 0.22\d* inside the file|SHA-256|bytes"
    with pytest.raises(pr.MechanismError, match=message):
        fitted(public)


@pytest.mark.parametrize("where", ["rows", "channels", "randomness", "version", "unit"])
def test_two_descriptions_that_differ_are_refused(
    where: str, tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    public = released(tmp_path / "public", survey, mechanism, "parquet")
    others = {"rows": 401, "channels": OTHER.document()["pram"]["channels"], "randomness": "keyed", "version": "1.7"}
    value = others.get(where, {"column": "region"})
    changed(public, lambda entry: entry["pram"].update({where: value}))
    changed(public, lambda entry: entry["pram"].pop("epsilon"))
    for call in (lambda: fitted(public, verify=False), lambda: pr.Mechanism.load(public)):
        with pytest.raises(
            pr.MechanismError, match=rf"two descriptions of 'public.parquet' differ: pram.{where}.* is .* and .* inside"
        ):
            call()


def test_two_descriptions_inside_one_file_are_refused(
    tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    """Arrow keeps metadata in its schema and of the file; another reader could take the other one."""
    table = pa.Table.from_pandas(survey)
    schema = table.schema.with_metadata({b"pram": json.dumps(mechanism.document()).encode()})
    with pq.ParquetWriter(tmp_path / "two.parquet", schema) as writer:
        writer.write_table(table.cast(schema))
        writer.add_key_value_metadata({"pram": json.dumps(OTHER.document())})
    with pytest.raises(pr.MechanismError, match=r"two descriptions inside .*two\.parquet' differ"):
        fitted(tmp_path / "two.parquet")


def test_two_hashes_of_one_file_are_refused(tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    public = released(tmp_path / "public", survey, mechanism, "csv")
    changed(public, lambda entry: entry.update(hash=entry["hash"].upper().replace("SHA256:", "sha256:")))
    assert fitted(public).n == 400  # spelled otherwise
    changed(public, lambda entry: entry.update(hash="sha256:" + "0" * 64))
    for verify in (True, False):
        with pytest.raises(pr.MechanismError, match=r"'public.csv' states two hashes, [0-9a-f]{16}… and 0{16}…"):
            fitted(public, verify=verify)


def test_a_unit_cannot_be_forgotten(tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    people = survey.assign(person=range(400))
    public = released(tmp_path / "public", people, mechanism.with_unit("person"), "parquet")
    for data in (public, pq.read_table(public)):
        assert fitted(data).n == 400
        with pytest.raises(pr.MechanismError, match=r"one 'person' share a draw.*mechanism.with_unit\('person'\)"):
            pr.fit("income ~ age + edu", data, mechanism)
        assert pr.fit("income ~ age + edu", data, mechanism.with_unit("person")).n == 400


def test_two_entries_for_one_file_are_refused(public: Path) -> None:
    package = public.with_name("datapackage.json")
    document = json.loads(package.read_text())
    again = copy.deepcopy(document["resources"][0])
    document["resources"].append({**again, "path": f"./{again['path']}"})
    package.write_text(json.dumps(document))
    for call in (
        lambda: fitted(public),
        lambda: pr.Mechanism.load(public),
        lambda: pr.fit("income ~ age", public, None),
    ):
        with pytest.raises(pr.MechanismError, match=r"datapackage.json' has 2 entries for 'public\.\w+': remove those"):
            call()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda pram: pram.update(epsilon=0.1), r"pram.epsilon is 0.1, but .* all columns together have 2.427"),
        (lambda pram: pram["channels"][0].update(epsilon=0.1), r"pram.channels.0.epsilon is 0.1, .*'edu' have 2.427"),
        (lambda pram: pram["channels"][0].update(epsilon=-1.0), "epsilon is -1, but"),
        (lambda pram: pram["channels"][0]["randomization"].update(refill=0.0), "have inf: the description was changed"),
    ],
)
def test_a_false_epsilon_is_refused(
    change: Callable[[dict[str, Any]], object],
    message: str,
    tmp_path: Path,
    survey: pd.DataFrame,
    mechanism: pr.Mechanism,
) -> None:
    public = released(tmp_path / "public", survey, mechanism, "csv")
    changed(public, lambda entry: change(entry["pram"]))
    with pytest.raises(pr.MechanismError, match=message):
        fitted(public)
    with pytest.raises(pr.MechanismError, match=message):
        pr.Mechanism.load(public.with_name("datapackage.json"))


def test_no_epsilon_and_a_null_promise_nothing(tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    public = released(tmp_path / "public", survey, mechanism, "csv")
    changed(public, lambda entry: entry["pram"]["channels"][0].update(epsilon=None))
    changed(public, lambda entry: entry["pram"].pop("epsilon"))
    assert fitted(public).n == 400


def test_rows_of_a_text_file_are_counted_where_nothing_else_is_stated(
    tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    public = released(tmp_path / "public", survey, mechanism, "csv")
    changed(public, lambda entry: [entry.pop(key) for key in ("bytes", "hash", "schema")])
    changed(public, lambda entry: entry["pram"].update(rows=399, sha256=None))
    with pytest.raises(pr.MechanismError, match="has 400 rows, but its description says 399"):
        fitted(public)


def test_a_description_by_its_path_must_be_of_the_file_given(
    tmp_path: Path, public: Path, survey: pd.DataFrame, mechanism: pr.Mechanism, ending: str
) -> None:
    """A description that names rows and hash is of one file. A mechanism alone, or a Mechanism, is believed; so is a frame."""
    other = tmp_path / f"other.{ending}"
    written(mechanism.perturb(survey).head(300), other)
    for description in (public, public.with_name("datapackage.json")):
        with pytest.raises(pr.MechanismError, match=r"'other\.\w+' has .*, but its description says"):
            pr.fit("income ~ age + edu", other, description)
    mechanism.save(tmp_path / "alone.json")
    for believed in (mechanism, tmp_path / "alone.json"):
        assert pr.fit("income ~ age + edu", other, believed).n == 300
    assert pr.fit("income ~ age + edu", survey.head(200), public).n == 200


def test_an_arrow_table_speaks_for_itself_until_it_is_filtered(
    tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    table = pq.read_table(released(tmp_path / "public", survey, mechanism, "parquet"))
    assert fitted(table).n == 400
    with pytest.raises(pr.MechanismError, match=r"'data' has 250 rows, but its description says 400.*Mechanism"):
        fitted(table.slice(0, 250))
    assert pr.fit("income ~ age + edu", table.slice(0, 250), mechanism).n == 250
    with pytest.raises(pr.MechanismError, match="which this table does not carry"):
        fitted(table.replace_schema_metadata(None))


def test_a_link_is_described_where_its_file_is(tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    public = released(tmp_path / "public", survey, mechanism, "csv")
    link = tmp_path / "latest.csv"
    link.symlink_to(public)
    assert fitted(link).n == 400
    with pytest.raises(pr.MechanismError, match="mechanism=None says that it is clean"):
        pr.fit("income ~ age", link, None)


def test_the_commands_refuse_too(public: Path) -> None:
    shell = CliRunner()
    words = {
        "fit": ["income ~ age + edu"],
        "compare": ["income ~ age + edu"],
        "specification": ["employed ~ age + edu"],
    }
    content = public.read_bytes()
    swapped = content.replace(b"north", b"south") if public.suffix == ".csv" else None
    if swapped is None:
        rewritten(public, lambda t: t.set_column(3, "region", pa.array(["south"] * 400)))
    else:
        public.write_bytes(swapped)
    for command, what in words.items():
        refused = shell.invoke(app, [command, *what, str(public)])
        assert refused.exit_code
        assert "SHA-256" in str(refused.exception)
        let_pass = shell.invoke(app, [command, *what, str(public), "--no-verify"])
        assert "SHA-256" not in str(let_pass.exception)


def test_names_that_steer_a_terminal_are_spelled_out(tmp_path: Path) -> None:
    noise = pr.TransitionMatrix.randomized_response(["a\x1b[2J", "b"], 0.8)
    hostile = pr.Mechanism({"x\x1b]0;owned\x07\u202e": noise})
    assert repr(hostile).isprintable()
    with pytest.raises(pr.PramanaError) as refusal:
        pr.fit(pr.proportions("x\x1b]0;owned\x07\u202e"), {"y": [1]}, hostile)
    assert "\x1b" not in str(refusal.value)
    answer = pr.fit(
        pr.proportions("x\x1b]0;owned\x07\u202e"), {"x\x1b]0;owned\x07\u202e": ["b", "b", "a\x1b[2J"]}, hostile
    )
    assert "\x1b" not in str(answer)
    assert "a\\x1b[2J" in str(answer)


def test_a_table_given_as_text_is_refused_in_words(mechanism: pr.Mechanism) -> None:
    """Its records in place of a file's name, which is too long for one."""
    records = "age,income\n" + "1,2\n" * 2000
    for ask in (
        lambda: pr.fit("income ~ age", records, mechanism),
        lambda: pr.fit("income ~ age", {"age": [1.0, 2.0], "income": [1.0, 2.0]}, records),
        lambda: pr.audit(records),
    ):
        with pytest.raises(pr.PramanaError, match="File name too long"):
            ask()


@pytest.mark.parametrize("name", ["a\0b.csv", "a\ud800.csv", "a\0b.parquet"], ids=["null", "half", "parquet"])
def test_a_name_that_no_file_can_have_is_refused_in_words(name: str, tmp_path: Path) -> None:
    mechanism = pr.Mechanism({"g": pr.TransitionMatrix.randomized_response(["a", "b"], 0.9)})
    path = f"{tmp_path}/{name}"
    with pytest.raises(pr.PramanaError, match="does not exist"):
        pr.fit("y ~ x", path, None)
    with pytest.raises(pr.PramanaError, match="is no name of a file"):
        mechanism.save(path)
    assert not list(tmp_path.iterdir())
