"""Runs llama.cpp's server until its input ends: python llama_server.py WEIGHTS WINDOW. Prints its URL once it listens.

It runs in the environment of `bench.peers.LLAMA`, which has nothing of this project.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any


def main() -> None:
    xllamacpp: Any = importlib.import_module("xllamacpp")  # has no types

    weights, window = sys.argv[1:]
    params = xllamacpp.CommonParams()
    params.model.path = weights
    params.model_alias = {"smol"}
    params.n_ctx = int(window)
    params.n_parallel = 1
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.warmup = False
    params.cpuparams.n_threads = 2
    server = xllamacpp.Server(params)
    print("URL", server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
