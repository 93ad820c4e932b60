"""The page of `fairlead serve` in a tab of a real Chromium, with a real server and a scripted model."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.export.browser import Browser

from fairlead.testing import ProviderServer
from fairlead.testing.agents import TEST_MODEL, agent_command

PATIENCE = 30
TEXT = "document.getElementById('transcript').textContent"
ANSWERS = "[...document.querySelectorAll('article.assistant .markdown')].map(e => e.textContent.trim())"
SAID = "[...document.querySelectorAll('article.user .text')].map(e => e.textContent)"
IDLE = "document.getElementById('working').hidden"


class Page:
    """The page in a tab, logged in."""

    def __init__(self, tab: Browser, url: str, provider: ProviderServer, project: Path) -> None:
        self.tab = tab
        self.url = url
        self.provider = provider
        self.project = project

    def go(self, path: str) -> None:
        self.tab.events.clear()
        self.tab.send("Page.navigate", url=self.url + path)
        self.tab.wait_for("Page.loadEventFired")

    def reload(self) -> None:
        """Load the page again, and wait until the old document is gone."""
        self.tab.run("window.isOld = true")
        self.tab.send("Page.reload")
        self.until("!window.isOld && document.readyState === 'complete'")

    def until(self, condition: str) -> Any:
        """Wait until an expression is true, and return its value."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                value = self.tab.run(condition)
            except AssertionError as error:
                if "navigated" not in str(error):
                    raise
                value = None
            if value:
                return value
            time.sleep(0.03)
        pytest.fail(f"{condition} did not become true. The page shows: {self.tab.run('document.body.innerText')}")

    def begin(self) -> None:
        """Begin a session without a message, as another client would, and open it."""
        self.until("document.readyState === 'complete' && document.body.dataset.view === 'start'")
        request = "{method: 'POST', headers: {'content-type': 'application/json'}, body: '{}'}"
        self.tab.run(f"fetch('/v1/sessions', {request}).then(r => r.json()).then(s => {{ location.hash = s.id }})")
        self.until("document.getElementById('connection').dataset.state === 'live'")

    def write(self, words: str) -> None:
        self.tab.run("document.getElementById('message').focus()")
        self.tab.type(words)

    def say(self, words: str) -> None:
        self.write(words)
        self.tab.press("Enter")
        self.until("document.getElementById('message').value === ''")

    def complaints(self) -> list[Any]:
        """What the browser reports, without its advice about forms, the history and speed."""
        advice = ("GenericIssue", "PerformanceIssue")
        return [each for each in self.tab.complaints() if each.get("issue", {}).get("code") not in advice]

    def click(self, selector: str) -> None:
        self.until(f"document.querySelector({json.dumps(selector)})?.checkVisibility() === true")
        self.tab.click(selector)


@contextmanager
def served(
    tab: Browser, root: Path, turns: Sequence[Any], *flags: str, prepare: Callable[[Path], None] = lambda home: None
) -> Generator[Page]:
    """Run a server, and log the browser in with its link. `prepare` is called with the home before that."""
    with ProviderServer(list(turns)) as provider:
        command = agent_command(root, provider.url)
        prepare(Path(command.env["FAIRLEAD_HOME"]))
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "fairlead", "serve", "--port", "0", "--model", TEST_MODEL, *flags],
            cwd=command.cwd,
            env=command.env,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            printed = ""
            while "Ctrl-C" not in printed:
                line = process.stdout.readline()
                assert line, printed
                printed += line
            found = re.search(r"(http://\S+?)(/login#\S+)", printed)
            assert found is not None, printed
            page = Page(tab, found[1], provider, command.cwd)
            page.go(found[2])
            page.until("location.pathname === '/' && document.readyState === 'complete'")
            yield page
            tab.send("Page.navigate", url="about:blank")
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE)


def markdown(size: int) -> str:
    """Return an answer of about this many characters with all kinds of blocks."""
    part = (
        "## Part {0}\n\nSome *words* with `code`, **weight** and [a link](https://example.org/{0}).\n\n"
        "- one\n- two\n  - nested\n\n1. first\n2. second\n\n| a | b |\n|---|---|\n| {0} | `x` |\n\n"
        '```python\ndef number_{0}(x: int) -> str:\n    return "{0}"  # a comment\n```\n\n> quoted {0}\n\n'
    )
    parts: list[str] = []
    while sum(map(len, parts)) < size:
        parts.append(part.format(len(parts)))
    return "".join(parts) + "The end."


def axe(tab: Browser, script: str) -> list[Any]:
    """Return the serious findings of axe. The script comes through the debugger, which the policy of the page does not bind."""
    if not tab.run("'axe' in window"):
        tab.run(Path(script).read_text())
    tab.settle()
    results = tab.run("axe.run(document, {resultTypes: ['violations']}).then(r => r.violations)")
    return [
        (each["id"], each["impact"], [node["html"][:200] for node in each["nodes"]])
        for each in results
        if each["impact"] in ("serious", "critical")
    ]
