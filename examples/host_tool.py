"""A host whose model can use one of its functions. docs/first-host-tool.md explains it."""

import sys
from typing import Annotated

from fairlead.client import HostCall, SyncClient

SHELVES = {"lamp": 3, "desk": 1}

with SyncClient.start(["fairlead", "--mode", "rpc", "--dialect", "pi"]) as client:

    @client.tool(timeout=30)
    def restock(item: Annotated[str, "what to fetch, in the singular"], count: int, call: HostCall) -> dict[str, int]:
        """Fetch more of something from the storeroom. Returns how many of each item there are."""
        if item not in SHELVES:
            raise LookupError(f"There is no shelf for a {item}.")
        for number in range(count):
            if call.cancelled.wait(0.1):  # a walk to the storeroom
                break
            SHELVES[item] += 1
            call.progress(f"{number + 1} of {count} fetched")
        return SHELVES

    print(client.ask(" ".join(sys.argv[1:]) or "Fetch two more lamps.").text)
