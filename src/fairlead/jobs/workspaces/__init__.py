"""Where jobs work: a directory, a worktree of a repository, or a container around either.

Workspace          what a job needs of the place it works in
FolderWorkspace    a directory that every worker can reach
Repository         the mirror of a repository, with a worktree per job and snapshots that other workers can fetch
Container          a container per job, in which its commands run
"""

from __future__ import annotations

from pathlib import Path

from fairlead.errors import WorkspaceError
from fairlead.jobs.task import Job
from fairlead.jobs.workspaces.job_workspace import ContainerWorkspace, Placement, Workspace
from fairlead.jobs.workspaces.repository import RepositoryWorkspace


class FolderWorkspace:
    """A directory. Other workers reach it under the same path, so there is nothing to move."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def prepare(self, snapshot: str | None) -> Placement:
        """Raises WorkspaceError if the directory does not exist."""
        if not self._folder.is_dir():
            raise WorkspaceError(
                f"The working directory {self._folder} does not exist on this worker. Create it, or give repo and commit instead."
            )
        return Placement(cwd=self._folder)

    async def snapshot(self, turn: int) -> str | None:
        return None

    async def patch(self) -> str | None:
        return None

    async def release(self, *, has_ended: bool) -> None:
        pass


def workspace_of(job: Job, data: Path, fleet: str = "") -> Workspace:
    """Return the place that a job works in.

    Args:
        job: The job.
        data: The directory in which the worker keeps mirrors and worktrees.
        fleet: The id of the database. Jobs of different databases may have the same ids.
    """
    if job.repo is not None and job.commit is not None:
        inner: Workspace = RepositoryWorkspace(job.repo, job.commit, job.session_id, data, fleet)
    else:
        inner = FolderWorkspace(Path(job.workdir or "."))
    if job.container is None:
        return inner
    workdir = None if job.workdir is None else Path(job.workdir)
    return ContainerWorkspace(inner, job.container, job.session_id, data, fleet, workdir)
