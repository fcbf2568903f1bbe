"""Bad reports and bad channels of reports: the message names the value, the limit and the remedy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import pramana as pr

LEVELS = ["a", "b", "c", "d"]
UNARY = pr.UnaryEncoding.optimized(LEVELS, 1.0)
BITS = pr.UnaryEncoding.optimized(LEVELS, 1.0, columns=["w", "x", "y", "z"])
SUBSET = pr.SubsetSelection(LEVELS, 1.0, 2)
HASH = pr.LocalHashing(LEVELS, 1.0)
PAIR = pr.LocalHashing(LEVELS, 1.0, columns=["seed", "value"])
HADAMARD = pr.HadamardResponse(LEVELS, 1.0)
RECTANGLE = pr.RectangularMatrix(["a", "b"], [[0.5, 0.2], [0.2, 0.5], [0.3, 0.3]], released=["a", "b", "?"])


@pytest.mark.parametrize(
    ("channel", "data", "message"),
    [
        (UNARY, {"v": ["0100", "010"]}, r"1 value\(s\) that are no reports .* first in row 1: '010'. A report is text of 4 characters 0 and 1.* this one has 3"),
        (UNARY, {"v": ["0100", "01a0"]}, "first in row 1: '01a0'.*no other character"),
        (UNARY, {"v": ["0100", "01²0"]}, "first in row 1: '01²0'.*no other character"),
        (UNARY, {"v": [100, 1]}, "first in row 0: 100.*read the column as text"),
        (UNARY, {"v": ["a", "b"]}, "first in row 0: 'a'.*this one has 1; get the reports whole"),
        (BITS, {"w": [0, 1], "x": [0, 2], "y": [1, 1], "z": [0, 0]}, "column 'x' has 1 value.*row 1: 2. A report is 0 or 1"),
        (BITS, {"w": ["0", "1"], "x": [0, 1], "y": [1, 1], "z": [0, 0]}, "column 'w'.*'0'. A report is 0 or 1"),
        (BITS, {"w": [0, 1], "x": [0, 1], "y": [1, 1]}, "the channel of 'v' needs column.* 'z', which the data lack"),
        (BITS, {"w": [0], "x": [0], "y": [1], "z": [0], "v": ["a"]}, "a column 'v' as well: drop or rename"),
        (SUBSET, {"v": ["a|b", "a"]}, "row 1: 'a'. A report is a set of 2 levels: this one has 1; state the size"),
        (SUBSET, {"v": ["a|b", "a|b|c"]}, "this one has 3"),
        (SUBSET, {"v": ["a|b", "a|e"]}, r"row 1: 'a\|e'. A report is 2 different levels .*recode"),
        (SUBSET, {"v": ["a|b", "a|a"]}, r"row 1: 'a\|a'"),
        (SUBSET, {"v": [1, 2]}, "row 0: 1.*read the column as text"),
        (HASH, {"v": ["12:0", "13"]}, "row 1: '13'. A report is text 'seed:value'.*columns="),
        (HASH, {"v": ["12:0", "-13:1"]}, "row 1: '-13:1'"),
        (HASH, {"v": ["12:0", "13:4"]}, "row 1: 4.*a value is a whole number from 0 to 3: state the number of values"),
        (HASH, {"v": ["12:0", "99999999999999999999:1"]}, "row 1: '99999999999999999999:1'"),
        (HASH, {"v": ["12:0", "9223372036854775808:1"]}, "row 1: 9223372036854775808.*a seed is a whole number from 0 to"),
        (HASH, {"v": ["12:0", "13:1\n14:2"]}, r"row 1: '13:1\\n14:2'"),
        (HASH, {"v": ["12:0", "٣:1"]}, "row 1: '٣:1'"),
        (HASH, {"v": ["12:0", "12:1", "12:2"]}, r"1 seed\(s\) for 3 reports.*biased. Each person must draw a seed"),
        (PAIR, {"seed": np.arange(30) % 2, "value": np.zeros(30, int)}, r"2 seed\(s\) for 30 reports"),
        (PAIR, {"seed": [1.5, 2.0], "value": [0, 1]}, "column 'seed'.*row 0: 1.5.*a seed is a whole number"),
        (PAIR, {"seed": [1, -2], "value": [0, 1]}, "column 'seed'.*row 1: -2"),
        (PAIR, {"seed": ["one", "two"], "value": [0, 1]}, "column 'seed'.*row 0: 'one'"),
        (HADAMARD, {"v": [0, 8]}, "row 1: 8. A report is a whole number from 0 to 7"),
        (HADAMARD, {"v": [0, 0.5]}, r"row 1: 0\.5"),
        (HADAMARD, {"v": ["a", "b"]}, "row 0: 'a'"),
        (HADAMARD, {"v": np.array([True, False])}, r"2 value\(s\) that are no reports.*row 0: True. A report is a whole number"),
        (HADAMARD, {"v": np.array([3, True], dtype=object)}, "row 1: True"),
        (PAIR, {"seed": [3, 4], "value": np.array([True, False])}, "column 'value'.*row 0: True"),
        (RECTANGLE, {"v": ["a", "x"]}, r"1 value\(s\) that are not levels.*'x'"),
    ],
)  # fmt: skip
def test_what_is_no_report_is_refused(channel: Any, data: dict[str, Any], message: str) -> None:
    with pytest.raises(pr.PramanaError, match=message):
        pr.fit(pr.proportions("v"), data, pr.Mechanism({"v": channel}))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pr.UnaryEncoding(LEVELS, 0.3, 0.3), r"p=0\.3 must be larger than q=0\.3"),
        (lambda: pr.UnaryEncoding(LEVELS, 1.3, 0.3), r"p=1\.3 must be a probability"),
        (lambda: pr.UnaryEncoding(["a"], 0.5, 0.3), "at least 2 levels"),
        (lambda: pr.UnaryEncoding(LEVELS, 0.5, 0.3, columns=["b1", "b2"]), "columns names 2 column.*name 4"),
        (lambda: pr.UnaryEncoding(LEVELS, 0.5, 0.3, columns=["b", "b", "c", "d"]), "must be different names"),
        (lambda: pr.UnaryEncoding.optimized(LEVELS, 0), "epsilon=0 must be positive"),
        (lambda: pr.UnaryEncoding.symmetric(LEVELS, -1), "epsilon=-1 must be positive"),
        (lambda: pr.UnaryEncoding.rappor(LEVELS, 1.0), r"f=1\.0 must be below 1"),
        (lambda: pr.UnaryEncoding(LEVELS, 0.5, 0.3, kind="numeric"), "kind 'numeric' needs numeric levels"),
        (lambda: pr.SubsetSelection(LEVELS, 1.0, 4), "size=4 must be a whole number from 1 to 3"),
        (lambda: pr.SubsetSelection(LEVELS, 1.0, 0), "size=0 must be"),
        (lambda: pr.SubsetSelection(LEVELS, 1.0, 1.5), r"size=1\.5 must be"),
        (lambda: pr.SubsetSelection(["a|b", "c"], 1.0), r"level 'a\|b' holds '\|'.*rename it, or.*columns"),
        (lambda: pr.SubsetSelection(LEVELS, float("nan")), "epsilon=nan"),
        (lambda: pr.LocalHashing(LEVELS, 1.0, 1), "buckets=1 must be a whole number from 2"),
        (lambda: pr.LocalHashing(LEVELS, 30.0), r"epsilon=30\.0 would need .* buckets: state buckets="),
        (lambda: pr.LocalHashing(LEVELS, 1.0, columns=["seed"]), "name 2, or leave columns out"),
        (lambda: pr.HadamardResponse(LEVELS, 1.0, columns=["a", "b"]), "name 1, or leave"),
        (lambda: pr.Mechanism({("w", "x"): UNARY}), "reports one variable: give it the variable's name"),
        (lambda: pr.Mechanism({"v": BITS, "w": RECTANGLE}), "column.* 'w' appear more than once"),
        (lambda: pr.Stratified("s", {1: UNARY}), "a stratum of 's' is a UnaryEncoding"),
        (
            lambda: pr.RectangularMatrix(["a", "b"], [[0.3, 0.3], [0.3, 0.3], [0.4, 0.4]], released=["x", "y", "z"]),
            r"has not full column rank \(smallest singular value [\d.]+e[-+]\d+, the limit is .*merge levels",
        ),
        (
            lambda: pr.RectangularMatrix(["a", "b", "c"], [[0.3, 0.3, 0.5], [0.7, 0.7, 0.5]], released=["x", "y"]),
            r"3 levels and 2 released labels has not full column rank \(smallest singular value 0",
        ),
        (
            lambda: pr.RectangularMatrix(["a", "b"], [[0.5, 0.2, 0.3], [0.1, 0.5, 0.4]], released=["x", "y", "z"]),
            r"shape \(2, 3\) but there are 3 released labels and 2 levels: give 3 × 2.*from_rows",
        ),
        (
            lambda: pr.RectangularMatrix(["a", "b"], [[0.5, 0.2], [0.2, 0.5], [0.2, 0.3]], released=["x", "y", "z"]),
            r"column 0 of the transition matrix sums to 0\.9",
        ),
        (
            lambda: pr.RectangularMatrix(["a", "b"], [[0.5, 0.2], [0.5, 0.8], [0, 0]], released=["x", "y", "z"]),
            "the label 'z' is never released",
        ),
        (
            lambda: pr.RectangularMatrix(["a", "b"], [[0.5, 0.2], [0.2, 0.5], [0.3, 0.3]], released=["x", "y", "y"]),
            "appear more than once",
        ),
        (
            lambda: pr.TransitionMatrix(["a", "b"], [[0.5, 0.2], [0.2, 0.5], [0.3, 0.3]]),
            r"shape \(3, 2\).*or RectangularMatrix\(levels, matrix, released=",
        ),
    ],
)
def test_channels_that_cannot_be_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(pr.MechanismError, match=message):
        make()


@pytest.mark.parametrize("channel", [UNARY, BITS, SUBSET, HASH, PAIR, HADAMARD, RECTANGLE], ids=repr)
def test_what_is_not_for_reports_says_so(channel: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    true = pd.DataFrame({"v": np.array(list(channel.levels))[rng.integers(0, len(channel.levels), 400)]})
    true["late"] = rng.integers(0, 2, 400)
    true.to_csv(tmp_path / "true.csv", index=False)
    mechanism = pr.Mechanism({"v": channel})
    released = mechanism.perturb(true)
    for method in ("naive", "model-dependent"):
        with pytest.raises(
            pr.MechanismError,
            match=f"'v' was released as reports of a {type(channel).__name__}.*use method='reversion'",
        ):
            pr.fit("late ~ v", released, mechanism, family="binomial", method=method)
    with pytest.raises(pr.MechanismError, match="naive"):
        pr.fit(pr.mean("late"), released, mechanism, method="naive", subset="v == 'a'")
    with pytest.raises(pr.PramanaError, match="the specification test averages over all released levels"):
        pr.specification_test("late ~ v", released, mechanism, family="binomial")
    refused = f"the channel of 'v' is a {type(channel).__name__}: this needs transition matrices.*make the reports with Mechanism.perturb"
    with pytest.raises(pr.MechanismError, match=refused):
        pr.release(tmp_path / "true.csv", tmp_path / "out.csv", mechanism)
    assert [p.name for p in tmp_path.iterdir()] == ["true.csv"]
    with pytest.raises(pr.MechanismError, match=refused):
        pr.risk(tmp_path / "true.csv", mechanism)
    with pytest.raises(pr.MechanismError, match=refused):
        pr.plan(tmp_path / "true.csv", "late", "mean(late, by=v)", se=0.1, mechanism=mechanism)
    described = pa.Table.from_pandas(released).replace_schema_metadata({"pram": json.dumps(mechanism.document())})
    parquet.write_table(described, tmp_path / "described.parquet")
    with pytest.raises(pr.MechanismError, match=refused):
        pr.audit(tmp_path / "described.parquet")


@pytest.mark.parametrize("asked", ["late ~ w", "late ~ x + v"])
def test_columns_of_reports_are_not_taken_for_clean(asked: str) -> None:
    true = pd.DataFrame({"v": LEVELS * 10, "late": [0, 1] * 20})
    mechanism = pr.Mechanism({"v": BITS})
    with pytest.raises(
        pr.DataError, match=r"column '[wx]' holds reports of 'v', which are noise and no values: ask for 'v'"
    ):
        pr.fit(asked, mechanism.perturb(true), mechanism, family="binomial")


def test_new_columns_must_be_new() -> None:
    true = pd.DataFrame({"v": LEVELS, "w": [1, 2, 3, 4]})
    with pytest.raises(pr.DataError, match="the data have a column 'w', in which the reports are to lie: rename"):
        pr.Mechanism({"v": BITS}).perturb(true)


def test_values_of_the_truth_stay_secret() -> None:
    with pytest.raises(pr.DataError, match=r"1 value\(s\) that are not levels") as caught:
        pr.Mechanism({"v": UNARY}).perturb(pd.DataFrame({"v": ["a", "secret"]}))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p": 0.1}, r"pram.channels.0: p=0\.1 must be larger than q"),
        ({"p": "x"}, "pram.channels.0.randomization.unary_encoding.p"),
        ({"levels": ["a"]}, "at least 2"),
        ({"channel": "bloom_filter"}, "bloom_filter"),
        ({"columns": ["b"]}, "columns names 1 column"),
    ],
)
def test_broken_descriptions_are_refused_by_their_path(change: dict[str, Any], message: str) -> None:
    from pramana.mechanism.description.document import from_document

    document = pr.Mechanism({"v": UNARY}).document()
    document["pram"]["channels"][0]["randomization"] |= change
    with pytest.raises(pr.MechanismError, match=message):
        from_document(document, "file")


def test_the_largest_seed_is_a_seed() -> None:
    data = {"v": [f"{seed}:1" for seed in (2**63 - 1, 2**63 - 2, 0, 7, 8)]}
    assert pr.fit(pr.proportions("v"), data, pr.Mechanism({"v": HASH})).n == 5
