"""Start the chat on the best available model, and install only what that needs.

    run.py [ARGUMENTS OF FAIRLEAD]

The model is that of a provider whose key is set, else that of a model server that runs on this machine. If there is neither, a
script plays the model in the chat, and a small model can be downloaded afterwards. Without a terminal the demonstration is text,
and the command ends. It needs only a Python and the standard library.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from setup import ROOT, prepare, require_python

#: The environment of the developers has everything. Others get one that holds the chat alone.
DEVELOPERS = ROOT / ".venv"
OWN = ROOT / ".venv-run"

#: Flags that name a model: then it does not matter which one would be chosen.
MODEL_FLAGS = ("--model", "--provider", "--base-url", "--model-file")

CHOOSE = """
import asyncio, json
from fairlead import Agent

async def choose():
    async with Agent() as agent:
        return await agent.choose_model()

choice = asyncio.run(choose())
print(json.dumps({"found": choice.model is not None, "why": choice.why}))
"""

OFFER = """
A small model can run on this machine. It makes small edits and answers short questions; expect it to fail often.
That downloads about 1.2 GB: Qwen2.5-Coder 1.5B (1.1 GB, checked) and llama.cpp (37 MB).
"""


def main() -> int:
    require_python()
    python = environment("chat")
    asked = subprocess.run([str(python), "-c", CHOOSE], stdout=subprocess.PIPE, text=True, check=False)
    if asked.returncode:
        return asked.returncode
    choice = json.loads(asked.stdout)
    arguments = sys.argv[1:]
    if not any(argument.partition("=")[0] in MODEL_FLAGS for argument in arguments):
        print(choice["why"], flush=True)
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if arguments or (choice["found"] and is_terminal):
        return start(python, arguments)
    if not is_terminal:
        return subprocess.run([str(python), str(ROOT / "examples" / "demo.py")], check=False).returncode
    code = subprocess.run([str(python), "-m", "fairlead", "demo"], check=False).returncode
    if code or not ask_to_install():
        return code
    return start(environment("chat,local"), ["local", "--download"])


def environment(extras: str) -> Path:
    """Return the Python of an environment with these extras. Creates it if there is none."""
    if (DEVELOPERS / ".ready").exists():
        return prepare(DEVELOPERS, "dev,rg")
    return prepare(OWN, extras)


def ask_to_install() -> bool:
    print(OFFER)
    try:
        return input("Download it? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def start(python: Path, arguments: list[str]) -> int:
    """Start fairlead, in place of this process where the system can do that: then signals and the terminal are its own."""
    command = [str(python), "-m", "fairlead", *arguments]
    if os.name == "posix":
        os.execv(command[0], command)
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
