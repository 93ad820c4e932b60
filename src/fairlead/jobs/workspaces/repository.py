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

from fairlead.core.secrets import learn_url, without_credentials
from fairlead.errors import WorkspaceError
from fairlead.jobs.workspaces.git import call_git, lock_file, prepare_git, reason_of
from fairlead.jobs.workspaces.job_workspace import Placement
from fairlead.jobs.workspaces.workspace_files import Saved, Snapshot, WorktreeFiles, index_lines, read_tree
from fairlead.platform.programs import serving
from fairlead.tools.background import Stop

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
#: Attributes that count in the mirror and its worktrees before all others: files have the bytes that the repository has. No
#: filter, such as that of Git LFS, changes them, because the programs of filters would run outside the container of a job.
_ATTRIBUTES = b"* -text -filter -ident -working-tree-encoding\n"
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
        #: How errors name it: without a password.
        self._shown = without_credentials(repo)
        if self._shown != repo:
            learn_url(repo)
        self._commit = commit
        self._data = data
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
        #: The worktree as snapshots read it, and the last snapshot with its files. None: not read yet.
        self._files: WorktreeFiles | None = None
        self._saved: tuple[str, dict[str, Saved]] | None = None

    async def prepare(self, snapshot: str | None) -> Placement:
        """Check out the snapshot or, without one, the commit. Raises WorkspaceError.

        A worktree that is still here from an attempt on this machine is used as it is: it has everything that the job did.
        """
        async with self._lock_worktrees():
            await self._open_mirror()
            wanted = await self._find(snapshot or self._commit)
            if wanted is None and snapshot is None:
                raise WorkspaceError(
                    f"The repository {self._shown} has no commit {self._commit}. Push it there, or name another one."
                )
            if wanted is None:
                raise WorkspaceError(
                    f"The snapshot {snapshot} of the job is missing in {self._shown}. Another machine may still have it: start a"
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
            self._remove_locks()
        return Placement(cwd=self._worktree, is_restored=not is_here)

    async def snapshot(self, turn: int) -> str | None:
        """Commit all files that are not ignored, and push the commit. Returns its hash.

        Raises WorkspaceError. If the commit cannot be pushed, this machine still has it. A file that cannot be read does not
        keep the others from being saved.
        """
        if problem := await self._commit_files(turn):
            log.warning("a snapshot lacks files of %s: %s", self._worktree, problem)
        if self._pushed != self._last:
            words = ("push", "--quiet", "--force", "--no-verify", *serving("receive-pack", self._repo), "--", self._shown)
            code, _, errors = await self._call(*words, f"{self._ref}:{self._ref}", address=self._repo)
            if code:
                raise WorkspaceError(f"git push failed for {self._shown}: {reason_of(errors)}")
            self._pushed = self._last
        return self._last

    async def _commit_files(self, turn: int) -> str:
        """Commit all files that are not ignored. Raises WorkspaceError.

        Returns why some files are not in the commit; an empty text if all are.
        """
        self._missing = turn
        earlier = await self._last_files()
        found = await self._read_files(earlier)
        if found.files != earlier:
            await self._git("read-tree", self._last, env=self._with_index())
            changes = index_lines(earlier, found.files)
            await self._git("update-index", "-z", "--index-info", stdin=changes, env=self._with_index())
            tree = await self._git("write-tree", env=self._with_index())
            message = f"{self._title}{turn}\n\n{_BASE}{self._base}"
            commit = await self._git("commit-tree", tree, "-p", self._last, "-m", message, env=_IDENTITY)
            await self._git("update-ref", self._ref, commit)
            self._mark(commit)
            self._saved = commit, found.files
        if not found.problem:
            self._missing = None
        return found.problem

    async def _last_files(self) -> dict[str, Saved]:
        """Return the files of the last snapshot."""
        if self._saved is None or self._saved[0] != self._last:
            self._saved = self._last, read_tree(await self._output("ls-tree", "-r", "-z", "--full-tree", self._last))
        return self._saved[1]

    async def _read_files(self, earlier: Mapping[str, Saved]) -> Snapshot:
        """Read the files of the worktree, and write the contents of those that changed to the mirror. Raises WorkspaceError."""
        if self._files is None:
            self._files = WorktreeFiles(self._worktree, "sha1" if len(self._last) == 40 else "sha256")
        importing = prepare_git("fast-import", "--quiet", data=self._data, repository=self._mirror)
        stop = Stop()
        reading = asyncio.get_running_loop().run_in_executor(None, self._files.save, earlier, importing, stop)
        try:
            return await asyncio.shield(reading)
        except asyncio.CancelledError:
            stop.ask()
            await asyncio.wait([reading])
            if not reading.cancelled():
                reading.exception()
            raise

    def _with_index(self) -> dict[str, str]:
        return {"GIT_INDEX_FILE": str(self._index)}

    def _remove_locks(self) -> None:
        """Remove the locks that a process left which was killed."""
        for file in (self._index, self._mirror / self._ref):
            file.with_name(f"{file.name}.lock").unlink(missing_ok=True)

    async def patch(self) -> str | None:
        """Return the difference between the job's commit and the last snapshot. Files that are not UTF-8 are in it as binary.

        Raises WorkspaceError if there is no snapshot of all files. They stay in the worktree then.
        """
        if self._missing is not None and (problem := await self._commit_files(self._missing)):
            raise WorkspaceError(f"Not all files of {self._worktree} can be saved: {problem}")
        words = ("diff", "--binary", "--no-color", "--no-ext-diff", "--no-textconv", "--submodule=short", self._base, self._last)
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
            async with self._lock_worktrees():
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
        async with self._lock_worktrees():
            if await is_over() and self._worktree.is_dir():
                marked = self._read_marker()
                if marked and (snapshot is None or await self._is_ancestor(snapshot, marked)):
                    self._last, self._base = marked, await self._base_of(marked)
                    self._remove_locks()
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
        return self._worktree.is_dir() and self._read_marker() == commit

    def _read_marker(self) -> str:
        return self._read(self._marker)

    def _read(self, path: Path) -> str:
        return path.read_text(encoding="ascii").strip() if path.is_file() else ""

    async def _local_snapshot(self, wanted: str) -> str | None:
        """Return a later snapshot of which no worker was told: its worker died first, or could not push it."""
        marked = self._read_marker()
        return marked if marked and await self._is_ancestor(wanted, marked) else None

    async def _is_ancestor(self, commit: str, other: str) -> bool:
        return (await self._call("merge-base", "--is-ancestor", commit, other))[0] == 0

    async def _check_out(self, wanted: str) -> None:
        await self._remove()
        self._worktree.parent.mkdir(parents=True, exist_ok=True)
        await self._git("worktree", "prune")
        words = ("worktree", "add", "--quiet", "--force", "--detach", "--no-checkout")
        await self._git(*words, str(self._worktree), self._base)
        # No call finds the repository from inside the worktree, where a job may have made another one.
        repository = Path(self._read(self._worktree / ".git").removeprefix("gitdir: "))
        here = {"GIT_WORK_TREE": str(self._worktree)}
        await self._git("read-tree", "-u", "--reset", wanted, repository=repository, env=here)
        if wanted != self._base:
            await self._git("read-tree", self._base, repository=repository, env=here)
        self._mark(wanted)

    # The mirror

    async def _open_mirror(self) -> None:
        if not (self._mirror / "HEAD").is_file():
            self._mirror.parent.mkdir(parents=True, exist_ok=True)
            new = self._mirror.with_suffix(".new")
            shutil.rmtree(new, ignore_errors=True)
            words = ("clone", "--quiet", "--bare", *serving("upload-pack", self._repo), "--", self._shown, str(new))
            code, _, errors = await call_git(*words, data=self._data, address=self._repo)
            if code:
                raise WorkspaceError(f"The repository {self._shown} cannot be cloned: {reason_of(errors)} Check its address.")
            new.rename(self._mirror)
        elif self._shown != self._repo:  # an earlier version kept the password
            await self._git("config", "remote.origin.url", self._shown)
        attributes = self._mirror / "info" / "attributes"
        if not attributes.is_file() or attributes.read_bytes() != _ATTRIBUTES:
            attributes.parent.mkdir(exist_ok=True)
            attributes.write_bytes(_ATTRIBUTES)

    async def _find(self, commit: str) -> str | None:
        """Return the hash of a commit, from the repository if the mirror does not have it, or if a name may have moved.

        Raises WorkspaceError if the repository cannot be read.
        """
        if _HASH.fullmatch(commit) and (found := await self._resolve(commit)):
            return found
        code, _, errors = await self._fetch("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
        if code:
            raise WorkspaceError(
                f"The repository {self._shown} cannot be read: {reason_of(errors)} Check that it is there, and retry the job."
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
        words = ("fetch", "--quiet", "--no-write-fetch-head", "--update-head-ok", *serving("upload-pack", self._repo))
        return await self._call(*words, "--", self._shown, *refs, address=self._repo)

    async def _resolve(self, commit: str) -> str | None:
        code, output, _ = await self._call("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
        return None if code else output.decode().strip()

    async def _remove(self) -> None:
        await asyncio.to_thread(shutil.rmtree, self._worktree, ignore_errors=True)
        if (self._mirror / "HEAD").is_file():
            await self._call("worktree", "prune")
        self._files = self._saved = None
        for path in (self._marker, self._index, self._user):
            path.unlink(missing_ok=True)

    def _mark(self, commit: str) -> None:
        self._last = commit
        new = self._marker.with_suffix(".new")
        new.write_text(commit, encoding="ascii")
        new.replace(self._marker)

    def _lock_worktrees(self) -> AbstractAsyncContextManager[None]:
        """Keep other jobs from changing the list of worktrees, and from cloning the same repository."""
        return lock_file(self._mirror.with_suffix(".lock"))

    async def _git(
        self, *words: str, repository: Path | None = None, stdin: bytes | None = None, env: Mapping[str, str] | None = None
    ) -> str:
        """Run git, by default in the mirror, and return its output as text. Raises WorkspaceError."""
        output = await self._output(*words, repository=repository, stdin=stdin, env=env)
        return output.decode("utf-8", "replace").strip()

    async def _output(
        self, *words: str, repository: Path | None = None, stdin: bytes | None = None, env: Mapping[str, str] | None = None
    ) -> bytes:
        """Run git, by default in the mirror, and return its output as it is. Raises WorkspaceError."""
        code, output, errors = await self._call(*words, repository=repository, stdin=stdin, env=env)
        if code:
            raise WorkspaceError(f"git {words[0]} failed for {self._shown}: {reason_of(errors)}")
        return output

    async def _call(
        self,
        *words: str,
        repository: Path | None = None,
        address: str | None = None,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes, bytes]:
        repository = repository or self._mirror
        return await call_git(*words, data=self._data, repository=repository, address=address, stdin=stdin, env=env)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _is_text(data: bytes) -> bool:
    """Whether a database and a file of text can hold the data."""
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False
