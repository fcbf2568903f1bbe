"""The published description of a mechanism: its JSON, its schema, and how a reader finds it."""
