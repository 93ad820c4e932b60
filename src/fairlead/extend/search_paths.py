"""Where to look for what users add."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from fairlead.config.files import Check, is_inside
from fairlead.config.home import PROJECT_FOLDER, Level, project_boundary
from fairlead.session.additions import Origin

#: Folders of other programs, in which skills are looked for too.
SHARED_FOLDERS = (".agents", ".claude")


class SearchPath(Struct, frozen=True):
    """A file, or a directory of files.

    `named` is the flag or setting that asked for it; None: it may be missing. `project` is the directory of the project that
    it comes with, if it does, and `within` the real path of the directory that its files must stay in.
    """

    path: Path
    origin: Origin
    named: str | None = None
    project: Path | None = None
    within: Path | None = None


class SearchPaths(Struct, frozen=True, kw_only=True):
    """All places of a user. The lists are paths that were named: on the command line, and in the settings."""

    #: fairlead's home, and the user's own directory; None: nothing of the user's or the project's is looked for.
    home: Path | None
    user: Path
    context_files: bool = True
    find_skills: bool = True
    find_templates: bool = True
    skills: Sequence[Path] = ()
    templates: Sequence[Path] = ()
    #: Those that extensions bring.
    discovered_skills: Sequence[Path] = ()
    discovered_templates: Sequence[Path] = ()
    settings_skills: Sequence[str] = ()
    settings_templates: Sequence[str] = ()
    #: Says which files must not be read; None: nobody does.
    check: Check | None = None

    def skill_paths(self, cwd: Path) -> Iterator[SearchPath]:
        """Where skills are; of two with one name, the one that is found first counts."""
        yield from _flagged("--skill", self.skills)
        yield from _discovered(self.discovered_skills)
        if self.home is None or not self.find_skills:
            return
        yield _folder(cwd / PROJECT_FOLDER, "skills", "project", cwd)
        for folder in _up_to_repository_root(cwd):
            if folder != self.user:
                yield from (_folder(folder / name, "skills", "project", folder) for name in SHARED_FOLDERS)
        yield from self._listed("skills", self.settings_skills, cwd)
        yield _folder(self.home, "skills", "user")
        yield from (_folder(self.user / name, "skills", "user") for name in SHARED_FOLDERS)

    def template_paths(self, cwd: Path) -> Iterator[SearchPath]:
        """Where prompt templates are; of two with one name, the one that is found first counts."""
        yield from _flagged("--prompt-template", self.templates)
        yield from _discovered(self.discovered_templates)
        if self.home is None or not self.find_templates:
            return
        yield _folder(cwd / PROJECT_FOLDER, "prompts", "project", cwd)
        yield from self._listed("prompts", self.settings_templates, cwd)
        yield _folder(self.home, "prompts", "user")

    def present(self, search_paths: Iterable[SearchPath], cwd: Path) -> list[SearchPath]:
        """Those that exist, and those that were asked for by name, with the directory that their files must stay in."""
        return [
            self._with_boundary(source, cwd)
            for source in search_paths
            if source.named is not None or os.path.lexists(source.path)
        ]

    def boundary(self, folder: Path) -> Path | None:
        """The directory that project files in `folder` must stay in; None if they are the user's own."""
        return None if self.home is None else project_boundary(folder, self.user, self.home)

    def _with_boundary(self, source: SearchPath, cwd: Path) -> SearchPath:
        if source.project is not None:
            return replace(source, within=self.boundary(source.project))
        if source.named is None:
            return source
        # Where the name leads is the choice of whoever gave it. What is in the project is still the project's.
        project = project_boundary(cwd, self.user, self.home or self.user / PROJECT_FOLDER)
        if project is not None and is_inside(Path(os.path.realpath(source.path)), project):
            return replace(source, within=project)
        return source

    def _listed(self, setting: str, names: Sequence[str], cwd: Path) -> Iterator[SearchPath]:
        for name in names:
            path = self.user / name[2:] if name.startswith("~/") else Path(name)
            scope = "project" if path.is_relative_to(cwd) else "user"
            yield SearchPath(path, Origin(path, "local", scope), f"{setting} in settings.json")


def _flagged(flag: str, paths: Sequence[Path]) -> Iterator[SearchPath]:
    return (SearchPath(path, Origin(path, "cli", "temporary"), flag) for path in paths)


def _discovered(paths: Sequence[Path]) -> Iterator[SearchPath]:
    return (SearchPath(path, Origin(path, "local", "temporary"), "an extension") for path in paths)


def _folder(base: Path, name: str, scope: Level, project: Path | None = None) -> SearchPath:
    path = base / name
    return SearchPath(path, Origin(path, "auto", scope, base), project=project)


def _up_to_repository_root(cwd: Path) -> Iterator[Path]:
    """`cwd` and the folders above it, up to that of the repository; up to the top if there is none."""
    for folder in (cwd, *cwd.parents):
        yield folder
        if os.path.lexists(folder / ".git"):
            return


def is_folder(path: Path) -> bool:
    """Whether there is a folder; one that cannot be looked into counts as none, which `Path.is_dir` makes an error."""
    return os.path.isdir(path)  # noqa: PTH112
