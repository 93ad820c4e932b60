"""Starts the process, before anything else is loaded, and ends it without waiting for what extensions left behind."""

from __future__ import annotations

import gc
import os
import sys
from _frozen_importlib_external import PathFinder
from _thread import RLock
from types import ModuleType

from fairlead.cli import code_cache

TYPE_CHECKING = False  # importing it from typing would take 3 ms
if TYPE_CHECKING:
    from _frozen_importlib import ModuleSpec
    from collections.abc import Callable, Sequence
    from typing import Any

#: Modules that others import but hardly ever use before the first answer. Together they cost about a tenth of the start. Tools
#: are declared for the first prompt, and what they need only for a call waits for one.
POSTPONED = frozenset((
    "asyncio.sslproto",
    "base64",
    "difflib",
    "fairlead.agent.tool_sets.opal",
    "fairlead.core.images",
    "fairlead.tools.builtin",
    "fairlead.tools.files.edit",
    "fairlead.tools.files.matching",
    "fairlead.tools.files.read",
    "fairlead.tools.files.write",
    "fairlead.tools.search.contents",
    "fairlead.tools.search.globs",
    "fairlead.tools.search.listing",
    "fairlead.tools.search.searchers",
    "fairlead.tools.search.walk",
    "fairlead.tools.shell.output",
    "fairlead.tools.shell.process",
    "fnmatch",
    "inspect",
    "ipaddress",
    "linecache",
    "locale",
    "msgspec.inspect",
    "msgspec.toml",
    "msgspec.yaml",
    "ntpath",
    "shlex",
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
    _forget_script_folder()
    code_cache.use()
    postpone_imports()
    from fairlead.cli.main import main

    code = main()
    code_cache.save()
    _leave(code)
    return code


def _forget_script_folder() -> None:
    """Remove the folder of the command from `sys.path`, as `python -P` does: programs there must not be imported as modules."""
    script = getattr(sys.modules["__main__"], "__file__", None)
    if script and sys.path[:1] == [os.path.realpath(script).rpartition("/")[0]]:
        del sys.path[0]


def _leave(code: int) -> None:
    """Exit immediately if threads or exit handlers of extensions could keep the process alive."""
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
    import re

    _PostponedPattern.compile = re.compile
    with _standing_in(re, "compile", _PostponedPattern):
        import logging  # noqa: F401  # pyright: ignore[reportUnusedImport]
    import typing

    # msgspec takes two names from typing_extensions if it is installed, and the same two from typing if it is not. It imports
    # uuid, which asks platform for the name of the system; os knows it too. It asks whether ForwardRef takes an argument, which
    # it has taken since Python 3.11, and which would be the only text that is compiled before the first answer.
    stand_ins: dict[str, Any] = {"typing_extensions": None, "platform": _SystemName}
    stand_ins = {name: module for name, module in stand_ins.items() if name not in sys.modules}
    sys.modules.update(stand_ins)
    with _standing_in(typing, "ForwardRef", _take_anything):
        import msgspec  # noqa: F401  # pyright: ignore[reportUnusedImport]
    for name in stand_ins:
        del sys.modules[name]


class _standing_in:
    """Replaces a name in a module while others are imported."""

    def __init__(self, module: ModuleType, name: str, stand_in: object) -> None:
        self._module, self._name, self._stand_in = module, name, stand_in

    def __enter__(self) -> None:
        self._real = getattr(self._module, self._name)
        setattr(self._module, self._name, self._stand_in)

    def __exit__(self, *_: object) -> None:
        setattr(self._module, self._name, self._real)


class _PostponedPattern:
    """A pattern that is compiled when it is used. logging has three, and string one, which format records."""

    #: `re.compile`.
    compile: Callable[..., Any]

    def __init__(self, *arguments: Any) -> None:
        self._arguments = arguments

    def __getattr__(self, name: str) -> Any:
        return getattr(_PostponedPattern.compile(*self._arguments), name)


def _take_anything(*_: object, **__: object) -> None:
    """Stands for `typing.ForwardRef` while msgspec is imported."""


class _SystemName:
    """Stands for the module `platform` while uuid is imported."""

    @staticmethod
    def system() -> str:
        return os.uname().sysname


class _PostponingFinder:
    """Finds the modules in `POSTPONED`, with a loader that waits."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in POSTPONED:
            return None
        spec = code_cache.find_spec(name, path) or PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _PostponingLoader(spec.loader)  # pyright: ignore[reportAttributeAccessIssue]
        return spec


class _PostponingLoader:
    """Loads a module when its first attribute is read or set. Other threads that do so meanwhile wait."""

    def __init__(self, loader: Any) -> None:
        self.postponed = loader
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
                self.postponed.exec_module(module)
            except BaseException:
                self._has_begun = False
                raise
            module.__class__ = ModuleType

    def __getattr__(self, name: str) -> Any:  # the source code, for tracebacks
        return getattr(self.postponed, name)


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
