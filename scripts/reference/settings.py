"""Generate docs/settings.md."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.config.settings import FOR_ANY_PROJECT, NOT_FOR_PROJECTS, Settings
from fairlead.protocol.schema.builder import field_notes

INTRODUCTION = """\
# Settings

<!-- `make generate` writes this page from `src/fairlead/config/settings.py`. Do not edit. -->

Most people want a few of these in `~/.fairlead/settings.json`, or type `/settings` in the chat:

```json
{
  "defaultProvider": "anthropic",
  "defaultModel": "claude-opus-5-5",
  "approvals": {"mode": "write"},
  "maxTurns": 50
}
```

fairlead reads `settings.json` in its [home](home.md) (`$FAIRLEAD_HOME`, else `~/.fairlead`), then
`.fairlead/settings.json` in the working directory, which overrides it key by key. If pi has a
setting, it has the same name here. Every key is optional. Comments and trailing commas are allowed.
If a value is invalid, fairlead reports it on stderr and uses the default. Commands over RPC change
only the session, unless they say `"persist": true`.

The project's file comes with its repository, often from a stranger. The column "project" says when
it applies:

| project | |
|---|---|
| stricter | always, but only if it is stricter than your setting |
| trusted | if the [project is trusted](extensions.md#trust) |
| never | not even if the project is trusted |

A warning names each setting that does not apply. fairlead looks up trust when it loads the
settings, without asking: `--approve`, then `fairlead trust`, then `defaultProjectTrust`. If it asks
you later and you agree, the project's settings apply from the next start on; its `extensions` apply
immediately. `packages` lists installed [packages](pi-extensions.md#packages): their extensions,
skills and prompts count as if they were listed. fairlead ignores paths in a project's `skills`,
`prompts` and `extensions` that lead out of the project. It also ignores a settings file that leads
out of the project or is larger than 1 MiB. Such a file may have been meant to restrict something,
so fairlead then [asks about every call](approvals.md).

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
        default: Any = {} if field.default is msgspec.NODEFAULT else field.default
        shown = "" if default in (None, {}) else f"`{msgspec.json.encode(default).decode()}`"
        if field.name not in notes:
            raise SystemExit(f"The setting {name} has no description. Write one above it, in config/settings.py.")
        rows.append(f"| `{name}` | {shown} | {_in_a_project(name)} | {notes[field.name]} |")
    return rows


def _in_a_project(name: str) -> str:
    """Say when a setting in a project's file applies."""
    key = name.partition(".")[0]
    if name == "approvals.timeoutSeconds" or key in NOT_FOR_PROJECTS:
        return "never"
    return "stricter" if key in FOR_ANY_PROJECT else "trusted"
