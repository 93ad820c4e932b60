"""What the chat shows beside the conversation follows the session."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead import Agent
from fairlead.chat.status import Status
from fairlead.chat.submitting import Sender
from fairlead.cli.chat import run_chat
from fairlead.cli.flags import Arguments
from fairlead.errors import ConfigError
from fairlead.messages import ToolCall
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn
from fairlead.wire.dialects import program_named
from fairlead.wire.pi.profile import profile_named


async def test_facts_activity_and_title_follow_the_session(tmp_path: Path) -> None:
    look = Turn(text="Looking.", tool_calls=[ToolCall("1", "bash", {"command": "true"})])
    model = Scripted([look, Turn(text="Seen."), Turn(text="Later.")])
    titles: list[str] = []
    async with Agent(model=SCRIPTED_MODEL, stream=model, cwd=tmp_path, isolated=True) as agent:
        status = Status(agent, {"HOME": str(tmp_path.parent)}, titles.append)
        status.refresh(totals=True)
        assert status.facts.folder == f"~/{tmp_path.name}" and status.facts.model == SCRIPTED_MODEL.id
        busy: list[str | None] = []
        queued: list[int] = []

        def follow(event: object) -> None:
            status.handle(event)  # pyright: ignore[reportArgumentType]
            busy.append(status.activity)
            queued.append(status.facts.queued)

        agent.session.subscribe(follow)
        await agent.session.prompt("go")
        await agent.session.follow_up("and then")
        await agent.session.activity.idle()
        assert "Working" in busy and busy[-1] is None and status.activity is None
        assert 1 in queued and queued[-1] == 0
        assert any(title.startswith("* fairlead") for title in titles) and titles[-1] == f"fairlead · {tmp_path.name}"
        agent.session.history.set_name("errand")
        assert titles[-1] == "fairlead · errand" and status.facts.name == "errand"
        agent.session.approvals.set_mode("ask")
        assert status.facts.approval == "ask"
        status.set_title("mine")
        assert titles[-1] == "fairlead · mine"


async def test_a_shell_command_of_the_user_is_an_activity(tmp_path: Path) -> None:
    async with Agent(model=SCRIPTED_MODEL, stream=Scripted([Turn(text="x")]), cwd=tmp_path, isolated=True) as agent:
        status = Status(agent, {}, lambda title: None)
        status.begin_command("make")
        status.add_command_output("x" * 10_000)
        assert status.activity == "$ make" and len(status.command_tail) == 4000
        status.end_command()
        assert status.activity is None and status.command_tail == ""


class _Chat:
    """As much of a chat as `Sender` needs to find images."""

    def __init__(self, agent: Agent) -> None:
        self.session = agent.session


@pytest.mark.parametrize(
    "text",
    [
        "see @shot.png",
        'see @"my shot.png"',
        "see '{}/my shot.png'",
        "see {}/my\\ shot.png",
        "see file://{}/my%20shot.png",
        "@SHOT2.PNG",
    ],
)
async def test_images_are_found_however_they_are_named(tmp_path: Path, text: str) -> None:
    for name in ("shot.png", "my shot.png", "SHOT2.PNG"):
        (tmp_path / name).write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(30))
    (tmp_path / "fake.png").write_text("not an image")
    async with Agent(model=SCRIPTED_MODEL, stream=Scripted([Turn(text="x")]), cwd=tmp_path, isolated=True) as agent:
        sender = Sender(_Chat(agent))  # pyright: ignore[reportArgumentType]
        found, remarks = sender.images_in(f"{text.format(tmp_path)} and @fake.png and @missing.png or /no/such.png")
        assert [image.mime_type for image in found] == ["image/png"]
        assert remarks == [
            f"{tmp_path / 'fake.png'} is not a PNG, JPEG, GIF or WebP image. The prompt goes without it.",
            "There is no image missing.png, so the prompt goes without it.",
        ]


def test_a_terminal_that_cannot_move_its_cursor_gets_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with pytest.raises(ConfigError, match="fairlead -p"):
        run_chat([], Arguments(), profile_named("pi", None), program_named("pi"))


def test_missing_packages_are_named_with_the_command_that_installs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")

    def find(name: str) -> object:
        return None if name == "prompt_toolkit" else name

    monkeypatch.setattr("fairlead.cli.chat.find_spec", find)
    with pytest.raises(ConfigError, match=r"(?s)install .*toolkit"):
        run_chat([], Arguments(), profile_named("pi", None), program_named("pi"))
