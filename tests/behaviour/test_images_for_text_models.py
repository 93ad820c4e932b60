"""A model that reads only text gets no image, and every host learns it."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from tests.support.acp import acp
from tests.support.opal import opal
from tests.support.stage import calls, says, stage

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQAY3Y2wAAAAAElFTkSuQmCC"
MODELS = [{"id": "blind", "input": ["text"]}]
NOTICE = "The image is not sent: blind reads only text, and gets a note instead. Choose a model that reads images."
SENT = {
    "prompt": {"images": [{"type": "image", "data": PIXEL, "mimeType": "image/png"}]},
    "pi-2025": {
        "attachments": [{"id": "1", "type": "image", "fileName": "p.png", "mimeType": "image/png", "size": 9, "content": PIXEL}]
    },
}


@pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh", "pi-2025"])
def test_hosts_of_the_family_learn_it_once(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [says("one"), says("two")], model="fake/blind", models=MODELS) as host:
        host.send({"id": "p", "type": "prompt", "message": "look", **SENT.get(dialect, SENT["prompt"])})
        host.until("agent_end")
        host.send({"id": "q", "type": "prompt", "message": "again"})
        host.until("agent_end", nth=2)
        said = [frame for frame in host.frames if NOTICE in (frame.get("error"), frame.get("message"))]
        assert len(said) == 1
        assert said[0]["type"] == {"omp": "notice", "pi-2025": "error"}.get(dialect, "extension_error")
        assert PIXEL not in json.dumps(host.provider.requests[0].body)


def test_an_acp_client_learns_it_as_a_sentence(tmp_path: Path) -> None:
    with acp(tmp_path, able={}, model="fake/blind", models=MODELS) as client:
        session = client.new()
        client.call("session/prompt", sessionId=session, prompt=[{"type": "image", "data": PIXEL, "mimeType": "image/png"}])
        assert client.said(session).startswith(f"{NOTICE}\n\n")


def test_an_opal_client_learns_it_as_a_status(tmp_path: Path) -> None:
    turns = [calls(("read_file", {"path": "p.png"})), says("ok")]
    with opal(tmp_path, turns, model="fake/blind", models=MODELS) as client:
        (client.host.around.cwd / "p.png").write_bytes(base64.b64decode(PIXEL))
        session = client.call("session/start")["session_id"]
        client.call("agent/prompt", session_id=session, text="look")
        assert client.until("status_update")["message"] == NOTICE
