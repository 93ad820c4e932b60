from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """That of a user with a key, an empty home, and a provider that always says hello."""
    command = [sys.executable, "-m", "fairlead.testing.provider", "--script", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as provider:
        assert provider.stdin and provider.stdout
        try:
            provider.stdin.write(json.dumps({"turns": [{"text": "Hello!"}]}).encode())
            provider.stdin.close()
            port = int(provider.stdout.readline().split()[1])
            yield {
                "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
                "HOME": str(tmp_path),
                "LANG": "C.UTF-8",
                "ANTHROPIC_API_KEY": "no-secret",
                "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
            }
        finally:
            provider.kill()
