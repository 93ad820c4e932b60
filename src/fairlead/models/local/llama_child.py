"""Runs llama.cpp's server until its parent process ends.

    python -m fairlead.models.local.llama_child

The first line of standard input is a JSON object: `weights`, `window`, `threads`, `key`, `name`, and `template`, the text of a
chat template that replaces the model's own, or null. Once the server listens, one line on standard output has its `url`; if it
cannot start, one line has the `error`. The end of standard input ends the process: that also happens when the parent is killed.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
from typing import Any

#: Mebibytes of earlier prompts that the server keeps to reuse.
_PROMPT_CACHE = 512


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # llama.cpp writes its log there
    wanted: dict[str, Any] = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        server = _server(wanted)
        answer = {"url": server.listening_address}
    except Exception as error:
        answer = {"error": str(error)}
        server = None
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
    if server is not None:
        # The parent has read the log by now, and it would grow for as long as the server runs.
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        threading.Event().wait()


def _server(wanted: dict[str, Any]) -> Any:
    xllamacpp: Any = importlib.import_module("xllamacpp")  # has no types

    params = xllamacpp.CommonParams()
    params.model.path = wanted["weights"]
    params.model_alias = {wanted["name"]}
    params.n_ctx = wanted["window"]
    params.n_parallel = 1
    params.cpuparams.n_threads = wanted["threads"]
    params.cpuparams_batch.n_threads = wanted["threads"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [wanted["key"]]
    params.chat_template = wanted.get("template") or ""
    params.cache_ram_mib = _PROMPT_CACHE
    # Small models keep to the form of tool calls only if each word is the likeliest one. A request may name another temperature.
    params.sampling.temp = 0.0
    params.warmup = False
    params.ui = False
    return xllamacpp.Server(params)


def _end_with_parent() -> None:
    # Not through `sys.stdin`, whose lock would be held by this thread.
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
