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
    "Design": "mechanism.design_file",
    "read_design": "mechanism.design_file",
    "EstimatingFunction": "estimating",
    "from_callable": "estimating",
    "mean": "estimating",
    "proportions": "estimating",
    "total": "estimating.descriptive",
    "counts": "estimating.descriptive",
    "crosstab": "estimating.tables",
    "odds_ratio": "estimating.ratios",
    "risk_ratio": "estimating.ratios",
    "risk_difference": "estimating.ratios",
    "correlation": "estimating.correlation",
    "table_em": "simplex",
    "to_simplex": "simplex",
    "quantile": "estimating.quantiles",
    "median": "estimating.quantiles",
    "gini": "estimating.inequality",
    "poverty_rate": "estimating.inequality",
    "negative_binomial": "estimating.families",
    "glm": "formulas",
    "parameter": "formulas.named",
    "multinomial": "formulas.multinomial",
    "ordinal": "formulas.ordinal",
    "margins": "formulas.margins",
    "quantile_regression": "formulas.quantile_regression",
    "two_stage_least_squares": "formulas.instruments",
    "average_treatment_effect": "formulas.effects",
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
    "Diagnostic": "result",
    "fit": "pipeline",
    "compare": "pipeline",
    "SpecificationTest": "inference.hypotheses",
    "specification_test": "guidance",
    "Risk": "disclosure.assessment",
    "risk": "disclosure.assessment",
    "Frontier": "disclosure.tradeoff",
    "frontier": "disclosure.tradeoff",
    "Plan": "disclosure.planning",
    "plan": "disclosure.planning",
    "OptimalDesign": "disclosure.optimal",
    "optimal_design": "disclosure.optimal",
    "Release": "disclosure.release",
    "release": "disclosure.release",
    "Audit": "disclosure.findings",
    "audit": "disclosure.audit",
    "Scenario": "studies",
    "StudyResult": "studies",
    "simulate": "studies",
}

__all__ = ["__version__", *_HOME]

logging.getLogger(__name__).addHandler(logging.NullHandler())

if TYPE_CHECKING:
    from pramana.comparison import Comparison
    from pramana.disclosure.assessment import Risk, risk
    from pramana.disclosure.audit import audit
    from pramana.disclosure.findings import Audit
    from pramana.disclosure.optimal import OptimalDesign, optimal_design
    from pramana.disclosure.planning import Plan, plan
    from pramana.disclosure.release import Release, release
    from pramana.disclosure.tradeoff import Frontier, frontier
    from pramana.errors import DataError, FormulaError, MechanismError, PramanaError, SolveError
    from pramana.estimating import EstimatingFunction, from_callable, mean, proportions
    from pramana.estimating.correlation import correlation
    from pramana.estimating.descriptive import counts, total
    from pramana.estimating.families import negative_binomial
    from pramana.estimating.inequality import gini, poverty_rate
    from pramana.estimating.quantiles import median, quantile
    from pramana.estimating.ratios import odds_ratio, risk_difference, risk_ratio
    from pramana.estimating.tables import crosstab
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
    from pramana.formulas import glm
    from pramana.formulas.effects import average_treatment_effect
    from pramana.formulas.instruments import two_stage_least_squares
    from pramana.formulas.margins import margins
    from pramana.formulas.multinomial import multinomial
    from pramana.formulas.named import parameter
    from pramana.formulas.ordinal import ordinal
    from pramana.formulas.quantile_regression import quantile_regression
    from pramana.guidance import specification_test
    from pramana.inference import Jackknife, Resampling, Sandwich, SurveyDesign
    from pramana.inference.hypotheses import SpecificationTest
    from pramana.mechanism import Channel, Mechanism, Nodes, Stratified, TransitionMatrix, designs
    from pramana.mechanism.design_file import Design, read_design
    from pramana.pipeline import compare, fit
    from pramana.result import Diagnostic, Result
    from pramana.simplex import table_em, to_simplex
    from pramana.studies import Scenario, StudyResult, simulate


def __getattr__(name: str) -> Any:
    """Names arrive when they are first used, so that `import pramana` stays light."""
    if name not in _HOME:
        raise AttributeError(f"module 'pramana' has no attribute {name!r}")
    return getattr(import_module(f"pramana.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
