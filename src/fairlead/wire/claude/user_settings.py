"""What the settings of Claude Code say about consent: rules that allow, deny, or ask.

The rules of a project that allow something are not used: a project is not trusted. Its rules that deny or ask are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from fairlead.config.settings import ApprovalAction, ApprovalRule
from fairlead.core import lenient
from fairlead.errors import ConfigError
from fairlead.wire.claude.consent import read_rules

_ACTIONS: Sequence[ApprovalAction] = ("allow", "ask", "deny")


def read_settings(
    folder: Path, cwd: Path, flag: str | None, sources: Sequence[str] | None
) -> tuple[list[ApprovalRule], list[str]]:
    """Read the settings.

    Args:
        folder: The folder with the settings of the user.
        cwd: The working directory.
        flag: The value of `--settings`: a file, or JSON.
        sources: Which of user, project and local to read. None: all.

    Returns:
        The rules, and a remark for each setting that is not used.

    Raises:
        ConfigError: A file cannot be read, or it has a hook that guards tool calls, which fairlead does not run.
    """
    files = {
        "user": folder / "settings.json",
        "project": cwd / ".claude" / "settings.json",
        "local": cwd / ".claude" / "settings.local.json",
    }
    rules: list[ApprovalRule] = []
    remarks: list[str] = []
    for source, path in files.items():
        if sources is None or source in sources:
            _use(_read_file(path), str(path), cwd, rules, remarks, is_trusted=source == "user")
    if flag is not None:
        value = _decode(flag, "--settings") if flag.lstrip().startswith("{") else _read_file(Path(flag), must_exist=True)
        _use(value, "--settings", cwd, rules, remarks, is_trusted=True)
    return rules, remarks


def _use(value: dict[str, Any], name: str, cwd: Path, rules: list[ApprovalRule], remarks: list[str], *, is_trusted: bool) -> None:
    hooks = _object(value, "hooks", name)
    if hooks.get("PreToolUse"):
        raise ConfigError(
            f"{name}: hooks.PreToolUse guards tool calls, and fairlead does not run commands as hooks. "
            "Remove it, or start with --setting-sources= to use no settings files."
        )
    remarks += [f"{name}: hooks.{event} is not used" for event in hooks]
    permissions = _object(value, "permissions", name)
    for action in _ACTIONS:
        texts: Any = permissions.get(action, [])
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in cast("list[Any]", texts)):
            raise ConfigError(f"{name}: permissions.{action}: expected a list of rules")
        if action == "allow" and not is_trusted:
            remarks += [f"{name}: permissions.allow is not used, because the project is not trusted"] if texts else []
        else:
            rules += read_rules(cast("list[str]", texts), action, str(cwd))


def _object(value: dict[str, Any], key: str, name: str) -> dict[str, Any]:
    inner = value.get(key, {})
    if not isinstance(inner, dict):
        raise ConfigError(f"{name}: {key}: expected an object")
    return cast("dict[str, Any]", inner)


def _read_file(path: Path, *, must_exist: bool = False) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        if must_exist:
            raise ConfigError(f"--settings {path}: there is no such file") from None
        return {}
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    return _decode(text, str(path)) if text.strip() else {}


def _decode(text: str, name: str) -> dict[str, Any]:
    try:
        value = lenient.decode(text)
    except ValueError:
        raise ConfigError(f"{name}: expected JSON") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{name}: expected an object")
    return cast("dict[str, Any]", value)
