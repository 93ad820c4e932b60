"""What goes wrong on the machine, while an agent works: disks, files, shells, processes and signals."""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.endurance.faults_provider import STAGES
from tests.endurance.faults_scene import Scene, SceneFault, mount, processes_of, unmount

#: The most memory in MiB that the agent needs for commands that print much.
MOST_MEMORY = 150
#: The stages in which a run is active.
RUNNING = tuple(stage for stage in STAGES if stage not in ("before", "compaction"))


def _limit(scene: Scene, size: int) -> None:
    _, hard = resource.prlimit(scene.host.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(scene.host.process.pid, resource.RLIMIT_FSIZE, (size, hard))


def _fill_disk(room: int) -> Callable[[Scene], None]:
    """Let the session's file grow by no more than some bytes: the write that needs more ends early, and the next one fails."""

    def do(scene: Scene) -> None:
        _limit(scene, scene.file.stat().st_size + room)
        if scene.provider.stage == "before":
            _expect_refusal(scene)
            _empty_disk(scene)

    return do


def _expect_refusal(scene: Scene) -> None:
    """Check that no prompt is accepted that cannot be written."""
    scene.host.send({"id": "refused", "type": "prompt", "message": "lost " * 4000})
    refused = scene.host.until("response", id="refused", success=False)
    assert "Cannot write session file" in refused["error"], refused


def _empty_disk(scene: Scene) -> None:
    _limit(scene, resource.RLIM_INFINITY)


def _remove_home(scene: Scene) -> None:
    scene.around.home.rename(scene.root / "home-aside")
    scene.around.home.write_text("not a directory")


def _restore_home(scene: Scene) -> None:
    scene.around.home.unlink()
    (scene.root / "home-aside").rename(scene.around.home)


def _remove_shell(scene: Scene) -> None:
    (scene.root / "bash").unlink()


def _restore_shell(scene: Scene) -> None:
    (scene.root / "bash").symlink_to("/bin/bash")


def _break_configuration(scene: Scene) -> None:
    for name in ("settings.json", "models.json"):
        path = scene.around.home / name
        path.rename(scene.root / name)
        path.write_text("{ this is not JSON")
    (scene.around.cwd / "AGENTS.md").write_bytes(b"\xff\xfe not text")


def _restore_configuration(scene: Scene) -> None:
    for name in ("settings.json", "models.json"):
        (scene.root / name).rename(scene.around.home / name)
    (scene.around.cwd / "AGENTS.md").unlink()


def _bash(command: str) -> Callable[[Scene], None]:
    """Run a command of the host beside the run."""
    return lambda scene: scene.host.send({"id": "beside", "type": "bash", "command": command})


def _abort_bash(scene: Scene) -> None:
    scene.host.request("abort_bash")
    assert scene.host.response("beside")["data"]["cancelled"]


def _await_flood(scene: Scene) -> None:
    answer = scene.host.response("beside")["data"]
    assert answer["truncated"] and len(answer["output"]) < 1 << 20, len(answer["output"])
    _check_memory(scene)


def _check_memory(scene: Scene) -> None:
    status = Path(f"/proc/{scene.host.process.pid}/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
    assert peak < MOST_MEMORY, f"{peak:.0f} MiB of memory"


def _end_children(scene: Scene) -> None:
    """End the children that the command left: they may run on, also when the agent has exited."""
    assert scene.host.response("beside")["data"]["output"] == "left\n"
    left = [number for number, line in processes_of(scene).items() if line.startswith("sleep")]
    assert len(left) == 2, left
    for number in left:
        os.kill(number, signal.SIGKILL)


def _nothing(scene: Scene) -> None:
    """Do nothing: the model's command is the fault."""


def _stop_for_a_moment(scene: Scene) -> None:
    scene.host.signal(signal.SIGSTOP)
    time.sleep(0.3)
    scene.host.signal(signal.SIGCONT)


def _kill_tool(scene: Scene) -> None:
    """Kill the shell of the model's command."""
    for number, line in processes_of(scene).items():
        if "read _" in line:
            os.kill(number, signal.SIGKILL)


def _cut_file(scene: Scene) -> None:
    os.truncate(scene.file, scene.file.stat().st_size // 2)


def _replace_file(scene: Scene) -> None:
    """Put another file in the place of the session's. The agent keeps that one beside its own."""
    other = scene.root / "other"
    other.write_text("This is not a session.\n")
    other.replace(scene.file)


def _overwrite_file(scene: Scene) -> None:
    with scene.file.open("r+b") as file:
        file.seek(-100, os.SEEK_END)
        file.write(b"\0" * 60)


def _add_to_file(scene: Scene) -> None:
    """Write an entry, as another program does that does not care about locks."""
    parent = json.loads(scene.file.read_bytes().splitlines()[-1])["id"]
    entry = {
        "type": "custom",
        "id": "abcd1234",
        "parentId": parent,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "customType": "other",
    }
    with scene.file.open("ab") as file:
        file.write(json.dumps(entry).encode() + b"\n")


def _signal(number: signal.Signals) -> Callable[[Scene], None]:
    return lambda scene: scene.host.signal(number)


def _use_all_space(scene: Scene) -> None:
    """Fill the small disk of the session with another file."""
    with suppress(OSError), (scene.file.parent / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 1024)
    if scene.provider.stage == "before":
        _expect_refusal(scene)
        _free_space(scene)


def _free_space(scene: Scene) -> None:
    (scene.file.parent / "filler").unlink(missing_ok=True)


def _protect_home(scene: Scene) -> None:
    """Make the home read-only."""
    home = str(scene.around.home)
    mount("--bind", home, home)
    mount("-o", "remount,ro,bind", home)


def _unprotect_home(scene: Scene) -> None:
    unmount(str(scene.around.home))


#: Faults that need the right to mount file systems.
MOUNTED_FAULTS = (
    SceneFault("no space", _use_all_space, undo=_free_space, fails_compaction=True, small_disk=True),
    SceneFault("read-only home", _protect_home, undo=_unprotect_home),
)
MACHINE_FAULTS = (
    SceneFault("full disk", _fill_disk(0), undo=_empty_disk, fails_compaction=True),
    SceneFault("short write", _fill_disk(20), undo=_empty_disk, fails_compaction=True),
    SceneFault("no home", _remove_home, undo=_restore_home),
    SceneFault("no shell", _remove_shell, undo=_restore_shell),
    SceneFault("broken configuration", _break_configuration, undo=_restore_configuration),
    SceneFault("endless command", _bash("sleep 600"), undo=_abort_bash),
    SceneFault("50 MB of output", _bash("head -c 50M /dev/zero | tr '\\0' x"), undo=_await_flood),
    SceneFault("100 MB of output", _nothing, ("tool",), undo=_check_memory, command="head -c 100M /dev/zero | tr '\\0' x"),
    SceneFault("left children", _bash("sleep 600 & (sleep 600 &) ; echo left"), undo=_end_children),
    SceneFault("file cut short", _cut_file),
    SceneFault("file replaced", _replace_file),
    SceneFault("file overwritten", _overwrite_file),
    SceneFault("file added to", _add_to_file),
    SceneFault("stopped", _stop_for_a_moment),
    SceneFault("shell killed", _kill_tool, ("tool",)),
    SceneFault("SIGTERM", _signal(signal.SIGTERM), exits=143),
    SceneFault("SIGHUP", _signal(signal.SIGHUP), exits=129),
    SceneFault("SIGKILL", _signal(signal.SIGKILL), exits=-9),
    SceneFault("SIGINT", _signal(signal.SIGINT), RUNNING, is_abort=True),
)
