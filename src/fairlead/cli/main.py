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
    from fairlead.agent import Agent
    from fairlead.wire.pi.profile import Profile

#: The dialect that a program of this name speaks.
NAMES = {"pi": "pi", "omp": "omp", "xcsh": "xcsh", "opal-server": "opal"}
SMALLEST_FRAME = 1024


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    try:
        if argv[:1] == ["shim"]:
            from fairlead.cli.shim import shim

            return shim(argv[1:])
        return _run(parse(argv))
    except UsageError as error:
        return _complain(f"Error: {error}", 2)
    except FairleadError as error:
        return _complain(f"Error: {error}", 1)
    except KeyboardInterrupt:
        return 130


def _run(arguments: Arguments) -> int:
    if arguments.help:
        _say(help_text())
        return 0
    if arguments.version:
        _say(__version__)
        return 0
    for flag in arguments.ignored:
        _complain(f"fairlead: {flag} has no effect here", 0)
    if arguments.session_dir:
        _complain("fairlead: --session-dir has no effect yet: conversations are kept in memory", 0)
    if arguments.list_models is not None:
        from fairlead.cli.models import list_models

        return list_models(_agent(arguments, None), arguments.list_models)
    if arguments.mode == "rpc":
        return _rpc(arguments)
    from fairlead.cli.once import once

    return once(arguments, _agent, _profile(arguments))


def _rpc(arguments: Arguments) -> NoReturn:
    """Serve a host, then leave at once: a writer that the host has blocked must not keep the process alive."""
    if any(word.startswith("@") for word in arguments.words):
        raise ConfigError("@file arguments are not supported in RPC mode")
    if arguments.words:
        _complain("fairlead: arguments that are not flags are ignored in RPC mode", 0)
    profile = _profile(arguments)
    limit = _frame_limit(arguments.max_frame_bytes)

    from fairlead.wire.stdio import take_over

    stdin, stdout = take_over()
    import asyncio

    from fairlead.wire.rpc import RpcOptions, serve

    async def work() -> int:
        agent = _agent(arguments, profile)
        options = RpcOptions(profile=profile, max_frame_bytes=limit, **_given(arguments, "updates", "on_eof"))
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
        _complain(f"fairlead: {warning}", 0)
    return agent


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
    if not text.isdigit() or int(text) < SMALLEST_FRAME:
        raise UsageError(f"--max-frame-bytes: expected a number of at least {SMALLEST_FRAME}, got {text!r}.")
    return int(text)


def _text_or_file(text: str) -> str:
    """The contents of the file of that name, if there is one; else the text itself."""
    from pathlib import Path

    try:
        path = Path(text)
        return path.read_text("utf-8") if len(text) < 1024 and path.is_file() else text
    except (OSError, ValueError):
        return text


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


def _complain(text: str, code: int) -> int:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
    return code
