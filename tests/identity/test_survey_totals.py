"""Totals of perturbed columns under a design: the textbook's sums, applied to reverted values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.engines import LocalEngine, Sampling
from pramana.estimating import Records
from pramana.frames import Schema, read

pytestmark = pytest.mark.usefixtures("large_sample")

KEEP = 0.8
CODES = {"low": 0.0, "mid": 1.0, "high": 3.0}
EDU = pr.TransitionMatrix.randomized_response(list(CODES), keep=KEEP)
LEVEL = pr.TransitionMatrix.randomized_response(list(CODES.values()), keep=KEEP, kind="numeric")


@pytest.fixture
def released() -> pd.DataFrame:
    """Three strata of villages of unequal size; `edu` in words and `level` in numbers are the same perturbed column."""
    rng = np.random.default_rng(31)
    village = np.repeat(np.arange(14), rng.integers(4, 11, 14))
    n = len(village)
    edu = rng.choice(list(CODES), n)
    return pd.DataFrame(
        {
            "h": np.searchsorted([4, 9], village, side="right"),
            "c": village,
            "N": np.array([9, 30, 12])[np.searchsorted([4, 9], village, side="right")],
            "w": rng.uniform(1, 6, n).round(2),
            "region": rng.choice(["north", "south"], n),
            "edu": edu,
            "level": [CODES[e] for e in edu],
            "y": rng.normal(5, 1, n).round(3),
        }
    )


MECHANISM = pr.Mechanism({"edu": EDU, "level": LEVEL})
DESIGN = {"weights": "w", "strata": "h", "clusters": "c"}


def reverted(frame: pd.DataFrame) -> pd.DataFrame:
    """Unbiased stand-ins for what is hidden: the column, its square, and indicators of its levels."""
    rows = EDU.inverse[:, [list(CODES).index(e) for e in frame["edu"]]]
    values = np.array(list(CODES.values()))
    out = {"first": values @ rows, "second": values**2 @ rows}
    return pd.DataFrame(out | {f"is_{e}": row for e, row in zip(CODES, rows, strict=True)})


def by_hand(frame: pd.DataFrame, terms: np.ndarray, *, corrected: bool = False) -> np.ndarray:
    """Σ_h (1 − f_h) n_h/(n_h − 1) Σ_c (z_hc − z̄_h)(z_hc − z̄_h)ᵀ for unit totals z of w times the terms."""
    z = pd.DataFrame(terms * frame["w"].to_numpy()[:, None]).groupby(frame["c"].to_numpy()).sum()
    h, size = frame.groupby("c")["h"].first(), frame.groupby("c")["N"].first()
    out = np.zeros((terms.shape[1],) * 2)
    for stratum in range(3):
        part = z[h.to_numpy() == stratum].to_numpy()
        n = len(part)
        f = n / size[h == stratum].iloc[0] if corrected else 0.0
        out += (1 - f) * n * np.cov(part, rowvar=False, ddof=1).reshape(out.shape)
    return out


QUESTIONS: dict[str, tuple[Any, Any, Any]] = {
    "a perturbed number": (pr.total("level"), lambda _, r: r[["first"]], lambda _, r: r[["second"]]),
    "counts": (
        pr.counts("edu"),
        lambda _, r: r[[f"is_{e}" for e in CODES]],
        lambda _, r: r[[f"is_{e}" for e in CODES]],
    ),
    "a perturbed domain": (
        pr.total("y", by="edu"),
        lambda f, r: r[[f"is_{e}" for e in CODES]].mul(f["y"], axis=0),
        lambda f, r: r[[f"is_{e}" for e in CODES]].mul(f["y"] ** 2, axis=0),
    ),
    "an unperturbed domain": (
        pr.total("level", by="region"),
        lambda f, r: pd.DataFrame({k: r["first"] * (f["region"] == k) for k in ("north", "south")}),
        lambda f, r: pd.DataFrame({k: r["second"] * (f["region"] == k) for k in ("north", "south")}),
    ),
}


def pieces(name: str, frame: pd.DataFrame) -> tuple[Any, np.ndarray, np.ndarray]:
    """The question, its reverted terms (n, d), and Σ w² (φφᵀ − (UUᵀ)*): components of U never overlap."""
    what, first, second = QUESTIONS[name]
    terms, squares = (part(frame, reverted(frame)).to_numpy() for part in (first, second))
    w2 = frame["w"].to_numpy() ** 2
    return what, terms, (terms * w2[:, None]).T @ terms - np.diag(w2 @ squares)


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_total_is_the_weighted_sum_of_reverted_values(released: pd.DataFrame, name: str) -> None:
    what, terms, privacy = pieces(name, released)
    result = pr.fit(what, released, MECHANISM, design=pr.SurveyDesign(**DESIGN))
    np.testing.assert_allclose(result.estimate, released["w"] @ terms, rtol=1e-10)
    np.testing.assert_allclose(result.covariance, by_hand(released, terms), rtol=1e-9, atol=1e-9)
    assert result.privacy is not None
    np.testing.assert_allclose(result.privacy, privacy, rtol=1e-9, atol=1e-9)
    assert result.df == 14 - 3


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("inference", [None, pr.Jackknife()])
def test_around_the_finite_population_the_randomisation_is_spared(
    released: pd.DataFrame, name: str, inference: Any
) -> None:
    what, terms, _ = pieces(name, released)
    design = pr.SurveyDesign(**DESIGN, fpc="N", target="finite")
    result = pr.fit(what, released, MECHANISM, design=design, inference=inference)
    fraction = released.groupby("h")["c"].nunique()[released["h"]].to_numpy() / released["N"].to_numpy()
    kept = pieces(name, released.assign(w=released["w"] * np.sqrt(fraction)))[2]
    expected = by_hand(released, terms, corrected=True) + kept
    np.testing.assert_allclose(result.covariance, expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())


def test_the_finite_jackknife_of_a_mean_spares_the_randomisation_too(released: pd.DataFrame) -> None:
    """With everybody sampled no deletion shows anything, and what is left is the noise."""
    census = released.groupby("h")["c"].nunique()[released["h"]].to_numpy()
    design = pr.SurveyDesign(**DESIGN, fpc=census, target="finite")
    result = pr.fit("y ~ edu", released, MECHANISM, design=design, inference=pr.Jackknife())
    assert result.privacy is not None
    np.testing.assert_allclose(result.covariance, result.privacy, rtol=1e-9)


@pytest.mark.parametrize("name", QUESTIONS)
def test_around_the_file_a_total_has_the_randomisations_error(released: pd.DataFrame, name: str) -> None:
    what, _, privacy = pieces(name, released)
    result = pr.fit(what, released, MECHANISM, design=pr.SurveyDesign(**DESIGN, target="file"))
    np.testing.assert_allclose(result.covariance, privacy, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", QUESTIONS)
def test_replicate_weights_take_the_place_of_the_weights(released: pd.DataFrame, name: str) -> None:
    what, terms, _ = pieces(name, released)
    replicates = np.random.default_rng(7).uniform(0, 6, (9, len(released)))
    scales = np.linspace(0.1, 0.9, 9)
    design = pr.SurveyDesign(weights="w", replicate_weights=list(replicates), replicate_scale=list(scales))
    result = pr.fit(what, released, MECHANISM, design=design)
    gaps = replicates @ terms - released["w"].to_numpy() @ terms
    np.testing.assert_allclose(result.covariance, (gaps * scales[:, None]).T @ gaps, rtol=1e-9)
    assert result.df == 8


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("options", [{}, {"weights": "w"}, {"weights": "w", "clusters": "c"}])
def test_without_a_design_the_number_of_units_is_fixed(released: pd.DataFrame, name: str, options: Any) -> None:
    """One stratum of records, or of clusters; the sandwich leaves n/(n − 1) out, as it does elsewhere."""
    what, terms, _ = pieces(name, released)
    z = terms * (released["w"].to_numpy()[:, None] if "weights" in options else 1.0)
    if "clusters" in options:
        z = pd.DataFrame(z).groupby(released["c"].to_numpy()).sum().to_numpy()
    expected = len(z) * np.cov(z, rowvar=False, ddof=0).reshape((terms.shape[1],) * 2)
    result = pr.fit(what, released, MECHANISM, **options)
    np.testing.assert_allclose(result.covariance, expected, rtol=1e-8, atol=1e-9 * expected.max())
    deleted = pr.fit(what, released, MECHANISM, inference=pr.Jackknife(), **options).covariance
    np.testing.assert_allclose(deleted, expected * len(z) / (len(z) - 1), rtol=1e-8, atol=1e-9 * expected.max())
    resampling = pr.Resampling(draws=6000, scale="sd", seed=2)
    drawn = pr.fit(what, released, MECHANISM, inference=resampling, **options).standard_errors
    # Multipliers that sum to the number of units have 1/(units + 1) less variance than one a unit.
    np.testing.assert_allclose(drawn**2 * (len(z) + 1) / len(z), np.diag(expected), rtol=0.1)


def test_a_row_with_a_frequency_is_deleted_record_by_record(released: pd.DataFrame) -> None:
    counted = released[["edu", "region"]].value_counts().rename("f").reset_index()
    for what in (pr.counts("edu"), pr.proportions("edu", by="region")):
        one, other = (
            pr.fit(what, frame, MECHANISM, inference=pr.Jackknife(), **options)
            for frame, options in ((counted.assign(level=0.0), {"frequencies": "f"}), (released, {}))
        )
        assert one.df == other.df == len(released) - 1
        np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-8, atol=1e-9)


def test_a_known_size_is_size_times_the_mean(released: pd.DataFrame) -> None:
    design = pr.SurveyDesign(**DESIGN)
    total = pr.fit(pr.total("level", size=500), released, MECHANISM, design=design)
    mean = pr.fit(pr.mean("level"), released, MECHANISM, design=design)
    np.testing.assert_allclose(total.covariance, 500**2 * mean.covariance, rtol=1e-9)
    assert total.facts["Population size"] == "500"


def test_units_without_a_complete_record_were_sampled_too(released: pd.DataFrame) -> None:
    gaps = released.assign(y=released["y"].where(released["c"] != 3))
    design = pr.SurveyDesign(**DESIGN)
    result = pr.fit(pr.total("y"), gaps, MECHANISM, design=design, missing="drop")
    zeros = gaps["y"].fillna(0.0).to_numpy()[:, None]
    np.testing.assert_allclose(result.covariance, by_hand(released, zeros), rtol=1e-9)
    assert result.df == 13 - 3
    same = pr.fit(pr.total("y"), gaps, MECHANISM, design=design, missing="drop", inference=pr.Jackknife())
    np.testing.assert_allclose(same.covariance, result.covariance, rtol=1e-9)


def test_the_totals_of_two_parts_add_up_for_sums_too(released: pd.DataFrame) -> None:
    """Parts that share clusters: the variance is formed once, around the mean of all."""

    def sample(rows: slice) -> LocalEngine:
        part = released.iloc[rows]
        columns = {"y": part["y"].to_numpy(), "region": part["region"].to_numpy()}
        function = pr.total("y", by="region").prepare(read(released), Schema())
        clusters = released["c"].to_numpy()[rows]
        equation = function.equation(Records.clean(len(part), columns))
        return LocalEngine(equation, Sampling(len(part), part["w"].to_numpy(), clusters=clusters))

    beta, half = np.zeros(2), len(released) // 2 + 1
    whole = sample(slice(None)).totals(beta)
    parts = [sample(slice(half)).totals(beta), sample(slice(half, None)).totals(beta)]
    assert whole.clusters is not None
    first, second = (replace(part, clusters=_padded(part.clusters, len(whole.clusters))) for part in parts)
    added = first + second
    np.testing.assert_allclose(added.meat, whole.meat, rtol=1e-12)
    np.testing.assert_allclose(added.score, whole.score, rtol=1e-12)


def _padded(sums: np.ndarray | None, groups: int) -> np.ndarray:
    """Sums by cluster, with zeros for the clusters that a part does not reach."""
    assert sums is not None
    return np.vstack([sums, np.zeros((groups - len(sums), sums.shape[1]))])
