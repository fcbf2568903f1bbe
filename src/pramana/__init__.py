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
    "negative_binomial": "estimating.families",
    "glm": "formulas",
    "Sandwich": "inference",
    "Resampling": "inference",
    "Reversion": "estimators",
    "Naive": "estimators",
    "ModelDependent": "estimators",
    "Result": "result",
    "Comparison": "result",
    "Diagnostic": "result",
    "fit": "pipeline",
    "compare": "pipeline",
    "Release": "disclosure.release",
    "release": "disclosure.release",
    "Audit": "disclosure.audit",
    "audit": "disclosure.audit",
    "Scenario": "studies",
    "StudyResult": "studies",
    "simulate": "studies",
}

__all__ = ["__version__", *_HOME]

logging.getLogger(__name__).addHandler(logging.NullHandler())

if TYPE_CHECKING:
    from pramana.disclosure.audit import Audit, audit
    from pramana.disclosure.release import Release, release
    from pramana.errors import DataError, FormulaError, MechanismError, PramanaError, SolveError
    from pramana.estimating import EstimatingFunction, from_callable, mean, proportions
    from pramana.estimating.families import negative_binomial
    from pramana.estimators import ModelDependent, Naive, Reversion
    from pramana.formulas import glm
    from pramana.inference import Resampling, Sandwich
    from pramana.mechanism import Channel, Mechanism, Nodes, Stratified, TransitionMatrix, designs
    from pramana.mechanism.design_file import Design, read_design
    from pramana.pipeline import compare, fit
    from pramana.result import Comparison, Diagnostic, Result
    from pramana.studies import Scenario, StudyResult, simulate


def __getattr__(name: str) -> Any:
    """Names arrive when they are first used, so that `import pramana` stays light."""
    if name not in _HOME:
        raise AttributeError(f"module 'pramana' has no attribute {name!r}")
    return getattr(import_module(f"pramana.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
