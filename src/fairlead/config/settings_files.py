"""settings.json: the user's, then the project's on top of it, key by key.

Names are pi's where pi has the setting. Every key is optional. A key with an unusable value is reported and its default used.
Keys that mean nothing to fairlead are ignored, with a warning unless pi has them: pi may read the file too.

A project comes with its repository, often from a stranger. A project that is not trusted may set only what is in FOR_ANY_PROJECT.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct

from fairlead.config import files, json_files
from fairlead.config.home import Home
from fairlead.config.settings import Settings
from fairlead.errors import ConfigError

#: Settings of which only a stricter value is taken from a project, and that are read as strictly as they may be meant.
GUARDING = ("approvals", "protectedPaths", "sandbox")
#: What every project may set, trusted or not. A setting belongs here only if no value of it can do harm: a stranger's repository
#: must not choose where prompts are sent, what is kept of them and where, what they cost, or which of the user's rules hold.
FOR_ANY_PROJECT = GUARDING
#: What no project may set, not even a trusted one: the programs that run here, who gets keys, whom to trust, and the time that
#: extensions have, since those that watch over calls would otherwise not be loaded.
NOT_FOR_PROJECTS = (
    "shellPath",
    "shellCommandPrefix",
    "passKeys",
    "defaultProjectTrust",
    "extensionTimeoutSeconds",
    "cacheWarming",
)

#: Lists of paths, which begin at the folder of the file they are in. A project adds to the user's.
PATHS = ("skills", "prompts", "extensions")


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
            if files.is_absent(path):
                continue
            within = home.boundary(cwd) if level == "project" else None
            values = _read(home, path, within, merged)
            if within is not None:
                from fairlead.config.restrictions import for_project

                values = for_project(values, home, cwd, path, approve, merged.get("defaultProjectTrust"), warnings)
            if isinstance(values.get("packages"), list):
                from fairlead.config.packages import missing_text

                warnings += [f"{path}: {missing_text(source)}" for source in values.pop("packages")]
            if any(key in values for key in GUARDING):
                from fairlead.config.restrictions import restricted

                merged = merged | restricted(values, merged, path, warnings, project=None if within is None else cwd)
            values = usable(values, path, warnings, home)
            merged = _merge(merged, {**values, **{key: [*merged.get(key, ()), *values[key]] for key in PATHS if key in values}})
        except ConfigError as error:
            warnings.append(str(error))
    return _shared(msgspec.convert(merged, Settings) if merged else Settings()), warnings


#: The settings that were loaded last.
_last: list[Settings] = []


def _shared(settings: Settings) -> Settings:
    """Return the settings that were loaded last, if they are equal: the sessions of a server usually have the same ones."""
    if _last and _last[0] == settings:
        return _last[0]
    _last[:] = [settings]
    return settings


def _read(home: Home, path: Path, within: Path | None, merged: dict[str, Any]) -> dict[str, Any]:
    """Return what a settings file says. Raises ConfigError, and makes `merged` stricter, if that cannot be found out."""
    largest = files.LARGEST_FILE if within is None else files.LARGEST_PROJECT_FILE
    data: bytes | None = None
    try:
        data = files.read_if_present(path, within=within, largest=largest)
        return {} if data is None else parse_settings(home, path, data)
    except ConfigError as error:
        from fairlead.config.restrictions import closed

        changed, meaning = closed(data, merged, of_project=within is not None)
        merged |= changed
        raise ConfigError(f"{error} {meaning}".rstrip()) from error


def parse_settings(home: Home, path: Path, data: bytes) -> dict[str, Any]:
    """Return what a settings file says, under fairlead's names. Raises ConfigError if it cannot be understood."""
    if path.suffix == ".json":
        values = json_files.parse_object(path, data)
    else:
        from fairlead.config import yaml_files

        values = yaml_files.parse_object(path, data)
    if home.is_of_peer(path):
        from fairlead.config.peer_settings import from_peer

        return from_peer(values, path.parent, omp=home.has_omp_layout)
    if "packages" in values:
        from fairlead.config.packages import with_packages

        return with_packages(values, path.parent)
    return values


def remark(texts: Sequence[str]) -> None:
    """Log what hosts of a peer should not see on stderr, because the peer does not mention it there either."""
    import logging

    logging.getLogger("fairlead.config").info("%s", "\n".join(texts))


def usable(values: dict[str, Any], path: Path, warnings: list[str], home: Home) -> dict[str, Any]:
    """Return the settings of a file that can be used, with paths that begin at its directory. Each other one leaves a warning.

    A file of a peer may have values that only the peer understands, which is only worth a line in the log.
    """
    of_peer = home.is_of_peer(path)
    problems: list[str] = [] if of_peer else warnings
    if values.get("extensions"):
        values = {**values, "extensions": _all_named(values["extensions"])}
    found = _usable(values, Settings, path, "", problems)
    if of_peer and problems:
        remark(problems)
    for key in PATHS:
        if key in found:
            found[key] = [name if name.startswith("~") else str(path.parent / name) for name in found[key]]
    return found


def _all_named(extensions: Any) -> list[str]:
    """Return a list of extensions with a name for each entry. What is not a name cannot be loaded, but it must not be skipped:
    it may be meant to protect the user."""
    entries = cast("list[Any]", extensions) if isinstance(extensions, list) else [extensions]
    return [each if isinstance(each, str) else msgspec.json.encode(each).decode() for each in entries]


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
        _usable({group: {name: value} if dot else value}, Settings, home.settings_path, "", problems)
    if problems:
        raise ConfigError(problems[0])
    _write(home.settings_path, key, value)


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
    from fairlead.config import yaml_files

    yaml_files.change_value(path, key, value)


@cache
def fields_of(group: type[Struct]) -> dict[str, Any]:
    """Return the type of each setting in a group, by its name in the file. Working them out takes a millisecond."""
    return {field.encode_name: field.type for field in msgspec.structs.fields(group)}


def _usable(values: dict[str, Any], group: type[Struct], path: Path, prefix: str, warnings: list[str]) -> dict[str, Any]:
    """`values` without those that `group` cannot hold, each of which leaves a warning. null means absent."""
    fields = fields_of(group)
    usable: dict[str, Any] = {}
    for key, value in values.items():
        kind = fields.get(key)
        name = f"{prefix}{key}"
        if kind is None:
            from fairlead.config.unknown_keys import KNOWN_TO_PI, unknown_key

            if name not in KNOWN_TO_PI:
                warnings.append(f"{path}: {unknown_key(name, [prefix + each for each in fields])}")
            continue
        if value is None:
            continue
        if isinstance(kind, type) and issubclass(kind, Struct):
            if isinstance(value, dict):
                usable[key] = _usable(cast("dict[str, Any]", value), kind, path, f"{name}.", warnings)
            else:
                warnings.append(_unusable(path, name, "an object", value))
            continue
        try:
            msgspec.convert(value, cast("Any", kind))
        except msgspec.ValidationError:
            warnings.append(_unusable(path, name, _expected(kind), value))
        else:
            usable[key] = value
    return usable


def _unusable(path: Path, name: str, expected: str, value: Any) -> str:
    return f"{path}: {name}: expected {expected}, found {json_files.found(value)}. The default is used."


def _expected(kind: Any) -> str:
    """Return what a setting of this type can be, in words."""
    from msgspec import inspect

    return _in_words(inspect.type_info(kind))


def _in_words(info: Any) -> str:
    from msgspec import inspect

    match info:
        case inspect.UnionType(types=types):
            return " or ".join(_in_words(each) for each in types if not isinstance(each, inspect.NoneType))
        case inspect.LiteralType(values=values):
            return "one of " + ", ".join(f'"{value}"' for value in values)
        case inspect.BoolType():
            return "true or false"
        case inspect.StrType():
            return "a string"
        case inspect.IntType(ge=least):
            return "a whole number" if least is None else f"a whole number of at least {least}"
        case inspect.FloatType(gt=bound):
            return "a number" if bound is None else f"a number above {bound:g}"
        case inspect.ListType():
            return "a list of strings"
        case inspect.DictType(value_type=inspect.StrType()):
            return "an object of strings"
        case _:
            return "an object of thinking levels and numbers"


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` on top of `base`; objects are merged, everything else is replaced."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            value = _merge(cast("dict[str, Any]", old), cast("dict[str, Any]", value))
        merged[key] = value
    return merged
