"""Standard input and output of every kind that a host may give: files, sockets, terminals, /dev/null, or none at all."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tty
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support import published
from tests.support.host import PATIENCE, Frame
from tests.support.stage import bash, calls, says, stage
from tests.support.surroundings import Surroundings, rpc, surroundings

from fairlead.testing import ProviderServer

COMMANDS = b'{"id":1,"type":"get_state"}\n{"id":2,"type":"get_last_assistant_text"}\n'


@pytest.fixture
def around(tmp_path: Path) -> Iterator[Surroundings]:
    with ProviderServer([says("from the model")]) as provider:
        yield surroundings(tmp_path, provider.url)


def start(around: Surroundings, *flags: str, stdin: Any = None, stdout: Any = None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(rpc("pi", *flags), cwd=around.cwd, env=dict(around.env), stdin=stdin, stdout=stdout)


def frames(data: bytes) -> list[Frame]:
    assert data.endswith(b"\n")
    lines = data.split(b"\n")[:-1]
    published.check("pi", COMMANDS, lines)
    return [json.loads(line.decode()) for line in lines]


def read_lines(descriptor: int, count: int) -> bytes:
    data = b""
    while data.count(b"\n") < count:
        piece = os.read(descriptor, 1 << 16)
        assert piece, data
        data += piece
    return data


def test_files(around: Surroundings) -> None:
    script, output = around.root / "in", around.root / "out"
    script.write_bytes(COMMANDS + b'{"id":3,"type":"prompt","message":"hi"}\n')
    with script.open("rb") as stdin, output.open("wb") as stdout:
        process = start(around, "--on-eof", "finish", stdin=stdin, stdout=stdout)
        assert process.wait(PATIENCE) == 0
    found = frames(output.read_bytes())
    assert [frame["id"] for frame in found if frame["type"] == "response"] == [1, 2, 3]
    assert found[-1] == {"type": "agent_settled", "aborted": False}
    assert found[-2]["messages"][-1]["content"][0]["text"] == "from the model"


def test_a_socket_for_each(around: Surroundings) -> None:
    ours_in, theirs_in = socket.socketpair()
    ours_out, theirs_out = socket.socketpair()
    with ours_in, ours_out:
        with theirs_in, theirs_out:
            process = start(around, stdin=theirs_in, stdout=theirs_out)
        ours_in.sendall(COMMANDS)
        assert [frame["id"] for frame in frames(read_lines(ours_out.fileno(), 2))] == [1, 2]
        ours_in.shutdown(socket.SHUT_WR)
        assert process.wait(PATIENCE) == 0
        assert ours_out.recv(1) == b""


def test_one_socket_for_both(around: Surroundings) -> None:
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            process = start(around, stdin=theirs, stdout=theirs)
        ours.sendall(COMMANDS)
        assert [frame["id"] for frame in frames(read_lines(ours.fileno(), 2))] == [1, 2]
        ours.shutdown(socket.SHUT_WR)
        assert process.wait(PATIENCE) == 0


def test_a_terminal(around: Surroundings) -> None:
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    process = start(around, stdin=theirs, stdout=theirs)
    os.close(theirs)
    os.write(ours, COMMANDS)
    assert [frame["id"] for frame in frames(read_lines(ours, 2))] == [1, 2]
    os.close(ours)
    assert process.wait(PATIENCE) in (0, 129)


def test_pipes_that_the_host_made_non_blocking(around: Surroundings) -> None:
    their_in, our_out = os.pipe()
    our_in, their_out = os.pipe()
    os.set_blocking(their_in, False)
    os.set_blocking(their_out, False)
    process = start(around, "--on-eof", "finish", stdin=their_in, stdout=their_out)
    os.close(their_out)
    os.write(our_out, COMMANDS)
    data = read_lines(our_in, 2)
    os.write(our_out, b'{"id":3,"type":"prompt","message":"%b"}\n' % (b"x" * 200_000))
    os.close(our_out)
    while piece := os.read(our_in, 1 << 16):
        data += piece
    assert frames(data)[-1] == {"type": "agent_settled", "aborted": False}
    assert process.wait(PATIENCE) == 0
    for descriptor in (their_in, our_in):
        os.close(descriptor)


def test_no_input_from_dev_null(around: Surroundings) -> None:
    process = start(around, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert process.communicate(timeout=PATIENCE) == (b"", None)
    assert process.returncode == 0


def test_output_to_dev_null(around: Surroundings) -> None:
    process = start(around, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    process.communicate(COMMANDS, timeout=PATIENCE)
    assert process.returncode == 0


def closed(around: Surroundings, redirection: str) -> list[str]:
    return ["bash", "-c", f'exec "$@" {redirection}', "bash", *rpc("pi")]


def test_a_closed_input(around: Surroundings) -> None:
    process = subprocess.run(
        closed(around, "<&-"), cwd=around.cwd, env=dict(around.env), capture_output=True, timeout=PATIENCE, check=False
    )
    assert (process.returncode, process.stdout, process.stderr) == (0, b"", b"")


def test_a_closed_output(around: Surroundings) -> None:
    process = subprocess.run(
        closed(around, ">&-"),
        cwd=around.cwd,
        env=dict(around.env),
        input=COMMANDS,
        stderr=subprocess.PIPE,
        timeout=PATIENCE,
        check=False,
    )
    assert (process.returncode, process.stderr) == (0, b"")


def test_everything_closed(around: Surroundings) -> None:
    process = subprocess.run(closed(around, "<&- >&- 2>&-"), cwd=around.cwd, env=dict(around.env), timeout=PATIENCE, check=False)
    assert process.returncode == 0


@pytest.mark.parametrize("descriptor", [0, 1])
def test_output_of_children_cannot_reach_the_host(descriptor: int, tmp_path: Path) -> None:
    stray = f"echo stray >> /proc/$PPID/fd/{descriptor}; echo done"
    with stage(tmp_path, "pi", [calls(bash(stray)), says("fine")]) as host:
        assert host.request("bash", command=stray)["data"]["output"] == "done\n"
        host.prompt("go")
        assert host.leave() == 0
        assert not [frame for frame in host.frames if frame["type"] == "tool_execution_end" and frame["isError"]]
        assert host.stderr().count("stray") == (2 if descriptor == 1 else 0)
