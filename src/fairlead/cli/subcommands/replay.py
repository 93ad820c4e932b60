"""`fairlead replay`: be the agent of a recording, or the provider of one."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from msgspec import Struct

from fairlead.cli.console import complain, print_exact
from fairlead.cli.flags import UsageError
from fairlead.cli.subcommands.table import command_named
from fairlead.config.home import expand_user
from fairlead.errors import ConfigError
from fairlead.platform.open_files import open_private
from fairlead.replay.player import ReplayOptions, serve_recording
from fairlead.replay.recording import Recording, provider_turns, read_recording
from fairlead.testing import ProviderServer
from fairlead.wire.dialects import DIALECTS, Dialect, Program
from fairlead.wire.stdio import take_over


class _Words(Struct):
    """The parsed command line."""

    file: Path
    speed: float | None = 1.0
    lenient: bool = False
    report: Path | None = None
    is_provider: bool = False
    port: int = 0


def replay(words: Sequence[str], program: Program) -> int:
    """Play a recording. Returns the exit code. Raises UsageError, and ConfigError if the recording cannot be read."""
    options = _parse(words)
    recording = _read(options.file)
    if options.is_provider:
        return _serve_provider(recording, options)
    _play(recording, options)


def replay_to_host(file: str, speed: str | None, dialect: Dialect) -> NoReturn:
    """Play the recording that `FAIRLEAD_REPLAY` names to a host that expects `dialect`. Raises ConfigError."""
    recording = _read(expand_user(file))
    if recording.header.dialect != dialect.name:
        raise ConfigError(f"{file} was recorded in the dialect {recording.header.dialect}, and the host expects {dialect.name}.")
    _play(recording, _Words(recording.path, _speed("FAIRLEAD_REPLAY_SPEED", speed) if speed else 1.0))


def _parse(words: Sequence[str]) -> _Words:
    options = _Words(Path())
    names: list[str] = []
    left = list(reversed(words))
    while left:
        word, has_value, value = left.pop().partition("=")
        if word in ("--speed", "--report", "--port"):
            if not has_value and not left:
                raise command_named("replay").usage_error(f"{word} needs a value.")
            value = value if has_value else left.pop()
            if word == "--speed":
                options.speed = _speed(word, value)
            elif word == "--report":
                options.report = Path(value)
            else:
                options.port = _port(value)
        elif word in ("--fast", "--lenient", "--provider") and not has_value:
            options.speed = None if word == "--fast" else options.speed
            options.lenient |= word == "--lenient"
            options.is_provider |= word == "--provider"
        else:
            names.append(f"{word}{'=' if has_value else ''}{value}")
    if len(names) != 1 or names[0].startswith("-"):
        raise command_named("replay").usage_error()
    options.file = expand_user(names[0])
    return options


def _speed(flag: str, text: str) -> float | None:
    """Return how many times faster to play; None for `fast`. Raises UsageError."""
    if text == "fast":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise UsageError(f"{flag}: expected a number above 0, such as 10, got {text!r}.")
    return speed


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text[:6]) < 1 << 16):
        raise UsageError(f"--port: expected a port, got {text!r}.")
    return int(text)


def _read(path: Path) -> Recording:
    recording = read_recording(path)
    if recording.header.dialect not in DIALECTS:
        raise ConfigError(f"{path} was recorded in the dialect {recording.header.dialect!r}, which this fairlead does not know.")
    if recording.is_cut_off:
        complain(f"fairlead replay: the last line of {path} is incomplete and is left out.")
    return recording


def _play(recording: Recording, words: _Words) -> NoReturn:
    def report(text: str) -> None:
        complain(f"fairlead replay: {text}")
        if words.report is not None:
            with open_private(words.report, "ab") as file:
                file.write(f"{text}\n".encode())

    options = ReplayOptions(
        speed=words.speed, lenient=words.lenient, report=report, remark=lambda text: complain(f"fairlead replay: {text}")
    )
    stdin, stdout = take_over()
    loop = asyncio.new_event_loop()
    code = loop.run_until_complete(serve_recording(recording, stdin, stdout, options))
    sys.stderr.flush()
    os._exit(code)


def _serve_provider(recording: Recording, words: _Words) -> int:
    turns = provider_turns(recording, speed=words.speed)
    if not turns:
        raise ConfigError(f"{recording.path} has no requests to a provider.")

    async def serve() -> None:
        async with ProviderServer(turns, port=words.port) as server:
            print_exact(server.url)
            sys.stdout.flush()
            await server.serve_forever()

    asyncio.run(serve())
    return 0
