"""The risk report: what it holds and how it is shown."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.disclosure.release import ledger
from pramana.disclosure.release.ledger import compose
from pramana.disclosure.risk.reidentification import size_table
from pramana.mechanism.designs import band, blocks

EDU = ("low", "mid", "high")


def test_before_the_release_the_classes_of_true_keys_decide(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    found = pr.risk(survey, mechanism, keys=["female", "region", "edu"]).linkage
    assert found is not None
    classes = survey.groupby(["female", "region", "edu"]).size()
    assert found.before_mean == pytest.approx(len(classes) / len(survey))
    assert found.before_largest == pytest.approx(1 / classes.min())
    assert found.after_mean < found.before_mean
    assert found.exact_mean <= found.after_mean
    assert found.keys == ("female", "region", "edu")


def test_clear_keys_alone_are_linked_as_before(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    found = pr.risk(survey, mechanism, keys=["female", "region"]).linkage
    assert found is not None
    assert found.after_mean == pytest.approx(found.before_mean)
    assert found.perturbed == ()


def test_rare_values_that_are_seldom_kept_still_give_people_away() -> None:
    """The likelihood prefers the common value, Bayes' rule the rare one."""
    P = pr.TransitionMatrix.from_columns(["common", "rare"], [[0.99, 0.6], [0.01, 0.4]])
    found = pr.risk({"z": ["common"] * 95 + ["rare"] * 5}, pr.Mechanism({"z": P}), keys=["z"]).linkage
    assert found is not None
    assert found.ratio_largest > 5 * found.after_largest
    assert found.worst_mean == found.ratio_mean > found.after_mean


def test_records_by_class_size() -> None:
    counts = dict(size_table(np.array([1, 1, 2, 2, 3, 3, 3, 12]), np.ones(8, dtype=np.int64)))
    assert counts == {"1": 2, "2": 2, "3–4": 3, "5–9": 0, "10 or more": 1}


def test_a_given_prior_replaces_the_files_frequencies(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    report = pr.risk(survey, mechanism, prior={"edu": {"low": 1 / 3, "mid": 1 / 3, "high": 1 / 3}})
    assert [round(v.posterior, 10) for v in report["edu"].levels] == [0.85] * 3
    assert [v.exposed for v in report["edu"].levels] == list(EDU)


def test_blocks_are_published_and_the_rest_has_a_finite_loss() -> None:
    P = blocks(["a", "b", "x", "y", "n/a"], [["a", "b"], ["x", "y"], ["n/a"]], epsilon=1.0)
    column = pr.risk({"z": ["a", "b", "x", "y", "n/a", "n/a"]}, pr.Mechanism({"z": P}))["z"]
    assert column.epsilon == np.inf
    assert column.epsilon_within == pytest.approx(1.0)
    assert column.blocks == (("a", "b"), ("x", "y"), ("n/a",))
    assert column.zeros is not None
    assert "which of 3 blocks" in column.zeros
    assert column.posterior == 1.0


def test_a_band_joins_all_levels_but_rules_some_out() -> None:
    column = pr.risk({"z": list("abcd")}, pr.Mechanism({"z": band(list("abcd"), 0.8)}))["z"]
    assert len(column.blocks) == 1
    assert {v.ruled_out for v in column.levels} == {1, 2}
    assert column.zeros is not None
    assert "up to 2 of the 4" in column.zeros


def test_strata_have_their_own_posteriors() -> None:
    data = {"z": ["a", "b"] * 10, "g": ["n"] * 10 + ["s"] * 10}
    by = pr.Stratified(
        "g", {k: pr.TransitionMatrix.randomized_response(["a", "b"], p) for k, p in (("n", 0.9), ("s", 0.6))}
    )
    report = pr.risk(data, pr.Mechanism({"z": by}))
    assert [(v.stratum, round(v.posterior, 10)) for v in report["z"].levels] == [
        ("n", 0.9),
        ("n", 0.9),
        ("s", 0.6),
        ("s", 0.6),
    ]
    assert report["z"].exposure.row < 10
    assert "stratum" in str(report)


def test_the_worst_record_is_named_by_its_row_in_the_file(mechanism: pr.Mechanism) -> None:
    frame = pd.DataFrame({"edu": ["low", None, "mid", "mid", "high", None, "mid"], "sex": [0, 0, 1, 1, 1, 1, 0]})
    report = pr.risk(frame, mechanism, keys=["sex", "edu"], missing="drop")
    assert report.n == 5
    assert report["edu"].exposure.row == 2
    assert report.linkage is not None
    assert report.linkage.row in (0, 4, 6)


def test_many_levels_are_swept_without_a_square_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pramana.disclosure.risk.posterior.BLOCK", 500)
    data = {"z": list(range(90)) + [3] * 10}
    report = pr.risk(data, pr.Mechanism({"z": pr.TransitionMatrix.randomized_response(range(90), 0.5, kind="nominal")}))
    assert len(report["z"].levels) == 90
    assert "the 12 largest of 90" in str(report)
    assert max(report["z"].levels, key=lambda v: v.posterior).released == 3


@pytest.mark.parametrize("style", ["text", "json", "markdown", "latex", "html"])
def test_every_rendering_holds_every_part(style: str, survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    report = pr.risk(survey, mechanism, keys=["female", "edu"], analyses="income ~ age + edu", released=survey)
    shown = report.summary(style)
    if style == "json":
        data = json.loads(shown)
        assert {"columns", "linkage", "tables", "analyses", "epsilon"} <= set(data)
        assert data["analyses"][-1]["term"] == "edu[T.high]"
    else:
        for part in ("Re-identification", "Change of tables", "Variance of analyses"):
            assert part in shown


def test_an_unchanged_release_changes_no_table(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    tables = pr.risk(survey, mechanism, keys=["female"], released=survey).utility.tables
    assert [t.columns for t in tables] == [("edu",), ("edu", "female")]
    assert all(t.realised_moved == 0 and t.realised_chi_square == 0 for t in tables)
    assert all(t.moved > 0 for t in tables)


def test_two_way_tables_of_two_perturbed_columns(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    female = pr.TransitionMatrix.binary(0.8, 0.9)
    both = pr.Mechanism({"edu": mechanism.assignments[0].channel, "female": female})
    table = {t.columns: t for t in pr.risk(survey, both).utility.tables}["edu", "female"]
    counts = pd.crosstab(survey["edu"], survey["female"]).loc[list(EDU)].to_numpy().ravel().astype(float)
    P = np.kron(mechanism.assignments[0].channel.matrix, female.matrix)  # type: ignore[attr-defined]
    mean, variance = P @ counts, (P * (1 - P)) @ counts
    assert table.chi_square == pytest.approx(np.sum(((mean - counts) ** 2 + variance) / counts))


def entry(columns: dict[str, tuple[str, float]], randomness: str = "fresh", key: str | None = None) -> ledger.Entry:
    records = {name: ledger.ColumnRecord(*record) for name, record in columns.items()}
    return ledger.Entry("survey", "0" * 64, "1" * 64, "out.csv", 10, randomness, key, None, records)


def test_losses_add_over_independent_releases_but_not_over_keyed_ones(tmp_path: Path, mechanism: pr.Mechanism) -> None:
    path = tmp_path / "ledger.jsonl"
    fresh = entry({"edu": ("h", 1.0)})
    keyed = entry({"edu": ("h", 1.0), "job": ("j", 0.5)}, "keyed", "k")
    other_matrix = entry({"edu": ("other", 0.25)}, "keyed", "k")
    for one in (fresh, fresh, keyed, keyed, other_matrix):
        with ledger.recorded(path, lambda _, one=one: one):
            pass
    found = compose(path, mechanism, None, "survey")
    edu, job = found.columns
    assert (found.releases, edu.releases, edu.draws, edu.epsilon) == (5, 5, 4, 3.25)
    assert edu.total == pytest.approx(3.25 + mechanism.epsilon)
    assert (job.column, job.draws, job.total) == ("job", 1, 0.5)
    assert compose(path, mechanism, None, "another").releases == 0


def test_the_ledger_of_a_release_is_found_by_the_file(
    tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    source, book = tmp_path / "true.csv", tmp_path / "ledger.jsonl"
    survey.to_csv(source, index=False)
    pr.release(source, tmp_path / "a.csv", mechanism, ledger=book)
    pr.release(source, tmp_path / "b.csv", mechanism, ledger=book, allow="second-draw")
    report = pr.risk(source, mechanism, ledger=book)
    assert report.composition is not None
    assert report.composition.total == pytest.approx(3 * mechanism.epsilon)
    assert "Composition over releases" in str(report)


@pytest.mark.parametrize("make", ["odds_ratio", "crosstab", "multinomial", "counts"])
def test_any_smooth_analysis_is_weighed_by_its_shown_terms(make: str, survey: pd.DataFrame) -> None:
    edu, job = (pr.TransitionMatrix.randomized_response(v, 1.0) for v in (EDU, ("no", "yes")))
    analysis = {
        "odds_ratio": pr.odds_ratio("employed", "region"),
        "crosstab": pr.crosstab("edu", "employed"),
        "multinomial": pr.multinomial("edu ~ age"),
        "counts": pr.counts("edu"),
    }[make]
    mechanism = pr.Mechanism({"edu": edu, "employed": job})
    variance = pr.risk(survey, mechanism, analyses=analysis).utility.analyses[0].variance
    oracle = pr.fit(analysis, survey, mechanism, inference=pr.Sandwich("HC0"))
    assert variance.parameters == oracle.parameters
    assert np.allclose(variance.total, oracle.covariance)


def test_a_level_that_does_not_occur_has_an_infinite_inflation() -> None:
    P = pr.TransitionMatrix.randomized_response(["a", "b", "c"], 0.8)
    report = pr.risk({"z": ["a", "b"] * 20}, pr.Mechanism({"z": P}), analyses=pr.proportions("z"))
    variance = report.utility.analyses[0].variance
    assert variance.inflation[2] == np.inf
    assert variance.effective_n[2] == 0
    json.loads(report.summary("json"))
    with pytest.raises(pr.PramanaError, match=r"\(term 3 of 3\) of 'z' has no variance in the pilot"):
        pr.optimal_design(pr.proportions("z"), {"z": ["a", "b"] * 20}, "z", epsilon=1, levels=["a", "b", "c"])


def test_an_epsilon_that_holds_given_the_frequencies_says_so(tmp_path: Path) -> None:
    """From the design file, through the mechanism, to the report, the description, the card and the audit."""
    pd.DataFrame({"edu": np.resize(EDU, 120), "sex": np.resize(["f", "m"], 120)}).to_csv(
        tmp_path / "in.csv", index=False
    )
    (tmp_path / "d.toml").write_text(
        '[columns.edu]\nlevels = ["low", "mid", "high"]\nkeep = 0.8\ninvariant = true\nfrequencies = "data"\n[columns.sex]\nlevels = ["f", "m"]\nkeep = 0.9\n'
    )
    made = pr.read_design(tmp_path / "d.toml", tmp_path / "in.csv")
    report = pr.risk(tmp_path / "in.csv", made)
    assert report["edu"].conditional
    assert not report["sex"].conditional
    assert str(report).count("given the frequencies") == 2
    assert [c["conditional"] for c in json.loads(report.summary("json"))["columns"]] == [True, False]
    out = pr.release(tmp_path / "in.csv", tmp_path / "out.csv", made, card=True)
    assert (
        json.loads(out.description.read_text())["resources"][0]["pram"]["channels"][0]["randomization"]["conditional"]
        is True
    )
    assert "given the frequencies of 'edu'" in out.cards[0].read_text()
    assert "given the frequencies of 'edu'" in str(pr.audit(out.path))


def test_nothing_is_said_of_records_that_are_not_there() -> None:
    data = {"sex": ["f", "m"] * 20, "ill": ["no", "no", "yes", "yes"] * 10}
    mechanism = pr.Mechanism({"ill": pr.TransitionMatrix.randomized_response(["no", "yes"], keep=0.8)})
    text = str(pr.risk(data, mechanism, keys=["sex"]))
    assert "records alone with their true keys: 0\n" in text
    assert "stays alone with probability" not in text
