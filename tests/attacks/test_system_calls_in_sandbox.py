"""Commands in the sandbox that talk to the kernel: its keyrings, sockets that no namespace bounds, calls with other numbers."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.support.stage import bash, calls, says, stage
from tests.system.test_sandbox_escapes import Inside, bubblewrap, ends, folder, sandboxed, start

from fairlead.errors import ConfigError
from fairlead.policy.system_calls import filter_program

__all__ = ["bubblewrap"]
pytestmark = pytest.mark.system

IS_X86 = platform.machine() == "x86_64"
#: System calls and their numbers on x86_64 and aarch64, from the kernel's tables. None: there is no such call.
REFUSED = {
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "userfaultfd": (323, 282),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "mount": (165, 40),
    "umount2": (166, 39),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "pivot_root": (155, 41),
    "mount_setattr": (442, 442),
    "setns": (308, 268),
    "open_by_handle_at": (304, 265),
    "create_module": (174, None),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
}
MISSING = {"io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427)}
GETPID = 39 if IS_X86 else 172
#: Makes a call with the given number, and prints the error.
CALL = """
import ctypes, sys
call = ctypes.CDLL(None, use_errno=True).syscall
for number in sys.argv[1:]:
    print(number, call(ctypes.c_long(int(number)), -1, 0, 0, 0, 0, 0), ctypes.get_errno())
"""
#: Makes a call as a 32-bit program does: `mov eax, 20; int 0x80; ret` asks for the number of the process.
INT80 = """
import ctypes, mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")
print("answered", ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))())
"""
SOCKETS = """
import socket
for name, make in (("socket", socket.socket), ("pair", socket.socketpair)):
    for family in range(1, 46):
        try:
            for each in [made] if isinstance(made := make(family, KIND), socket.socket) else made:
                each.close()
            error = 0
        except OSError as problem:
            error = problem.errno
        print(name, family, error)
"""


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    with folder() as root, sandboxed(root) as host:
        (host.around.cwd / "call.py").write_text(CALL)
        (host.around.cwd / "int80.py").write_text(INT80)
        for kind in ("STREAM", "DGRAM", "RAW", "SEQPACKET"):
            (host.around.cwd / f"{kind}.py").write_text(SOCKETS.replace("KIND", f"socket.SOCK_{kind}"))
        yield Inside(host)


def number_of(numbers: tuple[int, int | None]) -> int | None:
    return numbers[0] if IS_X86 else numbers[1]


@pytest.mark.parametrize("name", [*REFUSED, *MISSING])
def test_a_system_call_that_no_command_needs_is_refused(inside: Inside, name: str) -> None:
    number = number_of((REFUSED | MISSING)[name])
    if number is None:
        pytest.skip(f"there is no {name} on {platform.machine()}")
    wanted = errno.ENOSYS if name in MISSING else errno.EPERM
    assert inside.run(f"{sys.executable} call.py {number}") == (0, f"{number} -1 {wanted}\n")


def test_other_system_calls_work(inside: Inside) -> None:
    code, said = inside.run(f"{sys.executable} call.py {GETPID}")
    assert code == 0 and int(said.split()[1]) > 0


def test_a_key_of_the_session_is_not_read(inside: Inside) -> None:
    # The keyring of a session belongs to all its processes, and the sandbox is among them.
    add, serial = ctypes.CDLL(None, use_errno=True).syscall, number_of(REFUSED["add_key"])
    name = f"fairlead-test-{os.getpid()}".encode()
    key = add(ctypes.c_long(serial or 0), b"user", name, b"secret", 6, -3)
    search = f"{number_of(REFUSED['keyctl'])}"
    assert inside.run(f"{sys.executable} call.py {search} | cut -d' ' -f2-") == (0, f"-1 {errno.EPERM}\n")
    if key > 0:
        assert "secret" not in inside.run(f"keyctl print {key}; keyctl show; cat /proc/keys")[1]


def test_the_kernels_lists_of_keys_are_hidden(inside: Inside) -> None:
    assert inside.run("cat /proc/keys /proc/key-users 2>/dev/null")[1] == ""


@pytest.mark.parametrize("kind", ["STREAM", "DGRAM", "RAW", "SEQPACKET"])
def test_only_sockets_that_the_network_namespace_bounds_can_be_made(inside: Inside, kind: str) -> None:
    code, said = inside.run(f"{sys.executable} {kind}.py")
    found = {(name, int(family)): int(error) for name, family, error in map(str.split, said.splitlines())}
    assert code == 0 and len(found) == 90
    bounded = (1, 2, 10, 16)
    assert {error for (_, family), error in found.items() if family not in bounded} == {errno.EAFNOSUPPORT}
    assert all(error != errno.EAFNOSUPPORT for (_, family), error in found.items() if family in bounded)
    if kind in ("STREAM", "DGRAM"):
        assert not found["socket", 1] and not found["socket", 2] and not found["pair", 1]


def test_the_upper_half_of_an_argument_hides_no_family(inside: Inside) -> None:
    vsock = 40 | 1 << 32
    text = CALL.replace("-1, 0, 0", f"ctypes.c_long({vsock}), 1, 0")
    (inside.cwd / "wide.py").write_text(text)
    number = 41 if IS_X86 else 198
    assert inside.run(f"{sys.executable} wide.py {number}") == (0, f"{number} -1 {errno.EAFNOSUPPORT}\n")


@pytest.mark.skipif(not IS_X86, reason="x86_64 alone has these")
def test_calls_with_the_numbers_of_other_architectures_are_refused(inside: Inside) -> None:
    x32 = 0x4000_0000 + GETPID
    assert inside.run(f"{sys.executable} call.py {x32}") == (0, f"{x32} -1 {errno.ENOSYS}\n")
    code, said = inside.run(f"{sys.executable} int80.py")
    assert code != 0 and "answered" not in said


def test_system_calls_of_child_processes_are_filtered_too(inside: Inside) -> None:
    assert inside.run("grep -c '^Seccomp:.*2' /proc/1/status /proc/self/status") == (
        0,
        "/proc/1/status:1\n/proc/self/status:1\n",
    )
    assert "Seccomp:\t2" in inside.run("setsid sh -c '(cat /proc/self/status)'")[1]


def test_the_models_commands_are_filtered() -> None:
    with folder() as root, sandboxed(root, calls(bash("grep ^Seccomp: /proc/self/status"))) as host:
        host.prompt("go")
        assert ends(host) == [("Seccomp:\t2\n", False)]


def test_searches_are_filtered() -> None:
    with folder() as root:
        program = root / "bin" / "rg"
        program.parent.mkdir()
        # A search program that reports how it was confined, in place of a match.
        program.write_text("#!/bin/sh\ngrep ^Seccomp: /proc/self/status >&2; exit 2\n")
        program.chmod(0o755)
        turn = calls(("grep", {"pattern": "x"}))
        env = {"HOME": str(root), "PATH": f"{program.parent}:{os.environ['PATH']}"}
        flags = ["--sandbox", "workspace", "--tools", "grep"]
        with stage(root, "pi", [turn, says("ok")], flags=flags, files={"a": "x"}, env=env) as host:
            host.prompt("go")
            assert "Seccomp:\t2" in ends(host)[0][0]


def test_ordinary_programs_work_in_the_sandbox(inside: Inside) -> None:
    program = """
import multiprocessing, socket, subprocess, tempfile, threading
def square(number): return number * number
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool: assert pool.map(square, [1, 2]) == [1, 4]
    with multiprocessing.get_context("spawn").Pool(1) as pool: assert pool.map(square, [3]) == [9]
    with multiprocessing.Manager() as manager: assert manager.dict(a=1)["a"] == 1
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    print("done")
"""
    (inside.cwd / "work.py").write_text(program)
    assert inside.run(f"{sys.executable} work.py") == (0, "done\n")
    for name, command in {
        "git": "git --version",
        "node": 'node -e \'new Worker("1", {eval: true}).on("exit", () => console.log(1))\''.replace(
            "new Worker", 'new (require("worker_threads").Worker)'
        ),
        "gcc": "echo 'int main(void){return 0;}' > t.c && gcc t.c -o t && ./t",
        "strace": "strace -o trace true && test -s trace",
    }.items():
        if shutil.which(name) is not None:
            code, said = inside.run(command)
            assert code == 0, said


# Where there is no filter


def test_a_machine_whose_system_calls_are_not_known_has_no_sandbox() -> None:
    with pytest.raises(ConfigError, match=r"only on x86_64 and aarch64, not on sparc64\."):
        filter_program("sparc64")
    assert filter_program("arm64") == filter_program("aarch64") != filter_program("x86_64")


@pytest.mark.parametrize("how", ["ignored", "unknown"])
def test_a_bubblewrap_that_does_not_filter_is_refused(how: str) -> None:
    with folder() as root:
        real = shutil.which("bwrap")
        program = root / "bin" / "bwrap"
        program.parent.mkdir()
        drop = """#!/usr/bin/env python3
import os, sys
words = sys.argv[1:]
at = words.index("--seccomp")
if "HOW" == "unknown":
    sys.exit("bwrap: prctl(PR_SET_SECCOMP): Invalid argument")
del words[at : at + 2]
os.execv("REAL", ["bwrap", *words])
"""
        program.write_text(drop.replace("HOW", how).replace("REAL", str(real)))
        program.chmod(0o755)
        done = start(root, PATH=f"{program.parent}:{os.environ['PATH']}")
        assert (done.returncode, done.stdout) == (1, "")
        expected = "its filter of system calls has no effect" if how == "ignored" else "PR_SET_SECCOMP"
        assert expected in done.stderr and "seccomp" in done.stderr.lower()


def test_the_filter_is_a_program_that_the_kernel_accepts() -> None:
    load = (
        "import ctypes, sys; program = sys.stdin.buffer.read(); buffer = ctypes.create_string_buffer(program)\n"
        "class Filter(ctypes.Structure): _fields_ = [('count', ctypes.c_ushort), ('program', ctypes.c_void_p)]\n"
        "prctl = ctypes.CDLL(None, use_errno=True).prctl\n"
        "given = Filter(len(program) // 8, ctypes.addressof(buffer))\n"
        "print(prctl(38, 1, 0, 0, 0), prctl(22, 2, ctypes.byref(given)))\n"
    )
    done = subprocess.run([sys.executable, "-c", load], input=filter_program(), capture_output=True, check=True)
    assert done.stdout == b"0 0\n"
