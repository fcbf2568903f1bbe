"""Released files that were filtered on a perturbed column, or hold a clean column computed from one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.analysis.tampering import CODES, LEVEL, tampered
from pramana.errors import PramanaWarning
from pramana.frames import read

EDU = ["None", "School", "College", "Graduate"]
MECHANISM = pr.Mechanism(
    {
        "edu": pr.TransitionMatrix.randomized_response(EDU, keep=0.7),
        "smokes": pr.TransitionMatrix.binary(0.9, 0.85),
        ("sex", "job"): pr.TransitionMatrix.randomized_response(
            [("f", "no"), ("f", "yes"), ("m", "no"), ("m", "yes")], keep=0.8
        ),
        "ill": pr.Stratified("region", {r: pr.TransitionMatrix.binary(0.9, 0.8) for r in ("n", "s")}),
    }
)


def truth(n: int = 4000, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    edu = rng.choice(4, n, p=[0.1, 0.2, 0.3, 0.4])
    return pd.DataFrame(
        {
            "edu": np.array(EDU, dtype=object)[edu],
            "smokes": (rng.random(n) < 0.3).astype(int),
            "sex": rng.choice(["f", "m"], n),
            "job": rng.choice(["no", "yes"], n),
            "ill": (rng.random(n) < 0.2).astype(int),
            "region": rng.choice(["n", "s"], n),
            "age": rng.integers(20, 70, n),
            "school": (edu > 1).astype(int),  # of the true value, and clean
            "income": 30_000 + 5000 * edu + rng.normal(0, 8000, n),
        }
    )


def released(n: int = 4000, seed: int = 0) -> pd.DataFrame:
    with pytest.warns(PramanaWarning, match="not secure"):
        return pd.DataFrame(MECHANISM.perturb(truth(n, seed), seed=seed))


def codes(what: Any, data: Any, mechanism: Any = MECHANISM, **options: Any) -> list[str]:
    return [d.code for d in pr.fit(what, data, mechanism, **options).diagnostics if d.code in CODES]


FILTERS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "one level": lambda d: d[d.edu == "Graduate"],
    "some levels": lambda d: d[d.edu.isin(["College", "Graduate"])],
    "but one level": lambda d: d[d.edu != "None"],
    "a binary column": lambda d: d[d.smokes == 1],
    "a joint column": lambda d: d[d.sex == "f"],
    "a column with strata": lambda d: d[d.ill == 1],
    "one stratum alone": lambda d: d[(d.ill == 1) | (d.region == "s")],
    "with a clean one": lambda d: d[(d.edu == "Graduate") & (d.age > 30)],
    "the first of each": lambda d: d.groupby(["edu", "age"], as_index=False).first().query("edu != 'None'"),
}


@pytest.mark.parametrize("name", FILTERS)
def test_a_file_filtered_on_a_perturbed_column_is_noticed(name: str) -> None:
    """The question need not use the column: `mean(income)` of the released graduates is not that of the graduates."""
    assert codes("mean(income)", FILTERS[name](released())) == ["filtered-on-perturbed"]


COMPUTED: dict[str, Callable[[pd.DataFrame], Any]] = {
    "a group of levels": lambda d: d.edu.isin(["College", "Graduate"]).astype(int),
    "fewer levels": lambda d: d.edu.map({"None": 0.0, "School": 0.0, "College": 1.5, "Graduate": 4.0}),
    "a rank": lambda d: d.edu.map({e: k for k, e in enumerate(EDU)}),
    "a target encoding": lambda d: d.groupby("edu").income.transform("mean"),
    "two columns": lambda d: ((d.edu == "Graduate") & (d.smokes == 1)).astype(int),
    "a product with a clean column": lambda d: d.age * (d.edu == "Graduate"),
    "one of a joint draw": lambda d: (d.sex == "f").astype(int),
    "nearly": lambda d: np.where(np.arange(len(d)) % 50 == 0, 1 - (d.smokes == 1), d.smokes == 1).astype(int),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_a_clean_column_computed_from_a_perturbed_one_is_noticed(name: str) -> None:
    data = released()
    data["made"] = COMPUTED[name](data)
    assert codes("income ~ made", data) == ["derived-from-perturbed"]
    assert codes("mean(income)", data) == []  # nothing uses it
    assert codes("mean(income)", data, weights=data["made"] + 1) == ["derived-from-perturbed"]


def test_the_message_says_what_to_do() -> None:
    data = released()
    said = {d.code: d for d in pr.fit("mean(income)", data[data.edu == "Graduate"], MECHANISM).diagnostics}
    assert said["filtered-on-perturbed"].severity == "warning"
    assert 'subset="edu ==' in said["filtered-on-perturbed"].message
    data["college"] = data.edu.isin(["College", "Graduate"]).astype(int)
    said = {d.code: d for d in pr.fit("mean(college)", data, MECHANISM).diagnostics}
    assert "isin(edu, [...])" in said["derived-from-perturbed"].message


def test_what_is_healthy_stays_silent() -> None:
    data = released()
    for what in ("income ~ edu + school + age", "mean(school)", "mean(income, by=region)", "smokes ~ edu"):
        assert codes(what, data) == []
    assert codes("mean(income)", data[data.age > 60]) == []
    assert codes("mean(income)", data[data.school == 1]) == []  # no true 'None' among them
    assert codes("mean(one)", data.assign(one=1)) == []
    assert codes("mean(income)", data.assign(edu="unknown")) == []  # not used, and no level


def test_an_identity_matrix_says_nothing() -> None:
    """Without noise a column may well be a function of another, and a file be filtered."""
    same = pr.Mechanism({"edu": pr.TransitionMatrix(EDU, np.eye(4))})
    data = truth()
    assert codes("mean(school)", data[data.edu != "None"], same) == []


def test_records_of_one_unit_count_once() -> None:
    """A hundred records of each of twelve people, who by chance all have the level 1."""
    mechanism = pr.Mechanism({"smokes": pr.TransitionMatrix.binary(0.7, 0.7)}, unit="person")
    data = pd.DataFrame({"person": np.repeat(np.arange(12), 100), "smokes": 1, "x": np.arange(1200) % 7})
    assert codes("mean(x)", data, mechanism) == []
    assert codes("mean(x)", data, pr.Mechanism({"smokes": mechanism.assignments[0].channel})) == [
        "filtered-on-perturbed"
    ]


def test_counts_stand_for_records() -> None:
    cells = pd.DataFrame({"smokes": [0, 1], "n": [0, 500], "x": [1, 2]})
    mechanism = pr.Mechanism({"smokes": pr.TransitionMatrix.binary(0.9, 0.8)})
    assert codes("mean(x)", cells, mechanism, frequencies="n") == ["filtered-on-perturbed"]
    assert codes("counts(smokes)", cells.assign(n=[4, 6]), mechanism, frequencies="n") == []


def test_a_large_file_is_judged_by_some_of_its_records() -> None:
    data = pd.concat([released(seed=k) for k in range(15)])
    assert codes("mean(income)", data) == []
    assert codes("mean(income)", data[data.edu != "None"]) == ["filtered-on-perturbed"]


def test_the_oracle_is_not_judged() -> None:
    data, true = released(), truth()
    found = pr.compare("mean(school)", data, MECHANISM, truth=true[true.edu != "None"])
    assert [d.code for d in found.results["true data"].diagnostics if d.code in CODES] == []


def test_two_hundred_healthy_files_of_varied_shape_are_silent() -> None:
    rng = np.random.default_rng(11)
    flagged = [seed for seed in range(200) if _flagged(rng)]
    assert flagged == []
    assert LEVEL <= 1e-4


def _flagged(rng: np.random.Generator) -> bool:
    """A file of 3 to 3000 records, 2 to 12 levels, any noise, true levels that are rare or absent, columns tied to the truth."""
    n, size = int(3 * 1000 ** rng.random()), int(rng.integers(2, 13))
    levels = [f"l{k}" for k in range(size)]
    keep = 1 / size + (1 - 1 / size) * rng.uniform(0.1, 0.98)
    shares = rng.dirichlet(np.full(size, 0.3))
    codes_ = rng.choice(size, n, p=shares)
    true = {
        "z": np.array(levels, dtype=object)[codes_],
        "w": (rng.random(n) < rng.choice([0.01, 0.5])).astype(int),
        "same": codes_,
        "half": (codes_ > size // 2).astype(int),
        "rare": (rng.random(n) < 0.02).astype(int),
        "y": rng.normal(size=n),
    }
    mechanism = pr.Mechanism(
        {"z": pr.TransitionMatrix.randomized_response(levels, keep), "w": pr.TransitionMatrix.binary(0.9, 0.6)}
    )
    with pytest.warns(PramanaWarning, match="not secure"):
        data = mechanism.perturb(true, seed=int(rng.integers(1 << 30)))

    clean = {name: np.asarray(data[name]) for name in ("same", "half", "rare", "y")}
    return bool(tampered(read(data), mechanism, clean))


def test_a_frame_with_fewer_records_than_were_described_is_said(tmp_path: Path) -> None:
    """A sample by released value in the right proportions is possible under P; only the counts in the description show it."""
    truth().to_csv(tmp_path / "true.csv", index=False)
    made = pr.release(tmp_path / "true.csv", tmp_path / "public.csv", MECHANISM)
    data = pd.read_csv(made.path, keep_default_na=False)
    counts = data.edu.value_counts()

    def found(frame: pd.DataFrame, mechanism: Path = made.path) -> list[tuple[str, str]]:
        said = pr.fit("mean(income)", frame, mechanism).diagnostics
        return [(d.code, d.severity) for d in said if d.code in CODES]

    assert found(data) == []
    assert found(data[data.index % 2 == 0], made.description) == [("other-records", "info")]
    equal = pd.concat([part.head(int(counts.min())) for _, part in data.groupby("edu")])
    assert found(equal) == [("other-records", "warning")]
    said = [d.message for d in pr.fit("mean(income)", equal, made.path).diagnostics if d.code == "other-records"]
    assert "hold" in said[0]
    assert f"of {counts['Graduate']}" in said[0]
    assert found(pd.concat([data, data])) == [("other-records", "warning")]
