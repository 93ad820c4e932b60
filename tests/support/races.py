"""Somebody who changes what a path leads to, all the time, while tools work with it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def repeating(change: Callable[[], None]) -> Generator[None]:
    """Calls `change` over and over in a thread, until the end of the block; at least once."""
    over, begun = threading.Event(), threading.Event()

    def run() -> None:
        while not over.is_set():
            change()
            begun.set()

    racing = threading.Thread(target=run)
    racing.start()
    try:
        assert begun.wait(30)
        yield
    finally:
        over.set()
        racing.join()


def link_between(path: Path, *targets: Path) -> Callable[[], None]:
    """Makes `path` a link to each of the targets, one after the other."""

    def change() -> None:
        for target in targets:
            link(path, target)

    return change


def folder_or_link(path: Path, target: Path) -> Callable[[], None]:
    """Puts a link to `target` in the place of the folder at `path`, and then the folder again."""
    aside = path.with_name(f"{path.name}-aside")

    def change() -> None:
        path.rename(aside)
        _retry(lambda: path.symlink_to(target), path)
        _remove(path)
        _retry(lambda: aside.rename(path), path)

    return change


def _retry(step: Callable[[], object], path: Path) -> None:
    """Takes a step as often as needed: a tool may make the folder that is just not there."""
    while True:
        try:
            step()
            return
        except OSError:
            _remove(path)


def _remove(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def file_or_link(path: Path, target: Path) -> Callable[[], None]:
    """Puts a link to `target` in the place of the file at `path`, and then a file with the same text again."""
    text = path.read_bytes()

    def change() -> None:
        link(path, target)
        fresh = path.with_name(f".{path.name}-next")
        fresh.write_bytes(text)
        fresh.replace(path)

    return change


def link(path: Path, target: Path) -> None:
    """Makes `path` a link, in one step, whatever it was."""
    fresh = path.with_name(f".{path.name}-next")
    fresh.symlink_to(target)
    fresh.replace(path)
