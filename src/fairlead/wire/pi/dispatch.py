"""Which command a name means, and who handles it. What not every host needs is loaded when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairlead.protocol.pi.command import Command
from fairlead.protocol.pi.commands import BASIC_COMMANDS
from fairlead.wire.pi.handlers import BASIC_HANDLERS, BASIC_LATE
from fairlead.wire.pi.profile import Profile

#: Commands that do not wait until extensions are loaded: they look at what no extension changes, stop something, are about the
#: connection alone, or wait by themselves.
BEFORE_EXTENSIONS = frozenset(
    """get_state get_session_stats get_messages get_last_assistant_text abort abort_bash abort_retry shutdown clear_queue
    set_updates negotiate_protocol set_event_filter bash prompt steer follow_up abort_and_prompt reload""".split()
)


def declaration(name: str, profile: Profile) -> type[Command] | None:
    """The command of that name; None if the profile has none."""
    if profile.form == "2025":
        from fairlead.protocol.pi.protocol_2025 import COMMANDS_2025

        return COMMANDS_2025.get(name)
    basic = BASIC_COMMANDS.get(name)
    if basic is not None:
        return basic
    from fairlead.protocol.pi.session_commands import SESSION_COMMANDS

    for declared in SESSION_COMMANDS:
        if declared.__struct_config__.tag == name:
            return declared
    from fairlead.protocol.pi.all_commands import COMMANDS

    return COMMANDS.get(name)


def handler(declared: type[Command]) -> Callable[..., Any]:
    basic = BASIC_HANDLERS.get(declared)
    if basic is not None:
        return basic
    from fairlead.wire.pi import session_handlers

    about_sessions = session_handlers.HANDLERS.get(declared)
    if about_sessions is not None:
        return about_sessions
    from fairlead.wire.pi.all_handlers import HANDLERS

    return HANDLERS[declared]


def is_late(declared: type[Command]) -> bool:
    """Whether a command may be answered after ones that came later."""
    if declared in BASIC_HANDLERS:
        return declared in BASIC_LATE
    from fairlead.wire.pi import session_handlers

    if declared in session_handlers.HANDLERS:
        return declared in session_handlers.LATE
    from fairlead.wire.pi.all_handlers import LATE

    return declared in LATE
