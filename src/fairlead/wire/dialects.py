"""The registry of the dialects that fairlead speaks. The command line, the schemas and the launchers use it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from msgspec import Struct
from msgspec.structs import replace

from fairlead import __version__
from fairlead.config.home import PeerHome
from fairlead.errors import ConfigError

if TYPE_CHECKING:
    from fairlead.agent import Agent
    from fairlead.agent.options import AgentOptions
    from fairlead.config.settings import ApprovalMode
    from fairlead.wire.host_connection import FrameTap
    from fairlead.wire.host_process import OnEof
    from fairlead.wire.pi.profile import Profile

DEFAULT_DIALECT = "omp"


class ServeOptions(Struct, kw_only=True):
    """How to serve a host, as given on the command line."""

    stdin: int
    stdout: int
    #: Returns the options of the agent that the flags describe, with the defaults of a profile.
    agent_options: Callable[[Profile | None], AgentOptions]
    #: The version of the program that fairlead stands in for. None for the newest.
    version: str | None = None
    #: Called with each agent before it serves its first request.
    prepare: Callable[[Agent], Awaitable[None]]
    updates: Literal["full", "delta"] = "full"
    max_frame_bytes: int | None = None
    on_eof: OnEof = "abort"
    #: Sees all lines in both directions.
    tap: FrameTap | None = None


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


class Release(Struct, frozen=True):
    """A release of a program that fairlead can stand in for."""

    version: str
    #: Its package on npm, if it has one.
    package: str = ""


class Dialect(Struct, frozen=True, kw_only=True):
    """One dialect: its name, the module that implements it, and what the command line needs to know about it."""

    name: str
    #: The program that its hosts start, which is the name of its launcher. Started under this name, fairlead speaks the
    #: first dialect that has it.
    program: str
    module: str
    #: The releases of the program that fairlead can stand in for, the default first. If there are none, hosts see the
    #: version of fairlead.
    releases: tuple[Release, ...] = ()
    #: What `--version` prints under the name of the program.
    version_line: str = "{version}"
    #: Where the program keeps its files.
    home: PeerHome | None = None
    #: Whether its hosts may also start a `cli.js` with node or bun.
    has_node_launcher: bool = False
    #: Command-line flags that it ignores.
    ignored_flags: tuple[str, ...] = ()
    #: Whether its hosts can answer questions, which `--mode rpc-ui` needs.
    can_ask: bool = True
    #: The approval mode under the name of the program if it serves an ACP client and no other is named.
    acp_approval: ApprovalMode = "auto"
    #: Whether it is served when neither a mode nor a prompt is given. It does not accept flags of extensions.
    is_server: bool = False
    #: Whether its hosts start it with flags that mean something else than those of fairlead: see `fairlead.cli.claude`.
    has_own_flags: bool = False

    def load(self) -> Implementation:
        """Import the module that implements it."""
        return cast("Implementation", import_module(self.module))

    def release(self, version: str = "") -> Release | None:
        """Return the first release whose version begins with `version` ("0.87" for "0.87.1"), or None."""
        return next((each for each in self.releases if not version or f"{each.version}.".startswith(f"{version}.")), None)


class Program(Struct, frozen=True, kw_only=True):
    """The program that fairlead was started as."""

    #: The dialect of the program. None if fairlead was started under its own name.
    dialect: Dialect | None = None
    #: The release that fairlead stands in for, if the dialect has any.
    release: Release | None = None

    @property
    def home(self) -> PeerHome | None:
        """Where the program keeps its files. None for those of fairlead."""
        if self.dialect is None or self.dialect.home is None:
            return None
        version, package = ("", "") if self.release is None else (self.release.version, self.release.package)
        name = f"{self.dialect.name}@{version}" if version else self.dialect.name
        return replace(self.dialect.home, started_as=name, package=package, version=version)

    @property
    def prints_help_on_stderr(self) -> bool:
        """Whether `--help` and `--version` write to stderr, as pi did until 0.73."""
        return self.release is not None and self.dialect is DIALECTS["pi"] and self.release.version.startswith("0.73.")

    @property
    def lists_models_as_pi(self) -> bool:
        """Whether `--list-models` prints pi's columns, and exits with 0 if no model matches."""
        return self.dialect is not None and self.dialect.program == "pi"

    @property
    def version_line(self) -> str:
        """What `--version` prints."""
        if self.dialect is None or self.release is None:
            return __version__
        return self.dialect.version_line.format(version=self.release.version)


_PI_HOME = PeerHome(folder=".pi")

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        Dialect(
            name="pi",
            program="pi",
            module="fairlead.wire.pi.pi_stdio",
            releases=(
                Release("1.5.0", "@earendil-works/pi-coding-agent"),
                Release("0.87.1", "@earendil-works/pi-coding-agent"),
                Release("0.73.1", "@mariozechner/pi-coding-agent"),
            ),
            home=_PI_HOME,
            has_node_launcher=True,
        ),
        Dialect(
            name="pi-2025",
            program="pi",
            module="fairlead.wire.pi.pi_2025",
            releases=(Release("0.15.0", "@mariozechner/pi-coding-agent"),),
            home=_PI_HOME,
            has_node_launcher=True,
            can_ask=False,
        ),
        Dialect(
            name="omp",
            program="omp",
            module="fairlead.wire.pi.pi_stdio",
            releases=(Release("18.3.4", "@oh-my-pi/pi-coding-agent"),),
            version_line="omp/{version}",
            home=PeerHome(
                folder=".omp",
                layout="omp",
                folder_variable="PI_CONFIG_DIR",
                profile_variables=("OMP_PROFILE", "PI_PROFILE"),
            ),
            acp_approval="write",
            has_node_launcher=True,
        ),
        Dialect(
            name="xcsh",
            program="xcsh",
            module="fairlead.wire.pi.pi_stdio",
            releases=(Release("19.54.0"),),
            version_line="xcsh/{version}",
            home=PeerHome(folder=".xcsh", layout="omp", folder_variable="PI_CONFIG_DIR"),
            acp_approval="write",
            has_node_launcher=True,
        ),
        Dialect(
            name="opal",
            program="opal-server",
            module="fairlead.wire.opal.opal_server",
            ignored_flags=("max_frame_bytes", "max_time", "provider_session_id", "updates"),
            is_server=True,
        ),
        Dialect(
            name="acp",
            program="fairlead-acp",
            module="fairlead.wire.acp.acp_server",
            ignored_flags=("max_frame_bytes", "provider_session_id", "updates"),
            is_server=True,
        ),
        Dialect(
            name="claude",
            program="claude",
            module="fairlead.wire.claude.claude_server",
            releases=(Release("2.1.326"),),
            version_line="{version} (Claude Code)",
            has_own_flags=True,
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


def program_started_as(path: str) -> Program:
    """Return the program that fairlead stands in for when started from a file with this name."""
    dialect = dialect_of_program(Path(path).stem)
    return Program() if dialect is None else _program(dialect)


def program_named(text: str) -> Program:
    """Return the program that a launcher names: a dialect, with or without a version ("pi", "pi@0.87").

    Raises ConfigError for an unknown dialect, and for a version that fairlead does not stand in for.
    """
    name, _, version = text.partition("@")
    return _program(dialect_named(name), version)


def _program(dialect: Dialect, version: str = "") -> Program:
    release = dialect.release(version)
    if version and release is None:
        known = ", ".join(each.version for each in dialect.releases) or "none"
        raise ConfigError(f"fairlead cannot stand in for {dialect.name} {version}. The versions are: {known}")
    return Program(dialect=dialect, release=release)


def chosen_dialect(flag: str | None, env: Mapping[str, str], program: Program) -> Dialect:
    """Return the dialect that a flag, `FAIRLEAD_DIALECT` or the program selects, in this order.

    Raises ConfigError if the flag or the variable names an unknown dialect.
    """
    named = flag or env.get("FAIRLEAD_DIALECT")
    return dialect_named(named) if named else program.dialect or dialect_named(DEFAULT_DIALECT)
