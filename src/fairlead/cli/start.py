"""Starts the process, before anything else is loaded, and ends it without waiting for what extensions left behind."""

from __future__ import annotations

import gc
import sys
from _thread import RLock
from collections.abc import Coroutine, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")

#: Modules that others import but hardly ever use before the first answer. Together they cost about a tenth of the start.
POSTPONED = frozenset((
    "asyncio.sslproto",
    "inspect",
    "ipaddress",
    "locale",
    "msgspec.inspect",
    "msgspec.toml",
    "msgspec.yaml",
    "ssl",
    "textwrap",
    "tokenize",
))  # fmt: skip
#: The attributes of a module that importing it again reads. They do not load it.
_READ_BY_IMPORTS = frozenset(
    ("__cached__", "__class__", "__file__", "__loader__", "__name__", "__package__", "__path__", "__spec__")
)


def main() -> int:
    # Imports create many objects and free hardly any, so garbage collection would cost a tenth of the start.
    # `wire.process` turns it on again after the first answer, `cli.main` in the other modes.
    gc.disable()
    postpone_imports()
    from fairlead.cli.main import main

    code = main()
    _leave(code)
    return code


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine like `asyncio.run`, but do not wait for tasks and threads of extensions."""
    import asyncio

    from fairlead.config.process import runs_foreign_code

    runner = asyncio.Runner()
    try:
        return runner.run(work)
    finally:
        if not runs_foreign_code():
            runner.close()


def _leave(code: int) -> None:
    """Exit immediately if threads or exit handlers of extensions could keep the process alive."""
    import os

    from fairlead.config.process import runs_foreign_code

    if runs_foreign_code():
        sys.stderr.flush()
        os._exit(code)


def postpone_imports() -> None:
    """Load the modules in `POSTPONED` when their first attribute is read, not when they are imported.

    docs/decisions/026 explains why, and why `importlib.util.LazyLoader` does not serve.
    """
    if PathFinder.find_spec("_ssl") is None:  # then `import ssl` has to fail, as asyncio expects
        return
    sys.meta_path.insert(0, _PostponingFinder())
    # msgspec takes two names from typing_extensions if it is installed, and the same two from typing if it is not.
    if "typing_extensions" not in sys.modules:
        sys.modules["typing_extensions"] = None  # pyright: ignore[reportArgumentType]
        import msgspec  # noqa: F401  # pyright: ignore[reportUnusedImport]

        del sys.modules["typing_extensions"]


class _PostponingFinder:
    """Finds the modules in `POSTPONED`, with a loader that waits."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in POSTPONED:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _PostponingLoader(spec.loader)  # pyright: ignore[reportAttributeAccessIssue]
        return spec


class _PostponingLoader:
    """Loads a module when its first attribute is read or set. Other threads that do so meanwhile wait."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._lock = RLock()
        self._has_begun = False

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        self._has_begun = False
        module.__class__ = _PostponedModule

    def load(self, module: ModuleType) -> None:
        with self._lock:
            if self._has_begun:  # it is loaded, or reads its own attributes while it is
                return
            self._has_begun = True
            try:
                self._loader.exec_module(module)
            except BaseException:
                self._has_begun = False
                raise
            module.__class__ = ModuleType

    def __getattr__(self, name: str) -> Any:  # source code, for tracebacks
        return getattr(self._loader, name)


class _NoSocket:
    """Stands for `ssl.SSLSocket` before ssl is loaded, when asyncio asks whether a socket is one: none can be."""


class _PostponedModule(ModuleType):
    """A module that is not loaded yet. Once it is, its class is `ModuleType`, so that `super()` would not work here."""

    def __getattribute__(self, name: str) -> Any:
        if name not in _READ_BY_IMPORTS:
            if name == "SSLSocket" and sys._getframe(1).f_code.co_name == "_check_ssl_socket":  # pyright: ignore[reportPrivateUsage]
                return _NoSocket
            ModuleType.__getattribute__(self, "__spec__").loader.load(self)
        return ModuleType.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _READ_BY_IMPORTS:
            ModuleType.__getattribute__(self, "__spec__").loader.load(self)
        ModuleType.__setattr__(self, name, value)
