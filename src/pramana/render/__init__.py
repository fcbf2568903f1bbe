"""Tables and figures from plain data."""

from pramana.render.cross import CrossedEstimates
from pramana.render.tables import FORMATS, Sheet, Shown, Text, plain, render, visible

__all__ = ["FORMATS", "CrossedEstimates", "Sheet", "Shown", "Text", "plain", "render", "visible"]
