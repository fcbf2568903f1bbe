"""Statistics on data whose sensitive columns were randomised before release."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "PramanaError": "errors",
    "MechanismError": "errors",
    "DataError": "errors",
    "FormulaError": "errors",
    "SolveError": "errors",
    "TransitionMatrix": "mechanism",
    "Mechanism": "mechanism",
    "Stratified": "mechanism",
    "Channel": "mechanism",
    "Nodes": "mechanism",
    "designs": "mechanism",
    "Design": "mechanism.designs.design_file",
    "read_design": "mechanism.designs.design_file",
    "EstimatingFunction": "estimating",
    "from_callable": "estimating",
    "mean": "parameters.means",
    "proportions": "parameters.means",
    "total": "parameters.means",
    "counts": "parameters.means",
    "crosstab": "parameters.tables",
    "odds_ratio": "parameters.ratios",
    "risk_ratio": "parameters.ratios",
    "risk_difference": "parameters.ratios",
    "correlation": "parameters.correlation",
    "table_em": "estimators.tables.simplex",
    "to_simplex": "estimators.tables.simplex",
    "quantile": "parameters.quantiles",
    "median": "parameters.quantiles",
    "gini": "parameters.inequality",
    "poverty_rate": "parameters.inequality",
    "negative_binomial": "estimating.families",
    "glm": "models.generalized_linear",
    "parameter": "formulas.text",
    "multinomial": "models.multinomial",
    "ordinal": "models.ordinal",
    "margins": "models.marginal",
    "quantile_regression": "models.quantile_regression",
    "two_stage_least_squares": "models.two_stage",
    "average_treatment_effect": "models.effects",
    "Sandwich": "inference",
    "Resampling": "inference",
    "Jackknife": "inference",
    "SurveyDesign": "inference",
    "Reversion": "estimators",
    "Naive": "estimators",
    "ModelDependent": "estimators",
    "Likelihood": "estimators",
    "LikelihoodResult": "estimators",
    "lr_test": "estimators",
    "ForwardCorrection": "estimators",
    "BackwardCorrection": "estimators",
    "Result": "result",
    "Comparison": "comparison",
    "Diagnostic": "diagnostic",
    "fit": "pipeline",
    "compare": "pipeline",
    "SpecificationTest": "inference.hypotheses",
    "specification_test": "pipeline",
    "Risk": "disclosure.risk.assessment",
    "risk": "disclosure.risk.assessment",
    "Frontier": "disclosure.planning.risk_utility",
    "frontier": "disclosure.planning.risk_utility",
    "Plan": "disclosure.planning.keep_probability",
    "plan": "disclosure.planning.keep_probability",
    "OptimalDesign": "disclosure.planning.optimal_matrix",
    "optimal_design": "disclosure.planning.optimal_matrix",
    "Release": "disclosure.release.releasing",
    "release": "disclosure.release.releasing",
    "Audit": "disclosure.audit.auditing",
    "audit": "disclosure.audit.auditing",
    "Scenario": "studies",
    "StudyResult": "studies",
    "simulate": "studies",
}

__all__ = ["__version__", *_HOME]

logging.getLogger(__name__).addHandler(logging.NullHandler())

if TYPE_CHECKING:
    from pramana.comparison import Comparison
    from pramana.diagnostic import Diagnostic
    from pramana.disclosure.audit.auditing import Audit, audit
    from pramana.disclosure.planning.keep_probability import Plan, plan
    from pramana.disclosure.planning.optimal_matrix import OptimalDesign, optimal_design
    from pramana.disclosure.planning.risk_utility import Frontier, frontier
    from pramana.disclosure.release.releasing import Release, release
    from pramana.disclosure.risk.assessment import Risk, risk
    from pramana.errors import DataError, FormulaError, MechanismError, PramanaError, SolveError
    from pramana.estimating import EstimatingFunction, from_callable
    from pramana.estimating.families import negative_binomial
    from pramana.estimators import (
        BackwardCorrection,
        ForwardCorrection,
        Likelihood,
        LikelihoodResult,
        ModelDependent,
        Naive,
        Reversion,
        lr_test,
    )
    from pramana.estimators.tables.simplex import table_em, to_simplex
    from pramana.formulas.text import parameter
    from pramana.inference import Jackknife, Resampling, Sandwich, SurveyDesign
    from pramana.inference.hypotheses import SpecificationTest
    from pramana.mechanism import Channel, Mechanism, Nodes, Stratified, TransitionMatrix, designs
    from pramana.mechanism.designs.design_file import Design, read_design
    from pramana.models.effects import average_treatment_effect
    from pramana.models.generalized_linear import glm
    from pramana.models.marginal import margins
    from pramana.models.multinomial import multinomial
    from pramana.models.ordinal import ordinal
    from pramana.models.quantile_regression import quantile_regression
    from pramana.models.two_stage import two_stage_least_squares
    from pramana.parameters.correlation import correlation
    from pramana.parameters.inequality import gini, poverty_rate
    from pramana.parameters.means import counts, mean, proportions, total
    from pramana.parameters.quantiles import median, quantile
    from pramana.parameters.ratios import odds_ratio, risk_difference, risk_ratio
    from pramana.parameters.tables import crosstab
    from pramana.pipeline import compare, fit, specification_test
    from pramana.result import Result
    from pramana.studies import Scenario, StudyResult, simulate


def __getattr__(name: str) -> Any:
    """Names arrive when they are first used, so that `import pramana` stays light."""
    if name not in _HOME:
        raise AttributeError(f"module 'pramana' has no attribute {name!r}")
    return getattr(import_module(f"pramana.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
