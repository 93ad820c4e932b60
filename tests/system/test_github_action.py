"""The GitHub action: its steps, run one after another as a runner would, in an empty environment."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.testing import ProviderServer

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
_EXPRESSION = re.compile(r"\$\{\{\s*([\w.-]+)\s*\}\}")


class Runner:
    """Runs the steps of a composite action, as far as this one uses them: shells, variables, inputs and outputs."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.action: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
        self.folder = folder
        for name in ("temp", "workspace", "home"):
            (folder / name).mkdir()
        kept = {name: value for name, value in os.environ.items() if name == "PATH" or name.startswith("PIP_")}
        self.env = {
            **kept,
            "HOME": str(folder / "home"),
            "RUNNER_TEMP": str(folder / "temp"),
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_STEP_SUMMARY": str(folder / "summary"),
            **env,
        }
        config = Path.home() / ".config" / "pip" / "pip.conf"
        if config.exists():
            self.env.setdefault("PIP_CONFIG_FILE", str(config))

    def run(self, inputs: dict[str, str], *, is_installed: bool = False) -> tuple[int, dict[str, str]]:
        """Run the steps, or only the last one. Returns its exit code, and the outputs of the action."""
        known: dict[str, Any] = self.action["inputs"]
        assert set(inputs) <= set(known) and all(name in inputs for name, each in known.items() if each.get("required"))
        values: dict[str, str] = {
            f"inputs.{name}": inputs.get(name) or str(each.get("default", "")) for name, each in known.items()
        }
        code = 0
        steps: list[dict[str, Any]] = self.action["runs"]["steps"]
        for step in steps[-1:] if is_installed else steps:
            if "uses" in step:
                assert re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"])
                continue
            output = self.folder / "output"
            output.write_text("")
            env = {name: self._filled(value, values) for name, value in step.get("env", {}).items()}
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", self._filled(step["run"], values)],
                cwd=self.folder / "workspace" / self._filled(step.get("working-directory", "."), values),
                env={**self.env, **env, "GITHUB_OUTPUT": str(output)},
                timeout=500,
                check=False,
            )
            values |= {f"steps.{step.get('id')}.outputs.{name}": value for name, value in _outputs(output.read_text()).items()}
            code = done.returncode
            if code:
                break
        return code, {name: self._filled(each["value"], values) for name, each in self.action["outputs"].items()}

    @staticmethod
    def _filled(text: str, values: dict[str, str]) -> str:
        return _EXPRESSION.sub(lambda match: values.get(match[1], ""), text)


def _outputs(text: str) -> dict[str, str]:
    return {match[1]: match[3] for match in re.finditer(r"^([\w-]+)<<(\w+)\n(.*?)\n\2$", text, re.MULTILINE | re.DOTALL)}


def test_the_action_installs_fairlead_runs_a_prompt_and_sets_its_outputs(tmp_path: Path) -> None:
    failure = {"error": {"type": "invalid_request_error"}, "status": 400}
    turns = [{"text": "Two lines\nof `answer` $(echo)."}, {"text": "No file."}, failure]
    with ProviderServer(turns) as server:
        runner = Runner(tmp_path, {"ANTHROPIC_API_KEY": "any", "ANTHROPIC_BASE_URL": server.url})
        (tmp_path / "workspace" / "sub").mkdir()
        prompt = 'Say "hi"; $(touch hacked) `touch hacked`'
        inputs = {
            "prompt": prompt,
            "model": "anthropic/claude-sonnet-4-5",
            "flags": "--tools read,ls",
            "working-directory": "sub",
        }
        code, outputs = runner.run(inputs)
        assert code == 0
        assert outputs["answer"] == "Two lines\nof `answer` $(echo)." and float(outputs["cost"]) > 0
        assert (tmp_path / "summary").read_text() == "Two lines\nof `answer` $(echo).\n"
        request = server.requests[-1].body
        assert prompt in json.dumps(request["messages"]).replace('\\"', '"')
        assert {tool["name"] for tool in request["tools"]} == {"read", "ls"}
        assert list((tmp_path / "workspace").rglob("hacked")) == []
        assert outputs["session-id"] in next((tmp_path / "home").rglob("*.jsonl")).name
        (tmp_path / "workspace" / "secret.txt").write_text("planted")
        assert runner.run({"prompt": "@secret.txt"}, is_installed=True)[0] == 0
        [message] = server.requests[-1].body["messages"]
        assert "@secret.txt" in json.dumps(message) and "planted" not in json.dumps(message), "a prompt attaches no file"
        assert runner.run({"prompt": "Again"}, is_installed=True)[0] == 1, "a run that fails makes the step fail"
