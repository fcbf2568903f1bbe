"""Files with Laplace noise that was clamped after it: releases, cards, audits and risks, and what they find."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from audits import findings
from pramana.disclosure.audit.noise import MIDDLE, DrawnNoise, ReleasedNumbers
from pramana.disclosure.release.streaming import Spread
from pramana.disclosure.risk.noise import ClampedNumbers, Numbers
from pramana.mechanism.draws.perturbation import Cells

NOISE = pr.LaplaceNoise(2.0, bounds=(0.0, 10.0)).clamped()
MECHANISM = pr.Mechanism({"z": NOISE})


def frame(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    z = np.round(rng.uniform(1, 9, n), 3)
    return pd.DataFrame({"z": z, "x": rng.normal(size=n), "y": np.round(1 + 0.5 * z + rng.normal(size=n), 4)})


@pytest.fixture
def released(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "public").mkdir()
    true, public = tmp_path / "true.csv", tmp_path / "public" / "released.csv"
    frame(3000).to_csv(true, index=False)
    pr.release(true, public, MECHANISM, card=True)
    return true, public


def test_a_release_is_described_fitted_and_passes_its_audit(released: tuple[Path, Path]) -> None:
    true, public = released
    values = pd.read_csv(public)["z"]
    assert values.between(0, 10).all()
    assert (values == 0).sum() > 100
    assert (values == 10).sum() > 100
    text = public.with_name("released.csv.card.md").read_text()
    assert "Laplace noise of scale 2, with what came out clamped to 0 to 10, was added" in text
    described = pr.Mechanism.load(public.with_name("datapackage.json"))
    assert described.assignments[0].channel == NOISE
    naive, found = (pr.fit("y ~ z + x", public, described, method=method) for method in ("naive", "reversion"))
    assert abs(found["z"].estimate - 0.5) < 4 * found.standard_errors[1]
    assert abs(naive["z"].estimate - 0.5) > 10 * naive.standard_errors[1]
    audit = pr.audit(public, original=true)
    assert not [f for f in audit.findings if f.severity == "error"]
    assert any("the clamped noise follows its law" in f.message for f in audit.findings)


def test_the_variance_on_the_card_is_that_of_a_reverted_mean(tmp_path: Path) -> None:
    """Both are told by the draws of a release, and vary by 6 % against each other; the mean of eight releases by 2 %."""
    true, data = tmp_path / "true.csv", frame(3000)
    data.to_csv(true, index=False)
    ratios = []
    for k in range(8):
        public = tmp_path / f"release {k}" / "released.csv"
        public.parent.mkdir()
        pr.release(true, public, MECHANISM, card=True)
        found = pr.fit(pr.mean("z"), public, MECHANISM)
        text = public.with_name("released.csv.card.md").read_text()
        row = next(line for line in text.splitlines() if line.startswith("| z |") and "3000" in line)
        ratios.append(float(row.split("|")[3]) * data["z"].var() / 3000 / float(found.covariance[0, 0]))
    assert np.mean(ratios) == pytest.approx(1, abs=0.12)


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (pr.LaplaceNoise(2.0, bounds=(0.0, 10.0)), "farther from the bounds"),  # not clamped
        (pr.LaplaceNoise(1.6, bounds=(0.0, 10.0)).clamped(), "does not follow its law"),
        (pr.LaplaceNoise(2.5, bounds=(0.0, 10.0)).clamped(), "does not follow its law"),
        (pr.LaplaceNoise(0.1, bounds=(0.0, 10.0)).clamped(), "mean squared distance"),
    ],
)
def test_other_noise_fails_the_audit(tmp_path: Path, other: object, told: str) -> None:
    (tmp_path / "public").mkdir()
    true, public = tmp_path / "true.csv", tmp_path / "public" / "released.csv"
    data = frame(8000)
    data["z"] = data["z"].clip(4.5, 5.5) if "distance" in told else data["z"]
    data.to_csv(true, index=False)
    pr.release(true, public, MECHANISM)
    with pytest.warns(pr.PramanaWarning):
        drawn = pr.Mechanism({"z": other}).perturb(data, seed=3)
    drawn.to_csv(public, index=False)
    found = findings(public, "transitions", original=true) + findings(public, "noise")
    assert any(severity == "error" and told in message for severity, message in found)


@pytest.mark.parametrize("span", [0.05, 1.0, 6.0, 60.0])
def test_its_own_noise_passes_whatever_the_bounds(span: float) -> None:
    """Also where hardly any record is inside, or at an end."""
    noise = pr.LaplaceNoise(1.0, bounds=(0.0, span)).clamped()
    assignment = pr.Mechanism({"z": noise}).assignments[0]
    rng = np.random.default_rng(1)
    for n in (40, 4000):
        for true in (np.full(n, span / 2), rng.choice([0.0, span], n), rng.uniform(0, span, n)):
            with pytest.warns(pr.PramanaWarning):
                drawn = pr.Mechanism({"z": noise}).perturb(pd.DataFrame({"z": true}), seed=2)["z"].to_numpy()
            cells = Cells(drawn, np.ones(n, dtype=bool), {})
            alone = ReleasedNumbers(assignment)
            alone.add(drawn, cells)
            assert not list(alone.problems())
            law = DrawnNoise(assignment)
            new, old = (steps + MIDDLE for steps in (noise.released_steps(drawn), noise.true_steps(true)))
            law.add(np.stack([new, new * 0, new]), np.stack([old, old * 0, old]), cells.present)
            assert law.judged()[0].severity == "ok"


def test_posteriors_are_those_of_all_draws() -> None:
    """By enumeration: every true value, everything it can be released as, and Bayes' rule."""
    noise = pr.LaplaceNoise(1.5, bounds=(0.0, 4.0)).clamped()
    true = np.array([0.0, 0.5, 0.5, 2.0, 3.75, 4.0])
    numbers = Numbers.of(noise, true, None, ("z",))
    assert isinstance(numbers, ClampedNumbers)
    step, places = numbers.step, numbers.places(true)
    ends = np.rint(np.array([0.0, 4.0]) / step).astype(int) - numbers.lowest
    w = np.arange(ends[0], ends[1] + 1)
    table = np.zeros((w.size, numbers.prior.size))
    for k, chance in enumerate(numbers.law):
        for z in range(numbers.prior.size):
            table[np.clip(z + k - numbers.half, *ends) - ends[0], z] += chance
    shares = table @ numbers.prior
    posterior = table * numbers.prior / shares[:, None]
    expected, largest = numbers.own(places)
    np.testing.assert_allclose(expected, [table[:, z] @ posterior[:, z] for z in places], rtol=1e-9)
    np.testing.assert_allclose(largest, [posterior[:, z].max() for z in places], rtol=1e-9)
    seen = np.array([0.0, 4.0, 0.25, 4.0, 0.0, 2.5])
    rows = np.rint(seen / step).astype(int) - numbers.lowest - ends[0]
    np.testing.assert_allclose(numbers.realised(places, seen), posterior[rows, places], rtol=1e-9)
    values = (np.arange(numbers.prior.size) + numbers.lowest) * step
    best = posterior @ values
    before = numbers.prior @ (values - numbers.prior @ values) ** 2
    after = float(np.sum(table * numbers.prior * (values - best[:, None]) ** 2))
    np.testing.assert_allclose(numbers.guess(), [before, after], rtol=1e-9)
    told = {value: (share, after) for value, share, _, _, after, _, _ in numbers.telling(1000)}
    assert told[0][0] == pytest.approx(shares[0], rel=1e-9)
    assert told[max(told)][1] == pytest.approx(posterior[-1].max(), rel=1e-9)


def test_risk_of_a_file(released: tuple[Path, Path]) -> None:
    true, public = released
    found = pr.risk(true, MECHANISM, released=public)
    column = found.columns[0]
    assert column.guess is not None
    assert column.guess.after < column.guess.before
    assert "clamped to 0 to 10" in column.guess.law


def test_a_plan_is_refused_in_words() -> None:
    with pytest.raises(pr.PramanaError, match=r"'z' has a ClampedLaplaceNoise, whose strength is not planned"):
        pr.plan(frame(200), "z", "y ~ z", se=0.1, mechanism=MECHANISM)


def test_files_of_a_folder_are_summed_up_as_one() -> None:
    """What the noise adds, which differs at the ends, travels with the moments."""
    assignment, values = MECHANISM.assignments[0], np.array([0.0, 0.0, 1.5, 10.0, 7.25, 10.0])
    whole, first, second = (Spread(assignment) for _ in range(3))
    for tally, own in ((whole, values), (first, values[:2]), (second, values[2:])):
        tally.add(own, Cells(own, np.ones(own.size, dtype=bool), {}))
    first.join(second)
    for one, other in ((first[None], whole[None]), (first.added[None], whole.added[None])):
        np.testing.assert_allclose([one.count, one.mean, one.squares], [other.count, other.mean, other.squares])
    assert whole.added[None].mean == pytest.approx(NOISE.spread**2 * (2 + 4 / 2) / 6)
