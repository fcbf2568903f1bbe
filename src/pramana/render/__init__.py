"""Tables and figures from plain data."""

from pramana.render.tables import FORMATS, Sheet, plain, render

__all__ = ["FORMATS", "Sheet", "plain", "render"]
