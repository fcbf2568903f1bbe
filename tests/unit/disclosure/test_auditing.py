"""An audit passes what is right, and sees each thing that is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pramana as pr
from pramana.disclosure.audit.contents import chi_square

pytestmark = pytest.mark.filterwarnings("ignore:release", "ignore:these records")
EDU = ["low", "mid", "high"]
N = 3000
P = pr.TransitionMatrix.randomized_response(EDU, 0.8)
M = pr.Mechanism({"edu": P})


@pytest.fixture
def frame(rng: np.random.Generator) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": np.arange(N),
            "edu": rng.choice(EDU, N, p=[0.5, 0.3, 0.2]),
            "region": rng.choice(["n", "s"], N),
            "income": rng.normal(size=N),
        }
    )


@pytest.fixture(params=["csv", "parquet"])
def raw(request: pytest.FixtureRequest, frame: pd.DataFrame, tmp_path: Path) -> Path:
    return write(frame, tmp_path / f"raw.{request.param}")


def write(frame: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False)
    return path


def released(raw: Path, mechanism: pr.Mechanism = M, **options: Any) -> Path:
    folder = raw.parent / "public"
    folder.mkdir(exist_ok=True)
    return pr.release(raw, folder / f"out{raw.suffix}", mechanism, force=True, **options).path


def found(audit: pr.Audit, check: str, severity: str) -> str:
    return " ".join(f.message for f in audit.findings if (f.check, f.severity) == (check, severity))


def described(path: Path, change: Any) -> None:
    package = json.loads((path.parent / "datapackage.json").read_text())
    change(package["resources"][0])
    (path.parent / "datapackage.json").write_text(json.dumps(package))


def test_a_release_is_clean(raw: Path) -> None:
    result = pr.audit(released(raw), original=raw)
    assert result.clean
    assert {f.severity for f in result.findings} == {"ok"}
    checks = [
        "description",
        "secrets",
        *(["metadata"] if raw.suffix == ".parquet" else []),
        "hash",
        "schema",
        "strength",
        "rows",
        "levels",
        "frequencies",
        "transitions",
        "give-aways",
        "recovery",
        "promise",
    ]
    assert [f.check for f in result.findings] == checks


def test_strata_joint_columns_and_missing_values_are_audited_too(
    frame: pd.DataFrame, rng: np.random.Generator, tmp_path: Path
) -> None:
    frame["sex"], frame["k"] = rng.choice(["f", "m"], N), rng.integers(0, 2, N)
    frame.loc[::17, "edu"] = None
    joint = pr.TransitionMatrix.randomized_response([(s, k) for s in "fm" for k in (0, 1)], 0.7)
    strata = pr.Stratified("region", {"n": P, "s": pr.TransitionMatrix.randomized_response(EDU, 0.6)})
    raw = write(frame.drop(columns="id"), tmp_path / "raw.csv")
    result = pr.audit(released(raw, pr.Mechanism({"edu": strata, ("sex", "k"): joint})), original=raw)
    assert result.clean, result
    assert len([f for f in result.findings if f.check == "transitions"]) == 3


def test_a_changed_file_is_seen(raw: Path, frame: pd.DataFrame) -> None:
    path = released(raw)
    write(frame.iloc[1:], path)
    result = pr.audit(path)
    assert "is not the one described" in found(result, "hash", "error")
    assert f"{N - 1} records, the description says {N}" in found(result, "rows", "error")


def test_a_value_that_is_no_level_is_seen(raw: Path, frame: pd.DataFrame) -> None:
    path = released(raw)
    write(frame.assign(edu=frame["edu"].replace("high", "other")), path)
    assert "value(s) that are not levels" in found(pr.audit(path, original=raw), "levels", "error")


def test_changed_columns_are_seen(raw: Path, frame: pd.DataFrame) -> None:
    path = released(raw)
    write(frame.rename(columns={"income": "wage"}), path)
    assert "'wage'" in found(pr.audit(path), "schema", "error")
    write(frame.drop(columns="edu"), path)
    assert "needs column(s) 'edu'" in found(pr.audit(path), "columns", "error")


def test_a_file_without_a_description_is_refused(raw: Path) -> None:
    result = pr.audit(raw)
    assert "none beside the file or in it" in found(result, "description", "error")


def test_the_two_descriptions_of_a_parquet_file_must_agree(frame: pd.DataFrame, tmp_path: Path) -> None:
    path = released(write(frame, tmp_path / "raw.parquet"))
    described(path, lambda r: r["pram"].update(rows=7))
    assert "differ" in found(pr.audit(path), "description", "error")
    (path.parent / "datapackage.json").unlink()
    assert "only inside the file" in found(pr.audit(path), "description", "warning")


@pytest.mark.parametrize(
    "secret",
    [
        {"seed": 1},
        {"randomSeed": 1},
        {"key": "x"},
        {"secret_key": [1, 2]},
        {"pram": {"remark": "00112233445566778899aabbccddeeff"}},
        {"remark": "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY="},
    ],
)
def test_a_description_with_a_seed_or_a_key_is_refused_without_repeating_it(secret: dict[str, Any], raw: Path) -> None:
    path = released(raw)

    def change(resource: Any) -> None:
        for name, value in secret.items():
            resource[name] = resource[name] | value if name == "pram" else value

    described(path, change)
    said = found(pr.audit(path), "secrets", "error")
    assert "looks like a seed or a key" in said
    assert "00112233" not in said
    assert "QUJD" not in said


def test_keys_of_a_table_schema_are_no_secrets(raw: Path) -> None:
    path = released(raw)
    described(path, lambda r: r["schema"].update(primaryKey="id", foreignKeys=[]))
    assert found(pr.audit(path), "secrets", "ok")


def test_a_newer_or_broken_description_is_an_error(raw: Path) -> None:
    path = released(raw)
    described(path, lambda r: r["pram"].update(version="9.0"))
    assert "update pramana" in found(pr.audit(path), "description", "error")


def test_values_that_p_cannot_have_made_are_seen(raw: Path, frame: pd.DataFrame) -> None:
    """Nobody is 'high' in the file, though a tenth of the others would have become it."""
    path = released(raw)
    write(frame.assign(edu=frame["edu"].replace("high", "low")), path)
    said = found(pr.audit(path), "frequencies", "error")
    assert "level 'high' would have the true share -0.1" in said


def test_small_files_raise_no_false_alarm(rng: np.random.Generator, tmp_path: Path) -> None:
    for k in range(30):
        frame = pd.DataFrame({"edu": rng.permutation(["low", "mid"] * 6)})
        raw = write(frame, tmp_path / f"raw{k}.csv")
        assert pr.audit(released(raw, allow=["rare-levels"]), original=raw).clean


def test_wrong_transitions_are_seen(frame: pd.DataFrame, tmp_path: Path) -> None:
    raw = write(frame, tmp_path / "raw.csv")
    wrong = released(raw, pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(EDU, 0.7)}))
    described(wrong, lambda r: r["pram"].update(channels=M.document()["pram"]["channels"]))
    result = pr.audit(wrong, original=raw)
    assert "do not follow P (chi-square test, 6 df, p = " in found(result, "transitions", "error")


def test_an_unperturbed_copy_is_seen(frame: pd.DataFrame, tmp_path: Path) -> None:
    raw = write(frame, tmp_path / "raw.csv")
    path = released(raw)
    path.write_bytes(raw.read_bytes())
    assert "do not follow P" in found(pr.audit(path, original=raw), "transitions", "error")


def test_impossible_transitions_and_unequal_files_are_seen(frame: pd.DataFrame, tmp_path: Path) -> None:
    stay = pr.Mechanism({"edu": pr.TransitionMatrix(EDU, np.eye(3))})
    raw = write(frame, tmp_path / "raw.csv")
    path = released(raw, stay, allow="identity")
    write(frame.iloc[::-1], path)
    assert "that P makes impossible" in found(pr.audit(path, original=raw), "transitions", "error")
    write(frame.iloc[:-5], path)
    assert "same number of records" in found(pr.audit(path, original=raw), "transitions", "error")


def test_pooling_keeps_the_size_of_the_chi_square_test(rng: np.random.Generator) -> None:
    matrix = np.array([[0.97, 0.02], [0.02, 0.97], [0.01, 0.01]])
    matrix = np.column_stack([matrix, [0.005, 0.005, 0.99]])
    p = [
        chi_square(np.stack([rng.multinomial(2000, column) for column in matrix.T], axis=1), 2000 * matrix)[0]
        for _ in range(2000)
    ]
    assert np.mean(np.array(p) < 0.05) == pytest.approx(0.05, abs=0.025)


CLEAR = {
    "a derived code": (lambda f: f["edu"].map({"low": 11, "mid": 12, "high": 13}), "error"),
    "a weight": (lambda f: f["edu"].map({"low": 0.51, "mid": 1.2, "high": 3.4}), "error"),
    "a close copy": (lambda f: f["edu"].where(f["id"] % 50 != 0, "low"), "error"),
    "a flag of one level": (lambda f: (f["edu"] == "high").astype(int), "error"),
    "a weight with noise": (
        lambda f: f["edu"].map({"low": 1.0, "mid": 2.0, "high": 3.0}) + 1e-3 * np.sin(f["id"]),
        "error",
    ),
    "an identifier": (lambda f: "p" + f["id"].astype(str), None),
    "noise": (lambda f: np.cos(17.0 * f["id"]).round(1), None),
}


@pytest.mark.parametrize("what", CLEAR)
def test_clear_columns_that_tell_the_truth_are_found(what: str, frame: pd.DataFrame, tmp_path: Path) -> None:
    make, severity = CLEAR[what]
    raw = write(frame.assign(clear=make(frame)), tmp_path / "raw.parquet")
    result = pr.audit(released(raw), original=raw)
    if severity is None:
        assert found(result, "give-aways", "ok")
    else:
        assert "'clear'" in found(result, "give-aways", severity)
        assert result.clean == (severity != "error")


def test_weak_matrices_are_warned_of_and_seeds_refused(frame: pd.DataFrame, tmp_path: Path) -> None:
    raw = write(frame, tmp_path / "raw.csv")
    weak = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(EDU, 0.335)})
    result = pr.audit(released(raw, weak, seed=1, allow="seed"))
    assert "condition number" in found(result, "conditioning", "warning")
    assert "drawn from a seed" in found(result, "randomness", "error")
    strong = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(EDU, 0.99999)})
    assert "epsilon is 12.2, above 10" in found(pr.audit(released(raw, strong, allow="identity")), "epsilon", "warning")
    assert "above 2" in found(pr.audit(released(raw), epsilon_limit=2), "epsilon", "warning")
    assert pr.audit(released(raw, weak)).clean


@pytest.mark.parametrize(
    "matrix",
    [
        pr.TransitionMatrix.randomized_response(EDU, 1.0),
        pr.TransitionMatrix(EDU, np.eye(3)),
        pr.TransitionMatrix.from_columns(EDU, np.eye(3)[[1, 2, 0]]),
        pr.Stratified("region", {"n": P, "s": pr.TransitionMatrix.randomized_response(EDU, 1.0)}),
    ],
    ids=["keep 1", "identity", "other names", "in one stratum"],
)
def test_a_channel_that_changes_nothing_is_refused(matrix: Any, frame: pd.DataFrame, tmp_path: Path) -> None:
    path = described_as(frame, pr.Mechanism({"edu": matrix}), tmp_path)
    result = pr.audit(path)
    assert "changes nothing" in found(result, "identity", "error")
    assert not result.clean


def described_as(frame: pd.DataFrame, mechanism: pr.Mechanism, folder: Path) -> Path:
    """A release under P whose description says something else was done."""
    path = released(write(frame, folder / "raw.csv"))
    channels = mechanism.document()["pram"]["channels"]
    described(path, lambda r: r["pram"].update(channels=channels, epsilon=None))
    return path


@pytest.mark.parametrize("stated", [0.1, 25.0])
def test_a_false_epsilon_is_refused_with_both_values(stated: float, raw: Path) -> None:
    path = released(raw)
    described(path, lambda r: r["pram"].update(epsilon=stated))
    said = found(pr.audit(path), "epsilon", "error")
    assert f"states epsilon {stated:.6g} for a record, but its matrices have {M.epsilon:.6g}" in said
    described(path, lambda r: r["pram"].update(epsilon=M.epsilon))
    described(path, lambda r: r["pram"]["channels"][0].update(epsilon=stated))
    assert f"states epsilon {stated:.6g} for edu" in found(pr.audit(path), "epsilon", "error")


def test_a_finite_epsilon_of_impossible_transitions_is_refused(frame: pd.DataFrame, tmp_path: Path) -> None:
    zero = pr.TransitionMatrix(EDU, [[0.8, 0.2, 0], [0.2, 0.6, 0.2], [0, 0.2, 0.8]])
    path = released(write(frame, tmp_path / "raw.csv"), pr.Mechanism({"edu": zero}))
    assert not found(pr.audit(path), "epsilon", "error")
    described(path, lambda r: r["pram"].update(epsilon=2.0))
    assert "have inf" in found(pr.audit(path), "epsilon", "error")


@pytest.mark.parametrize("conditional", [True, False])
def test_frequencies_of_the_original_in_the_matrix_must_be_said(
    conditional: bool, frame: pd.DataFrame, tmp_path: Path
) -> None:
    shares = frame["edu"].value_counts(normalize=True)[EDU].tolist()
    made = pr.TransitionMatrix.invariant(EDU, shares, 0.7, conditional=conditional)
    raw = write(frame, tmp_path / "raw.csv")
    result = pr.audit(released(raw, pr.Mechanism({"edu": made})), original=raw)
    assert ("describe it as conditional" in found(result, "conditional", "error")) == (not conditional)
    chosen = pr.TransitionMatrix.invariant(EDU, [0.5, 0.3, 0.2], 0.7)
    assert not found(pr.audit(released(raw, pr.Mechanism({"edu": chosen})), original=raw), "conditional", "error")


def rewritten(path: Path, change: Any) -> Path:
    """The released table written anew, as a tool of the custodian's might."""
    table = pq.read_table(path)
    pq.write_table(change(table), path)
    return path


def field_note(table: pa.Table) -> pa.Table:
    place = table.schema.get_field_index("income")
    return table.cast(table.schema.set(place, table.schema.field(place).with_metadata({"note": "from register 17"})))


def nested_note(table: pa.Table) -> pa.Table:
    kind = pa.struct([pa.field("a", pa.int64(), metadata={"note": "raw"})])
    return table.append_column("more", pa.array([{"a": 1}] * table.num_rows, kind))


def pandas_attributes(table: pa.Table) -> pa.Table:
    block = json.loads(table.schema.metadata[b"pandas"]) | {"attributes": {"source": "the raw file"}}
    return table.replace_schema_metadata(table.schema.metadata | {b"pandas": json.dumps(block).encode()})


def pandas_column(table: pa.Table) -> pa.Table:
    block = json.loads(table.schema.metadata[b"pandas"])
    block["columns"].append({"name": "diagnosis", "field_name": "diagnosis"})
    return table.replace_schema_metadata(table.schema.metadata | {b"pandas": json.dumps(block).encode()})


def unused_value(table: pa.Table) -> pa.Table:
    made = pa.array(["n", "s", "register 17"]).dictionary_encode()
    codes = pa.array([0 if v == "n" else 1 for v in table["region"].to_pylist()], pa.int32())
    place = table.schema.get_field_index("region")
    return table.set_column(place, "region", pa.DictionaryArray.from_arrays(codes, made.dictionary))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (unused_value, "the dictionary of column 'region' lists 1 value(s) that no record has"),
        (lambda t: t.replace_schema_metadata(t.schema.metadata | {b"history": b"raw"}), "key 'history' of the file"),
        (field_note, "key 'note' of column 'income'"),
        (nested_note, "key 'note' of column 'more.a'"),
        (pandas_attributes, "'attributes' in the pandas metadata"),
        (pandas_column, "column 'diagnosis' in the pandas metadata"),
        (lambda t: t.replace_schema_metadata(t.schema.metadata | {b"pandas": b"[1"}), "is not pandas' own"),
    ],
    ids=["dictionary", "file", "field", "nested field", "pandas attributes", "pandas column", "no pandas"],
)
def test_foreign_metadata_are_refused_without_repeating_them(
    change: Any, named: str, frame: pd.DataFrame, tmp_path: Path
) -> None:
    path = released(write(frame, tmp_path / "raw.parquet"))
    assert found(pr.audit(path), "metadata", "ok")
    said = found(pr.audit(rewritten(path, change)), "metadata", "error")
    assert named in said
    assert "register 17" not in said


def test_metadata_that_pandas_needs_are_no_foreign_ones(frame: pd.DataFrame, tmp_path: Path) -> None:
    frame = frame.assign(
        day=pd.date_range("2024-01-01", periods=N, tz="Europe/Rome"), sort=pd.Categorical(frame["region"])
    ).set_index(pd.Index(np.arange(N) * 3, name="row"))
    frame.to_parquet(tmp_path / "raw.parquet")
    assert found(pr.audit(released(tmp_path / "raw.parquet")), "metadata", "ok")


def odd_types(frame: pd.DataFrame) -> dict[str, pa.Array]:
    n = len(frame)
    big = pa.array((2**63 + np.arange(n, dtype=np.uint64) * 3).astype(np.uint64))
    return {
        "list": pa.array([[1, 2]] * n),
        "struct": pa.array([{"a": k} for k in range(n)]),
        "map": pa.array([[("k", k % 5)] for k in range(n)], pa.map_(pa.string(), pa.int64())),
        "view": pa.array([f"v{k % 7}" for k in range(n)]).cast(pa.string_view()),
        "big": big,
        "big with gaps": pa.array([None if k % 9 == 0 else 2**63 + k for k in range(n)], pa.uint64()),
        "bytes": pa.array([b"a", b"\xff"] * (n // 2)),
        "money": pa.array([f"{k}.50" for k in range(n)]).cast(pa.decimal128(12, 2)),
        "time": pa.array(np.arange(n), pa.int32()).cast(pa.time32("s")),
        "span": pa.array(np.arange(n)).cast(pa.duration("s")),
        "date": pa.array(np.arange(n) % 4000, pa.int32()).cast(pa.date32()),
        "nothing": pa.nulls(n),
        "half": pa.array(np.arange(n, dtype=np.float16) % 7),
        "yes": pa.array([True, None, False] * (n // 3)),
    }


def test_columns_of_every_type_are_searched(frame: pd.DataFrame, tmp_path: Path) -> None:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    for name, array in odd_types(frame).items():
        table = table.append_column(name, array)
    pq.write_table(table, tmp_path / "raw.parquet")
    result = pr.audit(released(tmp_path / "raw.parquet"), original=tmp_path / "raw.parquet")
    assert result.clean, result
    assert found(result, "give-aways", "ok")


@pytest.mark.parametrize("kind", ["string_view", "uint64"])
def test_perturbed_columns_of_newer_types_are_audited(kind: str, frame: pd.DataFrame, tmp_path: Path) -> None:
    levels: list[Any] = EDU if kind == "string_view" else [2**63, 2**63 + 1, 2**64 - 1]
    held = pa.array([levels[EDU.index(v)] for v in frame["edu"]], pa.string() if kind == "string_view" else pa.uint64())
    held = held.cast(pa.string_view()) if kind == "string_view" else held
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(table.set_column(table.schema.get_field_index("edu"), "edu", held), tmp_path / "raw.parquet")
    mechanism = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(levels, 0.8, kind="nominal")})
    result = pr.audit(released(tmp_path / "raw.parquet", mechanism), original=tmp_path / "raw.parquet")
    assert result.clean, result
    assert "follow P" in found(result, "transitions", "ok")


@pytest.mark.parametrize("size", [300, 30_000])
def test_transitions_of_many_levels_are_tested(size: int, rng: np.random.Generator, tmp_path: Path) -> None:
    """Kept too often, and moved to the wrong places: both are seen, at any number of levels."""
    right = pr.TransitionMatrix.randomized_response(list(range(size)), 0.6, kind="nominal")
    raw = write(pd.DataFrame({"place": rng.integers(0, size, 20_000)}), tmp_path / "raw.parquet")
    path = released(raw, pr.Mechanism({"place": right}), allow=["rare-levels"])
    result = pr.audit(path, original=raw)
    assert f"follow P (chi-square test of {size} levels in groups" in found(result, "transitions", "ok")
    true, out = pq.read_table(raw)["place"].to_numpy(), pq.read_table(path)["place"].to_numpy()
    for wrong in (
        np.where((true == out) | (rng.random(true.size) < 0.1), true, out),
        np.where(true == out, out, (true + rng.integers(1, 5, true.size)) % size),
    ):
        pq.write_table(pq.read_table(path).set_column(0, "place", pa.array(wrong)), path)
        assert "do not follow P" in found(pr.audit(path, original=raw), "transitions", "error")


def test_impossible_transitions_of_many_levels_are_seen(rng: np.random.Generator, tmp_path: Path) -> None:
    size = 201
    banded = 0.6 * np.eye(size) + 0.4 * np.roll(np.eye(size), 1, axis=0)
    mechanism = pr.Mechanism({"place": pr.TransitionMatrix.from_columns(list(range(size)), banded, kind="nominal")})
    raw = write(pd.DataFrame({"place": rng.integers(0, size, 5000)}), tmp_path / "raw.parquet")
    path = released(raw, mechanism)
    assert "follow P" in found(pr.audit(path, original=raw), "transitions", "ok")
    table = pq.read_table(path)
    moved = table["place"].to_numpy().copy()
    moved[0] = (moved[0] + 100) % size
    pq.write_table(table.set_column(0, "place", pa.array(moved)), path)
    assert "1 transition(s) that P makes impossible" in found(pr.audit(path, original=raw), "transitions", "error")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_link_file_leads_back_to_the_original(ending: str, frame: pd.DataFrame, tmp_path: Path) -> None:
    """Rows sorted by the secret and told by their number; shuffled, without a column and under new numbers all is well."""
    raw = write(frame.sort_values("edu", ignore_index=True).assign(id=np.arange(N)), tmp_path / f"raw.{ending}")
    if ending == "parquet":
        pq.write_table(pq.read_table(raw).replace_schema_metadata(None), raw)
    assert not pr.audit(released(raw), original=raw).clean
    link = tmp_path / "link.parquet"
    path = released(raw, shuffle=True, new_id="id", drop=["income"], link=link)
    result = pr.audit(path, original=raw, link=link)
    assert result.clean, result
    assert "follow P" in found(result, "transitions", "ok")
    assert found(result, "give-aways", "ok")
    assert "were shuffled" in found(pr.audit(path, original=raw), "transitions", "error")
    with pytest.raises(pr.PramanaError, match="were shuffled: give its link file"):
        pr.risk(raw, M, released=path)
    with pytest.raises(pr.PramanaError, match="give the original too"):
        pr.audit(path, link=link)
    shorter = write(frame[:-1], tmp_path / f"shorter.{ending}")
    with pytest.raises(pr.PramanaError, match="the original has 2999 records, the release and its link file 3000"):
        pr.audit(path, original=shorter, link=link)


def test_marks_of_missing_values_and_merged_levels_are_compared(
    frame: pd.DataFrame, rng: np.random.Generator, tmp_path: Path
) -> None:
    gaps = rng.random(N) < 0.1
    raw = write(frame.assign(edu=frame["edu"].where(~gaps, "-9")), tmp_path / "raw.csv")
    result = pr.audit(released(raw, missing=["-9"]), original=raw)
    assert "follow P" in found(result, "transitions", "ok"), result
    levels = [*EDU, "unknown"]
    four = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(levels, 0.8)})
    result = pr.audit(released(raw, four, missing=["-9"], missing_level="unknown", allow=["rare-levels"]), original=raw)
    assert "follow P" in found(result, "transitions", "ok"), result
    rare = frame["edu"].where(frame["id"] >= 4, ["a", "b", "c", "d"] * (N // 4))
    raw = write(frame.assign(edu=rare), tmp_path / "raw.csv")
    (tmp_path / "design.toml").write_text("[columns.edu]\nkeep = 0.8\nmerge_below = 5\n")
    result = pr.audit(released(raw, tmp_path / "design.toml"), original=raw)
    assert "follow P" in found(result, "transitions", "ok"), result


def test_a_unit_has_one_released_value(frame: pd.DataFrame, raw: Path) -> None:
    """Seen without the original; gaps are apart, and where true values vary a unit may have several."""
    frame = frame.assign(id=np.arange(N) // 3, edu=frame["edu"].to_numpy()[np.arange(N) // 3 * 3])
    write(frame.assign(edu=frame["edu"].where(frame.index % 7 > 0)), raw)
    path = released(raw, M, unit="id")
    assert "one released value" in found(pr.audit(path), "units", "ok")
    drawn = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    others = drawn["edu"].notna() & (drawn.index % 3 == 2) & (drawn.index < 300)
    write(
        drawn.assign(
            edu=drawn["edu"].where(~others, drawn["edu"].map(dict(zip(EDU, [*EDU[1:], EDU[0]], strict=True))))
        ),
        path,
    )
    said = found(pr.audit(path), "units", "error")
    assert f"{others.sum()} record(s) of edu have another released value than the first of their 'id'" in said
    varying = released(raw, M, unit=pr.Unit("id", varies=True))
    assert not found(pr.audit(varying), "units", "error")


def test_rows_of_a_unit_count_once(rng: np.random.Generator, tmp_path: Path) -> None:
    """Ten rows share a draw: taken for independent, they would seem to leave P."""
    person = np.repeat(np.arange(150), 20)
    frame = pd.DataFrame({"person": person, "edu": rng.choice(EDU, 150)[person], "x": rng.normal(size=N)})
    raw = write(frame.sample(frac=1, random_state=1), tmp_path / "raw.parquet")
    path = tmp_path / "public" / "out.parquet"
    path.parent.mkdir()
    M.with_unit("person").perturb(pd.read_parquet(raw)).to_parquet(path, index=False)
    mechanism = M.with_unit("person")
    (path.parent / "datapackage.json").write_text(
        json.dumps({"resources": [{"path": path.name, **mechanism.document()}]})
    )
    result = pr.audit(path, original=raw)
    assert "follow P" in found(result, "transitions", "ok")
    assert found(result, "give-aways", "ok")
    M.perturb(pd.read_parquet(raw)).to_parquet(path, index=False)
    assert "do not share one draw" in found(pr.audit(path, original=raw), "transitions", "error")


def test_an_audit_says_what_epsilon_bounds_and_what_it_does_not(raw: Path) -> None:
    path = released(raw)
    said = found(pr.audit(path), "promise", "ok")
    assert "epsilon bounds what the released values of edu add" in said
    assert "nothing of it was searched without the original" in said
    assert "a search that finds nothing proves nothing" in found(pr.audit(path, original=raw), "promise", "ok")


def test_the_ledger_shows_a_second_independent_draw(frame: pd.DataFrame, tmp_path: Path) -> None:
    raw, ledger = write(frame, tmp_path / "raw.csv"), tmp_path / "ledger.jsonl"
    first = pr.release(raw, tmp_path / "one.csv", M, ledger=ledger).path
    assert found(pr.audit(first, ledger=ledger), "ledger", "ok")
    with pytest.raises(pr.PramanaError, match="released before with other draws of edu"):
        pr.release(raw, tmp_path / "two.csv", M, ledger=ledger)
    second = pr.release(raw, tmp_path / "two.csv", M, ledger=ledger, allow="second-draw").path
    said = found(pr.audit(second, ledger=ledger), "ledger", "warning")
    assert "edu was drawn independently in 1 other release(s) of the same records (one.csv)" in said
    assert f"epsilon {2 * M.epsilon:.3g}" in said
    assert "not in the ledger" in found(pr.audit(released(raw), ledger=ledger), "ledger", "warning")


def test_the_ledger_knows_that_keyed_draws_repeat(frame: pd.DataFrame, tmp_path: Path) -> None:
    ledger, key = tmp_path / "ledger.jsonl", bytes(range(32))
    options: dict[str, Any] = {"ledger": ledger, "dataset": "panel", "key": key, "id": "id"}
    for wave, size in (("a", 2000), ("b", N)):
        raw = write(frame.iloc[:size], tmp_path / f"raw-{wave}.csv")
        pr.release(raw, tmp_path / f"{wave}.csv", M, **options)
    assert found(pr.audit(tmp_path / "b.csv", ledger=ledger), "ledger", "ok")
    other = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(EDU, 0.7)})
    pr.release(raw, tmp_path / "c.csv", other, allow="second-draw", **options)
    assert "2 other release(s)" in found(pr.audit(tmp_path / "c.csv", ledger=ledger), "ledger", "warning")
    assert key.hex() not in ledger.read_text()
    assert ledger.stat().st_mode & 0o777 == 0o600


def test_a_broken_ledger_is_named_by_its_line(frame: pd.DataFrame, tmp_path: Path) -> None:
    raw, ledger = write(frame, tmp_path / "raw.csv"), tmp_path / "ledger.jsonl"
    pr.release(raw, tmp_path / "one.csv", M, ledger=ledger)
    ledger.write_text(ledger.read_text() + "{\n")
    with pytest.raises(pr.PramanaError, match="line 2 of ledger"):
        pr.release(raw, tmp_path / "two.csv", M, ledger=ledger)
    assert not (tmp_path / "two.csv").exists()
    with pytest.raises(pr.PramanaError, match=r"absent.* does not exist"):
        pr.audit(tmp_path / "one.csv", ledger=tmp_path / "absent")


@pytest.mark.parametrize("style", ["text", "json", "markdown", "latex", "html"])
def test_an_audit_is_shown_in_every_format(style: str, raw: Path) -> None:
    result = pr.audit(released(raw))
    assert "frequencies" in result.summary(style)
    assert json.loads(result.summary("json")) == result.to_dict()
    assert str(result) == result.summary()


def test_statistics_of_row_groups_are_those_of_released_values(frame: pd.DataFrame, tmp_path: Path) -> None:
    raw = write(frame.assign(edu="low"), tmp_path / "raw.parquet")
    path = released(raw, pr.Mechanism({"edu": pr.TransitionMatrix(["low", "mid"], [[0, 1], [1, 0]])}), allow="identity")
    group = pq.ParquetFile(path).metadata.row_group(0).column(1)
    assert (group.path_in_schema, group.statistics.min, group.statistics.max) == ("edu", "mid", "mid")
