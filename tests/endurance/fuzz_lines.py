"""Fuzzes what hosts send: bytes to lines, lines to requests, and requests to commands, in every dialect."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from tests.endurance.entries import Figures, Options
from tests.endurance.mutation import TOKENS, Mutator, assert_linear, encoded, json_object, run_cases, same_json
from tests.support.json_values import is_object

from fairlead.core import lenient
from fairlead.errors import FairleadError
from fairlead.protocol.acp.acp_catalog import AGENT_NOTIFICATIONS, AGENT_REQUESTS
from fairlead.protocol.opal.opal_examples import METHOD_EXAMPLES
from fairlead.protocol.opal.opal_methods import METHODS
from fairlead.protocol.pi.commands import Command
from fairlead.protocol.pi.pi_examples import COMMAND_EXAMPLES
from fairlead.protocol.pi.session_commands import COMMANDS_2025
from fairlead.wire import jsonrpc
from fairlead.wire.acp.acp_server import AcpCodec
from fairlead.wire.claude import claude_handlers
from fairlead.wire.claude.claude_codec import ClaudeCodec, encode
from fairlead.wire.opal.opal_codec import OpalCodec
from fairlead.wire.pi.pi_codec import PiCodec, decode_command
from fairlead.wire.pi.pi_server import family_routes
from fairlead.wire.pi.profile import PROFILES, Profile
from fairlead.wire.routing import Message, Problem, Request
from fairlead.wire.stdio import LineSplitter

NAME = "lines"
TITLE = "Lines from a host, in every dialect: mutated commands, split at any byte, huge, deep, invalid UTF-8, lone surrogates"

GOLDEN = Path(__file__).parent.parent / "golden"
#: A line of the fuzz is longer than this rarely, so that the limit is met.
LIMIT = 4_000


def seeds() -> list[bytes]:
    """Return lines that hosts have sent: those of the golden transcripts, and an example of every command and method."""
    lines: dict[bytes, None] = {}
    for path in sorted(GOLDEN.glob("*/*.jsonl")):
        for text in filter(None, path.read_text("utf-8").split("\n")):
            record: Any = json.loads(text)
            if record.get("dir") == "in":
                frame: Any = record["frame"]
                raw = frame.get("raw") if is_object(frame) else None
                lines[raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else json.dumps(frame).encode()] = None
    for name, example in COMMAND_EXAMPLES.items():
        fields = example.get("command", example)
        lines[json.dumps({"id": f"r-{name}", "type": name, **(fields if isinstance(fields, dict) else {})}).encode()] = None
    for name, example in METHOD_EXAMPLES.items():
        message = {"jsonrpc": "2.0", "id": 1, "method": name, "params": example.get("params", example)}
        lines[json.dumps(message).encode()] = None
    for name in (*AGENT_REQUESTS, *AGENT_NOTIFICATIONS):
        params = {"sessionId": "s", "cwd": "/", "mcpServers": [], "prompt": [{"type": "text", "text": "x"}], "protocolVersion": 1}
        lines[json.dumps({"jsonrpc": "2.0", "id": "a", "method": name, "params": params}).encode()] = None
    lines[b'{"jsonrpc":"2.0","id":"s2c-1","result":{"outcome":{"outcome":"selected","optionId":"allow"}}}'] = None
    lines[b'{"type":"extension_ui_response","id":"ui-1","value":"yes"}'] = None
    return list(lines)


class _Unlimited:
    """Implements `fairlead.wire.pi.paced_updates.FrameOutlet`, for a codec that sends nothing."""

    max_frame = None
    behind = False

    def send(self, frame: bytes) -> None: ...

    def call_when_caught_up(self, callback: Callable[[], None]) -> None: ...


class Lines:
    """The checks."""

    def __init__(self) -> None:
        self._seeds = seeds()
        names = [name.encode() for name in (*COMMAND_EXAMPLES, *METHODS, *AGENT_REQUESTS)]
        self._tokens = [*names, b'"jsonrpc":"2.0"', b'"params":', b'"method":', b'"id":', b'"type":"prompt"', b'"message":']
        self._values = [value for value in map(json_object, self._seeds) if value is not None]
        self._routes = family_routes()
        self._claude_routes = claude_handlers.routes()

    def _mutator(self, source: random.Random) -> Mutator:
        return Mutator(source, self._seeds, self._tokens)

    def splitting(self, source: random.Random) -> None:
        """Lines are the same, wherever the input was cut, and those over the limit are None."""
        mutator = self._mutator(source)
        data = b"".join(mutator.data() + source.choice((b"\n", b"\r\n", b"\n\n", b"")) for _ in range(source.randrange(6)))
        if source.random() < 0.1:
            data += source.choice((b"x", b"\0", b"[", "é".encode())) * source.choice((LIMIT - 1, LIMIT, LIMIT + 1, 3 * LIMIT))
        splitter = LineSplitter(LIMIT)
        found = [line for chunk in mutator.chunks(data) for line in splitter.feed(chunk)] + splitter.take_rest()
        expected = data.split(b"\n")
        if not expected[-1]:
            expected.pop()
        assert found == [line if len(line) <= LIMIT else None for line in expected], data

    def _line(self, source: random.Random) -> bytes | None:
        mutator = self._mutator(source)
        if source.random() < 0.01:
            return None
        value = source.choice(self._values) if source.random() < 0.5 else None
        data = mutator.data() if value is None else encoded(mutator.json(value), source)
        return data.replace(b"\n", b" ")

    def family(self, profile: Profile, source: random.Random) -> None:
        """A line of a pi dialect is a request, a reply or a problem, and its answer is one line of valid JSON with its id."""
        line = self._line(source)
        codec = PiCodec(profile, _Unlimited())
        message = codec.read(line)
        if message is None:
            assert line is not None and not line.strip()
            return
        _check_id(message, line)
        sent = None if line is None else json_object(line)
        assert message.id is not UNSET or sent is None or "id" not in sent, (line, message)
        if isinstance(message, Request):
            declared: type[Command] | None
            if profile.name == "pi-2025":
                declared = COMMANDS_2025.get(message.name)
            else:
                route = self._routes.find(message.name)
                declared = None if route is None else route.declaration
            if declared is not None:
                try:
                    parameters: Any = codec.parameters(message, declared)
                except FairleadError as error:
                    _check_answers(codec.error(message, error), message)
                else:
                    _check_round_trip(parameters)
                _check_answers(codec.result(message, None), message)
        error = message.error if isinstance(message, Problem) else FairleadError("x\ud800")
        if isinstance(message, Problem) and not profile.unknown_command_echoes_id:
            _check_lines(codec.error(message, error))
        else:
            _check_answers(codec.error(message, error), message)

    def rpc(self, codec: OpalCodec | AcpCodec, declared: dict[str, Any], source: random.Random) -> None:
        """A line of a JSON-RPC dialect is answered with its id, or not at all."""
        line = self._line(source)
        message = codec.read(line)
        if message is None:
            assert line is not None and not line.strip()
            return
        _check_id(message, line)
        sent = None if line is None else json_object(line)
        if isinstance(message, Request) and sent is not None:  # the standard prescribes null for anything else
            assert (message.id is UNSET) == ("id" not in sent), (line, message)
        if isinstance(message, Request) and message.name in declared:
            try:
                codec.parameters(message, declared[message.name])
            except jsonrpc.RpcError as error:
                _check_answers(codec.error(message, error), message)
            _check_answers(codec.result(message, {"x": "\ud800"}), message)
        error = message.error if isinstance(message, Problem) else FairleadError("x\ud800")
        for text in _check_answers(codec.error(message, error), message):
            assert text["jsonrpc"] == "2.0" and "id" in text, (line, text)

    def claude(self, source: random.Random) -> None:
        """A line of the claude dialect is ignored, or answered with the id that it has, or refused."""
        line = self._line(source)
        codec = ClaudeCodec(lambda error: [encode({"refused": str(error)})])
        message = codec.read(line)
        if message is None:
            return
        lines: list[Any] = []
        if isinstance(message, Request):
            route = self._claude_routes.find(message.name)
            if route is not None:
                try:
                    codec.parameters(message, route.declaration)
                except FairleadError as error:
                    lines += codec.error(message, error)
            lines += codec.result(message, {"x": "\ud800"})
        elif isinstance(message, Problem):
            lines += codec.error(message, message.error)
        sent = None if line is None else json_object(line)
        for answer in _check_lines(lines):
            if "refused" not in answer:
                assert sent is not None and same_json(answer["response"]["request_id"], lenient.scrub(sent["request_id"]))

    def lenient(self, source: random.Random) -> None:
        """The lenient decoder returns values that can be encoded, or raises ValueError; what it returns decodes to itself."""
        line = self._line(source)
        if line is None:
            return
        try:
            value = lenient.decode(line)
        except ValueError:
            return
        text = json.dumps(value, ensure_ascii=False)
        if "Infinity" not in text:  # a number that is too large
            assert same_json(lenient.decode(text.encode()), value)


def _check_id(message: Message, line: bytes | None) -> None:
    """The id of a line that is valid JSON is the one that was sent."""
    if line is None or message.id is UNSET:
        return
    assert not isinstance(message.id, UnsetType)
    json.loads(bytes(message.id).decode())
    sent = json_object(line)
    if sent is not None and isinstance(message, Request):
        assert same_json(_value(message.id), lenient.scrub(sent["id"])), (line, message)


def _check_round_trip(command: Command) -> None:
    """A command that was decoded is the same when it is encoded and decoded again."""
    if command.id is not UNSET:
        command.id = UNSET
    text = msgspec.json.encode(command)
    again: Any = decode_command(type(command), text)
    assert again == command, (again, command)


def _check_lines(lines: Any) -> list[Any]:
    found: list[Any] = []
    for line in lines:
        assert line.endswith(b"\n") and line.count(b"\n") == 1, line
        found.append(json.loads(line.decode()))
    return found


def _check_answers(lines: Any, message: Message) -> list[Any]:
    """Check the answers to a message: valid JSON, with its id."""
    found = _check_lines(lines)
    for text in found:
        assert same_json(text.get("id"), None if message.id is UNSET else _value(message.id)), (message, text)
    return found


def _value(raw: Any) -> Any:
    return lenient.decode(bytes(raw))


def checks() -> dict[str, Callable[[random.Random], object]]:
    """Return the checks by name."""
    lines = Lines()
    acp = {**AGENT_REQUESTS, **AGENT_NOTIFICATIONS}
    return {
        "splitting": lines.splitting,
        "lenient": lines.lenient,
        **{name: partial(lines.family, profile) for name, profile in PROFILES.items()},
        "opal": partial(lines.rpc, OpalCodec(), dict(METHODS)),
        "acp": partial(lines.rpc, AcpCodec(), acp),
        "claude": lines.claude,
    }


def growth() -> None:
    """Check that lines cost work in proportion to their length."""

    def make_feed(size: int, piece: bytes, chunk: int) -> Callable[[], object]:
        data = piece * (size // len(piece))
        splitter = LineSplitter(1 << 30)
        return lambda: [splitter.feed(data[at : at + chunk]) for at in range(0, len(data), chunk)]

    for piece in (b"x", b"\n", b"ab\n"):
        for chunk in (64, 1 << 16):
            assert_linear(lambda size, piece=piece, chunk=chunk: make_feed(size, piece, chunk), size=1 << 19)
    codec = PiCodec(PROFILES["pi"], _Unlimited())
    route = family_routes().find("prompt")
    assert route is not None

    def read(size: int, token: bytes) -> Callable[[], object]:
        line = b'{"type":"prompt","id":1,"message":"' + token * (size // len(token)) + b'"}'

        def work() -> object:
            message = codec.read(line)
            assert isinstance(message, Request)
            return codec.parameters(message, route.declaration)

        return work

    for token in (b"x", b"\\ud800", b"\xff", b"\\n", "é".encode()):
        assert_linear(lambda size, token=token: read(size, token), size=1 << 17)

    def make_refusal(size: int, token: bytes) -> Callable[[], object]:
        line = b'{"type":"prompt","id":1,"message":' + token * (size // len(token))
        return lambda: (codec.read(line), jsonrpc.read(line))

    for token in TOKENS:
        assert_linear(lambda size, token=token: make_refusal(size, token), size=1 << 15)


def run(options: Options) -> Figures:
    figures = run_cases(options, checks(), short=3_200, long=2_000_000)
    if not options.short:
        try:
            growth()
        except AssertionError as error:
            figures.problems.append(f"the work grows faster than the input: {error}")
    return figures
