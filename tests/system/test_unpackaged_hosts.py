"""What hosts of pi send and read that are in no registry of packages: played to pi and to this program.

gripi (Go) compares the end of the session file with `get_entries`, pi-rpc-rs (Rust) has a type for every field, and
pi-coding-agent (Emacs) waits for certain events. Their programs were run by hand, too, with the test suites of the last two.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from bench.contestants import Turn
from tests.system.public_hosts import BASH, EDIT, REFUSED, WRITE, Compare, Conversation, Home

pytestmark = pytest.mark.system

HANG: Turn = {"text": "word " * 400, "delayMs": 50}
#: The fields that typed clients need in the state, and those of a model.
STATE = (
    "thinkingLevel",
    "isStreaming",
    "isCompacting",
    "steeringMode",
    "followUpMode",
    "autoCompactionEnabled",
    "pendingMessageCount",
)
MODEL = ("id", "name", "api", "provider", "reasoning", "input", "cost", "contextWindow", "maxTokens")


class Agent:
    """An agent in RPC mode, asked one thing after another."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def ask(self, kind: str, **fields: object) -> dict[str, Any]:
        """Send a command and return its response. Events that come before it are kept."""
        self._number += 1
        self._conversation.write(json.dumps({"id": f"n{self._number}", "type": kind, **fields}))
        return self.wait(lambda frame: frame["type"] == "response" and frame.get("id") == f"n{self._number}")

    def data(self, kind: str, **fields: object) -> Any:
        answer = self.ask(kind, **fields)
        assert answer["success"], answer
        return answer.get("data")

    def wait(self, is_wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while True:
            frame = json.loads(self._conversation.read_line())
            self.events.append(frame)
            if is_wanted(frame):
                return frame

    def prompt(self, message: str) -> None:
        """Send a prompt and wait until nothing more happens by itself."""
        self.data("prompt", message=message)
        self.wait(lambda frame: frame["type"] == "agent_settled")

    def kinds(self) -> list[str]:
        """Return the kinds of the events since the last time, without repetitions."""
        # Only pi has events about system messages.
        frames = [
            frame for frame in self.events if frame["type"] != "response" and frame.get("message", {}).get("role") != "system"
        ]
        kinds = [frame.get("assistantMessageEvent", frame)["type"] for frame in frames]
        self.events.clear()
        return [kind for kind, before in zip(kinds, [None, *kinds], strict=False) if kind != before]


@contextmanager
def started(home: Home, *flags: str) -> Generator[Agent]:
    with Conversation(home, [str(home.root / "bin" / "pi"), "--mode", "rpc", *flags]) as conversation:
        yield Agent(conversation)


def drive_with(steps: Callable[[Agent], Generator[object]], *flags: str) -> Callable[[Home], str]:
    def drive(home: Home) -> str:
        with started(home, *flags) as agent:
            return "\n".join(json.dumps(line, sort_keys=True) for line in steps(agent))

    return drive


def read_ids(path: Path, start: int = 0) -> list[str]:
    """Return the ids of the entries in a session file from a byte on. Every line has to be complete."""
    text = path.read_bytes()[start:]
    assert not text or text.endswith(b"\n")
    entries = [json.loads(line) for line in text.splitlines()]
    return [entry["id"] for entry in entries if entry["type"] != "session"]


def ids_in(tree: list[dict[str, Any]]) -> list[str]:
    return [each for node in tree for each in [node["entry"]["id"], *ids_in(node["children"])]]


def test_a_host_that_reads_the_session_file_finds_what_commands_say(compare: Compare) -> None:
    def steps(agent: Agent) -> Generator[object]:
        path = Path(agent.data("get_state")["sessionFile"])
        size, last = 0, None

        def agrees(step: str) -> list[object]:
            """Compare what was added to the file with the entries after the last one that was known."""
            nonlocal size, last
            added = read_ids(path, size)
            answer = agent.data("get_entries", **({"since": last} if last else {}))
            whole = read_ids(path)
            tree = agent.data("get_tree")
            same = [entry["id"] for entry in answer["entries"]] == added
            size, last = path.stat().st_size, whole[-1]
            return [step, same, sorted(ids_in(tree["tree"])) == sorted(whole), tree["leafId"] == answer["leafId"]]

        for text in ("Use the shell.", "Write and edit.", "Fail."):
            agent.prompt(text)
            yield agrees(text)
            yield agent.data("get_state")["sessionFile"] == str(path)
        for kind, fields in (
            ("set_model", {"provider": "scripted", "modelId": "two"}),
            ("set_thinking_level", {"level": "low"}),
            ("bash", {"command": "echo out"}),
            ("set_session_name", {"name": "A name"}),
            ("set_auto_compaction", {"enabled": False}),
        ):
            agent.data(kind, **fields)
            yield agrees(kind)
        agent.prompt("Think.")
        yield agrees("Think.")
        entries = agent.data("get_entries")["entries"]
        roles = [entry["message"]["role"] for entry in entries if entry["type"] == "message"]
        stats = agent.data("get_session_stats")
        yield [roles.count(role) for role in ("user", "assistant", "toolResult")]
        yield [stats[name] for name in ("userMessages", "assistantMessages", "toolResults", "toolCalls")]
        yield stats["sessionFile"] == str(path)
        # The session moves to another file, and the one before stays as it is.
        before = path.read_bytes()
        first = agent.data("get_fork_messages")["messages"][1]["entryId"]
        yield agent.data("fork", entryId=first)
        yield path.read_bytes() == before
        yield agent.data("clone")
        path, size, last = Path(agent.data("get_state")["sessionFile"]), 0, None
        agent.prompt("On a branch.")
        yield agrees("clone")

    work: tuple[Turn, ...] = (BASH, {"text": "Done."}, WRITE, EDIT, {"text": "Edited."}, REFUSED)
    printed = compare(drive_with(steps), *work, {"thinking": "Hm.", "text": "Thought."}, {"text": "Here."})
    assert '["Use the shell.", true, true, true]' in printed
    assert '["clone", true, true, true]' in printed
    assert printed.replace('"cancelled": false', "").count("false") == 0


def test_a_host_with_types_for_every_field_reads_alike(compare: Compare) -> None:
    def steps(agent: Agent) -> Generator[object]:
        def state() -> list[object]:
            found = agent.data("get_state")
            return [[found[name] for name in STATE], {name: found["model"][name] for name in MODEL}, found.get("sessionName")]

        yield state()
        yield [agent.data("get_state")["messageCount"], agent.data("get_messages")["messages"]]
        models = agent.data("get_available_models")["models"]
        yield [{name: model[name] for name in MODEL} for model in models]
        yield agent.data("set_model", provider="scripted", modelId="two")["id"]
        yield agent.ask("set_model", provider="ghost", modelId="none")["error"]
        cycled = agent.data("cycle_model")
        yield [cycled["model"]["id"], cycled["thinkingLevel"], cycled["isScoped"]]
        yield agent.data("set_model", provider="scripted", modelId="two")["id"]
        for level in ("medium", "off"):
            agent.data("set_thinking_level", level=level)
            yield state()
        yield agent.data("cycle_thinking_level")
        for mode in ("all", "one-at-a-time"):
            agent.data("set_steering_mode", mode=mode)
            agent.data("set_follow_up_mode", mode=mode)
            yield state()
        for enabled in (False, True):
            agent.data("set_auto_compaction", enabled=enabled)
            agent.data("set_auto_retry", enabled=enabled)
            yield state()
        yield [agent.data("bash", command=command) for command in ("echo out", "exit 42")]
        yield [
            agent.data("get_last_assistant_text").get("text"),
            agent.data("new_session"),
            agent.data("set_session_name", name="A name"),
        ]
        yield state()
        stats = agent.data("get_session_stats")
        yield [stats[name] for name in ("userMessages", "assistantMessages", "toolCalls", "toolResults", "tokens", "cost")]
        yield [sorted(command) for command in agent.data("get_commands")["commands"] if command["source"] != "extension"]
        agent.prompt("Say something.")
        roles = [message["role"] for message in agent.data("get_messages")["messages"]]
        yield [role for role in roles if role != "system"]
        yield agent.data("get_last_assistant_text")

    printed = compare(drive_with(steps, "--no-session", "--provider", "scripted", "--model", "two"), {"text": "Said."})
    assert '{"text": "Said."}' in printed


def test_a_host_that_waits_for_events_hears_alike(compare: Compare) -> None:
    def steps(agent: Agent) -> Generator[object]:
        yield agent.data("get_state")["messageCount"]
        commands = agent.data("get_commands")["commands"]
        yield [[each["name"], each["sourceInfo"]["scope"]] for each in commands if each["source"] != "extension"]
        yield [agent.data("new_session"), agent.data("get_fork_messages")]
        agent.events.clear()
        agent.prompt("Use the shell.")
        kinds = agent.kinds()
        yield [kind for kind in kinds if kind not in ("toolcall_delta", "tool_execution_update")]
        agent.data("prompt", message="Talk for long.")
        agent.wait(lambda frame: frame.get("assistantMessageEvent", {}).get("type") == "text_delta")
        yield agent.data("get_state")["isStreaming"]
        yield agent.data("steer", message="Turn left.")
        yield agent.ask("abort")
        if "agent_end" not in agent.kinds():
            agent.wait(lambda frame: frame["type"] == "agent_end")
        yield agent.data("get_state")["isStreaming"]
        path = Path(agent.data("get_state")["sessionFile"])
        yield [agent.ask("set_session_name", name="A name"), agent.data("get_state")["sessionName"]]
        yield ['"session_info"' in path.read_text(), "A name" in path.read_text()]

    compare(drive_with(steps), BASH, {"text": "Done."}, HANG, {"text": "Left."})
