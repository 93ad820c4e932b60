"""Starts the process, before anything else is loaded, and ends it without waiting for what extensions left behind."""

from __future__ import annotations

import gc
import os
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import PathFinder
from _thread import RLock
from types import ModuleType

from fairlead.cli import code_cache

TYPE_CHECKING = False  # importing it from typing would take 3 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

#: Those modules of Python's library in `POSTPONED` that are one file and always there.
_ALWAYS_THERE = frozenset((
    "base64",
    "difflib",
    "fnmatch",
    "hashlib",
    "inspect",
    "ipaddress",
    "linecache",
    "locale",
    "ntpath",
    "random",
    "shlex",
    "shutil",
    "tempfile",
    "textwrap",
    "tokenize",
))  # fmt: skip
#: Modules that others import but hardly ever use before the first answer. Together they cost about a tenth of the start. Tools
#: are declared for the first prompt, and what they need only for a call waits for one.
POSTPONED = _ALWAYS_THERE | frozenset((
    "asyncio.sslproto",
    "ctypes",
    "email.utils",
    "fairlead.agent.agent_hooks",
    "fairlead.agent.own_loop",
    "fairlead.agent.prompting",
    "fairlead.agent.result",
    "fairlead.agent.tool_sets.opal",
    "fairlead.chat.app",
    "fairlead.cli.advice",
    "fairlead.cli.build",
    "fairlead.cli.chat",
    "fairlead.cli.claude",
    "fairlead.cli.event_loop",
    "fairlead.cli.print_mode",
    "fairlead.cli.print_output",
    "fairlead.cli.subcommands",
    "fairlead.cli.subcommands.help",
    "fairlead.cli.subcommands.login",
    "fairlead.cli.subcommands.models",
    "fairlead.cli.subcommands.replay",
    "fairlead.cli.subcommands.sessions",
    "fairlead.cli.subcommands.subcommand",
    "fairlead.cli.subcommands.table",
    "fairlead.config.extras",
    "fairlead.config.packages",
    "fairlead.config.project_code",
    "fairlead.config.restrictions",
    "fairlead.config.trust",
    "fairlead.core.calls",
    "fairlead.core.calls.arguments",
    "fairlead.core.calls.schema_cost",
    "fairlead.core.calls.turn",
    "fairlead.core.images",
    "fairlead.core.questions",
    "fairlead.core.secrets",
    "fairlead.extend.extensions.presence",
    "fairlead.extend.mcp",
    "fairlead.extend.mcp.config",
    "fairlead.extend.mcp.tools",
    "fairlead.extend.node",
    "fairlead.extend.node.program",
    "fairlead.extend.search_paths",
    "fairlead.extend.skills",
    "fairlead.jobs.http_routes",
    "fairlead.models.adapters",
    "fairlead.models.added_logins",
    "fairlead.models.apis",
    "fairlead.models.apis.openai_completions_compat",
    "fairlead.models.apis.response_reading",
    "fairlead.models.http.pool",
    "fairlead.models.limiter",
    "fairlead.models.local",
    "fairlead.models.local.local_servers",
    "fairlead.models.logins",
    "fairlead.models.model_streams",
    "fairlead.policy.known_programs",
    "fairlead.policy.shell",
    "fairlead.policy.wildcards",
    "fairlead.protocol.explain",
    "fairlead.protocol.print_result",
    "fairlead.protocol.schema",
    "fairlead.protocol.schema.claude",
    "fairlead.protocol.schema.family",
    "fairlead.protocol.schema.json_rpc",
    "fairlead.protocol.schema.typescript",
    "fairlead.replay",
    "fairlead.replay.cleaning",
    "fairlead.replay.recorder",
    "fairlead.serve.access",
    "fairlead.serve.http_server",
    "fairlead.serve.sessions.hub_sessions",
    "fairlead.serve.sessions.spaces",
    "fairlead.session.compaction.cut",
    "fairlead.session.compaction.summary",
    "fairlead.session.context.overflow",
    "fairlead.session.following",
    "fairlead.session.front_matter",
    "fairlead.session.history.claude_files",
    "fairlead.session.history.moves",
    "fairlead.session.history.reading",
    "fairlead.session.history.run_log",
    "fairlead.session.history.store_archive",
    "fairlead.session.history.stored",
    "fairlead.session.history.tree",
    "fairlead.session.hook_calls",
    "fairlead.session.hooks",
    "fairlead.session.run.extension_messages",
    "fairlead.session.run.intake",
    "fairlead.session.run.retry",
    "fairlead.session.run.rewriting",
    "fairlead.session.run.run",
    "fairlead.session.run.turns",
    "fairlead.session.run.warming",
    "fairlead.session.session_tools",
    "fairlead.session.subagents.subagent",
    "fairlead.session.todos.todo_keeper",
    "fairlead.sessions",
    "fairlead.sessions.catalogue",
    "fairlead.stores.files",
    "fairlead.stores.listing",
    "fairlead.stores.memory",
    "fairlead.tools.background",
    "fairlead.tools.builtin",
    "fairlead.tools.files.edit",
    "fairlead.tools.files.matching",
    "fairlead.tools.files.read",
    "fairlead.tools.files.write",
    "fairlead.tools.search",
    "fairlead.tools.search.contents",
    "fairlead.tools.search.globs",
    "fairlead.tools.search.search_tools",
    "fairlead.tools.search.searchers",
    "fairlead.tools.search.walk",
    "fairlead.tools.shell",
    "fairlead.tools.shell.command_process",
    "fairlead.tools.shell.output",
    "fairlead.tools.truncate",
    "fairlead.tools.workspace",
    "fairlead.wire.acp.acp_handlers",
    "fairlead.wire.host_connection",
    "fairlead.wire.pi.host_tools",
    "fairlead.wire.pi.omp_handlers",
    "fairlead.wire.pi.omp_subagents",
    "fairlead.wire.pi.paced_updates",
    "fairlead.wire.pi.pi_schema",
    "fairlead.wire.pi.pi_stdio",
    "fairlead.wire.pi.profile",
    "fairlead.wire.pi.session_handlers",
    "fairlead.wire.stdio",
    "h11",
    "html",
    "http",
    "jiter",
    "json",
    "msgspec.inspect",
    "msgspec.toml",
    "msgspec.yaml",
    "sqlite3",
    "ssl",
))  # fmt: skip
#: The attributes of a module that importing it again reads. They do not load it.
_READ_BY_IMPORTS = frozenset(("__cached__", "__class__", "__file__", "__loader__", "__name__", "__package__", "__spec__"))


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
    process = sys.modules.get("fairlead.platform.process")  # it is told about foreign code, so without it there is none
    if process is not None and process.runs_foreign_code():
        sys.stderr.flush()
        os._exit(code)


def postpone_imports() -> None:
    """Load the modules in `POSTPONED` when their first attribute is read, not when they are imported.

    docs/decisions/026 explains why, and why `importlib.util.LazyLoader` does not serve.
    """
    if PathFinder.find_spec("_ssl") is None:  # then `import ssl` has to fail, as asyncio expects
        return
    sys.meta_path.insert(0, _PostponingFinder())
    _add_modules()
    import re

    _PostponedPattern.compile = re.compile
    with _patched(re, "compile", _PostponedPattern):
        import logging  # noqa: F401  # pyright: ignore[reportUnusedImport]
    import typing

    # msgspec takes two names from typing_extensions if it is installed, and the same two from typing if it is not. It imports
    # uuid, which asks platform for the name of the system; os knows it too. It asks whether ForwardRef takes an argument, which
    # it has taken since Python 3.11, and which would be the only text that is compiled before the first answer.
    stand_ins: dict[str, Any] = {"typing_extensions": None, "platform": _SystemName}
    stand_ins = {name: module for name, module in stand_ins.items() if name not in sys.modules}
    sys.modules.update(stand_ins)
    with _patched(typing, "ForwardRef", _take_anything):
        import msgspec  # noqa: F401  # pyright: ignore[reportUnusedImport]
    for name in stand_ins:
        del sys.modules[name]


class _patched:
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


def _add_modules() -> None:
    """Add the modules that are looked for when they are loaded: those of fairlead, and of Python's library what is always there.

    Importing one then takes a fifth of the time that it takes to ask a finder. A package has its modules from the beginning, so
    that `from package import module` does not load it.
    """
    for name in _ALWAYS_THERE:
        if name not in sys.modules:
            sys.modules[name] = _PostponedModule(name)
    folders = sys.modules["fairlead"].__path__
    for name in sorted([name for name in POSTPONED if name.startswith("fairlead.")]):  # a package comes before its modules
        module = sys.modules[name] = _PostponedModule(name)
        package, _, own = name.rpartition(".")
        if package in POSTPONED:
            attributes = _attributes(sys.modules[package])
            attributes[own] = module
            if "__path__" not in attributes:
                inside = package.replace(".", "/").removeprefix("fairlead")
                attributes["__path__"] = [folder + inside for folder in folders]


class _PostponingFinder:
    """Finds the other modules in `POSTPONED`, with a loader that waits."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in POSTPONED:
            return None
        spec = _find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _PostponingLoader(spec.loader)  # pyright: ignore[reportAttributeAccessIssue]
        return spec


def _find_spec(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    return code_cache.find_spec(name, path) or PathFinder.find_spec(name, path)


class _PostponingLoader:
    """Loads a module when its first attribute is read or set. Other threads that do so meanwhile wait.

    Without a loader to postpone, it looks for the module then.
    """

    def __init__(self, loader: Any) -> None:
        self.postponed: Any = loader
        self._lock = RLock()
        self._has_begun = False

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        self._has_begun = False
        # Modules of a package may need that it is loaded before them.
        module.__class__ = _LoadingModule if "__path__" in _attributes(module) else _PostponedModule

    def load(self, module: ModuleType) -> None:
        with self._lock:
            if self._has_begun:  # it is loaded, or reads its own attributes while it is
                return
            self._has_begun = True
            module.__class__ = _LoadingModule
            try:
                loader = self.postponed or self._find(module)
                loader.exec_module(module)
            except BaseException:
                self._has_begun = False
                raise
            module.__class__ = ModuleType

    def _find(self, module: ModuleType) -> Any:
        """Return the module's loader, and set the attributes that the import system sets when it finds a module."""
        name = module.__name__
        package, _, own = name.rpartition(".")
        if package:
            __import__(package)
        parent = sys.modules.get(package)
        spec = _find_spec(name, parent and parent.__path__)
        if spec is None or spec.loader is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        self.postponed, spec.loader = spec.loader, self  # pyright: ignore[reportAttributeAccessIssue]
        attributes: dict[str, object] = {"__spec__": spec, "__loader__": self, "__file__": spec.origin, "__cached__": spec.cached}
        attributes["__package__"] = package
        if spec.submodule_search_locations is not None:
            attributes |= {"__path__": spec.submodule_search_locations, "__package__": name}
        _attributes(module).update(attributes)
        if parent is not None:
            _attributes(parent)[own] = module
        return self.postponed

    def __getattr__(self, name: str) -> Any:  # the source code, for tracebacks
        return getattr(self.postponed, name)


#: Protects the loaders of modules that have none yet.
_lock = RLock()
#: Returns the attributes of a module, and does not load it.
_attributes: Callable[[ModuleType], dict[str, Any]] = vars(ModuleType)["__dict__"].__get__


def _load(module: ModuleType) -> None:
    attributes = _attributes(module)
    with _lock:
        loader = attributes["__loader__"]
        if loader is None:
            loader = attributes["__loader__"] = _PostponingLoader(None)
    loader.load(module)


class _NoSocket:
    """Stands for `ssl.SSLSocket` before ssl is loaded, when asyncio asks whether a socket is one: none can be."""


class _PostponedModule(ModuleType):
    """A module that is not loaded yet. It has only what imports read. Once it is loaded, its class is `ModuleType`."""

    def __getattr__(self, name: str) -> Any:
        if name in _READ_BY_IMPORTS:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)
        if name == "SSLSocket" and sys._getframe(1).f_code.co_name == "_check_ssl_socket":  # pyright: ignore[reportPrivateUsage]
            return _NoSocket
        _load(self)
        return ModuleType.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _READ_BY_IMPORTS:
            _load(self)
        ModuleType.__setattr__(self, name, value)

    @property
    def __dict__(self) -> dict[str, Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        _load(self)
        return _attributes(self)


class _LoadingModule(_PostponedModule):
    """A module that has attributes and is not loaded yet, or not as a whole. Other threads wait until it is."""

    def __getattribute__(self, name: str) -> Any:
        if name not in _READ_BY_IMPORTS:
            _load(self)
        return ModuleType.__getattribute__(self, name)
