"""The audit of columns with noise: numbers on their grid, spreads and bounds, the law of the noise, and what gives it away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from audits import findings
from pramana.frames.blocks import csv_files
from pramana.frames.writing import sha256

pa = pytest.importorskip("pyarrow")
NOISES: dict[str, Any] = {
    "laplace": pr.LaplaceNoise(4.0, bounds=(0, 200)),
    "geometric": pr.GeometricNoise(3.0, bounds=(0, 200)),
    "keep or noise": pr.KeepOrNoise(0.4, pr.GeometricNoise(6.0, bounds=(0, 200))),
    "keep or normal": pr.KeepOrNoise(0.55, pr.GaussianNoise(8.0, bounds=(0, 200))),
    "gaussian": pr.GaussianNoise(5.0, bounds=(0, 200)),
    "discrete gaussian": pr.DiscreteGaussianNoise(5.0, bounds=(0, 200)),
    "uniform": pr.UniformNoise(10.0, bounds=(0, 200)),
    "by stratum": pr.Stratified("region", {"n": pr.GeometricNoise(2.0), "s": pr.GeometricNoise(5.0, step=0.5)}),
}
WRONG: dict[str, Any] = {
    "laplace": pr.LaplaceNoise(4.8, bounds=(0, 200)),
    "geometric": pr.GeometricNoise(3.6, bounds=(0, 200)),
    "keep or noise": pr.KeepOrNoise(0.3, pr.GeometricNoise(6.0, bounds=(0, 200))),
    "keep or normal": pr.KeepOrNoise(0.65, pr.GaussianNoise(8.0, bounds=(0, 200))),
    "gaussian": pr.GaussianNoise(5.6, bounds=(0, 200)),
    "discrete gaussian": pr.DiscreteGaussianNoise(5.6, bounds=(0, 200)),
    "uniform": pr.UniformNoise(11.0, bounds=(0, 200)),
    "by stratum": pr.Stratified("region", {"n": pr.GeometricNoise(2.0), "s": pr.GeometricNoise(6.0, step=0.5)}),
}


@pytest.fixture
def folder(rng: np.random.Generator, tmp_path: Path) -> Path:
    n = 4000
    wage = np.clip(np.round(rng.lognormal(3, 0.6, n), 1), 0, 190)
    frame = pd.DataFrame(
        {"id": np.arange(n), "wage": wage, "x": rng.normal(size=n), "region": rng.choice(["n", "s"], n)}
    )
    frame.loc[[3, 700], "wage"] = np.nan
    frame.to_csv(tmp_path / "raw.csv", index=False)
    frame.to_parquet(tmp_path / "raw.parquet", index=False)
    (tmp_path / "public").mkdir()
    return tmp_path


def released(folder: Path, noise: Any, ending: str = "csv", **options: Any) -> Path:
    path = folder / "public" / f"file.{ending}"
    pr.release(
        folder / f"raw.{ending}", path, pr.Mechanism({"wage": noise}), seed=11, allow="seed", force=True, **options
    )
    return path


def described_as(path: Path, noise: Any) -> None:
    """Another noise in the description than the one that was drawn, and the hash of the file as it is now."""
    package = path.parent / "datapackage.json"
    body = json.loads(package.read_text())
    resource = body["resources"][0]
    document = pr.Mechanism({"wage": noise}).document()["pram"]
    epsilon = document["channels"][0]["epsilon"]
    resource["pram"] |= {"channels": document["channels"], "epsilon": epsilon, "sha256": sha256(path)}
    resource["hash"] = f"sha256:{sha256(path)}"
    package.write_text(json.dumps(body))


@pytest.mark.parametrize(
    ("name", "ending"),
    [
        *((name, "csv") for name in NOISES),
        *(
            pytest.param(name, "parquet", marks=() if name in ("laplace", "by stratum") else pytest.mark.verify)
            for name in NOISES
        ),
    ],
)
def test_a_release_passes_with_and_without_its_original(
    folder: Path, name: str, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = released(folder, NOISES[name], ending)
    audit = pr.audit(path, original=folder / f"raw.{ending}", epsilon_limit=1e9)
    assert [f for f in audit.findings if f.severity != "ok" and f.check not in ("randomness", "epsilon")] == []
    found = [f.message for f in audit.findings if f.check == "transitions"]
    assert found
    assert all("follows its law" in message for message in found)
    assert [f.severity for f in pr.audit(path).findings if f.check == "noise"] == ["ok"]
    if ending == "parquet":
        return
    monkeypatch.setattr(csv_files, "SIZE", 4096)
    if name in ("laplace", "by stratum"):  # give-aways are searched among records in memory, whatever noise and blocks
        again = pr.audit(path, original=folder / f"raw.{ending}", epsilon_limit=1e9)
        assert [f.severity for f in again.findings] == [f.severity for f in audit.findings]
    for check in ("transitions", "noise", "levels"):
        own = {"original": folder / f"raw.{ending}"} if check == "transitions" else {}
        assert [s for s, _ in findings(path, check, **own)] == [f.severity for f in audit.findings if f.check == check]


@pytest.mark.parametrize("name", NOISES)
def test_another_scale_is_found_beside_the_original(folder: Path, name: str) -> None:
    path = released(folder, NOISES[name])
    described_as(path, WRONG[name])
    found = findings(path, "transitions", original=folder / "raw.csv")
    assert any(severity == "error" and "does not follow its law" in message for severity, message in found)


def test_few_records_are_tested_in_larger_cells(folder: Path) -> None:
    pd.read_csv(folder / "raw.csv").iloc[:120].to_csv(folder / "raw.csv", index=False)
    path = released(folder, NOISES["gaussian"])
    [(severity, message)] = findings(path, "transitions", original=folder / "raw.csv")
    assert severity == "ok"
    assert "8 df" in message
    described_as(path, pr.GaussianNoise(10.0, bounds=(0, 200)))
    assert findings(path, "transitions", original=folder / "raw.csv")[0][0] == "error"
    pd.read_csv(folder / "raw.csv").iloc[:20].to_csv(folder / "raw.csv", index=False)
    path = released(folder, NOISES["gaussian"])
    [(severity, message)] = findings(path, "transitions", original=folder / "raw.csv")
    assert "too few records" in message


def test_noise_that_depends_on_the_true_value_is_found(folder: Path) -> None:
    """Of the right law over all records, but large for the large ones."""
    raw, noise = pd.read_csv(folder / "raw.csv"), pr.GeometricNoise(3.0, bounds=(0, 200))
    path = released(folder, noise)
    public = pd.read_csv(path)
    drawn = np.sort(np.abs(public["wage"] - raw["wage"].round()).dropna())
    order = raw["wage"].rank(method="first").dropna().astype(int).to_numpy() - 1
    sign = np.random.default_rng(1).choice([-1, 1], order.size)
    public.loc[raw["wage"].notna(), "wage"] = raw["wage"].round().dropna().to_numpy() + sign * drawn[order]
    public["wage"] = public["wage"].astype("Int64")
    public.to_csv(path, index=False)
    described_as(path, noise)
    [(severity, message)] = findings(path, "transitions", original=folder / "raw.csv")
    assert severity == "error", message


@pytest.mark.parametrize(
    ("change", "noise", "message"),
    [
        (lambda w: w + 0.25, "geometric", r"3998 value\(s\) are no multiples of the step 1"),
        (lambda w: w.clip(0, 200), "geometric low", r"lie at the bound 0 and none beyond it"),
        (lambda w: w.clip(0, 200), "gaussian low", r"lie at the bound 0 and none beyond it"),
        (lambda w: w.where(w > 0), "laplace low", r"of the bound 0 and none beyond it"),
        (lambda w: w * 0 + 20, "geometric", r"variance of 0, and their noise alone has"),
        (lambda w: w + 400, "geometric", r"lie farther from the bounds than the noise reaches"),
        (lambda w: w + 190, "geometric", r"outside of their bounds 0 to 200"),
        (lambda w: w + 2.0**-20, "laplace", r"lie off the grid of 0.000977 on which"),
    ],
)
def test_changed_numbers_are_found_without_the_original(folder: Path, change: Any, noise: str, message: str) -> None:
    import re

    low = {
        "geometric low": pr.GeometricNoise(30.0, bounds=(0, 200)),
        "gaussian low": pr.GaussianNoise(30.0, bounds=(0, 200)),
        "laplace low": pr.LaplaceNoise(30.0, bounds=(0, 200)),
    }
    wide = {**NOISES, **low}[noise]
    path = released(folder, wide)
    frame = pd.read_csv(path)
    frame["wage"] = change(frame["wage"])
    frame.to_csv(path, index=False)
    described_as(path, wide)
    found = findings(path, "noise")
    assert any(re.search(message, told) and severity != "ok" for severity, told in found), found
    assert all("wage" in told for _, told in found)


def test_text_in_a_noisy_column_is_an_error(folder: Path) -> None:
    path = released(folder, NOISES["laplace"])
    lines = path.read_text().splitlines()
    lines[5] = lines[5].replace(lines[5].split(",")[1], "high")
    path.write_text("\n".join(lines) + "\n")
    [(severity, message)] = findings(path, "levels")
    assert severity == "error"
    assert "'wage' has at least 1 value(s) that are no finite numbers, first in row 4" in message


def test_marks_that_were_declared_are_gaps_in_the_original_too(folder: Path) -> None:
    frame = pd.read_csv(folder / "raw.csv").fillna({"wage": -8})
    frame.to_csv(folder / "raw.csv", index=False)
    path = released(folder, NOISES["laplace"], missing=["-8.0"])
    [(severity, message)] = findings(path, "transitions", original=folder / "raw.csv")
    assert severity == "ok", message


def test_weak_noise_is_named(folder: Path) -> None:
    path = released(folder, NOISES["gaussian"])
    [(severity, message)] = [f for f in findings(path, "epsilon") if "infinite" in f[1]]
    assert severity == "warning"
    assert "the noise of wage is without bounds or not Laplace's; rho is 800" in message
    described_as(path, pr.GeometricNoise(0.1, bounds=(0, 200)))
    assert any("changes nothing" in message for _, message in findings(path, "identity"))


def test_a_clear_column_that_tells_the_number_is_found(folder: Path) -> None:
    frame = pd.read_csv(folder / "raw.csv")
    frame["band"] = frame["wage"].round(-1)
    frame.to_csv(folder / "raw.csv", index=False)
    path = released(folder, pr.LaplaceNoise(20.0, bounds=(0, 200)))
    found = findings(path, "give-aways", original=folder / "raw.csv")
    assert any(severity in ("error", "warning") and "band" in message for severity, message in found), found


def test_shuffled_units_are_audited_by_their_link(folder: Path) -> None:
    frame = pd.read_csv(folder / "raw.csv").dropna()
    frame["person"] = np.arange(len(frame)) // 2
    frame["wage"] = frame["wage"].to_numpy()[np.arange(len(frame)) // 2 * 2]
    frame.to_csv(folder / "raw.csv", index=False)
    path = released(folder, NOISES["laplace"], unit="person", shuffle=True, link=folder / "link.csv")
    audit = pr.audit(path, original=folder / "raw.csv", link=folder / "link.csv", epsilon_limit=1e9)
    assert {f.check for f in audit.findings if f.severity == "error"} <= {"randomness"}
    assert any(f.check == "transitions" and "follows its law" in f.message for f in audit.findings)
    public = pd.read_csv(path)
    public.loc[0, "wage"] += 1.0
    public.to_csv(path, index=False)
    described = json.loads((path.parent / "datapackage.json").read_text())
    described["resources"][0]["pram"]["sha256"] = sha256(path)
    (path.parent / "datapackage.json").write_text(json.dumps(described))
    assert any("another released value" in message for _, message in findings(path, "units"))
