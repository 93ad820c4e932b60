"""Random requests for `tests.system.serve_fuzz`: sensible ones, nearly sensible ones, and bytes that are no requests at all."""

from __future__ import annotations

import base64
import json
import random
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from fairlead.protocol.http.operations import OPERATIONS

#: Seconds that a stream of events or a WebSocket is read.
HOLD = 0.02

_METHODS = ["GET", "POST", "PATCH", "DELETE", "PUT", "HEAD", "OPTIONS", "TRACE", "CONNECT", "BREW", "get", "G\x00T", "X" * 300]
_PATHS = [
    "/",
    "/login",
    "/logout",
    "/metrics",
    "/openapi.json",
    "/page/app.mjs",
    "/page/../../../../etc/passwd",
    "/page/%2e%2e/%2e%2e/etc/passwd",
    "/v1/sessions/..%2f..%2fetc",
    "/v1/sessions/%00/prompt",
    "//v1/sessions",
    "/v1/sessions/",
    "/v1/models?x=%ff",
    "/ws",
    "/acp",
    "*",
    "http://other.example/v1/sessions",
    "/" + "a" * 5000,
    "/%",
    "/\u2603",
]
_TEXTS = [
    "",
    "a",
    "x" * 20_000,
    "\x00",
    "\u2028",
    "../../etc/passwd",
    "/etc",
    "-1",
    "null",
    "{}",
    "\ud83d\ude00" * 50,
    "<script>",
]
_WORDS = ["ask", "auto", "high", "off", "at", "before", "steer", "allow", "deny", "image/png", "/help", "/compact"]


@dataclass
class Outgoing:
    """What to send over one connection."""

    pieces: list[bytes]
    #: Whether the request is not complete, so that no answer is expected.
    is_partial: bool = False
    #: Whether to abort the connection instead of closing it.
    is_rude: bool = False
    #: The address that the connection comes from.
    source: str = "127.0.0.1"

    def __repr__(self) -> str:
        return repr(b"".join(self.pieces)[:600])


@dataclass
class Known:
    """What the fuzz knows about the server. `sessions` has the ids of the last sessions that it has begun."""

    port: int
    token: str
    sessions: deque[str] = field(default_factory=lambda: deque[str](["none"], maxlen=30))


def outgoing(chance: random.Random, known: Known) -> Outgoing:
    """Return the next request."""
    kinds: list[tuple[Callable[[random.Random, Known], Outgoing], int]] = [
        (_sensible, 40),
        (_wrong_body, 20),
        (_anything, 14),
        (_stranger, 8),
        (_websocket, 12),
        (_garbage, 6),
    ]
    make = chance.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]
    made = make(chance, known)
    made.is_rude = chance.random() < 0.2
    if made.source == "127.0.0.1":  # the address of the healthy client, which garbled tokens would block
        made.source = f"127.0.1.{chance.randrange(1, 250)}"
    return made


# Requests


def _request(
    known: Known, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None, *, close: bool = True
) -> bytes:
    given = {
        "Host": f"127.0.0.1:{known.port}",
        "Authorization": f"Bearer {known.token}",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **({"Connection": "close"} if close else {}),
        **(headers or {}),
    }
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogatepass") + body


def _sensible(chance: random.Random, known: Known) -> Outgoing:
    """Return a request that the declarations allow, for a session that exists if it is still there."""
    operation = chance.choices(OPERATIONS, [_weight(each.name) for each in OPERATIONS])[0]
    path = operation.path.replace("{id}", chance.choice(known.sessions)).replace("{question}", chance.randbytes(16).hex())
    for each in operation.parameters:
        if each.place == "query" and chance.random() < 0.3:
            path += ("&" if "?" in path else "?") + f"{each.name}={chance.choice(['0', '1', '99999', 'x', ''])}"
    body = b"" if operation.body is None else json.dumps(_fields(chance, operation.body.__struct_encode_fields__)).encode()
    return Outgoing(_cut(chance, _request(known, operation.method, path, body)))


def _weight(name: str) -> int:
    return {"create_session": 3, "prompt": 6, "delete_session": 3, "log_out": 0, "log_in": 0, "listen": 4}.get(name, 2)


def _fields(chance: random.Random, names: tuple[str, ...]) -> dict[str, Any]:
    sensible: dict[str, Any] = {
        "text": chance.choice(["hello", "write it", "word " * chance.randrange(100)]),
        "approval": chance.choice(["ask", "deny"]),
        "thinking": chance.choice(["off", "low", "high"]),
        "position": "at",
        "confirmed": True,
        "decision": "deny",
        "name": "a name",
        "model": "test/test-model",
    }
    return {name: sensible[name] for name in names if name in sensible and (name == "text" or chance.random() < 0.5)}


def _wrong_body(chance: random.Random, known: Known) -> Outgoing:
    """Return a request whose body is not what the operation wants."""
    operation = chance.choice([each for each in OPERATIONS if each.body is not None])
    path = operation.path.replace("{id}", chance.choice(known.sessions)).replace("{question}", "x")
    assert operation.body is not None
    names = [*operation.body.__struct_encode_fields__, "more"]
    value = {name: _value(chance, 3) for name in chance.sample(names, chance.randrange(len(names)))}
    body = json.dumps(value if chance.random() < 0.8 else _value(chance, 4)).encode()
    match chance.randrange(8):
        case 0:
            body = body[: chance.randrange(len(body))]
        case 1:
            body = bytes(each ^ (chance.random() < 0.05) << chance.randrange(8) for each in body)
        case 2:
            body = b"[" * 20_000 + body
        case 3:
            body = b'{"text":"\\ud800 lone", "name": "\xff\xfe"}'
        case 4:
            body = b'{"text":"' + b"x" * chance.choice([90_000, 99_980, 100_001, 300_000]) + b'"}'
        case 5:
            body = body.replace(b"}", b', "timeout": 1e999, "id": NaN}', 1)
        case _:
            pass
    kind = chance.choice(
        ["application/json"] * 5 + ["text/plain", "", "application/json; charset=latin-1", "multipart/form-data"]
    )
    return Outgoing(_cut(chance, _request(known, operation.method, path, body, {"Content-Type": kind})))


def _value(chance: random.Random, depth: int) -> Any:
    choices: list[Callable[[], Any]] = [
        lambda: chance.choice(_TEXTS),
        lambda: chance.choice(_WORDS),
        lambda: chance.choice([0, -1, 1.5, 10**30, 2**63, True, False, None]),
        lambda: [_value(chance, depth - 1) for _ in range(chance.randrange(4))],
        lambda: {chance.choice([*_WORDS, "type", "data", "mimeType"]): _value(chance, depth - 1) for _ in range(3)},
        lambda: [{"type": "image", "data": chance.choice(["", "AAAA", "not base64", "A" * 9000]), "mimeType": "image/png"}],
    ]
    return chance.choice(choices[:3] if depth <= 0 else choices)()


def _anything(chance: random.Random, known: Known) -> Outgoing:
    """Return a request with a random method, path and headers."""
    headers: dict[str, str] = {}
    for _ in range(chance.randrange(6)):
        name = chance.choice(
            ["Cookie", "Range", "Accept", "Expect", "Upgrade", "Te", "X-Forwarded-For", "Last-Event-ID", "X" * 90]
        )
        headers[name] = chance.choice(
            [*_TEXTS[:2], "x" * chance.choice([10, 9_000, 70_000]), "100-continue", "\xff\xfe", "websocket"]
        )
    if chance.random() < 0.1:
        headers["Content-Length"] = chance.choice(["-1", "abc", "99999999999999999999", "0, 0", ""])
    if chance.random() < 0.1:
        headers["Transfer-Encoding"] = chance.choice(["chunked", "gzip", "chunked, chunked", "identity"])
    path = chance.choice(_PATHS) if chance.random() < 0.7 else "/" + quote(chance.randbytes(chance.randrange(30)))
    sent = _request(known, chance.choice(_METHODS), path.replace("\n", ""), b"", headers)
    waits = any(name in headers for name in ("Content-Length", "Transfer-Encoding", "Expect"))
    return Outgoing(_cut(chance, sent), is_partial=waits)


def _stranger(chance: random.Random, known: Known) -> Outgoing:
    """Return a request of a client that may not do what it wants: a wrong secret, name or origin."""
    wrong: dict[str, str] = chance.choice(
        [
            {"Authorization": f"Bearer {chance.randbytes(32).hex()}"},
            {"Authorization": f"Bearer {known.token[:-1]}"},
            {"Authorization": f"Basic {base64.b64encode(chance.randbytes(20)).decode()}"},
            {"Authorization": "", "Cookie": f"fairlead-{known.port}={chance.randbytes(16).hex()}"},
            {"Host": chance.choice(["evil.example", "127.0.0.1@evil.example", "localhost:1:2", "[::1", ""])},
            {"Origin": chance.choice(["null", "https://evil.example", "http://127.0.0.1:1", "file://"])},
            {"Sec-Fetch-Site": "cross-site"},
        ]
    )
    path, method = chance.choice([("/v1/sessions", "POST"), ("/v1/sessions", "GET"), ("/login", "POST"), ("/metrics", "GET")])
    body = json.dumps({"code": chance.randbytes(16).hex()}).encode() if path == "/login" else b"{}"
    # From other addresses, because failures block an address.
    source = f"127.{chance.randrange(1, 250)}.{chance.randrange(250)}.{chance.randrange(1, 250)}"
    return Outgoing([_request(known, method, path, body, wrong)], source=source)


def _cut(chance: random.Random, data: bytes) -> list[bytes]:
    """Cut a request into pieces that arrive one after another."""
    if chance.random() < 0.8:
        return [data]
    places = sorted(chance.randrange(len(data) + 1) for _ in range(3))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


# Not requests


def _garbage(chance: random.Random, known: Known) -> Outgoing:
    """Return bytes that are not a complete request."""
    sensible = _request(known, "POST", "/v1/sessions", b"{}")
    made: list[bytes] = chance.choice(
        [
            [chance.randbytes(chance.randrange(1, 4000))],
            [sensible[: chance.randrange(len(sensible))]],
            [b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * chance.choice([10, 3000, 20_000])],
            [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + chance.randbytes(50)],
            [b"\x16\x03\x01" + chance.randbytes(200)],
            [b"GET /healthz\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"],
            [_request(known, "GET", "/healthz", close=False)] * 5,
            [_request(known, "POST", "/v1/sessions", b"", {"Transfer-Encoding": "chunked", "Content-Length": ""}), b"zz\r\n"],
            [_request(known, "POST", "/v1/sessions", b"x" * 10, {"Content-Length": "5000"})],
            [],
        ]
    )
    return Outgoing(made, is_partial=True)


def _websocket(chance: random.Random, known: Known) -> Outgoing:
    """Return a handshake, and frames that may be wrong in any way."""
    path = chance.choice(
        [
            *(f"/ws?dialect={dialect}" for dialect in ("pi", "omp", "xcsh", "opal", "no")),
            "/acp",
            "/ws",
            f"/v1/sessions/{chance.choice(known.sessions)}/events",
            "/ws?dialect=pi&cwd=/etc",
            "/healthz",
        ]
    )
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": chance.choice(["13"] * 8 + ["8", ""]),
        "Sec-WebSocket-Key": base64.b64encode(chance.randbytes(chance.choice([16] * 8 + [5]))).decode(),
    }
    request = _request(known, "GET", path, b"", headers)
    return Outgoing([request, *(_frame(chance) for _ in range(chance.randrange(6)))])


def _frame(chance: random.Random) -> bytes:
    commands: list[Any] = [
        {"id": "1", "type": "get_state"},
        {"type": "prompt", "message": "hello"},
        {"type": "abort"},
        {"type": chance.choice(["new_session", "switch_session", "fork", "bash", "nothing"]), "sessionPath": "/etc/passwd"},
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {}}},
        {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": "/etc", "mcpServers": []}},
        {"jsonrpc": "2.0", "id": 3, "method": chance.choice(["session/start", "agent/prompt", "x"]), "params": _value(chance, 2)},
        _value(chance, 3),
    ]
    data = json.dumps(chance.choice(commands)).encode()
    if chance.random() < 0.2:
        data = chance.randbytes(chance.choice([0, 5, 200, 70_000, 250_000]))
    code = chance.choice([0x81] * 8 + [0x82, 0x01, 0x80, 0x88, 0x89, 0x8A, 0xF1, 0x83])
    mask = chance.randbytes(4) if chance.random() < 0.95 else b""
    size = len(data)
    head = bytes([code, (0x80 if mask else 0) | (size if size < 126 else 126 if size < 1 << 16 else 127)])
    head += b"" if size < 126 else struct.pack("!H", size) if size < 1 << 16 else struct.pack("!Q", size)
    if mask:
        repeated = (mask * (size // 4 + 1))[:size]
        data = (int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")).to_bytes(size, "big")
    return (head + mask + data)[: None if chance.random() < 0.9 else chance.randrange(size + 2)]
