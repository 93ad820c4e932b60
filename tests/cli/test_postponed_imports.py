"""Modules that the command loads when they are first used."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.cli.command import PATIENCE
from tests.support.surroundings import surroundings

from fairlead.cli.start import POSTPONED
from fairlead.testing import ProviderServer

PRELUDE = """
import sys
from types import ModuleType
from fairlead.cli.start import postpone_imports
postpone_imports()
"""


def run(program: str, said: str = "", env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    command = [sys.executable, "-c", PRELUDE + program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True, input=said, env=env, cwd=cwd)
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


def test_a_thread_waits_for_the_whole_module_that_another_thread_loads() -> None:
    program = """
import threading, pathlib, tempfile
from fairlead.cli import start
folder = pathlib.Path(tempfile.mkdtemp())
sys.path.insert(0, str(folder))
(folder / "textwrap.py").write_text("import sys\\nearly = 1\\nsys.begun.set()\\nsys.goes_on.wait()\\nlate = 2")
sys.begun, sys.goes_on = threading.Event(), threading.Event()
import textwrap
first = threading.Thread(target=lambda: textwrap.late)
first.start()
sys.begun.wait()
seen = []
second = threading.Thread(target=lambda: seen.append(textwrap.early))
second.start()
second.join(0.2)
print(seen)
sys.goes_on.set()
first.join(), second.join()
print(seen)
"""
    assert run(program).splitlines() == ["[]", "[1]"]


def test_vars_and_dir_load_a_postponed_module() -> None:
    assert run("import textwrap, shlex; print('dedent' in vars(textwrap), 'quote' in dir(shlex))") == "True True"


def test_an_empty_package_is_not_loaded_for_its_modules() -> None:
    program = """
from fairlead.cli.subcommands import login
from fairlead.cli import start
print(type(sys.modules["fairlead.cli.subcommands"]).__name__, type(login).__name__)
print(callable(login.logout), type(login).__name__, login.__file__.endswith("login.py"))
from fairlead.cli.subcommands import doctor
print(callable(doctor.check_machine), sys.modules["fairlead.cli"].subcommands.doctor is doctor)
"""
    assert run(program).splitlines() == ["_PostponedModule _PostponedModule", "True module True", "True True"]


def test_packages_that_wait_hold_only_a_docstring() -> None:
    """Their modules are used before they are loaded."""
    packages = [importlib.util.find_spec(name) for name in POSTPONED if any(other.startswith(f"{name}.") for other in POSTPONED)]
    files = [Path(spec.origin or "") for spec in packages if spec is not None]
    assert files and all(file.name == "__init__.py" for file in files)
    for file in files:
        assert [type(node) for node in ast.parse(file.read_text()).body if not isinstance(node, ast.Expr)] == [], file


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


def test_a_prompt_and_a_command_load_no_postponed_module_of_others(tmp_path: Path) -> None:
    program = """
from fairlead.cli import start
from fairlead.cli.main import main
loaded = open("loaded.txt", "w", buffering=1)
load = start._PostponingLoader.load
def noted(self, module):
    print(module.__name__, file=loaded)
    load(self, module)
start._PostponingLoader.load = noted
sys.argv = ["fairlead", "--mode", "rpc", "--on-eof", "finish"]
main()
"""
    turns = [{"toolCalls": [{"name": "bash", "arguments": {"command": "true"}}]}, {"text": "done"}]
    with ProviderServer(turns) as provider:
        around = surroundings(tmp_path, provider.url)
        frames = run(program, '{"type": "prompt", "message": "go"}\n', around.env, around.cwd)
    assert '"toolResult"' in frames and '"done"' in frames
    loaded = Path(around.cwd, "loaded.txt").read_text().split()
    # Known secrets are also looked for in base64. A call is read while it arrives, checked, and given a temporary folder.
    late = {"base64", "email.utils", "hashlib", "jiter", "random", "tempfile"}
    assert {name for name in loaded if not name.startswith("fairlead.")} <= late


def test_no_annotation_is_compiled_before_the_first_delta(tmp_path: Path) -> None:
    """The first call of `compile` in a process takes a millisecond. Structs whose types are texts make msgspec call it."""
    program = """
from fairlead.cli.main import main
compiled = open("compiled.txt", "w", buffering=1)
def hook(event, arguments):
    if event == "compile" and not arguments[0].startswith(b"lambda _cls"):  # a namedtuple evaluates that
        print(arguments[0], file=compiled)
sys.addaudithook(hook)
sys.argv = ["fairlead", "--mode", "rpc", "--dialect", "pi", "--on-eof", "finish"]
main()
"""
    with ProviderServer([{"text": "done"}]) as provider:
        around = surroundings(tmp_path, provider.url)
        frames = run(program, '{"type": "get_state"}\n{"type": "prompt", "message": "go"}\n', around.env, around.cwd)
    assert '"done"' in frames
    assert not Path(around.cwd, "compiled.txt").read_text()


def test_a_first_prompt_does_not_load_what_only_tools_and_other_sessions_need(tmp_path: Path) -> None:
    program = """
from fairlead.cli import main as command
from fairlead.wire.host_process import HostProcess
import os
HostProcess._warm_up_soon = lambda self: None
leave = os._exit
def noted(code):
    loaded = [name for name, module in sys.modules.items() if type(module).__name__ not in ("_PostponedModule", "_LoadingModule")]
    print(*loaded, file=open("modules.txt", "w"), flush=True)
    leave(code)
os._exit = noted
sys.argv = ["fairlead", "--mode", "rpc", "--dialect", "pi", "--on-eof", "finish"]
command.main()
"""
    late = {
        "binascii",
        "fairlead.core.calls.turn",
        "fairlead.core.images",
        "fairlead.session.context.overflow",
        "fairlead.session.history.reading",
        "fairlead.session.history.tree",
        "fairlead.session.todos.todos",
    }
    with ProviderServer([{"text": "done"}]) as provider:
        around = surroundings(tmp_path, provider.url)
        frames = run(program, '{"type": "prompt", "message": "go"}\n', around.env, around.cwd)
    loaded = set(Path(around.cwd, "modules.txt").read_text().split())
    assert '"done"' in frames and "fairlead.session.run.run" in loaded
    assert late & loaded == set()


def test_logging_formats_and_complains_with_patterns_that_were_postponed() -> None:
    program = """
import logging, string
print(logging.Formatter("{message:>6}", style="{").format(logging.makeLogRecord({"msg": "hi"})))
print(string.Template("$a and ${b}").substitute(a=1, b=2))
try:
    logging.Formatter("{message:no format}", style="{")
except ValueError as error:
    print(error)
"""
    assert run(program).splitlines() == ["hi", "1 and 2", "invalid format: bad specifier: 'no format'"]


def test_the_folder_of_the_command_is_not_searched_for_modules(tmp_path: Path) -> None:
    (tmp_path / "fairlead").write_text("from fairlead.cli.start import main; raise SystemExit(main())")
    (tmp_path / "logging.py").write_text("raise RuntimeError")
    (tmp_path / "link").symlink_to("fairlead")
    for name in ("fairlead", "link"):
        command = [sys.executable, str(tmp_path / name), "--version"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr


def test_garbage_is_collected_in_a_long_running_process(tmp_path: Path) -> None:
    program = """
import gc, os
from fairlead.cli import start
leave = os._exit
def noted(code):
    print(gc.isenabled(), gc.get_freeze_count() > 1000, file=open("garbage.txt", "w"), flush=True)
    leave(code)
os._exit = noted
sys.argv = ["fairlead", "--mode", "rpc", "--dialect", "pi", "--on-eof", "finish"]
start.main()
"""
    with ProviderServer([{"text": "done", "firstDelayMs": 400}]) as provider:
        around = surroundings(tmp_path, provider.url)
        run(program, '{"type": "prompt", "message": "go"}\n', around.env, around.cwd)
    assert Path(around.cwd, "garbage.txt").read_text().split() == ["True", "True"]
