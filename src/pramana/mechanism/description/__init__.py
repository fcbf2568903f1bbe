"""The published description of a mechanism: its JSON and schema, and which mechanism an analysis means."""
