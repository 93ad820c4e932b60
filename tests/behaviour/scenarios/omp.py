"""What hosts of omp and of xcsh do with a run, and besides: prompts, tools, queues, settings, bad input, starts and ends."""

from __future__ import annotations

from typing import Any

from tests.behaviour.play import Repertoire
from tests.support.stage import BEGAN, ENDLESS, HELD, WAIT, Stage, bash, calls, says

OMP_RUNS = Repertoire(reasoning="fake-2")
scenario = OMP_RUNS.scenario


# Prompts


@scenario(says("Hello there, this is a reply."), says("second reply"))
def simple_prompt(host: Stage) -> None:
    host.request("get_state", id="s0")
    host.prompt("hi", id="p1")
    host.request("get_state", id="s1")
    host.request("get_messages", id="m")
    host.request("get_last_assistant_text", id="lt")
    since = host.mark()
    host.send({"type": "prompt", "message": "no id prompt"})
    host.until("agent_settled", since=since)
    host.request("get_session_stats", id="st")


@scenario(HELD, says("reply A"), says("reply B"), says("reply C"))
def prompt_while_streaming(host: Stage) -> None:
    host.send({"id": "p1", "type": "prompt", "message": "start"})
    host.update("text_delta")
    host.send({"id": "p2", "type": "prompt", "message": "no behaviour"})
    host.send({"id": "p3", "type": "prompt", "message": "as steer", "streamingBehavior": "steer"})
    host.send({"id": "p4", "type": "prompt", "message": "as followUp", "streamingBehavior": "followUp"})
    host.send({"id": "p5", "type": "prompt", "message": "bad behaviour", "streamingBehavior": "bogus"})
    host.request("get_state", id="s1")
    host.provider.release()
    host.until("agent_settled")
    host.request("get_messages", id="m")


@scenario({"thinking": "Let me think about it.", "text": "Answer text."}, model="fake/fake-2", flags=["--thinking", "low"])
def thinking_prompt(host: Stage) -> None:
    host.prompt("hi", id="p1")
    host.request("get_state", id="s1")


@scenario(calls(bash("echo oai"), text="Running."), says("done"), model="fakeoai/fake-oai")
def openai_prompt(host: Stage) -> None:
    host.prompt("hi", id="p1")


@scenario(says("ok"), files={".fairlead/prompts/hello.md": "---\ndescription: say hello\n---\nSay hello to $1 and $ARGUMENTS\n"})
def slash_commands(host: Stage) -> None:
    """A template, and what means something in a terminal only: to a host, these programs take it for a text."""
    for number, message in enumerate(("/hello bob jane", "/nosuch thing", "/model", "/compact", "/session", "/help", "/usage")):
        host.prompt(message, id=f"p{number}")
    host.request("get_messages", id="m")


@scenario(
    calls(bash("echo hello; echo err >&2"), text="Let me run."),
    calls(bash("echo part; exit 3")),
    calls(("read", {"path": "missing.txt"})),
    calls(("read", {"path": "a.txt"})),
    calls(("no_such_tool", {"x": 1})),
    calls(("bash", {"cmd_wrong": 1})),
    calls(("write", {"path": "new.txt", "content": "line1\nline2\n"})),
    calls(bash("echo A"), bash("echo B"), ("read", {"path": "a.txt"})),
    says("all done"),
    files={"a.txt": "alpha\nbeta\n"},
)
def tools_ok_fail(host: Stage) -> None:
    host.prompt("do tools", id="p1")
    host.request("get_messages", id="m")


# Queues


def queue_during_tools(host: Stage, kind: str, *setup: tuple[str, str]) -> None:
    """Three messages are queued while the first of three tools runs."""
    host.request("get_state", id="s0")
    for number, (command, mode) in enumerate(setup):
        host.request(command, id=f"cfg{number}", mode=mode)
    host.send({"id": "p1", "type": "prompt", "message": "start"})
    host.until("tool_execution_update")
    for number in range(3):
        host.send({"id": f"q{number}", "type": kind, "message": f"{kind} message {number}"})
    host.request("get_state", id="s1")
    host.go.open()
    host.until("agent_settled")
    host.request("get_state", id="s2")
    host.request("get_messages", id="m")


THREE_TOOLS = calls(bash(f"{WAIT}; echo one"), bash("echo two"), bash("echo three"), text="One after another.")
REPLIES = [says(f"reply {letter}") for letter in "ABCDE"]
ONE = "one-at-a-time"


@scenario(THREE_TOOLS, *REPLIES, name=f"steer_immediate_{ONE}")
def steer_immediate(host: Stage) -> None:
    queue_during_tools(host, "steer", ("set_interrupt_mode", "immediate"), ("set_steering_mode", ONE))


@scenario(THREE_TOOLS, *REPLIES)
def steer_immediate_all(host: Stage) -> None:
    queue_during_tools(host, "steer", ("set_interrupt_mode", "immediate"), ("set_steering_mode", "all"))


@scenario(THREE_TOOLS, *REPLIES, name=f"steer_wait_{ONE}")
def steer_wait(host: Stage) -> None:
    queue_during_tools(host, "steer", ("set_interrupt_mode", "wait"), ("set_steering_mode", ONE))


@scenario(THREE_TOOLS, *REPLIES, name=f"follow_up_{ONE}")
def follow_up(host: Stage) -> None:
    queue_during_tools(host, "follow_up", ("set_follow_up_mode", ONE))


@scenario(HELD, says("reply A"), says("reply B"))
def steer_text_stream(host: Stage) -> None:
    host.send({"id": "p1", "type": "prompt", "message": "start"})
    host.update("text_delta")
    host.request("steer", id="q", message="steer now")
    host.provider.release()
    host.until("agent_settled")


# Aborts


@scenario(ENDLESS, says("after"))
def abort_stream(host: Stage) -> None:
    host.send({"id": "p1", "type": "prompt", "message": "start"})
    host.update("text_delta")
    host.request("abort", id="a")
    host.request("get_state", id="s1")
    host.request("get_messages", id="m")
    host.request("abort", id="a2")
    host.prompt("again", id="p2")


@scenario(ENDLESS, says("after"), says("idle one"))
def abort_and_prompt(host: Stage) -> None:
    host.send({"id": "p1", "type": "prompt", "message": "start"})
    host.update("text_delta")
    host.send({"id": "ap", "type": "abort_and_prompt", "message": "new direction"})
    host.until("agent_settled", nth=2)
    host.send({"id": "ap2", "type": "abort_and_prompt", "message": "when idle"})
    host.until("agent_settled", nth=3)


# The host's own commands


@scenario(says("I see"))
def bash_cmd(host: Stage) -> None:
    for id, command in (
        ("b1", "echo out; echo err >&2"),
        ("b2", "exit 7"),
        ("b3", "seq 1 5000"),
        ("b3b", "head -c 300000 /dev/zero | tr '\\0' x"),
    ):
        host.request("bash", id=id, command=command)
    host.send({"id": "b4", "type": "bash", "command": f"echo start; {BEGAN}; sleep 60; echo no"})
    host.began.wait()
    host.request("get_state", id="gs")
    host.request("abort_bash", id="ab")
    host.response("b4")
    host.request("abort_bash", id="ab2")
    host.request("bash", id="b5")
    host.request("bash", id="b6", command="cd /tmp && export FOO=1")
    host.request("bash", id="b7", command="pwd; echo FOO=$FOO")
    host.send({"id": "b8", "type": "bash", "command": f"{WAIT}; echo slow"})
    host.request("bash", id="b9", command="echo quick")
    host.go.open()
    host.response("b8")
    host.prompt("what happened")
    host.request("get_messages", id="m")


# Getters and setters


@scenario(says("ok"))
def getters_setters(host: Stage) -> None:
    def ask(type: str, **fields: Any) -> None:
        host.request(type, **fields)

    ask("get_state")
    ask("get_available_models")
    ask("set_model", provider="fake", modelId="fake-2")
    ask("set_model", provider="nope", modelId="x")
    ask("set_model")
    for _ in range(4):
        ask("cycle_model")
    ask("set_model", provider="fake", modelId="fake-2")
    for level in ("off", "minimal", "low", "medium", "high", "xhigh", "max", "auto", "bogus"):
        ask("set_thinking_level", level=level)
        ask("get_state")
    for _ in range(7):
        ask("cycle_thinking_level")
    ask("set_model", provider="fake", modelId="fake-1")
    ask("cycle_thinking_level")
    ask("set_thinking_level", level="high")
    ask("get_state")
    for command, modes in (
        ("set_steering_mode", ("all", ONE, "bogus")),
        ("set_follow_up_mode", ("all", ONE, "bogus")),
        ("set_interrupt_mode", ("immediate", "wait", "bogus")),
    ):
        for mode in modes:
            ask(command, mode=mode)
            ask("get_state")
    ask("set_auto_compaction", enabled=False)
    ask("get_state")
    ask("set_auto_compaction", enabled=True)
    ask("set_auto_retry", enabled=False)
    ask("abort_retry")
    ask("set_auto_retry", enabled=True)
    for command in ("get_session_stats", "get_last_assistant_text", "get_messages", "get_branch_messages"):
        ask(command)
    ask("set_session_name", name="")
    ask("set_session_name", name="   ")
    ask("set_session_name", name="  My Name ")
    ask("get_state")
    ask("set_session_name")
    ask("set_session_name", name=5)
    ask("export_html")
    host.prompt("hi")
    ask("export_html", outputPath="out.html")
    ask("export_html")
    ask("get_session_stats")
    file = host.request("get_state")["data"]["sessionFile"]
    ask("new_session")
    ask("get_state")
    for path in (file, str(host.around.cwd / "nonexistent" / "x.jsonl")):
        ask("switch_session", sessionPath=path)
        ask("get_state")
    ask("new_session", parentSession=file)
    ask("get_state")
    for command, fields in NEWER_COMMANDS:
        ask(command, **fields)


#: Commands that only later members of the family have.
NEWER_COMMANDS: list[tuple[str, dict[str, Any]]] = [
    ("get_commands", {}),
    ("set_fast_mode", {"enabled": True}),
    ("get_available_commands", {}),
    ("get_login_providers", {}),
    ("login", {"providerId": "nope"}),
    ("handoff", {}),
    ("get_subagents", {}),
    ("set_subagent_subscription", {"level": "events"}),
    ("set_subagent_subscription", {"level": "bogus"}),
    ("get_subagent_messages", {"subagentId": "x"}),
    ("get_messages_page", {"limit": 1}),
    ("get_messages_page", {"limit": 0}),
    ("get_messages_page", {"cursor": "bad"}),
    ("negotiate_protocol", {"protocolVersion": 1}),
    ("negotiate_protocol", {"protocolVersion": 2}),
    ("set_host_uri_schemes", {"schemes": [{"scheme": "DB", "writable": True}]}),
    ("set_host_uri_schemes", {"schemes": [{"scheme": "1x"}]}),
    ("set_host_uri_schemes", {"schemes": [{"scheme": "security"}]}),
    ("set_host_uri_schemes", {"schemes": [{"scheme": ""}]}),
]


# Bad input


@scenario(says("ok"))
def bad_input(host: Stage) -> None:
    host.request("get_state", id="s")
    host.send({"id": "u1", "type": "no_such_command"})
    host.send({"type": "no_such_command2"})
    for line in (b"{not json", b"", b"   ", b"[]", b"123", b"null", b'"str"', b"{}", b'{"id":"x1"}', b'{"type":5,"id":"x2"}'):
        host.write(line + b"\n")
    ask = b'{"type":"get_last_assistant_text"%s}'
    host.write(ask % b',"id":7' + b"\n" + ask % b',"id":null' + b"\n" + ask % b"" + b"\n")
    host.write(ask % b',"id":"crlf"' + b"\r\n")
    host.write(ask % b',"id":"two1"' + ask % b',"id":"two2"' + b"\n")
    host.write(ask % ',"id":"u2028 \u2028"'.encode() + b"\n")
    host.write(ask % b',"id":"dup","id":"dup2"' + b"\n")
    host.send({"id": "p0", "type": "prompt"})
    host.prompt("", id="p1")
    host.send({"id": "p2", "type": "prompt", "message": 5})
    host.prompt("img", id="p3", images=[{"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}])
    host.send({"id": "p4", "type": "steer"})
    host.send({"id": "p5", "type": "follow_up"})
    host.send({"type": "extension_ui_response", "id": "unknown", "value": "x"})
    host.request("get_state", id="s2")


# Starts and ends


@scenario(flags=["@a.txt"], files={"a.txt": "x"}, exit_code=1)
def at_file_rejected(host: Stage) -> None:
    host.exit_code()


@scenario(model="nope/none", exit_code=1)
def no_model(host: Stage) -> None:
    host.exit_code()


@scenario(flags=["hello from argv"])
def initial_message_arg(host: Stage) -> None:
    host.until("ready")


@scenario(ENDLESS)
def stdin_close_busy(host: Stage) -> None:
    host.send({"id": "p1", "type": "prompt", "message": "hi"})
    host.update("text_delta")
