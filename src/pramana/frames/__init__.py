"""The door for pandas, polars, Arrow, dictionaries, CSV and Parquet. No statistics here."""

from pramana.frames.levels import Kind, Level, Schema, Variable, checked_levels, decode, encode, infer_kind
from pramana.frames.table import FrameKind, Table, build, read

__all__ = [
    "FrameKind",
    "Kind",
    "Level",
    "Schema",
    "Table",
    "Variable",
    "build",
    "checked_levels",
    "decode",
    "encode",
    "infer_kind",
    "read",
]
