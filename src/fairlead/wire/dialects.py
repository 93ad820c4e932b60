"""The registry of the dialects that fairlead speaks. The command line, the schemas and the launchers use it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from msgspec import Struct

from fairlead.errors import ConfigError

if TYPE_CHECKING:
    from fairlead.agent import Agent
    from fairlead.agent.options import AgentOptions
    from fairlead.wire.pi.profile import Profile
    from fairlead.wire.process import OnEof

DEFAULT_DIALECT = "omp"


class ServeOptions(Struct, kw_only=True):
    """How to serve a host, as given on the command line."""

    stdin: int
    stdout: int
    #: Returns the options of the agent that the flags describe, with the defaults of a profile.
    agent_options: Callable[[Profile | None], AgentOptions]
    #: Called with each agent before it serves its first request.
    prepare: Callable[[Agent], Awaitable[None]]
    updates: Literal["full", "delta"] = "full"
    max_frame_bytes: int | None = None
    on_eof: OnEof = "abort"


class Implementation(Protocol):
    """A module that implements one or more dialects."""

    async def serve(self, dialect: str, options: ServeOptions) -> int:
        """Serve one host until it leaves. Returns the exit code."""
        ...

    def schema(self, dialect: str, *, closed: bool = False) -> dict[str, Any]:
        """Return the JSON Schema of its lines. With `closed`, the schema rejects undeclared fields."""
        ...

    def types(self, dialect: str, title: str) -> str:
        """Return its lines as TypeScript types."""
        ...


class Dialect(Struct, frozen=True, kw_only=True):
    """One dialect: its name, the module that implements it, and what the command line needs to know about it."""

    name: str
    #: The program that its hosts start. Started under this name, fairlead speaks the dialect. None if another dialect uses it.
    program: str | None
    module: str
    #: Whether its hosts may also start a `cli.js` with node or bun.
    has_node_launcher: bool = False
    #: Command-line flags that it ignores.
    ignored_flags: tuple[str, ...] = ()
    #: Whether its hosts can answer questions, which `--mode rpc-ui` needs.
    can_ask: bool = True
    #: Whether it is served when neither a mode nor a prompt is given. It does not accept flags of extensions.
    is_server: bool = False

    def load(self) -> Implementation:
        """Import the module that implements it."""
        return cast("Implementation", import_module(self.module))


DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        Dialect(name="pi", program="pi", module="fairlead.wire.pi.serve", has_node_launcher=True),
        Dialect(name="pi-2025", program=None, module="fairlead.wire.pi.pi_2025", can_ask=False),
        Dialect(name="omp", program="omp", module="fairlead.wire.pi.serve", has_node_launcher=True),
        Dialect(name="xcsh", program="xcsh", module="fairlead.wire.pi.serve", has_node_launcher=True),
        Dialect(
            name="opal",
            program="opal-server",
            module="fairlead.wire.opal.serve",
            ignored_flags=("max_frame_bytes", "updates"),
            is_server=True,
        ),
    )
}


def dialect_named(name: str) -> Dialect:
    """Return a dialect. Raises ConfigError if it does not exist."""
    try:
        return DIALECTS[name]
    except KeyError:
        raise ConfigError(f"Unknown dialect {name!r}. The dialects are: {', '.join(DIALECTS)}") from None


def dialect_of_program(program: str) -> Dialect | None:
    """Return the dialect that fairlead speaks when started under this name, or None."""
    return next((dialect for dialect in DIALECTS.values() if dialect.program == program), None)


def chosen_dialect(flag: str | None, env: Mapping[str, str], program: str) -> Dialect:
    """Return the dialect that a flag, `FAIRLEAD_DIALECT` or the name of the program selects, in this order.

    Raises ConfigError if the flag or the variable names an unknown dialect.
    """
    named = flag or env.get("FAIRLEAD_DIALECT")
    return dialect_named(named) if named else dialect_of_program(Path(program).stem) or dialect_named(DEFAULT_DIALECT)
