"""The page about settings."""

from __future__ import annotations

import msgspec

from fairlead.config.settings import FOR_ANY_PROJECT, NOT_FOR_PROJECTS, Settings
from fairlead.protocol.schema.notes import field_notes

INTRODUCTION = """\
# Settings

Made from the declarations in `src/fairlead/config/settings.py` by `make generate`. Do not edit.

`settings.json` in fairlead's home (`$FAIRLEAD_HOME`, else `~/.fairlead`), then `.fairlead/settings.json` in the working
directory on top of it, key by key. Names are pi's where pi has the setting. Every key is optional; comments and trailing
commas are tolerated. A value that cannot be used is reported on stderr, and the default holds. Commands over RPC change the
session alone, unless they say `"persist": true`.

The project's file comes with its repository, often from a stranger. The column "project" says when it counts:

| project | |
|---|---|
| stricter | always, but only what is stricter than your settings |
| trusted | once the [project is trusted](extensions.md#trust) |
| never | not even then |

A setting that does not count leaves a warning that names it. Trust is looked up when the settings are loaded, without asking
anybody: `--approve`, then `fairlead trust`, then `defaultProjectTrust`. If you are asked later and say yes, the project's
settings count from the next start on; its `extensions` count at once. Paths in a project's `skills`, `prompts` and `extensions`
that lead out of the project are ignored. So is a settings file that leads out of it, or is larger than 1 MiB;
but since it may have been meant to forbid something, [everything is asked for](approvals.md) then.

| key | default | project | |
|---|---|---|---|
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
        rows.append(f"| `{name}` | {shown} | {_in_a_project(name)} | {notes.get(field.name, '')} |")
    return rows


def _in_a_project(name: str) -> str:
    """When a setting counts that is in a project's file."""
    key = name.partition(".")[0]
    if name == "approvals.timeoutSeconds" or key in NOT_FOR_PROJECTS:
        return "never"
    return "stricter" if key in FOR_ANY_PROJECT else "trusted"
