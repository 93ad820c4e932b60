"""`fairlead serve`: the agent over the network."""

from __future__ import annotations

import gc
import os
import secrets
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead import __version__
from fairlead.cli.build import agent_options, log_choices
from fairlead.cli.console import complain, configure_logging, print_text
from fairlead.cli.event_loop import run
from fairlead.cli.flags import Arguments, UsageError, parse, unknown_flag
from fairlead.cli.subcommands.subcommand import Options, Subcommand
from fairlead.cli.subcommands.table import find
from fairlead.config.extras import install_command
from fairlead.config.home import Home, expand_user, working_directory
from fairlead.core.secrets import learn
from fairlead.errors import ConfigError
from fairlead.jobs import Jobs, http_routes
from fairlead.platform.process import use_one_heap
from fairlead.serve import access, http_server
from fairlead.serve.sessions import hub_sessions, spaces

if TYPE_CHECKING:
    from fairlead.agent import Agent
    from fairlead.agent.options import AgentOptions
    from fairlead.serve.access import Access
    from fairlead.serve.http_server import Binding, ServerOptions
    from fairlead.wire.dialects import Program
    from fairlead.wire.pi.profile import Profile

#: The file of the token, in the home.
TOKEN_FILE = "serve.token"
#: Flags that choose one session. A server has many.
_OF_ONE_SESSION = ("session", "resume", "resume_named", "fork", "session_id", "name", "print", "export", "record", "list_models")


def serve(words: Sequence[str], program: Program) -> int:
    """Serve clients until a signal. Returns the exit code. Raises UsageError and ConfigError."""
    command = find("serve", program)
    assert command is not None
    options, arguments = _parse(command, words)
    if options.has("add_user"):
        return _add_user(command, options)
    _check(command, arguments)
    arguments.mode = "rpc"
    configure_logging(os.environ, default="warning", verbose=arguments.verbose, log_file=arguments.log_file)
    root = _enter(options.text("root"), arguments.cwd)
    try:
        import starlette  # noqa: PLC0415  an extra
        import uvicorn  # noqa: PLC0415  an extra
        import websockets  # noqa: F401, PLC0415  an extra  # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        raise ConfigError(f"fairlead serve needs {error.name}. This installs it: {install_command('serve')}") from None
    del starlette, uvicorn
    home = Home.find(os.environ, isolated=arguments.isolated, peer=program.home)
    users = options.text("users")
    if options.has("db") and users is not None:
        raise command.usage_error("--db serves all jobs to every client, so it does not go together with --users.")
    tokens = {access.OWNER: access.digest(_token(home))} if users is None else access.load_users(expand_user(users).absolute())
    gc.enable()
    use_one_heap()
    work = _serve(_server_options(command, options), tokens, arguments, program, root, home, options.text("db"))
    return run(work)


def _parse(command: Subcommand, words: Sequence[str]) -> tuple[Options, Arguments]:
    """Split the words into the flags of the subcommand and those of the agent."""
    own = {name: flag for flag in command.flags for name in flag.names}
    mine: list[str] = []
    others: list[str] = []
    left = list(reversed(words))
    while left:
        word = left.pop()
        name, has_value, _ = word.partition("=")
        if name not in own:
            others.append(word)
            continue
        mine.append(word)
        if own[name].kind != "switch" and not has_value and left:
            mine.append(left.pop())
    return command.parse(mine), parse(others)


def _check(command: Subcommand, arguments: Arguments) -> None:
    if arguments.words:
        raise command.usage_error(f"fairlead serve takes flags only, not {arguments.words[0]!r}.")
    if arguments.unknown:
        own = [name for flag in command.flags for name in flag.names]
        raise UsageError(unknown_flag(f"--{next(iter(arguments.unknown))}", own))
    defaults = Arguments()
    for name in _OF_ONE_SESSION:
        if getattr(arguments, name) != getattr(defaults, name):
            raise command.usage_error(f"--{name.replace('_', '-')} has no meaning for a server, which has many sessions.")


def _enter(root: str | None, cwd: str | None) -> Path | None:
    """Change to the working directory, and return the root. Raises ConfigError."""
    found = None if root is None else expand_user(root).absolute()
    if found is not None and not os.path.isdir(found):
        raise ConfigError(f"--root {root}: there is no such directory.")
    target = expand_user(cwd) if cwd is not None else found
    if target is not None and (cwd is not None or not working_directory().resolve().is_relative_to(target.resolve())):
        try:
            os.chdir(target)
        except OSError as error:
            raise ConfigError(f"{target}: {error.strerror}.") from error
    if found is not None and not working_directory().resolve().is_relative_to(found.resolve()):
        raise ConfigError(f"--cwd {cwd} is outside the root {root}.")
    return found


def _server_options(command: Subcommand, options: Options) -> http_server.ServerOptions:
    def number(name: str, default: int, most: int = 10**9) -> int:
        text = options.text(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= most):
            raise command.usage_error(f"--{name.replace('_', '-')}: expected a whole number up to {most}, got {text!r}.")
        return int(text)

    def path(name: str) -> Path | None:
        text = options.text(name)
        return None if text is None else expand_user(text).absolute()

    defaults, limits = http_server.ServerOptions(), hub_sessions.HubLimits()
    return http_server.ServerOptions(
        host=options.text("host") or defaults.host,
        port=number("port", defaults.port, 65535),
        tls_cert=path("tls_cert"),
        tls_key=path("tls_key"),
        insecure=options.has("insecure"),
        allow_hosts=tuple(options.texts("allow_host")),
        limits=hub_sessions.HubLimits(
            sessions=max(1, number("max_sessions", limits.sessions)),
            idle_seconds=max(1, number("idle_seconds", int(limits.idle_seconds))),
        ),
        request_bytes=max(1024, number("max_request_bytes", defaults.request_bytes)),
        connections=max(1, number("max_connections", defaults.connections)),
    )


async def _serve(
    listening: ServerOptions,
    tokens: Mapping[str, bytes],
    arguments: Arguments,
    program: Program,
    root: Path | None,
    home: Home,
    db: str | None,
) -> int:
    from fairlead.serve.access import OWNER, Access  # noqa: PLC0415  an extra
    from fairlead.serve.http_server import Server, bind  # noqa: PLC0415  an extra
    from fairlead.serve.sessions.spaces import make_spaces  # noqa: PLC0415  an extra

    access = Access(tokens)

    def options_for(profile: Profile | None) -> AgentOptions:
        return agent_options(arguments, profile, program)

    async def prepare(agent: Agent) -> None:
        log_choices(agent, None)
        await agent.extensions.load_required()
        await agent.extensions.find_model()
        if agent.session.model is None:
            await agent.choose_model()

    jobs = None if db is None else await _jobs(db, root)
    binding = bind(listening)
    # A server with other names has a proxy before it, so that other machines can reach it too.
    asks = not binding.is_loopback or bool(listening.allow_hosts)
    try:
        fleet = None if jobs is None else _fleet(jobs, binding)
        spaces = make_spaces(tokens, options_for, prepare, root=root, asks=asks, fleet=fleet)
        routes = None if jobs is None else _fleet_routes(jobs, listening)
        more, operations = ((), ()) if routes is None else (routes.routes(), routes.operations)
        server = Server(listening, binding, access, spaces, more, operations)
    except BaseException:
        binding.socket.close()
        raise
    try:
        return await server.run(
            lambda: _announce(listening, binding, access, home, is_shared=OWNER not in tokens),
            on_stop=None if routes is None else routes.end_streams,
        )
    finally:
        if jobs is not None:
            await jobs.close()


async def _jobs(db: str, root: Path | None) -> Jobs:
    """Return the jobs of a fleet. Raises ConfigError and DatabaseUnavailable."""
    jobs = Jobs(db, root=root)
    await jobs.open()
    return jobs


def _fleet(jobs: Jobs, binding: Binding) -> spaces.Fleet:
    """Return the fleet, in which this server has a name that no other process has."""
    name = f"fairlead-serve/{socket.gethostname()}:{binding.port}/{os.getpid()}/{os.urandom(3).hex()}"
    return spaces.Fleet(jobs.session_store, jobs, name)


def _fleet_routes(jobs: Jobs, listening: ServerOptions) -> http_routes.FleetRoutes:
    return http_routes.FleetRoutes(jobs, request_bytes=listening.request_bytes)


def _token(home: Home) -> str:
    """Return the token of the server: that of the home, or a new one for an isolated server."""
    token = secrets.token_urlsafe(32) if home.isolated else access.load_token(home.root / TOKEN_FILE)
    learn(token)  # it never appears in what the model sees
    return token


def _announce(listening: ServerOptions, binding: Binding, access: Access, home: Home, *, is_shared: bool) -> None:
    from fairlead.serve.access import CODE_SECONDS, OWNER  # noqa: PLC0415  an extra

    url = binding.url(listening.host)
    print_text(f"fairlead {__version__} listens on {url}")
    if not is_shared:
        print_text(f"To log in, open this link within {CODE_SECONDS // 60} minutes. It works once:")
        print_text(f"  {url}/login#{access.new_code(OWNER)}")
        if not home.isolated:
            print_text(f"Programs send the token in {home.root / TOKEN_FILE}.")
    else:
        print_text(f"Users log in with their tokens at {url}/login")
    print_text("Ctrl-C stops the server.")
    if not binding.is_loopback and not binding.is_tls:
        complain("Warning: connections are not encrypted. Others on the network may read the token.")
    sys.stdout.flush()


def _add_user(command: Subcommand, options: Options) -> int:
    users, name = options.text("users"), options.text("add_user")
    if users is None or name is None:
        raise command.usage_error("--add-user needs --users FILE.")
    path = expand_user(users).absolute()
    token = access.add_user(path, name)
    print_text(f"{name} can log in with this token. It is not shown again:")
    print_text(f"  {token}")
    return 0
