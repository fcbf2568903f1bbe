"""What users of statsmodels and pyfixest type: the same numbers under the names they know, as pandas objects."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from pramana.arrays import Float
from pramana.errors import PramanaError

if TYPE_CHECKING:
    import pandas as pd


def outcome_of(facts: Mapping[str, str]) -> str:
    """What a fit is about, by its facts: the left-hand side of the formula, or the parameter.

    >>> outcome_of({"Formula": "`a ~ b` ~ x"}), outcome_of({"Parameter": "median(income)"})
    ('a ~ b', 'median(income)')
    """
    found = re.match(r"((?:`[^`]*`|[^~`])*)~", facts.get("Formula", ""))
    return found[1].strip().strip("`") if found else facts.get("Parameter", "")


class Familiar:
    """Names that a result of another program has, for everything that has parameters with a covariance.

    >>> import pramana as pr
    >>> found = pr.fit("y ~ x", {"y": [1.0, 3.0, 4.0, 8.0], "x": [0.0, 1.0, 2.0, 3.0]}, None)
    >>> found.params.round(4).to_dict(), found.nobs
    ({'Intercept': 0.7, 'x': 2.2}, 4.0)
    >>> list(found.conf_int(0.1).columns)
    [0, 1]
    """

    parameters: tuple[str, ...]
    estimate: Float
    covariance: Float
    n: float
    method: str
    inference: str
    facts: Mapping[str, str]

    @abstractmethod
    def interval(self, level: float | None = None) -> Float: ...

    @abstractmethod
    def to_dicts(self) -> list[dict[str, Any]]: ...

    @property
    def params(self) -> pd.Series[Any]:
        """Estimates by parameter."""
        return self._series(self.estimate)

    @property
    def bse(self) -> pd.Series[Any]:
        """Standard errors by parameter."""
        return self._series(np.sqrt(np.clip(np.diag(self.covariance), 0.0, None)))

    @property
    def tvalues(self) -> pd.Series[Any]:
        """The statistics of the table, z or t, by parameter."""
        return self._series([row["statistic"] for row in self.to_dicts()])

    @property
    def pvalues(self) -> pd.Series[Any]:
        """The p-values of the table by parameter."""
        return self._series([row["p_value"] for row in self.to_dicts()])

    @property
    def nobs(self) -> float:
        """Records, each counted as often as its frequency says."""
        return self.n

    def conf_int(self, alpha: float | None = None) -> pd.DataFrame:
        """Limits in the columns 0 and 1, which miss a parameter with probability `alpha`; at the level of the fit by default."""
        import pandas as pd

        return pd.DataFrame(self.interval(None if alpha is None else 1 - alpha), index=list(self.parameters))

    def cov_params(self) -> pd.DataFrame:
        """The covariance of the estimates."""
        import pandas as pd

        return pd.DataFrame(self.covariance, index=list(self.parameters), columns=list(self.parameters))

    @property
    def resid(self) -> NoReturn:
        """Residuals do not exist: they would need the true values."""
        raise PramanaError(
            "there are no residuals: they would need the true values, which nobody has here; the diagnostics of the fit and "
            "specification_test say what can be said of the model"
        )

    @property
    def fittedvalues(self) -> NoReturn:
        """A result holds no records."""
        raise PramanaError(
            "a result holds no records to predict: give some to predict(data), whose columns hold true values"
        )

    @property
    def llf(self) -> float:
        """The log-likelihood, of method "likelihood"."""
        raise _no_likelihood("llf")

    @property
    def aic(self) -> float:
        """Akaike's criterion, of method "likelihood"."""
        raise _no_likelihood("aic")

    @property
    def bic(self) -> float:
        """The Bayesian criterion, of method "likelihood"."""
        raise _no_likelihood("bic")

    @property
    def endog_names(self) -> str:
        """What the fit is about: the left-hand side of the formula, or the parameter that was asked for."""
        return outcome_of(self.facts)

    @property
    def cov_type(self) -> str:
        """How the standard errors and intervals were made, in words."""
        return self.inference

    # The protocol of the package maketables, which makes tables for Word, LaTeX, Typst and great_tables of whatever has these names. Its
    # version 0.2 takes what has `params`, `bse` and `pvalues` for a result of statsmodels, and reads `endog_names` and `cov_type`.

    @property
    def __maketables_coef_table__(self) -> pd.DataFrame:
        """Estimate, standard error, statistic, p-value and limits of each term, under the names that maketables knows."""
        import pandas as pd

        rows = self.to_dicts()
        columns = {"b": "estimate", "se": "std_error", "t": "statistic", "p": "p_value"}
        limits = {
            f"ci{level}{side}": self.interval(level / 100)[:, k] for level in (95, 90) for k, side in enumerate("lu")
        }
        numbers = {short: [row[name] for row in rows] for short, name in columns.items()}
        return pd.DataFrame(numbers | limits, index=pd.Index([row["term"] for row in rows], name="Coefficient"))

    def __maketables_stat__(self, key: str) -> float | str | None:
        """A figure of the fit: N, method, se_type, or anything that stands above the table; None where there is none."""
        own = {"N": int(self.n) if self.n == int(self.n) else self.n, "method": self.method, "se_type": self.inference}
        return own[key] if key in own else self.facts.get(key)

    @property
    def __maketables_depvar__(self) -> str:
        return self.endog_names

    @property
    def __maketables_vcov_info__(self) -> dict[str, str]:
        return {"vcov_type": self.inference}

    @property
    def __maketables_default_stat_keys__(self) -> list[str]:
        return ["N", "method"]

    @property
    def __maketables_stat_labels__(self) -> dict[str, str]:
        return {"N": "Records", "method": "Method", "se_type": "Standard errors"}

    def _series(self, values: Any) -> pd.Series[Any]:
        import pandas as pd

        return pd.Series(np.asarray(values, dtype=float), index=list(self.parameters))


def _no_likelihood(name: str) -> PramanaError:
    return PramanaError(
        f"{name} is a matter of likelihoods, and estimating equations have none: fit with method='likelihood', compare nested models with "
        "test(...), or see rsquared of a linear model"
    )
