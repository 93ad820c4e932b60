"""Files and folders whose names are no UTF-8: whatever tells of them, the host gets valid lines."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.host import Host
from tests.support.stage import calls, says
from tests.support.surroundings import rpc, surroundings

from fairlead.testing import ProviderServer

#: "é" in Latin-1, as a name that Python keeps with half a surrogate pair in it.
NAME = os.fsdecode(b"caf\xe9")
SHOWN = "caf\ufffd"


def test_the_working_directory(tmp_path: Path) -> None:
    missing = calls(("read", {"path": "missing.txt"}), ("ls", {"path": "missing"}))
    with ProviderServer([missing, says("ok")]) as provider:
        around = surroundings(tmp_path, provider.url)
        cwd = around.cwd / NAME
        cwd.mkdir()
        with Host(rpc("omp"), cwd, around.env) as host:
            assert SHOWN in host.request("get_state", verbose=True)["data"]["systemPrompt"]
            assert host.request("bash", command="pwd")["data"]["output"].endswith(f"{SHOWN}\n")
            frames = host.prompt("go")
            errors = [frame["result"]["content"][0]["text"] for frame in frames if frame["type"] == "tool_execution_end"]
            assert [f"{SHOWN}/missing" in error for error in errors] == [True, True]
            assert frames[-1] == {"type": "agent_settled", "aborted": False}
            assert host.leave() == 0
            assert host.stderr() == ""
        assert SHOWN in str(provider.requests[1].body["system"])
        assert f"{SHOWN}/missing" in str(provider.requests[1].body["messages"])


def test_a_working_directory_that_is_gone(tmp_path: Path) -> None:
    with ProviderServer([]) as provider:
        around = surroundings(tmp_path, provider.url)
        cwd = around.cwd / NAME
        cwd.mkdir()
        with Host(rpc("omp"), cwd, around.env) as host:
            host.request("get_state")
            cwd.rmdir()
            answer = host.request("bash", id={"any": "id"}, command="true")
            assert (answer["id"], answer["success"]) == ({"any": "id"}, False)
            assert f"{SHOWN} does not exist" in answer["error"]


def test_tools_find_undecodable_names(tmp_path: Path) -> None:
    found = calls(("ls", {}), ("find", {"pattern": "*"}), ("grep", {"pattern": "needle"}))
    with ProviderServer([found, says("ok")]) as provider:
        around = surroundings(tmp_path, provider.url)
        (around.cwd / NAME).write_text("needle\n")
        with Host(rpc("omp"), around.cwd, around.env) as host:
            host.prompt("go")
            results = [frame["message"] for frame in host.frames if frame["type"] == "message_end"][2:5]
            texts = {result["toolName"]: result["content"][0]["text"] for result in results}
            assert texts == {"ls": SHOWN, "find": SHOWN, "grep": f"{SHOWN}:1: needle"}
            assert host.leave() == 0
            assert "Traceback" not in host.stderr()
