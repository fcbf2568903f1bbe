"""The JSON Schema of the `pram` object, shipped with the package. `make schema` writes it anew from the models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pramana.mechanism.description.document import PramModel

PATH = Path(__file__).with_name("pram-1.schema.json")


def generated() -> dict[str, Any]:
    """The schema that the models stand for."""
    body = PramModel.model_json_schema()
    definitions = body.pop("$defs")
    definitions["Pram"] = body
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Description of a perturbed file, version 1",
        "description": "An object with a `pram` property: a mechanism alone, or a resource of a Data Package.",
        "type": "object",
        "required": ["pram"],
        "properties": {"pram": {"$ref": "#/$defs/Pram"}},
        "$defs": dict(sorted(definitions.items())),
    }


def text() -> str:
    return json.dumps(generated(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
