"""The page of a front end: a session of a fleet that is handed back between prompts, in a real Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.export.browser import Browser
from tests.system.serve_page import ANSWERS, IDLE, SAID, served

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

#: Whether no server holds a session, as the list of sessions says.
FREE = "fetch('/v1/sessions').then(r => r.json()).then(page => page.sessions[0].status === 'saved')"


def test_a_session_of_a_fleet_is_used_in_the_page(tab: Browser, tmp_path: Path) -> None:
    with served(tab, tmp_path, [{"text": "One."}, {"text": "Two."}], "--db", f"sqlite:///{tmp_path / 'jobs.db'}") as page:
        page.begin()
        page.say("First?")
        page.until(f"({ANSWERS}).includes('One.') && {IDLE}")
        page.until(FREE)
        page.say("Second?")
        page.until(f"({ANSWERS}).includes('Two.') && {IDLE}")
        page.until(FREE)
        tab.run("location.reload()")
        page.until(f"document.readyState === 'complete' && ({ANSWERS}).length === 2")
        assert tab.run(SAID) == ["First?", "Second?"] and tab.run(ANSWERS) == ["One.", "Two."]
        assert not page.complaints()
