"""Reads the settings that restrict an agent: approvals, protected files, the sandbox.

Two things set them apart from other settings. A project may make them stricter, but not looser: it comes with its repository, and
often from a stranger. And what cannot be understood in them is read as the stricter of what it may have meant.
"""

from __future__ import annotations

import os
import re
from itertools import takewhile
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from fairlead.config.home import Home
from fairlead.config.json_files import describe_value
from fairlead.config.settings import FOR_ANY_PROJECT, GUARDING, NOT_FOR_PROJECTS, Settings
from fairlead.config.settings_parsing import fields_of, keep_inside, nearest_key, remark
from fairlead.config.trust import find_saved_decision, format_trust_hint
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
    problems = [f"{path}: {key} is ignored in a project; set it in your own settings." for key in refused]
    if home.is_of_peer(path):
        remark(problems)
    else:
        warnings += problems
    if _is_trusted(home, cwd, approve, default_trust, warnings):
        counts = {key: value for key, value in given.items() if key not in refused}
        return {key: keep_inside(key, value, home, cwd, path, warnings) for key, value in counts.items()}
    ignored = [name for key in given if key not in (*FOR_ANY_PROJECT, *refused) for name in _setting_names(key, given[key])]
    if ignored:
        text = f"{path}: ignored, because the project is not trusted: {', '.join(ignored)}. {format_trust_hint(cwd)}"
        if home.is_of_peer(path):
            remark([text])
        else:
            warnings.append(text)
    return {key: value for key, value in given.items() if key in FOR_ANY_PROJECT}


def _is_trusted(home: Home, cwd: Path, approve: bool | None, default_trust: Any, warnings: list[str]) -> bool:
    if approve is not None:
        return approve

    try:
        saved = find_saved_decision(home, cwd)
    except ConfigError as error:
        warnings.append(f"{error} No project is trusted by it.")
        return False
    return default_trust == "always" if saved is None else saved


def _setting_names(key: str, value: Any) -> list[str]:
    """Return the settings that a key of the file sets, as the documentation calls them; none if the key means nothing here."""
    kind = fields_of(Settings).get(key)
    if kind is None:
        return []
    if not isinstance(value, dict) or not (isinstance(kind, type) and issubclass(kind, Struct)):
        return [key]
    known = fields_of(kind)
    return [f"{key}.{name}" for name in cast("dict[str, Any]", value) if name in known]


#: How many protected paths and rules a project can have, and how long and ambiguous a pattern of it can be. All of them are
#: compared with every file or command.
_MOST_PATTERNS = 100
_MOST_RULES = 200
_LONGEST_PATTERN = 500
_MOST_WILDCARDS = 10
_STRICTNESS = ("auto", "write", "ask", "deny")
_ACTIONS = ("allow", "ask", "deny")
_SANDBOXES = ("off", "workspace")
_APPROVAL_KEYS = ("mode", "rules", "timeoutSeconds")
_ASKED = 'Until that is corrected, everything is asked for that changes something (approvals.mode "ask").'


def merge_restrictions(
    values: dict[str, Any], before: dict[str, Any], path: Path, warnings: list[str], *, project: Path | None
) -> dict[str, Any]:
    """Return the restrictions after one more file, and remove its keys from `values`.

    `before` holds the settings from other files so far. Mistakes in the file `path` become `warnings`. `project` is the directory
    of the project that the file belongs to, or None if it is the user's own.
    """
    given = {key: values.pop(key) for key in GUARDING if values.get(key) is not None}
    if not given:
        return {}
    reading = _Reading(path, warnings, project)
    changed: dict[str, Any] = {}
    approvals = cast("dict[str, Any]", before.get("approvals", {}))
    if "protectedPaths" in given:
        changed["protectedPaths"] = [*before.get("protectedPaths", ()), *reading.read_protected(given["protectedPaths"])]
    if "sandbox" in given:
        changed["sandbox"] = reading.sandbox(given["sandbox"], before.get("sandbox", "off"))
    if "approvals" in given:
        approvals = changed["approvals"] = reading.approvals(given["approvals"], approvals)
    if reading.doubtful:
        changed["approvals"] = approvals | {"mode": stricter(approvals.get("mode", "auto"), "ask")}
    return changed


def fail_closed(data: bytes | None, before: dict[str, Any], *, of_project: bool) -> tuple[dict[str, Any], str]:
    """Return the restrictions to use when a file exists but cannot be understood, and a sentence that says so.

    The file may have held rules for any tool and protected any file. So a rule asks for every call, whatever `--approval` says.

    Args:
        data: The contents of a file that is not JSON. If no restriction is named in it, nothing changes. None: the file
            could not be read, so it may hold any of them. Only the user's file demands the sandbox then: a link in a stranger's
            repository should not keep an agent from starting where there is no sandbox, and every command is asked for anyway.
        before: What other files have said so far.
        of_project: Whether the file is the project's.
    """
    text = None if data is None else data.replace(b"\0", b"").lower()  # the file may be UTF-16
    # Without the plural: omp calls its setting approvalMode.
    named = [key for key in GUARDING if text is None or key.lower().removesuffix("s").encode() in text]
    if not of_project and text is not None:
        # Extensions that the user names may watch over calls, and those of this file are not loaded.
        named += [key for key in ("extensions", "packages") if key.encode() in text]
    if not named:
        return {}, ""
    approvals = cast("dict[str, Any]", before.get("approvals", {}))
    ask_always = {"tool": "*", "action": "ask", "onlyStricter": True}
    changed: dict[str, Any] = {
        "approvals": approvals
        | {"mode": stricter(approvals.get("mode", "auto"), "ask"), "rules": [*approvals.get("rules", ()), ask_always]}
    }
    means = (
        f"It {'may set' if text is None else 'names'} {', '.join(named)}. Until the file is corrected or removed, every call of"
    )
    means += ' a tool is asked for (approvals.mode "ask", and a rule for all tools)'
    if "sandbox" in named and not (text is None and of_project):
        changed["sandbox"] = "workspace"
        means += ", and commands run in the sandbox. To start without the sandbox, pass --sandbox off"
    other = "" if of_project else " To use other settings, set FAIRLEAD_HOME to another directory."
    return changed, f"{means}.{other}"


def stricter(one: str, other: str) -> str:
    """Return the stricter of two approval modes."""
    return max(one, other, key=_STRICTNESS.index)


class _Reading:
    """Reads the restrictions of one file."""

    def __init__(self, path: Path, warnings: list[str], project: Path | None) -> None:
        #: Something that may have been meant to forbid could not be understood.
        self.doubtful = False
        self._path = path
        self._warnings = warnings
        self._project = project
        self._of_project = project is not None

    def approvals(self, value: Any, before: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(value, dict):
            self._doubt("approvals", "an object", value)
            return before
        given = cast("dict[str, Any]", value)
        result = dict(before)
        for key in given:
            if key not in _APPROVAL_KEYS:
                near = nearest_key(f"approvals.{key}", (f"approvals.{known}" for known in _APPROVAL_KEYS))
                self._doubt_text(f"approvals.{key}: there is no such key.{near}")
        mode = given.get("mode")
        if mode is not None:
            if mode not in _STRICTNESS:
                self._doubt("approvals.mode", _one_of(_STRICTNESS), mode)
            elif not self._of_project or stricter(before.get("mode", "auto"), mode) == mode:
                result["mode"] = mode
            else:
                self._only_stricter("approvals.mode")
        if given.get("rules") is not None:
            result["rules"] = [*before.get("rules", ()), *self._rules(given["rules"])]
        if given.get("timeoutSeconds") is not None:
            self._timeout(given["timeoutSeconds"], result)
        return result

    def read_protected(self, value: Any) -> list[str]:
        if not isinstance(value, list):
            self._doubt("protectedPaths", "a list of strings", value)
            return []
        paths: list[str] = []
        given = cast("list[Any]", value)
        for index, each in enumerate(given[:_MOST_PATTERNS] if self._of_project else given):
            if not isinstance(each, str) or not each.removeprefix("!"):
                self._doubt(f"protectedPaths[{index}]", "the path of a file, or a pattern", each)
            elif self._of_project and each.startswith("!"):
                self._only_stricter(f"protectedPaths[{index}]")
            elif self._project is not None:
                paths += self._inside(each, f"protectedPaths[{index}]", self._project)
            else:
                paths.append(each)
        if self._of_project and len(given) > _MOST_PATTERNS:
            self._doubt_text(f"protectedPaths: a project can have at most {_MOST_PATTERNS} of them, found {len(given)}.")
        return paths

    def _inside(self, pattern: str, name: str, project: Path) -> list[str]:
        """Return a pattern of a project as an absolute one for the project alone; none if it is about files elsewhere.

        A stranger's repository must not make fairlead search the whole disk.
        """
        if _is_costly(pattern):
            self._doubt_text(f"{name}: the pattern is too long, or has more than {_MOST_WILDCARDS} wildcards.")
            return []
        parts = Path(pattern).parts
        fixed = list(takewhile(lambda part: not set("*?") & set(part), parts))
        try:
            leads_out = not Path(os.path.realpath(project.joinpath(*fixed))).is_relative_to(os.path.realpath(project))
        except ValueError:  # a null character
            leads_out = True
        if pattern.startswith("~") or ".." in parts or leads_out:
            self._warnings.append(f"{self._path}: {name}: {pattern} is ignored: it is outside the project {project}.")
            return []
        return [str(project / pattern) if "/" in pattern.rstrip("/") else str(project / "**" / pattern)]

    def sandbox(self, value: Any, before: str) -> str:
        if value not in _SANDBOXES:
            expected = f"sandbox: expected {_one_of(_SANDBOXES)}, found {describe_value(value)}."
            self._warnings.append(f"{self._path}: {expected} Commands are kept in the sandbox.")
            return "workspace"
        if self._of_project and before == "workspace" and value == "off":
            self._only_stricter("sandbox")
            return before
        return value

    def _rules(self, value: Any) -> list[dict[str, Any]]:
        if not isinstance(value, list):
            self._doubt("approvals.rules", "a list of rules", value)
            return []
        rules: list[dict[str, Any]] = []
        given = cast("list[Any]", value)
        if self._of_project and len(given) > _MOST_RULES:
            problem = f": a project can have at most {_MOST_RULES}, found {len(given)}."
            return [self._doubtful_rule("approvals.rules", problem, None)]
        for index, each in enumerate(given):
            name = f"approvals.rules[{index}]"
            problem = _wrong_with(each, of_project=self._of_project)
            if problem is None and self._of_project and _is_costly(each.get("pattern", "")):
                problem = f".pattern: it is too long, or has more than {_MOST_WILDCARDS} wildcards."
            if problem is not None:
                rules.append(self._doubtful_rule(name, problem, each))
            elif self._of_project and each["action"] == "allow":
                self._only_stricter(name)
            else:
                rules.append(each | {"onlyStricter": self._of_project})
        return rules

    def _doubtful_rule(self, name: str, problem: str, rule: Any) -> dict[str, Any]:
        """Replace a rule that cannot be understood by one that asks for all calls it may be about."""
        tool = cast("dict[str, Any]", rule).get("tool") if isinstance(rule, dict) else None
        about = tool if isinstance(tool, str) and tool else "*"
        which = f"every call of {about}" if about != "*" else "every call of a tool"
        self._warnings.append(f"{self._path}: {name}{problem} Until that is corrected, {which} is asked for.")
        return {"tool": about, "action": "ask", "onlyStricter": True}

    def _timeout(self, seconds: Any, result: dict[str, Any]) -> None:
        if self._of_project:
            self._warnings.append(f"{self._path}: approvals.timeoutSeconds is ignored in a project; set it in your own settings.")
        elif isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < float("inf"):
            text = f"approvals.timeoutSeconds: expected a number above 0, found {describe_value(seconds)}. The default is used."
            self._warnings.append(f"{self._path}: {text}")
        else:
            result["timeoutSeconds"] = seconds

    def _only_stricter(self, name: str) -> None:
        text = "is ignored: a project can make approvals stricter, but not looser. Set it in your own settings."
        self._warnings.append(f"{self._path}: {name} {text}")

    def _doubt(self, name: str, expected: str, value: Any) -> None:
        self._doubt_text(f"{name}: expected {expected}, found {describe_value(value)}.")

    def _doubt_text(self, text: str) -> None:
        self.doubtful = True
        self._warnings.append(f"{self._path}: {text} {_ASKED}")


def _wrong_with(rule: Any, *, of_project: bool) -> str | None:
    """Return why a value is not a rule; None if it is one."""
    if not isinstance(rule, dict):
        return f": expected an object with tool, pattern and action, found {describe_value(rule)}."
    fields = cast("dict[str, Any]", rule)
    keys = ("tool", "pattern", "action") if of_project else ("tool", "pattern", "action", "project")
    unknown = next((key for key in fields if key not in keys), None)
    if unknown is not None:
        return f".{unknown}: a rule has tool, pattern and action, but not this."
    if "project" in fields and not (isinstance(fields["project"], str) and fields["project"].startswith("/")):
        return f".project: expected the absolute path of a directory, found {describe_value(fields['project'])}."
    if fields.get("action") not in _ACTIONS:
        return f".action: expected {_one_of(_ACTIONS)}, found {describe_value(fields.get('action'))}."
    for key in ("tool", "pattern"):
        if key in fields and (not isinstance(fields[key], str) or not fields[key]):
            return f".{key}: expected a text that is not empty, found {describe_value(fields[key])}."
    return None


def _is_costly(pattern: str) -> bool:
    return len(pattern) > _LONGEST_PATTERN or len(re.findall(r"\*+", pattern)) > _MOST_WILDCARDS


def _one_of(values: tuple[str, ...]) -> str:
    return "one of " + ", ".join(f'"{value}"' for value in values)
