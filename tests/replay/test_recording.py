"""What `--record` keeps, what it leaves out, and what it does when it cannot write."""

from __future__ import annotations

import json
import os
import resource
import stat
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from tests.replay.recordings import entries, frames, kinds, recorded, recording, replayed
from tests.support.device_server import DeviceServer
from tests.support.host import PATIENCE, Host
from tests.support.opal import TERMINAL, opal
from tests.support.stage import bash, calls, says
from tests.support.surroundings import FAIRLEAD, rpc, surroundings

import fairlead
from fairlead.testing import ProviderServer


def test_it_keeps_frames_and_provider_traffic_in_order_with_times(tmp_path: Path) -> None:
    with recorded(tmp_path, calls(bash("echo hi")), says("Done."), dialect="pi@0.87") as (host, provider):
        host.prompt("Use the shell.")
        host.write(b"not json\n")
        host.until("response", command="parse")
        assert host.leave() == 0
        sent = host.frames
        body = provider.requests[1].body
    header, *rest = entries(tmp_path)
    assert (header["type"], header["version"], header["dialect"], header["release"]) == ("recording", 1, "pi", "0.87.1")
    assert header["fairlead"] == fairlead.__version__
    assert frames(tmp_path) == sent
    assert [entry.get("line", entry.get("text")) for entry in entries(tmp_path, "in")] == [
        {"id": "p", "type": "prompt", "message": "Use the shell."},
        "not json",
    ]
    times = [entry["ms"] for entry in rest]
    assert times == sorted(times)
    order = [entry["type"] for entry in rest if entry["type"] not in ("out", "chunk")]
    assert order == ["in", "request", "response", "end", "request", "response", "end", "in", "in_end", "exit"]
    asked = entries(tmp_path, "request")[1]
    assert (asked["method"], asked["exchange"], asked["body"]) == ("POST", 2, body)
    answer = "".join(entry["text"] for entry in entries(tmp_path, "chunk") if entry["exchange"] == 2)
    assert answer.startswith("event: message_start\n")
    assert answer.endswith('"message_stop"}\n\n')
    assert rest[-1]["code"] == 0
    assert stat.S_IMODE(recording(tmp_path).stat().st_mode) == 0o600


def test_long_frames_are_kept_whole(tmp_path: Path) -> None:
    with recorded(tmp_path, says("word " * 2000), dialect="omp", flags=["--max-frame-bytes", "4096"]) as (host, _):
        host.send({"id": "p", "type": "prompt", "message": "Talk."})
        host.until("prompt_result")
        host.leave()
        assert "rpc_chunk" in kinds(host.frames)
    assert "rpc_chunk" not in kinds(frames(tmp_path))
    assert "agent_end" in kinds(frames(tmp_path))


# Secrets

SECRETS = {
    "variable": "variable-secret-0001",
    "models.json": "models-json-secret-0002",
    "header": "header-secret-0003",
    "auth.json": "auth-json-secret-0004",
    "token": "login-token-secret-0005",
    "refresh": "refresh-token-secret-0006",
    "flag": 'flag-"secret"-0007',
    "number": "31415926535897",
}


def plant(home: Path) -> None:
    """Write the secrets that an agent reads from files."""
    models = json.loads((home / "models.json").read_text())
    models["providers"]["fake"]["headers"] = {"x-company": SECRETS["header"]}
    (home / "models.json").write_text(json.dumps(models))
    auth = {
        "other": {"type": "api_key", "key": SECRETS["auth.json"]},
        "third": {"type": "oauth", "access": SECRETS["token"], "refresh": SECRETS["refresh"], "expires": 1},
    }
    (home / "auth.json").write_text(json.dumps(auth))
    (home / "auth.json").chmod(0o600)


@pytest.mark.parametrize("dialect", ["pi", "opal"])
def test_no_secret_is_kept_wherever_it_appears(dialect: str, tmp_path: Path) -> None:
    everything = " ".join(SECRETS.values())
    name = "shell" if dialect == "opal" else "bash"
    shell = {"toolCalls": [{"name": name, "arguments": {"command": 'cat "$FAIRLEAD_HOME"/*.json; env'}}], "text": everything}
    failing = {"status": 400, "error": f"Wrong key: {everything}", "headers": {"set-cookie": "session=cookie-secret-0008"}}
    with ProviderServer([shell, says(everything, chunk=4), failing]) as provider:
        around = surroundings(tmp_path / "agent", provider.url, api_key=SECRETS["models.json"])
        plant(around.home)
        env = {**around.env, "MY_SERVICE_TOKEN": SECRETS["variable"], "PIN_SECRET": SECRETS["number"]}
        flags = ["--record", str(recording(tmp_path)), "--api-key", SECRETS["flag"]]
        model = ["--model", "fake/fake-1"]
        command = [FAIRLEAD, "--mode", "opal", *model, *flags] if dialect == "opal" else rpc(dialect, *flags)
        say_to(command, around.cwd, env, everything, dialect)
        assert len(provider.requests) >= 3
    text = recording(tmp_path).read_text()
    assert [name for name, secret in SECRETS.items() if secret in text or json.dumps(secret)[1:-1] in text] == []
    assert [name for name, secret in SECRETS.items() if secret[:12] in text or secret[8:-4] in joined_pieces(tmp_path)] == []
    assert "cookie-secret" not in text
    assert "set-key-secret" not in text
    assert entries(tmp_path, "exit")
    assert str(around.cwd) in text


def joined_pieces(root: Path) -> str:
    """All pieces of streams, each stream in one text: the deltas for the host, and those of the provider."""
    deltas: dict[str, str] = {}

    def collect(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for name, each in cast("dict[str, Any]", value).items():
                collect(each, f"{path}/{name}")
        elif isinstance(value, str) and path.endswith(("/delta", "/text", "/partial_json")):
            deltas[path] = deltas.get(path, "") + value

    for frame in frames(root):
        collect(frame, "")
    for chunk in entries(root, "chunk"):
        for line in chunk["text"].splitlines():
            if line.startswith("data: {"):
                collect(json.loads(line[6:]), f"provider{chunk['exchange']}")
    assert "[redacted]" in "".join(deltas.values())
    return "\n".join(deltas.values())


def say_to(command: Sequence[str], cwd: Path, env: dict[str, str], everything: str, dialect: str) -> None:
    """Send prompts that contain all secrets, and wait for the end of each run."""
    with Host(list(command), cwd, env) as host:
        if dialect == "pi":
            for _ in range(2):
                host.prompt(f"My keys are {everything}")
            host.leave()
            return
        host.send({"jsonrpc": "2.0", "id": 1, "method": "session/start", "params": {}})
        session = host.wait_for(lambda frame: frame.get("id") == 1, "the session")["result"]["session_id"]
        key = {"provider": "other", "api_key": "set-key-secret-0009"}
        host.send({"jsonrpc": "2.0", "id": 2, "method": "auth/set_key", "params": key})
        for _ in range(2):
            since = host.mark()
            params = {"session_id": session, "text": f"My keys are {everything} set-key-secret-0009"}
            host.send({"jsonrpc": "2.0", "id": 3, "method": "agent/prompt", "params": params})
            host.wait_for(lambda frame: frame.get("params", {}).get("type") in TERMINAL, "the end of the run", since=since)
        host.leave()


def test_a_login_leaves_nothing_but_its_frames(tmp_path: Path) -> None:
    code = {"device_code": "device-secret-0010", "user_code": "ABCD", "verification_uri": "http://localhost/", "interval": 0}
    token = {"access_token": "access-secret-0011", "refresh_token": "refresh-secret-0012", "expires_in": 3600}
    flags = ["--record", str(recording(tmp_path))]
    with DeviceServer([token], code) as server, opal(tmp_path / "agent", [says("Hello.")], model=None, flags=flags) as client:
        url, model = f"{client.host.provider.url}/v1", {"id": "m", "contextWindow": 1000, "maxTokens": 100}
        acme = {"baseUrl": url, "api": "openai-completions", "oauth": server.oauth, "models": [model]}
        (client.host.around.home / "models.json").write_text(json.dumps({"providers": {"acme": acme}}))
        begun = client.call("auth/login")
        client.call("auth/poll", device_code=begun["device_code"], interval=0)
        client.prompt(client.start(), "Say access-secret-0011 and refresh-secret-0012.")
        assert client.host.provider.requests[0].headers["authorization"] == "Bearer access-secret-0011"
        client.host.leave()
    assert [entry["url"] for entry in entries(tmp_path, "request")] == [f"{url}/chat/completions"]
    assert "-secret-" not in recording(tmp_path).read_text()


# Files


def start(
    root: Path, *flags: str, env: dict[str, str] | None = None, limit: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Start an agent, ask for its state, and leave."""
    around = surroundings(root, "http://127.0.0.1:9")
    line = '{"id":"a","type":"get_state"}\n'
    limits = None if limit is None else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    return subprocess.run(
        rpc("pi", *flags),
        cwd=around.cwd,
        env={**around.env, **(env or {})},
        input=line,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=limits,
        check=False,
    )


def test_an_existing_file_is_replaced_only_on_request(tmp_path: Path) -> None:
    file = recording(tmp_path)
    file.write_text("precious")
    file.chmod(0o644)
    refused = start(tmp_path / "a", "--record", str(file))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "exists. Give another name, or --record-overwrite to replace it." in refused.stderr
    assert file.read_text() == "precious"
    assert start(tmp_path / "b", "--record", str(file), "--record-overwrite").returncode == 0
    assert len(entries(tmp_path, "out")) == 1
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_folder_gets_a_file_per_process_and_the_variable_works_like_the_flag(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    for name in "ab":
        assert start(tmp_path / name, env={"FAIRLEAD_RECORD": str(folder)}).returncode == 0
    assert len(list(folder.glob("pi-*.jsonl"))) == 2


def test_commands_of_the_agent_do_not_record_too(tmp_path: Path) -> None:
    env = {"FAIRLEAD_RECORD": str(recording(tmp_path))}
    with ProviderServer([calls(bash("echo got=$FAIRLEAD_RECORD")), says("ok")]) as provider:
        around = surroundings(tmp_path / "agent", provider.url)
        with Host(rpc("pi"), around.cwd, {**around.env, **env}) as host:
            host.prompt("Go.")
            assert host.until("tool_execution_end")["result"]["content"][0]["text"] == "got=\n"


@pytest.mark.parametrize("file", ["missing/folder/file", "/dev/full"])
def test_a_file_that_cannot_be_written_ends_the_start(file: str, tmp_path: Path) -> None:
    result = start(tmp_path / "a", "--record", file, "--record-overwrite")
    assert (result.returncode, result.stdout) == (1, "")
    assert f"--record: cannot write {file}" in result.stderr


def test_a_disk_that_fills_up_ends_the_recording_and_not_the_agent(tmp_path: Path) -> None:
    # Python ignores SIGXFSZ, so a write over the limit fails like one to a full disk.
    result = start(tmp_path / "a", "--record", str(recording(tmp_path)), limit=300)
    assert result.returncode == 0
    assert json.loads(result.stdout)["success"] is True
    assert "ends here: File too large. The agent continues." in result.stderr
    # What fitted is complete. How much that is depends on the digits of the times.
    assert [entry["type"] for entry in entries(tmp_path)][:2] == ["recording", "in"]


def test_record_needs_a_mode_that_serves_a_host(tmp_path: Path) -> None:
    command = [FAIRLEAD, "-p", "hi", "--record", str(recording(tmp_path))]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2
    assert "--record needs a mode that serves a host" in result.stderr
    assert not recording(tmp_path).exists()


def test_a_killed_process_leaves_a_recording_of_what_it_sent(tmp_path: Path) -> None:
    with recorded(tmp_path, says("Hello.")) as (host, _):
        host.prompt("Hi.")
        deadline = time.monotonic() + PATIENCE
        while b"agent_settled" not in recording(tmp_path).read_bytes():
            assert time.monotonic() < deadline
            host.request("get_session_stats")
        os.kill(host.process.pid, 9)
        assert host.exit_code() == -9
    with replayed(tmp_path) as replay:
        replay.prompt("Hi.")
        assert replay.leave() == 0
