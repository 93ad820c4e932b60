"""Packages that are named like an extension, `-e npm:NAME` or `-e git:URL`: they are installed for this run."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.config.packages import package_paths, parse_source
from fairlead.config.process import run_in_thread
from fairlead.errors import ConfigError, ExtensionNotLoaded

if TYPE_CHECKING:
    from fairlead.extend.extensions.late import ExtensionHost

_log = logging.getLogger("fairlead.extend")


async def fetch_named(host: ExtensionHost, text: str) -> None:
    """Install a package, and add what it brings to `host`.

    Raises ExtensionNotLoaded if that fails, or only reports it if that is what the options say.
    """
    from fairlead.extend.package_manager import fetch_temporarily

    source = parse_source(text)
    _log.info("Installing %s", text)
    env = host.session.host.workspace.env
    try:
        folder = await run_in_thread(partial(fetch_temporarily, source, host.home, env), "fairlead-install")
        brought = {kind: package_paths(source, folder, kind) for kind in ("extensions", "skills", "prompts")}
        if not any(brought.values()):
            raise ConfigError("It brings no extensions, skills or prompts.")
    except ConfigError as error:
        if host.on_error == "exit":
            raise ExtensionNotLoaded(f'Failed to load extension "{text}": {error}') from None
        host.warn([f"The extension {text} was not loaded: {error}"])
        return
    host.named += map(Path, brought["extensions"])
    host.brought.skills.extend(map(Path, brought["skills"]))
    host.brought.prompts.extend(map(Path, brought["prompts"]))
