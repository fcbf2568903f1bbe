"""Tables and figures from plain data."""

from pramana.render.cross import CrossTable
from pramana.render.tables import FORMATS, Sheet, Shown, Text, plain, render

__all__ = ["FORMATS", "CrossTable", "Sheet", "Shown", "Text", "plain", "render"]
