"""What hosts of pi do with a run: prompts, tools, queues, aborts."""

from __future__ import annotations

from tests.behaviour.play import Repertoire
from tests.support.stage import BEGAN, ENDLESS, HELD, WAIT, Stage, bash, calls, says

PI_RUNS = Repertoire(reasoning="fake-1")
scenario = PI_RUNS.scenario

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


# Prompts


@scenario(says("Hello there, friend. How can I help?"))
def simple_prompt(host: Stage) -> None:
    host.request("get_state")
    host.prompt("hi")
    host.request("get_state")
    host.request("get_messages")


@scenario(says("ok"))
def prompt_no_id(host: Stage) -> None:
    host.send({"type": "prompt", "message": "no id here"})
    host.until("agent_settled")


@scenario(says("I see an image"))
def prompt_image(host: Stage) -> None:
    host.prompt("look", images=[{"type": "image", "data": PIXEL, "mimeType": "image/png"}])
    host.request("get_messages")


@scenario(HELD, says("A"), says("B"), says("C"))
def prompt_while_streaming(host: Stage) -> None:
    host.send({"id": "p1", "type": "prompt", "message": "go slow"})
    host.update("text_delta")
    host.request("prompt", message="no behavior")
    for behaviour in ("steer", "followUp", "bogus"):
        host.request("prompt", message=f"{behaviour} me", streamingBehavior=behaviour)
    host.provider.release()
    host.until("agent_settled")


@scenario({"thinking": "Let me think about this carefully.", "text": "The answer is 42."})
def thinking_text(host: Stage) -> None:
    host.prompt("think")
    host.request("get_last_assistant_text")


@scenario({"thinking": "Need a tool.", "text": "Running.", **calls(bash("echo hi"))}, says("ok"))
def thinking_text_toolcall(host: Stage) -> None:
    host.prompt("think")


@scenario(says("uni \u2028 sep \u2029 par \U0001f600 emoji \x7f \u0000nul"))
def unicode_text(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.prompt("in \u2028 sep \u2029 par \U0001f600 \u0000 nul")
    since = host.mark()
    host.write(b'{"id":"lone","type":"prompt","message":"lone \\ud800 surrogate"}\n')
    host.until("agent_settled", since=since)
    host.request("get_last_assistant_text")


@scenario(says("got it"))
def huge_line(host: Stage) -> None:
    host.prompt("x" * (8 << 20), id="big")


@scenario(
    {"thinking": "hmm", "text": "Chat api text", **calls(bash("echo oai"))},
    says("done"),
    model="fakeoai/fake-oai",
)
def openai_completions(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.prompt("hi")


# Tools


@scenario(
    calls(("write", {"path": "a.txt", "content": "alpha\nbeta\ngamma\n"}), text="Writing."),
    calls(("read", {"path": "a.txt"})),
    calls(("edit", {"path": "a.txt", "edits": [{"oldText": "beta", "newText": "BETA"}]})),
    calls(bash("cat a.txt; echo err >&2")),
    says("All done."),
)
def tools_success(host: Stage) -> None:
    host.prompt("do things")
    host.request("get_session_stats")
    host.request("get_messages")


@scenario(
    calls(("read", {"path": "missing.txt"})),
    calls(("edit", {"path": "missing.txt", "edits": [{"oldText": "x", "newText": "y"}]})),
    calls(("write", {"path": "/dev/null/x", "content": "z"})),
    calls(bash("echo out; exit 3")),
    calls(("bash", {"command": "sleep 5", "timeout": 0.2})),
    calls(("nosuchtool", {"a": 1})),
    calls(("bash", {"cmd": "wrong arg"})),
    calls(
        ("write", {"path": "f.txt", "content": "one one\n"}),
        ("edit", {"path": "f.txt", "edits": [{"oldText": "one", "newText": "two"}]}),
        ("edit", {"path": "f.txt", "edits": [{"oldText": "zzz", "newText": "two"}]}),
        ("edit", {"path": "f.txt", "edits": [{"oldText": "one one", "newText": "one one"}]}),
    ),
    calls(("edit", {"path": "f.txt", "oldText": "one one", "newText": "two"})),
    says("All failed."),
)
def tools_failure(host: Stage) -> None:
    host.prompt("fail things")
    host.request("get_session_stats")


@scenario(
    calls(bash("seq 1 5000")),
    calls(bash("head -c 200000 /dev/zero | tr '\\0' x")),
    calls(("write", {"path": "big.txt", "content": "\n".join(f"line {i}" for i in range(1, 3001))}), chunk=4000),
    calls(("read", {"path": "big.txt"})),
    calls(("read", {"path": "big.txt", "offset": 2990, "limit": 5})),
    calls(("read", {"path": "big.txt", "offset": 99999})),
    says("done"),
)
def tool_truncation(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.prompt("big")


@scenario(
    calls(("write", {"path": "src/x.py", "content": "import os\nprint('needle')\n"})),
    calls(
        ("grep", {"pattern": "needle"}),
        ("find", {"pattern": "*.py"}),
        ("ls", {}),
        ("ls", {"path": "nodir"}),
        ("grep", {"pattern": "zzz"}),
        ("find", {"pattern": "*.zig"}),
    ),
    says("done"),
    flags=["--tools", "read,bash,edit,write,grep,find,ls"],
)
def tools_grep_find_ls(host: Stage) -> None:
    host.prompt("search")


# Queues


@scenario(HELD, says("Steered."), says("extra"))
def steer_streaming(host: Stage) -> None:
    host.send({"id": "p1", "type": "prompt", "message": "go slow"})
    host.update("text_delta")
    host.request("steer", message="change course")
    host.request("get_state")
    host.request("steer", message="second steer")
    host.provider.release()
    host.until("agent_settled")
    host.request("get_state")


@scenario(calls(bash(f"{WAIT}; echo one"), bash(f"{WAIT}; echo two"), text="tools"), says("After steer."), says("x"))
def steer_during_tool(host: Stage) -> None:
    host.send({"id": "p1", "type": "prompt", "message": "run tools"})
    host.until("tool_execution_update", nth=2)
    host.request("steer", message="stop that")
    host.go.open()
    host.go.open()
    host.until("agent_settled")


@scenario(HELD, says("Follow-up 1 answered."), says("Follow-up 2 answered."))
def follow_up_streaming(host: Stage) -> None:
    host.send({"id": "p1", "type": "prompt", "message": "go slow"})
    host.update("text_delta")
    host.request("follow_up", message="then this")
    host.request("follow_up", message="and that")
    host.request("get_state")
    host.provider.release()
    host.until("agent_settled")
    host.request("get_state")


# Aborts


@scenario({"text": "x", "firstDelayMs": 60_000})
def abort_before_first_token(host: Stage) -> None:
    host.send({"id": "p1", "type": "prompt", "message": "run"})
    host.until("message_end")
    host.request("abort")
    host.request("get_messages")


@scenario(says("x"))
def abort_idle(host: Stage) -> None:
    for command in ("abort", "abort_bash", "abort_retry"):
        host.request(command)


@scenario(ENDLESS, says("after abort"))
def abort_mid_stream(host: Stage) -> None:
    host.send({"id": "p1", "type": "prompt", "message": "go slow"})
    host.update("text_delta")
    host.request("abort")
    host.request("get_state")
    host.request("get_last_assistant_text")
    host.prompt("again")
    host.request("get_messages")


@scenario(calls(bash(f"echo started; {BEGAN}; sleep 60"), bash("echo never"), text="t"), says("after abort"))
def abort_mid_tool(host: Stage) -> None:
    host.send({"id": "p1", "type": "prompt", "message": "run"})
    host.began.wait()
    host.until("tool_execution_end")
    host.request("abort")
    host.request("get_state")
    host.request("get_messages")
    host.prompt("again")
