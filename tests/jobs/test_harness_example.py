"""The example harness runs instances like those of SWE-bench from a file to a score."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.fleet import MODEL, Fleet, fleet_in, git, make_repository

HARNESS = Path(__file__).parents[2] / "examples" / "benchmark_harness.py"
FIXES = {"add": "sed -i 's/a - b/a + b/' calc.py", "greet": "echo 'nothing useful' > notes.txt"}


def turn(body: Any) -> dict[str, Any]:
    """Fix what the issue names, if the model knows how."""
    if any(block["type"] == "tool_result" for block in body["messages"][-1]["content"]):
        return {"text": "Fixed."}
    text = json.dumps(body["messages"][-1])
    command = next(fix for name, fix in FIXES.items() if f"{name} is wrong" in text)
    return {"toolCalls": [{"name": "bash", "arguments": {"command": command}}]}


def instance(fleet: Fleet, name: str, source: str, test: str) -> dict[str, Any]:
    """Make a repository with a bug, and the instance that describes it."""
    folder = fleet.root / "repos" / f"made__{name}"
    commit = make_repository(folder, {"calc.py": source})
    (folder / "test_calc.py").write_text(test)
    git(folder, "add", ".")
    patch = git(folder, "diff", "--cached") + "\n"
    git(folder, "reset", "--quiet", "--hard")
    return {
        "instance_id": f"made__{name}-1",
        "repo": f"made/{name}",
        "base_commit": commit,
        "problem_statement": f"{name} is wrong",
        "test_patch": patch,
        "FAIL_TO_PASS": json.dumps(["test_calc.py"]),
        "PASS_TO_PASS": "[]",
    }


def test_the_harness_runs_instances_end_to_end(tmp_path: Path) -> None:
    with fleet_in(tmp_path, turns=turn) as fleet:
        instances = [
            instance(fleet, "add", "def add(a, b):\n    return a - b\n", "from calc import add\nassert add(1, 2) == 3\n"),
            instance(fleet, "greet", "def greet():\n    return 'hi'\n", "from calc import greet\nassert greet() == 'hello'\n"),
        ]
        (fleet.root / "instances.jsonl").write_text("".join(json.dumps(each) + "\n" for each in instances))
        fleet.start_worker()
        command = [
            *(sys.executable, str(HARNESS), "instances.jsonl", "--db", fleet.url, "--repos", "repos", "--model", MODEL),
            *("--tests", sys.executable),
        ]
        for _ in range(2):  # the second time, all jobs are done
            done = subprocess.run(command, cwd=fleet.root, env=fleet.env, capture_output=True, text=True, timeout=90)
            assert done.returncode == 0, done.stderr
            assert "made__add-1: resolved" in done.stdout and "made__greet-1: unresolved" in done.stdout
            assert "1 of 2 resolved" in done.stdout
        predictions = [json.loads(line) for line in (fleet.root / "results/predictions.jsonl").read_text().splitlines()]
        patches = {each["instance_id"]: each["model_patch"] for each in predictions}
        assert "+    return a + b" in patches["made__add-1"]
        assert json.loads((fleet.root / "results/report.json").read_text())["resolved"] == ["made__add-1"]
