"""All commands of the family, by name."""

from __future__ import annotations

from fairlead.protocol.pi.command import Command
from fairlead.protocol.pi.commands import BASIC_COMMANDS
from fairlead.protocol.pi.host_commands import HOST_COMMANDS
from fairlead.protocol.pi.omp_commands import OMP_COMMANDS
from fairlead.protocol.pi.session_commands import SESSION_COMMANDS
from fairlead.protocol.pi.subagent_commands import SUBAGENT_COMMANDS

COMMANDS: dict[str, type[Command]] = BASIC_COMMANDS | {
    str(command.__struct_config__.tag): command
    for command in (*SESSION_COMMANDS, *SUBAGENT_COMMANDS, *HOST_COMMANDS, *OMP_COMMANDS)
}
