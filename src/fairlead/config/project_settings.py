"""Decides which settings of a project apply, and which have to wait until the project is trusted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct

from fairlead.config import files, json_files
from fairlead.config.home import Home
from fairlead.config.settings import FOR_ANY_PROJECT, NOT_FOR_PROJECTS, PATHS, Settings, usable
from fairlead.errors import ConfigError

#: What `project_extensions` reads: the project may become trusted after the settings have been loaded.
_READ_LATER = ("extensions",)


def for_project(
    values: dict[str, Any],
    home: Home,
    cwd: Path,
    path: Path,
    approve: bool | None,
    default_trust: Any,
    warnings: list[str],
) -> dict[str, Any]:
    """Return the settings of a project that apply.

    Args:
        values: What the project's file says.
        cwd: The project's directory.
        path: The file.
        approve: Whether the project is trusted in this run; None: not decided.
        default_trust: The user's `defaultProjectTrust`, as it is in the user's file.
        warnings: Gets a sentence for each setting that does not apply.
    """
    given = {key: value for key, value in values.items() if value is not None and key not in _READ_LATER}
    refused = [key for key in given if key in NOT_FOR_PROJECTS]
    warnings += [f"{path}: {key} is ignored in a project; set it in your own settings." for key in refused]
    if _is_trusted(home, cwd, approve, default_trust, warnings):
        counts = {key: value for key, value in given.items() if key not in refused}
        return {key: _inside(key, value, home, cwd, path, warnings) for key, value in counts.items()}
    ignored = [name for key in given if key not in (*FOR_ANY_PROJECT, *refused) for name in _setting_names(key, given[key])]
    if ignored:
        from fairlead.config.trust import how_to_trust

        warnings.append(f"{path}: ignored, because the project is not trusted: {', '.join(ignored)}. {how_to_trust(cwd)}")
    return {key: value for key, value in given.items() if key in FOR_ANY_PROJECT}


def project_extensions(home: Home, cwd: Path, warnings: list[str]) -> list[str]:
    """Return the paths of extensions that a project's settings name. The caller decides whether the project may have any."""
    for level, path in home.settings_files(cwd):
        if level == "project":
            try:
                data = files.read_bytes(path, within=home.boundary(cwd), largest=files.LARGEST_PROJECT_FILE)
                named = json_files.parse_object(path, data or b"").get("extensions")
            except ConfigError:  # it was reported when the settings were loaded
                return []
            return usable({"extensions": _inside("extensions", named, home, cwd, path, warnings)}, path, warnings).get(
                "extensions", []
            )
    return []


def _is_trusted(home: Home, cwd: Path, approve: bool | None, default_trust: Any, warnings: list[str]) -> bool:
    if approve is not None:
        return approve
    from fairlead.config.trust import saved_decision

    try:
        saved = saved_decision(home, cwd)
    except ConfigError as error:
        warnings.append(f"{error} No project is trusted by it.")
        return False
    return default_trust == "always" if saved is None else saved


def _setting_names(key: str, value: Any) -> list[str]:
    """Return the settings that a key of the file sets, as the documentation calls them; none if the key means nothing here."""
    kind = next((field.type for field in msgspec.structs.fields(Settings) if field.encode_name == key), None)
    if kind is None:
        return []
    if not isinstance(value, dict) or not (isinstance(kind, type) and issubclass(kind, Struct)):
        return [key]
    known = {field.encode_name for field in msgspec.structs.fields(kind)}
    return [f"{key}.{name}" for name in cast("dict[str, Any]", value) if name in known]


def _inside(key: str, value: Any, home: Home, cwd: Path, path: Path, warnings: list[str]) -> Any:
    """Return a list of paths without those that lead out of the project; any other value as it is."""
    within = home.boundary(cwd)
    if key not in PATHS or not isinstance(value, list) or within is None:
        return cast("Any", value)
    kept: list[Any] = []
    for name in cast("list[Any]", value):
        if isinstance(name, str) and not _leads_into(name, path.parent, within):
            warnings.append(f"{path}: {key}: {name} is ignored: it is outside the project {within}.")
        else:
            kept.append(name)
    return kept


def _leads_into(name: str, folder: Path, within: Path) -> bool:
    try:
        return not name.startswith("~") and files.is_inside(Path(os.path.realpath(folder / name)), within)
    except ValueError:  # a null character
        return False
