"""`fairlead install`, `remove`, `list` and `update`: packages of pi, with extensions, skills and prompts.

Each is a function that takes the words after its name and the program that fairlead was started as. It returns the exit code.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from fairlead.cli.console import complain, print_text
from fairlead.cli.subcommands.table import command_named
from fairlead.config.home import Home, working_directory
from fairlead.config.packages import parse_source
from fairlead.config.trust import find_saved_decision, keeping_trust, real_folder
from fairlead.core.lenient import one_line
from fairlead.errors import ConfigError
from fairlead.extend.package_manager import PackageManager

if TYPE_CHECKING:
    from fairlead.config.packages import PackageSource
    from fairlead.wire.dialects import Program


def install(words: Sequence[str], program: Program) -> int:
    """Install a package and list it in the settings. Raises UsageError or ConfigError."""
    scripts, words = _scripts_flag(words)
    source, local = _source_and_scope(words, "install")
    with _keeping_trust(program):
        folder = _manager(program, local=local, scripts=scripts).install(source, working_directory())
    print_text(one_line(f"Installed {_hide_password(source)} in {folder}"))
    return 0


def remove(words: Sequence[str], program: Program) -> int:
    """Delete a package and take it off the settings. Raises UsageError or ConfigError."""
    source, local = _source_and_scope(words, "remove")
    with _keeping_trust(program):
        removed = _manager(program, local=local).remove(source)
    if not removed:
        complain(f"{_hide_password(source)} is not installed. `fairlead list` shows what is.")
        return 1
    print_text(one_line(f"Removed {_hide_password(source)}"))
    return 0


uninstall = remove


def update(words: Sequence[str], program: Program) -> int:
    """Update one package, or all of the user and of a trusted project. Raises UsageError or ConfigError."""
    scripts, words = _scripts_flag(words)
    given = [word for word in words if word not in ("--extensions", "--extension", "--all")]
    if len(given) > 1 or any(word.startswith("-") for word in given):
        raise command_named("update").usage_error()
    wanted = given[0] if given else None
    found: list[PackageSource] = []
    left_out = False
    for manager in _managers(program, scripts=scripts):
        if manager.scope == "project" and manager.packages() and not _project_is_trusted(program):
            # Installing runs code that the project chose.
            complain("Note: the packages of this project are left out, because it is not trusted. To trust it: fairlead trust")
            left_out = True
            continue
        with _keeping_trust(program):
            updated = manager.update(wanted)
        for source in updated:
            print_text(f"{'Left as it is: ' if source.kind == 'local' else 'Updated '}{one_line(source.shown)}")
            found.append(source)
    if wanted is not None and not found:
        raise ConfigError(f"{_hide_password(wanted)} is not installed. `fairlead list` shows what is.")
    if not found and not left_out:
        print_text("No packages are installed.")
    return 0


def list_packages(words: Sequence[str], program: Program) -> int:
    """Print the packages of the user and of the project. Raises UsageError or ConfigError."""
    if words:
        raise command_named("list").usage_error()
    any_listed = False
    for manager in _managers(program):
        packages = manager.packages()
        if packages:
            any_listed = True
            print_text(f"{manager.scope.capitalize()} packages:")
        for package in packages:
            where = one_line(str(package.path.resolve())) if package.path else "not installed"
            print_text(f"  {one_line(package.source.shown)}\n    {where}")
    if not any_listed:
        print_text("No packages are installed.")
    return 0


def _managers(program: Program, *, scripts: bool = False) -> list[PackageManager]:
    """Return the packages of the user, and those of the project unless its folder is the user's own home."""
    managers = [_manager(program, local=local, scripts=scripts) for local in (False, True)]
    return managers[:1] if managers[1].folder.resolve() == managers[0].folder.resolve() else managers


def _keeping_trust(program: Program) -> AbstractContextManager[None]:
    """Return a block in which the user changes the packages of a project that may be trusted."""
    return keeping_trust(Home.find(os.environ, peer=program.home), real_folder(working_directory()))


def _project_is_trusted(program: Program) -> bool:
    return bool(find_saved_decision(Home.find(os.environ, peer=program.home), real_folder(working_directory())))


def _manager(program: Program, *, local: bool, scripts: bool = False) -> PackageManager:
    home = Home.find(os.environ, peer=program.home)
    return PackageManager(home, os.environ, working_directory() if local else None, scripts=scripts, tell=complain)


def _scripts_flag(words: Sequence[str]) -> tuple[bool, list[str]]:
    """Return whether the words ask for install scripts, and the other words."""
    return "--scripts" in words, [word for word in words if word != "--scripts"]


def _hide_password(source: str) -> str:
    """Return the source that a user gave, without a password."""
    return parse_source(source).shown


def _source_and_scope(words: Sequence[str], command: str) -> tuple[str, bool]:
    flags = [word for word in words if word.startswith("-")]
    sources = [word for word in words if not word.startswith("-")]
    if len(sources) != 1 or not set(flags) <= {"-l", "--local"}:
        raise command_named(command).usage_error()
    return sources[0], bool(flags)
