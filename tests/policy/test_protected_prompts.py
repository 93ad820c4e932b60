"""What reaches the model without a tool does not bring protected files along."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.support.stage import says, stage
from tests.support.surroundings import FAIRLEAD, surroundings

from fairlead.testing import ProviderServer

SECRET = "sk-this-is-secret"


@pytest.mark.parametrize("name", ["AGENTS.md", "CLAUDE.md", ".fairlead/SYSTEM.md", ".fairlead/APPEND_SYSTEM.md"])
def test_instructions_of_a_project_that_are_a_link_to_the_keys_are_left_out(tmp_path: Path, name: str) -> None:
    keys = tmp_path / "home" / "auth.json"
    with stage(tmp_path, "pi", [says("ok")]) as host:
        keys.write_text(json.dumps({"key": SECRET}))
        path = host.around.cwd / name
        path.parent.mkdir(exist_ok=True)
        path.symlink_to(keys)
        host.prompt("go")
        assert SECRET not in json.dumps(host.provider.requests[0].body)


def test_a_template_that_is_a_link_to_the_keys_is_left_out(tmp_path: Path) -> None:
    keys = tmp_path / "home" / "auth.json"
    with stage(tmp_path, "pi", [says("ok")]) as host:
        keys.write_text(json.dumps({"key": SECRET}))
        folder = host.around.cwd / ".fairlead" / "prompts"
        folder.mkdir(parents=True)
        (folder / "leak.md").symlink_to(keys)
        host.prompt("/leak")
        assert SECRET not in json.dumps(host.provider.requests[0].body)


def test_a_skill_that_becomes_a_link_to_the_keys_is_not_read_again(tmp_path: Path) -> None:
    skill = "---\nname: leak\ndescription: d\n---\nbody\n"
    with stage(tmp_path, "pi", [says("ok")], files={".agents/skills/leak/SKILL.md": skill}) as host:
        keys = host.around.home / "auth.json"
        keys.write_text(json.dumps({"key": SECRET}))
        host.prompt("/skill:leak")
        path = host.around.cwd / ".agents/skills/leak/SKILL.md"
        path.unlink()
        path.symlink_to(keys)
        refusal = host.request("prompt", message="/skill:leak")
        assert not refusal["success"] and "is a protected file" in refusal["error"]
        assert len(host.provider.requests) == 1


def test_a_protected_file_on_the_command_line_is_an_error(tmp_path: Path) -> None:
    with ProviderServer([{"text": "ok"}]) as provider:
        around = surroundings(tmp_path, provider.url)
        (around.home / "auth.json").write_text(json.dumps({"key": SECRET}))
        (around.cwd / "link").symlink_to(around.home / "auth.json")
        for name in (f"@{around.home / 'auth.json'}", "@link"):
            done = subprocess.run(
                [FAIRLEAD, "-p", "--model", "fake/fake-1", "read this", name],
                cwd=around.cwd,
                env=dict(around.env),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
            assert done.returncode == 1 and "is a protected file" in done.stderr and SECRET not in done.stdout
        assert provider.requests == []
