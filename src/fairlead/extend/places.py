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


class Place(Struct, frozen=True):
    """A file, or a directory of files.

    `named` is the flag or setting that asked for it; None: it may be missing. `project` is the directory of the project that
    it comes with, if it does, and `within` the real path of the directory that its files must stay in.
    """

    path: Path
    origin: Origin
    named: str | None = None
    project: Path | None = None
    within: Path | None = None


class Places(Struct, frozen=True, kw_only=True):
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

    def skill_places(self, cwd: Path) -> Iterator[Place]:
        """Where skills are; of two with one name, the one that is found first counts."""
        yield from _flagged("--skill", self.skills)
        yield from _discovered(self.discovered_skills)
        if self.home is None or not self.find_skills:
            return
        yield _folder(cwd / PROJECT_FOLDER, "skills", "project", cwd)
        for folder in _up_to_the_root(cwd):
            if folder != self.user:
                yield from (_folder(folder / name, "skills", "project", folder) for name in SHARED_FOLDERS)
        yield from self._listed("skills", self.settings_skills, cwd)
        yield _folder(self.home, "skills", "user")
        yield from (_folder(self.user / name, "skills", "user") for name in SHARED_FOLDERS)

    def template_places(self, cwd: Path) -> Iterator[Place]:
        """Where prompt templates are; of two with one name, the one that is found first counts."""
        yield from _flagged("--prompt-template", self.templates)
        yield from _discovered(self.discovered_templates)
        if self.home is None or not self.find_templates:
            return
        yield _folder(cwd / PROJECT_FOLDER, "prompts", "project", cwd)
        yield from self._listed("prompts", self.settings_templates, cwd)
        yield _folder(self.home, "prompts", "user")

    def present(self, places: Iterable[Place], cwd: Path) -> list[Place]:
        """Those that exist, and those that were asked for by name, with the directory that their files must stay in."""
        return [self._bounded(place, cwd) for place in places if place.named is not None or os.path.lexists(place.path)]

    def boundary(self, folder: Path) -> Path | None:
        """The directory that project files in `folder` must stay in; None if they are the user's own."""
        return None if self.home is None else project_boundary(folder, self.user, self.home)

    def _bounded(self, place: Place, cwd: Path) -> Place:
        if place.project is not None:
            return replace(place, within=self.boundary(place.project))
        if place.named is None:
            return place
        # Where the name leads is the choice of whoever gave it. What is in the project is still the project's.
        project = project_boundary(cwd, self.user, self.home or self.user / PROJECT_FOLDER)
        if project is not None and is_inside(Path(os.path.realpath(place.path)), project):
            return replace(place, within=project)
        return place

    def _listed(self, setting: str, names: Sequence[str], cwd: Path) -> Iterator[Place]:
        for name in names:
            path = self.user / name[2:] if name.startswith("~/") else Path(name)
            scope = "project" if path.is_relative_to(cwd) else "user"
            yield Place(path, Origin(path, "local", scope), f"{setting} in settings.json")


def _flagged(flag: str, paths: Sequence[Path]) -> Iterator[Place]:
    return (Place(path, Origin(path, "cli", "temporary"), flag) for path in paths)


def _discovered(paths: Sequence[Path]) -> Iterator[Place]:
    return (Place(path, Origin(path, "local", "temporary"), "an extension") for path in paths)


def _folder(base: Path, name: str, scope: Level, project: Path | None = None) -> Place:
    path = base / name
    return Place(path, Origin(path, "auto", scope, base), project=project)


def _up_to_the_root(cwd: Path) -> Iterator[Path]:
    """`cwd` and the folders above it, up to that of the repository; up to the top if there is none."""
    for folder in (cwd, *cwd.parents):
        yield folder
        if os.path.lexists(folder / ".git"):
            return


def is_folder(path: Path) -> bool:
    """Whether there is a folder; one that cannot be looked into counts as none, which `Path.is_dir` makes an error."""
    return os.path.isdir(path)  # noqa: PTH112
