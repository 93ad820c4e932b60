"""An extension that the command line or the user's settings name, and that cannot be loaded, ends the start."""

from __future__ import annotations

import json

import pytest
from tests.cli.command import Command

GET_STATE = '{"id":1,"type":"get_state"}\n'
MODES = [["--mode", "rpc", "--dialect", "pi"], ["--mode", "rpc", "--dialect", "omp"], ["-p", "hi"], ["--mode", "json", "hi"]]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("source", ["settings", "-e", "--hook"])
def test_it_ends_the_process_before_anything_is_answered(fairlead: Command, mode: list[str], source: str) -> None:
    gate = fairlead.around.cwd / "gate.ts"
    gate.write_text("export default function (pi) { throw new Error('no rules'); }")
    flags = [source, "gate.ts"]
    if source == "settings":
        (fairlead.around.home / "settings.json").write_text(json.dumps({"extensions": [str(gate)]}))
        flags = []
    done = fairlead(*mode, *flags, input=GET_STATE if "rpc" in mode else "")
    assert (done.returncode, done.stdout, fairlead.provider.requests) == (1, "", [])
    (line,) = done.stderr.splitlines()
    assert line.startswith(f'Error: Failed to load extension "{gate}": no rules')
    assert "--extension-errors continue" in line


def test_an_error_in_its_setup_is_one_line(fairlead: Command) -> None:
    (fairlead.around.cwd / "gate.py").write_text("def setup(fl):\n    raise ValueError('no rules')\n")
    done = fairlead("--mode", "rpc", "-e", "gate.py", input=GET_STATE)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert 'gate.py": no rules (' in line
    assert "Traceback" in fairlead("--mode", "rpc", "-e", "gate.py", "--verbose", input=GET_STATE).stderr


def test_the_user_can_continue_without_it(fairlead: Command) -> None:
    prompt = '{"id":1,"type":"prompt","message":"hi"}\n'
    flags = ["--mode", "rpc", "--dialect", "pi", "-e", "gate.ts", "--extension-errors", "continue", "--on-eof", "finish"]
    done = fairlead(*flags, input=prompt)
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    (error,) = [frame for frame in frames if frame["type"] == "extension_error"]
    assert error["extensionPath"].endswith("gate.ts") and frames[-1]["type"] == "agent_settled"


def test_extensions_that_pi_has_built_in_need_no_file(fairlead: Command) -> None:
    done = fairlead("--mode", "rpc", "--dialect", "pi", "-ne", "-e", "builtin:mcp", input=GET_STATE)
    assert (done.returncode, done.stderr) == (0, "") and json.loads(done.stdout)["success"]
