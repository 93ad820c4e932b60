"""Messages that begin with a slash command, over real pipes: what the host sees, what the model gets, what is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.host import Frame
from tests.support.json_values import is_array
from tests.support.stage import HELD, Stage, another, calls, says, stage

FILES = {
    ".fairlead/prompts/hello.md": "---\ndescription: say hello\n---\nSay hello to $1 and $ARGUMENTS\n",
    ".agents/skills/demo/SKILL.md": "---\nname: demo\ndescription: A demo.\n---\n\nDo the demo.\n",
    "AGENTS.md": "Use tabs.",
}
HELLO = "Say hello to bob and bob jane"


@pytest.fixture(params=["pi", "omp", "xcsh"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def asked(host: Stage) -> list[str]:
    """What users said in the last request to the model."""
    messages: list[dict[str, Any]] = host.provider.requests[-1].body["messages"]
    return [block["text"] for message in messages if message["role"] == "user" for block in message["content"] if "text" in block]


def system(host: Stage) -> str:
    return json.dumps(host.provider.requests[-1].body["system"])


def shown(frames: list[Frame]) -> list[str]:
    """The messages of the user's that the host was told of."""
    started = (frame["message"] for frame in frames if frame["type"] == "message_start")
    return [message["content"][0]["text"] for message in started if message["role"] == "user"]


def test_a_template_is_expanded_before_it_is_shown_asked_and_kept(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, files=FILES) as host:
        assert shown(host.prompt("/hello bob jane")) == [HELLO]
        assert asked(host)[-1] == HELLO
        kept = Path(host.request("get_state")["data"]["sessionFile"]).read_text()
        assert HELLO in kept and "/hello" not in kept


def test_a_skill_is_put_into_the_prompt(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, files=FILES) as host:
        folder = host.around.cwd / ".agents/skills/demo"
        (text,) = shown(host.prompt("/skill:demo quickly"))
        assert text == (
            f'<skill name="demo" location="{folder}/SKILL.md">\nReferences are relative to {folder}.\n\n'
            "Do the demo.\n</skill>\n\nquickly"
        )
        assert "<name>demo</name>" in system(host) and "Use tabs." in system(host)


def test_an_unknown_slash_command_reaches_the_model_unchanged(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, files=FILES) as host:
        for text in ("/nosuch thing", "/model", "/usr/bin/env python"):
            assert shown(host.prompt(text)) == [text]
            assert asked(host)[-1] == text


def test_a_skill_that_is_not_there_is_refused_and_nothing_changes(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, files=FILES) as host:
        host.send({"id": "p", "type": "prompt", "message": "/skill:dmeo"})
        failed = host.until("response", id="p", success=False)
        assert failed["error"] == "There is no skill of the name 'dmeo'. The skills are: demo."
        refused = host.request("steer", message="/skill:dmeo")
        assert (refused["success"], refused["error"]) == (False, failed["error"])
        assert host.request("get_state")["data"]["pendingMessageCount"] == 0
        assert host.prompt("hi") and len(host.provider.requests) == 1


def test_queued_messages_are_expanded_when_they_are_queued(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [HELD, says("a"), says("b")], files=FILES) as host:
        host.send({"id": "p", "type": "prompt", "message": "start"})
        host.update("text_delta")
        host.request("steer", message="/hello steer")
        host.request("follow_up", message="/hello follow")
        host.request("prompt", message="/hello queued", streamingBehavior="followUp")
        host.until("queue_update", steering=["Say hello to steer and steer"])
        host.provider.release()
        host.until("agent_settled")
        expected = [f"Say hello to {name} and {name}" for name in ("steer", "follow", "queued")]
        assert shown(host.frames) == ["start", *expected]


def test_abort_and_prompt_expands_too(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", files=FILES) as host:
        host.request("abort_and_prompt", message="/hello bob jane")
        host.until("agent_settled")
        assert shown(host.frames) == [HELLO]


@pytest.mark.parametrize("name", ["get_commands", "get_available_commands"])
def test_commands_are_listed(dialect: str, name: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, files=FILES) as host:
        folder = str(host.around.cwd)
        info = {"source": "auto", "scope": "project", "origin": "top-level"}
        assert host.request(name)["data"]["commands"] == [
            {
                "name": "hello",
                "description": "say hello",
                "source": "prompt",
                "sourceInfo": {**info, "path": f"{folder}/.fairlead/prompts/hello.md", "baseDir": f"{folder}/.fairlead"},
            },
            {
                "name": "skill:demo",
                "description": "A demo.",
                "source": "skill",
                "sourceInfo": {**info, "path": f"{folder}/.agents/skills/demo/SKILL.md", "baseDir": f"{folder}/.agents"},
            },
        ]


@pytest.mark.parametrize(
    ("flags", "commands", "told"),
    [
        (["-ns"], ["hello"], ["Use tabs."]),
        (["--no-prompt-templates"], ["skill:demo"], ["Use tabs.", "<available_skills>"]),
        (["-nc"], ["hello", "skill:demo"], ["<available_skills>"]),
        (["--isolated", "--api-key", "sk"], [], []),
        (["-ns", "-np", "--skill", ".agents", "--prompt-template", ".fairlead/prompts/hello.md"], None, None),
    ],
    ids=lambda value: value[0] if is_array(value) and value else "",
)
def test_flags_leave_things_out(flags: list[str], commands: list[str] | None, told: list[str] | None, tmp_path: Path) -> None:
    isolated = "--isolated" in flags
    with stage(tmp_path, "pi", files=FILES, flags=flags, model=None if isolated else "fake/fake-1") as host:
        listed = [command["name"] for command in host.request("get_commands")["data"]["commands"]]
        assert listed == (["hello", "skill:demo"] if commands is None else commands)
        prompt = host.request("get_state", verbose=True)["data"]["systemPrompt"]
        expected = ["Use tabs.", "<available_skills>"] if told is None else told
        assert [text for text in ("Use tabs.", "<available_skills>") if text in prompt] == expected


def test_settings_name_more_and_turn_skill_commands_off(tmp_path: Path) -> None:
    settings = {"prompts": ["more/bye.md", "none.md"], "enableSkillCommands": False}
    with stage(tmp_path, "pi", files=FILES, settings=settings, flags=["--verbose"]) as host:
        (host.around.home / "more").mkdir()
        (host.around.home / "more" / "bye.md").write_text("Say goodbye.")
        commands = host.request("get_commands")["data"]["commands"]
        assert [(command["name"], command["sourceInfo"]["source"]) for command in commands] == [
            ("bye", "local"),
            ("hello", "auto"),
        ]
        assert shown(host.prompt("/skill:demo")) == ["/skill:demo"]
        assert f"prompts in settings.json: {host.around.home}/none.md: there is no such file or folder." in host.stderr()


def test_instructions_and_commands_follow_the_session_to_another_directory(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [says("one"), says("two")], files=FILES) as host:
        host.prompt("hi")
        first = host.request("get_state")["data"]["sessionFile"]
        assert "Use tabs." in system(host)
        host.leave()
        other = tmp_path / "other"
        other.mkdir()
        (other / "AGENTS.md").write_text("Use spaces.")
        host.around.cwd.rename(tmp_path / "away")
        other.rename(host.around.cwd)
        with another(host, "pi") as later:
            later.prompt("new")
            assert "Use spaces." in system(later) and "Use tabs." not in system(later)
            assert later.request("get_commands")["data"]["commands"] == []
        elsewhere = tmp_path / "elsewhere"
        (elsewhere / ".fairlead" / "prompts").mkdir(parents=True)
        (elsewhere / ".fairlead" / "prompts" / "there.md").write_text("There.")
        with Stage(host.process.args, elsewhere, host.around.env) as moved:  # pyright: ignore[reportArgumentType]
            assert [each["name"] for each in moved.request("get_commands")["data"]["commands"]] == ["there"]
            assert moved.request("switch_session", sessionPath=first)["success"]
            assert moved.request("get_commands")["data"]["commands"] == []
            assert "Use spaces." in moved.request("get_state", verbose=True)["data"]["systemPrompt"]


def test_a_new_session_sees_what_changed(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", files=FILES) as host:
        host.prompt("hi")
        (host.around.cwd / "AGENTS.md").write_text("Use spaces.")
        host.prompt("again")
        assert "Use tabs." in system(host)
        host.request("new_session")
        host.prompt("hi")
        assert "Use spaces." in system(host)


def test_a_sub_agent_gets_the_instructions_and_its_assignment_word_for_word(tmp_path: Path) -> None:
    task = ("task", {"agent": "task", "tasks": [{"id": "One", "description": "one", "assignment": "/hello bob jane"}]})
    with stage(tmp_path, "omp", [calls(task), says("done"), says("all done")], files=FILES) as host:
        host.prompt("hi")
        below = host.provider.requests[1].body
        assert "Use tabs." in json.dumps(below["system"]) and "<name>demo</name>" in json.dumps(below["system"])
        assert below["messages"][0]["content"][-1]["text"] == "/hello bob jane"
