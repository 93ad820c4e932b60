"""The steps of the GitHub action in action.yml, with the standard library alone.

`action.py install` puts fairlead into a virtual environment of the runner. `action.py run` sends the prompt, shows the answer,
and sets the outputs of the step.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    environment = Path(os.environ["RUNNER_TEMP"]) / "fairlead"
    if sys.argv[1:] == ["install"]:
        return install(environment)
    if sys.argv[1:] == ["run"]:
        return run(environment / "bin" / "fairlead")
    print(__doc__, file=sys.stderr)
    return 2


def install(environment: Path) -> int:
    """Install fairlead at the pinned versions. Returns the exit code."""
    pins = {"PIP_CONSTRAINT": str(ROOT / "constraints.txt"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    created = subprocess.run([sys.executable, "-m", "venv", str(environment)], check=False)
    if created.returncode:
        return created.returncode
    command = [str(environment / "bin" / "pip"), "install", "--quiet", f"{ROOT}[rg]"]
    return subprocess.run(command, env={**os.environ, **pins}, check=False).returncode


def run(fairlead: Path) -> int:
    """Run the prompt. Returns the exit code of fairlead. Its remarks go to the log of the step.

    The prompt is standard input, where it is text alone: as an argument, `@name` would attach a file of the runner.
    """
    prompt, model = os.environ["FAIRLEAD_ACTION_PROMPT"], os.environ.get("FAIRLEAD_ACTION_MODEL")
    flags = shlex.split(os.environ.get("FAIRLEAD_ACTION_FLAGS", ""))
    chosen = ["--model", model] if model else []
    command = [str(fairlead), "-p", "--output-format", "json", *chosen, *flags]
    done = subprocess.run(command, input=os.fsencode(prompt), stdout=subprocess.PIPE, check=False)
    try:
        result: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        print(done.stdout.decode("utf-8", "replace"))
        return done.returncode or 1
    answer = str(result.get("text", ""))
    print(answer)
    set_output("answer", answer)
    set_output("cost", str(result.get("cost", 0)))
    set_output("session-id", str(result.get("sessionId", "")))
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(answer + "\n")
    return done.returncode


def set_output(name: str, value: str) -> None:
    """Set an output of the step. The mark that ends the value is random, so that no value can contain it."""
    mark = uuid.uuid4().hex
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as file:
        file.write(f"{name}<<{mark}\n{value}\n{mark}\n")


if __name__ == "__main__":
    sys.exit(main())
