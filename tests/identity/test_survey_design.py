"""Survey designs on unperturbed data: the textbook formulas, written out by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import pramana as pr

pytestmark = pytest.mark.usefixtures("large_sample")


@pytest.fixture
def sample() -> pd.DataFrame:
    """Three strata, villages within them, unequal weights."""
    rng = np.random.default_rng(12)
    rows = []
    for h, (villages, population) in enumerate([(4, 40), (3, 12), (5, 100)]):
        for c in range(villages):
            size = int(rng.integers(3, 8))
            effect = rng.normal()
            x = rng.normal(size=size)
            y = 1 + h + 0.5 * x + effect + rng.normal(size=size)
            rows.append(pd.DataFrame({"h": h, "c": c, "N": population, "w": rng.uniform(1, 5, size), "x": x, "y": y}))
    return pd.concat(rows, ignore_index=True)


def linearised(frame: pd.DataFrame, design: np.ndarray, *, corrected: bool) -> np.ndarray:
    """Σ_h (1 − f_h) n_h/(n_h − 1) Σ_c (z − z̄)(z − z̄)ᵀ between Horvitz–Thompson bread, as in R's
    svyglm(y ~ x, svydesign(~c, strata = ~h, weights = ~w, fpc = ~N, nest = TRUE))."""
    w, y = frame["w"].to_numpy(), frame["y"].to_numpy()
    gram = (design * w[:, None]).T @ design
    beta = np.linalg.solve(gram, design.T @ (w * y))
    z = pd.DataFrame(design * (w * (y - design @ beta))[:, None])
    meat = np.zeros((design.shape[1],) * 2)
    for _, rows in frame.groupby("h"):
        sums = z.loc[rows.index].groupby(rows["c"]).sum().to_numpy()
        n = len(sums)
        f = n / rows["N"].iloc[0] if corrected else 0.0
        centred = sums - sums.mean(axis=0)
        meat += (1 - f) * n / (n - 1) * centred.T @ centred
    bread = np.linalg.inv(gram)
    return bread @ meat @ bread


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("formula", ["y ~ 1", "y ~ x"])
def test_linearised_variance_is_the_textbooks(sample: pd.DataFrame, formula: str, corrected: bool) -> None:
    options = {"fpc": "N", "target": "finite"} if corrected else {}
    design = pr.SurveyDesign(weights="w", strata="h", clusters="c", **options)
    result = pr.fit(formula, sample, None, design=design)
    columns = [np.ones(len(sample))] + ([sample["x"]] if formula == "y ~ x" else [])
    reference = linearised(sample, np.column_stack(columns), corrected=corrected)
    np.testing.assert_allclose(result.covariance, reference, rtol=1e-9)
    assert result.df == 12 - 3


def test_sampling_fractions_are_population_sizes_said_otherwise(sample: pd.DataFrame) -> None:
    fractions = sample["h"].map({0: 4 / 40, 1: 3 / 12, 2: 5 / 100})
    sizes, shares = (
        pr.fit("y ~ x", sample, None, design=pr.SurveyDesign("w", "h", "c", fpc=f, target="finite")).covariance
        for f in ("N", fractions.to_numpy())
    )
    np.testing.assert_allclose(sizes, shares, rtol=1e-12)


def test_one_stratum_of_single_records_is_hc1_of_the_mean(sample: pd.DataFrame) -> None:
    n = len(sample)
    designed = pr.fit(pr.mean("y"), sample, None, design=pr.SurveyDesign())
    plain = pr.fit(pr.mean("y"), sample, None)
    np.testing.assert_allclose(designed.covariance, plain.covariance * n / (n - 1), rtol=1e-10)


def test_the_jackknife_is_deletion_by_hand(sample: pd.DataFrame) -> None:
    result = pr.fit(
        "y ~ x", sample, None, clusters=(10 * sample["h"] + sample["c"]).to_numpy(), inference=pr.Jackknife()
    )
    labels = (10 * sample["h"] + sample["c"]).to_numpy()
    whole = pr.fit("y ~ x", sample, None).estimate
    gaps = [pr.fit("y ~ x", sample[labels != g], None).estimate - whole for g in np.unique(labels)]
    count = len(gaps)
    np.testing.assert_allclose(result.covariance, (count - 1) / count * np.array(gaps).T @ np.array(gaps), rtol=1e-7)
    assert result.df == count - 1


def test_deleting_records_gives_hc3_up_to_its_factor(sample: pd.DataFrame) -> None:
    """Leaving record i out moves β by (XᵀX)⁻¹x_i e_i/(1 − h_i), so the jackknife is (n − 1)/n times HC3."""
    import statsmodels.api as sm

    n = len(sample)
    reference = sm.OLS(sample["y"], sm.add_constant(sample["x"])).fit(cov_type="HC3").cov_params().to_numpy()
    ours = pr.fit("y ~ x", sample, None, inference=pr.Jackknife()).covariance
    np.testing.assert_allclose(ours, (n - 1) / n * reference, rtol=1e-7)


def test_the_stratified_jackknife_of_a_linear_statistic_is_linearised() -> None:
    rng = np.random.default_rng(4)
    frame = {"h": np.repeat([0, 1, 2], [6, 4, 10]), "y": rng.normal(size=20)}
    weights = np.repeat([1.0, 2.0, 0.5], [6, 4, 10])
    design = pr.SurveyDesign(weights=weights, strata="h")
    jackknife = pr.fit(pr.mean("y"), frame, None, design=design, inference=pr.Jackknife()).covariance
    linear = pr.fit(pr.mean("y"), frame, None, design=design).covariance
    np.testing.assert_allclose(jackknife, linear, rtol=1e-9)  # the denominator, a sum of weights, does not move


def test_replicate_weights_are_summed_as_published(sample: pd.DataFrame) -> None:
    rng = np.random.default_rng(9)
    replicates = rng.uniform(0.5, 1.5, (8, len(sample))) * sample["w"].to_numpy()
    frame = sample.assign(**{f"r{k}": row for k, row in enumerate(replicates)})
    design = pr.SurveyDesign(weights="w", replicate_weights=[f"r{k}" for k in range(8)], replicate_scale=0.4)
    result = pr.fit("y ~ x", frame, None, design=design)
    gaps = np.array([pr.fit("y ~ x", frame, None, weights=row).estimate - result.estimate for row in replicates])
    np.testing.assert_allclose(result.covariance, 0.4 * gaps.T @ gaps, rtol=1e-7)


def test_around_the_file_only_the_randomisation_is_uncertain(sample: pd.DataFrame) -> None:
    clean = pr.fit("y ~ x", sample, None, design=pr.SurveyDesign("w", "h", "c", target="file"))
    np.testing.assert_allclose(clean.covariance, 0.0, atol=1e-12)
    frame = sample.assign(z=np.arange(len(sample)) % 2)
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix.binary(0.8, 0.8)})
    noisy = pr.fit("y ~ x + z", frame, mechanism, design=pr.SurveyDesign("w", "h", "c", target="file"))
    np.testing.assert_allclose(noisy.covariance, noisy.privacy, rtol=1e-9)


def test_the_randomisations_part_does_not_shrink_with_the_finite_population(sample: pd.DataFrame) -> None:
    frame = sample.assign(z=np.arange(len(sample)) % 2)
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix.binary(0.8, 0.8)})
    census = dict(zip(*np.unique(sample["h"], return_counts=True), strict=True))
    design = pr.SurveyDesign(strata="h", fpc=sample["h"].map(census).to_numpy(), target="finite")
    result = pr.fit("y ~ x + z", frame, mechanism, design=design)  # every unit was sampled: only the noise is left
    np.testing.assert_allclose(result.covariance, result.privacy, rtol=1e-9)


@pytest.mark.parametrize(
    ("design", "message"),
    [
        ({"strata": "h", "clusters": "h"}, "3 of 3 strata hold a single sampling unit"),
        ({"strata": "h", "fpc": "w", "target": "finite"}, "fpc differs within a stratum"),
        ({"strata": "h", "clusters": "c", "fpc": "two", "target": "finite"}, "fpc says that its population has 2"),
    ],
)
def test_impossible_designs_are_refused(sample: pd.DataFrame, design: dict[str, str], message: str) -> None:
    with pytest.raises(pr.DataError, match=message):
        pr.fit("y ~ x", sample.assign(two=2), None, design=pr.SurveyDesign(weights="w", **design))


def test_contradictions_are_refused(sample: pd.DataFrame) -> None:
    with pytest.raises(pr.PramanaError, match="both speak of weights"):
        pr.fit("y ~ x", sample, None, weights="w", design=pr.SurveyDesign(weights="w"))
    with pytest.raises(pr.PramanaError, match="needs fpc="):
        pr.SurveyDesign(target="finite")
    with pytest.raises(pr.PramanaError, match="did you mean 'finite'"):
        pr.SurveyDesign(target="finit")  # type: ignore[arg-type]
    design = pr.SurveyDesign("w", "h", "c", fpc="N", target="finite")
    with pytest.raises(pr.PramanaError, match="no finite population correction"):
        pr.fit("y ~ x", sample, None, design=design, inference=pr.Resampling())
    with pytest.raises(pr.PramanaError, match=r"target='finite' needs .* use target='superpopulation'"):
        pr.fit("y ~ x", sample, None, design=design, method="likelihood")
