"""`fairlead local`: run a model on this machine with llama.cpp, and download its weights if the user agrees."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.cli.advice import nearest
from fairlead.cli.console import complain, say
from fairlead.cli.flags import UsageError, parse
from fairlead.config.home import Home, expand_user
from fairlead.core.lenient import one_line
from fairlead.errors import ConfigError
from fairlead.models.local.download import ProgressBar, fetch, megabytes
from fairlead.models.local.gguf import read_gguf
from fairlead.models.local.llama import NOT_INSTALLED, is_installed
from fairlead.models.local.weights import (
    DOWNLOADS,
    LAST_RESORT,
    RECOMMENDED,
    Download,
    best_weights,
    download_named,
    find_weights,
    free_memory,
    models_folder,
)

if TYPE_CHECKING:
    from fairlead.models.local.weights import FoundWeights
    from fairlead.wire.dialects import Program

#: The flags of this command. The others are those of fairlead.
_OWN = ("--list", "--download", "--model", "--model-file")


def local(words: Sequence[str], program: Program) -> int:
    """Start fairlead with a model that runs here. Raises UsageError, or ConfigError if there is no such model."""
    name, file, flags, rest = _split(words)
    home = Home.find(os.environ, peer=program.home)
    if "--list" in flags:
        _list(find_weights(home, os.environ))
        return 0
    _refuse_misspelt(rest)
    if not is_installed():
        raise ConfigError(NOT_INSTALLED)
    if file is not None:
        read_gguf(expand_user(file))  # before anything else starts
        return _start(["--model-file", file, *(["--model", f"local/{name}"] if name else []), *rest])
    name = _ready(home, name, may_download="--download" in flags)
    return _start(["--model", f"local/{name}", *rest])


def _split(words: Sequence[str]) -> tuple[str | None, str | None, set[str], list[str]]:
    """Split the words into the model, the file, the flags of this command, and those of fairlead."""
    values: dict[str, str] = {}
    flags: set[str] = set()
    rest: list[str] = []
    left = list(reversed(words))
    while left:
        word = left.pop()
        name, equals, value = word.partition("=")
        if word in ("--list", "--download"):
            flags.add(word)
        elif name in ("--model", "--model-file"):
            if not equals and not left:
                raise UsageError(f"{name} needs a value.")
            values[name] = value if equals else left.pop()
        elif word == "--":
            rest += [word, *reversed(left)]
            break
        else:
            rest.append(word)
    model = values.get("--model")
    return model.removeprefix("local/") if model else None, values.get("--model-file"), flags, rest


def _refuse_misspelt(rest: Sequence[str]) -> None:
    """Raise UsageError for flags that cannot be used, before anything is downloaded for them. Extensions may have others."""
    for name in parse(rest).unknown:
        if near := nearest(f"--{name}", _OWN):
            raise UsageError(f"fairlead local has no flag --{name}.{near}")


def _start(argv: list[str]) -> int:
    from fairlead.cli.main import main

    return main(argv)


def _ready(home: Home, name: str | None, *, may_download: bool) -> str:
    """Return the name of a model whose weights are here. Downloads them if that is wanted. Raises ConfigError."""
    found = find_weights(home, os.environ)
    if name is None and not may_download:
        best = best_weights(found, free_memory())
        if best is not None:
            complain(f"fairlead: local/{best.name} answers: {best.path} ({megabytes(best.size)}, from {best.owner}).")
            return best.name
        if found:
            complain(f"fairlead: local/{LAST_RESORT.name} answers. {LAST_RESORT.about}")
            better = f"fairlead local --model {RECOMMENDED.name} --download"
            complain(f"fairlead: for a better one ({megabytes(RECOMMENDED.size)}): {better}")
            return LAST_RESORT.name
    if name is not None and any(each.name.lower() == name.lower() for each in found):
        return name
    download = RECOMMENDED if name is None else download_named(name)
    if download is None:
        known = ", ".join([*(each.name for each in found), *(each.name for each in DOWNLOADS)])
        raise ConfigError(f"There are no weights called {name} on this machine, and none to download. Known are: {known}.")
    if not may_download:
        download = _asked(download if name is not None else None, models_folder(home))
    fetch_weights(download, home)
    return download.name


def fetch_weights(download: Download, home: Home) -> None:
    """Download weights, and say so. Raises DownloadFailed."""
    folder = models_folder(home)
    if os.path.exists(folder / download.file):
        return
    complain(f"fairlead: downloading {download.name}, {megabytes(download.size)}, from {download.source} to {folder}")
    try:
        fetch(download, folder, os.environ, ProgressBar(download.name))
    except KeyboardInterrupt:
        complain("\nfairlead: interrupted. What has arrived is kept; the same command continues there.")
        raise


def _asked(wanted: Download | None, folder: Path) -> Download:
    """Ask the user whether to download. Raises ConfigError if there is no terminal to ask on, or the answer is no."""
    offers = [wanted] if wanted is not None else [RECOMMENDED, LAST_RESORT]
    lines = [
        f"  {number}) {each.name}, {megabytes(each.size)} from {each.source}, {each.license}. {each.about}"
        for number, each in enumerate(offers, 1)
    ]
    missing = "There are no weights on this machine." if wanted is None else "These weights are not on this machine."
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        names = " or ".join(f"--model {each.name}" for each in offers)
        raise ConfigError(
            "\n".join([f"{missing} To download:", *lines]) + f"\nTo agree without a terminal: fairlead local {names} --download"
        )
    complain("\n".join([f"{missing} To download to {folder}:", *lines]))
    choices = "/".join(str(number) for number in range(1, len(offers) + 1))
    sys.stderr.write("Download it? [y/N] " if wanted is not None else f"Download which? [{choices}, or Enter for none] ")
    sys.stderr.flush()
    answer = sys.stdin.readline().strip().lower()
    if wanted is not None and answer in ("y", "yes"):
        return wanted
    if answer.isdigit() and 1 <= int(answer) <= len(offers):
        return offers[int(answer) - 1]
    raise ConfigError("Nothing was downloaded.")


def _list(found: list[FoundWeights]) -> None:
    for each in found:
        say(one_line(f"local/{each.name}  {megabytes(each.size)}  {each.owner}  {each.path}"))
    names = {each.name for each in found}
    for download in DOWNLOADS:
        if download.name not in names:
            say(f"local/{download.name}  {megabytes(download.size)}  to download from {download.source}. {download.about}")
