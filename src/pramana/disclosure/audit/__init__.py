"""Checks of a released file: against its description, and against the original for what gives secrets away."""
