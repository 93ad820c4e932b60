"""The requests of the server to the client, with the ids `s2c-1`, `s2c-2` and so on. They are declared like methods."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import UNSET, Struct, UnsetType

from fairlead.protocol.opal.objects import Method


class Confirmation(Struct):
    #: One of the actions.
    action: str
    #: With `deny`, if a tool call needs approval: why. The model sees it.
    reason: str | UnsetType = UNSET


class Confirm(Method, kw_only=True):
    """Ask the user for approval."""

    method: ClassVar[str] = "client/confirm"
    session_id: str
    #: The question, in a few words.
    title: str
    #: What the user needs to know to decide.
    message: str
    #: What the user may answer: `allow`, `deny`, `allow_session`.
    actions: list[str]
    #: If a tool call needs approval: the tool, its call and its arguments. Absent otherwise.
    tool: str | UnsetType = UNSET
    call_id: str | UnsetType = UNSET
    args: dict[str, Any] | UnsetType = UNSET
    #: What the call would change, as a unified diff; absent if it changes no file or the change is not known.
    diff: str | UnsetType = UNSET
    result: ClassVar[type[Struct]] = Confirmation


class InputText(Struct):
    text: str


class Input(Method, kw_only=True):
    """Ask the user for a text."""

    method: ClassVar[str] = "client/input"
    session_id: str
    prompt: str
    #: Whether the text is a secret that must not be shown while the user types it.
    sensitive: bool | UnsetType = UNSET
    result: ClassVar[type[Struct]] = InputText


class UserAnswer(Struct):
    answer: str


class AskUser(Method, kw_only=True):
    """Ask the user a question from the model."""

    method: ClassVar[str] = "client/ask_user"
    session_id: str
    question: str
    #: Answers to choose from; the user may give another one.
    choices: list[str] | UnsetType = UNSET
    result: ClassVar[type[Struct]] = UserAnswer


#: All requests to the client by name.
SERVER_REQUESTS: dict[str, type[Method]] = {declared.method: declared for declared in (Confirm, Input, AskUser)}
