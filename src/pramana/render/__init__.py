"""Tables and figures from plain data."""

from pramana.render.tables import FORMATS, Sheet, render

__all__ = ["FORMATS", "Sheet", "render"]
