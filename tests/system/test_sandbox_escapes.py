"""Commands in the sandbox, and the ways in which one may try to get out. All of it runs for real, in bubblewrap."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
import venv
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.debian import need
from tests.support.gates import wait_for_exit
from tests.support.host_tools import PROMPT, ends
from tests.support.stage import Stage, bash, calls, says, stage
from tests.support.surroundings import FAIRLEAD

pytestmark = pytest.mark.system

SECRET = "sk-this-is-secret"


@pytest.fixture(scope="module", autouse=True)
def bubblewrap() -> None:
    """The program, which is installed if that is possible, and named if it is not."""
    need("bwrap", "bubblewrap")


class Inside:
    """An agent in a sandbox, whose commands are given one by one."""

    def __init__(self, host: Stage) -> None:
        self.host = host
        self.cwd = host.around.cwd

    def run(self, command: str) -> tuple[int, str]:
        """The exit code and the output of a command of the host's, which is kept in the sandbox like the model's."""
        done = self.host.request("bash", command=command)["data"]
        return done["exitCode"], done["output"]


def _place() -> Path:
    """Where folders can be made that a sandbox shows as they are, and that other users can reach: it has /tmp to itself."""
    checkout = Path(__file__).resolve().parents[2]
    for place in (checkout / ".cache", Path.home() / ".cache", Path("/srv"), Path("/opt")):
        hidden = any(place.is_relative_to(each) for each in ("/tmp", "/var/tmp", "/run", "/var/run"))
        is_open = all(each.stat().st_mode & 1 for each in place.parents)
        if not hidden and is_open and os.access(place if place.exists() else place.parent, os.W_OK):
            place.mkdir(exist_ok=True)
            return place
    pytest.fail(
        "These tests need a folder that can be written to, that others can reach, and that is not below /tmp, /var/tmp or /run."
    )


@contextmanager
def folder() -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="fairlead-sandbox-", dir=_place(), ignore_cleanup_errors=True) as made:
        yield Path(made)


@pytest.fixture
def root() -> Iterator[Path]:
    with folder() as made:
        yield made


@pytest.fixture(scope="module")
def module_root() -> Iterator[Path]:
    with folder() as made:
        yield made


@pytest.fixture(scope="module")
def inside(module_root: Path) -> Iterator[Inside]:
    root = module_root
    (root / "user" / ".ssh").mkdir(parents=True)
    (root / "user" / ".ssh" / "id").write_text(SECRET)
    (root / "user" / "readable").write_text("not secret")
    files = {"a": "text", "keys/deep/.env": SECRET, ".git/hooks/x": "", ".git/config": "[core]\n", ".fairlead/rules/x": "x"}
    settings = {"protectedPaths": ["~/.ssh", ".env"]}
    # The folder of the user's is another one than that of fairlead's, as it usually is.
    env = {"HOME": str(root / "user"), "SSH_AUTH_SOCK": "/run/agent", "SECRET_TOKEN": "in-the-environment"}
    with stage(root, "pi", flags=["--sandbox", "workspace"], files=files, settings=settings, env=env) as host:
        (host.around.home / "auth.json").write_text(SECRET)
        (host.around.home / "skills" / "s").mkdir(parents=True)
        (host.around.home / "skills" / "s" / "tool.sh").write_text("echo skilled")
        yield Inside(host)


def test_commands_work_as_ever_in_the_working_directory(inside: Inside) -> None:
    assert inside.run("cat a; echo more > b; cat b; pwd") == (0, f"textmore\n{inside.cwd}\n")
    assert (inside.cwd / "b").read_text() == "more\n"
    assert inside.run("exit 7") == (7, "")
    assert inside.run("kill -9 $$")[0] == 137
    assert inside.run("cat /etc/hostname >/dev/null && echo 1 && echo 2 > /dev/stderr") == (0, "1\n2\n")


def test_temporary_files_last_and_are_private(inside: Inside) -> None:
    assert inside.run("echo kept > /tmp/mine; echo $TMPDIR; mktemp | head -c 5") == (0, "/tmp\n/tmp/")
    assert inside.run("cat /tmp/mine") == (0, "kept\n")
    assert not Path("/tmp/mine").exists()


@pytest.mark.parametrize(
    "target",
    [
        "$HOME/x",
        "$HOME/.bashrc",
        "../outside",
        "$PWD/../outside",
        "/etc/x",
        "/usr/bin/x",
        "/var/x",
        "/x",
        "link/x",
        "folder-link/x",
        "/proc/self/root/etc/x",
        "/proc/1/root/etc/x",
        "/proc/self/cwd/../outside",
        "/dev/../etc/x",
        "/sys/x",
        "/proc/sys/kernel/hostname",
        "/proc/sys/kernel/core_pattern",
        "/proc/self/oom_score_adj",
        "/proc/sysrq-trigger",
        ".fairlead/settings.json",
        ".fairlead/rules/x",
        ".git/hooks/x",
        ".git/hooks/post-commit",
        ".git/config",
    ],
)
def test_nothing_else_can_be_written(inside: Inside, target: str) -> None:
    inside.run('ln -sf "$HOME/linked" link; ln -sfn "$HOME" folder-link')
    code, said = inside.run(f'echo 0 > "{target}"')
    assert code != 0, said
    assert not (inside.cwd.parent / "outside").exists()


@pytest.mark.parametrize(
    "trick",
    [
        "mount -o remount,rw /",
        "mount -t tmpfs none /mnt",
        "umount $HOME/.ssh; cat $HOME/.ssh/id",
        "unshare -Urm sh -c 'umount -l $HOME/.ssh; cat $HOME/.ssh/id'",
        "unshare -Urm sh -c 'mount -o remount,rw,bind / && echo x > $HOME/x'",
        "unshare -Ur sh -c 'echo x > $HOME/x'",
        "bwrap --bind / / --dev /dev sh -c 'echo x > $HOME/x'",
        "bwrap --bind / / cat $HOME/.ssh/id",
        "chroot / sh -c 'echo x > $HOME/x'",
        "nsenter -t 1 -m cat $HOME/.ssh/id",
        "mknod disk b 8 0 && cat disk",
        "mv .git .moved",
        "mv .fairlead .moved",
        "rm -rf .git/config",
        "chmod 777 $HOME/readable",
        "ln $HOME/readable hard && echo x > hard",
        "touch $HOME/readable",
        "rm $HOME/readable",
    ],
)
def test_no_trick_with_mounts_namespaces_and_links_helps(inside: Inside, trick: str) -> None:
    code, said = inside.run(trick)
    assert code != 0 and SECRET not in said, said
    user = inside.cwd.parent / "user"
    assert sorted(path.name for path in user.iterdir()) == [".ssh", "readable"]
    assert (user / "readable").read_text() == "not secret"
    assert (inside.cwd / ".git" / "config").read_text() == "[core]\n"
    assert (inside.cwd / ".fairlead" / "rules" / "x").exists()


@pytest.mark.parametrize(
    "path",
    [
        "$HOME/.ssh/id",
        "$HOME/.ssh/../.ssh/id",
        "/proc/self/root$HOME/.ssh/id",
        "/proc/1/root$HOME/.ssh/id",
        "keys/deep/.env",
        "link-to-key",
        "$FAIRLEAD_HOME/auth.json",
        "$FAIRLEAD_HOME/models.json",
    ],
)
def test_protected_files_are_hidden(inside: Inside, path: str) -> None:
    inside.run('ln -sf "$HOME/.ssh/id" link-to-key')
    code, said = inside.run(f'cat "{path}" "$(realpath "{path}")"')
    assert code != 0 and SECRET not in said and "apiKey" not in said


def test_other_names_of_protected_files_are_hidden(inside: Inside) -> None:
    home = inside.host.around.home
    for name, path in {"hard-ssh": inside.cwd.parent / "user/.ssh/id", "hard-env": inside.cwd / "keys/deep/.env"}.items():
        (inside.cwd / name).hardlink_to(path)
    (inside.cwd / "hard-auth").hardlink_to(home / "auth.json")
    for name in ("hard-ssh", "hard-env", "hard-auth"):
        code, said = inside.run(f"cat {name} || cp {name} copy && cat copy")
        assert SECRET not in said and (code or not said), said
        (inside.cwd / name).unlink()


def test_renaming_a_folder_does_not_reveal_hidden_files(inside: Inside) -> None:
    assert inside.run("mv keys/deep keys/other")[0] != 0
    assert inside.run("mv keys other")[0] != 0
    assert SECRET not in inside.run("grep -r sk- . 2>/dev/null; cp -r keys copy 2>/dev/null; grep -r sk- copy")[1]


def test_keys_that_are_saved_while_a_command_runs_are_hidden_too(inside: Inside) -> None:
    auth = inside.host.around.home / "auth.json"
    started, go = inside.cwd / "started", inside.cwd / "go"
    for path in (started, go):
        os.mkfifo(path)
    inside.host.send({"id": "slow", "type": "bash", "command": 'echo > started; read _ < go; cat "$FAIRLEAD_HOME/auth.json"'})
    started.read_text()
    auth.with_name("next").write_text(SECRET)
    auth.with_name("next").replace(auth)
    go.write_text("\n")
    done = inside.host.response("slow")["data"]
    assert done["exitCode"] != 0 and SECRET not in done["output"]


def test_skills_of_the_user_can_be_run(inside: Inside) -> None:
    assert inside.run('sh "$FAIRLEAD_HOME/skills/s/tool.sh"') == (0, "skilled\n")


def test_there_is_no_network_not_even_to_this_machine(inside: Inside) -> None:
    heard: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0fairlead-test-{os.getpid()}")
        abstract.listen()
        for listener in (server, abstract):
            threading.Thread(target=_note_connection, args=(listener, heard), daemon=True).start()
        port = server.getsockname()[1]
        assert inside.run(f"exec 3<>/dev/tcp/127.0.0.1/{port}")[0] != 0
        connect = f"import socket; socket.socket(socket.AF_UNIX).connect('\\0fairlead-test-{os.getpid()}')"
        assert inside.run(f'{sys.executable} -c "{connect}"')[0] != 0
        assert inside.run("cat /proc/net/route | wc -l") == (0, "1\n")  # the heading alone: there is no way out
        assert heard == []


def _note_connection(listener: socket.socket, heard: list[Any]) -> None:
    try:
        heard.append(listener.accept())
    except OSError:
        heard.append(None)


def test_sockets_in_the_usual_places_are_out_of_reach(inside: Inside, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("s") / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        connect = f"import socket; socket.socket(socket.AF_UNIX).connect('{path}')"
        assert inside.run(f'{sys.executable} -c "{connect}"')[0] != 0
    assert inside.run("ls -A /run; echo [$SSH_AUTH_SOCK$XDG_RUNTIME_DIR]") == (0, "[]\n")


def test_processes_outside_cannot_be_seen_read_or_stopped(inside: Inside) -> None:
    outside = inside.host.process.pid
    with subprocess.Popen(["sleep", "600"]) as other:
        try:
            for pid in (outside, other.pid):
                assert inside.run(f"grep -l -e rpc -e 600 /proc/{pid}/cmdline /proc/{pid}/environ")[0] != 0
                inside.run(f"kill -9 {pid}")
            inside.run("kill -9 -1")
            assert other.poll() is None and inside.host.process.poll() is None
            assert inside.run("ls /proc | grep -c '^[0-9]*$'")[0] == 0
            assert int(inside.run("ls /proc | grep -c '^[0-9]*$'")[1]) < 8
        finally:
            other.kill()


def test_nothing_outlives_its_command(inside: Inside) -> None:
    with subprocess.Popen(["true"]):  # a number to compare with
        pass
    marker = f"7{os.getpid()}"
    assert inside.run(f"setsid sleep {marker} & (nohup sleep {marker} &) ; sleep {marker} & disown -a; true")[0] == 0
    found = subprocess.run(["pgrep", "-f", f"^sleep {marker}"], capture_output=True, text=True, check=False)
    assert found.stdout == ""


def test_there_is_no_terminal_to_write_to(inside: Inside) -> None:
    push = "import fcntl, os, termios; fcntl.ioctl(os.open('/dev/tty', os.O_RDWR), termios.TIOCSTI, b'x')"
    assert inside.run(f'{sys.executable} -c "{push}"')[0] != 0


def test_all_privileges_are_gone(inside: Inside) -> None:
    assert "CapEff:\t0000000000000000" in inside.run("cat /proc/self/status")[1]
    assert "NoNewPrivs:\t1" in inside.run("cat /proc/self/status")[1]


# The model's own commands and tools


def sandboxed(root: Path, *turns: Any, **more: Any) -> Any:
    env = {"HOME": str(root / "user"), **more.pop("more", {})}
    (root / "user").mkdir()
    flags = ["--sandbox", "workspace", *more.pop("flags", ())]
    return stage(root, "pi", [*turns, says("ok")], flags=flags, env=env, **more)


def test_the_models_commands_and_writes_are_kept_in(root: Path) -> None:
    turn = calls(
        bash("echo in > in && echo out > ../out"),
        ("write", {"path": "../out", "content": "x"}),
        ("write", {"path": "new/in", "content": "x"}),
        ("grep", {"pattern": "in"}),
    )
    with sandboxed(root, turn, flags=["--tools", "bash,write,grep"], files={"text": "find me in here"}) as host:
        host.prompt("go")
        assert not (root / "out").exists()
        assert (host.around.cwd / "in").read_text() == "in\n" and (host.around.cwd / "new" / "in").read_text() == "x"
        said = ends(host)
        assert [is_error for _, is_error in said].count(True) == 2
        assert any("text:1: find me in here" in text for text, _ in said)
        assert any("outside the working directory" in text for text, _ in said)


def test_a_command_that_is_aborted_may_tidy_up_and_then_ends(root: Path) -> None:
    command = "trap 'echo tidied > tidied; exit 3' TERM; echo $$ > shell; echo > began; while :; do sleep 600 & wait $!; done"
    with sandboxed(root, calls(bash(command))) as host:
        os.mkfifo(host.around.cwd / "began")
        host.send(PROMPT)
        (host.around.cwd / "began").read_text()
        host.send({"type": "abort"})
        host.until("agent_settled")
        assert (host.around.cwd / "tidied").read_text() == "tidied\n"
        assert ends(host) == [("Command aborted", True)]
        assert host.leave() == 0


@pytest.mark.parametrize("how", ["timeout", "stubborn", "killed"])
def test_a_running_command_is_killed_with_its_children(root: Path, how: str) -> None:
    marker = f"6{os.getpid()}{len(how)}"
    command = f"{'trap : TERM;' if how == 'stubborn' else ''} sleep {marker} & echo > began; while :; do sleep {marker}; done"
    arguments = {"command": command, **({"timeout": 0.3} if how == "timeout" else {})}
    with sandboxed(root, calls(("bash", arguments))) as host:
        os.mkfifo(host.around.cwd / "began")
        host.send(PROMPT)
        (host.around.cwd / "began").read_text()
        pids = subprocess.run(["pgrep", "-f", f"^sleep {marker}"], capture_output=True, text=True, check=False).stdout.split()
        if how == "killed":
            host.process.kill()
        elif how == "stubborn":
            host.send({"type": "abort"})
        if how != "killed":
            host.until("agent_settled")
            assert ends(host)[0][0].endswith("Command timed out after 0.3 seconds" if how == "timeout" else "Command aborted")
        for pid in pids:
            wait_for_exit(int(pid))


def test_long_output_is_kept_where_commands_can_read_it(root: Path) -> None:
    with sandboxed(root) as host:
        done = host.request("bash", command="seq 1 100000")["data"]
        log = done["fullOutputPath"]
        assert host.request("bash", command=f"tail -n 1 {log}; echo x >> {log}")["data"]["output"].startswith("100000\n")
        assert Path(log).read_text().endswith("100000\n")


def test_a_project_folder_cannot_be_made_and_none_is_left_behind(root: Path) -> None:
    with sandboxed(root) as host:
        assert host.request("bash", command="mkdir -p .fairlead/extensions && echo x > .fairlead/settings.json")["data"][
            "exitCode"
        ]
        assert list((host.around.cwd / ".fairlead").iterdir()) == []
        assert host.leave() == 0
        assert not (host.around.cwd / ".fairlead").exists()


def test_files_that_take_effect_outside_cannot_be_created(root: Path) -> None:
    files = {".git/HEAD": "ref: refs/heads/main\n", ".git/config": "[core]\n"}
    with sandboxed(root, files=files) as host:
        for command in ("echo {} > .mcp.json", "rm -r .mcp.json", "mkdir -p .git/hooks; echo x > .git/hooks/pre-commit"):
            assert host.request("bash", command=command)["data"]["exitCode"] != 0, command
        # Git would read the configuration in the folder that this names.
        assert host.request("bash", command="echo ../other > .git/commondir")["data"]["exitCode"] != 0
        assert host.leave() == 0
        assert sorted(path.name for path in (host.around.cwd / ".git").iterdir()) == ["HEAD", "config"]
        assert not (host.around.cwd / ".mcp.json").exists()
        assert "mcp" not in host.stderr()


@pytest.mark.parametrize("name", [".fairlead", ".mcp.json", ".git", ".git/hooks"])
def test_a_link_in_the_place_of_what_takes_effect_outside_is_refused(root: Path, name: str) -> None:
    path = root / "work" / name
    path.parent.mkdir(parents=True)
    path.symlink_to(root / "work" / "elsewhere")
    done = start(root)
    assert done.returncode == 1 and f"{path} is a link that commands in the sandbox could replace" in done.stderr


# Where there is no sandbox


def start(root: Path, folder: str = "work", **env: str) -> subprocess.CompletedProcess[str]:
    around = {"HOME": str(root / "user"), "FAIRLEAD_HOME": str(root / "home"), "PATH": os.environ["PATH"], **env}
    (root / "work").mkdir(exist_ok=True)
    return subprocess.run(
        [FAIRLEAD, "--mode", "rpc", "--sandbox", "workspace"],
        cwd=root / folder,
        env=around,
        input="",
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_without_bubblewrap_it_does_not_start_and_says_what_to_install(root: Path) -> None:
    done = start(root, PATH="/nowhere")
    assert (done.returncode, done.stdout) == (1, "")
    assert "needs bubblewrap (the program bwrap), which was not found. Install the package bubblewrap" in done.stderr


def test_a_bubblewrap_that_does_not_work_is_an_error_too(root: Path) -> None:
    (root / "bin").mkdir()
    (root / "bin" / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    (root / "bin" / "bwrap").chmod(0o755)
    done = start(root, PATH=f"{root / 'bin'}:/usr/bin:/bin")
    assert done.returncode == 1 and "does not work here: bwrap: No permissions to create new namespace." in done.stderr


def test_sandbox_refuses_a_folder_with_fairleads_own_files(root: Path) -> None:
    done = start(root, FAIRLEAD_HOME=str(root / "work" / "home"))
    assert done.returncode == 1 and "cannot be a sandbox: commands could change" in done.stderr


@pytest.mark.parametrize("home", ["work", "work/of/user"])
def test_sandbox_refuses_a_folder_with_the_users_home(root: Path, home: str) -> None:
    done = start(root, FAIRLEAD_HOME=str(root / "home"), HOME=str(root / home))
    assert done.returncode == 1 and f"cannot be a sandbox: commands could change {root / home}" in done.stderr


@pytest.mark.parametrize("name", ["FAIRLEAD_HOME", "HOME"])
@pytest.mark.parametrize(("one", "other"), [("work", "elsewhere"), ("elsewhere/home", "work/a b"), ("elsewhere", "work/a b/c")])
def test_sandbox_refuses_a_folder_that_is_mounted_where_the_home_is(root: Path, name: str, one: str, other: str) -> None:
    for folder in ("work/home", "elsewhere/home", one, other):
        (root / folder).mkdir(parents=True, exist_ok=True)
    own = {"HOME": str(root / "user"), "FAIRLEAD_HOME": str(root / "home"), name: str(root / "elsewhere" / "home")}
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    mount = f"mount --bind '{root / one}' '{root / other}' && exec {FAIRLEAD} --mode rpc --sandbox workspace </dev/null"
    done = subprocess.run(
        [*unshare, "sh", "-c", mount], cwd=root / "work", env={**os.environ, **own}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and f"is also mounted at {root / 'elsewhere'}" in done.stderr, done.stderr


#: Prints what a search of its working directory finds.
SEARCH = """
import asyncio
from fairlead import Agent
from fairlead.core.events import ToolEnd
from fairlead.core.messages import ToolCall
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

async def main():
    turns = Scripted([Turn(tool_calls=[ToolCall("c", "grep", {"pattern": "needle"})]), Turn(text="ok")])
    async with Agent(model=SCRIPTED_MODEL, stream=turns, tools=["grep"], isolated=True, sandbox="workspace") as agent:
        async for event in agent.run("go"):
            if isinstance(event, ToolEnd):
                print(event.result.content[0].text)

asyncio.run(main())
"""


def test_searches_work_where_the_program_is_installed_in_a_folder_that_the_sandbox_has_for_itself(root: Path) -> None:
    (root / "text").write_text("a needle\n")
    with tempfile.TemporaryDirectory(dir="/tmp") as below_tmp:
        venv.create(below_tmp, with_pip=False, symlinks=True)
        (packages,) = Path(below_tmp).glob("lib/python*/site-packages")
        (packages / "ours.pth").write_text("\n".join(path for path in sys.path if path))
        command = [str(Path(below_tmp, "bin", "python")), "-P", "-c", SEARCH]  # a folder of modules is no sandbox
        env = {"PATH": os.environ["PATH"], "HOME": str(root.parent)}
        done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "text:1: a needle\n"
