"""Reads one settings file: its values under fairlead's names, and what of them can be used."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct, inspect

from fairlead.config import json_files, packages, project_files
from fairlead.config.home import Home
from fairlead.config.settings import PATHS, Settings

_log = logging.getLogger("fairlead.config")


def parse_settings(home: Home, path: Path, data: bytes) -> dict[str, Any]:
    """Return what a settings file says, under fairlead's names. Raises ConfigError if it cannot be understood."""
    if path.suffix == ".json":
        values = json_files.parse_object(path, data)
    else:
        from fairlead.config import yaml_files  # noqa: PLC0415  loads yaml, in 12 ms

        values = yaml_files.parse_object(path, data)
    if home.is_of_peer(path):
        return packages.from_peer(values, path.parent, omp=home.has_omp_layout)
    if "packages" in values:
        return packages.with_packages(values, path.parent)
    return values


def usable(values: dict[str, Any], path: Path, warnings: list[str], home: Home) -> dict[str, Any]:
    """Return the settings of a file that can be used, with paths that begin at its directory. Each other one leaves a warning.

    A file of a peer may have values that only the peer understands, which is only worth a line in the log.
    """
    of_peer = home.is_of_peer(path)
    problems: list[str] = [] if of_peer else warnings
    if values.get("extensions"):
        values = {**values, "extensions": _list_all_names(values["extensions"])}
    found = usable_values(values, Settings, path, "", problems)
    if of_peer and problems:
        remark(problems)
    for key in PATHS:
        if key in found:
            found[key] = [name if name.startswith("~") else str(path.parent / name) for name in found[key]]
    return found


def _list_all_names(extensions: Any) -> list[str]:
    """Return a list of extensions with a name for each entry. What is not a name cannot be loaded, but it must not be skipped:
    it may be meant to protect the user."""
    entries = cast("list[Any]", extensions) if isinstance(extensions, list) else [extensions]
    return [each if isinstance(each, str) else msgspec.json.encode(each).decode() for each in entries]


@cache
def fields_of(group: type[Struct]) -> dict[str, Any]:
    """Return the type of each setting in a group, by its name in the file. Working them out takes a millisecond."""
    return {field.encode_name: field.type for field in msgspec.structs.fields(group)}


def usable_values(values: dict[str, Any], group: type[Struct], path: Path, prefix: str, warnings: list[str]) -> dict[str, Any]:
    """`values` without those that `group` cannot hold, each of which leaves a warning. null means absent."""
    fields = fields_of(group)
    usable: dict[str, Any] = {}
    for key, value in values.items():
        kind = fields.get(key)
        name = f"{prefix}{key}"
        if kind is None:
            if name not in KNOWN_TO_PI:
                warnings.append(f"{path}: {unknown_key(name, [prefix + each for each in fields])}")
            continue
        if value is None:
            continue
        if isinstance(kind, type) and issubclass(kind, Struct):
            if isinstance(value, dict):
                usable[key] = usable_values(cast("dict[str, Any]", value), kind, path, f"{name}.", warnings)
            else:
                warnings.append(_unusable(path, name, "an object", value))
            continue
        try:
            msgspec.convert(value, cast("Any", kind))
        except msgspec.ValidationError:
            warnings.append(_unusable(path, name, _describe_expected(kind), value))
        else:
            usable[key] = value
    return usable


def _unusable(path: Path, name: str, expected: str, value: Any) -> str:
    return f"{path}: {name}: expected {expected}, found {json_files.describe_value(value)}. The default is used."


def _describe_expected(kind: Any) -> str:
    """Return what a setting of this type can be, in words."""
    return _in_words(inspect.type_info(kind))


def _in_words(info: Any) -> str:
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


def keep_inside(key: str, value: Any, home: Home, cwd: Path, path: Path, warnings: list[str]) -> Any:
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
        return not name.startswith("~") and project_files.is_inside(Path(os.path.realpath(folder / name)), within)
    except ValueError:  # a null character
        return False


def remark(texts: Sequence[str]) -> None:
    """Log what hosts of a peer should not see on stderr, because the peer does not mention it there either."""

    _log.info("%s", "\n".join(texts))


#: Keys that are not fairlead's but may be in its files, because pi reads and writes them, or editors do.
KNOWN_TO_PI = frozenset(
    """$schema packages themes theme transport terminal markdown warnings quietStartup collapseChangelog lastChangelogVersion
    hideThinkingBlock doubleEscapeAction treeFilterMode editorPaddingX outputPad autocompleteMaxVisible showHardwareCursor
    showCacheMissNotices enableInstallTelemetry enableAnalytics externalEditor npmCommand branchSummary httpProxy
    websocketConnectTimeoutMs cacheWarming defaultTools modelThinkingLevels compaction.modelOverrides retry.provider
    useTheme tuiMode""".split()
)


def unknown_key(name: str, known: Iterable[str]) -> str:
    """Return the warning about a key that fairlead does not know, with the nearest one that it does."""
    return f"{name}: there is no such key, so it has no effect.{nearest_key(name, known)}"


def nearest_key(name: str, known: Iterable[str]) -> str:
    """Return the question whether the nearest known key was meant, after a space; an empty text if none is near."""
    near = difflib.get_close_matches(name, list(known), 1, 0.7)
    return f" Did you mean {near[0]}?" if near else ""
