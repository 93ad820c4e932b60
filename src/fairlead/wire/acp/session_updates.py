"""The updates of one session for its client, and what the client can choose in it. Quick pieces of text become one update."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import TypeAlias, cast

from fairlead.config.settings import ApprovalMode
from fairlead.core.model import THINKING_LEVELS, Model
from fairlead.protocol.acp.acp_sessions import (
    SessionConfigOption,
    SessionConfigSelect,
    SessionConfigSelectGroup,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
)
from fairlead.protocol.acp.content import TextContent
from fairlead.protocol.acp.updates import (
    AgentMessageChunk,
    AgentThoughtChunk,
    SessionNotification,
    SessionUpdate,
)
from fairlead.session.session import Session
from fairlead.wire.host_connection import Outlet
from fairlead.wire.jsonrpc import BadParams, notification_line

#: Seconds between two updates with text.
PACE = 0.016

TextChunk: TypeAlias = type[AgentMessageChunk] | type[AgentThoughtChunk]


class Updates:
    """Sends `session/update` for one session, in order."""

    def __init__(self, session_id: str, outlet: Outlet) -> None:
        self._session_id = session_id
        self._outlet = outlet
        #: The text that waits: its kind, the id of its message, and its pieces.
        self._waiting: tuple[TextChunk, str, list[str]] | None = None
        self._sent_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._waits_for_host = False

    def send(self, update: SessionUpdate) -> None:
        """Send an update, after the text before it."""
        self.flush()
        self._send(update)

    def stream(self, kind: TextChunk, message_id: str, text: str) -> None:
        """Send a piece of text. It may wait for the next one for a moment, or until the host reads again."""
        if not text:
            return
        if self._waiting is not None and self._waiting[:2] != (kind, message_id):
            self.flush()
        if self._waiting is None:
            self._waiting = kind, message_id, []
        self._waiting[2].append(text)
        if self._timer is not None or self._waits_for_host:
            return
        if self._outlet.behind:
            self._waits_for_host = True
            self._outlet.call_when_caught_up(self._on_caught_up)
            return
        loop = asyncio.get_running_loop()
        wait = self._sent_at + PACE - loop.time()
        if wait <= 0:
            self.flush()
        else:
            self._timer = loop.call_later(wait, self.flush)

    def flush(self) -> None:
        """Send the text that waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting is not None:
            kind, message_id, pieces = self._waiting
            self._waiting = None
            self._sent_at = asyncio.get_running_loop().time()
            self._send(kind(content=TextContent("".join(pieces)), message_id=message_id))

    def _on_caught_up(self) -> None:
        self._waits_for_host = False
        self.flush()

    def _send(self, update: SessionUpdate) -> None:
        self._outlet.send(notification_line(SessionNotification.method, SessionNotification(self._session_id, update)))


Send: TypeAlias = Callable[[SessionUpdate], None]


#: The ids of the options.
MODE, MODEL, THINKING = "mode", "model", "thinking"

#: The name and the description of each approval mode.
MODES: Mapping[ApprovalMode, tuple[str, str]] = {
    "auto": ("Auto", "Run every tool call without asking"),
    "write": ("Edit", "Change files of the workspace without asking, and ask before everything else"),
    "ask": ("Ask", "Ask before every tool call that changes something"),
    "deny": ("Read only", "Refuse every tool call that changes something"),
}


def mode_named(mode_id: str) -> ApprovalMode:
    """Return an approval mode. Raises BadParams if it does not exist."""
    if mode_id not in MODES:
        raise BadParams(f"Unknown mode {mode_id!r}. The modes are: {', '.join(MODES)}")
    return cast("ApprovalMode", mode_id)


def mode_state(mode: ApprovalMode) -> SessionModeState:
    """Return the approval modes, and the one in force."""
    modes = [SessionMode(each, name, description=about) for each, (name, about) in MODES.items()]
    return SessionModeState(current_mode_id=mode, available_modes=modes)


def config_options(session: Session) -> list[SessionConfigOption]:
    """Return all options with their values. An option with nothing to choose is left out."""
    modes = [SessionConfigSelectOption(each, name, description=about) for each, (name, about) in MODES.items()]
    about = "What runs without a question"
    found: list[SessionConfigOption] = [
        SessionConfigSelect(MODE, "Approvals", session.approvals.mode, modes, category="mode", description=about)
    ]
    if (model := session.model) is not None:
        found.append(SessionConfigSelect(MODEL, "Model", model_id(model), _models(session, model), category="model"))
    levels = session.models.levels()
    if len(levels) > 1:
        options = [SessionConfigSelectOption(level, level.capitalize()) for level in levels]
        found.append(SessionConfigSelect(THINKING, "Thinking", session.thinking, options, category="thought_level"))
    return found


def choose_model(session: Session, value: str) -> None:
    """Choose a model by the value of its option. Raises BadParams if it cannot be used."""
    provider, _, name = value.partition("/")
    if not any(model_id(model) == value for model in session.models.available()) and (
        session.model is None or model_id(session.model) != value
    ):
        raise BadParams(f"Unknown model {value!r}, or there is no key for it.")
    session.models.set_model(provider, name)


def choose_level(session: Session, value: str) -> None:
    """Choose a thinking level. Raises BadParams if the model does not have it."""
    level = next((each for each in THINKING_LEVELS if each == value), None)
    if level is None or level not in session.models.levels():
        raise BadParams(f"Unknown thinking level {value!r}. The levels are: {', '.join(session.models.levels())}")
    session.models.set_thinking(level)


def model_id(model: Model) -> str:
    """Return the value of a model's option."""
    return f"{model.provider}/{model.id}"


def _models(session: Session, current: Model) -> list[SessionConfigSelectOption] | list[SessionConfigSelectGroup]:
    """Return the models to choose from; those of several providers in groups."""
    models = session.models.available()
    if current not in models:
        models = [current, *models]
    groups = [
        SessionConfigSelectGroup(provider, provider, [SessionConfigSelectOption(model_id(model), model.name) for model in found])
        for provider, found in groupby(sorted(models, key=lambda model: model.provider), key=lambda model: model.provider)
    ]
    return groups[0].options if len(groups) == 1 else groups
