"""A worktree of a git repository per job, with snapshots that let another worker continue.

A worker keeps one mirror per repository. Each job gets a worktree of it, at the job's commit. After each turn, the files become a
commit under `refs/fairlead/jobs/`, made with a separate index and pushed to the repository. The branches and the index of the
user are never touched.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.errors import WorkspaceError
from fairlead.jobs.workspaces import Placement

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

#: Where the snapshots of jobs are, in the mirror and in the repository.
REFS = "refs/fairlead/jobs"
#: Before the commit that the job started from, in the message of a snapshot.
_BASE = "Started from "
#: The full hash of a commit. Anything else is a name, which may mean another commit tomorrow.
_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
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
    """

    def __init__(self, repo: str, commit: str, name: str, data: Path) -> None:
        self._repo = repo
        self._commit = commit
        self._ref = f"{REFS}/{name}"
        digest = hashlib.sha256(repo.encode()).hexdigest()[:16]
        self._mirror = data / "mirrors" / f"{digest}.git"
        self._worktree = data / "worktrees" / digest / name
        #: The snapshot that the worktree came from or went to last. A worktree without it is from an older attempt.
        self._marker = data / "worktrees" / digest / f"{name}.snapshot"
        self._index = data / "worktrees" / digest / f"{name}.index"
        #: Says which attempt uses the worktree. An earlier one must not remove it.
        self._user = data / "worktrees" / digest / f"{name}.user"
        self._token = os.urandom(8).hex()
        self._is_prepared = False
        #: The first line of the message of a snapshot begins with this.
        self._title = f"fairlead: the files of {name} after turn "
        #: The commit that the job started from, the last snapshot on this machine, and the last one that the repository has.
        self._base = self._last = self._pushed = ""

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
            self._user.write_text(self._token, encoding="ascii")
            self._is_prepared = True
            for locked in (self._index, self._mirror / self._ref):  # a process that was killed may have left its lock
                locked.with_name(f"{locked.name}.lock").unlink(missing_ok=True)
        return Placement(cwd=self._worktree, is_restored=not is_here)

    async def snapshot(self, turn: int) -> str | None:
        """Commit all files that are not ignored, and push the commit. Returns its hash.

        Raises WorkspaceError. If the commit cannot be pushed, this machine has it all the same.
        """
        await self._commit_files(turn)
        if self._pushed != self._last:
            await self._git("push", "--quiet", "--force", "--no-verify", "origin", f"{self._ref}:{self._ref}")
            self._pushed = self._last
        return self._last

    async def _commit_files(self, turn: int) -> None:
        environment = {"GIT_INDEX_FILE": str(self._index)}
        await self._git("add", "--all", "--", ".", inside=True, env=environment)
        tree = await self._git("write-tree", inside=True, env=environment)
        if tree != await self._git("rev-parse", f"{self._last}^{{tree}}"):
            message = f"{self._title}{turn}\n\n{_BASE}{self._base}"
            commit = await self._git("commit-tree", tree, "-p", self._last, "-m", message, env=_IDENTITY)
            await self._git("update-ref", self._ref, commit)
            self._mark(commit)

    async def patch(self) -> str | None:
        """Return the difference between the job's commit and the last snapshot. Files that are not UTF-8 are in it as binary."""
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
        return (await run_git("merge-base", "--is-ancestor", commit, other, cwd=self._mirror))[0] == 0

    async def _check_out(self, wanted: str) -> None:
        await self._remove()
        self._worktree.parent.mkdir(parents=True, exist_ok=True)
        await self._git("worktree", "prune")
        await self._git("worktree", "add", "--quiet", "--force", "--detach", str(self._worktree), self._base)
        if wanted != self._base:
            await self._git("read-tree", "-u", "--reset", wanted, inside=True)
            await self._git("reset", "--quiet", "--mixed", self._base, inside=True)
        self._mark(wanted)

    # The mirror

    async def _open_mirror(self) -> None:
        if (self._mirror / "HEAD").is_file():
            return
        self._mirror.parent.mkdir(parents=True, exist_ok=True)
        new = self._mirror.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        code, text = await run_git("clone", "--quiet", "--bare", "--", self._repo, str(new))
        if code:
            raise WorkspaceError(f"The repository {self._repo} cannot be cloned: {_last_line(text)} Check its address.")
        new.rename(self._mirror)

    async def _find(self, commit: str) -> str | None:
        """Return the hash of a commit, from the repository if the mirror does not have it, or if a name may have moved."""
        for fetched in (
            *([()] if _HASH.fullmatch(commit) else []),
            ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"),
            (f"+{self._ref}:{self._ref}",),
            (commit,),
        ):
            if fetched:
                await run_git("fetch", "--quiet", "--no-write-fetch-head", "origin", *fetched, cwd=self._mirror)
            code, text = await run_git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}", cwd=self._mirror)
            if code == 0:
                return text.strip()
        return None

    async def _remove(self) -> None:
        if self._worktree.exists() and self._mirror.is_dir():
            await run_git("worktree", "remove", "--force", "--force", str(self._worktree), cwd=self._mirror)
        await asyncio.to_thread(shutil.rmtree, self._worktree, ignore_errors=True)
        for path in (self._marker, self._index, self._user):
            path.unlink(missing_ok=True)

    def _mark(self, commit: str) -> None:
        self._last = commit
        new = self._marker.with_suffix(".new")
        new.write_text(commit, encoding="ascii")
        new.replace(self._marker)

    @asynccontextmanager
    async def _locked(self) -> AsyncGenerator[None]:
        """Keep other processes from changing the list of worktrees, and from cloning the same repository."""
        self._mirror.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._mirror.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        async with AsyncExitStack() as stack:
            stack.callback(os.close, lock)
            await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
            yield

    async def _git(self, *words: str, inside: bool = False, env: Mapping[str, str] | None = None) -> str:
        """Run git in the mirror, or `inside` the worktree. Raises WorkspaceError."""
        return (await self._output(*words, inside=inside, env=env)).decode("utf-8", "replace").strip()

    async def _output(self, *words: str, inside: bool = False, env: Mapping[str, str] | None = None) -> bytes:
        """Run git as `_git` does, and return its output as it is."""
        code, output = await _run_git(*words, cwd=self._worktree if inside else self._mirror, env=env)
        if code:
            raise WorkspaceError(f"git {words[0]} failed for {self._repo}: {_last_line(output.decode('utf-8', 'replace'))}")
        return output


async def run_git(*words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run git. Returns its exit code, and its output, or its errors if it failed. Raises WorkspaceError if git is missing."""
    code, output = await _run_git(*words, cwd=cwd, env=env)
    return code, output.decode("utf-8", "replace")


async def _run_git(*words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> tuple[int, bytes]:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
        **(env or {}),
    }
    try:
        process = await asyncio.create_subprocess_exec(
            *("git", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", *words),
            cwd=cwd,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except FileNotFoundError:
        raise WorkspaceError("Jobs with a repository need git, which is not installed on this worker.") from None
    output, errors = await process.communicate()
    code = process.returncode or 0
    return code, errors if code else output


def _is_text(data: bytes) -> bool:
    """Whether a database and a file of text can hold the data."""
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it gave no reason."])[-1]
