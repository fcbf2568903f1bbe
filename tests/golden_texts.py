"""Texts that must stay word for word, whatever processor wrote their numbers."""

from __future__ import annotations

import re


def worded(text: str) -> str:
    """The text with its numbers to twelve digits: the last ones of a logarithm or an inverse differ between processors.

    >>> worded('{"epsilon": 2.4277482359480516, "rows": 400}')
    '{"epsilon": 2.42774823595, "rows": 400}'
    """
    return re.sub(r"\d+\.\d{9,}(?:e-?\d+)?", lambda found: f"{float(found[0]):.12g}", text)
