"""What a project runs outside the sandbox once it is trusted: its extensions, its MCP servers, the commands that its settings of
Claude Code name as hooks, and the code that these name.

One list serves the record that is kept with the decision to trust, the question to the user, `fairlead trust show`, and the
sandbox, in which all of it is read-only.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct

from fairlead.config import json_files, project_files
from fairlead.config.home import CLAUDE_FOLDER, MCP_FILE, Home
from fairlead.config.named_code import LOADING, Command, expand_variables, files_named_by, shell_command
from fairlead.config.packages import find_listed_packages
from fairlead.config.settings import Settings
from fairlead.config.settings_parsing import keep_inside, parse_settings, usable
from fairlead.errors import ConfigError

#: The keys of a settings file that name code.
_NAMING = ("extensions", "packages")
#: The settings of Claude Code in a project, and the keys of theirs that name code or say how it is loaded.
_CLAUDE_SETTINGS, _RUNNING = ("settings.json", "settings.local.json"), ("hooks", "env")
#: The most files and folders, and the most bytes, of a project's code. More cannot be compared, so it is not trusted.
_MOST_ENTRIES = 20_000
_MOST_BYTES = 256 * 1024 * 1024
#: How many servers of one file are looked at.
_MOST_SERVERS = 200
#: The most files and folders in which projects are looked for, below a folder that is trusted.
_MOST_BELOW = 100_000


class Code(Struct, frozen=True):
    """A file or folder that runs, or that says what runs. `contents` is what of it counts; None: all."""

    path: Path
    kind: str
    contents: bytes | None = None


def project_code(home: Home, cwd: Path, env: Mapping[str, str] | None = None) -> list[Code]:
    """Return what exists of a project's code. `env` has the variables that its files may use; None: those of this process."""
    if home.isolated:
        return []
    env = os.environ if env is None else env
    root = Path(os.path.realpath(cwd))
    own = os.path.realpath(home.root)
    folders = [folder for folder in home.project_folders(cwd) if os.path.realpath(folder) != own]
    found: dict[Path, Code] = {}
    for folder in folders:
        _add(found, Code(folder / "extensions", "extensions"))
    for level, path in home.settings_files(cwd):
        if level == "project" and (named := _naming(home, path, cwd)) is not None:
            _add(found, Code(path, "settings that name extensions", named))
            for name in ("npm", "git"):
                _add(found, Code(path.parent / name, "packages"))
    for path in _extensions(home, cwd):
        _add(found, Code(path, "extensions"))
    for level, path in home.mcp_files(cwd):
        if level == "project" and os.path.isfile(path):
            _add(found, Code(path, "MCP servers"))
            for command in _servers(path, cwd, env, home.boundary(cwd)):
                for each in files_named_by(command, root):
                    _add(found, Code(each, "code of MCP servers"))
    for path in _claude_settings(home, cwd, env):
        if (named := _naming(home, path, cwd, _RUNNING)) is not None:
            _add(found, Code(path, "settings that name hooks", named))
            for text in _texts(msgspec.json.decode(named).get("hooks")):
                written = text.replace("${CLAUDE_PROJECT_DIR}", str(root)).replace("$CLAUDE_PROJECT_DIR", str(root))
                for each in files_named_by(shell_command(written, root), root):
                    _add(found, Code(each, "code of hooks"))
    return list(found.values())


def _claude_settings(home: Home, cwd: Path, env: Mapping[str, str]) -> list[Path]:
    """Return where a project's settings of Claude Code are. Those of the user are not the project's."""
    folder = cwd / CLAUDE_FOLDER
    users = env.get("CLAUDE_CONFIG_DIR") or (home.user or Path.home()) / CLAUDE_FOLDER
    return [] if os.path.realpath(folder) == os.path.realpath(users) else [folder / name for name in _CLAUDE_SETTINGS]


def _add(found: dict[Path, Code], code: Code) -> None:
    is_inner = any(outer in found and found[outer].contents is None for outer in code.path.parents)
    if os.path.lexists(code.path) and not is_inner:
        found.setdefault(code.path, code)


def outside_code(home: Home, settings: Settings, cwd: Path, env: Mapping[str, str], more: Sequence[Path] = ()) -> list[Path]:
    """Return what of a folder runs outside the sandbox, whether or not it exists: a project's code, and what the user's own
    configuration names there. `more` are the user's other files of MCP servers. The paths are absolute."""
    root = Path(os.path.realpath(cwd))
    code = (code.path for code in project_code(home, cwd, env))
    found = dict.fromkeys((*code, *_extensions(home, cwd), *_claude_settings(home, cwd, env)))
    commands = [command for level, path in home.mcp_files(cwd) for command in _servers(path, cwd, env, _within(home, level, cwd))]
    commands += [command for path in more for command in _servers(path, cwd, env, None)]
    commands += [shell_command(text, root) for text in _key_commands(home)]
    if settings.shell_command_prefix:
        commands.append(shell_command(settings.shell_command_prefix, root))
    if settings.shell_path:
        commands.append(Command((settings.shell_path,), root))
    # Servers and the Node process get these too. A folder on PATH does not count as a whole.
    commands.append(Command((), root, {name: env[name] for name in LOADING if name != "PATH" and name in env}))
    for command in commands:
        found |= dict.fromkeys(files_named_by(command, root))
    user = home.user or Path.home()
    for name in settings.extensions:
        path = Path(os.path.normpath(user / name[2:] if name.startswith("~/") else root / name))
        found |= {each: None for each in (path, Path(os.path.realpath(path))) if each != root and each.is_relative_to(root)}
    return list(found)


def _within(home: Home, level: str, cwd: Path) -> Path | None:
    return home.boundary(cwd) if level == "project" else None


def _naming(home: Home, path: Path, cwd: Path, keys: Sequence[str] = _NAMING) -> bytes | None:
    """Return what a settings file of a project says under `keys`, which are about code; None if it names none."""
    try:
        data = project_files.read_bytes(path, within=home.boundary(cwd), largest=project_files.LARGEST_PROJECT_FILE)
        if data is None:
            return None
        if path.suffix == ".json":
            values = json_files.parse_object(path, data)
        else:
            from fairlead.config import yaml_files  # noqa: PLC0415  loads yaml, in 12 ms

            values = yaml_files.parse_object(path, data)
    except ConfigError:  # it is reported when the settings are loaded, and names nothing
        return None
    named = {key: values[key] for key in keys if values.get(key)}
    return msgspec.json.encode(named, order="sorted") if named else None


def project_extensions(home: Home, cwd: Path, warnings: list[str]) -> list[str]:
    """Return the paths of extensions that a project's settings name. The caller decides whether the project may have any."""
    found: list[str] = []
    for level, path in home.settings_files(cwd):
        if level != "project" or not os.path.lexists(path):
            continue
        try:
            data = project_files.read_bytes(path, within=home.boundary(cwd), largest=project_files.LARGEST_PROJECT_FILE)
            named = parse_settings(home, path, data or b"").get("extensions")
        except ConfigError:  # it was reported when the settings were loaded
            continue
        inside = keep_inside("extensions", named, home, cwd, path, warnings)
        found += usable({"extensions": inside}, path, warnings, home).get("extensions", [])
    return found


def _extensions(home: Home, cwd: Path) -> list[Path]:
    root = Path(os.path.realpath(cwd))
    listed = [package.path for package in find_listed_packages(home, cwd)]
    paths = [Path(os.path.normpath(cwd / path)) for path in (*project_extensions(home, cwd, []), *listed)]
    return [path for path in paths if path not in (cwd, root) and (path.is_relative_to(cwd) or path.is_relative_to(root))]


def _servers(path: Path, cwd: Path, env: Mapping[str, str], within: Path | None) -> Iterator[Command]:
    """Yield the commands of the MCP servers in a file, also of those that are disabled."""
    try:
        data = project_files.read_bytes(path, within=within)
        servers = json_files.parse_object(path, data or b"").get("mcpServers")
    except ConfigError:  # it is reported when the servers are started, and names none
        return
    described = list(cast("dict[str, Any]", servers).values()) if isinstance(servers, dict) else []
    for server in described[:_MOST_SERVERS]:
        if not isinstance(server, dict):
            continue
        try:
            entry = expand_variables(cast("dict[str, Any]", server), env)
        except ConfigError:
            entry = cast("dict[str, Any]", server)
        words = [entry.get("command"), *(entry["args"] if isinstance(entry.get("args"), list) else ())]
        variables = cast("dict[str, Any]", entry["env"] if isinstance(entry.get("env"), dict) else {})
        folder = entry.get("cwd")
        where = Path(os.path.realpath(cwd / folder if isinstance(folder, str) and "\0" not in folder else cwd))
        added = {name: value for name, value in variables.items() if isinstance(value, str)}
        # The servers that the user configured use no programs of the working directory.
        search = "" if within is None else added.get("PATH", env.get("PATH", os.defpath))
        yield Command(
            [word for word in words if isinstance(word, str)],
            where,
            added,
            [where / each for each in search.replace("\0", "").split(os.pathsep)] if search else (),
        )


def _key_commands(home: Home) -> Iterator[str]:
    """Yield the commands that print keys: the values that begin with `!` in the user's lists of models and keys."""
    for path in (*home.models_files(), *home.auth_files()):
        try:
            data = project_files.read_bytes(path) or b""
            if b"!" not in data:
                continue
            if path.suffix == ".json":
                values = json_files.parse_object(path, data)
            else:
                from fairlead.config import yaml_files  # noqa: PLC0415  loads yaml, in 12 ms

                values = yaml_files.parse_object(path, data)
        except ConfigError:
            continue
        yield from (text[1:] for text in _texts(values) if text.startswith("!"))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        inner = cast("dict[Any, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
        for each in inner:
            yield from _texts(each)


def fingerprints(code: Sequence[Code], cwd: Path) -> dict[str, str]:
    """Return a hash for each part of a project's code, by its name in the project.

    Raises ConfigError if there is too much to look at.
    """
    room = _Room()
    try:
        return {os.path.relpath(each.path, cwd): _hash_code(each, room) for each in code}
    except RecursionError:
        raise ConfigError(f"{cwd}: the code of the project is in folders that are nested too deeply.") from None


class _Room:
    """What may still be looked at."""

    def __init__(self) -> None:
        self.entries = _MOST_ENTRIES
        self.bytes = _MOST_BYTES
        #: Whether the files of a device are those of the kernel.
        self._kernel: dict[int, bool] = {}

    def check(self, path: Path, found: os.stat_result) -> None:
        """Raise ConfigError for what the kernel generates: reading some of it never returns."""
        if found.st_dev not in self._kernel:
            self._kernel[found.st_dev] = project_files.is_of_kernel(found)
        if self._kernel[found.st_dev]:
            raise ConfigError(f"{path}: it is not on a disk, so fairlead cannot tell whether it has changed.")

    def take(self, path: Path, entries: int, size: int) -> None:
        self.entries -= entries
        self.bytes -= size
        if self.entries < 0 or self.bytes < 0:
            raise ConfigError(
                f"{path}: the code of the project is more than {_MOST_ENTRIES:,} files or {_MOST_BYTES >> 20} MiB, so fairlead "
                "cannot tell whether it has changed."
            )


def _hash_code(code: Code, room: _Room) -> str:
    digest = hashlib.sha256()
    if code.contents is not None:
        digest.update(code.contents)
    else:
        _hash_into(digest.update, code.path, room, set())
    return digest.hexdigest()


def _hash_into(update: Callable[[bytes], None], path: Path, room: _Room, seen: set[tuple[int, int]]) -> None:
    """Add a file, or a folder with all that it contains or links to, to a hash. `.git` holds no code that is loaded."""
    room.take(path, 1, 0)
    try:
        found = path.stat()
        room.check(path, found)
        if stat.S_ISDIR(found.st_mode):
            names = [] if (found.st_dev, found.st_ino) in seen else sorted(os.listdir(path))  # noqa: PTH208
            seen.add((found.st_dev, found.st_ino))
            update(b"folder %d\0" % len(names))
            for name in names:
                update(os.fsencode(name) + b"\0")
                if name != ".git":
                    _hash_into(update, path / name, room, seen)
        elif stat.S_ISREG(found.st_mode):
            room.take(path, 0, found.st_size)
            handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
            with os.fdopen(handle, "rb") as file:
                contents = hashlib.file_digest(file, "sha256").digest()
            update(b"file %d " % bool(found.st_mode & 0o111) + contents)
        else:
            update(b"other %d" % stat.S_IFMT(found.st_mode))
    except OSError as error:
        update(b"error %d" % (error.errno or 0))


def projects_in(home: Home, folder: Path) -> list[Path]:
    """Return a folder and those below it that have a project's configuration, as far as a search of limited length finds them.

    Links are not followed.
    """
    names = {*home.project_names, MCP_FILE, CLAUDE_FOLDER}
    found = [folder]
    pending, room = [folder], _MOST_BELOW
    while pending and room > 0:
        where = pending.pop()
        try:
            with os.scandir(where) as entries:
                for entry in entries:
                    room -= 1
                    if room < 0:
                        break
                    if entry.name in names and where != folder:
                        found.append(where)
                    if entry.is_dir(follow_symlinks=False) and entry.name not in (*names, ".git"):
                        pending.append(Path(entry.path))
        except OSError:
            continue
    return list(dict.fromkeys(found))
