"""From the command line to an exit code: 0 done, 1 failed, 2 not understood."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from fairlead import __version__
from fairlead.cli.flags import Arguments, UsageError, help_text, parse, unknown_flag
from fairlead.cli.speak import complain, say
from fairlead.errors import ConfigError, FairleadError

if TYPE_CHECKING:
    from fairlead.wire.pi.profile import Profile

#: The dialect that a program of this name speaks.
NAMES = {"pi": "pi", "omp": "omp", "xcsh": "xcsh", "opal-server": "opal"}
DEFAULT_DIALECT = "omp"
SMALLEST_FRAME = 1024


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    _replace_closed_streams()
    try:
        code = _dispatch(argv)
        sys.stdout.flush()
        return code
    except UsageError as error:
        complain(f"Error: {error}")
        return 2
    except FairleadError as error:
        complain(f"Error: {error}")
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
    if argv[:1] == ["rules"]:
        from fairlead.cli.rules import rules

        return rules(argv[1:])
    if argv[:1] == ["trust"]:
        from fairlead.cli.trust import trust

        return trust(argv[1:])
    if argv[:1] == ["schema"]:
        from fairlead.cli.schema import schema

        return schema(argv[1:], _dialect())
    if argv[:1] == ["export"]:
        return _export(argv[1:])
    arguments = parse(argv)
    if arguments.help:
        say(help_text())
        return 0
    if arguments.version:
        say(__version__)
        return 0
    for flag in arguments.ignored:
        complain(f"fairlead: {flag} has no effect here")
    frame_limit = _frame_limit(arguments.max_frame_bytes)
    speaks_opal = _speaks_opal(arguments)
    if arguments.unknown and (speaks_opal or ((arguments.isolated or arguments.no_extensions) and not arguments.extension)):
        raise UsageError(unknown_flag(f"--{next(iter(arguments.unknown))}"))
    if arguments.list_models is not None:
        return _list_models(argv, arguments, arguments.list_models)
    if speaks_opal:
        return _opal(arguments)
    if arguments.mode in ("rpc", "rpc-ui"):
        return _rpc(argv, arguments, frame_limit)
    gc.enable()
    from fairlead.cli.once import once

    return once(argv, arguments, _profile(arguments))


def _list_models(argv: Sequence[str], arguments: Arguments, search: str) -> int:
    from fairlead.cli.build import build_agent
    from fairlead.cli.models import list_models

    agent = build_agent(arguments, None)
    if arguments.unknown or agent.extensions.exist():
        from fairlead.cli.ending import run
        from fairlead.cli.extension_flags import settled, stdout_to_stderr

        async def load() -> None:
            await settled(agent, argv, arguments)
            await agent.extensions.load()

        with stdout_to_stderr():
            run(load())
    return list_models(agent, search)


def _export(words: Sequence[str]) -> int:
    """Write a session file as a page, and say where it is."""
    if not 1 <= len(words) <= 2 or words[0].startswith("-"):
        raise UsageError("usage: fairlead export SESSION.jsonl [PAGE.html]")
    from pathlib import Path

    from fairlead.export import export_file

    say(str(export_file(Path(words[0]), Path(words[1]) if len(words) == 2 else None)))
    return 0


def _rpc(argv: Sequence[str], arguments: Arguments, frame_limit: int | None) -> NoReturn:
    """Serve a host of the pi family."""
    _refuse_files(arguments)
    profile = _profile(arguments)
    if arguments.mode == "rpc-ui" and profile.form == "2025":
        raise ConfigError(f"The dialect {profile.name} has no way to ask its user anything: use --mode rpc.")

    from fairlead.wire.stdio import take_over

    stdin, stdout = take_over()
    from fairlead.cli.build import build_agent, given
    from fairlead.wire.rpc import RpcOptions, serve

    async def work() -> int:
        agent = build_agent(arguments, profile)
        if arguments.unknown:
            from fairlead.cli.extension_flags import settled

            await settled(agent, argv, arguments)
        await agent.extensions.find_model()
        options = RpcOptions(profile=profile, max_frame_bytes=frame_limit, **given(arguments, "updates", "on_eof"))
        return await serve(agent, stdin, stdout, options)

    _run_and_leave(work)


def _opal(arguments: Arguments) -> NoReturn:
    """Serve a client of Opal's."""
    _refuse_files(arguments)
    for flag, value in (("--max-frame-bytes", arguments.max_frame_bytes), ("--updates", arguments.updates)):
        if value is not None:
            complain(f"fairlead: {flag} has no effect in opal mode")

    from fairlead.wire.stdio import take_over

    stdin, stdout = take_over()
    from fairlead.cli.build import agent_options, given
    from fairlead.wire.opal.serve import serve

    async def work() -> int:
        return await serve(agent_options(arguments, None), stdin, stdout, **given(arguments, "on_eof"))

    _run_and_leave(work)


def _run_and_leave(work: Callable[[], Coroutine[Any, Any, int]]) -> NoReturn:
    """Serve, then leave at once: a writer that the host has blocked must not keep the process alive."""
    import asyncio

    loop = asyncio.new_event_loop()
    code = loop.run_until_complete(work())
    sys.stderr.flush()
    os._exit(code)


def _refuse_files(arguments: Arguments) -> None:
    if any(word.startswith("@") for word in arguments.words):
        raise ConfigError("@file arguments are not supported in RPC mode")
    if arguments.words:
        complain("fairlead: arguments that are not flags are ignored in RPC mode")


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


def _dialect(flag: str | None = None) -> str:
    from pathlib import Path

    return flag or os.environ.get("FAIRLEAD_DIALECT") or NAMES.get(Path(sys.argv[0]).stem, DEFAULT_DIALECT)


def _speaks_opal(arguments: Arguments) -> bool:
    """Opal's server has no modes: who asks for its dialect wants to be served, unless they ask for an answer."""
    if arguments.mode == "opal":
        return True
    is_served = arguments.mode in ("rpc", "rpc-ui") or not (arguments.mode or arguments.print or arguments.words)
    return is_served and _dialect(arguments.dialect) == "opal"


def _profile(arguments: Arguments) -> Profile:
    from fairlead.wire.pi.profile import profile_named

    name = _dialect(arguments.dialect)
    return profile_named(DEFAULT_DIALECT if name == "opal" else name)


def _replace_closed_streams() -> None:
    """A standard stream that is closed becomes /dev/null, before another file takes its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
