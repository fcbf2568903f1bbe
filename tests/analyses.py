"""The analyses whose numbers `tests/answers.py` keeps: made-up data, mechanisms, a small function each.

Everything is asked through public names and the command line, so that the package may be rebuilt inside without
touching this file. Everything is seeded. An analysis returns whatever it finds; `answers.py` writes it down.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import runpy
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import pramana as pr

ANALYSES: dict[str, Callable[[], Any]] = {}

EDU = ["low", "mid", "high"]
N = 1000
KEY = bytes(range(7, 39))


def analysis(name: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register a function under a name."""

    def register(function: Callable[[], Any]) -> Callable[[], Any]:
        if name in ANALYSES:
            raise ValueError(f"two analyses are called {name!r}")
        ANALYSES[name] = function
        return function

    return register


# --- Data -------------------------------------------------------------------------------------------------------------


@cache
def survey() -> pd.DataFrame:
    """True records of people: numbers, classes, counts, an instrument, and how they were sampled."""
    rng = np.random.default_rng(20251115)
    age = rng.normal(size=N)
    level = np.digitize(0.4 * age + rng.logistic(size=N), [0.0, 1.5])
    smokes = rng.random(N) < np.where(level == 2, 0.25, 0.45)
    ill = rng.random(N) < np.where(smokes, 0.45, 0.25)
    trained = rng.random(N) < 1 / (1 + np.exp(-0.5 * age))
    rooms, near, talent = rng.integers(1, 5, N), rng.integers(0, 2, N), rng.normal(size=N)
    school = 10 + 2 * near + talent + rng.normal(size=N)
    rate = np.exp(0.3 + 0.2 * age + 0.3 * level)
    house = np.arange(N) // 5
    frame = pd.DataFrame(
        {
            "person": np.arange(1, N + 1),
            "age": age,
            "edu": np.array(EDU)[level],
            "smokes": np.where(smokes, "yes", "no"),
            "ill": ill.astype(int),
            "case": np.where(ill, "yes", "no"),
            "trained": trained.astype(int),
            "rooms": rooms,
            "hours": np.clip(np.rint(20 + 6 * age + 5 * rng.normal(size=N)), 0, 39).astype(int),
            "near": near,
            "school": school,
            "wage": 1 + 0.5 * school + talent + rng.normal(size=N),
            "region": rng.choice(["north", "south"], N),
            "site": rng.choice(["a", "b", "c"], N),
            "income": np.exp(0.3 * level + 0.2 * trained + 0.4 * rng.normal(size=N)),
            "score": 1 + 0.5 * age + 0.7 * level + 0.2 * rooms + 0.5 * ill + rng.normal(size=N),
            "employed": np.where(rng.random(N) < 1 / (1 + np.exp(0.3 - 0.5 * age - 0.6 * level)), "yes", "no"),
            "rare": (rng.random(N) < np.exp(-1.6 + 0.3 * level - 0.1 * np.abs(age))).astype(int),
            "visits": rng.poisson(rate),
            "days": rng.poisson(rate * rng.gamma(2.0, 0.5, N)),
            "cost": rng.gamma(2.0, rate / 2),
            "wait": rng.wald(rate, 3 * rate),
            "time": rng.uniform(0.5, 2.0, N),
            "w": rng.uniform(1, 4, N),
            "stratum": house // 50,
            "house": house,
            "houses": 300,
            "f": rng.integers(1, 4, N),
        }
    )
    frame["score"] += rng.normal(0, 0.5, N // 5)[house]
    return frame


def _response(levels: list[Any], keep: float, kind: Any = None) -> pr.TransitionMatrix:
    return pr.TransitionMatrix.randomized_response(levels, keep, kind=kind)


@cache
def channels() -> dict[Any, Any]:
    """One channel a column, and channels for several columns or strata."""
    yes = {"levels": ("no", "yes")}
    return {
        "edu": _response(EDU, 0.85, "ordinal"),
        "smokes": pr.TransitionMatrix.binary(0.9, 0.85, **yes),
        "ill": pr.TransitionMatrix.binary(0.9, 0.92),
        "case": pr.TransitionMatrix.binary(0.93, 0.9, **yes),
        "trained": pr.TransitionMatrix.binary(0.9, 0.9),
        "near": pr.TransitionMatrix.binary(0.88, 0.9),
        "employed": _response(["no", "yes"], 0.9),
        "rooms": _response([1, 2, 3, 4], 0.8, "numeric"),
        "hours": pr.TransitionMatrix.invariant(list(range(40)), np.linspace(1, 2, 40) / 60, 0.7, kind="numeric"),
        "site": pr.TransitionMatrix.from_epsilon(["a", "b", "c"], 2.0),
        "rare": pr.TransitionMatrix.binary(0.95, 0.97),
        "days": _response(list(range(40)), 0.98, "numeric"),
        ("edu", "ill"): _response([(e, i) for e in EDU for i in (0, 1)], 0.8),
        "ill by region": pr.Stratified(
            "region", {"north": pr.TransitionMatrix.binary(0.95, 0.95), "south": pr.TransitionMatrix.binary(0.78, 0.75)}
        ),
    }


@cache
def mechanism(names: str) -> pr.Mechanism:
    """Channels by the names of their columns: "edu, smokes", "edu × ill" for the joint one, "ill by region"."""
    chosen = {}
    for name in names.split(", "):
        key: Any = tuple(name.split(" × ")) if "×" in name else name
        chosen[name.split(" by ")[0] if " by " in name else key] = channels()[key]
    return pr.Mechanism(chosen)


@cache
def released(names: str) -> pd.DataFrame:
    """The survey after its randomisation, always with the same draws."""
    return mechanism(names).perturb(survey(), seed=11) if names else survey()


# --- Fits: a name, what is asked, the perturbed columns, options ------------------------------------------------------

DRAWS = pr.Resampling(draws=60, seed=5)
POISSON_DRAWS = replace(DRAWS, weights="poisson", scale="sd")
TWO_POINT_DRAWS = replace(DRAWS, weights="two-point", interval="wald")
PLAIN = pr.SurveyDesign(weights="w", strata="stratum", clusters="house")
POPULATION = replace(PLAIN, fpc="houses")
LOGIT = {"family": "binomial"}
PROBIT = {"family": "binomial", "link": "probit"}
POISSON = {"family": "poisson"}
LIKELY = {"family": "binomial", "method": "likelihood"}

FITS: list[tuple[str, Any, str, dict[str, Any]]] = [
    # means, totals, shares, counts
    ("mean", pr.mean("income"), "edu", {}),
    ("mean of a perturbed number", pr.mean("rooms"), "rooms", {}),
    ("mean by", pr.mean("income", by="edu"), "edu", {}),
    ("mean by two", pr.mean("income", by=["edu", "region"]), "edu", {}),
    ("mean of perturbed by perturbed", pr.mean("ill", by="edu"), "edu, ill", {}),
    ("mean as text", "mean(income, by=edu)", "edu", {}),
    ("total", pr.total("income", by="edu"), "edu", {}),
    ("total of known size", pr.total("score", size=50_000), "edu", {"weights": "w"}),
    ("proportions", pr.proportions("edu"), "edu", {}),
    ("proportions by", pr.proportions("smokes", by="edu"), "edu, smokes", {}),
    ("proportions of many levels", pr.proportions("hours"), "hours", {}),
    ("counts", pr.counts("edu"), "edu", {}),
    ("counts by, weighted", pr.counts("edu", by="region"), "edu", {"weights": "w"}),
    ("counts of known size", pr.counts("edu", size=10_000), "edu", {"weights": "w"}),
    ("crosstab", pr.crosstab("edu", "smokes"), "edu, smokes", {}),
    ("crosstab of three", pr.crosstab("smokes", "case", "region"), "smokes, case", {}),
    ("crosstab counts", pr.crosstab("edu", "case", counts=True), "edu", {}),
    ("crosstab, joint channel", pr.crosstab("edu", "ill"), "edu × ill", {}),
    # ratios
    ("odds ratio", pr.odds_ratio("smokes", "case"), "smokes", {}),
    ("odds ratio over strata", pr.odds_ratio("smokes", "case", strata="site"), "smokes, site", {}),
    ("odds ratio as text", "odds_ratio(smokes, case, strata=region)", "smokes, case", {}),
    ("risk ratio", pr.risk_ratio("smokes", "case"), "smokes, case", {}),
    ("risk ratio over strata", pr.risk_ratio("smokes", "case", strata="edu"), "smokes, edu", {}),
    ("risk difference", pr.risk_difference("smokes", "case"), "smokes", {}),
    ("risk difference over strata", pr.risk_difference("smokes", "case", strata="edu"), "smokes, edu", {}),
    ("odds ratio, resampled", pr.odds_ratio("smokes", "case"), "smokes", {"inference": DRAWS}),
    # correlations
    ("pearson", pr.correlation("rooms", "score"), "rooms", {}),
    ("pearson of two perturbed", pr.correlation("rooms", "ill"), "rooms, ill", {}),
    ("cramer", pr.correlation("edu", "smokes", "cramer"), "edu, smokes", {}),
    ("cramer corrected", pr.correlation("edu", "smokes", "cramer", corrected=True), "edu, smokes", {}),
    ("cramer near zero", pr.correlation("edu", "region", "cramer"), "edu", {}),
    ("kendall", pr.correlation("edu", "rooms", "kendall"), "edu, rooms", {}),
    # quantiles and inequality
    ("median", pr.median("income"), "edu", {"inference": DRAWS}),
    ("median by", pr.median("income", by="edu"), "edu", {"inference": DRAWS}),
    ("median by, own bandwidth", pr.median("income", by="edu", bandwidth=0.2), "edu", {"inference": DRAWS}),
    ("quantile by, weighted", pr.quantile("income", 0.9, by="smokes"), "smokes", {"inference": DRAWS, "weights": "w"}),
    ("quantile of levels", pr.quantile("rooms", 0.6), "rooms", {"inference": DRAWS}),
    ("extreme quantile", pr.quantile("income", 0.998, by="edu"), "edu", {"inference": DRAWS}),
    ("median, woodruff", pr.median("income", by="edu"), "edu", {}),
    ("quantile, woodruff, clusters", pr.quantile("income", 0.2), "edu", {"weights": "w", "clusters": "house"}),
    ("quantile regression", pr.quantile_regression("income ~ age + edu", 0.75), "edu", {}),
    ("median regression", pr.quantile_regression("score ~ rooms", bandwidth=0.8), "rooms", {"weights": "w"}),
    ("gini", pr.gini("income"), "edu", {}),
    ("gini by", pr.gini("income", by="edu"), "edu", {"weights": "w"}),
    ("poverty rate", pr.poverty_rate("income"), "edu", {"inference": DRAWS}),
    ("poverty rate by", pr.poverty_rate("income", 0.7, by="edu", bandwidth=0.3), "edu", {"inference": DRAWS}),
    # instruments and effects
    ("instruments", pr.two_stage_least_squares("wage ~ school + age | near + age"), "near", {}),
    ("instruments, overidentified", pr.two_stage_least_squares("wage ~ school | near + edu"), "near, edu", {}),
    ("weak instruments", pr.two_stage_least_squares("wage ~ school | ill"), "ill", {}),
    ("effect ipw", pr.average_treatment_effect("income", "trained", ["age", "edu"], "ipw"), "trained, edu", {}),
    ("effect aipw", pr.average_treatment_effect("income", "trained", ["age", "edu"]), "trained, edu", {}),
    (
        "effect aipw, binary outcome",
        pr.average_treatment_effect("ill", "trained", ["age"], "aipw", family="binomial"),
        "trained, ill",
        {},
    ),
    ("margins of one", pr.margins("employed ~ age + edu", "edu", "binomial"), "edu", {}),
    ("margins of all", pr.margins("visits ~ age * edu", None, "poisson"), "edu", {"clusters": "house"}),
    # responses with classes
    ("multinomial", pr.multinomial("edu ~ age"), "edu", {}),
    ("multinomial, perturbed covariate", pr.multinomial("edu ~ smokes"), "edu, smokes", {}),
    ("multinomial forward", pr.multinomial("edu ~ age"), "edu", {"method": "forward"}),
    ("multinomial backward", pr.multinomial("edu ~ age"), "edu", {"method": "backward"}),
    ("multinomial naive", pr.multinomial("edu ~ age"), "edu", {"method": "naive"}),
    ("ordinal", pr.ordinal("edu ~ age + region"), "edu", {}),
    ("ordinal, perturbed covariate", pr.ordinal("rooms ~ age + edu"), "edu", {}),
    # families and links
    ("gaussian", "score ~ age + edu", "edu", {}),
    ("gaussian without noise", "score ~ age + edu", "", {}),
    ("gaussian naive", "score ~ age + edu", "edu", {"method": "naive"}),
    ("gaussian without intercept", "score ~ edu - 1", "edu", {}),
    ("logit", "employed ~ age + edu", "edu", LOGIT),
    ("logit, perturbed response", "employed ~ age", "employed", LOGIT),
    ("logit, both perturbed", "employed ~ age + edu", "employed, edu", LOGIT),
    ("probit", "employed ~ age + edu", "edu", PROBIT),
    ("probit, perturbed response", "employed ~ age", "employed", PROBIT),
    ("cloglog", "employed ~ age + edu", "edu", LOGIT | {"link": "cloglog"}),
    ("log binomial", "rare ~ edu", "edu", LOGIT | {"link": "log"}),
    ("log binomial, perturbed response", "rare ~ region", "rare", LOGIT | {"link": "log"}),
    ("poisson", "visits ~ age + edu", "edu", POISSON),
    ("gamma", "cost ~ age + edu", "edu", {"family": "gamma"}),
    ("inverse gaussian", "wait ~ age + edu", "edu", {"family": "inverse-gaussian"}),
    ("negative binomial", "days ~ age + edu", "edu", {"family": "negative-binomial"}),
    ("negative binomial, perturbed response", "days ~ age", "days", {"family": "negative-binomial"}),
    ("negative binomial, known", "days ~ age + edu", "edu", {"family": pr.negative_binomial(0.5)}),
    ("glm object", pr.glm("visits ~ edu", "poisson"), "edu", {}),
    # several perturbed columns
    ("gaussian factored", "score ~ age + edu + smokes + rooms + ill", "edu, smokes, rooms, ill", {}),
    ("gaussian factored, interaction", "score ~ edu * smokes + rooms", "edu, smokes, rooms", {"weights": "w"}),
    ("poisson factored", "visits ~ age + edu + smokes + rooms", "edu, smokes, rooms", POISSON),
    ("gamma factored", "cost ~ age + edu + smokes", "edu, smokes", {"family": "gamma", "inference": DRAWS}),
    ("binomial expanded", "employed ~ age + edu + smokes + ill", "edu, smokes, ill", LOGIT),
    ("probit expanded, resampled", "employed ~ age + edu + ill", "edu, ill", PROBIT | {"inference": DRAWS}),
    ("response and covariates", "hours ~ age + edu + smokes", "hours, edu, smokes", {}),
    # terms
    ("clean times perturbed", "score ~ age * edu + C(region):edu", "edu", {}),
    ("clean times perturbed, poisson", "visits ~ age * edu", "edu", POISSON),
    ("offset", "visits ~ edu + offset(np.log(time))", "edu", POISSON),
    ("offset, gaussian", "score ~ edu + offset(0.5 * age)", "edu", {}),
    ("b-spline", "score ~ bs(age, df=5) + edu", "edu", {}),
    ("natural spline", "employed ~ cr(age, df=4, constraints='center') + edu", "edu", LOGIT),
    ("poly", "score ~ poly(age, 3) + edu", "edu", {}),
    ("center and scale", "score ~ center(age) + scale(time) * edu", "edu", {}),
    ("contrasts sum", "score ~ C(edu, contr.sum) + age", "edu", {}),
    ("contrasts treatment", "score ~ C(edu, contr.treatment('mid')) + C(site, contr.helmert)", "edu", {}),
    ("numeric levels", "score ~ rooms + I(rooms ** 2)", "rooms", {}),
    ("numeric levels as classes", "score ~ C(rooms) + age", "rooms", {}),
    ("transformed response", "np.log(income) ~ age + edu", "edu", {}),
    # channels
    ("stratified channel", "score ~ ill + edu", "ill by region", {}),
    ("stratified channel, logit response", "ill ~ age + region", "ill by region", LOGIT),
    ("stratified and plain", "score ~ ill + edu", "ill by region, edu", {"inference": pr.Sandwich("HC1")}),
    ("joint channel", "score ~ edu + ill", "edu × ill", {}),
    ("joint channel, logit", "ill ~ age + edu", "edu × ill", LOGIT),
    ("many levels, response", "hours ~ age + region", "hours", {}),
    ("many levels, poisson response", "hours ~ age", "hours", POISSON),
    ("many levels, covariate", "score ~ hours", "hours", {}),
    # methods
    ("model 1, response", "ill ~ age", "ill", LOGIT | {"method": "model1", "inference": DRAWS}),
    ("model 2, response", "ill ~ age", "ill", LOGIT | {"method": "model2", "inference": DRAWS}),
    ("model 1, covariate", "score ~ age + ill", "ill", {"method": pr.ModelDependent(), "inference": DRAWS}),
    ("model probit", "score ~ age + ill", "ill", {"method": pr.ModelDependent(link="probit"), "inference": DRAWS}),
    ("model clipped", "ill ~ age", "ill", LOGIT | {"method": pr.ModelDependent(clip=True), "inference": DRAWS}),
    ("forward", "employed ~ age", "employed", LOGIT | {"method": "forward"}),
    ("backward", "employed ~ age", "employed", LOGIT | {"method": pr.BackwardCorrection()}),
    ("likelihood, response", "employed ~ age", "employed", LIKELY),
    ("likelihood, covariate", "employed ~ edu + region", "edu", LIKELY),
    ("likelihood, both", "employed ~ age + edu", "employed, edu", LIKELY),
    ("likelihood, terms", "score ~ age + edu", "edu", {"method": pr.Likelihood(covariate_model="age + region")}),
    ("likelihood, saturated", "visits ~ edu + region", "edu", POISSON | {"method": pr.Likelihood("saturated")}),
    ("likelihood, gamma", "cost ~ age + edu", "edu", {"family": "gamma", "method": "likelihood"}),
    ("likelihood, inverse gaussian", "wait ~ edu", "edu", {"family": "inverse-gaussian", "method": "likelihood"}),
    ("likelihood, dispersion", "days ~ edu", "edu", {"family": pr.negative_binomial(0.5), "method": "likelihood"}),
    ("likelihood, two covariates", "score ~ edu + smokes", "edu, smokes", {"method": "likelihood"}),
    ("likelihood, robust", "employed ~ age", "employed", LIKELY | {"inference": "sandwich"}),
    ("likelihood, weighted", "employed ~ age", "employed", LIKELY | {"weights": "w"}),
    ("likelihood, clustered", "score ~ edu", "edu", {"method": "likelihood", "clusters": "house"}),
    ("likelihood, design", "employed ~ age", "employed", LIKELY | {"design": PLAIN}),
    ("likelihood, stratum ignored", "score ~ ill", "ill by region", {"method": pr.Likelihood(covariate_model="age")}),
    # inference
    ("sandwich HC1", "score ~ age + edu", "edu", {"inference": pr.Sandwich("HC1")}),
    ("score intervals", "employed ~ edu", "edu", LOGIT | {"inference": pr.Sandwich(interval="score")}),
    ("score intervals at 90 %", "score ~ edu", "edu", {"inference": pr.Sandwich("HC1", interval="score", level=0.9)}),
    ("resampling", "score ~ age + edu", "edu", {"inference": DRAWS}),
    ("resampling poisson, sd", "employed ~ edu", "edu", LOGIT | {"inference": POISSON_DRAWS}),
    ("resampling two-point, wald", "visits ~ edu", "edu", POISSON | {"inference": TWO_POINT_DRAWS}),
    ("resampling, clusters", "score ~ edu", "edu", {"clusters": "house", "inference": DRAWS}),
    ("resampling, frequencies", "score ~ edu", "edu", {"frequencies": "f", "inference": DRAWS}),
    ("resampling, threads", "employed ~ edu", "edu", LOGIT | {"inference": replace(DRAWS, threads=2)}),
    ("resampling, total", pr.total("income", by="edu"), "edu", {"weights": "w", "inference": DRAWS}),
    ("jackknife, clusters", "score ~ edu", "edu", {"clusters": "house", "inference": pr.Jackknife()}),
    ("jackknife", pr.mean("income", by="edu"), "edu", {"inference": "jackknife"}),
    # weights, frequencies, clusters, designs
    ("weights", "score ~ age + edu", "edu", {"weights": "w"}),
    ("frequencies", "employed ~ age + edu", "edu", LOGIT | {"frequencies": "f"}),
    ("clusters", "score ~ age + edu", "edu", {"clusters": "house", "inference": pr.Sandwich("HC1")}),
    ("weights and clusters", "visits ~ edu", "edu", POISSON | {"weights": "w", "clusters": "house"}),
    ("few clusters", "score ~ edu", "edu", {"clusters": "stratum"}),
    ("design", "score ~ edu", "edu", {"design": PLAIN}),
    ("design, finite", "score ~ edu", "edu", {"design": replace(POPULATION, target="finite")}),
    ("design, file", "score ~ edu", "edu", {"design": replace(POPULATION, target="file")}),
    ("design, nothing random", "score ~ age", "edu", {"design": pr.SurveyDesign(target="file")}),
    ("design, jackknife", "score ~ edu", "edu", {"design": PLAIN, "inference": pr.Jackknife()}),
    ("design, resampling", "score ~ edu", "edu", {"design": PLAIN, "inference": DRAWS}),
    ("design, total by", pr.total("income", by="edu"), "edu", {"design": PLAIN}),
    ("design, total finite", pr.total("income"), "edu", {"design": replace(POPULATION, target="finite")}),
    ("design, counts", pr.counts("edu"), "edu", {"design": PLAIN}),
    ("design, logit", "employed ~ age + edu", "edu", LOGIT | {"design": PLAIN}),
    ("design, ratio", pr.odds_ratio("smokes", "case"), "smokes", {"design": PLAIN}),
    ("given start", "employed ~ edu", "edu", LOGIT | {"start": [0.1, 0.2, 0.3]}),
    ("far start", "employed ~ ill + age", "ill", LOGIT | {"start": [0, 30, 0]}),
]  # fmt: skip


def _fit(what: Any, names: str, options: Mapping[str, Any]) -> pr.Result:
    return pr.fit(what, released(names), mechanism(names) if names else None, **options)


for _name, *_asked in FITS:
    analysis(_name)(partial(_fit, *_asked))


# --- Fits that need more than a row -----------------------------------------------------------------------------------


@analysis("replicate weights")
def replicate_weights() -> pr.Result:
    """A jackknife over forty groups of houses, as a publisher would hand it out."""
    data = released("edu").copy()
    for k in range(40):
        inside = data["house"] % 40 == k
        data[f"r{k}"] = np.where(inside, 0.0, data["w"] * 40 / 39)
    design = pr.SurveyDesign(weights="w", replicate_weights=[f"r{k}" for k in range(40)], replicate_scale=39 / 40)
    return pr.fit("score ~ edu", data, mechanism("edu"), design=design)


def _holed() -> pd.DataFrame:
    data = released("edu").copy()
    data.loc[::37, "edu"] = None
    data.loc[5::53, "score"] = np.nan
    return data


@analysis("missing dropped")
def missing_dropped() -> pr.Result:
    return pr.fit("score ~ age + edu", _holed(), mechanism("edu"), missing="drop")


@analysis("missing dropped, design")
def missing_in_design() -> pr.Result:
    return pr.fit(pr.total("score", by="edu"), _holed(), mechanism("edu"), missing="drop", design=PLAIN)


def _groups(beta: Any, edu: Any, income: Any) -> Any:
    """Mean log income at both ends of education, and the ratio of their geometric means."""
    ends = [(edu == e) * (np.log(income) - beta[k]) for k, e in enumerate(("low", "high"))]
    return np.column_stack([*ends, np.full(len(income), beta[2] - np.exp(beta[1] - beta[0]))])


@analysis("callable")
def smooth_callable() -> pr.Result:
    return pr.fit(pr.from_callable(_groups, ["low", "high", "ratio"]), released("edu"), mechanism("edu"))


@analysis("callable, naive and weighted")
def naive_callable() -> pr.Result:
    what = pr.from_callable(_groups, ["low", "high", "ratio"])
    return pr.fit(what, released("edu"), mechanism("edu"), method="naive", weights="w")


@analysis("callable, resampled")
def resampled_callable() -> pr.Result:
    what = pr.from_callable(_groups, ["low", "high", "ratio"], start=[0.1, 0.5, 1.5])
    return pr.fit(what, released("edu"), mechanism("edu"), inference=DRAWS)


@analysis("callable with slope")
def callable_with_slope() -> pr.Result:
    def moments(beta: Any, rooms: Any, score: Any) -> Any:
        rest = score - beta[0] - beta[1] * rooms
        return np.column_stack([rest, rest * rooms])

    def slope(beta: Any, rooms: Any, score: Any) -> Any:
        x = np.column_stack([np.ones(len(score)), rooms])
        return -x[:, :, None] * x[:, None, :]

    what = pr.from_callable(moments, ["constant", "rooms"], slope=slope)
    return pr.fit(what, released("rooms"), mechanism("rooms"))


@analysis("callable, jax")
def jax_callable() -> pr.Result:
    import jax.numpy as jnp

    def logistic(beta: Any, ill: Any, age: Any) -> Any:
        rest = ill - 1 / (1 + jnp.exp(-beta[0] - beta[1] * age))
        return jnp.column_stack([rest, rest * age])

    what = pr.from_callable(logistic, ["constant", "age"], derivative="jax")
    return pr.fit(what, released("ill"), mechanism("ill"))


@analysis("callable, step")
def step_callable() -> pr.Result:
    def median(beta: Any, edu: Any, income: Any) -> Any:
        return ((edu == "high") * ((income <= beta[0]) - 0.5))[:, None]

    what = pr.from_callable(median, ["median"], smooth=False, start=[1.9])
    return pr.fit(what, released("edu"), mechanism("edu"), inference=replace(DRAWS, draws=30))


@analysis("kinds of frames")
def kinds_of_frames() -> dict[str, Any]:
    """The same fit from a dictionary, polars and Arrow."""
    import polars

    data = released("edu")[["score", "age", "edu"]]
    frames = {
        "dict": {name: data[name].to_numpy() for name in data},
        "polars": polars.DataFrame({name: data[name].tolist() for name in data}),
        "arrow": pa.table({name: data[name].tolist() for name in data}),
    }
    return {kind: pr.fit("score ~ age + edu", frame, mechanism("edu")) for kind, frame in frames.items()}


def _few(n: int, names: str) -> pd.DataFrame:
    return released(names).iloc[:n]


@analysis("strong noise")
def strong_noise() -> dict[str, Any]:
    """Weak identification: what is estimated, and what is said about it."""
    noisy = pr.Mechanism({"employed": _response(["no", "yes"], 0.58), "edu": _response(EDU, 0.45, "ordinal")})
    data = noisy.perturb(survey(), seed=4)
    kinds: dict[str, Any] = {"sandwich": pr.Sandwich(interval="score"), "resampling": replace(DRAWS, draws=100)}
    found: dict[str, Any] = {
        k: pr.fit("employed ~ 1", data, noisy, family="binomial", inference=v) for k, v in kinds.items()
    }
    found["gaussian"] = pr.fit("score ~ age + edu", data, noisy)
    found["domains"] = pr.fit(pr.median("income", by="edu"), data, noisy, inference=DRAWS)
    return found


@analysis("negative cells")
def negative_cells() -> dict[str, Any]:
    """An empty cell: reverted, by maximum likelihood, projected."""
    table = {"smokes": ["no", "no", "yes", "yes"], "ill": ["no", "yes", "no", "yes"], "f": [70, 3, 25, 0]}
    noise = pr.Mechanism({"smokes": channels()["smokes"]})
    plain = pr.fit(pr.crosstab("smokes", "ill"), table, noise, frequencies="f")
    counts = pr.fit(pr.crosstab("smokes", "ill", counts=True), table, noise, frequencies="f")
    return {
        "reverted": plain,
        "em": pr.table_em(["smokes", "ill"], table, noise, frequencies="f"),
        "simplex": pr.to_simplex(plain),
        "simplex of counts": pr.to_simplex(counts),
    }


@analysis("empty arm")
def empty_arm() -> pr.Result:
    """Two strata, of which one has no exposed records."""
    cells = pd.DataFrame(
        [(s, e, c) for s in (0, 1) for e in ("no", "yes") for c in ("no", "yes")], columns=["s", "exposed", "case"]
    ).assign(f=[90, 30, 40, 35, 30, 50, 0, 0])
    return pr.fit(pr.risk_difference("exposed", "case", strata="s"), cells, None, frequencies="f")


@analysis("not identified")
def not_identified() -> dict[str, Any]:
    """Fewer released ones than the noise alone makes: the reverted variance is negative."""
    g = np.repeat([0, 1], [88, 12])
    data, noise = {"g": g, "y": g + np.sin(np.arange(100.0))}, pr.Mechanism({"g": pr.TransitionMatrix.binary(0.6, 0.6)})
    return {m: pr.fit("y ~ g", data, noise, method=m) for m in ("reversion", "likelihood")}


@analysis("extreme propensity")
def extreme_propensity() -> pr.Result:
    """Older people are nearly always trained."""
    trained = np.random.default_rng(6).random(N) < 1 / (1 + np.exp(-3 * survey()["age"]))
    what = pr.average_treatment_effect("income", "trained", ["age", "edu"], "ipw")
    return pr.fit(what, released("edu").assign(trained=trained.astype(int)), mechanism("edu"))


@analysis("table em")
def table_em() -> dict[str, Any]:
    found = pr.table_em(["edu", "smokes"], released("edu, smokes"), mechanism("edu, smokes"))
    return {"table": found, "independence": found.independence}


@analysis("table em of one column, counted")
def table_em_counted() -> Any:
    return pr.table_em("edu", released("edu"), mechanism("edu"), frequencies="f")


@analysis("simplex of domains")
def simplex_of_domains() -> pr.Result:
    few = _few(60, "edu, smokes")
    return pr.to_simplex(pr.fit(pr.proportions("edu", by="region"), few, mechanism("edu, smokes")))


# --- What results can do ----------------------------------------------------------------------------------------------


@cache
def _logit() -> pr.Result:
    return pr.fit("employed ~ age + edu", released("edu"), mechanism("edu"), family="binomial")


@analysis("result: tests")
def wald_tests() -> dict[str, Any]:
    design = pr.fit("score ~ age + edu", released("edu"), mechanism("edu"), design=PLAIN)
    return {
        "one": _logit().test("edu[T.high] = 2 * edu[T.mid]"),
        "two": _logit().test("edu[T.high] = 0.5, age = edu[T.mid]"),
        "F": design.test("edu[T.high] = 1.5, edu[T.mid] = 0.7"),
    }


@analysis("result: margins")
def result_margins() -> dict[str, Any]:
    poisson = pr.fit("visits ~ age + edu", released("edu"), mechanism("edu"), family="poisson", weights="w")
    counted = pr.fit("days ~ edu", released("edu"), mechanism("edu"), family="negative-binomial")
    return {
        "all": _logit().margins(released("edu")),
        "one, weighted": poisson.margins(released("edu"), "edu"),
        "negative binomial": counted.margins(released("edu")),
    }


@analysis("result: predictions")
def predictions() -> dict[str, Any]:
    new = pd.DataFrame({"age": [-1.0, 0.5, 2.0], "edu": ["low", "high", "mid"]})
    spline = pr.fit("score ~ bs(age, df=4) + edu", released("edu"), mechanism("edu"))
    return {"logit": _logit().predict(new), "spline, 80 %": spline.predict(new.iloc[:2], level=0.8)}


@analysis("result: ratios")
def ratios() -> dict[str, Any]:
    ratio = pr.fit(pr.risk_ratio("smokes", "case", strata="site"), released("smokes"), mechanism("smokes"))
    return {"logit": _logit().to_frame(exponentiate=True, level=0.9), "ratio": ratio.to_frame(exponentiate=True)}


@analysis("result: price of privacy")
def prices() -> dict[str, Any]:
    asked = {"logit": _logit()}
    for name in ("gaussian factored", "clusters", "design, finite", "gini by", "joint channel", "total", "ordinal"):
        asked[name] = ANALYSES[name]()
    return {name: result.price_of_privacy() for name, result in asked.items()}


@analysis("result: one term and text")
def one_term() -> dict[str, Any]:
    result = _logit()
    return {
        "row": vars(result["edu[T.high]"]),
        "text": str(result),
        "latex": result.to_latex(),
        "90 %": result.interval(0.9),
    }


@analysis("compare")
def compared() -> pr.Comparison:
    methods = ["reversion", "naive", "likelihood", "model1"]
    data, noise = released("ill"), mechanism("ill")
    return pr.compare("ill ~ age", data, noise, methods, truth=survey(), family="binomial", inference=DRAWS)


@analysis("compare, sandwich")
def compared_by_sandwich() -> pr.Comparison:
    methods = ["reversion", "likelihood", "forward", "backward"]
    return pr.compare("employed ~ age", released("employed"), mechanism("employed"), methods, family="binomial")


@analysis("specification test")
def specification() -> dict[str, Any]:
    return {
        "response": pr.specification_test(
            "employed ~ age", released("employed"), mechanism("employed"), family="binomial"
        ),
        "covariate": pr.specification_test(
            "visits ~ age + edu", released("edu"), mechanism("edu"), family="poisson", covariate_model="age"
        ),
        "both, weighted": pr.specification_test(
            "ill ~ age + edu", released("ill, edu"), mechanism("ill, edu"), family="binomial", weights="w"
        ),
        "gaussian": pr.specification_test("score ~ age + edu", released("edu"), mechanism("edu"), family="gaussian"),
    }


@analysis("likelihood ratio test")
def ratio_test() -> dict[str, Any]:
    method = pr.Likelihood(covariates=("edu",), covariate_model="age")
    fits = [
        pr.fit(formula, released("edu"), mechanism("edu"), family="binomial", method=method)
        for formula in ("employed ~ age", "employed ~ age + edu")
    ]
    return {"test": pr.lr_test(*fits), "small": fits[0]}


# --- The custodian's side ---------------------------------------------------------------------------------------------


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _drawn(frame: pd.DataFrame, columns: Any) -> dict[str, Any]:
    """Released columns: a digest of their values in order, and how often each occurs."""
    return {
        name: {
            "sha256": _sha(json.dumps(frame[name].tolist()).encode()),
            "counts": {str(k): int(v) for k, v in sorted(frame[name].value_counts().items())[:12]},
        }
        for name in columns
    }


PERTURBED = ("edu", "smokes, ill", "hours", "ill by region", "edu × ill", "site, rooms, days")

for _names in PERTURBED:

    @analysis(f"perturb: {_names}")
    def perturbed(names: str = _names) -> Any:
        """Seeded draws, and draws by key."""
        noise = mechanism(names)
        keyed = noise.perturb(survey(), key=KEY, id="person")
        part = noise.perturb(survey().iloc[::-3], key=KEY, id="person")
        return {k: _drawn(f, noise.columns) for k, f in (("seeded", released(names)), ("keyed", keyed), ("part", part))}


@analysis("perturb: many records")
def perturbed_many() -> Any:
    """More records than a block of draws holds, and levels with a missing value among them."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"z": rng.choice(list("abcdefg"), 300_000), "k": rng.integers(0, 200, 300_000)})
    frame.loc[::1000, "z"] = None
    noise = pr.Mechanism(
        {
            "z": pr.designs.block_design(list("abcdefg"), 1.0),
            "k": pr.TransitionMatrix.from_epsilon(list(range(200)), 5.0, kind="nominal"),
        }
    )
    found = noise.perturb(frame, seed=9)
    return {name: _sha(json.dumps(found[name].fillna("missing").tolist()).encode()) for name in found}


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """An empty folder, entered."""
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        yield Path(name)


@analysis("mechanism files")
def mechanism_files() -> dict[str, Any]:
    """The description of every mechanism as it is saved, and what is read back."""
    with _folder() as folder:
        found = {}
        for names in (*PERTURBED, "edu, smokes, rooms, ill", "case, near"):
            mechanism(names).save(folder / "m.json")
            again = pr.Mechanism.load(folder / "m.json")
            found[names] = {
                "document": _document(folder / "m.json"),
                "same": again == mechanism(names),
                "epsilon": again.epsilon,
                "text": repr(again),
            }
        return found


def _document(path: Path) -> Any:
    """A JSON file, read."""
    return json.loads(path.read_text(encoding="utf-8"))


COLUMNS = ["person", "age", "edu", "smokes", "ill", "region", "income"]


def _release(suffix: str, names: str, **options: Any) -> dict[str, Any]:
    """Release the survey, and say what came out, byte by byte."""
    with _folder() as folder:
        source, target = folder / f"true{suffix}", folder / "public" / f"people{suffix}"
        target.parent.mkdir()
        _write(_in_few_digits(), source)
        made = pr.release(source, target, mechanism(names), **options)
        found = {
            "rows": made.rows,
            "epsilon": made.epsilon,
            "randomness": made.randomness,
            "files": sorted(p.name for p in target.parent.iterdir()),
            "audit": pr.audit(target).to_dict(),
            "audit with original": pr.audit(target, original=source).to_dict(),
            "fit": pr.fit("income ~ age + edu", target, "auto"),
            **_published(target),
        }
        cards = [p.read_bytes() for p in made.cards]
        return found | {"cards": [_sha(c) for c in cards]}


def _in_few_digits() -> pd.DataFrame:
    """Some columns, with so few digits that files of them are the same on every processor."""
    return survey()[COLUMNS].round(6)


def _write(frame: pd.DataFrame, path: Path) -> None:
    if path.suffix == ".parquet":
        pq.write_table(pa.table({name: frame[name].tolist() for name in frame}), path)
    else:
        frame.to_csv(path, index=False)


def _published(target: Path) -> dict[str, Any]:
    """The bytes of a released file and of its description; those of Parquet depend on the library that writes them."""
    package = _document(target.parent / "datapackage.json")
    if target.suffix != ".parquet":
        return {"sha256": _sha(target.read_bytes()), "package": package}
    table = pq.read_table(target)
    for resource in package["resources"]:
        resource["pram"].pop("sha256", None)
    return {
        "bytes": {"with": f"pyarrow {pa.__version__}", "sha256": _sha(target.read_bytes())},
        "values": _sha(json.dumps(table.to_pydict()).encode()),
        "types": [f"{f.name}: {f.type}" for f in table.schema],
        "package": package,
    }


analysis("release: csv")(partial(_release, ".csv", "edu, smokes", seed=21, allow="seed", card=True))
analysis("release: csv, keyed")(partial(_release, ".csv", "edu", key=KEY, id="person"))
analysis("release: csv, strata")(partial(_release, ".csv", "ill by region", seed=22, allow="seed"))
analysis("release: csv, compressed")(partial(_release, ".csv.gz", "edu", seed=21, allow="seed"))
analysis("release: parquet")(partial(_release, ".parquet", "edu, smokes", seed=21, allow="seed"))
analysis("release: parquet, keyed")(partial(_release, ".parquet", "edu × ill", key=KEY, id="person"))


@analysis("audit of a bad release")
def bad_release() -> dict[str, Any]:
    """A column that gives the secret away, a ledger with two draws, and a file changed afterwards."""
    with _folder() as folder:
        true = _in_few_digits().assign(code=survey()["edu"].map({"low": 11, "mid": 12, "high": 13}))
        _write(true, folder / "true.csv")
        (folder / "public").mkdir()
        for seed in (1, 2):
            target = folder / "public" / f"wave{seed}.csv"
            given = {"ledger": "ledger.jsonl", "dataset": "people", "allow": ("seed", "second-draw")}
            pr.release("true.csv", target, mechanism("edu"), seed=seed, **given)
        told = pr.audit(target, original="true.csv", ledger="ledger.jsonl", epsilon_limit=2.0)
        target.write_text(target.read_text().replace("mid", "low"))
        risk = pr.risk("true.csv", mechanism("edu"), ledger="ledger.jsonl", dataset="people")
        return {"leaking": told.to_dict(), "changed": pr.audit(target).to_dict(), "risk": risk.to_dict()}


KEYS = ["region", "site", "edu"]
EARNINGS = "income ~ age + edu"


@analysis("risk")
def risk() -> Any:
    return pr.risk(survey(), mechanism("edu"), keys=KEYS, analyses=[EARNINGS, pr.proportions("edu")])


@analysis("risk after the draws")
def risk_after() -> Any:
    names = "edu, smokes"
    return pr.risk(
        survey(), mechanism(names), keys=[*KEYS, "smokes"], released=released(names), weights="w", analyses=EARNINGS
    )


@analysis("risk of strata and joint columns")
def risk_of_strata() -> dict[str, Any]:
    prior = {"edu": {"low": 0.6, "mid": 0.3, "high": 0.1}}
    return {
        "strata": pr.risk(survey(), mechanism("ill by region"), keys=["region", "ill"]),
        "joint": pr.risk(survey(), mechanism("edu × ill"), keys=["region", "edu", "ill"]),
        "prior": pr.risk(survey(), mechanism("edu"), prior=prior),
    }


@analysis("risk with zeros")
def risk_with_zeros() -> Any:
    blocks = pr.designs.blocks(["a", "b", "x", "y", "n/a"], [["a", "b"], ["x", "y"], ["n/a"]], epsilon=1.0)
    return pr.risk({"z": ["a", "b", "x", "y", "n/a", "a"] * 20}, pr.Mechanism({"z": blocks}))


@analysis("frontier")
def frontier() -> dict[str, Any]:
    one = pr.frontier(
        survey(),
        "ill",
        [0.75, 0.85, 0.95],
        analysis="score ~ age + ill",
        keys=["region", "ill"],
        chosen=0.85,
        simulate=0,
    )
    both, options = ["edu", "smokes"], {"levels": {"edu": EDU}, "simulate": 0}
    two = pr.frontier(survey(), both, [0.7, 0.9], analysis="score ~ edu + smokes", **options)
    return {"one": one, "two": two, "table": one.table}


@analysis("plan")
def plan() -> dict[str, Any]:
    earn, weighted = "score ~ age + ill", {"family": "binomial", "weights": "w"}
    return {
        "se": pr.plan(survey(), "ill", earn, se={"ill": 0.15}, simulate=0),
        "power": pr.plan(survey(), "ill", earn, effect={"ill": 0.4}, power=0.9, n=3000, simulate=0),
        "shares": pr.plan(survey(), "edu", se=0.02, levels=EDU, simulate=0),
        "logit": pr.plan(survey(), "edu", "employed ~ edu", se=0.5, levels=EDU, simulate=0, **weighted),
    }


@analysis("optimal design")
def optimal() -> dict[str, Any]:
    """Without a floor, rounding decides between entries of 0 and 1e-16, and so on epsilon: neither is kept."""
    sevenths, both = {"z": list("abcdefg") * 100}, ["score ~ edu", pr.proportions("edu")]
    best = partial(pr.optimal_design, data=survey(), column="edu", levels=EDU, starts=2)
    bare = best(both, odds=3.0)
    return {
        "epsilon": pr.optimal_design(pr.proportions("z"), sevenths, "z", epsilon=0.1, starts=2),
        "odds": best(both, odds=3.0, floor=0.01),
        "odds without floor": {
            "design": bare.design,
            "variance": bare.variance,
            "gain": bare.gain,
            "value": bare.value,
        },
        "importance": best("score ~ edu", odds=4.0, floor=0.02, importance={"edu[T.high]": 2.0}),
        "links": best("score ~ edu", reidentification=0.03, keys=KEYS),
    }


# --- Designs ----------------------------------------------------------------------------------------------------------

SHARES = [0.45, 0.33, 0.22]


@analysis("designs")
def designs() -> dict[str, Any]:
    """Every way to a matrix."""
    d, seven = pr.designs, list("abcdefg")
    return {
        "randomized response": _response(EDU, 0.8),
        "epsilon": pr.TransitionMatrix.from_epsilon(EDU, 1.5),
        "rows": pr.TransitionMatrix.from_rows(EDU, [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.0, 0.3, 0.7]]),
        "columns": pr.TransitionMatrix.from_columns(EDU, [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]),
        **{c: d.invariant(EDU, SHARES, 0.8, construction=c) for c in ("mixture", "two-stage", "equal-diagonal")},
        "invariant of epsilon": d.invariant(EDU, SHARES, epsilon=1.2),
        "per level": d.per_level(EDU, {"low": 0.9, "mid": 0.8, "high": 0.6}, frequencies=SHARES),
        "band": d.band(seven, 0.8, width=2),
        "band, invariant": d.band(EDU, 0.8, frequencies=SHARES, invariant=True),
        "blocks": d.blocks(seven, [["a", "b"], ["c", "d", "e"], ["f", "g"]], epsilon=1.0),
        "restricted": d.restricted([*EDU, "n/a"], 0.8, fixed=["n/a"]),
        "block design": d.block_design(seven, 0.5),
        "linked": d.linked([("child", "single"), ("adult", "single"), ("adult", "married")], 0.9),
        "warner": d.warner(0.7),
        "forced": d.forced_response(0.75, 0.125),
        "unrelated": d.unrelated_question(0.5, prevalence=0.25),
        "kuk": d.kuk(0.8, 0.2),
        "crosswise": d.crosswise(0.25),
        "mangat": d.mangat(0.75),
        "mangat and singh": d.mangat_singh(0.5, 0.75),
    }


@analysis("designs: figures")
def design_figures() -> dict[str, Any]:
    d, seven = pr.designs, list("abcdefg")
    best = {e: d.best_for_epsilon(seven, e) for e in (0.1, 1.0, 3.0)}
    return {
        "best": {str(e): {"design": c.design, "variances": dict(c.variances)} for e, c in best.items()},
        "within": d.epsilon_within(d.blocks(seven, [["a", "b"], ["c", "d", "e"], ["f", "g"]], epsilon=1.0)),
        "variance": d.total_variance(_response(EDU, 0.8), SHARES),
        "sizes": d.difference_set_sizes(),
        "combinations": d.observed_combinations(survey(), ["edu", "smokes"]),
    }


DESIGN = """
[columns.edu]
levels = ["low", "mid", "high"]
keep = 0.8
invariant = true
frequencies = "data"

[columns.smokes]
epsilon = 1.5

[columns.rooms]
levels = [1, 2, 3, 4]
kind = "numeric"
band = 1
keep = [0.9, 0.8, 0.8, 0.9]

[columns.site]
levels = ["a", "b", "c"]
fixed = ["c"]
by = "region"

[[columns.site.strata]]
value = "north"
keep = 0.9

[[columns.site.strata]]
value = "south"
keep = { a = 0.8, b = 0.7, c = 1.0 }

[[linked]]
columns = ["case", "ill"]
levels = [["no", 0], ["yes", 1]]
epsilon = 2.0
"""


@analysis("design file")
def design_file() -> dict[str, Any]:
    """A request in TOML, the mechanism built from it, what is said of it, and its draws."""
    with _folder() as folder:
        (folder / "design.toml").write_text(DESIGN)
        design = pr.Design.read("design.toml", survey())
        noise = pr.read_design("design.toml", survey())
        noise.save("m.json")
        design.write("again.toml")
        return {
            "document": _document(folder / "m.json"),
            "conditional": design.conditional,
            "notes": design.notes,
            "written": tomllib.loads((folder / "again.toml").read_text()),
            "drawn": _drawn(noise.perturb(survey(), seed=5), noise.columns),
        }


# --- Studies and the command line -------------------------------------------------------------------------------------


def _people(rng: np.random.Generator, n: int) -> dict[str, Any]:
    ill = rng.integers(0, 2, n)
    return {"ill": ill, "y": 1.0 + 0.5 * ill + rng.normal(size=n)}


def _patients(rng: np.random.Generator, n: int) -> dict[str, Any]:
    x = rng.normal(size=n)
    return {"x": x, "ill": (rng.random(n) < 1 / (1 + np.exp(0.5 - x))).astype(int)}


def _simulated(found: pr.StudyResult) -> dict[str, Any]:
    values = found.replicates.values
    return {"rows": list(found.rows), "estimates": {k: v["estimate"] for k, v in values.items()}}


@analysis("simulate: linear")
def simulated_linear() -> Any:
    scenario = pr.Scenario(_people, mechanism("ill"), "y ~ ill", truth=[1.0, 0.5], n=300)
    methods = ["reversion", "true data", "naive", "model1"]
    return _simulated(
        pr.simulate(scenario, methods, 6, seed=2, reference="true data", inference=replace(DRAWS, draws=30))
    )


@analysis("simulate: logistic")
def simulated_logistic() -> Any:
    scenario = pr.Scenario(_patients, mechanism("ill"), "ill ~ x", truth=[-0.5, 1.0], n=400, family="binomial")
    methods = ["reversion", "likelihood", pr.ModelDependent(clip=True), "forward"]
    return _simulated(pr.simulate(scenario, methods, 5, seed=3, inference=pr.Sandwich()))


@analysis("simulate: a mean")
def simulated_mean() -> Any:
    scenario = pr.Scenario(_people, mechanism("ill"), pr.mean("ill"), truth=[0.5], n=300)
    return _simulated(pr.simulate(scenario, ["reversion", "naive"], 4, seed=4))


def _shell(*arguments: str) -> str:
    """What `python -m pramana ARGUMENTS` prints, run in this process."""
    out, before = io.StringIO(), sys.argv
    sys.argv = ["pramana", *arguments]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            runpy.run_module("pramana", run_name="__main__")
    except SystemExit as left:
        out.write(f"exit status {left.code}")
    finally:
        sys.argv = before
    return out.getvalue()


def _study(name: str, *options: str) -> list[dict[str, float | str]]:
    with _folder() as folder, patch("matplotlib.figure.Figure.savefig"):  # numbers alone are kept
        _shell("study", name, "--out", "out", "--workers", "1", "--seed", "3", *options)
        return [
            {k: _cell(v) for k, v in row.items()} for row in csv.DictReader((folder / "out" / f"{name}.csv").open())
        ]


def _cell(text: str) -> float | str:
    """A cell of a table, as a number where it is one."""
    try:
        return float(text)
    except ValueError:
        return text


@analysis("study a1")
def study_a1() -> Any:
    """Table 1 of the paper with 3 replicates; the smallest and the largest samples are kept."""
    return [row for row in _study("a1", "--replicates", "3", "--resamples", "20") if row["n"] in (1000, 2000)]


@analysis("study application")
def study_application() -> Any:
    return _study("application", "--replicates", "3", "--resamples", "20")


@contextlib.contextmanager
def _files() -> Iterator[Path]:
    """The true file, a released one with its description, and its mechanism."""
    with _folder() as folder:
        survey().round(6).to_csv("true.csv", index=False)
        mechanism("edu, smokes").save("m.json")
        pr.release("true.csv", "public.csv", "m.json", seed=31, allow="seed")
        yield folder


COMMANDS = {
    "fit": "income ~ age + edu | public.csv",
    "fit privacy": "employed ~ age + edu | public.csv --family binomial --privacy --exponentiate",
    "fit resampling": "median(income, by=edu) | public.csv --draws 30 --seed 4",
    "fit design": "mean(cost, by=edu) | public.csv --weights w --strata stratum --clusters house",
    "fit likelihood": "score ~ age + edu | public.csv --method likelihood --covariate-model age",
    "compare": "employed ~ age + edu | public.csv --truth true.csv --family binomial --methods reversion,likelihood",
    "specification": "employed ~ age + edu | public.csv --family binomial",
    "risk": "true.csv | --mechanism m.json --keys region,edu --analysis income~age+edu",
    "plan": "true.csv | ill --analysis score~age+ill --se ill=0.15 --simulate 0",
    "plan optimal": "true.csv | ill --analysis score~age+ill --optimal --epsilon 1 --starts 2",
    "design": "edu | --from true.csv --levels low,mid,high --keep 0.8 --invariant",
    "audit": "public.csv | --original true.csv",
}
"""The first argument, which may hold blanks, and the others."""

for _command, _line in COMMANDS.items():

    @analysis(f"command: {_command}")
    def command(name: str = _command.split()[0], line: str = _line) -> Any:
        """The JSON that a command prints, read."""
        first, others = line.split(" | ")
        with _files():
            told = _shell(name, first, *others.split(), "--format", "json")
        body, _, left = told.partition("exit status")
        return {"json": json.loads(body), "left": left}


@analysis("command: perturb")
def command_perturb() -> Any:
    with _files() as folder:
        told = _shell("perturb", "true.csv", "again.csv", "--mechanism", "m.json", "--seed", "31", "--allow", "seed")
        return {
            "told": told,
            "same as from Python": (folder / "again.csv").read_bytes() == (folder / "public.csv").read_bytes(),
        }
