"""The deployment page shows the files in examples/deploy as they are, and what they run works behind a proxy."""

from __future__ import annotations

import http.client
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "deploy"
PATIENCE = 60
NAME = "agent.example.org"


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.iterdir()))
def test_every_file_is_on_the_page_as_it_is(name: str) -> None:
    page = (ROOT / "docs" / "deployment.md").read_text()
    text = (FOLDER / name).read_text().partition("\n")[2]
    assert f"](../examples/deploy/{name})" in page
    assert f"\n{text}```\n" in page


def command_of_service() -> list[str]:
    (line,) = re.findall(r"^ExecStart=(.+)$", (FOLDER / "fairlead.service").read_text(), re.MULTILINE)
    return shlex.split(line)[1:]


def command_of_container() -> list[str]:
    return shlex.split(yaml.safe_load((FOLDER / "compose.yml").read_text())["services"]["fairlead"]["command"])


@contextmanager
def started(command: list[str], root: Path) -> Generator[tuple[subprocess.Popen[str], int, str]]:
    """Run the server of a recipe on a free port, with the projects in `root`. Yield it, the port and its token."""
    home = root / "home"
    projects = root / "projects"
    projects.mkdir()
    places = {"/srv/projects": str(projects), "/work": str(projects), "8787": "0", "0.0.0.0": "127.0.0.1"}
    arguments = [places.get(word, word) for word in command]
    env = {"PATH": os.environ["PATH"], "HOME": str(root), "FAIRLEAD_HOME": str(home), "ANTHROPIC_API_KEY": "no-secret"}
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "fairlead", *arguments], cwd=projects, env=env, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            printed = ""
            while "Ctrl-C" not in printed:
                line = process.stdout.readline()
                assert line, printed
                printed += line
            (port,) = re.findall(r"http://127\.0\.0\.1:(\d+)/", printed)
            yield process, int(port), (home / "serve.token").read_text().strip()
        finally:
            process.kill()


@pytest.mark.parametrize("command", [command_of_service(), command_of_container()], ids=["service", "container"])
def test_the_server_of_a_recipe_serves_the_name_of_the_proxy_and_stops_in_order(command: list[str], tmp_path: Path) -> None:
    with ExitStack() as stack:
        process, port, token = stack.enter_context(started(command, tmp_path))
        connection = stack.enter_context(closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)))
        headers = {"Host": NAME, "Origin": f"https://{NAME}", "Content-Type": "application/json"}
        connection.request("POST", "/login", json.dumps({"code": token}), headers)
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (204, b"")
        cookie = (answer.getheader("Set-Cookie") or "").partition(";")[0]
        headers |= {"Cookie": cookie, "Sec-Fetch-Site": "same-origin"}
        connection.request("POST", "/v1/sessions", "{}", headers)
        answer = connection.getresponse()
        session = json.loads(answer.read())
        assert answer.status == 201, session
        assert session["approval"] == "write"
        connection.request("POST", "/v1/sessions", json.dumps({"cwd": "/"}), headers)
        answer = connection.getresponse()
        assert answer.status in (400, 403), answer.read()
        answer.read()
        connection.request("GET", "/readyz", headers={"Host": "other.example.org"})
        assert connection.getresponse().status == 403
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 143


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_the_service(tmp_path: Path) -> None:
    text = (FOLDER / "fairlead.service").read_text().replace("/opt/fairlead/bin/fairlead", "/bin/true")
    unit = tmp_path / "fairlead.service"
    unit.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert [line for line in done.stderr.splitlines() if "fairlead.service" in line and "No such file" not in line] == []


@pytest.mark.skipif(shutil.which("nginx") is None, reason="needs nginx")
def test_nginx_passes_requests_on(tmp_path: Path) -> None:
    with started(command_of_service(), tmp_path) as (_, port, token):
        text = (FOLDER / "nginx.conf").read_text().replace("127.0.0.1:8787", f"127.0.0.1:{port}")
        place = tmp_path / "proxy.sock"
        text = re.sub(r"    ssl_certificate.*\n", "", text.replace("listen 443 ssl;", f"listen unix:{place};"))
        bodies = "".join(
            f"{kind}_temp_path {tmp_path}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (tmp_path / "nginx.conf").write_text(
            f"pid {tmp_path}/pid;\ndaemon off;\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{bodies}{text}}}\n"
        )
        with subprocess.Popen(["nginx", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]) as proxy:
            try:
                arguments = ["curl", "--silent", "--show-error", "--retry-all-errors", "--retry", "20", "--retry-delay", "1"]
                arguments += ["--unix-socket", str(place), "-H", f"Authorization: Bearer {token}", f"http://{NAME}/v1/sessions"]
                done = subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE, check=True)
                assert json.loads(done.stdout) == {"sessions": []}
            finally:
                proxy.terminate()
