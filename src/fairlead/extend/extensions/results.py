"""What handlers may return. None always means: nothing to say."""

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
    """Of `tool_call`: the tool is not to run. The model is told the reason."""

    reason: str = "Tool execution was blocked"


class Handled(Struct, frozen=True):
    """Of `input`: the extension has seen to it. No run starts, nothing is queued."""


class Transform(Struct, frozen=True):
    """Of `input`: this was said instead. Without `images`, those that came with it stay."""

    text: str
    images: list[ImageContent] | None = None


class Note(Struct, frozen=True):
    """A message of an extension's for the model. Hosts are told whether to `display` it; `details` are for them alone."""

    custom_type: str
    content: str | list[UserBlock]
    display: bool = True
    details: Any = None


class Open(Struct, frozen=True):
    """Of `before_agent_start`: messages that follow the prompt, and a system prompt for this run."""

    messages: Sequence[Note] = ()
    system_prompt: str | None = None


class Replace(Struct, frozen=True):
    """Of `context` and `context_with_system`: what the model is told instead, this time. The session keeps what it has."""

    messages: list[ModelMessage] | None = None
    #: Of `context_with_system` alone.
    system_prompt: str | None = None


class Amend(Struct, frozen=True):
    """Of `tool_result`: what counts in the place of the tool's own result. What is left out stays."""

    content: str | list[UserBlock] | None = None
    details: dict[str, Any] | UnsetType | None = UNSET
    is_error: bool | None = None


class Continue(Struct, frozen=True):
    """Of `agent_before_settle`: the run is not over yet; the model is told this, and asked again."""

    messages: Sequence[Note]


class Cancel(Struct, frozen=True):
    """Of `session_before_switch`, `_fork`, `_compact` and `_tree`: it is not to happen."""

    reason: str = ""


class Ran(Struct, frozen=True):
    """Of `user_bash`: the extension ran the command, and this came of it."""

    output: str
    exit_code: int | None = 0
    cancelled: bool = False
    truncated: bool = False
    full_output_path: str | None = None


class Trust(Struct, frozen=True):
    """Of `project_trust`: whether the project's code may run; with `remember`, from now on."""

    trusted: bool
    remember: bool = False


class Resources(Struct, frozen=True):
    """Of `resources_discover`: files of skills and prompt templates, or folders of such, beside those that are found."""

    skills: Sequence[str | Path] = ()
    prompts: Sequence[str | Path] = ()


#: What a handler of each event may return, beside None. Of the others nothing is expected.
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
