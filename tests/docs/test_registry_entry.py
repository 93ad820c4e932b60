"""The entry for the ACP registry: what its schema requires, and the version of this checkout."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema_rs

import fairlead

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "registry"
#: What the schema of the registry says about an agent from PyPI.
SCHEMA = {
    "type": "object",
    "required": ["id", "name", "version", "description", "distribution", "license_url"],
    "properties": {
        "id": {"type": "string", "pattern": "^[a-z][a-z0-9-]*$"},
        "name": {"type": "string", "minLength": 1},
        "version": {"type": "string", "pattern": "^[0-9]+\\.[0-9]+\\.[0-9]+$"},
        "description": {"type": "string", "minLength": 1},
        "authors": {"type": "array", "items": {"type": "string"}},
        "license": {"type": "string"},
        "license_url": {"type": "string", "format": "uri"},
        "distribution": {
            "type": "object",
            "required": ["uvx"],
            "properties": {
                "uvx": {
                    "type": "object",
                    "required": ["package"],
                    "properties": {
                        "package": {"type": "string", "minLength": 1},
                        "args": {"type": "array", "items": {"type": "string"}},
                        "env": {"type": "object", "additionalProperties": {"type": "string"}},
                    },
                    "additionalProperties": False,
                }
            },
            "additionalProperties": False,
        },
    },
}


def test_the_registry_entry_is_valid_and_names_this_version() -> None:
    entry = json.loads((FOLDER / "agent.json").read_text())
    jsonschema_rs.validate(SCHEMA, entry)
    assert entry["version"] == fairlead.__version__
    assert entry["distribution"]["uvx"] == {"package": f"fairlead=={fairlead.__version__}", "args": ["acp"]}


def test_the_icon_is_small_and_takes_the_colour_of_the_editor() -> None:
    icon = (FOLDER / "icon.svg").read_text()
    assert 'width="16" height="16"' in icon and "currentColor" in icon
    assert not re.search(r"#[0-9a-fA-F]{3,6}", icon)
