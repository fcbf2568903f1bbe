"""What users of statsmodels and pyfixest type: the same numbers under the names they know, as pandas objects."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from pramana.arrays import Float
from pramana.errors import PramanaError

if TYPE_CHECKING:
    import pandas as pd


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

    def _series(self, values: Any) -> pd.Series[Any]:
        import pandas as pd

        return pd.Series(np.asarray(values, dtype=float), index=list(self.parameters))
