#!/usr/bin/env python3
"""A host to test: it asks an agent to summarize a file, and lets the agent change nothing.

python examples/testing/summarize.py FILE
"""

from __future__ import annotations

import sys

from fairlead.client import SyncClient
from fairlead.errors import ClientError


def summarize(client: SyncClient, path: str) -> str:
    client.on_approval(lambda approval: False)
    try:
        return client.ask(f"Summarize {path} in one sentence.").text
    except ClientError as error:
        return f"No summary: {error}"


if __name__ == "__main__":
    with SyncClient.start(["fairlead", "--mode", "rpc", "--dialect", "pi", "--approval", "ask"]) as client:
        print(summarize(client, sys.argv[1]))
