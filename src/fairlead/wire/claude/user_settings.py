"""What the files of users of Claude Code say: settings (consent, the environment, the model), and kinds of sub-agents.

A project that is not trusted may forbid, but it may not allow or choose anything. What is not used is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from fairlead.config import trust
from fairlead.config.home import CLAUDE_FOLDER, ClaudeFiles, project_boundary
from fairlead.config.project_files import Budget, is_owned, list_folder
from fairlead.config.settings import ApprovalAction, ApprovalRule
from fairlead.core import lenient
from fairlead.core.model import ThinkingLevel
from fairlead.errors import ConfigError
from fairlead.session import front_matter
from fairlead.wire.claude.command_hooks import Hook, read_hooks
from fairlead.wire.claude.consent import APPROVALS
from fairlead.wire.claude.permission_rules import read_rules

#: The source of rules that the host gives while the process runs.
GIVEN = "command"
_ACTIONS: Sequence[ApprovalAction] = ("allow", "ask", "deny")
#: The modes that allow no more than the mode that holds without settings.
_STRICT_MODES = ("default", "manual", "plan", "dontAsk")
#: What a kind of sub-agent may choose only if its file is the user's, or the project is trusted.
_CHOICES = ("model", "effort", "permissionMode", "mcpServers", "hooks", "background")
_MOST_AGENTS, _LARGEST_AGENTS = 200, 2 * 1024 * 1024


EFFORTS: Sequence[ThinkingLevel] = ("low", "medium", "high", "xhigh", "max")
#: The thinking level for a number of tokens: the first one whose limit is not exceeded, or else the highest.
_LEVELS: Sequence[tuple[int, ThinkingLevel]] = (
    (0, "off"),
    (2048, "minimal"),
    (4096, "low"),
    (12000, "medium"),
    (24000, "high"),
)


def find_level(tokens: int) -> ThinkingLevel:
    """Return the thinking level for a number of tokens."""
    fitting: list[ThinkingLevel] = [level for most, level in _LEVELS if tokens <= most]
    return fitting[0] if fitting else "max"


def choose_level(thinking: str | None, effort: str | None, tokens: str | None) -> ThinkingLevel | None:
    """Return how much the model thinks, as flags say; None if they do not say it. Raises ConfigError."""
    if tokens is not None and not tokens.isdecimal():
        raise ConfigError(f"option '--max-thinking-tokens': expected a number, got '{tokens}'")
    if thinking == "disabled":
        return "off"
    if effort is None:
        return None if tokens is None else find_level(int(tokens))
    return next(level for level in EFFORTS if level == effort)


class UserSettings(Struct):
    """The settings of all files together; those of a stronger file replace the others, and rules are collected."""

    #: The rules, by their source.
    rules: dict[str, list[ApprovalRule]] = {}
    #: The commands that are hooks, by event.
    hooks: dict[str, list[Hook]] = {}
    env: dict[str, str] = {}
    model: str | None = None
    effort: ThinkingLevel | None = None
    mode: str | None = None
    #: Other folders that count as inside.
    folders: list[str] = []
    may_bypass: bool = True
    wants_sandbox: bool = False
    #: The files that say something, in the order in which they were read, and what each says.
    sources: list[tuple[str, dict[str, Any]]] = []
    #: A sentence for each setting that is not used.
    remarks: list[str] = []


def read_settings(files: ClaudeFiles, cwd: Path, flag: str | None, user: Path) -> UserSettings:
    """Read the settings.

    Args:
        files: The folder with the settings of the user, and which files to read.
        cwd: The working directory.
        flag: The value of `--settings`: a file, or JSON.
        user: The user's home directory.

    Raises:
        ConfigError: A file cannot be read, or it has a hook that guards tool calls and cannot be run.
    """
    paths = {
        "user": files.folder / "settings.json",
        "project": cwd / CLAUDE_FOLDER / "settings.json",
        "local": cwd / CLAUDE_FOLDER / "settings.local.json",
    }
    found = UserSettings()
    boundary = project_boundary(cwd, user, files.folder)
    for source, path in paths.items():
        if source in files.sources and (source == "user" or path.parent != files.folder):
            within = None if source == "user" else boundary
            _Reading(found, str(path), cwd, None if source == "user" else files).use(_read_file(path, within=within), source)
    if flag is not None:
        value = _decode(flag, "--settings") if flag.lstrip().startswith("{") else _read_file(Path(flag), must_exist=True)
        _Reading(found, "--settings", cwd, None).use(value, "flag")
    return found


def read_given(value: dict[str, Any], cwd: Path) -> UserSettings:
    """Read settings that the host gives while the process runs. Raises ConfigError."""
    found = UserSettings()
    _Reading(found, "settings", cwd, None).use(value, GIVEN)
    return found


class _Reading:
    """Reads one file of settings into `found`. `project` is given if the file belongs to a project, which may not be trusted."""

    def __init__(self, found: UserSettings, name: str, cwd: Path, project: ClaudeFiles | None) -> None:
        self._found = found
        self._name = name
        self._cwd = cwd
        self._project = project
        self._ignored: list[str] = []

    def use(self, value: dict[str, Any], source: str) -> None:
        found, name = self._found, self._name
        hooks = self._object(value, "hooks")
        if hooks and self._may("hooks"):
            for event, each in read_hooks(hooks, name, found.remarks).items():
                found.hooks.setdefault(event, []).extend(each)
        key = source if source == GIVEN else f"{source}Settings"
        self._use_permissions(self._object(value, "permissions"), found.rules.setdefault(key, []))
        if (env := self._object(value, "env")) and self._may("env"):
            found.env |= {key: text if isinstance(text, str) else str(text) for key, text in env.items() if "=" not in key}
        model = value.get("model")
        if model is not None and not isinstance(model, str):
            raise ConfigError(f"{name}: model: expected a text")
        if model and self._may("model"):
            found.model = model
        effort = value.get("effortLevel")
        if effort is not None and effort not in EFFORTS:
            raise ConfigError(f"{name}: effortLevel: expected {', '.join(EFFORTS)}, got {effort!r}")
        if effort and self._may("effortLevel"):
            found.effort = effort
        if self._object(value, "sandbox").get("enabled") is True:
            found.wants_sandbox = True
        if value:
            found.sources.append((source, value))
        if self._ignored:
            hint = trust.format_trust_hint(self._cwd)
            found.remarks.append(f"{name}: not used, because the project is not trusted: {', '.join(self._ignored)}. {hint}")

    def _use_permissions(self, permissions: dict[str, Any], rules: list[ApprovalRule]) -> None:
        found, name = self._found, self._name
        for action in _ACTIONS:
            texts = self._texts(permissions, action)
            if texts and (action != "allow" or self._may("permissions.allow")):
                rules += read_rules(texts, action, str(self._cwd))
        folders = self._texts(permissions, "additionalDirectories")
        if folders and self._may("permissions.additionalDirectories"):
            found.folders += folders
        if permissions.get("disableBypassPermissionsMode") == "disable":
            found.may_bypass = False
        mode = permissions.get("defaultMode")
        if mode is None:
            return
        if mode not in APPROVALS:
            raise ConfigError(f"{name}: permissions.defaultMode: expected {', '.join(APPROVALS)}, got {mode!r}")
        if mode == "bypassPermissions" and self._project is not None:
            found.remarks.append(f"{name}: permissions.defaultMode: a project cannot choose bypassPermissions")
        elif mode in _STRICT_MODES or self._may("permissions.defaultMode"):
            found.mode = mode

    def _may(self, setting: str) -> bool:
        """Whether a setting counts that allows or chooses something."""
        if self._project is None or self._project.is_trusted():
            return True
        self._ignored.append(setting)
        return False

    def _texts(self, permissions: dict[str, Any], key: str) -> list[str]:
        texts: Any = permissions.get(key, [])
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in cast("list[Any]", texts)):
            what = "rules" if key in _ACTIONS else "texts"
            raise ConfigError(f"{self._name}: permissions.{key}: expected a list of {what}")
        return cast("list[str]", texts)

    def _object(self, value: dict[str, Any], key: str) -> dict[str, Any]:
        inner = value.get(key, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{self._name}: {key}: expected an object")
        return cast("dict[str, Any]", inner)


def _read_file(path: Path, *, within: Path | None = None, must_exist: bool = False) -> dict[str, Any]:
    data = Budget().read(path, within=within)
    if data is None:
        if must_exist:
            raise ConfigError(f"--settings {path}: there is no such file")
        return {}
    text = data.decode("utf-8", "replace")
    return _decode(text, str(path)) if text.strip() else {}


def _decode(text: str, name: str) -> dict[str, Any]:
    try:
        value = lenient.decode(text)
    except ValueError:
        raise ConfigError(f"{name}: expected JSON") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{name}: expected an object")
    return cast("dict[str, Any]", value)


# Sub-agents


def read_agent_files(
    files: ClaudeFiles, cwd: Path, user: Path, taken: Sequence[str]
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Read the kinds of sub-agents in `agents/*.md`.

    Args:
        files: Where the files are.
        cwd: The working directory.
        user: The user's home directory.
        taken: The names of the kinds that are always there. A project that is not trusted cannot replace them.

    Returns:
        The definitions by name, in the form in which a host gives them, and a sentence for everything that is not used.
    """
    found: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    for level, base in reversed(files.folders(cwd)):  # a later one replaces an earlier one: the user's win
        folder = base / "agents"
        if not folder.is_dir():
            continue
        within = None if level == "user" else project_boundary(base.parent, user, files.folder)
        if level == "project" and not is_owned(base.parent, cwd):
            problems.append(f"{folder}: not read: {base.parent} belongs to another user than you and {cwd}.")
            continue
        budget = Budget(files=_MOST_AGENTS, size=_LARGEST_AGENTS)
        agents: dict[str, dict[str, Any]] = {}
        for name in list_folder(folder, problems, within=within, budget=budget):
            if name.endswith(".md"):
                try:
                    agents |= _read_agent(folder / name, budget, within)
                except ConfigError as error:
                    problems.append(str(error))
        if agents and level == "project" and not files.is_trusted():
            agents = _harmless(agents, taken, folder, problems)
        found |= agents
    return found, problems


def _read_agent(path: Path, budget: Budget, within: Path | None) -> dict[str, dict[str, Any]]:
    text = (budget.read(path, within=within) or b"").decode("utf-8", "replace")
    try:
        fields, prompt = front_matter.split(text)
        definition: dict[str, Any] = {key: value for key, value in fields.items() if value != ""}
        definition["prompt"] = prompt.strip()
        for key in ("tools", "disallowedTools", "skills"):
            if key in definition:
                definition[key] = _split(definition[key])
        name = front_matter.as_text(fields.get("name", "")) or path.stem
        if not isinstance(definition.get("description"), str) or not definition["prompt"]:
            raise ValueError("expected a description, and instructions after the front matter")
    except ValueError as error:
        raise ConfigError(f"{path}: {error}. This agent is left out.") from None
    for key, kind in (("maxTurns", int), ("background", _flag)):
        if key in definition:
            try:
                definition[key] = kind(definition[key])
            except (TypeError, ValueError):
                raise ConfigError(f"{path}: {key}: {definition[key]!r} is not expected. This agent is left out.") from None
    return {name: definition}


def _flag(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()] if text.lower() in ("true", "false") else bool(int(text))


def _split(value: Any) -> list[str]:
    """Return a list of names, which may be written with commas."""
    items = value.split(",") if isinstance(value, str) else front_matter.as_texts(value)
    return [name for item in items if (name := item.strip())]


def _harmless(
    agents: Mapping[str, dict[str, Any]], taken: Sequence[str], folder: Path, problems: list[str]
) -> dict[str, dict[str, Any]]:
    """Return what may be used of the agents of a project that is not trusted."""
    reserved = {name.lower() for name in taken}
    ignored = [f"the agent {name}, because another one has the same name" for name in agents if name.lower() in reserved]
    used: dict[str, dict[str, Any]] = {}
    for name, agent in agents.items():
        if name.lower() not in reserved:
            ignored += [f"{key} of the agent {name}" for key in _CHOICES if key in agent]
            used[name] = {key: value for key, value in agent.items() if key not in _CHOICES}
    if ignored:
        hint = trust.format_trust_hint(folder.parent.parent)
        problems.append(f"{folder}: not used, because the project is not trusted: {'; '.join(ignored)}. {hint}")
    return used
