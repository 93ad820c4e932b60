"""The page of a front end: a session of a fleet that is handed back between prompts, in a real Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.export.browser import Browser
from tests.support.fleet import fleet_in, lines_of, wait_until
from tests.support.front_end import FrontEnd
from tests.system.serve_page import ANSWERS, IDLE, SAID, Page, served

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
        page.reload()
        page.until(f"({ANSWERS}).length === 2")
        assert tab.run(SAID) == ["First?", "Second?"] and tab.run(ANSWERS) == ["One.", "Two."]
        assert not page.complaints()


def test_the_run_of_a_server_that_was_killed_is_resumed_with_a_button(tab: Browser, tmp_path: Path) -> None:
    with fleet_in(tmp_path) as fleet, FrontEnd(fleet) as here, FrontEnd(fleet) as there:
        session = there.begin()
        held = "echo begun >> begun; while [ ! -e go ]; do sleep 0.05; done"
        there.prompt(session, held, "echo after >> out")
        wait_until(lambda: lines_of(fleet.workdir / "begun"))
        page = Page(tab, here.url, fleet.provider, fleet.workdir)
        page.go(f"/login#{here.call('POST', '/v1/login_codes')[1]['code']}")
        page.until("location.pathname === '/' && document.readyState === 'complete'")
        tab.run(f"location.hash = '#{session}'")
        page.until(f"document.documentElement.dataset.ready === '{session}' && !({IDLE})")
        assert not tab.run("document.getElementById('resume').checkVisibility()")
        there.kill()
        (fleet.workdir / "go").touch()
        page.click("#resume")
        page.until(f"({ANSWERS}).includes('done after 2 commands') && {IDLE}")
        assert len(tab.run(SAID)) == 1 and lines_of(fleet.workdir / "out") == ["after"]
        assert not tab.run("document.getElementById('resume').checkVisibility()")
        assert not page.complaints()
