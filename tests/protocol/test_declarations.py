"""The wire declarations hold: each command has its handler, each frame of a real conversation is as declared."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Union

import msgspec
import pytest
from tests.support.host import Frame
from tests.support.stage import Stage, bash, calls, says, stage

from fairlead.protocol.pi.commands import ANSWER_NAMES, Command, Persisted
from fairlead.protocol.pi.host_requests import REPLIES
from fairlead.protocol.pi.session_commands import COMMANDS_2025
from fairlead.wire.pi.pi_2025 import routes_2025
from fairlead.wire.pi.pi_schema import COMMANDS, FRAMES
from fairlead.wire.pi.pi_server import family_routes
from fairlead.wire.pi.profile import PROFILES

ROOT = Path(__file__).resolve().parents[2]
FRAME: Any = Union[tuple(FRAMES)]  # noqa: UP007 (as many as there are)

#: The profiles that have all commands.
FAMILY = [name for name in PROFILES if name != "pi-2025"]

#: Fields that every command needs, for those that need some.
FIELDS: dict[str, dict[str, Any]] = {
    "prompt": {"message": "hi"},
    "steer": {"message": "left"},
    "follow_up": {"message": "rest"},
    "abort_and_prompt": {"message": "again"},
    "set_model": {"provider": "fake", "modelId": "fake-2"},
    "set_thinking_level": {"level": "low"},
    "set_steering_mode": {"mode": "all"},
    "set_follow_up_mode": {"mode": "all"},
    "set_interrupt_mode": {"mode": "wait"},
    "set_auto_retry": {"enabled": False},
    "set_auto_compaction": {"enabled": False},
    "set_session_name": {"name": "mine"},
    "negotiate_protocol": {"protocolVersion": 2},
    "set_event_filter": {"events": None},
    "set_fast_mode": {"enabled": False},
    "set_locale": {"locale": "en"},
    "set_todos": {"phases": [{"name": "Work", "tasks": [{"content": "do it"}]}]},
    "bash": {"command": "echo out; exit 3"},
    "set_active_tools": {"tools": ["read"]},
    "set_updates": {"updates": "full"},
    "set_host_tools": {"tools": [{"name": "ping", "description": "Answers", "parameters": {"type": "object"}}]},
    "set_host_uri_schemes": {"schemes": [{"scheme": "db"}]},
    "set_subagent_subscription": {"level": "progress"},
}


def test_every_command_has_one_handler_and_every_handler_a_command() -> None:
    family, of_2025 = family_routes().all(), routes_2025().all()
    assert {name: route.declaration for name, route in family.items()} == COMMANDS
    assert {name: route.declaration for name, route in of_2025.items()} == COMMANDS_2025
    assert len(COMMANDS) == len(set(COMMANDS.values()))
    twice = {"branch", "get_branch_messages", "get_available_commands"}  # omp's names of pi's commands
    assert twice <= set(COMMANDS)
    assert len({route.handler for route in family.values()}) == len(family) - len(twice)


def test_every_declared_command_is_listed() -> None:
    def below(declared: type[Command]) -> set[type[Command]]:
        return {declared}.union(*(below(each) for each in declared.__subclasses__()))

    named = below(Command) - {Command, Persisted}
    assert named == {*COMMANDS.values(), *COMMANDS_2025.values()}


def test_no_name_means_two_things() -> None:
    assert not set(COMMANDS) & ANSWER_NAMES
    assert {str(answer.__struct_config__.tag) for answer in REPLIES} == ANSWER_NAMES


def test_hidden_events_are_frames_of_the_family() -> None:
    declared = {str(frame.__struct_config__.tag) for frame in FRAMES}
    assert all(profile.hidden_events <= declared for profile in PROFILES.values())


def as_declared(frame: Frame) -> Frame:
    """The frame, with everything in it that its declaration does not know left out."""
    decoded = msgspec.json.decode(json.dumps(frame), type=FRAME)
    again = json.loads(msgspec.json.encode(decoded))
    command = COMMANDS.get(frame.get("command", ""))
    if frame["type"] == "response" and "data" in frame and command is not None:
        again["data"] = json.loads(msgspec.json.encode(msgspec.convert(frame["data"], type=command.result)))
    return again


#: Commands that are not simply asked one after another: they start or end something, or need a sub-agent.
APART = frozenset({"prompt", "abort_and_prompt", "resume", "shutdown", "get_subagent_messages", "login"})
#: Commands that need something of the session, in the order in which they can follow each other.
ABOUT_SESSIONS = (
    *("set_label", "compact", "handoff", "switch_session", "clone", "fork", "switch_session", "branch", "delete_session"),
    *("navigate_tree", "new_session", "open_session"),
)


def ask_about_sessions(host: Stage) -> None:
    first = host.request("get_fork_messages")["data"]["messages"][0]["entryId"]
    file = host.request("get_state")["data"]["sessionFile"]
    fields: dict[str, dict[str, Any]] = {
        "set_label": {"targetId": first, "label": "here"},
        "fork": {"entryId": first},
        "switch_session": {"sessionPath": file},
        "branch": {"entryId": first},
        "delete_session": {"sessionPath": file},
        "navigate_tree": {"targetId": None},
        "open_session": {"sessionDir": "elsewhere"},
    }
    for name in ABOUT_SESSIONS:
        answer = host.request(name, **fields.get(name, {}))
        assert answer["success"], answer


@pytest.mark.parametrize("updates", ["full", "delta"])
@pytest.mark.parametrize("dialect", FAMILY)
def test_every_frame_of_a_conversation_is_as_declared(tmp_path: Path, dialect: str, updates: str) -> None:
    script = [
        says("Let me see.", thinking="Hm. " * 5, toolCalls=calls(bash("echo one; echo two"), ("nothing", {}))["toolCalls"]),
        says("Done."),
        {"status": 500, "error": "broken"},
        says("Better."),
    ]
    settings = {"compaction": {"keepRecentTokens": 1}, "retry": {"baseDelayMs": 1}, "todo": {"reminders": False}}
    with stage(tmp_path, dialect, script, flags=["--updates", updates], settings=settings) as host:
        host.prompt("hi")
        host.prompt("again", id={"any": ["json"]})
        for name in sorted(set(COMMANDS) - APART - set(ABOUT_SESSIONS)):
            assert host.request(name, **FIELDS.get(name, {}))["success"], name
        ask_about_sessions(host)
        since = host.mark()
        host.send({"type": "abort_and_prompt", "message": "again"})
        host.until("agent_settled", since=since)
        for line in (b"{", b'{"type":"nonsense","id":1}', b'{"type":"prompt","id":null}', b'{"type":"get_entries","since":"x"}'):
            host.write(line + b"\n")
        host.request("shutdown")
        assert host.exit_code() == 0
        frames = host.frames
    told = {frame["type"] for frame in frames}
    assert {"message_update", "tool_execution_end", "agent_end", "agent_settled", "response", "entry_appended"} <= told
    assert {"auto_retry_start", "bash_execution_update"} <= told
    assert [as_declared(frame) for frame in frames] == frames


def test_chunks_join_to_a_frame_as_declared(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [says("word " * 2000)], flags=["--max-frame-bytes", "4096"]) as host:
        host.prompt("hi")
        host.send({"type": "get_messages"})
        assert host.leave() == 0
        chunks = [frame for frame in host.frames if frame["type"] == "rpc_chunk"]
    last = [chunk for chunk in chunks if chunk["chunkId"] == chunks[-1]["chunkId"]]
    assert [chunk["index"] for chunk in last] == list(range(last[0]["count"]))
    whole = b"".join(base64.b64decode(chunk["data"]) for chunk in last)
    assert len(whole) == last[0]["byteLength"]
    frame = json.loads(whole)
    assert frame["command"] == "get_messages"
    assert as_declared(frame) == frame


def test_the_reference_is_what_the_declarations_say() -> None:
    script = ROOT / "scripts" / "make_reference.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
