"""The page of `fairlead serve` in a real Chromium, with a real server and a scripted model."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.export.browser import Browser, browser

from fairlead.testing import ProviderServer
from fairlead.testing.agents import TEST_MODEL, agent_command

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

PATIENCE = 30
TEXT = "document.getElementById('transcript').textContent"
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

    def until(self, condition: str) -> Any:
        """Wait until an expression is true, and return its value."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            value = self.tab.run(condition)
            if value:
                return value
            time.sleep(0.03)
        pytest.fail(f"{condition} did not become true. The page shows: {self.tab.run('document.body.innerText')}")

    def begin(self) -> None:
        """Begin a session."""
        self.until("document.readyState === 'complete' && !!document.getElementById('begin')")
        self.tab.run("document.getElementById('begin').click()")
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


@pytest.fixture(scope="module")
def chromium() -> Generator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture
def tab(chromium: Browser) -> Browser:
    chromium.size(1280, 900)
    chromium.media()
    return chromium


@contextmanager
def served(tab: Browser, root: Path, turns: Sequence[Any], *flags: str) -> Generator[Page]:
    """Run a server, and log the browser in with its link."""
    with ProviderServer(list(turns)) as provider:
        command = agent_command(root, provider.url)
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


def test_the_link_logs_in_and_leaves_no_secret_behind(tab: Browser, tmp_path: Path) -> None:
    with served(tab, tmp_path, [{"text": "Hello **you**"}]) as page:
        page.begin()
        page.say("hi")
        page.until(f"{TEXT}.includes('Hello you') && {IDLE}")
        assert page.tab.run("document.querySelector('#transcript strong').textContent") == "you"
        token = next(tmp_path.rglob("serve.token")).read_text().strip()
        kept = page.tab.run(
            "document.documentElement.outerHTML + location.href + document.cookie + JSON.stringify({...localStorage})"
            " + JSON.stringify({...sessionStorage})"
        )
        assert token not in kept and "login#" not in kept
        assert all(token not in url for url in page.tab.requests())
        assert page.tab.run("history.length") < 10
        assert page.complaints() == []
