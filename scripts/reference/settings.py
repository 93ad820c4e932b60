"""The page about settings."""

from __future__ import annotations

import msgspec

from fairlead.config.settings import Settings
from fairlead.protocol.schema.notes import field_notes

INTRODUCTION = """\
# Settings

Made from the declarations in `src/fairlead/config/settings.py` by `make generate`. Do not edit.

`settings.json` in fairlead's home (`$FAIRLEAD_HOME`, else `~/.fairlead`), then `.fairlead/settings.json` in the working
directory on top of it, key by key. Names are pi's where pi has the setting. Every key is optional; comments and trailing
commas are tolerated. A value that cannot be used is reported on stderr, and the default holds. Commands over RPC change the
session alone, unless they say `"persist": true`.

| key | default | |
|---|---|---|
"""


def page() -> str:
    return INTRODUCTION + "\n".join(_rows(Settings, "")) + "\n"


def _rows(group: type[msgspec.Struct], prefix: str) -> list[str]:
    rows: list[str] = []
    notes = field_notes(group)
    for field in msgspec.structs.fields(group):
        name = prefix + field.encode_name
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            rows += _rows(field.type, f"{name}.")
            continue
        default = {} if field.default is msgspec.NODEFAULT else field.default
        shown = "" if default in (None, {}) else f"`{msgspec.json.encode(default).decode()}`"
        rows.append(f"| `{name}` | {shown} | {notes.get(field.name, '')} |")
    return rows
