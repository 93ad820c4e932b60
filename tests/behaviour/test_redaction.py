"""Providers that quote the key they were sent: no frame, no file and no stream of ours shows it."""

from __future__ import annotations

import base64
import html
import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.support.host import Host
from tests.support.surroundings import rpc, surroundings

from fairlead.core.secrets import REDACTED, Secrets

#: It has characters that JSON, HTML and addresses write in another way.
KEY = 'sk-made-up/0123+4567"89<ab>&cdef'

Answer = Callable[[str], tuple[int, str, bytes]]


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def mid_stream(key: str) -> bytes:
    start = event("message_start", message={"id": "m", "content": [], "usage": {"input_tokens": 1, "output_tokens": 1}})
    block = event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    piece = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "so far"})
    return start + block + piece + event("error", error={"type": "authentication_error", "message": f"bad key {key}"})


ANSWERS: dict[str, Answer] = {
    "JSON": lambda key: (401, "application/json", json.dumps({"error": {"message": f"invalid x-api-key: {key}"}}).encode()),
    "HTML": lambda key: (500, "text/html", f"<h1>Oops</h1><pre>x-api-key: {html.escape(key)}</pre>".encode()),
    "plain": lambda key: (403, "text/plain", f"{key} is not welcome".encode()),
    "address": lambda key: (400, "text/plain", f"see https://made-up.example/?key={quote(key, safe='')}".encode()),
    "base64": lambda key: (400, "text/plain", b"key " + base64.b64encode(key.encode())),
    "cut off by us": lambda key: (500, "text/plain", b"x" * (4096 - 12) + key.encode() + b"y" * 100),
    "in the middle of a stream": lambda key: (200, "text/event-stream", mid_stream(key)),
    "JSON instead of a stream": lambda key: (200, "application/json", json.dumps({"error": key}).encode()),
    "nothing that can be read": lambda key: (200, "text/event-stream", f"what is {key}?".encode()),
    "JSON within JSON": lambda key: (400, "application/json", json.dumps(json.dumps(json.dumps({"key": key}))).encode()),
    "escaped in JSON": lambda key: (400, "text/plain", "".join(c if c.isalnum() else f"\\u{ord(c):04X}" for c in key).encode()),
    "twice in an address": lambda key: (400, "text/plain", quote(quote(key, safe=""), safe="").encode()),
    "numbers in HTML": lambda key: (500, "text/html", "".join(c if c.isalnum() else f"&#{ord(c)};" for c in key).encode()),
    "capital letters": lambda key: (400, "text/plain", key.upper().encode()),
    "redirect": lambda key: (302, f"https://made-up.example/?token={key}", b""),
}


@contextmanager
def echoing(answer: Answer) -> Generator[str]:
    """A provider that puts the key of each request into its answer."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            status, kind, body = answer(self.headers["x-api-key"])
            self.send_response(status)
            self.send_header("location" if status == 302 else "content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def shown(text: str) -> bool:
    """Whether a text shows the key, or enough of it, in any form."""
    if "0123" in text and "4567" in text and "cdef" in text.lower():  # whatever is between
        return True
    forms = (KEY, html.escape(KEY), quote(KEY, safe=""), base64.b64encode(KEY.encode()).decode(), json.dumps(KEY)[1:-1])
    return any(form[:10] in text for form in forms)


@pytest.mark.parametrize("dialect", ["pi", "omp"])
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_a_key_that_a_provider_quotes_is_shown_nowhere(tmp_path: Path, answer: Answer, dialect: str) -> None:
    assert shown(answer(KEY)[2].decode() + answer(KEY)[1])
    with echoing(answer) as url:
        around = surroundings(tmp_path, url, api_key=KEY, settings={"retry": {"enabled": False}})
        with Host(rpc(dialect), around.cwd, around.env) as host:
            host.send({"id": "p", "type": "prompt", "message": "go"})
            end = host.until("agent_end")["messages"][-1]
            assert end["stopReason"] == "error"
            assert REDACTED in end["errorMessage"], end["errorMessage"]
            assert host.leave() == 0
            said = json.dumps(host.frames, ensure_ascii=False) + host.stderr()
    assert not shown(said)
    files = [path for path in around.home.rglob("*.jsonl") if path.is_file()]
    assert files, "the session was kept"
    assert not any(shown(path.read_text("utf-8")) for path in files)


def test_the_parts_of_a_header_are_secrets_too() -> None:
    secrets = Secrets()
    pair = base64.b64encode(b"ada:correct horse").decode()
    secrets.learn_headers([("Authorization", "Bearer tok-0123456789"), ("Proxy-Authorization", f"Basic {pair}")])
    assert secrets.redact("tok-0123456789, correct horse") == f"{REDACTED}, {REDACTED}"
    assert pair not in secrets.redact(f"you sent Basic {pair}")


def test_text_that_is_not_secret_is_not_redacted() -> None:
    secrets = Secrets()
    secrets.learn("short", "", None)
    secrets.learn_headers([("content-type", "application/json"), ("x-key", "abc"), ("user-agent", "fairlead/1.0")])
    text = "short application/json abc fairlead/1.0"
    assert secrets.redact(text) == text


def test_the_beginning_of_a_secret_at_the_end_of_a_text_is_one_too() -> None:
    secrets = Secrets()
    secrets.learn("sk-0123456789abcdef")
    assert secrets.redact("your key sk-0123456…") == f"your key {REDACTED}…"
    assert secrets.redact("your key sk-01") == "your key sk-01"


def test_a_secret_that_is_part_of_another_one_leaves_nothing_of_it() -> None:
    secrets = Secrets()
    secrets.learn("0123456789", "sk-0123456789-abc")
    assert secrets.redact("sk-0123456789-abc and 0123456789") == f"{REDACTED} and {REDACTED}"
    assert secrets.redact("it begins with sk-0123456…") == f"it begins with {REDACTED}…"


def test_agents_in_several_threads_learn_and_redact_at_the_same_time() -> None:
    secrets, problems = Secrets(), list[Exception]()

    def work(thread: int) -> None:
        try:
            for number in range(40):
                secret = f"secret-{thread}-{number:06}"
                secrets.learn(secret)
                assert secret not in secrets.redact(f"you sent {secret} to us")
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_secrets_in_urls_and_variables_are_found_by_name() -> None:
    secrets = Secrets()
    secrets.learn_url("https://ada:made%20up%20word@made-up.example/?api_key=0123456789&page=first-page")
    secrets.learn_variables([("SERVICE_TOKEN", "made-up-token"), ("LANGUAGE", "Esperanto")])
    text = "made up word, made%20up%20word, 0123456789, made-up-token"
    assert secrets.redact(text) == ", ".join([REDACTED] * 4)
    assert secrets.redact("first-page Esperanto") == "first-page Esperanto"


@pytest.mark.parametrize("secret", ['\\\\\\\\"quoted"', "a\\b\\c\\d\\e", "&&&&&&&&", "%%%%%%%%"])
@pytest.mark.parametrize("text", ["\\" * 60_000, "&amp;" * 12_000, "%25" * 20_000, "a\\" * 30_000])
def test_texts_of_escapes_alone_are_gone_through_once(secret: str, text: str) -> None:
    # With patterns that try every way to share the backslashes, this would not end.
    secrets = Secrets()
    secrets.learn(secret)
    assert secrets.redact(f"{text}!").endswith("!")
