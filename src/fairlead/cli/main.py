"""From the command line to an exit code: 0 done, 1 failed, 2 not understood."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from fairlead import __version__
from fairlead.cli.flags import Arguments, UsageError, help_text, parse
from fairlead.errors import ConfigError, FairleadError

if TYPE_CHECKING:
    from pathlib import Path

    from fairlead.agent import Agent
    from fairlead.wire.pi.profile import Profile

#: The dialect that a program of this name speaks.
NAMES = {"pi": "pi", "omp": "omp", "xcsh": "xcsh", "opal-server": "opal"}
SMALLEST_FRAME = 1024


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]  (it is, when the host closed it)
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123
    _replace_closed_streams()
    try:
        code = _dispatch(argv)
        sys.stdout.flush()
        return code
    except UsageError as error:
        _complain(f"Error: {error}")
        return 2
    except FairleadError as error:
        _complain(f"Error: {error}")
        return 1
    except BrokenPipeError:
        # Nobody reads any more. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130


def _dispatch(argv: Sequence[str]) -> int:
    if argv[:1] == ["shim"]:
        from fairlead.cli.shim import shim

        return shim(argv[1:])
    arguments = parse(argv)
    if arguments.help:
        _say(help_text())
        return 0
    if arguments.version:
        _say(__version__)
        return 0
    for flag in arguments.ignored:
        _complain(f"fairlead: {flag} has no effect here")
    if arguments.session_dir:
        _complain("fairlead: --session-dir has no effect yet: conversations are kept in memory")
    frame_limit = _frame_limit(arguments.max_frame_bytes)
    if arguments.list_models is not None:
        from fairlead.cli.models import list_models

        return list_models(_agent(arguments, None), arguments.list_models)
    if arguments.mode == "rpc":
        return _rpc(arguments, frame_limit)
    from fairlead.cli.once import once

    return once(arguments, _agent, _profile(arguments))


def _rpc(arguments: Arguments, frame_limit: int | None) -> NoReturn:
    """Serve a host, then leave at once: a writer that the host has blocked must not keep the process alive."""
    if any(word.startswith("@") for word in arguments.words):
        raise ConfigError("@file arguments are not supported in RPC mode")
    if arguments.words:
        _complain("fairlead: arguments that are not flags are ignored in RPC mode")
    profile = _profile(arguments)

    from fairlead.wire.stdio import take_over

    stdin, stdout = take_over()
    import asyncio

    from fairlead.wire.rpc import RpcOptions, serve

    async def work() -> int:
        agent = _agent(arguments, profile)
        options = RpcOptions(profile=profile, max_frame_bytes=frame_limit, **_given(arguments, "updates", "on_eof"))
        return await serve(agent, stdin, stdout, options)

    loop = asyncio.new_event_loop()
    code = loop.run_until_complete(work())
    sys.stderr.flush()
    os._exit(code)


def _agent(arguments: Arguments, profile: Profile | None) -> Agent:
    from fairlead.agent import Agent, AgentOptions

    options = AgentOptions(
        models=_names(arguments.models),
        exclude_tools=_names(arguments.exclude_tools),
        append_system_prompt=[_text_or_file(text) for text in arguments.append_system_prompt],
        isolated=arguments.isolated,
        cwd=_working_directory(),
        **_given(arguments, "provider", "model", "api_key", "thinking"),
    )
    if arguments.system_prompt is not None:
        options.system_prompt = _text_or_file(arguments.system_prompt)
    if arguments.tools is not None:
        options.tools = _names(arguments.tools)
    elif arguments.no_tools:
        options.tools = []
    if profile is not None:
        options.default_tools = profile.default_tools
        options.schedule = profile.schedule
        options.interrupt = profile.interrupt
    agent = Agent(options)
    for warning in agent.warnings:
        _complain(f"fairlead: {warning}")
    if arguments.verbose:
        _describe(agent, profile)
    return agent


def _describe(agent: Agent, profile: Profile | None) -> None:
    """Say on stderr what the flags, the files and the environment came to."""
    session, home = agent.session, agent.home
    model = session.model
    chosen = f"{model.provider}/{model.id} at {model.base_url}, thinking {session.thinking}" if model else "none"
    _complain(f"fairlead: version {__version__}" + (f", dialect {profile.name}" if profile else ""))
    _complain(f"fairlead: model {chosen}")
    _complain(f"fairlead: tools {', '.join(session.active_tools) or 'none'}")
    _complain(f"fairlead: home {home.root}" + (", not read" if home.isolated else ""))


def _profile(arguments: Arguments) -> Profile:
    from pathlib import Path

    from fairlead.wire.pi.profile import profile_named

    name = arguments.dialect or os.environ.get("FAIRLEAD_DIALECT") or NAMES.get(Path(sys.argv[0]).stem, "omp")
    return profile_named(name)


def _given(arguments: Arguments, *names: str) -> dict[str, Any]:
    """The flags of these names that were given."""
    return {name: value for name in names if (value := getattr(arguments, name)) is not None}


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()] if text else []


def _frame_limit(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        limit = int(text)
    except ValueError:
        limit = 0
    if limit < SMALLEST_FRAME:
        raise UsageError(f"--max-frame-bytes: expected a number of at least {SMALLEST_FRAME}, got {text!r}.")
    return limit


def _working_directory() -> Path:
    from pathlib import Path

    try:
        return Path.cwd()
    except OSError as error:
        raise ConfigError(f"The working directory cannot be used: {error.strerror}.") from error


def _text_or_file(text: str) -> str:
    """The contents of the file of that name, if there is one; else the text itself."""
    from pathlib import Path

    from fairlead.core.lenient import scrub_text

    try:
        path = Path(text)
        if len(text) < 1024 and path.is_file():
            text = path.read_bytes().decode("utf-8", "replace")
    except (OSError, ValueError):
        pass  # too long for a name, or not readable: then it is a text
    return scrub_text(text)


def _replace_closed_streams() -> None:
    """A standard stream that is closed becomes /dev/null, before another file takes its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


def _complain(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
