"""What a release is refused for, with a policy and without one, and what lets it pass."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import pramana as pr
from pramana.cli.application import app
from pramana.disclosure.release import releasing
from pramana.disclosure.release.clearance import Gate, Intent, objections, published
from pramana.disclosure.release.ledger import ColumnRecord, Entry, read_ledger
from pramana.disclosure.release.policy import FORBIDDEN, AuditRule, Budget, ColumnRules, Policy, ReleaseLimits

EDU = ("low", "mid", "high")
KEY = bytes(range(32))
EYE, SWAP = [[1, 0], [0, 1]], [[0, 1], [1, 0]]
M = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(EDU, 0.8)})
LOSS = M.epsilon


def dense(levels: Any, matrix: Any) -> pr.TransitionMatrix:
    return pr.TransitionMatrix.from_columns(levels, matrix)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"id": range(300), "edu": rng.choice(EDU, 300), "job": rng.choice(["a", "b"], 300)})
    frame.to_csv(tmp_path / "raw.csv", index=False)
    frame.iloc[:200].to_csv(tmp_path / "part.csv", index=False)
    return tmp_path


def release(
    folder: Path, name: str = "out", mechanism: pr.Mechanism = M, source: str = "raw", **options: Any
) -> pr.Release:
    return pr.release(folder / f"{source}.csv", folder / f"{name}.csv", mechanism, **options)


def refused(folder: Path, match: str, mechanism: pr.Mechanism = M, **options: Any) -> str:
    """An error, and every file as it was."""
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    with pytest.raises(pr.PramanaError, match=match) as caught:
        release(folder, "refused", mechanism, **options)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before
    return str(caught.value)


def limits_of(made: pr.Release) -> list[str]:
    resources = json.loads(made.description.read_text())["resources"]
    return next(r["pram"] for r in resources if r["path"] == made.path.name).get("limits") or []


# --- Without a policy -------------------------------------------------------------------------------------------------

PAIRS = [(a, b) for a in ("f", "m") for b in ("n", "s")]
IDENTITIES = {
    "kept": {"edu": pr.TransitionMatrix.randomized_response(EDU, 1.0)},
    "an array": {"edu": dense(EDU, np.eye(3))},
    "renamed": {"edu": dense(EDU, np.eye(3)[[1, 2, 0]])},
    "nearly kept": {"edu": pr.TransitionMatrix.randomized_response(EDU, 1 - 1e-12)},
    "beside a perturbed one": {"job": dense(["a", "b"], [[0.8, 0.2], [0.2, 0.8]]), "edu": dense(EDU, np.eye(3))},
    "in one stratum": {
        "edu": pr.Stratified(
            "job", {"a": pr.TransitionMatrix.randomized_response(EDU, 0.8), "b": dense(EDU, np.eye(3))}
        )
    },
    "one of two columns": {("edu", "job"): dense(PAIRS, np.kron([[0.7, 0.3], [0.3, 0.7]], np.eye(2)))},
}


@pytest.mark.parametrize("channels", IDENTITIES.values(), ids=IDENTITIES)
def test_a_matrix_that_hides_nothing_must_be_allowed(channels: Any) -> None:
    intent = Intent(pr.Mechanism(channels), "out.csv", "csv", "fresh")
    (found,) = objections(intent, [])
    assert (found.rule, found.policy) == ("identity", False)
    assert "job" in found.sentence if ("edu", "job") in channels else "edu" in found.sentence
    with pytest.raises(pr.PramanaError, match=r"go out as they are.*allow 'identity'"):
        Gate().clear(intent)
    assert Gate(allow=("identity",)).clear(intent).allowed == ("identity",)


@pytest.mark.parametrize(
    "matrix",
    [
        pr.TransitionMatrix.randomized_response(EDU, 0.99),
        pr.TransitionMatrix.invariant(EDU, [0.9, 0.05, 0.05], 0.9),
        pr.designs.band(EDU, 0.9),
        dense(EDU, [[1, 0.3, 0.3], [0, 0.7, 0], [0, 0, 0.7]]),
    ],
    ids=["weak", "invariant", "band", "others become the level that stays"],
)
def test_noise_is_not_taken_for_an_identity(matrix: pr.TransitionMatrix) -> None:
    intent = Intent(pr.Mechanism({"edu": matrix}), "out.csv", "csv", "fresh")
    assert objections(intent, []) == []
    assert not published(matrix).any()


def test_an_identical_file_is_not_published(folder: Path) -> None:
    stay = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(EDU, 1.0)})
    assert "allow 'identity'" in refused(folder, "values of 'edu' go out as they are", stay)
    made = release(folder, mechanism=stay, allow="identity", card=True)
    assert made.allowed == ("identity",)
    assert "published as they are" in limits_of(made)[0]
    assert all("published as they are" in path.read_text() for path in made.cards)


def test_levels_that_never_move_are_warned_of(folder: Path) -> None:
    """A design may ask for them by name (`fixed`), so they are not refused without a policy."""
    fixed = pr.Mechanism({"edu": pr.designs.restricted(EDU, 0.8, fixed=["high"])})
    with pytest.warns(UserWarning, match="1 of the 3 levels of 'edu' always go out as they are"):
        made = release(folder, mechanism=fixed)
    assert "always published as they are" in limits_of(made)[0]
    refused(folder, "not protected.*override", fixed, policy=Policy(forbid=("fixed-levels",)))


def test_a_seed_must_be_allowed(folder: Path) -> None:
    refused(folder, "draws from a seed.*allow 'seed'", seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert release(folder, seed=1, allow=["seed"]).randomness == "seeded (insecure)"


def test_an_unknown_allowance_is_refused_with_a_suggestion(folder: Path) -> None:
    refused(folder, "allow 'sead' is unknown: did you mean 'seed'", seed=1, allow="sead")


def test_a_second_draw_is_refused_where_the_ledger_shows_it(folder: Path) -> None:
    """Five releases under five keys, as fresh ones; without the ledger nobody can know."""
    book = folder / "ledger"
    for k in range(5):
        name, own = f"wave{k}", {"key": KEY[:31] + bytes([100 + k]), "id": "id"}
        if k:
            said = refused(folder, "released before with other draws of edu", ledger=book, **own)
            assert f"epsilon {(k + 1) * LOSS:.4g} in all" in said
            assert "only releases in the ledger can be seen" in said
        release(folder, name, ledger=book, allow="second-draw", **own)
    assert [e.allowed for e in read_ledger(book)] == [(), *[("second-draw",)] * 4]
    release(folder, "unseen")
    release(folder, "again", ledger=book, key=KEY[:31] + bytes([100]), id="id")


def renumbered(folder: Path, name: str, **change: Any) -> None:
    pd.read_csv(folder / "raw.csv").assign(**change).to_csv(folder / f"{name}.csv", index=False)


@pytest.mark.parametrize(
    "identifiers",
    [range(1000, 1300), [f"p{k}" for k in range(300)], [*range(20), *range(1000, 1280)]],
    ids=["renumbered", "of another type", "mostly others"],
)
def test_the_same_key_with_other_identifiers_draws_anew(folder: Path, identifiers: Any) -> None:
    renumbered(folder, "later", id=identifiers)
    book, own = folder / "ledger", {"key": KEY, "id": "id"}
    common: dict[str, Any] = {"ledger": book, "dataset": "survey", **own}
    release(folder, "one", **common)
    said = refused(folder, r"released before with other draws of edu .*allow 'second-draw'", source="later", **common)
    assert "keep matrix, identifiers and their type" in said
    budget = Policy(budget=Budget(dataset=1.5 * LOSS))
    refused(folder, "above the budget", source="later", allow="second-draw", policy=budget, **common)
    made = release(folder, "two", source="later", allow="second-draw", card=True, **common)
    assert made.allowed == ("second-draw",)
    assert "released before with other draws" in limits_of(made)[-1]
    assert "released before with other draws" in made.cards[0].read_text()
    assert pr.account(book)["survey"].epsilon == pytest.approx(2 * LOSS)
    assert "drawn independently" in str(pr.audit(made.path, ledger=book).of("warning"))


def test_a_part_of_a_file_repeats_its_draws(folder: Path) -> None:
    """And so does the whole after a part, in whatever order, and by unit."""
    budget = Policy(budget=Budget(dataset=1.5 * LOSS), forbid=("second-draw",))
    for kind, own in {"id": {"id": "id"}, "unit": {"unit": "id"}}.items():
        common: dict[str, Any] = {"ledger": folder / kind, "dataset": "survey", "key": KEY, "policy": budget, **own}
        for k, source in enumerate(["part", "raw", "part", "raw"]):
            release(folder, f"{kind}{k}", source=source, **common)
        assert pr.account(folder / kind)["survey"].epsilon == pytest.approx(LOSS)
    assert {len(e.sketch or "") for e in read_ledger(folder / "unit")} == {200 * 16, 300 * 16}


def test_without_a_kept_key_there_is_no_sketch(folder: Path) -> None:
    release(folder, "one", ledger=folder / "ledger", unit="id")
    release(folder, "two", ledger=folder / "ledger", allow="second-draw")
    assert [e.sketch for e in read_ledger(folder / "ledger")] == [None, None]


def test_one_key_for_two_data_sets_is_refused(folder: Path) -> None:
    """Different people of the two would share words: released values that differ would prove that the true ones do."""
    renumbered(folder, "other", edu=pd.read_csv(folder / "raw.csv")["edu"].to_numpy()[::-1])
    book, other = folder / "ledger", KEY[::-1]
    common: dict[str, Any] = {"source": "other", "ledger": book, "id": "id"}
    release(folder, "one", ledger=book, dataset="a", key=KEY, id="id")
    said = refused(folder, r"the key has drawn 'edu' .* other records \('a'\).*allow 'shared-key'", **common, key=KEY)
    assert "make another with `pramana key`" in said
    refused(folder, "the key has drawn", dataset="b", key=KEY, **common)
    refused(folder, "the key has drawn", dataset="b", key=KEY, **common, policy=Policy(forbid=("shared-key",)))
    release(folder, "their own", dataset="b", key=other, **common)
    weaker = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(EDU, 0.7)})
    release(folder, "another matrix", weaker, dataset="c", key=KEY, **common, allow="second-draw")
    release(folder, "the same records", dataset="a", key=KEY, id="id", ledger=book)
    made = release(folder, "allowed", dataset="d", key=KEY, **common, allow=["shared-key", "second-draw"])
    assert "shared-key" in made.allowed
    assert any("The key of these draws served other records too" in line for line in limits_of(made))
    assert any("one set of identifiers" in line for line in limits_of(made))


@pytest.mark.parametrize("name", ["", "  ", "\t", " survey", "survey\n", "sur\x00vey"])
def test_a_data_set_has_a_name_that_can_be_read(folder: Path, name: str) -> None:
    refused(folder, "is no name for records", dataset=name)
    refused(folder, "is no name for records", dataset=name, ledger=folder / "l", policy=Policy(require=("dataset",)))


def test_of_several_names_the_smallest_budget_counts(folder: Path) -> None:
    """A second release was refused under one name and passed under another."""
    policy = Policy(budget=Budget(dataset=1.5 * LOSS, datasets={"big": 20.0, "small": 0.5 * LOSS}))
    common: dict[str, Any] = {"ledger": folder / "ledger", "policy": policy, "allow": "second-draw"}
    release(folder, "a", dataset="survey", **common)
    for name in ("survey", "big", None, "another"):
        refused(folder, f"above the budget of {1.5 * LOSS:.4g}", dataset=name, **common)
    refused(folder, f"above the budget of {0.5 * LOSS:.4g}", dataset="small", **common)
    fresh = {**common, "ledger": folder / "fresh"}
    for k in range(3):
        release(folder, f"big{k}", dataset="big", **fresh)
    refused(folder, f"above the budget of {1.5 * LOSS:.4g}", dataset=None, **fresh)
    assert policy.dataset_limit([]) is None
    assert Policy(budget=Budget(datasets={"big": 3.0})).dataset_limit(read_ledger(folder / "ledger")) is None


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_an_override_that_the_rows_ask_for_is_described(folder: Path, ending: str) -> None:
    """The rows say that levels are rare when the description inside a Parquet file is long written."""
    frame = pd.DataFrame({"edu": ["low"] * 50 + ["mid"] * 50 + ["high"] * 5})
    source, target = folder / f"rare.{ending}", folder / f"out.{ending}"
    frame.to_csv(source, index=False) if ending == "csv" else frame.to_parquet(source, index=False)
    policy = Policy(limits=ReleaseLimits(merge_below=10))
    with pytest.warns(UserWarning, match=r"policy is overridden: 1 level\(s\) of edu"):
        made = pr.release(
            source, target, M, policy=policy, ledger=folder / "ledger", override="the list is public", card=True
        )
    assert limits_of(made) == ["The publisher's own policy was set aside for this release."]
    assert all("policy was set aside" in path.read_text() for path in made.cards)
    assert read_ledger(folder / "ledger")[0].override == "the list is public"
    pr.fit(pr.proportions("edu"), made.path, "auto")
    assert pr.audit(made.path).clean


def test_only_the_rows_may_add_to_a_description(folder: Path) -> None:
    """What stands inside a Parquet file must stand beside it."""
    frame = pd.read_csv(folder / "raw.csv")
    frame.to_parquet(folder / "raw.parquet", index=False)
    made = pr.release(folder / "raw.parquet", folder / "out.parquet", M, key=KEY, id="id")
    package = json.loads(made.description.read_text())
    limits = package["resources"][0]["pram"]["limits"]
    for change, fine in (
        (limits, True),
        ([*limits, "more"], True),
        (limits[1:], False),
        (limits[:-1], False),
        ([], False),
    ):
        package["resources"][0]["pram"]["limits"] = change
        made.description.write_text(json.dumps(package))
        assert pr.audit(made.path).clean == fine
        if not fine:
            with pytest.raises(pr.PramanaError, match=r"two descriptions of 'out.parquet' differ"):
                pr.fit(pr.proportions("edu"), made.path, "auto")


@pytest.mark.parametrize("what", ["ledger", "key", "link"])
@pytest.mark.parametrize("place", ["public", "public/deep", "public/soft", "outside"])
def test_nothing_of_the_custodian_lies_where_the_release_is_published(folder: Path, what: str, place: str) -> None:
    for name in ("public/deep", "own"):
        (folder / name).mkdir(parents=True)
    (folder / "public/soft").symlink_to(folder / "own")
    (folder / "outside").symlink_to(folder / "public/deep")
    path = folder / place / f"{what}.parquet"
    options: dict[str, Any] = {"shuffle": what == "link", what: path, **({"id": "id"} if what == "key" else {})}
    if what == "key":
        path.write_bytes(KEY)
        path.chmod(0o600)
    before = sorted(folder.rglob("*"))
    with pytest.raises(pr.PramanaError, match=rf"{what}.* would lie beside the release, or in a folder below"):
        pr.release(folder / "raw.csv", folder / "public" / "out.csv", M, **options)
    assert sorted(folder.rglob("*")) == before


def test_a_name_ties_files_together(folder: Path) -> None:
    book = folder / "ledger"
    release(folder, "one", ledger=book, dataset="survey")
    refused(folder, "released before", source="part", ledger=book, dataset="survey")
    release(folder, "two", source="part", ledger=book)
    refused(folder, "released before", source="part", ledger=book, dataset="another name")


def test_the_truth_of_a_perturbed_column_is_not_released_beside_it(folder: Path) -> None:
    """A column perturbed in one release and clear in another, in either order."""
    job = pr.Mechanism({"job": dense(["a", "b"], [[0.8, 0.2], [0.2, 0.8]])})
    book = folder / "ledger"
    release(folder, "one", ledger=book)
    said = refused(folder, r"column 'edu' is perturbed in one release.*allow 'unperturbed'", job, ledger=book)
    assert "column 'job' is perturbed in one release" in said
    made = release(folder, "two", job, ledger=book, allow="unperturbed")
    assert "published as it is in another" in limits_of(made)[0]


def test_other_columns_of_the_same_records_are_no_second_draw(folder: Path) -> None:
    frame, book = pd.read_csv(folder / "raw.csv"), folder / "ledger"
    for name, other in (("edu", "job"), ("job", "edu")):
        frame.drop(columns=other).to_csv(folder / f"{name}-only.csv", index=False)
    release(folder, "one", source="edu-only", ledger=book, dataset="survey")
    job = pr.Mechanism({"job": dense(["a", "b"], [[0.8, 0.2], [0.2, 0.8]])})
    release(folder, "two", job, source="job-only", ledger=book, dataset="survey")
    assert pr.account(book)["survey"].epsilon == pytest.approx(LOSS + np.log(4))


def test_levels_of_few_people_must_be_allowed(folder: Path) -> None:
    """Known only when the rows were read; a policy asks for more than three people."""
    rare = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response([*EDU, "doctor"], 0.8)})
    frame = pd.read_csv(folder / "raw.csv")
    for name, count in (("two", 2), ("eight", 8)):
        frame.assign(edu=["doctor"] * count + [*frame["edu"]][count:]).to_csv(folder / f"{name}.csv", index=False)
    book = folder / "ledger"
    refused(
        folder,
        r"1 level\(s\) of edu are held by fewer than 3 record.*allow 'rare-levels'",
        rare,
        source="two",
        ledger=book,
    )
    made = release(folder, "a", rare, source="two", ledger=book, allow="rare-levels")
    assert (made.allowed, read_ledger(book)[0].allowed) == (("rare-levels",), ("rare-levels",))
    release(folder, "b", rare, source="eight", ledger=book)
    ten: dict[str, Any] = {
        "policy": Policy(limits=ReleaseLimits(merge_below=10)),
        "ledger": book,
        "allow": ("rare-levels", "second-draw"),
    }
    refused(folder, r"held by fewer than 10 .*override", rare, source="eight", **ten)
    release(folder, "c", rare, source="eight", override="the list is public", **ten)
    assert "fewer than 10" in read_ledger(book)[-1].overridden[0]


def test_dropped_columns_and_new_identifiers_are_not_published(folder: Path) -> None:
    rules = Policy(columns=ColumnRules(publish=("edu", "pid"), drop=("id",)), require=("shuffle",))
    said = refused(folder, "does not list 'id', 'job'", policy=rules)
    assert "lets 'id' into no release" in said
    assert "requires 'shuffle'" in said
    made = release(folder, policy=rules, drop=["id", "job"], new_id="pid", shuffle=True, ledger=folder / "ledger")
    assert [*pd.read_csv(made.path)] == ["pid", "edu"]
    assert read_ledger(folder / "ledger")[0].clear == ()


def test_the_unit_of_a_release_is_in_the_ledger(folder: Path) -> None:
    """One draw a person; where values vary within a person no finite epsilon holds, and a budget is gone."""
    book, policy = folder / "ledger", Policy(budget=Budget(unit=50.0))
    made = release(folder, "a", unit="id", ledger=book, policy=policy)
    assert [(b.of, b.spent) for b in made.budget] == [("unit 'id'", pytest.approx(LOSS))]
    assert (read_ledger(book)[0].unit, read_ledger(book)[0].identifier) == ("id", "id")
    varying: dict[str, Any] = {"unit": pr.Unit("id", varies=True), "ledger": book, "allow": "second-draw"}
    refused(folder, "unit 'id' would reach infinity, above the budget of 50", policy=policy, **varying)
    release(folder, "b", **varying)
    assert read_ledger(book)[-1].columns["edu"].epsilon is None


# --- With a policy ----------------------------------------------------------------------------------------------------


def intent(mechanism: pr.Mechanism = M, **change: Any) -> Intent:
    return replace(Intent(mechanism, "out.csv", "csv", "fresh", clear=("id", "age"), source="s"), **change)


INFINITE = pr.Mechanism({"edu": pr.designs.band(EDU, 0.8)})
GIVEN = pr.Mechanism({"edu": pr.TransitionMatrix.invariant(EDU, [0.5, 0.3, 0.2], 0.8, conditional=("levels",))})
RULES: list[tuple[str, Policy, Intent, Intent, str]] = [
    (
        "column",
        Policy(limits=ReleaseLimits(column=LOSS - 0.01)),
        intent(),
        intent(pr.Mechanism({"edu": pr.TransitionMatrix.from_epsilon(EDU, LOSS - 0.01)})),
        r"epsilon of 'edu' is 2.079, above 2.069",
    ),
    ("column", Policy(limits=ReleaseLimits(column=50)), intent(INFINITE), intent(), "is infinity, above 50"),
    (
        "release",
        Policy(limits=ReleaseLimits(column=3, release=3)),
        intent(pr.Mechanism({"edu": M.assignments[0].channel, "job": dense(["a", "b"], [[0.8, 0.2], [0.2, 0.8]])})),
        intent(),
        r"epsilon of a record is 3.466, above 3",
    ),
    (
        "keep",
        Policy(limits=ReleaseLimits(keep=0.79)),
        intent(),
        intent(pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(EDU, 0.79)})),
        "kept with 0.8, above 0.79",
    ),
    (
        "keep",
        Policy(limits=ReleaseLimits(keep=0.8)),
        intent(pr.Mechanism({"edu": dense(EDU, [[0.05, 0.9, 0.05], [0.05, 0.05, 0.9], [0.9, 0.05, 0.05]])})),
        intent(),
        "kept with 0.9",
    ),
    (
        "rare-levels",
        Policy(limits=ReleaseLimits(merge_below=5)),
        intent(rare="1 level is held by 4"),
        intent(),
        "1 level is held by 4",
    ),
    ("rare-levels", Policy(forbid=("rare-levels",)), intent(rare="1 level is held"), intent(), "1 level is held"),
    (
        "infinite-epsilon",
        Policy(forbid=("infinite-epsilon",)),
        intent(M.with_unit(pr.Unit("person", varies=True))),
        intent(M.with_unit("person")),
        "epsilon of 'edu' is infinite",
    ),
    (
        "infinite-epsilon",
        Policy(forbid=("infinite-epsilon",)),
        intent(INFINITE),
        intent(),
        "epsilon of 'edu' is infinite",
    ),
    ("conditional-epsilon", Policy(forbid=("conditional-epsilon",)), intent(GIVEN), intent(), "conditional on levels"),
    ("formats", Policy(formats=("parquet",)), intent(), intent(format="parquet"), "no csv files: write parquet"),
    ("dataset", Policy(require=("dataset",)), intent(), intent(dataset="x"), "requires 'dataset'"),
    ("unit", Policy(require=("unit",)), intent(), intent(M.with_unit("person")), "requires 'unit'"),
    ("key", Policy(require=("key",)), intent(), intent(key="k", randomness="keyed"), "requires 'key'"),
    ("card", Policy(require=("card",)), intent(), intent(card=True), "requires 'card'"),
    ("link", Policy(audit=AuditRule()), intent(shuffled=True), intent(shuffled=True, linked=True), "need a link file"),
    ("shuffle", Policy(require=("shuffle",)), intent(), intent(shuffled=True), "requires 'shuffle'"),
    (
        "publish",
        Policy(columns=ColumnRules(publish=("edu", "age"))),
        intent(),
        intent(clear=("age",)),
        "does not list 'id'",
    ),
    ("publish", Policy(columns=ColumnRules(publish=())), intent(clear=()), intent(clear=()), "does not list 'edu'"),
    ("drop", Policy(columns=ColumnRules(drop=("id",))), intent(), intent(clear=("age",)), "lets 'id' into no release"),
    (
        "perturb",
        Policy(columns=ColumnRules(perturb=("age", "edu"))),
        intent(),
        intent(clear=("id",)),
        "publishes 'age' only",
    ),
    ("identity", Policy(forbid=("identity",)), intent(pr.Mechanism(IDENTITIES["kept"])), intent(), "as they are"),
    ("seed", Policy(forbid=("seed",)), intent(randomness="seeded (insecure)"), intent(), "draws from a seed"),
]


@pytest.mark.parametrize(("rule", "policy", "wrong", "right", "said"), RULES, ids=[r[0] for r in RULES])
def test_every_rule_refuses_what_breaks_it_and_nothing_else(
    rule: str, policy: Policy, wrong: Intent, right: Intent, said: str, tmp_path: Path
) -> None:
    (found,) = objections(wrong, [], policy)
    assert (found.rule, found.policy) == (rule, True)
    if right is not wrong and right != wrong:
        assert objections(right, [], policy) == []
    allowed = (rule,) if rule in ("identity", "seed", "rare-levels") else ()
    with pytest.raises(pr.PramanaError, match=f"{said}.*override the policy with a reason"):
        Gate(tmp_path / "ledger", policy, allow=allowed).clear(wrong)
    with pytest.warns(UserWarning, match="the policy is overridden: .*" + said):
        cleared = Gate(tmp_path / "ledger", policy, override="agreed by the board").clear(wrong)
    assert [o.rule for o in cleared.overridden] == [rule]
    assert any("policy was set aside" in limit for limit in cleared.limits)


def test_every_refusal_is_named_at_once() -> None:
    policy = Policy(forbid=("seed",), require=("dataset",), limits=ReleaseLimits(column=1, keep=0.5))
    with pytest.raises(pr.PramanaError) as caught:
        Gate(policy=policy).clear(intent(pr.Mechanism(IDENTITIES["kept"]), randomness="seeded (insecure)"))
    said = str(caught.value)
    assert all(words in said for words in ("as they are", "a seed", "'dataset'", "above 1", "above 0.5"))
    assert "allow 'identity' and override" in said


def test_a_budget_needs_a_ledger(folder: Path) -> None:
    for budget in (Budget(dataset=9.0), Budget(unit=9.0), Budget(datasets={"survey": 9.0})):
        refused(folder, "of which only a ledger can keep account", policy=Policy(budget=budget))
    refused(folder, "requires 'ledger'", policy=Policy(require=("ledger",)))


def test_a_budget_is_spent_and_then_closed(folder: Path) -> None:
    book, policy = folder / "ledger", Policy(budget=Budget(dataset=5.0, unit=9.0))
    options: dict[str, Any] = {"ledger": book, "dataset": "survey", "policy": policy, "allow": "second-draw"}
    left = [release(folder, name, **options).budget[0].left for name in ("one", "two")]
    assert left == pytest.approx([5 - LOSS, 5 - 2 * LOSS])
    said = refused(folder, r"data set 'survey' would reach 6.238, above the budget of 5", **options)
    assert "4.159 is spent and 0.8411 left" in said


def test_keyed_repeats_cost_nothing_even_when_the_budget_is_gone(folder: Path) -> None:
    book, policy = folder / "ledger", Policy(budget=Budget(dataset=LOSS))
    options: dict[str, Any] = {"ledger": book, "dataset": "survey", "policy": policy, "key": KEY, "id": "id"}
    for name, source in (("one", "raw"), ("two", "part"), ("three", "raw")):
        (balance,) = release(folder, name, source=source, **options).budget
        assert (balance.spent, balance.left) == (pytest.approx(LOSS), 0.0)


def entry(dataset: str | None, loss: float | None, *, source: str | None = None, unit: str | None = None) -> Entry:
    records = {"edu": ColumnRecord("P", loss)}
    return Entry(dataset, source or f"file of {dataset}", "r", "o.csv", 1, "fresh", None, loss, records, unit=unit)


BUDGETS: list[tuple[str, Budget, list[Entry], Entry, list[tuple[float, float]]]] = [
    ("data sets are apart", Budget(dataset=3), [entry("a", 2)], entry("b", 2), [(0, 2)]),
    ("draws add", Budget(dataset=3), [entry("a", 2)], entry("a", 2), [(2, 4)]),
    ("own budget", Budget(dataset=3, datasets={"a": 1}), [], entry("a", 2), [(0, 2)]),
    ("units add over data sets", Budget(unit=3), [entry("a", 2)], entry("b", 2), [(2, 4)]),
    ("disjoint take the largest", Budget(unit=3, disjoint=(("a", "b"),)), [entry("a", 2)], entry("b", 1), [(2, 2)]),
    (
        "disjoint and not",
        Budget(unit=3, disjoint=(("a", "b"),)),
        [entry("a", 2), entry("c", 1)],
        entry("b", 2.5),
        [(3, 3.5)],
    ),
    (
        "within a disjoint data set draws add",
        Budget(unit=3, disjoint=(("a", "b"),)),
        [entry("a", 2), entry("b", 1)],
        entry("b", 1.5),
        [(2, 2.5)],
    ),
    (
        "other kinds of unit are apart",
        Budget(unit=3),
        [entry("a", 2, unit="firm"), entry("b", 1, unit="person"), entry("c", 0.5)],
        entry("d", 1, unit="person"),
        [(1.5, 2.5)],
    ),
    (
        "records without a unit may be anybody's",
        Budget(unit=3),
        [entry("a", 2, unit="firm"), entry("b", 1, unit="person")],
        entry("c", 1),
        [(2, 3), (1, 2)],
    ),
    ("infinite", Budget(dataset=3), [entry("a", 2)], entry("a", None), [(2, float("inf"))]),
    ("infinite before", Budget(dataset=3), [entry("a", None)], entry("a", 1), [(float("inf"), float("inf"))]),
    ("claimed to be disjoint, from one file", Budget(unit=3, disjoint=(("a", "b"),)), [entry("a", 2, source="f")], entry("b", 2, source="f"), [(2, 4)]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "budget", "earlier", "new", "spent"), BUDGETS, ids=[b[0] for b in BUDGETS])
def test_what_counts_towards_a_budget(
    name: str, budget: Budget, earlier: list[Entry], new: Entry, spent: list[tuple[float, float]]
) -> None:
    found = Policy(budget=budget).balances(earlier, new)
    assert [(b.before, b.spent) for b in found] == spent
    limit = 1 if name == "own budget" else 3
    assert [b.exceeded for b in found] == [after > limit for _, after in spent]


def test_rounding_exhausts_no_budget() -> None:
    found = Policy(budget=Budget(dataset=0.3)).balances([entry("a", 0.1), entry("a", 0.1)], entry("a", 0.1))
    assert found[0].spent != 0.3
    assert not found[0].exceeded


def test_an_override_is_written_down_with_its_reason(folder: Path) -> None:
    policy = Policy(budget=Budget(dataset=1.0), digest="abc")
    book = folder / "ledger"
    refused(folder, "above the budget of 1: 0 is spent and 1 left", ledger=book, policy=policy)
    with pytest.warns(UserWarning, match="the policy is overridden: epsilon of data set"):
        made = release(folder, ledger=book, policy=policy, override="order 17 of the director")
    (kept,) = read_ledger(book)
    assert (kept.override, kept.policy) == ("order 17 of the director", "abc")
    assert "would reach 2.079" in kept.overridden[0]
    assert kept.date is not None
    assert kept.date.startswith("20")
    assert "director" not in made.description.read_text()
    assert limits_of(made) == ["The publisher's own policy was set aside for this release."]
    assert (made.budget[0].left, made.budget[0].spent) == (0.0, pytest.approx(LOSS))


def test_an_override_that_was_not_needed_is_not_written_down(folder: Path) -> None:
    release(folder, ledger=folder / "ledger", policy=Policy(budget=Budget(dataset=9.0)), override="why not")
    assert read_ledger(folder / "ledger")[0].override is None


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"override": "why"}, "override needs a policy"),
        ({"override": "why", "policy": Policy()}, "override needs a ledger"),
        ({"override": " ", "policy": Policy(), "ledger": "l"}, "must say why"),
        ({"override": "a\nb", "policy": Policy(), "ledger": "l"}, "in one line"),
        ({"override": "x" * 501, "policy": Policy(), "ledger": "l"}, "at most 500 characters"),
    ],
)
def test_an_override_needs_a_policy_a_ledger_and_a_reason(options: dict[str, Any], match: str, folder: Path) -> None:
    refused(folder, match, **options)


def held_up(monkeypatch: pytest.MonkeyPatch, until: Callable[[], Any]) -> None:
    """Releases that have passed the first check and written their file, and wait."""
    written = releasing.written_copy

    def slow(*arguments: Any) -> Any:
        done = written(*arguments)
        until()
        return done

    monkeypatch.setattr(releasing, "written_copy", slow)


def test_of_releases_that_race_for_a_budget_one_wins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them pass the first check; under the lock there is room for one."""
    together = threading.Barrier(4)
    held_up(monkeypatch, together.wait)
    policy = Policy(budget=Budget(dataset=1.5 * LOSS))

    def one(k: int) -> str:
        try:
            release(folder, f"out{k}", ledger=folder / "ledger", dataset="survey", policy=policy, allow="second-draw")
        except pr.PramanaError as error:
            return str(error)
        return "released"

    with ThreadPoolExecutor(4) as pool:
        told = sorted(pool.map(one, range(4)))
    assert told[-1] == "released"
    assert all("above the budget of 3.119" in line for line in told[:-1])
    assert len(read_ledger(folder / "ledger")) == len(list(folder.glob("out*.csv"))) == 1
    assert not list(folder.glob(".*.part"))


def test_a_release_entered_meanwhile_is_seen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was allowed was allowed of what the ledger said then, and the file's description says so too."""
    book, policy = folder / "ledger", None

    def other() -> None:
        monkeypatch.undo()
        release(folder, "other", ledger=book)

    for allow, said in (((), "released before"), (("second-draw",), "meanwhile: start again")):
        book.unlink(missing_ok=True)
        held_up(monkeypatch, other)
        with pytest.raises(pr.PramanaError, match=said):
            release(folder, "late", ledger=book, policy=policy, allow=allow)
        assert not (folder / "late.csv").exists()
        (folder / "other.csv").unlink()


def test_a_policy_can_ask_for_a_clean_audit(folder: Path) -> None:
    frame = pd.read_csv(folder / "raw.csv")
    frame.assign(code=frame["edu"].map({"low": 1, "mid": 2, "high": 3})).to_csv(folder / "leaking.csv", index=False)
    release(folder, "clean", policy=Policy(audit=AuditRule()))
    with pytest.raises(pr.PramanaError, match=r"clean audit of 'bad.csv'.*do not publish it"):
        release(folder, "bad", source="leaking", policy=Policy(audit=AuditRule()))
    release(folder, "unseen", source="leaking", policy=Policy(audit=AuditRule(original=False)))
    strict = Policy(audit=AuditRule(original=False, warnings=False))
    with pytest.raises(pr.PramanaError, match="drawn from a seed"):
        release(folder, "seeded", policy=strict, seed=1, allow="seed")


# --- Files and commands -----------------------------------------------------------------------------------------------

WHOLE = """
version = 1
name = "Statistics Office, 2026"
forbid = ["identity", "seed", "second-draw", "unperturbed", "shared-key", "rare-levels", "fixed-levels",
    "infinite-epsilon", "conditional-epsilon"]
require = ["ledger", "dataset", "unit", "key", "card", "shuffle"]
formats = ["parquet"]

[budget]
dataset = 6.0
unit = 8
datasets = { health = 1.0, "survey 2024" = 2 }
disjoint = [["survey 2024", "survey 2025"], ["north", "south"]]

[limits]
column = 3.0
release = 5.0
keep = 0.9
merge_below = 10

[columns]
publish = ["age", "edu"]
drop = ["name"]
perturb = ["edu"]

[audit]
original = false
warnings = false
"""


def test_every_key_of_a_policy_file(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(WHOLE)
    made = pr.Policy.load(tmp_path / "policy.toml")
    assert made.digest is not None
    assert made == Policy(
        "Statistics Office, 2026",
        FORBIDDEN,
        ("ledger", "dataset", "unit", "key", "card", "shuffle"),
        ("parquet",),
        Budget(6.0, 8, {"health": 1.0, "survey 2024": 2}, (("survey 2024", "survey 2025"), ("north", "south"))),
        ReleaseLimits(3.0, 5.0, 0.9, 10),
        ColumnRules(("age", "edu"), ("name",), ("edu",)),
        AuditRule(False, False),
        made.digest,
    )
    (tmp_path / "least.toml").write_bytes(b"\xef\xbb\xbfversion = 1\n")
    least = pr.Policy.load(tmp_path / "least.toml")
    assert least == Policy(digest=least.digest)


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, arguments)
    if code:
        assert isinstance(result.exception, pr.PramanaError)
        return str(result.exception)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_commands(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    M.save(folder / "m.json")
    (folder / "p.toml").write_text('version = 1\nforbid = ["seed"]\n[budget]\ndataset = 5\nunit = 4\n')
    order = (
        "perturb",
        "raw.csv",
        "a.csv",
        "-m",
        "m.json",
        "--policy",
        "p.toml",
        "--ledger",
        "l",
        "--dataset",
        "survey",
    )
    told = run(*order).splitlines()
    assert told[1:3] == ["budget left: 2.921 of 5 for data set 'survey'", "budget left: 1.921 of 4 for a unit"]
    again = (*order, "--force", "--allow", "second-draw")
    assert "above the budget of 4: 2.079 is spent and 1.921 left" in run(*again, code=2)
    assert "draws from a seed" in run(*again, "--seed", "1", "--allow", "seed", code=2)
    run(*again, "--seed", "1", "--allow", "seed", "--override", "a test of the agency's own")
    assert "released before" in run(*order[:5], "--ledger", "l", "--dataset", "survey", "--force", code=2)
    shown = run("ledger", "l", "--policy", "p.toml")
    assert all(words in shown for words in ("survey", "edu", "4.1589", "a test of the agency's own"))
    plain = json.loads(run("ledger", "l", "-f", "json", "--policy", "p.toml"))
    assert plain["records"][0]["left"] == pytest.approx(5 - 2 * LOSS)
    assert plain["units"][0]["left"] == 0
    assert "'absent' does not exist" in run("ledger", "absent", code=2)


def test_a_policy_does_not_look_at_who_asks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same from Python, by the path of the file."""
    monkeypatch.chdir(folder)
    (folder / "p.toml").write_text("version = 1\n[limits]\nkeep = 0.5\n")
    refused(folder, "kept with 0.8, above 0.5", policy="p.toml")
    refused(folder, "policy 'absent.toml' does not exist", policy="absent.toml")
