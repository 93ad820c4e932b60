"""Makes the filter of system calls for commands in the sandbox: what namespaces do not bound, and what commands never need.

The filter is a program for seccomp in the kernel's classic BPF, which bubblewrap installs (`--seccomp`). It refuses the kernel's
keyrings, which no namespace separates, sockets that reach beyond the network namespace (AF_VSOCK leads to the host of a virtual
machine), and interfaces through which kernels are attacked. Calls of another architecture, such as 32-bit calls, have other
numbers: a program that makes one is killed.
"""

from __future__ import annotations

import errno
import platform
import socket
import struct
import sys

from msgspec import Struct

from fairlead.errors import ConfigError


class _Architecture(Struct, frozen=True):
    """The numbers of a processor architecture."""

    #: Its number in linux/audit.h.
    audit: int
    #: Each system call with its number; `_NUMBERS` has those that are the same everywhere.
    calls: dict[str, int]


#: Calls that got their numbers after all architectures had agreed on one list.
_NUMBERS = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "mount_setattr": 442,
    "open_tree_attr": 467,
}
_ARCHITECTURES = {
    "x86_64": _Architecture(
        0xC000003E,
        {
            "socket": 41,
            "socketpair": 53,
            "pivot_root": 155,
            "mount": 165,
            "umount2": 166,
            "create_module": 174,
            "init_module": 175,
            "delete_module": 176,
            "kexec_load": 246,
            "add_key": 248,
            "request_key": 249,
            "keyctl": 250,
            "perf_event_open": 298,
            "open_by_handle_at": 304,
            "setns": 308,
            "finit_module": 313,
            "kexec_file_load": 320,
            "bpf": 321,
            "userfaultfd": 323,
        },
    ),
    "aarch64": _Architecture(
        0xC00000B7,
        {
            "umount2": 39,
            "mount": 40,
            "pivot_root": 41,
            "kexec_load": 104,
            "init_module": 105,
            "delete_module": 106,
            "socket": 198,
            "socketpair": 199,
            "add_key": 217,
            "request_key": 218,
            "keyctl": 219,
            "perf_event_open": 241,
            "open_by_handle_at": 265,
            "setns": 268,
            "finit_module": 273,
            "bpf": 280,
            "userfaultfd": 282,
            "kexec_file_load": 294,
        },
    ),
}
#: Programs that find no io_uring do without. All other calls are refused like those of a user without privileges.
_MISSING = ("io_uring_setup", "io_uring_enter", "io_uring_register")
_SOCKETS = ("socket", "socketpair")
#: UNIX, INET, INET6 and NETLINK: the namespace of the network bounds these.
_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, 16)
#: On x86_64, numbers from here on are calls of x32. No kernel has others that high.
_X32 = 0x4000_0000

# Instructions, results and offsets from linux/filter.h and linux/seccomp.h.
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERROR, _KILL = 0x7FFF_0000, 0x0005_0000, 0x8000_0000
_NUMBER, _AUDIT, _FIRST_ARGUMENT = 0, 4, 16


def filter_program(machine: str | None = None) -> bytes:
    """Return the filter for a type of machine, such as x86_64; None: this one.

    Raises ConfigError if the numbers of its system calls are not known.
    """
    machine = machine or platform.machine()
    architecture = _ARCHITECTURES.get({"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine))
    if architecture is None or sys.byteorder != "little":
        known = " and ".join(_ARCHITECTURES)
        raise ConfigError(
            f"The sandbox filters system calls, and can do that only on {known}, not on {machine}. Start without a sandbox."
        )
    calls = architecture.calls | _NUMBERS
    program = [(_LOAD, 0, 0, _AUDIT), (_EQUAL, 1, 0, architecture.audit), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER)]
    program += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _ERROR | errno.ENOSYS)]
    for name, number in calls.items():
        if name not in _SOCKETS:
            refusal = errno.ENOSYS if name in _MISSING else errno.EPERM
            program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERROR | refusal)]
    allow = (_RETURN, 0, 0, _ALLOW)
    program += [(_EQUAL, 2, 0, calls["socket"]), (_EQUAL, 1, 0, calls["socketpair"]), allow]
    program += [(_LOAD, 0, 0, _FIRST_ARGUMENT)]  # its lower half: the kernel takes an int
    for family in _FAMILIES:
        program += [(_EQUAL, 0, 1, family), allow]
    program += [(_RETURN, 0, 0, _ERROR | errno.EAFNOSUPPORT)]
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in program)
