"""Searches for a mechanism before the release: a keep probability, a frontier, the best matrix under a limit."""
