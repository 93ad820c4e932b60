"""Where to look for skills and prompt templates, and how their Markdown files are read."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from fairlead.config import packages as config_packages
from fairlead.config.home import PROJECT_FOLDER, ClaudeFiles, Home, Level, folders_of_repository, project_boundary
from fairlead.config.project_files import Budget, Check, is_inside, is_owned
from fairlead.errors import ConfigError
from fairlead.session.slash_commands import Origin


def read_markdown(
    path: Path,
    keys: Collection[str],
    check: Check | None = None,
    *,
    within: Path | None = None,
    budget: Budget | None = None,
) -> tuple[dict[str, str], str]:
    """Return the values of some front-matter keys, and the text after the front matter. Raises ConfigError."""
    data = (budget or Budget()).read(path, check, within=within)
    if data is None:
        raise ConfigError(f"{path}: there is no such file.")
    from fairlead.session import front_matter  # noqa: PLC0415  its patterns take a millisecond to compile, and most projects have no such files

    try:
        return front_matter.pick(data.decode("utf-8", "replace"), keys)
    except front_matter.FrontMatterError as error:
        raise ConfigError(f"{path}: {error}") from None


def budget_for(within: Path | None, shared: Budget) -> Budget:
    """Return the limit for reading a search path. All paths of the project share one, so that the user's paths have their own."""
    return Budget() if within is None else shared


#: Directories of other programs that are also searched for skills.
SHARED_FOLDERS = (".agents", ".claude")


class SearchPath(Struct, frozen=True):
    """A file, or a directory of files.

    `named` is the flag or setting that named it; a path with None may be missing. `project` is the directory of the project that
    it belongs to, if any, and `within` the real path of the directory that its files must stay in.
    """

    path: Path
    origin: Origin
    named: str | None = None
    project: Path | None = None
    within: Path | None = None
    #: A folder of Claude Code: commands may be in folders below it, and skills take arguments.
    of_claude: bool = False


class SearchPaths(Struct, frozen=True, kw_only=True):
    """All search paths of a user. `skills` and `templates` come from the command line, `settings_*` from the settings."""

    #: fairlead's home, and the user's home directory. If `home` is None, only named paths are searched.
    home: Home | None
    user: Path
    #: The files of Claude Code, which are then used instead of the usual ones.
    claude: ClaudeFiles | None = None
    context_files: bool = True
    find_skills: bool = True
    find_templates: bool = True
    skills: Sequence[Path] = ()
    templates: Sequence[Path] = ()
    #: Paths that extensions added.
    discovered_skills: Sequence[Path] = ()
    discovered_templates: Sequence[Path] = ()
    settings_skills: Sequence[str] = ()
    settings_templates: Sequence[str] = ()
    #: Raises ConfigError for files that must not be read.
    check: Check | None = None

    def skill_paths(self, cwd: Path) -> Iterator[SearchPath]:
        """Yield the search paths of skills. If two skills have the same name, the one found first is used."""
        yield from _find_flagged("--skill", self.skills)
        yield from _find_discovered(self.discovered_skills)
        if self.home is None or not self.find_skills:
            return
        if self.claude is not None:
            yield from self._of_claude(self.claude, "skills", cwd)
            return
        yield from self._of_project("skills", cwd)
        for folder in folders_of_repository(cwd):
            # The owner of a folder above can put any text there.
            if folder != self.user and is_owned(folder, cwd):
                yield from (_folder(folder / name, "skills", "project", folder) for name in SHARED_FOLDERS)
        yield from self._find_listed("skills", self.settings_skills, cwd)
        yield _folder(self.home.root, "skills", "user")
        yield from (_folder(self.user / name, "skills", "user") for name in SHARED_FOLDERS)

    def template_paths(self, cwd: Path) -> Iterator[SearchPath]:
        """Yield the search paths of prompt templates. If two have the same name, the one found first is used."""
        yield from _find_flagged("--prompt-template", self.templates)
        yield from _find_discovered(self.discovered_templates)
        if self.home is None or not self.find_templates:
            return
        if self.claude is not None:
            yield from self._of_claude(self.claude, "commands", cwd)
            return
        yield from self._of_project("prompts", cwd)
        yield from self._find_listed("prompts", self.settings_templates, cwd)
        yield _folder(self.home.root, "prompts", "user")

    def present(self, search_paths: Iterable[SearchPath], cwd: Path) -> list[SearchPath]:
        """Return the paths that exist or were named, with the directory that their files must stay in."""
        return [
            self._with_boundary(source, cwd)
            for source in search_paths
            if source.named is not None or os.path.lexists(source.path)
        ]

    def boundary(self, folder: Path) -> Path | None:
        """Return the directory that project files in `folder` must stay in, or None if they belong to the user."""
        return None if self.home is None else project_boundary(folder, self.user, self.home.root)

    def _with_boundary(self, source: SearchPath, cwd: Path) -> SearchPath:
        if source.project is not None:
            return replace(source, within=self.boundary(source.project))
        if source.named is None:
            return source
        # A named path may be anywhere, because the user chose it. One inside the project is still bound to the project.
        project = project_boundary(cwd, self.user, self.home.root if self.home else self.user / PROJECT_FOLDER)
        if project is not None and is_inside(Path(os.path.realpath(source.path)), project):
            return replace(source, within=project)
        return source

    def _of_project(self, name: str, cwd: Path) -> Iterator[SearchPath]:
        """Yield the folder with this name in each folder of the project's configuration, the one that wins first."""
        folders = () if self.home is None else self.home.project_folders(cwd)
        return (_folder(folder, name, "project", cwd) for folder in reversed(folders))

    def _of_claude(self, claude: ClaudeFiles, name: str, cwd: Path) -> Iterator[SearchPath]:
        """Yield the folder with this name in each folder of Claude Code. Those that other users own are left out."""
        for level, folder in claude.folders(cwd):
            if level == "user" or is_owned(folder.parent, cwd):
                found = _folder(folder, name, level, None if level == "user" else folder.parent)
                yield replace(found, of_claude=True)

    def _find_listed(self, setting: str, names: Sequence[str], cwd: Path) -> Iterator[SearchPath]:
        if not names:
            return
        packages = [] if self.home is None else config_packages.find_listed_packages(self.home, cwd)
        for name in names:
            path = self.user / name[2:] if name.startswith("~/") else Path(name)
            origin = Origin(path, "local", "project" if path.is_relative_to(cwd) else "user")
            if (package := config_packages.package_of(path, packages)) is not None:
                origin = replace(origin, base=package.folder, package=package.text)
            yield SearchPath(path, origin, f"{setting} in settings.json")


def _find_flagged(flag: str, paths: Sequence[Path]) -> Iterator[SearchPath]:
    return (SearchPath(path, Origin(path, "cli", "temporary"), flag) for path in paths)


def _find_discovered(paths: Sequence[Path]) -> Iterator[SearchPath]:
    return (SearchPath(path, Origin(path, "local", "temporary"), "an extension") for path in paths)


def _folder(base: Path, name: str, scope: Level, project: Path | None = None) -> SearchPath:
    path = base / name
    return SearchPath(path, Origin(path, "auto", scope, base), project=project)


def is_folder(path: Path) -> bool:
    """Whether there is a directory. One that cannot be accessed counts as missing; `Path.is_dir` would raise."""
    return os.path.isdir(path)
