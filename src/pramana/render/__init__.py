"""Tables and figures from plain data."""

from pramana.render.cross import CrossTable
from pramana.render.tables import FORMATS, Sheet, Shown, plain, render

__all__ = ["FORMATS", "CrossTable", "Sheet", "Shown", "plain", "render"]
