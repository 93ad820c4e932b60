"""What handlers may return. None always means "no change"."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from fairlead.core.messages import ImageContent, ModelMessage, UserBlock
from fairlead.session.hooks import Summary

__all__ = [
    "Amend",
    "Block",
    "Cancel",
    "Continue",
    "Handled",
    "Note",
    "Open",
    "Ran",
    "Replace",
    "Resources",
    "Summary",
    "Transform",
    "Trust",
]


class Block(Struct, frozen=True):
    """Result of `tool_call`: the tool does not run. The model gets the reason."""

    reason: str = "Tool execution was blocked"


class Handled(Struct, frozen=True):
    """Result of `input`: the extension has handled the message. It starts no run and is not queued."""


class Transform(Struct, frozen=True):
    """Result of `input`: use this text instead. If `images` is None, the images of the message stay."""

    text: str
    images: list[ImageContent] | None = None


class Note(Struct, frozen=True):
    """A message from an extension to the model. Hosts get `display`, which says whether to show it, and `details`, which the
    model does not get.
    """

    custom_type: str
    content: str | list[UserBlock]
    display: bool = True
    details: Any = None


class Open(Struct, frozen=True):
    """Result of `before_agent_start`: messages to add after the prompt, and a system prompt for this run."""

    messages: Sequence[Note] = ()
    system_prompt: str | None = None


class Replace(Struct, frozen=True):
    """Result of `context` and `context_with_system`: what to send to the model this time. The session itself does not change."""

    messages: list[ModelMessage] | None = None
    #: For `context_with_system` only.
    system_prompt: str | None = None


class Amend(Struct, frozen=True):
    """Result of `tool_result`: what to use instead of the tool's own result. Fields that are not given stay as they are."""

    content: str | list[UserBlock] | None = None
    details: dict[str, Any] | UnsetType | None = UNSET
    is_error: bool | None = None


class Continue(Struct, frozen=True):
    """Result of `agent_before_settle`: send these messages to the model and continue the run."""

    messages: Sequence[Note]


class Cancel(Struct, frozen=True):
    """Result of `session_before_switch`, `session_before_fork`, `session_before_compact`, `session_before_tree`: prevent it."""

    reason: str = ""


class Ran(Struct, frozen=True):
    """Result of `user_bash`: the extension ran the command, with this outcome."""

    output: str
    exit_code: int | None = 0
    cancelled: bool = False
    truncated: bool = False
    full_output_path: str | None = None


class Trust(Struct, frozen=True):
    """Result of `project_trust`: whether the project's code may run. With `remember`, the decision is saved for later runs."""

    trusted: bool
    remember: bool = False


class Resources(Struct, frozen=True):
    """Result of `resources_discover`: more skills and prompt templates, as files or as directories of files."""

    skills: Sequence[str | Path] = ()
    prompts: Sequence[str | Path] = ()


#: What a handler of each event may return besides None. The results of all other handlers are ignored.
RESULTS: dict[str, tuple[type[Any], ...]] = {
    "project_trust": (Trust,),
    "resources_discover": (Resources,),
    "session_before_switch": (Cancel,),
    "session_before_fork": (Cancel,),
    "session_before_compact": (Summary, Cancel),
    "session_before_tree": (Summary, Cancel),
    "input": (Transform, Handled),
    "before_agent_start": (Open,),
    "context": (Replace,),
    "context_with_system": (Replace,),
    "tool_call": (Block,),
    "tool_result": (Amend,),
    "agent_before_settle": (Continue,),
    "user_bash": (Ran,),
}
