"""Programs that leave a trace if they run, and repositories that would start them."""

from __future__ import annotations

from pathlib import Path

from tests.support.fleet import git


class Trap:
    """A program that makes a file when it runs."""

    def __init__(self, folder: Path, name: str = "trap") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / name
        self._sprung = folder / f"{name}-sprung"
        self.path.write_text(f"#!/bin/sh\necho {name} >> '{self._sprung}'\ncat\n")
        self.path.chmod(0o755)

    @property
    def is_sprung(self) -> bool:
        return self._sprung.exists()


def armed(repository: Path, trap: Trap) -> Path:
    """Make a repository whose configuration names a program for everything that git may do with its files."""
    repository.mkdir(parents=True, exist_ok=True)
    git(repository, "init", "--quiet", "--initial-branch=main")
    git(repository, "commit", "--quiet", "--allow-empty", "-m", "first")
    for name in ("core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.alternateRefsCommand", "diff.external"):
        git(repository, "config", name, str(trap.path))
    for name in ("filter.x.clean", "filter.x.smudge", "diff.x.textconv", "diff.x.command", "merge.x.driver"):
        git(repository, "config", name, str(trap.path))
    (repository / ".gitattributes").write_text("* filter=x diff=x merge=x\n")
    for hook in ("post-index-change", "reference-transaction", "pre-commit", "post-checkout"):
        place = repository / ".git/hooks" / hook
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(trap.path.read_bytes())
        place.chmod(0o755)
    return repository
