"""An ACP client: asks in JSON-RPC, and gets updates and questions."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.host import Frame
from tests.support.stage import Stage, Turn, another, stage

#: What a client can do, if it can do everything.
ABLE: dict[str, Any] = {
    "auth": {"terminal": True},
    "elicitation": {"form": {}, "url": {}},
    "session": {"notices": {}, "compaction": {}},
}


class Client:
    """The client's end of a running agent."""

    def __init__(self, host: Stage) -> None:
        self.host = host
        self._numbers = itertools.count(1)

    @property
    def cwd(self) -> str:
        return str(self.host.around.cwd)

    # Asking

    def send(self, method: str, /, **params: Any) -> int:
        """Send a request, without waiting for its answer. Returns its id."""
        ident = next(self._numbers)
        self.host.send({"jsonrpc": "2.0", "id": ident, "method": method, "params": params})
        return ident

    def tell(self, method: str, /, **params: Any) -> None:
        """Send a notification."""
        self.host.send({"jsonrpc": "2.0", "method": method, "params": params})

    def answer_to(self, ident: int, *, since: int = 0) -> Frame:
        return self.host.wait_for(
            lambda frame: frame.get("id") == ident and "method" not in frame, f"the answer to {ident}", since=since
        )

    def call(self, method: str, /, **params: Any) -> Any:
        """The result of a request."""
        answer = self.answer_to(self.send(method, **params))
        assert "result" in answer, answer
        return answer["result"]

    def refusal(self, method: str, /, **params: Any) -> Frame:
        """The error of a request."""
        answer = self.answer_to(self.send(method, **params))
        assert "error" in answer, answer
        return answer["error"]

    def initialize(self, capabilities: Mapping[str, Any] | None = None) -> Any:
        return self.call("initialize", protocolVersion=1, clientCapabilities=dict(capabilities or {}))

    def new(self, **params: Any) -> str:
        """Begin a session. Returns its id."""
        return self.call("session/new", **{"cwd": self.cwd, "mcpServers": [], **params})["sessionId"]

    def begin(self, session: str, text: str) -> int:
        """Send a prompt, without waiting for its answer."""
        return self.send("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    def prompt(self, session: str, text: str = "hi") -> str:
        """Prompt, and return the stop reason."""
        answer = self.answer_to(self.begin(session, text))
        assert "result" in answer, answer
        return answer["result"]["stopReason"]

    def cancel(self, session: str) -> None:
        self.tell("session/cancel", sessionId=session)

    # Updates and questions

    def updates(self, session: str | None = None, *kinds: str, since: int = 0) -> list[Frame]:
        """The updates so far, of one session or of all, of these kinds or of all."""
        found = [frame["params"] for frame in self.host.frames[since:] if frame.get("method") == "session/update"]
        return [
            each["update"]
            for each in found
            if session in (None, each["sessionId"]) and (not kinds or each["update"]["sessionUpdate"] in kinds)
        ]

    def until(self, kind: str, *, since: int = 0, **fields: Any) -> Frame:
        """The first update of a kind with these fields."""

        def fits(frame: Frame) -> bool:
            update = frame.get("params", {}).get("update", {})
            return update.get("sessionUpdate") == kind and all(update.get(name) == value for name, value in fields.items())

        return self.host.wait_for(fits, f"the update {kind} {fields}", since=since)["params"]["update"]

    def said(self, session: str | None = None, kind: str = "agent_message_chunk", *, since: int = 0) -> str:
        """The text of all chunks."""
        return "".join(
            each["content"]["text"] for each in self.updates(session, kind, since=since) if each["content"]["type"] == "text"
        )

    def asked(self, method: str, *, since: int = 0, nth: int = 1) -> Frame:
        """A request of the agent."""
        return self.host.wait_for(lambda frame: frame.get("method") == method, f"the request {method}", since=since, nth=nth)

    def answer(self, request: Frame, **result: Any) -> None:
        self.host.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def permit(self, request: Frame, option: str) -> None:
        """Answer a permission request with one of its options."""
        assert option in [each["optionId"] for each in request["params"]["options"]], request
        self.answer(request, outcome={"outcome": "selected", "optionId": option})

    def tool_call(self, ident: str) -> Frame:
        """A tool call with all its updates applied."""
        found: Frame = {}
        for update in self.updates(None, "tool_call", "tool_call_update"):
            if update["toolCallId"] == ident:
                found |= {name: value for name, value in update.items() if name != "sessionUpdate"}
        return found

    def statuses(self, ident: str) -> list[str]:
        """The statuses that a tool call went through."""
        found = [each for each in self.updates(None, "tool_call", "tool_call_update") if each["toolCallId"] == ident]
        return [each["status"] for each in found if "status" in each]


@contextmanager
def acp(
    root: Path,
    turns: Sequence[Turn] = ({"text": "ok"},),
    *,
    able: Mapping[str, Any] | None = ABLE,
    flags: Sequence[str] = (),
    **around: Any,
) -> Generator[Client]:
    """A client of an agent that has just started, after `initialize` with these capabilities; None: before it."""
    with stage(root, "acp", turns, flags=flags, **around) as host:
        client = Client(host)
        if able is not None:
            client.initialize(able)
        yield client


@contextmanager
def acp_again(
    client: Client, *flags: str, able: Mapping[str, Any] = ABLE, model: str | None = "fake/fake-1"
) -> Generator[Client]:
    """Another agent in the surroundings of `client`, after it has left or beside it."""
    with another(client.host, "acp", *flags) as host:
        found = Client(host)
        found.initialize(able)
        yield found
