"""Tables and figures from plain data."""

from pramana.render.cross import CrossedEstimates
from pramana.render.tables import FORMATS, Report, Sheet, Shown, Text, plain, render, visible

__all__ = ["FORMATS", "CrossedEstimates", "Report", "Sheet", "Shown", "Text", "plain", "render", "visible"]
