"""The one door for JSON and TOML: bounds, one meaning, and words that say what is wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import pramana as pr
from pramana.frames import documents
from pramana.frames.documents import DEEPEST, parse_json, read_json, read_json_lines, read_toml
from soon import soon

WRONG_JSON: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is not valid JSON: Expecting value"),
    "garbage": (bytes(range(256)), "is not valid JSON: byte 128 is not UTF-8 text|is not valid JSON: Expecting"),
    "zeros": (b"\0" * 20, "is not valid JSON: Expecting value"),
    "half": (b'{"a": 1', "is not valid JSON: Expecting ',' delimiter"),
    "latin-1": ('{"a": "é"}'.encode("latin-1"), "byte 7 is not UTF-8 text; save it as UTF-8"),
    "utf-16": ('{"a": 1}'.encode("utf-16"), "byte 0 is not UTF-8 text; save it as UTF-8"),
    "deep lists": (b"[" * 100_000 + b"]" * 100_000, f"nests more than {DEEPEST} levels deep"),
    "deep lists that Python reads": (b"[" * 500 + b"]" * 500, f"nests more than {DEEPEST} levels deep"),
    "one too deep": (b"[" * (DEEPEST + 2) + b"]" * (DEEPEST + 2), f"nests more than {DEEPEST} levels deep"),
    "deep objects": (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "nests more than"),
    "5000 digits": (
        b"[" + b"7" * 5000 + b"]",
        "holds a whole number of 5000 digits: whole numbers must fit into 64 bits",
    ),
    "minus 5000 digits": (b"[-" + b"7" * 5000 + b"]", "holds a whole number of 5000 digits"),
    "65 bits": (b"18446744073709551616", "holds a whole number of 65 bits: whole numbers must fit into 64"),
    "too negative": (b"-9223372036854775809", "must fit into 64"),
    "nan": (b'{"a": NaN}', "holds NaN, which is no number of JSON: every number must be finite"),
    "infinity": (b'{"a": -Infinity}', "holds -Infinity"),
    "too large": (b'{"a": 1e999}', "holds a number that is inf: every number must be finite"),
    "twice": (
        b'{"a": 1, "b": {"c": 1, "\\u0063": 2}}',
        "holds the key 'c' twice in one object, so that readers may differ",
    ),
    "half a character": (b'["\\ud800"]', r"holds '\\ud800', in which a character is cut in half"),
    "half a character in a key": (b'{"a\\udfffb": 1}', "in which a character is cut in half"),
}
WRONG_TOML: dict[str, tuple[bytes, str]] = {
    "garbage": (bytes(range(256)), "is not valid TOML"),
    "zeros": (b"\0", "is not valid TOML"),
    "utf-16": ("a = 1".encode("utf-16"), "is not UTF-8 text"),
    "deep": (b"a = " + b"[" * 50_000 + b"]" * 50_000, f"nests more than {DEEPEST} levels deep"),
    "deep that Python reads": (b"a = " + b"[" * 100 + b"]" * 100, "nests more than"),
    "dotted": (b"a" + b".a" * 100_000 + b" = 1", "nests more than"),
    "dotted table": (b"[" + b"a." * 100_000 + b"a]", "nests more than"),
    "dotted tables": (b"[[" + b"'a' . " * 50_000 + b"a]]", "nests more than"),
    "dotted inside": (b"x = {" + b'"a".' * 50_000 + b"a = 1}", "nests more than"),
    "5000 digits": (b"a = " + b"7" * 5000, "number or date that cannot be: whole numbers must fit into 64 bits"),
    "hexadecimal": (b"a = 0x" + b"f" * 5000, "holds a whole number of 20000 bits"),
    "nan": (b"a = nan", "holds a number that is nan"),
    "infinity": (b"a = [-inf]", "holds a number that is -inf"),
    "twice": (b"a = 1\na = 2", "is not valid TOML: Cannot overwrite"),
    "no calendar": (b"a = 2020-02-31", "is not valid TOML"),
}


@pytest.mark.parametrize("name", WRONG_JSON)
def test_json_that_is_refused(name: str, tmp_path: Path) -> None:
    content, message = WRONG_JSON[name]
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(pr.PramanaError, match=message) as refusal:
        soon(read_json, tmp_path / "a.json", "note")
    assert "a.json' " in str(refusal.value)
    assert type(refusal.value) is pr.PramanaError
    with pytest.raises(pr.MechanismError, match=message):
        parse_json(content, "the note", pr.MechanismError)


@pytest.mark.parametrize("name", WRONG_TOML)
def test_toml_that_is_refused(name: str, tmp_path: Path) -> None:
    content, message = WRONG_TOML[name]
    (tmp_path / "a.toml").write_bytes(content)
    with pytest.raises(pr.MechanismError, match=message):
        soon(read_toml, tmp_path / "a.toml", "note", pr.MechanismError)


def test_what_is_no_readable_file_is_named(tmp_path: Path) -> None:
    for read in (read_json, read_toml, read_json_lines):
        with pytest.raises(pr.PramanaError, match=r"note .*absent' does not exist"):
            read(tmp_path / "absent", "note")
        with pytest.raises(pr.PramanaError, match="is a folder"):
            read(tmp_path, "note")
        with pytest.raises(pr.PramanaError, match="cannot be read: File name too long"):
            read(tmp_path / ("x" * 5000), "note")
        os.mkfifo(tmp_path / "pipe") if not (tmp_path / "pipe").exists() else None
        with pytest.raises(pr.PramanaError, match="is no ordinary file"):  # it would wait for ever
            read(tmp_path / "pipe", "note")


def test_a_file_that_is_too_long_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(documents.LARGEST, "JSON", 1000)
    (tmp_path / "a.json").write_bytes(b"[" + b"1," * 600 + b"1]")
    with pytest.raises(pr.PramanaError, match="longer than the 1000 bytes that are read of JSON"):
        read_json(tmp_path / "a.json", "note")
    with (tmp_path / "sparse.toml").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(pr.PramanaError, match="longer than the 16777216 bytes that are read of TOML"):
        read_toml(tmp_path / "sparse.toml", "note")


def test_what_is_right_is_read_as_it_is(tmp_path: Path) -> None:
    text = '{"a": [1, -2.5e-3, true, null, "é", "\\ud83d\\ude00", 18446744073709551615, -9223372036854775808], "b": {}}'
    expected = {"a": [1, -0.0025, True, None, "é", "😀", 2**64 - 1, -(2**63)], "b": {}}
    for mark in (b"", b"\xef\xbb\xbf"):
        (tmp_path / "a.json").write_bytes(mark + text.encode())
        assert read_json(tmp_path / "a.json", "note") == expected
        (tmp_path / "a.toml").write_bytes(mark + b'a."b.c" = ["............................................"]\n')
        assert read_toml(tmp_path / "a.toml", "note") == {"a": {"b.c": ["." * 44]}}
    assert parse_json(b"[" * DEEPEST + b"]" * DEEPEST, "it") is not None


def test_lines_are_read_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for content, expected in {b"": [], b"1\n": [1], b"1\n[2]": [1, [2]], b"1\r\n2\r\n": [1, 2]}.items():
        path.write_bytes(content)
        assert read_json_lines(path, "note") == expected
    path.write_bytes(b'1\n{"a": 1, "a": 2}\n')
    with pytest.raises(pr.PramanaError, match=r"line 2 of note '.*a.jsonl' holds the key 'a' twice"):
        read_json_lines(path, "note")
    path.write_bytes(b"1\n\n2\n")
    with pytest.raises(pr.PramanaError, match=r"line 2 of note .* is not valid JSON"):
        read_json_lines(path, "note")
