"""The settings of pi, omp and xcsh under fairlead's names.

Most settings have the same name and meaning. The functions here change those that do not. What has no meaning for fairlead stays
out, and so does what cannot be understood, except for approvals: those are read as the stricter meaning.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from fairlead.config.packages import with_packages
from fairlead.config.settings_files import PATHS
from fairlead.core.model import THINKING_LEVELS

#: Settings whose name means something else in omp.
_OTHER_MEANING = ("skills", "tools", "mcp", "output", "prompts", "defaultModel", "defaultProvider")
#: What happens to a call for which the settings of omp have a rule.
_ACTIONS = {"allow": "allow", "prompt": "ask", "ask": "ask", "deny": "deny"}
#: The approval modes of omp that are not as strict as `ask`.
_MODES = {"yolo": "auto", "write": "write"}


def from_peer(values: dict[str, Any], folder: Path, *, omp: bool) -> dict[str, Any]:
    """Return the settings of pi, or with `omp` of omp or xcsh, under fairlead's names. `folder` holds the file they are in."""
    found = _from_omp(values) if omp else dict(values)
    for key in PATHS:
        if isinstance(names := found.get(key), list):
            found[key] = [name for name in cast("list[Any]", names) if not _chooses(name)]
    return with_packages({**found, "packages": values.get("packages")}, folder)


def _chooses(name: Any) -> bool:
    """Whether an entry in a list of paths chooses among what is found elsewhere, instead of naming a path."""
    return isinstance(name, str) and (name.startswith(("!", "+", "-", "builtin:")) or "*" in name or "?" in name)


def _from_omp(values: dict[str, Any]) -> dict[str, Any]:
    """Return the settings in a file of omp or xcsh under fairlead's names."""
    found = {key: value for key, value in values.items() if key not in _OTHER_MEANING}
    found |= _default_model(_group(values, "modelRoles").get("default"))
    if "steeringMode" not in found and "queueMode" in values:
        found["steeringMode"] = values["queueMode"]
    if budgets := _group(values, "thinkingBudgets"):
        found["thinkingBudgets"] = {level: tokens for level, tokens in budgets.items() if level in THINKING_LEVELS}
    if models := values.get("enabledModels"):
        named = [name for name in cast("list[Any]", models) if isinstance(name, str)] if isinstance(models, list) else []
        found["enabledModels"] = named or None
    retry = _group(values, "retry")
    if "maxDelayMs" in retry:
        found["retry"] = {"maxAgentDelayMs": retry["maxDelayMs"], **retry}
    todo = _group(values, "todo")
    if isinstance(todo.get("eager"), str):
        found["todo"] = {**todo, "eager": None if todo["eager"] == "default" else True}
    skills = _group(values, "skills")
    found["skills"] = skills.get("customDirectories")
    found["enableSkillCommands"] = skills.get("enableSkillCommands")
    if approvals := _approvals(_group(values, "tools")):
        # What the file says under fairlead's own name counts as well.
        own = _group(values, "approvals")
        found["approvals"] = {**approvals, **own, "rules": [*approvals.get("rules", ()), *own.get("rules", ())]}
    return {key: value for key, value in found.items() if value is not None}


def _default_model(role: Any) -> dict[str, Any]:
    """Return the default model, and its thinking level if the role names one (`provider/model:high`)."""
    if not isinstance(role, str) or not role:
        return {}
    model, _, level = role.rpartition(":")
    if not model or level not in (*THINKING_LEVELS, "auto"):
        return {"defaultModel": role}
    return {"defaultModel": model, "defaultThinkingLevel": level}


def _approvals(tools: dict[str, Any]) -> dict[str, Any]:
    """Return fairlead's approvals for omp's `tools.approvalMode` and `tools.approval`."""
    mode, policies = tools.get("approvalMode"), _group(tools, "approval")
    rules = [{"tool": name, "action": _ACTIONS.get(str(action), "ask")} for name, action in policies.items()]
    approvals: dict[str, Any] = {"rules": rules} if rules else {}
    if mode is not None:
        approvals["mode"] = _MODES.get(str(mode), "ask")
    return approvals


def _group(values: dict[str, Any], key: str) -> dict[str, Any]:
    """Return a group of settings, with those whose name is written with a dot (`retry.enabled`) in it."""
    group = values.get(key)
    found = cast("dict[str, Any]", group) if isinstance(group, dict) else {}
    dotted = {name.partition(".")[2]: value for name, value in values.items() if name.startswith(f"{key}.")}
    return {**dotted, **found}
