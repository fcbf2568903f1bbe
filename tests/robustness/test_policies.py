"""Policy files that are wrong by mistake or by malice: one clear error that names the key, at once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import pramana as pr
from soon import soon

WRONG = {
    "limit.column": "[limit]\ncolumn = 1",
    "did you mean 'limits'": "[limit]\ncolumn = 1",
    "unknown key 'limits.kep': did you mean 'keep'": "[limits]\nkep = 1",
    "unknown key 'budget.data_set': did you mean 'dataset'": "[budget]\ndata_set = 1",
    "budget is 3: give a table": "budget = 3",
    "audit is a list": "audit = []",
    "budget.dataset is '6'": "[budget]\ndataset = '6'",
    "budget.dataset is -1: give a number of at least 0": "[budget]\ndataset = -1",
    "number that is nan": "[budget]\ndataset = nan",
    "number that is inf": "[budget]\nunit = inf",
    "budget.unit is True": "[budget]\nunit = true",
    "budget.datasets is a table of 1": "[budget]\ndatasets = { a = 'x' }",
    "budget.disjoint is a list of 1": "[budget]\ndisjoint = ['a']",
    "each in one of them": "[budget]\ndisjoint = [['a', 'b'], ['b', 'c']]",
    "limits.keep is 0": "[limits]\nkeep = 0",
    "limits.keep is 1.1": "[limits]\nkeep = 1.1",
    "limits.merge_below is 2.5": "[limits]\nmerge_below = 2.5",
    "limits.merge_below is 0": "[limits]\nmerge_below = 0",
    "must fit into 64": f"[limits]\nmerge_below = 1{'0' * 4000}",
    "forbid is 'seed': give a list of identity": "forbid = 'seed'",
    "forbid is a list of 1 ('sead'": "forbid = ['sead']",
    "require is a list of 1": "require = [['ledger']]",
    "formats is a list of 1 ('xlsx'": "formats = ['xlsx']",
    "columns.drop is 1": "[columns]\ndrop = 1",
    "columns.perturb is a list of 2": "[columns]\nperturb = ['a', 1]",
    "audit.original is 'yes': give true or false": "[audit]\noriginal = 'yes'",
    "name is 2026-01-01": "name = 2026-01-01",
}


@pytest.mark.parametrize(("said", "text"), [(k, v) for k, v in WRONG.items() if k != "limit.column"])
def test_a_wrong_key_is_named(said: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(f"version = 1\n{text}\n")
    with pytest.raises(pr.PramanaError) as caught:
        pr.Policy.load(path)
    assert said.replace("2026-01-01", "datetime.date(2026, 1, 1)") in str(caught.value)
    assert "policy.toml" in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "lacks 'version': write version = 1"),
        ("version = 2\nnew_rule = true", "has version 2, newer than the 1"),
        ("version = 0", "version is 0"),
        ("version = '²'", "version is '²'"),
        ("version = true", "version is True"),
        (f"version = {'9' * 4000}", "policy.toml"),
        (f"version = {'9' * 5000}", "policy.toml"),
        ("version = 1\nversion = 1", "policy.toml"),
        ("version = 1\nx = " + "[" * 20_000, "policy.toml"),
        ("version = 1\nx = " + "{a=" * 15_000, "policy.toml"),
        ("version = 1\n[" + ".".join("a" * 20_000) + "]", "policy.toml"),
        ("version = 1\n" + ".".join(["budget"] * 9000) + " = 1", "policy.toml"),
        ("version = 1\n" + ".".join(["budget"] * 100) + " = 1", "policy.toml"),
        ("version = 1\n" + "".join(f"[{'.'.join('a' * 100)}.b{i}]\n" for i in range(300)), "policy.toml"),
        ("version = 1\n" + "".join(f"k{i} = {i}\n" for i in range(4000)), "unknown key 'k0'"),
        ("version = 1\n'" + "k" * 50_000 + "' = 1", "unknown key"),
    ],
    ids=range(16),
)
def test_hostile_files_are_refused_at_once(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(pr.PramanaError) as caught:
        soon(pr.Policy.load, path)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("content", [b"\xff\xfe", b"version = 1 # \xe9", b"\0", b"PAR1" + bytes(range(256))])
def test_bytes_that_are_no_text(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_bytes(content)
    with pytest.raises(pr.PramanaError, match="not valid TOML"):
        pr.Policy.load(tmp_path / "policy.toml")


def test_a_folder_or_nothing_is_no_policy(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(pr.PramanaError, match=r"policy .*(is a folder|does not exist)"):
            pr.Policy.load(path)


GOOD = b"""version = 1
name = "Office"
forbid = ["identity", "seed"]
require = ["ledger"]
[budget]
dataset = 6.0
datasets = { health = 1.0 }
disjoint = [["a", "b"], ["c", "d"]]
[limits]
column = 3.0
keep = 0.9
merge_below = 10
[columns]
drop = ["name"]
[audit]
original = true
"""


def test_mutated_policies_are_read_or_refused(tmp_path: Path) -> None:
    """300 files, a few bytes of each changed: a policy or a clear error, never a traceback, never slow."""
    draw = random.Random(5)
    path = tmp_path / "policy.toml"
    refused = 0
    for _ in range(300):
        body = bytearray(GOOD)
        for _ in range(draw.randint(1, 6)):
            place = draw.randrange(len(body))
            body[place : place + draw.randint(0, 3)] = draw.choice(
                [b"", b"[", b"]", b'"', b"=", b"9" * 30, b"\xff", b"\n", b"-", b"{"]
            )
        path.write_bytes(bytes(body))
        try:
            soon(pr.Policy.load, path)
        except pr.PramanaError:
            refused += 1
    assert 150 < refused < 300
