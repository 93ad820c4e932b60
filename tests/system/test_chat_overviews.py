"""The commands of the chat that show what a session has, and the clipboard. Real keys in a real terminal."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.extend.mcp_scene import raw_server, real_server
from tests.support.tmux import ChatInTmux, chat_in_tmux

pytestmark = pytest.mark.system

DONE = {"text": "All done."}
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


def add_program(folder: Path, name: str, code: str) -> dict[str, str]:
    """Write a program, and return the variables with which the chat finds it as that of an X desktop."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    path = programs / name
    path.write_text(f"#!{sys.executable}\nimport sys\nfolder = {str(folder)!r}\n{code}")
    path.chmod(0o755)
    return {"DISPLAY": ":77", "PATH": f"{programs}:{Path(sys.executable).parent}:/usr/bin:/bin"}


def ask_again(chat: ChatInTmux) -> str:
    """Ask for the servers, and return the screen with the answer."""
    chat.command("/mcp")
    return chat.wait_for(lambda screen: "> Ask for a change" in screen)


def test_tools_skills_and_servers_are_listed(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE], rows=60) as chat:
        skill = chat.home / "skills" / "release" / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text("---\nname: release\ndescription: How to make a release. It has steps.\n---\nDo it.\n")
        servers = {"good": real_server(), "broken": {"command": "no-such-program"}}
        (chat.home / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
        chat.start()
        chat.command("/tools")
        chat.wait_for("bash ")
        chat.command("/skills")
        chat.wait_for("/skill:release")
        chat.wait_for("How to make a release. (~/home/skills/release/SKILL.md)")
        chat.wait_for("could not be connected")  # once, and not as an error of an extension too
        chat.command("/mcp")
        screen = chat.wait_for("broken  not connected: ")
        assert screen.count('The MCP server "broken"') == 1
        chat.wait_until(lambda: ask_again(chat), lambda screen: re.search(r"good +connected: [0-9]+ tools", screen) is not None)
        chat.command("/tools")
        chat.wait_for("mcp__good__")
        chat.leave()


def test_a_chat_without_skills_and_servers_says_how_to_add_them(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        chat.start("--no-mcp")
        chat.command("/skills")
        chat.wait_for("There are no skills.")
        chat.command("/mcp")
        chat.wait_for("fairlead mcp add")
        chat.leave()
        chat.start()
        chat.command("/mcp")
        chat.wait_for("fairlead mcp add")


def test_a_server_that_hangs_does_not_hold_up_the_list(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        os.mkfifo(tmp_path / "gate")
        (chat.home / "mcp.json").write_text(json.dumps({"mcpServers": {"slow": raw_server("silent", tmp_path / "gate")}}))
        chat.start()
        chat.command("/mcp")
        chat.wait_for("connecting")


def test_init_asks_the_model_for_instructions(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        chat.start()
        chat.command("/init in French")
        chat.wait_for("All done.")
        (prompt,) = chat.prompts()
        assert "AGENTS.md" in prompt and prompt.endswith("in French")


def test_settings_are_chosen_kept_and_edited(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE], env={"VISUAL": "sed -i s/medium/low/"}) as chat:
        chat.start()
        chat.command("/settings")
        chat.wait_for("Settings of this session")
        chat.press("3")
        chat.wait_for("ask before every call that changes something")
        chat.press("3")
        chat.wait_for("Approval mode ask")
        chat.command("/thinking medium")
        chat.wait_for("The thinking level is medium.")
        chat.command("/settings")
        chat.press("4")
        chat.wait_for("New sessions begin with this model")
        path = chat.home / "settings.json"
        saved = json.loads(path.read_text())
        assert saved["approvals"] == {"mode": "ask"} and saved["defaultThinkingLevel"] == "medium"
        assert saved["defaultModel"].startswith("claude") and saved["defaultProvider"] == "anthropic"
        chat.command("/settings")
        chat.press("5")
        chat.wait_for("from the next start on")
        assert json.loads(path.read_text())["defaultThinkingLevel"] == "low"


def test_the_last_answer_is_copied(tmp_path: Path) -> None:
    env = add_program(tmp_path, "xclip", "open(folder + '/copied', 'w').write(sys.stdin.read() + ' '.join(sys.argv[1:]))")
    with chat_in_tmux(tmp_path, [{"text": "Grüße,\n\nworld."}], env=env) as chat:
        chat.start()
        chat.command("/copy")
        chat.wait_for("There is no answer to copy yet.")
        chat.send("hello")
        chat.wait_for("world.")
        chat.command("/copy")
        chat.wait_for("Copied the last answer (14 characters).")
        assert (tmp_path / "copied").read_text() == "Grüße,\n\nworld.-selection clipboard -in"


def test_without_a_desktop_the_terminal_copies(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [{"text": "Grüße."}], env={"TMUX": ""}) as chat:
        chat.allow_copying()
        chat.start()
        chat.send("hello")
        chat.wait_for("Grüße.")
        chat.command("/copy")
        chat.wait_for("Asked the terminal to copy")
        assert chat.wait_until(chat.copied, bool) == "Grüße."


IMAGE_OR_TEXT = """
if "image/png" not in sys.argv: print("words from the clipboard", end="")
else:
    try: data = open(folder + "/image", "rb").read()
    except OSError: sys.exit(1)
    sys.stdout.buffer.write(data)
"""


def test_an_image_is_pasted_as_a_mark_that_can_be_deleted(tmp_path: Path) -> None:
    env = add_program(tmp_path, "xclip", IMAGE_OR_TEXT)
    with chat_in_tmux(tmp_path, [DONE, DONE], env=env) as chat:
        (tmp_path / "image").write_bytes(PNG)
        chat.start()
        chat.type("What is this? ")
        chat.press("C-v")
        chat.wait_for("> What is this? [image #1]")
        chat.press("C-v")
        chat.wait_for("[image #2]")
        chat.press("BSpace")
        chat.wait_for(lambda screen: "[image #2]" not in screen)
        chat.press("Enter")
        chat.wait_for("All done.")
        content = chat.server.requests[0].body["messages"][-1]["content"]
        images = [block for block in content if block["type"] == "image"]
        assert len(images) == 1 and base64.b64decode(images[0]["source"]["data"]).startswith(b"\x89PNG")
        assert any("[image #1]" in block.get("text", "") for block in content)
        (tmp_path / "image").unlink()
        chat.press("C-v")
        chat.wait_for("> words from the clipboard")


def test_an_empty_paste_looks_for_an_image(tmp_path: Path) -> None:
    env = add_program(tmp_path, "xclip", IMAGE_OR_TEXT)
    with chat_in_tmux(tmp_path, [DONE], env=env) as chat:
        (tmp_path / "image").write_bytes(PNG)
        chat.start()
        chat.type("\x1b[200~\x1b[201~")
        chat.wait_for("> [image #1]")


def test_pasting_without_a_program_says_what_to_install(tmp_path: Path) -> None:
    bare = tmp_path / "bin"
    bare.mkdir()
    for name in ("fairlead", "bash", "clear", "env"):
        found = subprocess.run(["which", name], capture_output=True, text=True, check=False).stdout.strip()
        (bare / name).symlink_to(found or Path(sys.executable).parent / name)
    with chat_in_tmux(tmp_path, [DONE], env={"PATH": str(bare)}) as chat:
        chat.start()
        chat.press("C-v")
        chat.wait_for("To paste images, install wl-clipboard or xclip.")
