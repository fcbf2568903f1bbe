"""Risk of numbers with noise against Bayes' rule written out, and against what is known of normal noise."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr

VALUES = [3, 3, 3, 4, 4, 7, 7, 7, 7, 12]
NOISES: dict[str, Any] = {
    "geometric": pr.GeometricNoise(2.0, bounds=(0, 20)),
    "clamping": pr.GeometricNoise(2.0, bounds=(0, 10)),
    "keep or noise": pr.KeepOrNoise(0.4, pr.GeometricNoise(3.0)),
    "keep or normal": pr.KeepOrNoise(0.6, pr.DiscreteGaussianNoise(3.0)),
    "discrete gaussian": pr.DiscreteGaussianNoise(2.0),
}


def slowly(noise: Any, prior: dict[int, float]) -> tuple[dict[int, float], dict[int, dict[int, float]]]:
    """Shares of released values, and posteriors of true ones given them."""
    chances = noise.chances
    law = {k - chances.size // 2: float(p) for k, p in enumerate(chances) if p > 0}
    joint: dict[int, dict[int, float]] = {}
    for z, share in prior.items():
        for k, p in law.items():
            joint.setdefault(z + k, {})[z] = share * p
    shares = {w: sum(parts.values()) for w, parts in joint.items()}
    return shares, {w: {z: j / shares[w] for z, j in parts.items()} for w, parts in joint.items()}


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("prior", [None, {3: 0.5, 4: 0.1, 7: 0.2, 10: 0.1, 12: 0.1}])
def test_posteriors_are_bayes_rule(name: str, prior: dict[int, float] | None) -> None:
    noise = NOISES[name]
    high = 10 if name == "clamping" else 20
    true = [min(v, high) for v in VALUES]
    known = prior or {z: count / len(true) for z, count in Counter(true).items()}
    clamped: Counter[int] = Counter()
    for z, share in known.items():
        clamped[min(z, high)] += share
    shares, posterior = slowly(noise, dict(clamped))
    found = pr.risk({"z": VALUES}, pr.Mechanism({"z": noise}), prior=None if prior is None else {"z": prior})["z"]
    listed = {level.released: level for level in found.levels}
    assert set(listed) == {w for w, share in shares.items() if share * len(VALUES) >= 0.01}
    for w, level in listed.items():
        assert level.share == pytest.approx(shares[w], rel=1e-9)
        assert level.posterior == pytest.approx(max(posterior[w].values()), rel=1e-9)
        assert posterior[w][level.exposed] == pytest.approx(level.posterior, rel=1e-9)
        assert level.prior == pytest.approx(clamped[level.exposed])
    chances = noise.chances
    law = {k - chances.size // 2: p for k, p in enumerate(chances) if p > 1e-13}
    own = [sum(p * posterior[z + k][z] for k, p in law.items()) for z in true]
    assert found.exposure.mean == pytest.approx(np.mean(own), rel=1e-9)
    assert found.exposure.expected == pytest.approx(max(own), rel=1e-9)
    assert found.exposure.row == int(np.argmax(own))
    worst = true[int(np.argmax(own))]
    assert found.exposure.largest == pytest.approx(max(posterior[worst + k][worst] for k in law), rel=1e-9)
    error = sum(
        shares[w] * (sum(z * z * p for z, p in parts.items()) - sum(z * p for z, p in parts.items()) ** 2)
        for w, parts in posterior.items()
    )
    assert found.guess is not None
    assert found.guess.after == pytest.approx(np.sqrt(error), rel=1e-7)


def test_realised_posteriors_are_those_of_the_file() -> None:
    noise = NOISES["geometric"]
    data = pd.DataFrame({"z": VALUES * 30})
    with pytest.warns(UserWarning, match="not secure"):
        public = pr.Mechanism({"z": noise}).perturb(data, seed=2)
    found = pr.risk(data, pr.Mechanism({"z": noise}), released=public)["z"]
    _, posterior = slowly(noise, {z: c / len(VALUES) for z, c in Counter(VALUES).items()})
    slow = max(posterior[w].get(z, 0.0) for z, w in zip(data["z"], public["z"], strict=True))
    assert found.realised == pytest.approx(slow, rel=1e-9)


def test_strata_have_priors_of_their_own() -> None:
    parts = {"a": pr.GeometricNoise(2.0), "b": pr.GeometricNoise(5.0)}
    data = {"z": VALUES * 2, "s": ["a"] * 10 + ["b"] * 10}
    found = pr.risk(data, pr.Mechanism({"z": pr.Stratified("s", parts)}))["z"]
    alone = {s: pr.risk({"z": VALUES}, pr.Mechanism({"z": noise}))["z"] for s, noise in parts.items()}
    assert found.exposure.mean == pytest.approx(np.mean([one.exposure.mean for one in alone.values()]))
    assert found.guess is not None
    squares = [one.guess.after**2 for one in alone.values() if one.guess is not None]
    assert found.guess.after == pytest.approx(np.sqrt(np.mean(squares)))
    assert {level.stratum for level in found.levels} == {"a", "b"}


@pytest.mark.parametrize("sd", [0.5, 2.0])
def test_normal_numbers_under_normal_noise(sd: float) -> None:
    """The best guess is off by σs/√(σ² + s²)."""
    from scipy.special import ndtri

    data = {"z": 10 * ndtri((np.arange(20_000) + 0.5) / 20_000) / 10}
    found = pr.risk(data, pr.Mechanism({"z": pr.GaussianNoise(sd)}))["z"].guess
    assert found is not None
    assert found.before == pytest.approx(1, rel=1e-3)
    assert found.after == pytest.approx(sd / np.sqrt(1 + sd**2), rel=2e-3)
    assert found.step <= sd / 32


@pytest.mark.parametrize("noise", [pr.LaplaceNoise(4.0), pr.UniformNoise(10.0), pr.GaussianNoise(3.0)])
def test_wide_numbers_are_taken_in_wider_steps(noise: Any, rng: np.random.Generator) -> None:
    """Never is a number told better than by a release without noise, and what is ruled out is said."""
    found = pr.risk({"z": np.append(rng.normal(size=500) * 20, 1e7)}, pr.Mechanism({"z": noise}))["z"]
    assert found.guess is not None
    assert found.guess.step == pytest.approx(1e7 / 20_000, rel=0.01)
    assert found.exposure.largest <= 1
    close = pr.risk({"z": rng.normal(size=500) * 20}, pr.Mechanism({"z": noise}))["z"]
    assert close.guess is not None
    assert 0 < close.guess.after < float(noise.operator.spread)
    assert close.zeros is None
    ruled = max(level.ruled_out for level in close.levels)
    assert isinstance(noise, pr.GaussianNoise) or (ruled > 300) == isinstance(noise, pr.UniformNoise)


def test_the_report_reads_and_other_questions_are_refused() -> None:
    data = {"z": VALUES * 10, "x": list(range(10)) * 10, "e": ["a", "b"] * 50}
    mechanism = pr.Mechanism({"z": NOISES["geometric"], "e": pr.TransitionMatrix.randomized_response(["a", "b"], 0.8)})
    found = pr.risk(data, mechanism, keys=["x", "e"], analyses=["x ~ e"])
    text = str(found)
    assert "geometric noise of scale 2" in text
    assert "Best guess at a true value" in text
    assert found.to_dict()["columns"][0]["guess"]["step"] == 1.0
    assert [t.columns for t in found.utility.tables] == [("e",), ("e", "x")]
    assert "Change of tables" not in str(pr.risk(data, pr.Mechanism({"z": NOISES["geometric"]})))
    with pytest.raises(pr.DataError, match=r"the key 'z' gets noise.*clamped\(\)"):
        pr.risk(data, mechanism, keys=["z"])
    assert "x ~ z" in str(pr.risk(data, mechanism, analyses=["x ~ z"]))
    for prior in ([0.5, 0.5], {3: 0.4}, {3: -1.0, 4: 2.0}, {}, {"a": 1.0}):
        with pytest.raises(pr.DataError, match=r"prior frequencies of 'z', which holds numbers"):
            pr.risk(data, mechanism, prior={"z": prior})
    with pytest.raises(pr.DataError, match="no value in any"):
        pr.risk({"z": [None] * 5}, pr.Mechanism({"z": NOISES["geometric"]}))
