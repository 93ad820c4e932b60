"""Makes the pictures in docs/pictures from real runs.

    python3 -m scripts.pictures

It runs the chat in tmux with a scripted model, real tools and real keys, and draws its screens as an SVG that moves, light and
dark. Then it exports the session and shows the page in Chromium, and does the same work on the page of `fairlead serve`. It
needs tmux, the peers of `make peers` and a font with fixed width, such as DejaVu Sans Mono. `make check` does not run it: the
times in the pictures differ from run to run.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.terminal_svg import Scheme, animation
from tests.support.tmux import ChatInTmux, chat_in_tmux

if TYPE_CHECKING:
    from tests.system.serve_page import Page

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
COLUMNS, ROWS = 92, 36
#: Seconds between two captures of the chat.
_INTERVAL = 0.15
#: What the pictures show instead of the temporary folder.
USER = "/home/ada"
PROGRAM = """\
def mean(numbers):
    return sum(numbers) / len(numbers)


print("mean of 2, 4, 9:", mean([2, 4, 9]))
print("mean of nothing:", mean([]))
"""
PROMPT = "mean.py crashes. Find out why and fix it."
ANSWER = """\
Fixed. The mean of an empty list divided by zero:

- `mean([])` is now `0`, and other lists give the same result as before.
- Both lines print, with exit code **0**.

Do you want a test for the empty list?
"""


#: Replaces a text everywhere on a page.
_RENAME = """{
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        walker.currentNode.data = walker.currentNode.data.replaceAll('%s', '%s');
    }
}"""


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


EDIT = {
    "oldText": "return sum(numbers) / len(numbers)",
    "newText": "return sum(numbers) / len(numbers) if numbers else 0",
}
TURNS: list[dict[str, Any]] = [
    {"text": "I will run it first.", "toolCalls": [call("bash", command="python3 mean.py")]},
    {
        "thinking": "An empty list has length 0. The result for it should be 0.",
        "text": "It divides by zero when the list is empty. I will make that case 0.",
        "toolCalls": [call("edit", path="mean.py", edits=[EDIT])],
    },
    {"toolCalls": [call("bash", command="python3 mean.py")]},
    {"text": ANSWER},
]


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_chat_picture(folder / "dark", "dark")
        session = make_chat_picture(folder / "light", "light")
        make_page_pictures(folder, session)
        make_serve_pictures(folder / "ada")
        make_phone_pictures(folder / "phone" / "ada")
    for picture in sorted(PICTURES.iterdir()):
        print(f"{picture.relative_to(ROOT)}  {picture.stat().st_size // 1024} KiB")


def make_chat_picture(folder: Path, scheme: Scheme) -> Path:
    """Run the chat and draw its screens. Returns its session file. The temporary folder is named like the user's own."""
    folder.mkdir()
    env = {"COLORFGBG": "0;15" if scheme == "light" else "15;0", "COLORTERM": "truecolor", "HISTFILE": ""}
    turns = [{**turn, "delayMs": 60} for turn in TURNS]
    with chat_in_tmux(folder, turns, columns=COLUMNS, rows=ROWS, env=env) as chat:
        (chat.folder / "mean.py").write_text(PROGRAM)
        chat.start("--approval-mode", "write")
        with recorded(chat) as frames:
            for letter in PROMPT:
                chat.type(letter)
                time.sleep(0.04)
            chat.press("Enter")
            chat.wait_for("Allow bash?")
            time.sleep(2)
            chat.type("a")
            chat.wait_for(lambda screen: "a test for the empty list?" in screen and "Esc stops" not in screen)
            chat.type("Yes, please")
            chat.wait_for("Yes, please")
            time.sleep(1)
        shown = [(second, screen.replace(str(folder), USER)) for second, screen in frames]
        picture = animation(shown, scheme, title="fairlead", columns=COLUMNS)
        (PICTURES / f"chat-{scheme}.svg").write_text(picture, "utf-8")
        chat.press("C-c")
        chat.leave()
        (session,) = (chat.home / "sessions").rglob("*.jsonl")
    session.write_text(session.read_text("utf-8").replace(str(folder), USER), "utf-8")
    return session


@contextmanager
def recorded(chat: ChatInTmux) -> Generator[list[tuple[float, str]]]:
    """Capture the screen again and again, and keep each that differs from the one before."""
    frames: list[tuple[float, str]] = []
    done = threading.Event()

    def capture() -> None:
        while not done.wait(_INTERVAL):
            screen = chat.screen(colours=True)
            if not frames or screen != frames[-1][1]:
                frames.append((time.monotonic(), screen))

    thread = threading.Thread(target=capture)
    thread.start()
    try:
        yield frames
    finally:
        done.set()
        thread.join()


def make_page_pictures(folder: Path, session: Path) -> None:
    """Show the page of a session in Chromium, light and dark."""
    from tests.export.browser import browser

    from fairlead.export import export_file

    page = export_file(session, folder / "export.html")
    schemes: tuple[Scheme, Scheme] = ("light", "dark")
    with browser() as tab:
        for scheme in schemes:
            tab.size(1180, 860)
            tab.media(scheme=scheme)
            tab.open(page)
            tab.screenshot(PICTURES / f"export-{scheme}.png")


def make_serve_pictures(folder: Path) -> None:
    """Do the same work on the page of a real server, in Chromium, light and dark."""
    from tests.export.browser import browser
    from tests.system.test_serve_page import IDLE, TEXT, served

    folder.mkdir()
    with browser() as tab:
        tab.size(1180, 860)
        with served(tab, folder, TURNS) as page:
            (page.project / "mean.py").write_text(PROGRAM)
            page.say(PROMPT)
            page.until(f"{TEXT}.includes('a test for the empty list?') && {IDLE}")
            _take_pictures(page, "serve")


def make_phone_pictures(folder: Path) -> None:
    """Show a question of the agent on the page, as a phone does."""
    from tests.export.browser import browser
    from tests.system.test_serve_page import served

    folder.mkdir(parents=True)
    with browser() as tab:
        tab.size(390, 700)
        with served(tab, folder, TURNS, "--approval", "write") as page:
            (page.project / "mean.py").write_text(PROGRAM)
            page.say(PROMPT)
            page.until("document.querySelector('#questions form')")
            _take_pictures(page, "serve-phone")


def _take_pictures(page: Page, name: str) -> None:
    page.until(f"document.querySelector('header').textContent.includes('{PROMPT}')")
    time.sleep(1)  # the page fetches the state of the session again, and shows its folder
    schemes: tuple[Scheme, Scheme] = ("light", "dark")
    for scheme in schemes:
        page.tab.media(scheme=scheme)
        page.tab.run(_RENAME % (str(page.project.parent), USER))
        page.tab.screenshot(PICTURES / f"{name}-{scheme}.png")


if __name__ == "__main__":
    main()
