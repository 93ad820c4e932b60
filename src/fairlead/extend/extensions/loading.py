"""Loading an extension: its module, and `setup(fl)` in it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from itertools import count
from types import ModuleType
from typing import Any

from fairlead.errors import ConfigError
from fairlead.extend.extensions.finding import Found

#: Modules of extensions are known to Python under names that no package has.
_PREFIX = "_fairlead_extension_"
_numbers = count(1)
SETUP = "setup"


def module_name(found: Found) -> str:
    """What an extension's module is called. Loaded anew, or for another session, it is another module."""
    if found.entry_point is not None:
        return found.entry_point.partition(":")[0].strip()
    return f"{_PREFIX}{next(_numbers)}_" + "".join(char if char.isalnum() else "_" for char in found.name)


def setup_function(found: Found, module_name: str) -> Callable[[Any], Any]:
    """Import an extension, and give its `setup`. Raises whatever its module raises, and ConfigError if there is no `setup`."""
    if found.problem is not None:
        raise ConfigError(found.problem)
    if found.entry_point is not None:
        attribute = found.entry_point.partition(":")[2]
        setup: Any = importlib.import_module(module_name)
        for name in (attribute.strip() or SETUP).split("."):
            setup = getattr(setup, name, None)
    else:
        setup = getattr(_load(found, module_name), SETUP, None)
    if not callable(setup):
        raise ConfigError(f"{found.shown_path} defines no function `setup(fl)`.")
    return setup


def forget(module_name: str) -> None:
    """Have the modules of an extension loaded anew the next time."""
    for loaded in [each for each in sys.modules if each == module_name or each.startswith(f"{module_name}.")]:
        del sys.modules[loaded]
    importlib.invalidate_caches()


@contextmanager
def without_bytecode() -> Generator[None]:
    """Nothing is written beside the files of extensions, and a file that changes twice within a second is read twice."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def _load(found: Found, name: str) -> ModuleType:
    is_package = found.path.suffix != ".py"
    file = found.path / "__init__.py" if is_package else found.path
    spec = spec_from_file_location(name, file, submodule_search_locations=[str(found.path)] if is_package else None)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{file} cannot be loaded as a Python module.")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module
