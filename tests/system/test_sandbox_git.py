"""Git repositories that commands in the sandbox lay out, for the user to run git in later. All of it runs for real.

Each layout is tried without a sandbox first: git has to run the command that it names.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.host_tools import ends
from tests.support.stage import Stage, bash, calls
from tests.system.test_sandbox_escapes import bubblewrap, folder, sandboxed, start

from fairlead.agent.tool_sets.opal import machine_tools
from fairlead.config.home import Home
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import ToolContext
from fairlead.policy.protected import Masks, read_only_in_sandbox
from fairlead.policy.sandbox import Bubblewrap, GuardedPlaces
from fairlead.tools.workspace import Workspace

__all__ = ["bubblewrap"]
pytestmark = pytest.mark.system

#: Lays out what makes a folder a repository: `lay FOLDER WORKTREE`.
LAY = r"""
CORE='[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = "touch %s;:"\n\tworktree = %s\n'
config() { printf "$CORE" "$WITNESS" "$1"; }
lay() { mkdir -p "$1/objects" "$1/refs"; config "${2:-$PWD}" > "$1/config"; printf 'ref: refs/heads/main\n' > "$1/HEAD"; }
"""
REAL_TMP = r"""$(test -n "$REAL_TMP" && echo "$REAL_TMP" || awk '$5 == "/tmp" {print $4}' /proc/self/mountinfo)"""

LAYOUTS = {
    "git-init": 'git init -q . && git config core.fsmonitor "touch $WITNESS;:"',
    "git-init-below": 'git init -q sub && git -C sub config core.fsmonitor "touch $WITNESS;:"',
    "folder-itself": "lay .",
    "folder-itself-with-a-link-for-head": "lay . && rm HEAD && ln -s refs/heads/main HEAD",
    "folder-itself-with-a-commondir": (
        "lay common && mv common/HEAD . && echo common > commondir && cp common/config config.worktree"
        " && printf '[extensions]\\n\\tworktreeConfig = true\\n' >> common/config"
    ),
    "packed": "lay . && rmdir refs && mkdir refs && printf '# pack-refs with: peeled fully-peeled sorted\\n' > packed-refs",
    "folder-below": 'mkdir -p a/b && lay a/b/c "$PWD/a"',
    "dot-git-by-hand": "mkdir sub && lay sub/.git",
    "dot-git-is-a-link": 'lay store "$PWD/sub" && mkdir sub && ln -s ../store sub/.git',
    "dot-git-is-a-link-to-temporary-files": f'lay /tmp/r1 "$PWD/sub"; mkdir sub && ln -s "{REAL_TMP}/r1" sub/.git',
    "dot-git-is-a-file": 'lay store "$PWD/sub" && mkdir sub && echo "gitdir: ../store" > sub/.git',
    "dot-git-is-a-file-for-temporary-files": f'lay /tmp/r2 "$PWD/sub"; mkdir sub && echo "gitdir: {REAL_TMP}/r2" > sub/.git',
    "moved-into-place": 'lay /tmp/r3/.git "$PWD/sub" && cp -r /tmp/r3 sub',
    "laid-out-under-another-name": "mkdir sub && lay sub/other && mv sub/other sub/.git",
    "name-is-taken": "mkdir -p sub/.git-from-sandbox sub/.git-from-sandbox-2 && lay sub/.git && lay sub/.git-from-sandbox/.git",
    "in-a-folder-that-cannot-be-written": "mkdir -p sub && lay sub/.git && chmod 555 sub/.git sub",
    "in-a-folder-that-cannot-be-listed": 'mkdir -p sub/in && lay sub/in/.git "$PWD/sub/in" && chmod 111 sub/in sub',
    "deep": "d=$(printf 'd/%.0s' $(seq 1 120)) && mkdir -p $d && lay $d/.git $PWD/$d",
    "many": "for n in $(seq 1 30); do mkdir -p s$n && lay s$n/.git $PWD/s$n; done",
    "line-ends-in-names": "mkdir -p \"$(printf 'a\\nb')\" && lay \"$(printf 'a\\nb')/.git\"",
}
READ_ONLY = read_only_in_sandbox(Home(Path("/home")))
NAMESPACES = ("unshare -U true", "unshare -Ur true", "unshare -Urm true", "bwrap --unshare-user --ro-bind / / true")
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


@pytest.fixture
def root() -> Iterator[Path]:
    with folder() as made:
        yield made


def env(root: Path) -> dict[str, str]:
    """The user's own surroundings."""
    return {"PATH": os.environ["PATH"], "HOME": str(root / "user"), "GIT_CONFIG_NOSYSTEM": "1"}


def witness(root: Path) -> Path:
    return root / "witness"


def script(root: Path, layout: str) -> str:
    return f"WITNESS={witness(root)}\n{LAY}\n{LAYOUTS.get(layout, layout)}"


def use_git(root: Path, cwd: Path) -> bool:
    """Use git in every folder, as a user might. Returns whether it ran what a repository names."""
    for where in [cwd, *(path for path in cwd.rglob("*") if path.is_dir() and not path.is_symlink())]:
        subprocess.run(["git", "status"], cwd=where, env=env(root), capture_output=True, check=False, timeout=30)
    return witness(root).exists()


@every_layout
def test_each_layout_would_run_a_command_outside(root: Path, layout: str) -> None:
    (root / "work").mkdir()
    (root / "user").mkdir()
    around = env(root) | {"REAL_TMP": "/tmp"}
    try:
        subprocess.run(["bash", "-c", script(root, layout)], cwd=root / "work", env=around, check=True, timeout=30)
        assert use_git(root, root / "work")
    finally:
        subprocess.run(["rm", "-rf", "/tmp/r1", "/tmp/r2", "/tmp/r3"], check=True)


@every_layout
def test_no_repository_that_a_command_laid_out_runs_anything_outside(root: Path, layout: str) -> None:
    with sandboxed(root) as host:
        done = host.request("bash", command=script(root, layout))["data"]
        assert not use_git(root, host.around.cwd), done
        if layout != "git-init":  # which cannot even be made
            assert "[Sandbox: Commands in the sandbox cannot make git repositories in the working directory" in done["output"]
        # Nor can one command prepare what the next one puts into its place.
        host.request("bash", command='find . -name \'*-from-sandbox*\' | while read -r p; do mv "$p" "${p%-from-sandbox*}"; done')
        assert not use_git(root, host.around.cwd)
        assert host.leave() == 0
    assert not use_git(root, host.around.cwd)
    assert not (host.around.cwd / ".git").exists()


def test_traps_of_a_background_process_are_found(root: Path) -> None:
    with sandboxed(root) as host:
        loop = 'n=0; while :; do n=$((n+1)); mkdir -p "b$n" && lay "b$n/.git" "$PWD/b$n"; done'
        for _ in range(5):
            host.request("bash", command=script(root, f"({loop}) & (setsid sh -c 'sleep 600') & sleep 0.05"))
            # An empty .git, which is all that there is if the process was killed at that moment, means nothing to git.
            assert not [path for path in host.around.cwd.glob("b*/.git") if any(path.iterdir())]
        assert not use_git(root, host.around.cwd / "b1")


def test_traps_of_an_aborted_command_are_found(root: Path) -> None:
    command = script(root, "mkdir sub && lay sub/.git $PWD/sub; echo > began; sleep 600")
    with sandboxed(root, calls(bash(command))) as host:
        os.mkfifo(host.around.cwd / "began")
        host.send({"id": "1", "type": "prompt", "message": "go"})
        (host.around.cwd / "began").read_text()
        host.send({"type": "abort"})
        host.until("agent_settled")
        assert host.leave() == 0
    assert not use_git(root, host.around.cwd)


def git(cwd: Path, root: Path, *words: str) -> str:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "protocol.file.allow=always"]
    done = subprocess.run(["git", *who, *words], cwd=cwd, env=env(root), capture_output=True, text=True, check=True, timeout=30)
    return done.stdout


@contextmanager
def project(root: Path, **more: Any) -> Generator[Stage]:
    """A repository with a submodule, another repository in a folder of its own, and a bare one."""
    with sandboxed(root, **more) as host:
        cwd, other = host.around.cwd, root / "other"
        other.mkdir()
        for path in (cwd, other):
            git(path, root, "init", "-q")
            (path / "file").write_text("text\n")
            git(path, root, "add", "file")
            git(path, root, "commit", "-qm", "first")
        git(cwd, root, "submodule", "--quiet", "add", str(other), "module")
        git(cwd, root, "commit", "-qm", "second")
        git(cwd, root, "clone", "-q", str(other), "clone")
        git(cwd, root, "clone", "-q", "--bare", str(other), "bare.git")
        yield host


@pytest.mark.parametrize(
    "command",
    [
        'git config core.fsmonitor "touch $WITNESS;:"',
        'git -C clone config core.fsmonitor "touch $WITNESS;:"',
        'git -C module config core.fsmonitor "touch $WITNESS;:"',
        'git -C bare.git config core.fsmonitor "touch $WITNESS;:"',
        'config "$PWD/clone" > clone/.git/config',
        'config "$PWD/clone" > clone/.git/config.worktree',
        "lay x; mv x/config .git/config",
        "mkdir x && lay x/.git; rm -rf clone; mv x clone",
        "mkdir x && lay x/.git $PWD/clone; mv clone away; mv x clone",
        "mkdir x && lay x/.git $PWD/clone; mv clone/.git away; mv x/.git clone/.git",
        "lay x $PWD/module; rm -f module/.git; echo 'gitdir: ../x' > module/.git",
        "lay x $PWD/module; mv module away; mkdir module; echo 'gitdir: ../x' > module/.git",
        "mv bare.git away; lay bare.git $PWD",
        "rm bare.git/HEAD; ln -s refs/heads/master bare.git/HEAD; config $PWD > bare.git/config",
        "echo 'exec touch $WITNESS' > .git/hooks/post-index-change; chmod +x .git/hooks/post-index-change",
        "mkdir -p .git/worktrees/x; echo ../../../x > .git/commondir; lay x",
        'umount .git; unshare -Urm sh -c "umount .git; config $PWD > .git/config"',
    ],
)
def test_repositories_that_are_there_keep_their_configuration(root: Path, command: str) -> None:
    with project(root) as host:
        host.request("bash", command=script(root, command))
        assert not use_git(root, host.around.cwd)


def test_repositories_can_be_read_and_stay_as_they_are(root: Path) -> None:
    with project(root) as host:
        cwd = host.around.cwd
        for where in (".", "clone", "module", "bare.git"):
            change = "true" if where == "bare.git" else f"echo changed >> {where}/file"
            done = host.request("bash", command=f"git -C {where} log --oneline && {change}")["data"]
            assert done["exitCode"] == 0 and "first" in done["output"] and "[Sandbox" not in done["output"], done
        assert "modified:   file" in host.request("bash", command="git status")["data"]["output"]
    assert "modified:   file" in git(cwd, root, "status")


def test_a_folder_that_leads_to_a_repository_stays_in_its_place(root: Path) -> None:
    """Otherwise another command that starts meanwhile would protect what takes its place."""
    with project(root) as host:
        cwd = host.around.cwd
        (cwd / "in").mkdir()
        (cwd / "clone").rename(cwd / "in" / "clone")
        for command in ("mv in away", "mv in/clone in/away", "mv module away"):
            done = host.request("bash", command=command)["data"]
            assert done["exitCode"] == 1 and "busy" in done["output"], done
        assert host.request("bash", command="mv in/clone/file file2 && ls file2")["data"]["output"] == "file2\n"


def test_a_repository_beside_a_protected_file_stays_read_only(root: Path) -> None:
    commands = [
        f'git -C {where} config core.fsmonitor "touch $WITNESS;:"' for where in (".", "clone", "module", "in/inner", "bare.git")
    ]
    settings = {"protectedPaths": [".env", "*.pem"]}
    # A project can protect more, which must not take other protection away.
    own = {".fairlead/settings.json": '{"protectedPaths": [".git/description", ".fairlead/x/y", "bare.git/description"]}'}
    with project(root, settings=settings, files={**own, ".fairlead/x/y": "", "in/.env": "secret"}) as host:
        cwd = host.around.cwd
        git(cwd, root, "init", "-q", "in/inner")
        git(cwd, root, "branch", "folder/a.pem")
        for name in ("clone/.env", "module/.env", ".git/.env", "in/inner/.env"):
            (cwd / name).write_text("secret")
        commands += ["echo {} > .fairlead/settings.json", "echo x > .fairlead/x/z", "cat clone/.env in/.env in/inner/.env"]
        said = host.request("bash", command=script(root, "\n".join(commands)))["data"]["output"]
        assert not use_git(root, cwd), said
        assert (cwd / ".fairlead" / "settings.json").read_text() == own[".fairlead/settings.json"]
        assert not (cwd / ".fairlead" / "x" / "z").exists() and "secret" not in said


@pytest.mark.parametrize(
    ("command", "where"),
    [
        (f'mkdir /tmp/r; lay /tmp/r/.git "{REAL_TMP}/r"; ln -s "{REAL_TMP}/r" docs', "docs"),
        (f'lay /tmp/r "{REAL_TMP}/r"; ln -s "{REAL_TMP}/r" docs', "docs"),
        (f'lay /tmp "{REAL_TMP}"; ln -s "{REAL_TMP}" docs', "docs"),
    ],
    ids=["dot-git", "folder-itself", "all-of-it"],
)
def test_a_link_to_a_repository_among_the_temporary_files_runs_nothing_outside(root: Path, command: str, where: str) -> None:
    with sandboxed(root) as host:
        said = host.request("bash", command=script(root, command))["data"]["output"]
        assert not use_git(root, host.around.cwd / where)
        assert "cannot make git repositories in /tmp" in said and "/tmp/" in said.partition("Renamed: ")[2]
        assert host.leave() == 0


def test_a_repository_is_not_hidden_from_the_check_by_another_command(root: Path) -> None:
    """The other one starts when the repository is there, and has it where no check comes when the first one ends."""
    deeper = "n=$(printf 'd%.0s' $(seq 240)); for _ in $(seq 20); do mkdir $n && cd $n; done"
    first = script(root, "mkdir -p s/x && lay s/x/.git $PWD/s/x; echo > laid; read _ < end")
    other = script(root, f"top=$PWD; {deeper}; mv $top/s/x x; echo > $top/hidden; read _ < $top/bring; mv x $top/s/x")
    with sandboxed(root, calls(bash(first))) as host:
        cwd = host.around.cwd
        for name in ("laid", "end", "hidden", "bring"):
            os.mkfifo(cwd / name)
        host.send({"id": "1", "type": "prompt", "message": "go"})
        (cwd / "laid").read_text()
        host.send({"id": "other", "type": "bash", "command": other})
        (cwd / "hidden").read_text()
        (cwd / "end").write_text("\n")
        host.until("tool_execution_end")
        (cwd / "bring").write_text("\n")
        assert "s/x/.git is now s/x/.git-from-sandbox" in host.response("other")["data"]["output"]
        assert not use_git(root, cwd / "s" / "x")


def test_a_commit_in_the_sandbox_fails_and_says_why(root: Path) -> None:
    with project(root) as host:
        (host.around.cwd / "file").write_text("changed\n")
        done = host.request("bash", command="git add file")["data"]
        assert done["exitCode"] != 0
        assert "\n\n[Sandbox: .git is read-only here: commands that change the repository, such as git add" in done["output"]


def test_a_folder_in_a_repository_is_still_in_it(root: Path) -> None:
    """The empty .git that keeps commands from making one means nothing to git, nor to searches."""
    git(root, root, "init", "-q")
    (root / ".gitignore").write_text("ignored\n/user\n/home\n")
    turn = calls(("grep", {"pattern": "needle"}))
    with sandboxed(root, turn, flags=["--tools", "grep"], files={"ignored": "needle", "seen": "needle"}) as host:
        cwd = host.around.cwd
        assert host.request("bash", command="git status --short .")["data"]["output"] == "?? ./\n"
        host.prompt("go")
        assert ends(host) == [("seen:1: needle", False)]
        assert git(cwd, root, "status", "--short", ".") == "?? ./\n"


@pytest.mark.parametrize("inner", ["", "hooks"])
def test_the_inside_of_a_repository_cannot_be_a_sandbox(root: Path, inner: str) -> None:
    (root / "user").mkdir()
    git(root, root, "init", "-q", "--bare", "work")
    done = start(root, folder=f"work/{inner}")
    assert done.returncode == 1 and "belongs to a git repository" in done.stderr


def test_there_are_no_user_namespaces_inside(root: Path) -> None:
    with sandboxed(root) as host:
        for command in NAMESPACES:
            done = host.request("bash", command=command)["data"]
            assert done["exitCode"] != 0, done


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_there_are_none_for_a_user_without_privileges_either(root: Path) -> None:
    (root / "work").mkdir()
    (root / "scratch").mkdir()
    sandbox = Bubblewrap(
        shutil.which("bwrap"),
        root / "work",
        scratch=lambda: root / "scratch",
        masks=lambda: Masks([], []),
        places=GuardedPlaces(read_only=READ_ONLY),
    )
    sandbox.prove()
    subprocess.run(["chown", "-R", "65534:65534", str(root)], check=True)
    root.chmod(0o755)
    for command in NAMESPACES:
        calls = sandbox.open_filter()
        words = sandbox.wrap(["sh", "-c", f"echo began; {command}"], root / "work", calls)
        somebody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        done = subprocess.run([*somebody, *words], capture_output=True, text=True, check=False, timeout=30, pass_fds=(calls,))
        os.close(calls)
        assert (done.stdout, bool(done.returncode)) == ("began\n", True), done


def test_a_bubblewrap_that_cannot_forbid_user_namespaces_is_refused(root: Path) -> None:
    (root / "bin").mkdir()
    (root / "bin" / "bwrap").write_text(
        '#!/bin/sh\nfor word; do test $word = --disable-userns && echo "bwrap: Unknown option $word" >&2 && exit 1; done\n'
    )
    (root / "bin" / "bwrap").chmod(0o755)
    done = start(root, PATH=f"{root / 'bin'}:/usr/bin:/bin")
    assert done.returncode == 1 and "bubblewrap may be older than version 0.8" in done.stderr


def test_placeholders_of_free_names_may_be_deleted_while_a_command_runs(root: Path) -> None:
    """As another session in the same folder does when it ends. The command can then make what it should not."""
    make = "mkdir -p .fairlead .git; echo {} > .fairlead/settings.json; rm -rf .mcp.json; echo {} > .mcp.json; lay .git"
    with sandboxed(root) as host:
        cwd = host.around.cwd
        for name in ("started", "go"):
            os.mkfifo(cwd / name)
        host.send({"id": "slow", "type": "bash", "command": script(root, f"echo > started; read _ < go; {make}")})
        (cwd / "started").read_text()
        for name in (".fairlead", ".mcp.json", ".git"):
            (cwd / name).rmdir()
        (cwd / "go").write_text("\n")
        said = host.response("slow")["data"]["output"]
        assert "made or replaced while the command ran" in said
        assert not [name for name in (".fairlead", ".mcp.json", ".git") if (cwd / name).exists()], said
        assert not use_git(root, cwd)


async def test_a_background_command_of_opal_is_checked_when_its_call_returns(root: Path) -> None:
    (root / "work").mkdir()
    (root / "scratch").mkdir()
    workspace = Workspace(root / "work", env(root), log_dir=lambda: root / "scratch", keep_log=lambda _: None)
    workspace.sandbox = Bubblewrap(
        shutil.which("bwrap"),
        root / "work",
        scratch=lambda: root / "scratch",
        masks=lambda: Masks([], []),
        places=GuardedPlaces(read_only=READ_ONLY),
    )
    shell = {tool.name: tool for tool in machine_tools(workspace)}["shell"]
    assert shell.close is not None
    lay = "mkdir sub && lay sub/.git $PWD/sub; echo laid; sleep 600"
    arguments = {"command": script(root, lay), "timeout": 3000}
    result = await shell.run(shell.check_arguments(arguments), ToolContext("1", CancelToken(), lambda _: None))
    text = "".join(getattr(block, "text", "") for block in result.content)
    assert "laid" in text and "sub/.git is now sub/.git-from-sandbox" in text
    assert not use_git(root, root / "work")
    await shell.close()
    assert not use_git(root, root / "work")
