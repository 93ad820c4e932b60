"""A client of Opal's: asks in JSON-RPC, and hears events and questions."""

from __future__ import annotations

import itertools
import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.host import Frame
from tests.support.stage import Stage, Turn, another, stage

#: What ends a run.
TERMINAL = ("agent_end", "agent_abort", "error")


class Client:
    """The client's end of a running server. Whatever it waits for, it waits for a frame."""

    def __init__(self, host: Stage) -> None:
        self.host = host
        self._numbers = itertools.count(1)

    # Asking

    def send(self, method: str, /, *, id: Any = None, **params: Any) -> Any:
        """Send a request, without waiting for its response. Gives its id."""
        ident = next(self._numbers) if id is None else id
        self.host.send({"jsonrpc": "2.0", "id": ident, "method": method, "params": params})
        return ident

    def response(self, id: Any, *, since: int = 0) -> Frame:
        return self.host.wait_for(
            lambda frame: frame.get("id", self) == id and "method" not in frame, f"the response to {id!r}", since=since
        )

    def ask(self, method: str, /, **params: Any) -> Frame:
        """The response to a request."""
        since = self.host.mark()
        return self.response(self.send(method, **params), since=since)

    def call(self, method: str, /, **params: Any) -> Any:
        """The result of a request that is carried out."""
        response = self.ask(method, **params)
        assert "result" in response, response
        return response["result"]

    def refusal(self, method: str, /, **params: Any) -> Frame:
        """The error of a request that is not."""
        response = self.ask(method, **params)
        assert "error" in response, response
        return response["error"]

    def raw(self, line: str | bytes) -> Frame:
        """Send a line as it is; the next frame that comes."""
        since = self.host.mark()
        self.host.write((line.encode() if isinstance(line, str) else line) + b"\n")
        return self.host.wait_for(lambda frame: True, "an answer", since=since)

    def start(self, **params: Any) -> str:
        """Start a session; its id."""
        return self.call("session/start", **params)["session_id"]

    def prompt(self, session: str, text: str) -> list[Frame]:
        """Prompt, and wait until the run is over; its events."""
        since = self.host.mark()
        assert self.call("agent/prompt", session_id=session, text=text) == {"queued": False}
        self.ended(session, since=since)
        events = self.events(session, since=since)
        return events[: next(place for place, event in enumerate(events, 1) if event["type"] in TERMINAL)]

    # Hearing

    def events(self, session: str | None = None, *, since: int = 0) -> list[Frame]:
        """The params of the events so far, of one session or of all."""
        frames = [frame["params"] for frame in self.host.frames[since:] if frame.get("method") == "agent/event"]
        return [params for params in frames if session is None or params["session_id"] == session]

    def until(self, type: str, session: str | None = None, *, since: int = 0, nth: int = 1, **fields: Any) -> Frame:
        """The first event, or the nth, of that type and with those fields."""

        def fits(frame: Frame) -> bool:
            params = frame.get("params", {})
            return (
                frame.get("method") == "agent/event"
                and params["type"] == type
                and (session is None or params["session_id"] == session)
                and all(params.get(name) == value for name, value in fields.items())
            )

        return self.host.wait_for(fits, f"the event {type} of {session}", since=since, nth=nth)["params"]

    def ended(self, session: str, *, since: int = 0) -> Frame:
        """The event that ends a run."""
        return self.host.wait_for(
            lambda frame: (
                frame.get("method") == "agent/event"
                and frame["params"]["session_id"] == session
                and frame["params"]["type"] in TERMINAL
            ),
            f"the end of a run of {session}",
            since=since,
        )["params"]

    def asked(self, method: str, *, since: int = 0) -> Frame:
        """The first request of the server's for that method."""
        return self.host.wait_for(lambda frame: frame.get("method") == method, f"the request {method}", since=since)

    def answer(self, request: Frame, **result: Any) -> None:
        self.host.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def answer_with_error(self, request: Frame, message: str) -> None:
        self.host.send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32603, "message": message}})

    def is_idle(self, session: str) -> bool:
        return self.call("agent/state", session_id=session)["status"] == "idle"


def types(events: Sequence[Frame]) -> list[str]:
    """The types of events; of neighbours of one type, one."""
    return [name for name, _ in itertools.groupby(event["type"] for event in events)]


def said(events: Sequence[Frame]) -> str:
    """What the model said."""
    return "".join(event["delta"] for event in events if event["type"] == "message_delta")


def outcomes(events: Sequence[Frame]) -> dict[str, Frame]:
    """What came of each tool call."""
    return {event["tool"]: event["result"] for event in events if event["type"] == "tool_execution_end"}


@contextmanager
def opal(
    root: Path,
    turns: Sequence[Turn] = ({"text": "ok"},),
    *,
    flags: Sequence[str] = (),
    model: str | None = "fake/fake-1",
    settings: Mapping[str, Any] | None = None,
    files: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    **more: Any,
) -> Generator[Client]:
    """A client of a server that was just started. `turns` are what its model answers."""
    with stage(root, "opal", turns, flags=flags, model=model, settings=settings, files=files, env=env, **more) as host:
        yield Client(host)


@contextmanager
def opal_again(client: Client, *flags: str, model: str | None = "fake/fake-1") -> Generator[Client]:
    """A client of another server in the surroundings of one that has left."""
    with another(client.host, "opal", *flags, model=model) as host:
        yield Client(host)


def batch(*lines: Any) -> bytes:
    """Several messages in one write."""
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def request(id: Any, method: str, /, **params: Any) -> Frame:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def history(client: Client, session: str) -> list[tuple[str, str]]:
    messages = client.call("session/history", session_id=session)["messages"]
    return [(message["role"], message["content"]) for message in messages]


def asked(client: Client, number: int) -> str:
    """The conversation that the model was sent in a request, from 0."""
    return json.dumps(client.host.provider.requests[number].body["messages"])
