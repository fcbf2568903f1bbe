"""An audit passes what is right, and sees each thing that is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import pramana as pr
from pramana.disclosure.audit.contents import chi_square
from pramana.disclosure.audit.giveaways import telling

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
        "hash",
        "schema",
        "strength",
        "rows",
        "levels",
        "frequencies",
        "transitions",
        "give-aways",
    ]
    assert [f.check for f in result.findings] == checks


def test_strata_joint_columns_and_missing_values_are_audited_too(frame: pd.DataFrame, tmp_path: Path) -> None:
    frame["sex"] = np.where(frame["id"] % 2 == 0, "f", "m")
    frame["k"] = frame["id"] // 7 % 2
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
        assert pr.audit(released(raw), original=raw).clean


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
        chi_square(np.stack([rng.multinomial(2000, column) for column in matrix.T], axis=1), matrix)[0]
        for _ in range(2000)
    ]
    assert np.mean(np.array(p) < 0.05) == pytest.approx(0.05, abs=0.025)


CLEAR = {
    "a derived code": (lambda f: f["edu"].map({"low": 11, "mid": 12, "high": 13}), "error"),
    "a weight": (lambda f: f["edu"].map({"low": 0.51, "mid": 1.2, "high": 3.4}), "error"),
    "a close copy": (lambda f: f["edu"].where(f["id"] % 50 != 0, "low"), "error"),
    "a flag of one level": (lambda f: (f["edu"] == "high").astype(int), "warning"),
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
        assert "'clear' tells 'edu'" in found(result, "give-aways", severity)
        assert result.clean == (severity != "error")


def test_telling_is_one_for_a_copy_and_zero_for_an_identifier(rng: np.random.Generator) -> None:
    true = rng.integers(0, 3, 2000)
    assert telling(true, true)[0] == pytest.approx(1)
    assert telling(np.arange(2000), true)[0] < 0.05


def test_weak_matrices_and_seeds_are_warned_of(frame: pd.DataFrame, tmp_path: Path) -> None:
    raw = write(frame, tmp_path / "raw.csv")
    weak = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(EDU, 0.335)})
    result = pr.audit(released(raw, weak, seed=1, allow="seed"))
    assert "condition number" in found(result, "conditioning", "warning")
    assert "drawn from a seed" in found(result, "randomness", "warning")
    strong = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(EDU, 0.99999)})
    assert "epsilon is 12.2, above 10" in found(pr.audit(released(raw, strong, allow="identity")), "epsilon", "warning")
    assert "above 2" in found(pr.audit(released(raw), epsilon_limit=2), "epsilon", "warning")
    assert pr.audit(released(raw, weak)).clean


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
