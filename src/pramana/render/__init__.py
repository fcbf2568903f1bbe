"""Tables and figures from plain data."""

from pramana.render.tables import FORMATS, Sheet, Shown, plain, render

__all__ = ["FORMATS", "Sheet", "Shown", "plain", "render"]
