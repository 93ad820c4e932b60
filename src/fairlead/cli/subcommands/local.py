"""`fairlead local`: run a model on this machine with llama.cpp, and download its weights if the user agrees."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.cli.advice import nearest
from fairlead.cli.console import complain, print_text
from fairlead.cli.flags import UsageError, parse
from fairlead.cli.main import main
from fairlead.config.home import Home, expand_user
from fairlead.core.lenient import one_line
from fairlead.errors import ConfigError
from fairlead.models.local.download import DownloadFailed, ProgressBar, fetch, megabytes
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
    read_gguf,
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
        _ask(download, models_folder(home), is_missing=name is not None)
    try:
        fetch_weights(download, home)
    except DownloadFailed as error:
        if name is not None or not _is_terminal():
            raise
        complain(f"fairlead: {error}")
        download = LAST_RESORT
        _ask(download, models_folder(home), is_missing=False)
        fetch_weights(download, home)
    return download.name


def fetch_weights(download: Download, home: Home) -> None:
    """Download weights, and say so. Raises DownloadFailed."""
    folder = models_folder(home)
    if os.path.exists(folder / download.file):
        return
    complain(f"fairlead: downloading {_describe(download)} to {folder}")
    try:
        fetch(download, folder, os.environ, ProgressBar(download.name))
    except KeyboardInterrupt:
        complain("\nfairlead: interrupted. What has arrived is kept; the same command continues there.")
        raise


def _describe(download: Download) -> str:
    return f"{download.name}, {megabytes(download.size)}, from {download.describe_source(os.environ)}"


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _ask(download: Download, folder: Path, *, is_missing: bool) -> None:
    """Ask the user whether to download. Raises ConfigError if there is no terminal to ask on, or the answer is no."""
    line = f"  {_describe(download)}, {download.license}. {download.about}"
    missing = "These weights are not on this machine." if is_missing else "There are no weights on this machine."
    if not _is_terminal():
        command = f"fairlead local --model {download.name} --download"
        raise ConfigError(f"{missing} To download:\n{line}\nTo agree without a terminal: {command}")
    complain(f"{missing} To download to {folder}:\n{line}")
    sys.stderr.write("Download it? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfigError("Nothing was downloaded.")


def _list(found: list[FoundWeights]) -> None:
    for each in found:
        print_text(one_line(f"local/{each.name}  {megabytes(each.size)}  {each.owner}  {each.path}"))
    names = {each.name for each in found}
    for download in DOWNLOADS:
        if download.name not in names:
            source = download.describe_source(os.environ)
            print_text(f"local/{download.name}  {megabytes(download.size)}  to download from {source}. {download.about}")
