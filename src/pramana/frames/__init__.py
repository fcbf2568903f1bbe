"""The one door for data: frames, dictionaries and files, whole (`table`) or in blocks; `files` has the rules for both. No statistics."""

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
