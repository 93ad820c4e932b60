"""`pytest --once-more N`: run up to N failed tests once more, alone, and pass if they pass then.

CI shares its machine with other work. There a test may fail because a real program got no CPU for seconds. A test that passes
only alone still has a defect, or has found one, so the end of the run names it. More than N failures are not excused.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator

import pytest


class OnceMore:
    def __init__(self, most: int) -> None:
        self._most = most
        self._failed: dict[str, None] = {}
        self._uncollected = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed[report.nodeid] = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._uncollected |= report.failed

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        yield
        excusable = session.exitstatus == pytest.ExitCode.TESTS_FAILED and not self._uncollected
        if not excusable or not 0 < len(self._failed) <= self._most:
            return
        tests = list(self._failed)
        print(f"\n== {len(tests)} failed; once more, alone:", *tests, sep="\n   ", flush=True)
        command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider"]
        marked = ["-m", session.config.option.markexpr]
        if subprocess.run([*command, *marked, *tests], cwd=session.config.rootpath, check=False).returncode == 0:
            print("== FLAKY: passed alone, but not beside the others:", *tests, sep="\n   ", flush=True)
            session.exitstatus = pytest.ExitCode.OK
