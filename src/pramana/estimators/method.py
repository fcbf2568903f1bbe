"""What an estimator is: something that answers a task with a result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pramana.analysis.task import Inference, Task
from pramana.arrays import Float
from pramana.diagnostic import Diagnostic
from pramana.engines import Engine
from pramana.errors import PramanaError
from pramana.estimating import Equation, EstimatingFunction
from pramana.estimators.made import MadeRecords
from pramana.formulas.parsed import ParsedFormula
from pramana.formulas.subset import Subset
from pramana.frames import Table
from pramana.inference.hypotheses import SpecificationTest
from pramana.mechanism import Mechanism
from pramana.result import Result

Rebind: TypeAlias = Callable[[Float], Equation]
"""Row weights (n,) ↦ equation."""


class Method(ABC):
    """An estimator. A new one is a file with a subclass, and a line in `known`.

    Attributes
    ----------
    label : what it is called in tables.
    """

    if TYPE_CHECKING:  # to be read; a subclass has a field or a property

        @property
        def label(self) -> str: ...

    @abstractmethod
    def estimate(self, task: Task) -> Result:
        """Answer the task."""

    @property
    def reverts(self) -> bool:
        """True when the variance decomposes into sampling and randomisation (Remark 1)."""
        return False

    @property
    def takes_as_true(self) -> bool:
        """Whether the values are used as they are. They may then be the true ones, as the oracle's, which share no draws."""
        return False

    @property
    def adds_measurement(self) -> bool:
        """Whether standard errors hold the uncertainty of a matrix that was measured."""
        return False

    @property
    def has_model(self) -> bool:
        """Whether it assumes a model that `specification` can test against reversion."""
        return False

    @property
    def repeats(self) -> bool:
        """Whether a result of this method can be asked for margins, which fits the model again."""
        return False

    @property
    def by_blocks(self) -> bool:
        """Whether its equation can be bound to one block of the records after the other, of which nothing but sums is kept."""
        return False

    @property
    def streams(self) -> bool:
        """Whether it answers, by sums of its own, where records do not fit into memory."""
        return self.by_blocks

    @property
    def formulas(self) -> tuple[ParsedFormula, ...]:
        """Formulas of its own, whose covariates it reads beside the question's."""
        return ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Further columns that it reads."""
        return ()

    @property
    def one_by_one(self) -> bool:
        """Whether a simulation gives it one data set after the other, for it has no equation that solves many at once."""
        return False

    def within(self, subset: Subset) -> Method:
        """The method for the records of a subset that perturbed columns decide, and of one whose total is asked for."""
        raise PramanaError(
            f"the {self.label} estimator knows no subset by perturbed columns, and none of totals and counts ({subset.text}): use method='reversion', or "
            "filter the data by clean columns"
        )

    def suited(self, inference: Inference | None) -> Inference | None:
        """The inference to use in a comparison of several methods, where one kind was asked of all of them."""
        return inference

    def specification(self, task: Task) -> SpecificationTest:  # noqa: ARG002
        """The test of this method's model against reversion, which needs less of it."""
        raise PramanaError(f"the {self.label} estimator has no model to be tested")

    def bind_each(
        self,
        function: EstimatingFunction,  # noqa: ARG002
        mechanism: Mechanism | None,  # noqa: ARG002
        table: Table,  # noqa: ARG002
        groups: int,  # noqa: ARG002
        device: str = "cpu",  # noqa: ARG002
    ) -> Equation:
        """The equation of `groups` data sets of one size that lie one after the other, a nuisance fitted to each alone, where
        `DataSets` would be solved, so that a simulation solves them together."""
        raise PramanaError(f"the {self.label} estimator is not one equation: use fit, one data set at a time")

    def bind_made(self, made: MadeRecords) -> Any | None:  # noqa: ARG002
        """Data sets that a device made, as its solvers take them (`DeviceSets`); None where the method's equation is not known there,
        and `bind_each` has the same records on the CPU."""
        return None

    def with_covariate_model(self, text: str) -> Method:
        """The method with a model of the perturbed covariates."""
        raise PramanaError(f"a covariate model ({text!r}) belongs to method likelihood: add that, or leave it out")


@dataclass(frozen=True)
class Binding:
    """What a method has to solve.

    Attributes
    ----------
    equation : for the parameters of the question, and perhaps others.
    rebind : row weights ↦ the equation, for methods with a nuisance that is fitted again under other weights; None elsewhere.
    facts, notes : what is shown at the head of the result, and what the analyst should know.
    started : a starting value of the question's parameters ↦ one of all parameters, where there are others.
    """

    equation: Equation
    rebind: Rebind | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[Diagnostic, ...] = ()
    started: Callable[[Float], Float] | None = None

    def begun(self, given: Float | None) -> Float | None:
        """Where the search starts when a value was given for the parameters of the question."""
        return given if given is None or self.started is None else self.started(given)


class EquationMethod(Method):
    """An estimator that solves an estimating equation; the rest of the way to a result is the same for all of them."""

    @abstractmethod
    def bind(self, function: EstimatingFunction, mechanism: Mechanism | None, table: Table, weights: Float) -> Binding:
        """An equation for the table's records; `weights` (n,) are the row weights of a nuisance fit."""

    def checked(self, engine: Engine) -> tuple[Diagnostic, ...]:  # noqa: ARG002
        """What sums over all records must show before anything is solved, and what the analyst should know of them."""
        return ()

    def bind_each(
        self,
        function: EstimatingFunction,
        mechanism: Mechanism | None,
        table: Table,
        groups: int,  # noqa: ARG002 - without a nuisance all data sets are alike
        device: str = "cpu",  # noqa: ARG002
    ) -> Equation:
        return self.bind(function, mechanism, table, np.ones(table.n)).equation

    def estimate(self, task: Task) -> Result:
        from pramana.estimators.estimate import estimate

        return estimate(self, task)
