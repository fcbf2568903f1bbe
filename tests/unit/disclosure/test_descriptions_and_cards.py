"""The Data Package, the JSON Schema and the card."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from golden_texts import worded
from pramana.disclosure.release.description import merged_package
from pramana.disclosure.utility.costs import share_inflation
from pramana.mechanism.description.document import SCHEMA, from_document, parsed, schema_text

pytestmark = pytest.mark.filterwarnings("ignore:release")
GOLDEN = Path(__file__).parents[2] / "golden"
EDU = ["low", "mid", "high"]


def golden_release(folder: Path) -> Path:
    """Two files, one description; the seed makes their hashes repeatable."""
    rows = [f"{i},{EDU[i % 3]},{i % 2},{'north' if i % 5 else 'south'},{i / 4}" for i in range(60)]
    (folder / "raw.csv").write_text("\n".join(["id,edu,smoker,region,income", *rows]) + "\n")
    public = folder / "public"
    public.mkdir()
    strata = {"north": pr.TransitionMatrix.binary(0.9, 0.8), "south": pr.TransitionMatrix.binary(0.7, 0.6)}
    first = pr.Mechanism(
        {"edu": pr.TransitionMatrix.randomized_response(EDU, 0.8), "smoker": pr.Stratified("region", strata)}
    )
    pr.release(folder / "raw.csv", public / "seeded.csv", first, seed=1, allow="seed")
    given = pr.TransitionMatrix(EDU, [[0.8, 0.1, 0], [0.2, 0.8, 0.3], [0, 0.1, 0.7]], conditional=True)
    second = pr.Mechanism({"edu": given})
    pr.release(folder / "raw.csv", public / "keyed.csv", second, key=bytes(range(32)), id="id", card=True)
    return public


def test_the_description_is_word_for_word_the_golden_one(tmp_path: Path) -> None:
    """One golden file per version: a change here is a change of the published format."""
    found = (golden_release(tmp_path) / "datapackage.json").read_text(encoding="utf-8")
    assert worded(found) == worded((GOLDEN / "datapackage-1.2.json").read_text(encoding="utf-8"))


def golden_units(folder: Path) -> Path:
    """Records of persons that share their draws, handled in every way that a description tells of."""
    rows = [f"{k // 2},{EDU[k // 2 % 3]},{'' if k < 4 else k % 2},x" for k in range(60)]
    (folder / "raw.csv").write_text("\n".join(["person,edu,smoker,note", *rows]) + "\n")
    (folder / "public").mkdir()
    smoker = pr.TransitionMatrix.randomized_response([0, 1], 0.7)
    mechanism = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(EDU, 0.8), "smoker": smoker})
    options: dict[str, object] = {"unit": pr.Unit("person", varies=True), "drop": ["note"], "key": bytes(range(32))}
    pr.release(folder / "raw.csv", folder / "public" / "units.csv", mechanism, new_id="person", **options)  # type: ignore[arg-type]
    return folder / "public"


def test_the_description_with_a_unit_is_word_for_word_the_golden_one(tmp_path: Path) -> None:
    found = (golden_units(tmp_path) / "datapackage.json").read_text(encoding="utf-8")
    assert worded(found) == worded((GOLDEN / "datapackage-2.0.json").read_text(encoding="utf-8"))
    body = parsed(json.loads(found)["resources"][0], "golden")
    assert (body.version, body.missing, body.dropped, body.new_id) == ("2.0", {"smoker": 4}, ["note"], "person")


@pytest.mark.parametrize(("version", "conditional"), [("1.0", []), ("1.1", ["edu"]), ("1.2", ["edu"])])
def test_the_golden_descriptions_are_read(version: str, conditional: list[str]) -> None:
    resources = json.loads((GOLDEN / f"datapackage-{version}.json").read_text())["resources"]
    assert [from_document(resource, "golden").conditional for resource in resources] == [[], conditional]
    columns = [from_document(resource, "golden").columns for resource in resources]
    facts = [parsed(resource, "golden") for resource in resources]
    assert columns == [["edu", "smoker"], ["edu"]]
    assert [f.rows for f in facts] == [60, 60]
    assert [f.randomness for f in facts] == ["seeded (insecure)", "keyed"]


def test_the_json_schema_that_ships_is_that_of_the_models() -> None:
    """`make schema` writes it anew."""
    assert SCHEMA.read_text(encoding="utf-8") == schema_text()


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_descriptions_satisfy_the_json_schema(version: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    validator.validate(json.loads((GOLDEN / f"mechanism-{version}.json").read_text()))
    resources = json.loads((GOLDEN / f"datapackage-{version}.json").read_text())["resources"]
    for resource in resources:
        validator.validate(resource)
    broken = json.loads(json.dumps(resources[0]))
    broken["pram"]["channels"][0]["randomization"]["channel"] = "shuffle"
    assert not validator.is_valid(broken)
    assert not validator.is_valid({"name": "x"})


def test_a_folder_keeps_its_other_resources_and_its_own_words(
    tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    survey.to_csv(tmp_path / "raw.csv", index=False)
    public = tmp_path / "public"
    public.mkdir()
    own = {
        "title": "Survey",
        "resources": [{"name": "codebook", "path": "codebook.pdf"}, {"name": "a.csv", "path": "b/a.csv"}],
    }
    (public / "datapackage.json").write_text(json.dumps(own))
    for _ in range(2):
        pr.release(tmp_path / "raw.csv", public / "a.csv", mechanism, force=True)
        pr.release(tmp_path / "raw.csv", public / "b.csv", mechanism, force=True)
    package = json.loads((public / "datapackage.json").read_text())
    assert package["title"] == "Survey"
    assert package["resources"][:2] == own["resources"]
    assert [(r["name"], r["path"]) for r in package["resources"][2:]] == [("a.csv-2", "a.csv"), ("b.csv", "b.csv")]
    for name in ("a.csv", "b.csv"):
        assert pr.Mechanism.load(public / name) == mechanism
        assert pr.audit(public / name).clean


def test_merging_replaces_the_entry_of_the_same_path_only() -> None:
    text = merged_package({"resources": [{"path": "x.csv", "name": "old"}, "odd"]}, {"path": "x.csv", "name": "x.csv"})
    assert json.loads(text)["resources"] == ["odd", {"path": "x.csv", "name": "x.csv"}]


def test_a_release_says_on_which_frequencies_its_epsilon_is_conditional(tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_text("edu\n" + "\n".join(EDU * 40) + "\n")
    plain = pr.TransitionMatrix.invariant(EDU, [0.2, 0.3, 0.5], 0.7)
    given = pr.TransitionMatrix.invariant(EDU, [0.2, 0.3, 0.5], 0.7, conditional=True)
    for name, matrix, said in (("plain", plain, False), ("given", given, True)):
        made = pr.release(tmp_path / "raw.csv", tmp_path / f"{name}.csv", pr.Mechanism({"edu": matrix}))
        assert made.conditional == (("edu",) if said else ())
        assert pr.Mechanism.load(made.path).conditional == (["edu"] if said else [])
        assert ("a record, given the frequencies of 'edu'" in str(pr.audit(made.path))) == said


def test_infinite_epsilon_is_null(tmp_path: Path) -> None:
    golden = golden_release(tmp_path)
    entry = json.loads((golden / "datapackage.json").read_text())["resources"][1]["pram"]
    assert entry["epsilon"] is None
    assert entry["channels"][0]["epsilon"] is None


def test_the_card_says_what_how_and_at_what_cost(tmp_path: Path) -> None:
    public = golden_release(tmp_path)
    text, page = ((public / f"keyed.csv.card.{e}").read_text() for e in ("md", "html"))
    for part in (
        "edu",
        "inf, given the frequencies of 'edu'",
        "0.7 to 0.8",
        "secret key",
        "Limit: ",
        "effective sample size",
        'pr.fit(pr.proportions("edu"), "keyed.csv", "auto")',
    ):
        assert part in text
    assert page.startswith("<!doctype html>")
    assert "<script" not in page


def test_the_recipe_of_the_card_runs(
    tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    survey.to_csv(tmp_path / "raw.csv", index=False)
    pr.release(tmp_path / "raw.csv", tmp_path / "out.csv", mechanism, card=True)
    monkeypatch.chdir(tmp_path)
    code = (tmp_path / "out.csv.card.md").read_text().split("```")[1]
    scope: dict[str, Any] = {}
    exec(code, scope)
    assert scope["result"].n == len(survey)


@pytest.mark.parametrize("keep", [0.4, 0.6, 0.9])
def test_inflation_is_the_ratio_of_the_two_variances(keep: float, rng: np.random.Generator) -> None:
    """Against the variance over many releases and many samples."""
    P = pr.TransitionMatrix.randomized_response(EDU, keep)
    shares, n = np.array([0.5, 0.3, 0.2]), 4000
    counts = rng.multinomial(n, P.matrix @ shares, size=20_000)
    estimates = counts / n @ P.inverse.T
    ratio = estimates.var(axis=0) / (shares * (1 - shares) / n)
    exact = share_inflation(P, (1e9 * P.matrix @ shares).astype(np.int64))
    np.testing.assert_allclose(ratio, exact, rtol=0.06)


def test_an_empty_file_has_a_card_too(tmp_path: Path, mechanism: pr.Mechanism) -> None:
    (tmp_path / "raw.csv").write_text("edu\n")
    made = pr.release(tmp_path / "raw.csv", tmp_path / "out.csv", mechanism, card=True)
    assert made.rows == 0
    assert pr.audit(made.path, original=tmp_path / "raw.csv").clean


def test_releases_at_the_same_time_are_all_described(
    tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    survey.to_csv(tmp_path / "raw.csv", index=False)
    (tmp_path / "public").mkdir()
    targets = [tmp_path / "public" / f"{k}.csv" for k in range(12)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda target: pr.release(tmp_path / "raw.csv", target, mechanism), targets))
    package = json.loads((tmp_path / "public" / "datapackage.json").read_text())
    assert sorted(r["path"] for r in package["resources"]) == sorted(t.name for t in targets)
    assert all(pr.audit(target).clean for target in targets)


def test_frictionless_accepts_a_release(tmp_path: Path) -> None:
    frictionless = pytest.importorskip("frictionless")
    report = frictionless.validate(str(golden_release(tmp_path) / "datapackage.json"))
    assert report.valid, report.flatten(["message"])
