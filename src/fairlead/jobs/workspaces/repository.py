"""A worktree of a git repository per job, with snapshots that let another worker continue.

A worker keeps one mirror per repository. Each job gets a worktree of it, at the job's commit. After each turn, the files become a
commit under `refs/fairlead/jobs/`, made with a separate index and pushed to the repository. The branches and the index of the
user are never touched.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from fairlead.errors import WorkspaceError
from fairlead.jobs.workspaces import Placement
from fairlead.jobs.workspaces.git import call_git, locked, reason_of

log = logging.getLogger("fairlead.jobs")

#: Where the snapshots of jobs are, in the mirror and in the repository.
REFS = "refs/fairlead/jobs"
#: Before the commit that the job started from, in the message of a snapshot.
_BASE = "Started from "
#: The full hash of a commit. Anything else is a name, which may mean another commit tomorrow.
_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
#: A name that means what the repository has checked out, with what follows it: `HEAD~2`.
_HEAD = re.compile(r"(?:HEAD|@)(?=$|[~^])")
#: Where the mirror keeps what the repository has checked out. Its own HEAD stays as it was cloned.
_ORIGIN_HEAD = "refs/fairlead/head"
#: Where the part of each file begins in a patch.
_FILES = re.compile(rb"^(?=diff --git )", re.MULTILINE)
#: Who snapshots are by. The user's own name and settings play no part.
_IDENTITY = {
    "GIT_AUTHOR_NAME": "fairlead",
    "GIT_AUTHOR_EMAIL": "fairlead@localhost",
    "GIT_COMMITTER_NAME": "fairlead",
    "GIT_COMMITTER_EMAIL": "fairlead@localhost",
}


class RepositoryWorkspace:
    """The worktree of a job.

    Args:
        repo: The repository: a path or an address.
        commit: The commit that the job starts from.
        name: What the worktree and the snapshots are called: the session of the job.
        data: The directory of mirrors and worktrees.
        fleet: The id of the database. Its jobs share mirrors with those of other databases, and nothing else.
    """

    def __init__(self, repo: str, commit: str, name: str, data: Path, fleet: str = "") -> None:
        self._repo = repo
        self._commit = commit
        self._ref = f"{REFS}/{fleet}/{name}" if fleet else f"{REFS}/{name}"
        self._mirror = data / "mirrors" / f"{_digest(repo)}.git"
        folder = data / "worktrees" / _digest(fleet + repo)
        self._worktree = folder / name
        #: The snapshot that the worktree came from or went to last. A worktree without it is from an older attempt.
        self._marker = folder / f"{name}.snapshot"
        self._index = folder / f"{name}.index"
        #: Says which attempt uses the worktree. An earlier one must not remove it.
        self._user = folder / f"{name}.user"
        self._token = os.urandom(8).hex()
        self._is_prepared = False
        #: The first line of the message of a snapshot begins with this.
        self._title = f"fairlead: the files of {name} after turn "
        #: The commit that the job started from, the last snapshot on this machine, and the last one that the repository has.
        self._base = self._last = self._pushed = ""
        #: The turn of which the last snapshot does not have all files; None: it has all.
        self._missing: int | None = None

    async def prepare(self, snapshot: str | None) -> Placement:
        """Check out the snapshot or, without one, the commit. Raises WorkspaceError.

        A worktree that is still here from an attempt on this machine is used as it is: it has everything that the job did.
        """
        async with self._locked():
            await self._open_mirror()
            wanted = await self._find(snapshot or self._commit)
            if wanted is None and snapshot is None:
                raise WorkspaceError(
                    f"The repository {self._repo} has no commit {self._commit}. Push it there, or name another one."
                )
            if wanted is None:
                raise WorkspaceError(
                    f"The snapshot {snapshot} of the job is missing in {self._repo}. Another machine may still have it: start a"
                    " worker there, and retry the job."
                )
            self._base, self._pushed = await self._base_of(wanted), wanted
            self._last = await self._local_snapshot(wanted) or wanted
            is_here = self._has_worktree(self._last)
            if not is_here:
                await self._check_out(self._last)
            self._missing = 0 if is_here else None  # an attempt that was killed may have left files without a snapshot
            self._user.write_text(self._token, encoding="ascii")
            self._is_prepared = True
            for locked in (self._index, self._mirror / self._ref):  # a process that was killed may have left its lock
                locked.with_name(f"{locked.name}.lock").unlink(missing_ok=True)
        return Placement(cwd=self._worktree, is_restored=not is_here)

    async def snapshot(self, turn: int) -> str | None:
        """Commit all files that are not ignored, and push the commit. Returns its hash.

        Raises WorkspaceError. If the commit cannot be pushed, this machine still has it. A file that cannot be read does not
        keep the others from being saved.
        """
        if problem := await self._commit_files(turn):
            log.warning("a snapshot lacks files of %s: %s", self._worktree, problem)
        if self._pushed != self._last:
            await self._git("push", "--quiet", "--force", "--no-verify", "origin", f"{self._ref}:{self._ref}")
            self._pushed = self._last
        return self._last

    async def _commit_files(self, turn: int) -> str:
        """Commit all files that are not ignored. Raises WorkspaceError.

        Returns why some files are not in the commit; an empty text if all are.
        """
        self._missing = turn
        if not self._index.exists():
            await self._git("read-tree", self._last, in_files=True)
        problem = await self._add_files()
        tree = await self._git("write-tree", in_files=True)
        if tree != await self._git("rev-parse", f"{self._last}^{{tree}}"):
            message = f"{self._title}{turn}\n\n{_BASE}{self._base}"
            commit = await self._git("commit-tree", tree, "-p", self._last, "-m", message, env=_IDENTITY)
            await self._git("update-ref", self._ref, commit)
            self._mark(commit)
        if not problem:
            self._missing = None
        return problem

    async def _add_files(self) -> str:
        """Add all files to the index of snapshots. Returns the problem if some cannot be added, else an empty text."""
        words = ("add", "--all", "--ignore-errors", "--", ".")
        code, _, errors = await call_git(*words, cwd=self._worktree, env=self._files())
        if code or b"embedded git repository" in errors:
            # A repository within the worktree would be one entry without files, or fail if it has no commits.
            await self._git("read-tree", self._last, in_files=True)
            empty = await self._adopt_embedded()
            words = (*words, *(f":(exclude,literal){folder}" for folder in empty))
            code, _, errors = await call_git(*words, cwd=self._worktree, env=self._files())
        return reason_of(errors) if code else ""

    async def _adopt_embedded(self) -> list[str]:
        """Add one file of each repository within the worktree to the index, so that git takes it for a plain directory.

        Returns the directories of those that have no files.
        """
        empty: list[str] = []
        while folders := [name for name in await self._untracked() if name.endswith("/") and name not in empty]:
            for folder in folders:
                file = await self._first_file(folder)
                if file is None:
                    empty.append(folder)
                else:
                    await self._git("update-index", "--add", "--", file, in_files=True)
        return empty

    async def _first_file(self, folder: str) -> str | None:
        """Return a file of a repository within the worktree, or of one within that."""
        names = await self._untracked(folder)
        for name in sorted(names, key=lambda name: name.endswith("/")):
            file = await self._first_file(folder + name) if name.endswith("/") else folder + name
            if file is not None:
                return file
        return None

    async def _untracked(self, folder: str = "") -> list[str]:
        """Return the files of a directory that are neither in the index nor ignored. A repository is one name, with a slash."""
        environment = self._files()
        if folder:
            environment |= {"GIT_WORK_TREE": str(self._worktree / folder), "GIT_INDEX_FILE": f"{self._index}.none"}
        words = ("ls-files", "--others", "--exclude-standard", "-z")
        output = await self._output(*words, cwd=self._worktree / folder, env=environment)
        return [os.fsdecode(name) for name in output.split(b"\0") if name]

    def _files(self) -> dict[str, str]:
        """The environment of commands about all files. The job may have changed or removed `.git` in its worktree."""
        return {"GIT_DIR": str(self._mirror), "GIT_WORK_TREE": str(self._worktree), "GIT_INDEX_FILE": str(self._index)}

    async def patch(self) -> str | None:
        """Return the difference between the job's commit and the last snapshot. Files that are not UTF-8 are in it as binary.

        Raises WorkspaceError if there is no snapshot of all files. They stay in the worktree then.
        """
        if self._missing is not None and (problem := await self._commit_files(self._missing)):
            raise WorkspaceError(f"Not all files of {self._worktree} can be saved: {problem}")
        words = ("diff", "--binary", "--no-color", "--no-ext-diff", self._base, self._last)
        text = await self._output(*words)
        if _is_text(text):
            return text.decode()
        attributes = self._index.with_suffix(".attributes")
        attributes.write_text("* -diff\n", encoding="ascii")
        try:
            binary = await self._output("-c", f"core.attributesFile={attributes}", *words)
        finally:
            attributes.unlink()
        files, binaries = _FILES.split(text), _FILES.split(binary)
        if len(files) == len(binaries):
            binaries = [file if _is_text(file) else other for file, other in zip(files, binaries, strict=True)]
        return b"".join(binaries).decode()

    async def release(self, *, has_ended: bool) -> None:
        if has_ended:
            async with self._locked():
                if not self._is_prepared or self._read(self._user) == self._token:
                    await self._remove()

    async def collect(self, snapshot: str | None, turn: int, is_over: Callable[[], Awaitable[bool]]) -> str | None:
        """Remove the worktree that a dead worker left, if the job is over. Its files become a snapshot in the mirror.

        Args:
            snapshot: The last snapshot of the job. A worktree that is not based on it is from an earlier worker.
            turn: The last turn of the job.
            is_over: Whether the job is over, asked while no worker can begin to use the worktree.

        Returns:
            What the job changed, if this machine has its last files.
        """
        patch: str | None = None
        async with self._locked():
            if await is_over() and self._worktree.is_dir():
                marked = self._marked()
                if marked and (snapshot is None or await self._is_ancestor(snapshot, marked)):
                    self._last, self._base = marked, await self._base_of(marked)
                    self._index.with_name(f"{self._index.name}.lock").unlink(missing_ok=True)
                    await self._commit_files(turn)
                    patch = await self.patch()
                await self._remove()
                if patch is not None:
                    self._mark(self._last)  # for a retry on this machine
        return patch

    # The worktree

    async def _base_of(self, commit: str) -> str:
        """Return the commit that a snapshot started from. The name of it may mean another one by now."""
        title, _, rest = (await self._git("log", "-1", "--format=%B", commit)).partition("\n")
        _, found, base = rest.rpartition(_BASE)
        return base.strip() if found and title.startswith(self._title) else commit

    def _has_worktree(self, commit: str) -> bool:
        return self._worktree.is_dir() and self._marked() == commit

    def _marked(self) -> str:
        return self._read(self._marker)

    def _read(self, path: Path) -> str:
        return path.read_text(encoding="ascii").strip() if path.is_file() else ""

    async def _local_snapshot(self, wanted: str) -> str | None:
        """Return a later snapshot of which no worker was told: its worker died first, or could not push it."""
        marked = self._marked()
        return marked if marked and await self._is_ancestor(wanted, marked) else None

    async def _is_ancestor(self, commit: str, other: str) -> bool:
        return (await call_git("merge-base", "--is-ancestor", commit, other, cwd=self._mirror))[0] == 0

    async def _check_out(self, wanted: str) -> None:
        await self._remove()
        self._worktree.parent.mkdir(parents=True, exist_ok=True)
        await self._git("worktree", "prune")
        await self._git("worktree", "add", "--quiet", "--force", "--detach", str(self._worktree), self._base)
        if wanted != self._base:
            await self._git("read-tree", "-u", "--reset", wanted, inside=True)
        # It knows the times of the files, so that the first snapshot need not read them all.
        index = self._worktree / await self._git("rev-parse", "--git-path", "index", inside=True)
        await asyncio.to_thread(shutil.copy2, index, self._index)
        if wanted != self._base:
            await self._git("reset", "--quiet", "--mixed", self._base, inside=True)
        self._mark(wanted)

    # The mirror

    async def _open_mirror(self) -> None:
        if (self._mirror / "HEAD").is_file():
            return
        self._mirror.parent.mkdir(parents=True, exist_ok=True)
        new = self._mirror.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        code, _, errors = await call_git("clone", "--quiet", "--bare", "--", self._repo, str(new))
        if code:
            raise WorkspaceError(f"The repository {self._repo} cannot be cloned: {reason_of(errors)} Check its address.")
        new.rename(self._mirror)

    async def _find(self, commit: str) -> str | None:
        """Return the hash of a commit, from the repository if the mirror does not have it, or if a name may have moved.

        Raises WorkspaceError if the repository cannot be read.
        """
        if _HASH.fullmatch(commit) and (found := await self._resolve(commit)):
            return found
        code, _, errors = await self._fetch("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
        if code:
            raise WorkspaceError(
                f"The repository {self._repo} cannot be read: {reason_of(errors)} Check that it is there, and retry the job."
            )
        if _HEAD.match(commit):
            await self._fetch(f"+HEAD:{_ORIGIN_HEAD}")
            return await self._resolve(_HEAD.sub(_ORIGIN_HEAD, commit))
        for fetched in ((), (f"+{self._ref}:{self._ref}",), (commit,)):
            if fetched:
                await self._fetch(*fetched)
            if found := await self._resolve(commit):
                return found
        return None

    async def _fetch(self, *refs: str) -> tuple[int, bytes, bytes]:
        # A job may have a branch checked out in its worktree. The mirror still has the branches of the repository.
        words = ("fetch", "--quiet", "--no-write-fetch-head", "--update-head-ok", "origin")
        return await call_git(*words, *refs, cwd=self._mirror)

    async def _resolve(self, commit: str) -> str | None:
        code, output, _ = await call_git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}", cwd=self._mirror)
        return None if code else output.decode().strip()

    async def _remove(self) -> None:
        if self._worktree.exists() and self._mirror.is_dir():
            await call_git("worktree", "remove", "--force", "--force", str(self._worktree), cwd=self._mirror)
        await asyncio.to_thread(shutil.rmtree, self._worktree, ignore_errors=True)
        for path in (self._marker, self._index, self._user):
            path.unlink(missing_ok=True)

    def _mark(self, commit: str) -> None:
        self._last = commit
        new = self._marker.with_suffix(".new")
        new.write_text(commit, encoding="ascii")
        new.replace(self._marker)

    def _locked(self) -> AbstractAsyncContextManager[None]:
        """Keep other jobs from changing the list of worktrees, and from cloning the same repository."""
        return locked(self._mirror.with_suffix(".lock"))

    async def _git(self, *words: str, inside: bool = False, in_files: bool = False, env: Mapping[str, str] | None = None) -> str:
        """Run git in the mirror, `inside` the worktree, or `in_files` with the index of snapshots. Raises WorkspaceError."""
        environment = self._files() if in_files else env
        output = await self._output(*words, cwd=self._worktree if inside or in_files else self._mirror, env=environment)
        return output.decode("utf-8", "replace").strip()

    async def _output(self, *words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> bytes:
        """Run git, by default in the mirror, and return its output as it is. Raises WorkspaceError."""
        code, output, errors = await call_git(*words, cwd=cwd or self._mirror, env=env)
        if code:
            raise WorkspaceError(f"git {words[0]} failed for {self._repo}: {reason_of(errors)}")
        return output


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _is_text(data: bytes) -> bool:
    """Whether a database and a file of text can hold the data."""
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False
