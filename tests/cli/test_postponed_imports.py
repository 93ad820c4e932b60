"""Modules that the command loads when they are first used."""

from __future__ import annotations

import subprocess
import sys

from tests.cli.command import PATIENCE

PRELUDE = """
import sys
from types import ModuleType
from fairlead.cli.start import postpone_imports
postpone_imports()
"""


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", PRELUDE + program], capture_output=True, text=True, timeout=PATIENCE, check=True)
    return done.stdout.strip()


def test_a_postponed_module_is_loaded_by_its_first_attribute() -> None:
    program = """
import ssl
print("_ssl" in sys.modules, type(ssl) is ModuleType)
import ssl
print("_ssl" in sys.modules)
ssl.create_default_context()
print("_ssl" in sys.modules, type(ssl) is ModuleType)
"""
    assert run(program).split() == ["False", "False", "False", "True", "True"]


def test_names_can_be_taken_from_a_postponed_module_and_set_in_it() -> None:
    program = """
from inspect import signature
import textwrap
textwrap.dedent = "ours"
print(len(signature(lambda a, b: None).parameters), textwrap.dedent, textwrap.fill("a b", 1) == "a\\nb", len(dir(textwrap)) > 5)
"""
    assert run(program) == "2 ours True True"


def test_threads_that_use_a_postponed_module_at_the_same_moment_all_see_all_of_it() -> None:
    program = """
import threading
import inspect
ready, failed = threading.Barrier(16), []
def use():
    ready.wait()
    try:
        inspect.signature(use), inspect.currentframe, inspect.unwrap
    except Exception as error:
        failed.append(error)
threads = [threading.Thread(target=use) for _ in range(16)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(failed)
"""
    assert run(program) == "[]"


def test_a_module_that_cannot_be_loaded_fails_each_time_it_is_used() -> None:
    program = """
sys.modules["_ssl"] = None
import ssl
for _ in range(2):
    try:
        ssl.create_default_context
    except ImportError as error:
        print(type(error).__name__, end=" ")
"""
    assert run(program) == "ModuleNotFoundError ModuleNotFoundError"


def test_types_from_typing_extensions_still_work_in_msgspec() -> None:
    program = """
import msgspec, typing_extensions
class T(typing_extensions.TypedDict):
    a: int
    b: typing_extensions.NotRequired[str]
print(msgspec.json.decode(b'{"a": 1}', type=T))
"""
    assert run(program) == "{'a': 1}"


def test_asyncio_opens_a_plain_connection_without_loading_ssl() -> None:
    program = """
import asyncio, socket
async def connect():
    server = socket.create_server(("127.0.0.1", 0))
    sock = socket.create_connection(server.getsockname())
    sock.setblocking(False)
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=sock)
    transport.close()
    server.close()
asyncio.run(connect())
print("_ssl" in sys.modules)
from ssl import SSLSocket
print(SSLSocket.__module__, "_ssl" in sys.modules)
"""
    assert run(program).split() == ["False", "ssl", "True"]
