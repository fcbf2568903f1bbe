"""Statistics on data whose sensitive columns were randomised before release."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pramana.names import HOME

__version__ = "0.1.0"


__all__ = ["__version__", *HOME]

logging.getLogger(__name__).addHandler(logging.NullHandler())

if TYPE_CHECKING:
    from pramana.comparison import Comparison
    from pramana.diagnostic import Diagnostic
    from pramana.disclosure.audit.auditing import Audit, audit
    from pramana.disclosure.planning.keep_probability import NoisePlan, Plan, plan
    from pramana.disclosure.planning.optimal_matrix import OptimalDesign, optimal_design
    from pramana.disclosure.planning.risk_utility import Frontier, frontier
    from pramana.disclosure.release.accounting import Account, account
    from pramana.disclosure.release.policy import Policy
    from pramana.disclosure.release.releasing import Release, release
    from pramana.disclosure.risk.assessment import Risk, risk
    from pramana.engines import DaskEngine, DuckDBEngine, ExecutorEngine, SparkEngine
    from pramana.errors import DataError, FormulaError, MechanismError, PramanaError, PramanaWarning, SolveError
    from pramana.estimating import EstimatingFunction, from_callable
    from pramana.estimating.families import negative_binomial
    from pramana.estimators import (
        BackwardCorrection,
        ConditionalScore,
        ForwardCorrection,
        Likelihood,
        LikelihoodResult,
        ModelDependent,
        Naive,
        Reversion,
        Stabilized,
        StabilizedResult,
        Validated,
        lr_test,
    )
    from pramana.estimators.tables.without_negative_cells import table_em, to_simplex
    from pramana.formulas.text import parameter
    from pramana.frames.databases import DuckDB, PostgreSQL
    from pramana.frames.dialects import CsvFile, Dialect
    from pramana.inference import Jackknife, Resampling, Sandwich, SurveyDesign, Woodruff
    from pramana.inference.hypotheses import SpecificationTest
    from pramana.mechanism import (
        Channel,
        DiscreteGaussianNoise,
        GaussianNoise,
        GeometricNoise,
        JointGaussianNoise,
        KeepOrNoise,
        LaplaceNoise,
        Mechanism,
        Nodes,
        Stratified,
        TransitionMatrix,
        UniformNoise,
        Unit,
        designs,
        imports,
    )
    from pramana.mechanism.channels.encodings.hadamard import HadamardResponse
    from pramana.mechanism.channels.encodings.hashing import LocalHashing
    from pramana.mechanism.channels.encodings.subsets import SubsetSelection
    from pramana.mechanism.channels.encodings.unary import UnaryEncoding
    from pramana.mechanism.channels.free import FreeMatrix
    from pramana.mechanism.channels.rectangular import RectangularMatrix
    from pramana.mechanism.designs.design_file import Design, read_design
    from pramana.model_table import ModelTable, table
    from pramana.models.effects import average_treatment_effect
    from pramana.models.generalized_linear import glm
    from pramana.models.marginal import margins
    from pramana.models.multinomial import multinomial
    from pramana.models.ordinal import ordinal
    from pramana.models.quantile_regression import quantile_regression
    from pramana.models.two_stage import two_stage_least_squares
    from pramana.parameters.correlation import correlation
    from pramana.parameters.inequality import gini, poverty_rate
    from pramana.parameters.intervals import share
    from pramana.parameters.means import counts, mean, proportions, total
    from pramana.parameters.quantiles import median, quantile
    from pramana.parameters.ratios import odds_ratio, risk_difference, risk_ratio
    from pramana.parameters.tables import crosstab
    from pramana.pipeline import compare, fit, specification_test
    from pramana.result import Result
    from pramana.studies import Scenario, StudyResult, simulate
    from pramana.studies.bounds import Band, band


def __getattr__(name: str) -> Any:
    """Names arrive when they are first used, so that `import pramana` stays light."""
    if name not in HOME:
        raise AttributeError(f"module 'pramana' has no attribute {name!r}")
    return getattr(import_module(f"pramana.{HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
