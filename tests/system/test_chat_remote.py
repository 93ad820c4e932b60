"""The chat over a real ssh connection and in GNU screen: real keys, and the screens that a person would see."""

from __future__ import annotations

import os
import pwd
import shlex
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.debian import need
from tests.support.tmux import PATIENCE, ChatInTmux, chat_in_tmux

pytestmark = pytest.mark.system

WORDS = " ".join(f"w{number:03}" for number in range(120))


@contextmanager
def ssh_server(folder: Path) -> Generator[str]:
    """Run an sshd with keys of its own on loopback. Yields the command that logs in."""
    sshd, keygen, ssh = need("sshd", "openssh-server"), need("ssh-keygen", "openssh-client"), need("ssh", "openssh-client")
    folder.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd does not start without it
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = folder / "config"
    config.write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\nPidFile none\n"
        "StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n"
    )
    with (folder / "log").open("wb") as log, subprocess.Popen([sshd, "-D", "-e", "-f", str(config)], stderr=log) as server:
        try:
            wait_for_port(port, server)
            user = pwd.getpwuid(os.geteuid()).pw_name
            options = [f"-oUserKnownHostsFile={folder}/known", "-oStrictHostKeyChecking=no", "-oLogLevel=ERROR", "-F/dev/null"]
            yield shlex.join([ssh, "-tt", *options, "-i", f"{folder}/user", "-p", str(port), f"{user}@127.0.0.1"])
        finally:
            server.terminate()


def wait_for_port(port: int, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and server.poll() is None:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    pytest.fail(f"sshd does not listen; its exit code is {server.poll()}")


def remote_command(chat: ChatInTmux, env: dict[str, str], *words: str) -> str:
    """What to run on the other side: ssh passes no variables but TERM."""
    variables = [f"{name}={value}" for name, value in env.items()]
    return f"cd {shlex.quote(str(chat.folder))} && exec {shlex.join(['env', *variables, 'fairlead', *words])}"


@contextmanager
def chat_over_ssh(tmp_path: Path, turns: list[dict[str, Any]], *words: str) -> Generator[ChatInTmux]:
    with ssh_server(tmp_path / "ssh") as login, chat_in_tmux(tmp_path, turns, columns=80, rows=24) as chat:
        names = ("HOME", "FAIRLEAD_HOME", "PATH", "LANG", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")
        env = {name: chat.env[name] for name in names}
        chat.type(f"clear; {login} {shlex.quote(remote_command(chat, env, *words))}; echo code=$?")
        chat.press("Enter")
        chat.wait_for("/help lists")
        yield chat


def test_a_chat_over_ssh_streams_queues_and_asks(tmp_path: Path) -> None:
    call = {"name": "bash", "arguments": {"command": "echo $SSH_CONNECTION | cut -d. -f1"}}
    turns = [
        {"text": f"{WORDS} end.", "chunk": 20, "holdAfter": 5, "toolCalls": [call]},
        {"text": "All done."},
        {"text": "That is all."},
    ]
    with chat_over_ssh(tmp_path, turns, "--approval", "ask") as chat:
        chat.send("go")
        chat.wait_for("w018")
        chat.type("and then?")
        chat.wait_for("> and then?")
        chat.press("M-Enter")
        chat.wait_for("later: and then?")
        chat.resize(40, 24)
        chat.wait_for("\nw008")
        chat.resize(100, 30)
        chat.wait_for("thinking medium")
        chat.server.release()
        chat.wait_for("for this session")
        chat.press("y")
        chat.wait_for(lambda screen: "That is all." in screen and "Esc stops" not in screen)
        text = chat.screen(history=True, joined=True)
        assert "│ 127" in text
        assert all(text.count(word) == 1 for word in WORDS.split())
        chat.leave()
        assert "code=0" in chat.screen()


def test_a_lost_connection_ends_the_chat_and_the_session_can_be_resumed(tmp_path: Path) -> None:
    with chat_over_ssh(tmp_path, [{"text": "First answer."}, {"text": "Second answer."}]) as chat:
        chat.send("remember me")
        chat.wait_for("First answer.")
        chat.press("Enter")
        chat.type("~.")  # ssh's own keys for: close the connection
        chat.wait_for_end()
        chat.start("--continue")
        chat.wait_for("> remember me")
        chat.send("and now?")
        chat.wait_for("Second answer.")


def test_a_chat_in_gnu_screen_is_drawn_and_resized_without_leftovers(tmp_path: Path) -> None:
    screen = need("screen", "screen")
    turn = {"text": f"{WORDS} end.", "chunk": 20, "holdAfter": 15}
    env = {"SCREENDIR": str(tmp_path / "sockets")}
    (tmp_path / "sockets").mkdir(mode=0o700)
    with chat_in_tmux(tmp_path, [turn, {"text": "Again."}], columns=80, rows=24, env=env) as chat:
        chat.type(f"clear; {screen} -U -c /dev/null sh -c 'fairlead; echo code=$?; read line'")
        chat.press("Enter")
        chat.wait_for("/help lists")
        chat.send("tell me")
        chat.wait_for("w050")
        for columns, rows in ((50, 24), (100, 30), (60, 16)):
            chat.resize(columns, rows)
            chat.wait_until_steady()
            text = chat.screen()
            assert text.count("> Ask for") == 1 and text.count("Esc stops") == 1 and text.count("w050") == 1
        chat.server.release()
        chat.wait_for(lambda text: "end." in text and "Esc stops" not in text)
        chat.send("once more")
        chat.wait_for("Again.")
        chat.press("C-d")
        assert chat.wait_for_end() == "0"
        chat.press("Enter")
