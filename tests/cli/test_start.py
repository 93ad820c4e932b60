"""How it is started: dialects, launchers, RPC mode's own rules, and what is imported."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest
from tests.cli.command import PATIENCE, Command
from tests.support.json_values import is_array
from tests.support.loaded import LOADED

from fairlead import __version__

GET_STATE = '{"id":1,"type":"get_state"}\n'
READY = {
    "omp": [
        {
            "type": "ready",
            "protocolVersion": 1,
            "supportedProtocolVersions": [1, 2],
            "maxFrameBytes": 1 << 20,
            "maxReassembledFrameBytes": 1 << 26,
        }
    ],
    "xcsh": [{"type": "ready", "version": __version__}],
    "pi": [],
}


def greeting(done: subprocess.CompletedProcess[str]) -> list[object]:
    """What came before the answer to the first command."""
    assert done.returncode == 0, done.stderr
    *before, answer = map(json.loads, done.stdout.splitlines())
    assert answer["command"] == "get_state"
    return [frame for frame in before if frame["type"] != "available_commands_update"]


@pytest.mark.parametrize("dialect", READY)
def test_the_flag_chooses_the_dialect_over_the_environment(fairlead: Command, dialect: str) -> None:
    done = fairlead("--mode", "rpc", "--dialect", dialect, input=GET_STATE, env={"FAIRLEAD_DIALECT": "nonsense"})
    assert greeting(done) == READY[dialect]


def test_the_environment_chooses_the_dialect_over_the_name(fairlead: Command, tmp_path: Path) -> None:
    link = tmp_path / "pi"
    link.symlink_to(Path(sys.executable).with_name("fairlead"))
    chosen = fairlead("--mode", "rpc", argv=[str(link)], input=GET_STATE, env={"FAIRLEAD_DIALECT": "xcsh"})
    assert greeting(chosen) == READY["xcsh"]


@pytest.mark.parametrize("name", [*READY, "fairlead-2"])
def test_the_name_it_was_started_by_chooses_the_dialect_and_omp_is_the_default(
    fairlead: Command, tmp_path: Path, name: str
) -> None:
    link = tmp_path / name
    link.symlink_to(Path(sys.executable).with_name("fairlead"))
    assert greeting(fairlead("--mode", "rpc", argv=[str(link)], input=GET_STATE)) == READY.get(name, READY["omp"])


def test_an_unknown_dialect_is_an_error_that_lists_them(fairlead: Command) -> None:
    done = fairlead("--mode", "rpc", "--dialect", "klingon", input=GET_STATE)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: Unknown dialect 'klingon'. The dialects are: pi, pi-2025, omp, xcsh, opal, acp, claude\n"


def test_files_are_refused_in_rpc_mode(fairlead: Command) -> None:
    done = fairlead("--mode", "rpc", "@notes.txt", input=GET_STATE)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: @file arguments are not supported in RPC mode\n"


def test_words_are_ignored_in_rpc_mode_with_a_line_in_the_log(fairlead: Command) -> None:
    done = fairlead("--mode", "rpc", "some", "words", input=GET_STATE)
    assert greeting(done) == READY["omp"] and done.stderr == ""
    done = fairlead("--mode", "rpc", "some", "words", "--verbose", input=GET_STATE)
    assert "fairlead: arguments that are not flags are ignored in RPC mode\n" in done.stderr


def test_rpc_mode_starts_without_a_model(fairlead: Command) -> None:
    done = fairlead("--mode", "rpc", "--dialect", "pi", "--isolated", input=GET_STATE)
    assert json.loads(done.stdout)["data"]["model"] is None


# Launchers


def test_a_launcher_starts_this_program_in_its_dialect(fairlead: Command, tmp_path: Path) -> None:
    made = fairlead("shim", "pi", str(tmp_path / "bin"))
    assert made.stdout.splitlines() == [str(tmp_path / "bin" / "pi"), str(tmp_path / "bin" / "cli.js")]
    done = fairlead("--mode", "rpc", argv=["pi"], input=GET_STATE, env={"PATH": f"{tmp_path / 'bin'}:/bin:/usr/bin"})
    assert greeting(done) == READY["pi"]


def test_a_launcher_takes_no_modules_from_the_folder_it_is_started_in(fairlead: Command, tmp_path: Path) -> None:
    fairlead("shim", "xcsh", str(tmp_path / "bin"))
    (fairlead.around.cwd / "msgspec.py").write_text("raise SystemExit('taken from the project')")
    done = fairlead("--mode", "rpc", argv=[str(tmp_path / "bin" / "xcsh")], input=GET_STATE)
    assert greeting(done) == READY["xcsh"]


def test_the_environment_chooses_the_dialect_over_a_launcher(fairlead: Command, tmp_path: Path) -> None:
    fairlead("shim", "pi", str(tmp_path / "bin"))
    done = fairlead("--mode", "rpc", argv=[str(tmp_path / "bin" / "pi")], input=GET_STATE, env={"FAIRLEAD_DIALECT": "xcsh"})
    assert greeting(done) == READY["xcsh"]


def test_the_launcher_of_pi_2025_is_called_pi(fairlead: Command, tmp_path: Path) -> None:
    made = fairlead("shim", "pi-2025", str(tmp_path / "bin"))
    assert made.stdout.splitlines() == [str(tmp_path / "bin" / "pi"), str(tmp_path / "bin" / "cli.js")]
    done = fairlead("--mode", "rpc", argv=[str(tmp_path / "bin" / "pi")], input='{"type":"get_state"}\n')
    assert json.loads(done.stdout)["type"] == "error"


@pytest.mark.parametrize(
    ("name", "program", "version"),
    [
        ("pi", "pi", "1.5.0"),
        ("pi@0.87", "pi", "0.87.1"),
        ("pi@0.73.1", "pi", "0.73.1"),
        ("pi-2025", "pi", "0.15.0"),
        ("omp", "omp", "omp/18.3.4"),
        ("xcsh", "xcsh", "xcsh/19.54.0"),
        ("opal", "opal-server", __version__),
    ],
)
def test_a_launcher_has_the_version_of_the_program(
    fairlead: Command, tmp_path: Path, name: str, program: str, version: str
) -> None:
    fairlead("shim", name, str(tmp_path))
    for flag in ("--version", "-v"):
        done = fairlead(flag, argv=[str(tmp_path / program)])
        # pi 0.73 answered on stderr.
        assert (done.returncode, done.stderr if version == "0.73.1" else done.stdout) == (0, f"{version}\n")
    shown = subprocess.run([tmp_path / program, "--help"], capture_output=True, encoding="utf-8", timeout=PATIENCE, check=True)
    assert "--mode MODE" in (shown.stderr if version == "0.73.1" else shown.stdout)


def test_a_link_with_the_name_of_a_program_has_its_version(fairlead: Command, tmp_path: Path) -> None:
    link = tmp_path / "omp"
    link.symlink_to(Path(sys.executable).with_name("fairlead"))
    assert fairlead("--version", argv=[str(link)]).stdout == "omp/18.3.4\n"


def test_a_launcher_keeps_the_subcommands(fairlead: Command, tmp_path: Path) -> None:
    fairlead("shim", "pi", str(tmp_path))
    done = fairlead("schema", argv=[str(tmp_path / "pi")])
    assert json.loads(done.stdout)["title"].startswith("The protocol of pi,")


@pytest.mark.parametrize(
    ("name", "package", "version"),
    [
        ("pi", "@earendil-works/pi-coding-agent", "1.5.0"),
        ("pi@0.73", "@mariozechner/pi-coding-agent", "0.73.1"),
        ("omp", "@oh-my-pi/pi-coding-agent", "18.3.4"),
    ],
)
def test_a_package_looks_like_the_one_on_npm(fairlead: Command, tmp_path: Path, name: str, package: str, version: str) -> None:
    made = fairlead("shim", name, "--package", str(tmp_path))
    folder = tmp_path / "node_modules" / package
    assert {str(folder / "package.json"), str(folder / "dist" / "cli.js")} <= set(made.stdout.splitlines())
    manifest = json.loads((folder / "package.json").read_text())
    assert (manifest["name"], manifest["version"]) == (package, version)
    [(program, start)] = manifest["bin"].items()
    assert os.access(folder / start, os.X_OK)
    done = fairlead("--version", argv=[str(tmp_path / "node_modules" / ".bin" / program)])
    assert (done.stdout + done.stderr).strip().endswith(version)


@pytest.mark.system
def test_node_finds_the_package_and_starts_it(fairlead: Command, tmp_path: Path) -> None:
    node = which("node")
    assert node is not None, "this test needs node"
    fairlead("shim", "pi", "--package", str(tmp_path))
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "host.mjs").write_text(
        """
        import { createRequire } from "node:module";
        import { spawnSync } from "node:child_process";
        import { dirname, join } from "node:path";
        import { VERSION } from "@earendil-works/pi-coding-agent";
        const require = createRequire(import.meta.url);
        const manifest = require.resolve("@earendil-works/pi-coding-agent/package.json");
        const cli = join(dirname(manifest), require(manifest).bin.pi);
        const beside = join(dirname(require.resolve("@earendil-works/pi-coding-agent")), "cli.js");
        for (const file of [cli, beside]) process.stdout.write(spawnSync(process.execPath, [file, "--version"]).stdout);
        console.log(VERSION);
        """
    )
    done = fairlead(argv=[node, str(tmp_path / "host.mjs")])
    assert (done.stdout, done.stderr) == ("1.5.0\n1.5.0\n1.5.0\n", "")


@pytest.mark.system
def test_a_launcher_for_node_passes_on_everything(fairlead: Command, tmp_path: Path) -> None:
    node = which("node")
    assert node is not None, "this test needs node"
    fairlead("shim", "pi", str(tmp_path))
    done = fairlead("--mode", "rpc", argv=[node, str(tmp_path / "cli.js")], input=GET_STATE)
    assert greeting(done) == READY["pi"]
    failed = fairlead("--thinkng", argv=[node, str(tmp_path / "cli.js")])
    assert (failed.returncode, failed.stdout) == (2, "")
    assert "Did you mean --thinking?" in failed.stderr


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        ([], 2, "usage: fairlead shim"),
        (["klingon", "bin"], 2, "Unknown dialect 'klingon'"),
        (["pi@0.1", "bin"], 2, "cannot stand in for pi 0.1. The versions are: 1.5.0, 0.87.1, 0.73.1"),
        (["xcsh", "--package", "bin"], 2, "xcsh has no npm package"),
        (["pi", "--package"], 2, "usage: fairlead shim"),
        (["pi", "--packages", "bin"], 2, "usage: fairlead shim"),
        (["pi", "/dev/null/bin"], 1, "Cannot write launchers to /dev/null/bin: Not a directory"),
    ],
    ids=lambda value: " ".join(value) if is_array(value) else None,
)
def test_launchers_that_cannot_be_made(fairlead: Command, words: list[str], code: int, complaint: str) -> None:
    done = fairlead("shim", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert complaint in done.stderr
    assert not (fairlead.around.cwd / "bin").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["-p", "hi"],
        ["doctor", "--offline"],
        ["sessions"],
        ["usage"],
        ["export", "last"],
        ["trust"],
        ["mcp"],
        ["install", "npm:any"],
        ["serve"],
        ["serve", "--root", "x"],
        ["remove", "x"],
        ["--export", "x"],
    ],
    ids=" ".join,
)
def test_a_working_directory_that_is_gone_is_an_error(fairlead: Command, words: list[str]) -> None:
    gone = fairlead.around.root / "gone"
    gone.mkdir()
    started = subprocess.list2cmdline([sys.executable, "-P", "-m", "fairlead", *words])
    done = fairlead(argv=["sh", "-c", f"cd {gone} && rmdir {gone} && exec {started}"])
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert done.stderr == "Error: The working directory cannot be used: No such file or directory. Change to another one.\n"


# Imports


def list_imports(*arguments: str) -> set[str]:
    """The modules that a Python process with these arguments loads."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    return set(re.findall(r"^import time:.*\| +(\S+)$", done.stderr, re.MULTILINE))


def test_importing_the_package_loads_next_to_nothing() -> None:
    loaded = list_imports("-c", "import fairlead")
    assert "fairlead" in loaded
    assert not loaded & {"asyncio", "msgspec", "fairlead.agent", "fairlead.errors"}


@pytest.mark.parametrize("name", ["-v", "--version"])
def test_the_version_needs_no_agent(fairlead: Command, name: str) -> None:
    loaded = set(fairlead("-c", LOADED, name, argv=[sys.executable]).stderr.split())
    assert "fairlead.cli.flags" in loaded
    assert not loaded & {"asyncio", "ssl", "socket", "subprocess", "h11", "json", "difflib", "fairlead.agent"}
    assert not {name for name in loaded if name.startswith("fairlead.wire.")} - {"fairlead.wire.dialects", "fairlead.wire.pi"}


def test_starting_rpc_mode_leaves_slow_modules_for_later(fairlead: Command) -> None:
    done = fairlead("-c", LOADED, "--mode", "rpc", "--dialect", "pi", argv=[sys.executable], input=GET_STATE)
    loaded = set(done.stderr.split())
    assert "fairlead.agent" in loaded and '"get_state"' in done.stdout
    assert not loaded & {"h11", "jiter", "jsonschema_rs", "yaml", "difflib", "tempfile", "fairlead.tools.shell.command_process"}
    assert not loaded & {"fairlead.policy.approvals", "fairlead.policy.patterns"}  # they compile many patterns
    assert not loaded & {"_ssl", "ast", "json", "sqlite3", "fairlead.session.subagents.subagents", "fairlead.models.local.llama"}


def test_answering_initialize_leaves_slow_modules_for_later(fairlead: Command) -> None:
    stream = ("--output-format", "stream-json", "--verbose", "--input-format", "stream-json", "--model", "claude-sonnet-4-5")
    said = '{"type":"control_request","request_id":"1","request":{"subtype":"initialize"}}\n'
    done = fairlead("-c", LOADED, "--dialect", "claude", *stream, argv=[sys.executable], input=said)
    loaded = set(done.stderr.split())
    assert "fairlead.wire.claude.claude_server" in loaded and '"success"' in done.stdout
    assert not loaded & {"h11", "jiter", "jsonschema_rs", "yaml", "difflib", "importlib.metadata"}
    assert not loaded & {"fairlead.extend.mcp.tools", "fairlead.models.local.llama"}


def test_the_version_is_printed(fairlead: Command) -> None:
    done = fairlead("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{__version__}\n", "")
