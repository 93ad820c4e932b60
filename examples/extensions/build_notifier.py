"""Listens on the bus for builds and records their outcomes in the session. See build_watch.py for the sender."""

from __future__ import annotations

from typing import Any

from fairlead.extension import Fairlead


def setup(fl: Fairlead) -> None:
    def on_build(build: dict[str, Any]) -> None:
        fl.append_entry("build", build)
        if not build["ok"]:
            stop()  # one failure is enough to know

    stop = fl.events.on("build:done", on_build)
