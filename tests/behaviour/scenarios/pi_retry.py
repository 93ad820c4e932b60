"""What hosts of pi see when a provider fails in a way that may pass."""

from __future__ import annotations

from typing import Any

from tests.behaviour.play import Repertoire
from tests.support.stage import Stage, says

PI_RETRY = Repertoire(reasoning="fake-1")
scenario = PI_RETRY.scenario

OVERLOADED: dict[str, Any] = {"status": 529, "error": "Overloaded"}
AT_ONCE = {"retry": {"baseDelayMs": 1}}


@scenario(OVERLOADED, {"status": 429, "error": "rate limited"}, says("finally ok"), settings=AT_ONCE)
def retry_then_success(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.prompt("go", id="p1")
    host.request("get_messages")


@scenario(OVERLOADED, says("ok"))
def retry_default_delay(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.send({"id": "p1", "type": "prompt", "message": "go"})
    host.until("auto_retry_start")
    host.request("get_state")
    host.request("prompt", message="during backoff")
    host.until("agent_settled")


@scenario(OVERLOADED, settings=AT_ONCE)
def retry_exhausted(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.prompt("go", id="p1")
    host.request("get_state")
    host.request("get_messages")


@scenario(OVERLOADED, settings=AT_ONCE)
def retry_disabled(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.request("set_auto_retry", enabled=False)
    host.prompt("go")


@scenario(OVERLOADED, settings={"retry": {"baseDelayMs": 60_000}})
def retry_abort_via_abort(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.send({"id": "p1", "type": "prompt", "message": "go"})
    host.until("auto_retry_start")
    host.request("abort")
    host.request("get_state")
