"""The page of a front end: a session of a fleet that is handed back between prompts, in a real Chromium."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench import peers
from tests.export.browser import Browser
from tests.support.fleet import MODEL, fleet_in, lines_of, wait_until
from tests.support.front_end import FrontEnd
from tests.system.serve_page import ANSWERS, IDLE, SAID, Page, axe, served

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


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_jobs_are_listed_followed_cancelled_and_retried(tab: Browser, tmp_path: Path, width: int, scheme: str) -> None:
    (script,) = peers.AXE.command()
    parts = "['a', '.job-status'].map(part => row.querySelector(part).textContent).join(' ')"
    rows = f"[...document.querySelectorAll('#job-rows tr')].map(row => {parts})"
    events = "document.getElementById('job-events').innerText"
    held = "echo begun >> begun; while [ ! -e go ]; do sleep 0.05; done"
    tab.size(width, 844)
    tab.media(scheme=scheme)
    with fleet_in(tmp_path) as fleet, FrontEnd(fleet) as front:
        prompts = {"quick": ["echo hello"], "bad": ["fail"], "held": [held]}
        same = {"workdir": str(fleet.workdir), "model": MODEL}
        jobs = [{"id": id, "prompt": json.dumps(commands), **same} for id, commands in prompts.items()]
        assert front.call("POST", "/fleet/jobs", jobs)[0] == 200
        page = Page(tab, front.url, fleet.provider, fleet.workdir)
        page.go(f"/login#{front.call('POST', '/v1/login_codes')[1]['code']}")
        page.until("location.pathname === '/' && document.readyState === 'complete'")
        if width < 800:
            page.click("#menu")
        page.click("#jobs-link")
        page.until(f"({rows}).join(', ') === 'held queued, bad queued, quick queued'")
        fleet.start_worker()
        page.until(f"({rows}).join(', ') === 'held running, bad failed, quick done'")
        assert "The provider refused the request (400): out of order." in tab.run("document.getElementById('job-rows').innerText")
        assert tab.run("getComputedStyle(document.querySelector('#job-rows td:last-child')).textAlign") == "end"
        assert axe(tab, script) == []
        tab.screenshot(tmp_path / "jobs.png")
        page.click("#job-search")
        tab.type("el")
        assert tab.run(rows) == ["held running"]
        page.click("[data-job=held]")
        page.until(f"{events}.includes('Started attempt 1') && {events}.includes('Run echo begun')")
        assert axe(tab, script) == []
        tab.screenshot(tmp_path / "job.png")
        seconds = "[...document.querySelectorAll('#job-facts dd')].find(fact => / s$/.test(fact.textContent)).textContent"
        page.until(f"{seconds} !== {json.dumps(tab.run(seconds))}")
        page.click("#job-cancel")
        page.until(f"{events}.includes('Cancelled') && document.getElementById('job-facts').innerText.includes('cancelled')")
        (fleet.workdir / "go").touch()
        page.click("#job-retry")
        page.until("document.getElementById('job-result').innerText.includes('done after 1 commands')")
        page.click("#job-session")
        page.until(f"({ANSWERS}).includes('done after 1 commands') && {IDLE}")
        tab.run("location.hash = '#/jobs/none'")
        page.until("document.getElementById('job-trouble').textContent.includes('none')")
        assert tab.run("document.documentElement.scrollWidth <= innerWidth")
