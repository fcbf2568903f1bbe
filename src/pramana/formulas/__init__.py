"""A formula and a schema become an estimating function."""

from pramana.formulas.generalized_linear import Glm, glm

__all__ = ["Glm", "glm"]
