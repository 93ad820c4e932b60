"""From the command line to an exit code: 0 done, 1 failed, 2 not understood."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from fairlead import __version__
from fairlead.cli.flags import Arguments, UsageError, help_text, parse
from fairlead.cli.speak import complain, say
from fairlead.errors import ConfigError, FairleadError

if TYPE_CHECKING:
    from fairlead.wire.pi.profile import Profile

#: The dialect that a program of this name speaks.
NAMES = {"pi": "pi", "omp": "omp", "xcsh": "xcsh", "opal-server": "opal"}
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
    if arguments.list_models is not None:
        from fairlead.cli.build import build_agent
        from fairlead.cli.models import list_models

        return list_models(build_agent(arguments, None), arguments.list_models)
    if arguments.mode == "rpc":
        return _rpc(arguments, frame_limit)
    gc.enable()
    from fairlead.cli.once import once

    return once(arguments, _profile(arguments))


def _export(words: Sequence[str]) -> int:
    """Write a session file as a page, and say where it is."""
    if not 1 <= len(words) <= 2 or words[0].startswith("-"):
        raise UsageError("usage: fairlead export SESSION.jsonl [PAGE.html]")
    from pathlib import Path

    from fairlead.export import export_file

    say(str(export_file(Path(words[0]), Path(words[1]) if len(words) == 2 else None)))
    return 0


def _rpc(arguments: Arguments, frame_limit: int | None) -> NoReturn:
    """Serve a host, then leave at once: a writer that the host has blocked must not keep the process alive."""
    if any(word.startswith("@") for word in arguments.words):
        raise ConfigError("@file arguments are not supported in RPC mode")
    if arguments.words:
        complain("fairlead: arguments that are not flags are ignored in RPC mode")
    profile = _profile(arguments)

    from fairlead.wire.stdio import take_over

    stdin, stdout = take_over()
    import asyncio

    from fairlead.cli.build import build_agent, given
    from fairlead.wire.rpc import RpcOptions, serve

    async def work() -> int:
        agent = build_agent(arguments, profile)
        options = RpcOptions(profile=profile, max_frame_bytes=frame_limit, **given(arguments, "updates", "on_eof"))
        return await serve(agent, stdin, stdout, options)

    loop = asyncio.new_event_loop()
    code = loop.run_until_complete(work())
    sys.stderr.flush()
    os._exit(code)


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


def _profile(arguments: Arguments) -> Profile:
    from pathlib import Path

    from fairlead.wire.pi.profile import profile_named

    name = arguments.dialect or os.environ.get("FAIRLEAD_DIALECT") or NAMES.get(Path(sys.argv[0]).stem, "omp")
    return profile_named(name)


def _replace_closed_streams() -> None:
    """A standard stream that is closed becomes /dev/null, before another file takes its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
