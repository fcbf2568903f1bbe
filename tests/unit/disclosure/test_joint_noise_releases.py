"""Noise that several columns share, in releases of files, their audit and their risk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from audits import findings
from pramana.disclosure.audit.noise import _JointLaw
from pramana.disclosure.release.policy import Policy, ReleaseLimits
from pramana.disclosure.risk.joint_noise import Vectors
from pramana.disclosure.risk.noise import Numbers
from pramana.frames.blocks import csv_files, parquet_files

NAMES = ("a", "b", "c")
COVARIANCE = np.array([[4.0, 1.5, -0.5], [1.5, 1.0, 0.2], [-0.5, 0.2, 2.0]])
NOISE = pr.JointGaussianNoise(COVARIANCE, bounds=[(0, 50), (0, 30), (-10, 10)])
M = pr.Mechanism({NAMES: NOISE, "edu": pr.TransitionMatrix.randomized_response(["low", "high"], 0.8)})
KEY = bytes(range(32))
SEEDED: dict[str, Any] = {"seed": 5, "allow": "seed"}
pytestmark = pytest.mark.filterwarnings("ignore:.*not secure")


@pytest.fixture
def frame(rng: np.random.Generator) -> pd.DataFrame:
    n = 3000
    out = pd.DataFrame(
        {
            "id": np.arange(n),
            "person": np.arange(n) // 2,
            "a": rng.normal(20, 4, n).round(2),
            "b": rng.normal(12, 3, n).round(1),
            "c": rng.normal(0, 2, n).round(3),
            "edu": rng.choice(["low", "high"], n),
        }
    )
    out.loc[7, "b"] = np.nan
    return out


def released(frame: pd.DataFrame, folder: Path, mechanism: Any = M, ending: str = "csv", **options: Any) -> Path:
    source, public = folder / f"raw.{ending}", folder / "public"
    public.mkdir(exist_ok=True)
    frame.to_parquet(source) if ending == "parquet" else frame.to_csv(source, index=False)
    pr.release(source, public / f"file.{ending}", mechanism, force=True, **options)
    return public / f"file.{ending}"


def read(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_keyed_file_has_the_draws_of_a_frame(
    frame: pd.DataFrame, tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the format and the blocks; where one of the columns is missing, none of them shows."""
    monkeypatch.setattr(csv_files, "SIZE", 4096)
    monkeypatch.setattr(parquet_files, "LONGEST", 400)
    path = released(frame, tmp_path, ending=ending, key=KEY, id="id")
    expected = M.perturb(frame, key=KEY, id="id")
    for name in NAMES:
        np.testing.assert_array_equal(read(path)[name].to_numpy(float), expected[name].to_numpy(float))
    assert read(path).loc[7, list(NAMES)].isna().all()
    pd.testing.assert_frame_equal(read(released(frame, tmp_path, ending=ending, key=KEY, id="id")), read(path))


def test_blocks_do_not_change_seeded_draws(
    frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = read(released(frame, tmp_path, **SEEDED))
    monkeypatch.setattr(csv_files, "SIZE", 4096)
    pd.testing.assert_frame_equal(read(released(frame, tmp_path, **SEEDED)), whole)


def test_description_and_card_say_what_the_columns_share(frame: pd.DataFrame, tmp_path: Path) -> None:
    path = released(frame, tmp_path, card=True, ledger=tmp_path / "ledger.jsonl", dataset="people")
    entry = json.loads((path.parent / "datapackage.json").read_text())["resources"][0]
    channel = entry["pram"]["channels"][0]
    assert (channel["randomization"]["channel"], channel["columns"]) == ("joint_gaussian_noise", list(NAMES))
    assert pr.Mechanism.load(path) == M
    assert {f["name"]: f["type"] for f in entry["schema"]["fields"]}["a"] == "number"
    assert entry["pram"]["missing"] == {"a": 1, "b": 1, "c": 1}
    assert any(f"rho = {M.rho:.4g}" in text for text in entry["pram"]["limits"])
    card = Path(f"{path}.card.md").read_text()
    assert "a × b × c: normal noise that these columns share was added" in card
    assert "| a | 4.0000 | 1.5000 | -0.5000 |" in card
    assert "| b | 0 to 30 |" in card
    record = json.loads((tmp_path / "ledger.jsonl").read_text().splitlines()[-1])
    assert json.dumps(list(NAMES)) in record["columns"]
    fitted = pr.fit(pr.mean("a"), path, "auto", missing="drop")
    assert fitted.n == len(frame) - 1


def test_units_share_a_joint_draw(frame: pd.DataFrame, tmp_path: Path) -> None:
    same = frame.assign(**{name: frame[name].to_numpy()[frame.person.to_numpy() * 2] for name in (*NAMES, "edu")})
    path = released(same, tmp_path, unit="person")
    out = read(path)
    assert (out.groupby("person")[list(NAMES)].nunique() <= 1).all().all()
    assert pr.audit(path, original=tmp_path / "raw.csv").clean


@pytest.mark.parametrize("correlation", [0.5, 0.9999, -0.99])
def test_draws_are_recovered_to_the_last_step(correlation: float) -> None:
    """What the audit tests are the independent parts: nothing but what was drawn, however strong the correlation."""
    noise = pr.JointGaussianNoise([[9.0, 3 * correlation], [3 * correlation, 1.0]])
    true = np.column_stack([np.linspace(-40, 90, 500), np.linspace(3, 5, 500)])

    class Drawn:
        def __init__(self) -> None:
            self.words_given: list[np.ndarray] = []

        def words(self, size: int) -> np.ndarray:
            self.words_given.append(np.random.default_rng(len(self.words_given)).integers(0, 2**64, size, np.uint64))
            return self.words_given[-1]

    from pramana.mechanism.draws.integer_noise import draw_integers

    stream = Drawn()
    moved = noise.released_steps(noise.perturb(true, {}, stream)) - noise.true_steps(true)  # type: ignore[arg-type]
    expected = np.column_stack(
        [
            draw_integers(part.cuts, 500, Again(words))
            for part, words in zip(noise.parts_drawn, stream.words_given, strict=True)
        ]  # type: ignore[arg-type]
    )
    np.testing.assert_array_equal(noise.drawn_steps(moved), expected)


class Again:
    """Words that were given before."""

    def __init__(self, words: np.ndarray) -> None:
        self._words = words

    def words(self, size: int) -> np.ndarray:
        return self._words[:size]


def test_an_audit_passes_and_finds_another_covariance(frame: pd.DataFrame, tmp_path: Path) -> None:
    """Variances as stated and only a correlation that is off fails; so do dependence and noise that is not normal."""
    path = released(frame, tmp_path)
    original = tmp_path / "raw.csv"
    assert pr.audit(path, original=original).clean
    assert "the joint noise follows its law" in findings(path, "transitions", original=original)[0][1]
    for wrong in (
        COVARIANCE * 1.5,
        np.diag(np.diag(COVARIANCE)),
        COVARIANCE + np.array([[0, 0, 0], [0, 0, -0.5], [0, -0.5, 0]]),
    ):
        other = pr.Mechanism({NAMES: pr.JointGaussianNoise(wrong, bounds=NOISE.bounds)})
        package = path.parent / "datapackage.json"
        kept = package.read_text()
        described = json.loads(kept)
        described["resources"][0]["pram"]["channels"][0]["randomization"]["covariance"] = np.asarray(wrong).tolist()
        package.write_text(json.dumps(described))
        assert other.assignments[0].channel == pr.Mechanism.load(path).assignments[0].channel
        severity, message = findings(path, "transitions", original=original)[0]
        assert severity == "error"
        assert "a × b × c: the joint noise does not follow its law" in message
        package.write_text(kept)


def test_the_law_is_that_of_all_parts(rng: np.random.Generator) -> None:
    """Normal vectors pass; with the same covariance and another form, or parts that depend on each other, they do not."""
    noise = pr.JointGaussianNoise([[4.0, 1.0], [1.0, 1.0]])
    lower = np.linalg.cholesky(np.array(noise.covariance))
    n = 20_000

    def severity(parts: np.ndarray) -> str:
        law = _JointLaw(noise)
        law.add(noise.released_steps(parts @ lower.T), rng.integers(0, 1000, (n, 2)))
        return law.judged("x").severity

    normal = rng.normal(size=(n, 2))
    assert severity(normal) == "ok"
    assert severity(rng.laplace(scale=np.sqrt(0.5), size=(n, 2))) == "error"
    assert severity(normal + 0.1) == "error"
    assert severity(normal @ np.array([[1.0, 0.1], [0.0, np.sqrt(0.99)]])) == "error"


def test_too_little_spread_in_a_combination_is_found_without_the_original(frame: pd.DataFrame, tmp_path: Path) -> None:
    """Each column varies as it should, their difference does not."""
    noise = pr.JointGaussianNoise([[1.0, 0.0], [0.0, 1.0]])
    x = np.random.default_rng(3).normal(0, 2, 4000)
    path = released(pd.DataFrame({"u": x, "v": x}), tmp_path, pr.Mechanism({("u", "v"): noise}))
    assert findings(path, "noise")[0][0] == "ok"
    table = read(path)
    table.assign(v=table["u"] + 0.5).to_csv(path, index=False)
    severity, message = findings(path, "noise")[0]
    assert severity == "error"
    assert "u × v: some combination of the released values has" in message


def test_round_numbers_that_the_other_columns_noise_gives_away(tmp_path: Path) -> None:
    """Alone each noise hides whole numbers; the two together are almost one, and their difference is read off."""
    data = pd.DataFrame({"u": np.arange(40) % 7, "v": np.arange(40) % 5})
    shared = pr.JointGaussianNoise([[9.0, 9 * 0.99999], [9 * 0.99999, 9.0]])
    with pytest.raises(
        pr.PramanaError, match=r"values of 'u' are round numbers.*who know the noise of the other columns"
    ):
        released(data, tmp_path, pr.Mechanism({("u", "v"): shared}))
    released(data, tmp_path, pr.Mechanism({("u", "v"): pr.JointGaussianNoise([[9.0, 6.0], [6.0, 9.0]])}))


def test_policies_bound_joint_noise(frame: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(pr.PramanaError, match=r"epsilon of .a., .b., .c. is"):
        released(frame, tmp_path, policy=Policy(limits=ReleaseLimits(column=2.0)))


def reference(noise: Any, vectors: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Expected posterior of each vector's own values, and mean square errors, by a fine grid over two columns."""
    inverse = np.linalg.inv(np.array(noise.covariance))
    t = np.linspace(-9, 9, 361)
    e = np.stack(np.meshgrid(t, t), axis=-1).reshape(-1, 2)
    weights = np.exp(-(e**2).sum(axis=1) / 2)
    weights /= weights.sum()
    drawn = e @ np.linalg.cholesky(np.array(noise.covariance)).T
    expected, left = np.zeros(vectors.shape), np.zeros(2)
    for i, z in enumerate(vectors):
        apart = (z + drawn)[:, None] - vectors
        chance = prior * np.exp(-0.5 * np.einsum("smk,kl,sml->sm", apart, inverse, apart))
        after = chance / chance.sum(axis=1, keepdims=True)
        mean = after @ vectors
        left += prior[i] * (weights @ (mean - z) ** 2)
        for k in range(2):
            expected[i, k] = weights @ after[:, vectors[:, k] == z[k]].sum(axis=1)
    return expected, left


def test_posteriors_are_those_of_a_fine_grid() -> None:
    noise = pr.JointGaussianNoise([[4.0, 1.6], [1.6, 1.0]])
    vectors = np.array([[0.0, 0.0], [0.0, 3.0], [4.0, 0.0], [5.0, 3.0], [-6.0, 1.0]])
    counts = np.array([10, 4, 3, 2, 1])
    found, again = Vectors.of(noise, np.repeat(vectors, counts, axis=0), None, ("u", "v"))
    expected, left = reference(noise, vectors, counts / 20)
    order = again[np.concatenate([[0], np.cumsum(counts)[:-1]])]
    np.testing.assert_allclose(found.told.expected[order], expected, atol=2e-3)
    np.testing.assert_allclose(found.guesses()[1], left, rtol=5e-3)


def test_a_constant_column_gives_its_noise_away(rng: np.random.Generator) -> None:
    """Then the other's is that of normal noise given it, and every number must be the one of a single column."""
    noise = pr.JointGaussianNoise([[9.0, 4.0], [4.0, 4.0]])
    x = rng.integers(0, 30, 400).astype(float)
    found, again = Vectors.of(noise, np.column_stack([x, np.full(400, 5.0)]), None, ("u", "v"))
    alone = Numbers.of(noise.given_others(0), x, None, ("u",))
    before, after = found.guesses()
    np.testing.assert_allclose([before[0], after[0]], alone.guess(), rtol=5e-3)
    np.testing.assert_allclose(found.told.expected[again, 0], alone.own(alone.places(x))[0], atol=5e-3)
    np.testing.assert_allclose((before[1], after[1]), 0.0, atol=1e-12)


def test_normal_values_have_the_posterior_variance_of_the_textbook(rng: np.random.Generator) -> None:
    truth = np.array([[4.0, -1.0, 0.5], [-1.0, 2.0, 0.0], [0.5, 0.0, 1.0]])
    values = rng.multivariate_normal([20, 10, 0], truth, 20_000)
    found, _ = Vectors.of(pr.JointGaussianNoise(COVARIANCE), values, None, NAMES)
    exact = np.linalg.inv(np.linalg.inv(truth) + np.linalg.inv(COVARIANCE))
    np.testing.assert_allclose(found.guesses()[0], np.diag(truth), rtol=0.03)
    np.testing.assert_allclose(found.guesses()[1], np.diag(exact), rtol=0.03)


def test_risk_has_every_column_given_all_of_them(frame: pd.DataFrame, tmp_path: Path) -> None:
    path = released(frame, tmp_path)
    report = pr.risk(frame, M, released=path)
    assert [c.columns for c in report.columns] == [("a",), ("b",), ("c",), ("edu",)]
    for name, noise in zip(NAMES, NOISE.sds, strict=True):
        one = report[name]
        alone = pr.risk(frame.dropna(), pr.Mechanism({name: pr.GaussianNoise(float(noise))}))[name]
        assert one.guess is not None
        assert alone.guess is not None
        assert one.guess.seen == NAMES
        assert one.guess.after < alone.guess.after < one.guess.before
        assert one.missing == 1
        assert one.realised is not None
        assert 0 < one.exposure.mean <= one.exposure.largest <= 1
    assert "from a, b, c together" in str(report)
    assert json.loads(json.dumps(report.to_dict()["columns"][0]["guess"]["seen"])) == list(NAMES)


def test_a_prior_of_joint_noise_is_by_vector(frame: pd.DataFrame) -> None:
    two = pr.Mechanism({("a", "b"): pr.JointGaussianNoise([[4.0, 1.0], [1.0, 1.0]])})
    data = frame.dropna()[["a", "b"]].head(50)
    prior = {(float(a), float(b)): 1 / len(data) for a, b in data.drop_duplicates().to_numpy()}
    prior = {vector: 1 / len(prior) for vector in prior}
    given = pr.risk(data, two, prior={"a × b": prior})["a"].guess
    own = pr.risk(data, two)["a"].guess
    assert given is not None
    assert own is not None
    assert given.after == pytest.approx(own.after, rel=1e-9)
    for wrong in ({1.0: 1.0}, {(1.0, 2.0, 3.0): 1.0}, {(1.0, 2.0): 0.5}):
        with pytest.raises(
            pr.DataError, match=r"prior frequencies of 'a', 'b', which share a noise, must be a mapping"
        ):
            pr.risk(data, two, prior={"a × b": wrong})


def test_links_through_joint_noise_are_refused_by_name(frame: pd.DataFrame) -> None:
    with pytest.raises(pr.DataError, match=r"the key 'a' gets noise"):
        pr.risk(frame, M, keys=["a", "person"])


def test_a_joint_matrix_with_a_gap_is_compared_with_its_release(tmp_path: Path) -> None:
    """Where one of its columns is missing none is released, which is no other order of the records."""
    levels = [(x, y) for x in "ab" for y in "cd"]
    both = pr.Mechanism({("x", "y"): pr.TransitionMatrix.randomized_response(levels, 0.7)})
    data = pd.DataFrame({"x": list("abab") * 20, "y": [None, *("cdcd" * 20)[1:]]})
    path = released(data, tmp_path, both)
    assert pr.risk(data, both, released=path)["x × y"].missing == 1


def test_shuffled_records_are_audited_by_their_link(frame: pd.DataFrame, tmp_path: Path) -> None:
    path = released(frame, tmp_path, shuffle=True, link=tmp_path / "link.parquet")
    found = pr.audit(path, original=tmp_path / "raw.csv", link=tmp_path / "link.parquet")
    assert found.clean
    assert any("the joint noise follows its law" in f.message for f in found.findings)
