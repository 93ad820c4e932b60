"""llama.cpp as a child process: started when it is first asked, restarted when it has died, ended with this process."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from secrets import token_urlsafe
from threading import Lock
from typing import IO, Any

from msgspec import Struct
from msgspec.structs import replace

from fairlead.config.home import Home
from fairlead.core.model import Model, ModelRequest, ModelStream, StreamEvent
from fairlead.core.partial_message import PartialMessage
from fairlead.core.runtime import CancelToken
from fairlead.core.secrets import learn
from fairlead.errors import ConfigError
from fairlead.models.adapters import open_stream
from fairlead.models.credentials import RequestAuth
from fairlead.models.http.http_client import Http
from fairlead.models.local.weights import (
    FoundWeights,
    GgufFacts,
    best_weights,
    download_named,
    find_weights,
    free_memory,
    read_gguf,
    writes_calls_as_text,
)
from fairlead.models.models_json import ModelEntry, ProviderEntry
from fairlead.platform.process import run_in_thread

#: How much of the log of a server that did not start is shown, in characters.
_SHOWN = 600


class Address(Struct, frozen=True):
    """Where a server listens, and the key that it wants."""

    url: str
    key: str


class LlamaServer:
    """One child process with one model. Safe to use from several threads."""

    def __init__(self, name: str, weights: Path, window: int, template: str | None = None) -> None:
        """Describe the server. Nothing is started.

        Args:
            name: the id of the model.
            weights: the GGUF file.
            window: the context window, in tokens.
            template: a chat template, as text in Jinja; None for the one in the file.
        """
        self._name = name
        self._weights = weights
        self._window = window
        self._template = template
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._address: Address | None = None

    def address(self) -> Address:
        """Return the address of the running server, and start it if it does not run. Blocks while the weights are loaded.

        Raises:
            ConfigError: it cannot be started. The text says why.
        """
        with self._lock:
            if self._process is not None and self._address is not None and self._process.poll() is None:
                return self._address
            self._stop()
            self._address = self._start()
            return self._address

    def stop(self) -> None:
        """End the process, if it runs, even while it loads the weights. A later request starts it again."""
        process = self._process
        if process is not None:
            process.kill()  # not under the lock, which `address` holds until the weights are loaded
        with self._lock:
            self._stop()

    @property
    def pid(self) -> int | None:
        """The id of the process; None if none was started."""
        return None if self._process is None else self._process.pid

    def _stop(self) -> None:
        process, self._process, self._address = self._process, None, None
        if process is not None:
            _end(process)

    def _start(self) -> Address:
        if not is_installed():
            raise ConfigError(NOT_INSTALLED)
        key = token_urlsafe(32)
        learn(key)
        wanted = {
            "weights": str(self._weights.absolute()),
            "window": self._window,
            "threads": free_cores(),
            "key": key,
            "name": self._name,
            "template": self._template,
        }
        with tempfile.TemporaryFile() as log:
            process = self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "fairlead.models.local.llama_child"],
                cwd=os.sep,  # llama.cpp looks for its libraries where it starts
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # an interrupt from the terminal is for the agent, not for the model
            )
            answer = _first_answer(process, wanted)
            if "url" not in answer:
                self._stop()
                raise ConfigError(self._failure(answer, log, process.returncode))
        return Address(f"{answer['url']}/v1", key)

    def _failure(self, answer: dict[str, Any], log: IO[bytes], code: int | None) -> str:
        log.seek(0)
        said = log.read().decode("utf-8", "replace").strip()[-_SHOWN:]
        reason = str(answer.get("error") or f"it ended with exit code {code}").rstrip(".")
        return f"llama.cpp could not run {self._weights}: {reason}." + (f" The end of its log:\n{said}" if said else "")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def _first_answer(process: subprocess.Popen[bytes], wanted: dict[str, Any]) -> dict[str, Any]:
    """Tell the child what to serve and return what it answers; an empty object if it has died."""
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(json.dumps(wanted).encode() + b"\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline() or b"{}")
    except (OSError, ValueError):
        return {}


NOT_INSTALLED = (
    "Running a model here needs llama.cpp, as the Python package xllamacpp (37 MB to download). Install it with:"
    f" {sys.executable} -m pip install xllamacpp"
)


def is_installed() -> bool:
    """Return whether llama.cpp is installed in this environment."""
    return find_spec("xllamacpp") is not None


def free_cores() -> int:
    """Return the number of cores that have nothing to do, at least 1. More threads than that make llama.cpp many times slower."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    try:
        busy = os.getloadavg()[0]
    except (OSError, AttributeError):
        busy = 0.0
    return max(1, cores - round(busy))


class LlamaStream:
    """Asks a model through its `LlamaServer`. A `ModelStream`."""

    def __init__(self, model: Model, server: LlamaServer) -> None:
        self._model = model
        self._server = server
        self._http = Http(env={})  # directly: a proxy could not reach this port
        self._opened: tuple[Address, ModelStream] | None = None

    async def __call__(self, request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
        partial = PartialMessage(self._model, _now_ms())
        try:
            address = await _unless_fired(run_in_thread(self._server.address, "fairlead-llama"), cancel)
        except ConfigError as error:
            partial.fail(str(error))
            yield partial.take()
            return
        if address is None:
            partial.abort()
            yield partial.take()
            return
        if self._opened is None or self._opened[0] != address:
            model = replace(self._model, base_url=address.url)
            self._opened = address, open_stream(model, RequestAuth(address.key), self._http, _now_ms)
        async for batch in self._opened[1](request, cancel):
            yield batch


async def _unless_fired(work: Coroutine[Any, Any, Address], cancel: CancelToken) -> Address | None:
    """Return the result of `work`; None as soon as `cancel` fires. The work itself continues: the next request needs it too."""
    task = asyncio.create_task(work)
    fired: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    forget = cancel.on_fire(lambda: fired.done() or fired.set_result(None))
    try:
        await asyncio.wait((task, fired), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.add_done_callback(lambda done: None if done.cancelled() else done.exception())
            return None
        return task.result()
    finally:
        forget()


def _now_ms() -> int:
    return int(time.time() * 1000)


#: The largest window to ask for, in tokens: the memory it takes and the time until the first word grow with it.
LARGEST_WINDOW = 16_384
#: The window of a model whose file does not state one.
_USUAL_WINDOW = 8192
#: What a model of the provider has as its address. The real one has a port that is chosen when the server starts.
_ADDRESS = "http://127.0.0.1/local"


class LocalModels:
    """The models of the provider `local`, and the processes that run them."""

    def __init__(self, home: Home, env: Mapping[str, str], file: Path | None = None) -> None:
        """Look for weights.

        Args:
            home: the home, whose folder `models` has what was downloaded.
            env: the environment variables, which say where other programs keep their weights.
            file: a GGUF file that the user names. It comes first.

        Raises:
            ConfigError: `file` cannot be used.
        """
        self._found: dict[str, _Local] = {}
        self._streams: dict[str, LlamaStream] = {}
        self._servers: list[LlamaServer] = []
        if file is not None:
            facts = read_gguf(file)
            self._found[file.stem] = _Local(FoundWeights(file.stem, file, file.stat().st_size, "you"), facts)
        for weights in find_weights(home, env):
            self._found.setdefault(weights.name, _Local(weights))

    def entry(self) -> ProviderEntry:
        """Return the provider, with the models whose weights are on this machine."""
        models = [_entry(name, each.read()) for name, each in self._found.items()]
        return ProviderEntry(base_url=_ADDRESS, api="openai-completions", auth="none", models=models)

    def best(self) -> FoundWeights | None:
        """Return the weights on this machine to use if none are named; None if there are none but the last resort."""
        return best_weights(self.find_weights(), free_memory())

    def find_weights(self) -> list[FoundWeights]:
        """Return all weights on this machine."""
        return [each.weights for each in self._found.values()]

    def stream(self, model: Model) -> ModelStream:
        """Return what asks a model. The server starts with the first request."""
        if model.id not in self._streams:
            server = LlamaServer(model.id, self._found[model.id].weights.path, model.context_window)
            self._servers.append(server)
            self._streams[model.id] = LlamaStream(model, server)
        return self._streams[model.id]

    def close(self) -> None:
        """End all servers."""
        for server in self._servers:
            server.stop()


class _Local(Struct):
    """A file, and what it says once it was read."""

    weights: FoundWeights
    facts: GgufFacts | None = None

    def read(self) -> GgufFacts | None:
        """Return what the file says about its model; None if it cannot be read, which llama.cpp reports when it is used."""
        if self.facts is None:
            try:
                self.facts = read_gguf(self.weights.path)
            except ConfigError:
                return None
        return self.facts


def _entry(name: str, facts: GgufFacts | None) -> ModelEntry:
    window = min((facts.window if facts else None) or _USUAL_WINDOW, LARGEST_WINDOW)
    called = f"{name} {facts.name}" if facts else name
    as_text = writes_calls_as_text(called, has_tools=facts is not None and facts.has_tools)
    compat = {"toolCallsAsText": True} if as_text else None
    return ModelEntry(id=name, context_window=window, max_tokens=window // 4, compat=compat)


def missing_weights(name: str) -> str:
    """Return the error text for weights that are not on this machine. It says what to do."""
    if download_named(name) is None:
        return f"The weights of local/{name} are not on this machine. `fairlead local --list` shows those that are."
    return f"The weights of local/{name} are not on this machine. Download them with: fairlead local --model {name} --download"
