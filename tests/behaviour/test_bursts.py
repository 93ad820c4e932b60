"""Answers that arrive faster than they are read."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.host import PATIENCE, Host
from tests.support.surroundings import rpc, surroundings

PIECES = 3_000


def event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def whole_answer() -> bytes:
    """An HTTP response of some 300 KB, head and all."""
    message: dict[str, Any] = {"id": "m", "usage": {"input_tokens": 1, "output_tokens": 1}, "content": []}
    body = event("message_start", message=message)
    body += event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    for number in range(PIECES):
        body += event("content_block_delta", index=0, delta={"type": "text_delta", "text": f"{number} "})
    body += event("content_block_stop", index=0)
    body += event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 5})
    body += event("message_stop")
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def send_rest(connection: socket.socket, data: bytes) -> None:
    with suppress(ConnectionError):  # the test sees by the answer that the agent hung up
        connection.sendall(data)


def test_an_answer_may_arrive_together_with_its_head(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        around = surroundings(tmp_path, f"http://127.0.0.1:{server.getsockname()[1]}")
        with Host(rpc("pi"), around.cwd, around.env) as host:
            host.send({"id": "p", "type": "prompt", "message": "go"})
            connection, _ = server.accept()
            with connection:
                connection.settimeout(PATIENCE)
                while b"\r\n\r\n" not in connection.recv(1 << 20):
                    pass
                # While the agent is stopped, the answer fills the buffers between the two.
                host.signal(signal.SIGSTOP)
                os.waitid(os.P_PID, host.process.pid, os.WSTOPPED | os.WNOWAIT)
                connection.setblocking(False)
                answer = whole_answer()
                sent = connection.send(answer)
                connection.settimeout(PATIENCE)
                sending = threading.Thread(target=send_rest, args=(connection, answer[sent:]))
                sending.start()
                host.signal(signal.SIGCONT)
                end = host.until("agent_end")["messages"][-1]
                sending.join(PATIENCE)
    assert end.get("errorMessage") is None
    assert end["content"][0]["text"] == "".join(f"{number} " for number in range(PIECES))
