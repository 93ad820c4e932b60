"""What hosts of pi do besides: commands of their own, getters and setters, bad input, ends; and providers that fail."""

from __future__ import annotations

import signal

from tests.behaviour.play import Repertoire
from tests.support.stage import BEGAN, ENDLESS, HELD, WAIT, Stage, bash, calls, says

PI_EDGES = Repertoire(reasoning="fake-1")
scenario = PI_EDGES.scenario


# The host's own commands


@scenario(says("noted"))
def bash_command(host: Stage) -> None:
    host.request("bash", command="echo hello; echo err >&2; exit 2")
    host.request("get_messages")
    host.request("bash", command="for i in 1 2 3; do echo l$i; done")
    host.request("bash", command="seq 1 5000")
    host.request("bash", command="echo secret", excludeFromContext=True)
    host.request("bash", command="")
    host.request("bash", command="printf '\\033[31mred\\033[0m\\r\\n\\x01bin'")
    host.request("get_state")
    host.prompt("what did I run?")
    host.request("get_messages")


@scenario(says("x"))
def abort_bash(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.send({"id": "b1", "type": "bash", "command": f"echo started; {BEGAN}; sleep 60"})
    host.began.wait()
    host.request("abort_bash")
    host.response("b1")
    host.request("get_messages")
    host.send({"id": "b2", "type": "bash", "command": f"{WAIT}; echo first"})
    host.request("bash", command="echo second")
    host.go.open()
    host.response("b2")


@scenario(HELD, says("next"))
def bash_while_streaming(host: Stage) -> None:
    host.send({"id": "p1", "type": "prompt", "message": "slow"})
    host.update("text_delta")
    host.request("bash", command="echo mid")
    host.request("get_messages")
    host.provider.release()
    host.until("agent_settled")
    host.request("get_messages")


# Getters and setters


@scenario(says("x"))
def get_set_cycle(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.request("get_state")
    host.request("get_available_models")
    host.request("set_model", provider="fake", modelId="fake-2")
    host.request("get_state")
    host.request("set_thinking_level", level="high")
    host.request("get_state")
    host.request("cycle_thinking_level")
    host.request("set_model", provider="fake", modelId="fake-1")
    host.request("get_state")
    for _ in range(4):
        host.request("cycle_model")
    host.request("set_model", provider="fake", modelId="fake-1")
    for level in ("off", "minimal", "low", "medium", "high", "xhigh", "bogus"):
        host.request("set_thinking_level", level=level)
    host.request("get_state")
    host.request("set_thinking_level", level="off")
    for _ in range(6):
        host.request("cycle_thinking_level")
    host.request("set_model", provider="nope", modelId="nope")
    host.request("set_model")
    host.request("set_steering_mode", mode="all")
    host.request("set_follow_up_mode", mode="all")
    host.request("get_state")
    host.request("set_steering_mode", mode="bogus")
    host.request("get_state")
    host.request("set_auto_compaction", enabled=False)
    host.request("set_auto_retry", enabled=False)
    for command in ("get_state", "get_messages", "get_session_stats", "get_last_assistant_text", "get_fork_messages"):
        host.request(command)
    for command in ("get_commands", "get_available_thinking_levels", "clear_queue", "get_entries", "get_tree", "clone"):
        host.request(command)


@scenario(says("x"), model=None)
def no_model_flag(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.request("get_state")
    host.prompt("hi")


@scenario(says("x"), flags=["--no-session"])
def no_session(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.request("get_state")
    host.prompt("hi")
    for command in ("get_session_stats", "get_fork_messages", "export_html", "new_session", "get_state"):
        host.request(command)


# Failing providers


@scenario(
    {"status": 401, "error": "invalid x-api-key"},
    {"status": 400, "error": "bad request"},
    {"status": 500, "error": "boom"},
    says("ok"),
    settings={"retry": {"baseDelayMs": 1}},
)
def http_errors(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.prompt("auth")
    host.prompt("bad")
    host.prompt("500", id="p3")


@scenario({"text": "partial text garbage", "garbageAfter": 2}, says("recovered"))
def garbage_mid_stream(host: Stage) -> None:
    host.prompt("go", id="p1")


# Bad input


@scenario(says("x"))
def malformed(host: Stage) -> None:
    host.request("get_state", id="ready")
    for line in (b"this is not json", b"", b"   ", b"[1,2]", b"42", b'"str"', b'{"id":"t","type":"get_state"', b"{}"):
        host.write(line + b"\n")
    host.write(b'{"id":"x1"}\n{"id":"x2","type":"bogus_command"}\n')
    for ident in (b"7", b'{"a":1}', b'"crlf"', b'"bad\xff\xfeutf8"'):
        host.write(b'{"id":%s,"type":"get_last_assistant_text"}' % ident + (b"\r\n" if b"crlf" in ident else b"\n"))
    host.write(b'{"type":"extension_ui_response","id":"nope","value":"x"}\n')
    host.write(b'\xef\xbb\xbf{"id":"bom","type":"get_last_assistant_text"}\n')
    two = b"".join(b'{"id":"%s","type":"get_last_assistant_text"}\n' % ident for ident in (b"two-a", b"two-b"))
    host.write(two + b'{"id":"half","type":')
    host.response("two-b")
    host.write(b'"get_last_assistant_text"}\n')
    host.request("get_last_assistant_text")


@scenario(says("x"))
def malformed_null_line(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.request("get_last_assistant_text")
    host.write(b"null\n")
    host.request("get_last_assistant_text")


@scenario(says("x"))
def missing_fields(host: Stage) -> None:
    for message in ({}, {"message": None}, {"message": 42}):
        host.request("prompt", **message)
    host.prompt("", id="r4")
    host.request("prompt", message=["a"])
    for command, fields in (
        ("steer", {}),
        ("follow_up", {}),
        ("set_session_name", {}),
        ("set_session_name", {"name": 5}),
        ("bash", {}),
        ("bash", {"command": 5}),
        ("fork", {}),
        ("fork", {"entryId": "nope"}),
        ("switch_session", {}),
        ("switch_session", {"sessionPath": str(host.around.cwd / "nonexistent" / "x.jsonl")}),
        ("set_thinking_level", {}),
        ("set_auto_compaction", {}),
        ("set_auto_compaction", {"enabled": "yes"}),
        ("export_html", {}),
        ("prompt", {"message": "x", "images": "notalist"}),
        ("get_state", {}),
    ):
        host.request(command, **fields)


# Ends of the process


@scenario(says("x"))
def stdin_close_idle(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.request("get_state")


@scenario(ENDLESS)
def stdin_close_mid_run(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.send({"id": "p1", "type": "prompt", "message": "slow"})
    host.update("text_delta")


@scenario(calls(bash(f"{BEGAN}; sleep 60")))
def stdin_close_mid_tool(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.send({"id": "p1", "type": "prompt", "message": "slow"})
    host.began.wait()


@scenario(ENDLESS, exit_code=143)
def sigterm_mid_run(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.send({"id": "p1", "type": "prompt", "message": "slow"})
    host.update("text_delta")
    host.signal(signal.SIGTERM)
    host.exit_code()


@scenario(says("x"))
def sigint_idle(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.request("get_state")
    host.signal(signal.SIGINT)
