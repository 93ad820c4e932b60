"""The rules about calls in the syntax of Claude Code, and the files of settings that keep them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import Struct

from fairlead.config import json_files
from fairlead.config.settings import ApprovalAction, ApprovalRule
from fairlead.errors import ConfigError
from fairlead.policy import shell
from fairlead.protocol.claude import host as h

#: The tools whose calls are questions to the user. They are asked about in every mode.
INTERACTIVE = ("AskUserQuestion", "EnterPlanMode", "ExitPlanMode")
#: The tools that a rule about another name is about too.
_COVERED: Mapping[str, Sequence[str]] = {"Task": ("Agent",), "Edit": ("Edit", "Write"), "Write": ("Edit", "Write")}
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_./@:+-]+")
#: The arguments that rules about other tools name.
_NAMING = {"Agent": "subagent_type", "Task": "subagent_type", "Skill": "skill"}
_READERS = ("Read", "Glob", "Grep")


#: Whether rules of a source are kept in a file, or in memory. Others cannot be changed.
_EDITABILITY: Mapping[str, Literal["persistent", "session"]] = {
    "userSettings": "persistent",
    "projectSettings": "persistent",
    "localSettings": "persistent",
    "cliArg": "session",
    "session": "session",
}


class Destination(Struct, frozen=True):
    """A file of settings that keeps rules. `within` is the folder that it must be in, without links; None: it may be anywhere."""

    path: Path
    within: Path | None


class PermissionRules:
    """The rules and directories of a session by their source, and the files that keep them."""

    def __init__(
        self,
        rules: Mapping[str, Sequence[ApprovalRule]] | None = None,
        files: Mapping[str, Destination] | None = None,
        cwd: str = ".",
    ) -> None:
        self._rules = {source: list(found) for source, found in (rules or {}).items()}
        self._files = files or {}
        self._cwd = cwd

    def collect(self) -> list[ApprovalRule]:
        """Return the rules of all sources, and those that make sure that the user is asked."""
        asking = [ApprovalRule(action="ask", tool=name) for name in INTERACTIVE]
        return [*asking, *(rule for rules in self._rules.values() for rule in rules)]

    def describe(self) -> list[h.PermissionRule]:
        """Return all rules, for hosts that list them."""
        return [
            h.PermissionRule(
                behavior=rule.action,
                source=source,
                rule=rule.tool if rule.pattern is None else f"{rule.tool}({_write_pattern(rule.tool, rule.pattern)})",
                editability=_EDITABILITY.get(source, "readonly"),
            )
            for source, rules in self._rules.items()
            for rule in rules
        ]

    def replace(self, source: str, rules: Sequence[ApprovalRule]) -> None:
        """Use these rules of a source instead of those that it has."""
        self._rules[source] = list(rules)

    def change(self, update: h.AddRules | h.ReplaceRules | h.RemoveRules) -> None:
        """Change the rules as an update says."""
        rules, named = self._rules.setdefault(update.destination, []), self._read(update)
        if isinstance(update, h.ReplaceRules):
            rules[:] = [rule for rule in rules if rule.action != update.behavior]
        if isinstance(update, h.RemoveRules):
            rules[:] = [rule for rule in rules if rule not in named]
        else:
            rules += [rule for rule in named if rule not in rules]

    def _read(self, update: h.AddRules | h.ReplaceRules | h.RemoveRules) -> list[ApprovalRule]:
        return read_rules([format_rule(rule) for rule in update.rules], update.behavior, self._cwd)

    def save(self, update: h.AnyUpdate) -> None:
        """Write an update to the file of its destination, if it has one. Raises ConfigError; the file is then as it was."""
        file = self._files.get(update.destination)
        if file is None:
            return
        for path in (file.path, file.path.parent) if file.within is not None else ():
            if path.is_symlink():
                raise ConfigError(f"{path}: not changed, because it is a link, which may lead out of the project.")

        def change(content: dict[str, Any]) -> None:
            permissions = content.setdefault("permissions", {})
            if not isinstance(permissions, dict):
                raise ConfigError(f"{file.path}: not changed: permissions: expected an object.")
            _change_settings(cast("dict[str, Any]", permissions), update, str(file.path))

        json_files.update_object(file.path, change)


def _change_settings(permissions: dict[str, Any], update: h.AnyUpdate, name: str) -> None:
    """Change the `permissions` of a file of settings."""
    if isinstance(update, h.SetMode):
        permissions["defaultMode"] = update.mode
        return
    is_about_folders = isinstance(update, h.AddDirectories | h.RemoveDirectories)
    key = "additionalDirectories" if is_about_folders else update.behavior
    given = update.directories if is_about_folders else [format_rule(rule) for rule in update.rules]
    before: Any = permissions.get(key, [])
    if not isinstance(before, list):
        raise ConfigError(f"{name}: not changed: permissions.{key}: expected a list.")
    kept = [] if isinstance(update, h.ReplaceRules) else cast("list[Any]", before)
    if isinstance(update, h.RemoveRules | h.RemoveDirectories):
        permissions[key] = [each for each in kept if each not in given]
    else:
        permissions[key] = [*kept, *(each for each in dict.fromkeys(given) if each not in kept)]


# The syntax


def format_rule(rule: h.RuleValue) -> str:
    return rule.tool_name if rule.rule_content is None else f"{rule.tool_name}({rule.rule_content})"


def read_rules(texts: Sequence[str], action: ApprovalAction, cwd: str, root: str | None = None) -> list[ApprovalRule]:
    """Return rules such as `Bash(git *)` or `Read(//etc/**)` as rules of fairlead.

    Args:
        texts: The rules.
        action: What happens to the calls that they are about.
        cwd: The working directory, from which paths start.
        root: The directory from which paths start that begin with one slash; None: the working directory.
    """
    found: list[ApprovalRule] = []
    for text in texts:
        tool, has_content, content = text.strip().removesuffix(")").partition("(")
        if has_content and not content and action == "allow":
            continue  # what it is about was left out
        pattern = _read_pattern(tool, content, cwd if root is None else root) if has_content else None
        names = (tool, f"{tool}__*") if tool.startswith("mcp__") and tool.count("__") == 1 else _COVERED.get(tool, (tool,))
        if tool == "Read" and has_content:
            names = _READERS
        found += [ApprovalRule(action=action, tool=name, pattern=pattern) for name in names]
    return found


def _write_pattern(tool: str, pattern: str) -> str:
    """Return a pattern as it is written in a rule: an absolute path begins with two slashes."""
    return f"/{pattern}" if tool != "Bash" and pattern.startswith("/") else pattern


def _read_pattern(tool: str, content: str, root: str) -> str | None:
    if content in ("", "*"):
        return None
    if tool == "Bash":
        return f"{content[:-2]} *" if content.endswith(":*") else content
    if tool in ("Read", "Edit", "Write", "NotebookEdit", "Glob", "Grep"):
        if content.startswith("//"):
            return content[1:]
        if content.startswith("/"):
            return f"{root.rstrip('/')}{content}"
        if content.startswith("~/"):
            return content
        # As in .gitignore, a name without a slash is meant at every depth.
        return f"./{content.removeprefix('./')}" if "/" in content.rstrip("/") else content
    if tool in _NAMING:  # a quote inside a text is escaped, so this can only be the argument itself
        return f'*"{_NAMING[tool]}":"{content}"*'
    return content


def split_bare(rules: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names of tools among rules, and the other rules."""
    bare = ["Agent" if rule == "Task" else rule for rule in rules if "(" not in rule]
    return bare, [rule for rule in rules if "(" in rule]


def suggest_rules(line: str) -> list[h.RuleValue]:
    """Return rules for the commands of a line; none if a rule could mean more than it says."""
    if set(line) & set("*?\n\r\0") or not line.isprintable():
        return []
    found: list[str] = []
    for command in shell.plain_commands(line) or ():
        words = list(command.words)
        if not all(map(_PLAIN_WORD.fullmatch, words)):
            return []
        is_prefix = len(words) > 1 and not words[1].startswith("-")
        found.append(f"{words[0]} {words[1]} *" if is_prefix else " ".join(words))
    return [h.RuleValue(tool_name="Bash", rule_content=text) for text in dict.fromkeys(found or [line.strip()])]
