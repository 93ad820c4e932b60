"""settings.json: the user's, then the project's on top of it, key by key.

Names are pi's where pi has the setting. Every key is optional. A key with an unusable value is reported and its default used.
Keys that mean nothing to fairlead are ignored, with a warning unless pi has them: pi may read the file too.

A project comes with its repository, often from a stranger. A project that is not trusted may set only what is in FOR_ANY_PROJECT.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import msgspec

from fairlead.config import json_files, packages, project_files, restrictions
from fairlead.config.home import Home
from fairlead.config.settings import GUARDING, PATHS, ApprovalRule, Settings
from fairlead.config.settings_parsing import parse_settings, usable, usable_values
from fairlead.errors import ConfigError


def load_settings(home: Home, cwd: Path, *, approve: bool | None = None) -> tuple[Settings, list[str]]:
    """Load the settings for a run in `cwd`.

    Whether the project is trusted is decided by what is known now, without asking: `approve`, trust.json, then
    `defaultProjectTrust`. A project that is trusted later has its settings from the next start on.

    Args:
        approve: Whether the project is trusted in this run; None: what the user has said before.

    Returns:
        The settings, and a sentence for everything in the files that could not be used.
    """
    warnings: list[str] = []
    merged: dict[str, Any] = {}
    for level, path in home.settings_files(cwd):
        try:
            if project_files.is_absent(path):
                continue
            within = home.boundary(cwd) if level == "project" else None
            values = _read(home, path, within, merged)
            if within is not None:
                values = restrictions.for_project(values, home, cwd, path, approve, merged.get("defaultProjectTrust"), warnings)
            if isinstance(values.get("packages"), list):
                warnings += [f"{path}: {packages.missing_text(source)}" for source in values.pop("packages")]
            if any(key in values for key in GUARDING):
                merged = merged | restrictions.merge_restrictions(
                    values, merged, path, warnings, project=None if within is None else cwd
                )
            values = usable(values, path, warnings, home)
            merged = _merge(merged, {**values, **{key: [*merged.get(key, ()), *values[key]] for key in PATHS if key in values}})
        except ConfigError as error:
            warnings.append(str(error))
    return _share_equal(msgspec.convert(merged, Settings) if merged else Settings()), warnings


#: The settings that were loaded last.
_last: list[Settings] = []


def _share_equal(settings: Settings) -> Settings:
    """Return the settings that were loaded last, if they are equal: the sessions of a server usually have the same ones."""
    if _last and _last[0] == settings:
        return _last[0]
    _last[:] = [settings]
    return settings


def _read(home: Home, path: Path, within: Path | None, merged: dict[str, Any]) -> dict[str, Any]:
    """Return what a settings file says. Raises ConfigError, and makes `merged` stricter, if that cannot be found out."""
    largest = project_files.LARGEST_FILE if within is None else project_files.LARGEST_PROJECT_FILE
    data: bytes | None = None
    try:
        data = project_files.read_if_present(path, within=within, largest=largest)
        return {} if data is None else parse_settings(home, path, data)
    except ConfigError as error:
        changed, meaning = restrictions.fail_closed(data, merged, of_project=within is not None)
        merged |= changed
        raise ConfigError(f"{error} {meaning}".rstrip()) from error


def persist_setting(home: Home, key: str, value: Any) -> None:
    """Write one key (`"steeringMode"`, `"retry.enabled"`) to the user's settings; None takes it out.

    A `"defaultModel"` may be given with its provider: `"provider/id"`.
    Raises ConfigError if the value is not one the key can have, or the file cannot be changed.
    """
    home.refuse_if_shared("The settings of the server")
    if home.isolated:
        raise ConfigError("Settings are not saved in an isolated run.")
    if key == "defaultModel" and isinstance(value, str):
        _write_model(home, value)
        return
    problems: list[str] = []
    if value is not None:
        group, dot, name = key.partition(".")
        usable_values({group: {name: value} if dot else value}, Settings, home.settings_path, "", problems)
    if problems:
        raise ConfigError(problems[0])
    _write(home.settings_path, key, value)


def can_persist_rules(home: Home) -> bool:
    """Return whether rules about approvals can be added to the user's settings: not to those of an isolated run, of a server with
    several users, or in YAML."""
    return not (home.isolated or home.is_shared) and home.settings_path.suffix == ".json"


def persist_approval_rule(home: Home, rule: ApprovalRule) -> None:
    """Add a rule to `approvals.rules` in the user's settings, unless it is there. Raises ConfigError if that is not possible."""
    home.refuse_if_shared("The settings of the server")
    if not can_persist_rules(home):
        raise ConfigError("Rules cannot be saved in these settings.")
    entry = {"tool": rule.tool, "pattern": rule.pattern, "action": rule.action, "project": rule.project}
    entry = {key: value for key, value in entry.items() if value is not None}

    def change(content: dict[str, Any]) -> None:
        approvals: Any = {} if content.get("approvals") is None else content["approvals"]
        rules: Any = cast("dict[str, Any]", approvals).get("rules", []) if isinstance(approvals, dict) else None
        if not isinstance(rules, list):
            raise ConfigError(f"{home.settings_path}: approvals.rules: expected a list of rules. Correct the file first.")
        known = cast("list[Any]", rules)
        content["approvals"] = approvals | {"rules": known if entry in known else [*known, entry]}

    json_files.update_object(home.settings_path, change)


def _write_model(home: Home, name: str) -> None:
    if home.has_omp_layout:
        _write(home.settings_path, "modelRoles.default", name)
        return
    provider, slash, model_id = name.partition("/")
    if slash:
        _write(home.settings_path, "defaultProvider", provider)
    _write(home.settings_path, "defaultModel", model_id if slash else name)


def _write(path: Path, key: str, value: Any) -> None:
    if path.suffix == ".json":
        json_files.change_object(path, key, value)
        return
    from fairlead.config import yaml_files  # noqa: PLC0415  loads yaml, in 12 ms

    yaml_files.change_value(path, key, value)


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` on top of `base`; objects are merged, everything else is replaced."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            value = _merge(cast("dict[str, Any]", old), cast("dict[str, Any]", value))
        merged[key] = value
    return merged
