"""The catalogue of saved sessions is the same for files and for stores."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.session.scene import a_session, a_workspace, talk

from fairlead.core.snapshots import title_of
from fairlead.errors import BadCommand, SessionError
from fairlead.session.asyncio_runtime import AsyncioRuntime
from fairlead.session.history.archive import Archive
from fairlead.session.history.current import ConversationStore
from fairlead.session.history.file_archive import FileArchive
from fairlead.session.history.store_archive import StoreArchive
from fairlead.sessions import catalogue as catalogues
from fairlead.sessions.catalogue import Catalogue, opener
from fairlead.stores import MemoryStore
from fairlead.stores.folders import SessionFolders
from fairlead.testing import Scripted, Turn

KINDS = ["files", "store"]


def an_archive(kind: str, tmp_path: Path) -> Archive:
    if kind == "store":
        return StoreArchive(MemoryStore(), "me", 60.0)
    return FileArchive(folders=SessionFolders(root=tmp_path / "sessions"))


def conversations(archive: Archive, cwd: Path) -> ConversationStore:
    cwd.mkdir(parents=True, exist_ok=True)
    return ConversationStore(workspace=a_workspace(cwd), now_ms=AsyncioRuntime().now_ms, archive=archive)


async def a_saved_session(archive: Archive, cwd: Path, prompt: str) -> str:
    session = a_session(Scripted([Turn(text="Yes.")]), cwd, sessions=conversations(archive, cwd))
    await talk(session, prompt)
    await session.close()
    return session.history.id


@pytest.mark.parametrize("kind", KINDS)
async def test_pages_follow_each_other_without_gaps(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogues, "PAGE", 2)
    archive = an_archive(kind, tmp_path)
    catalogue = Catalogue(archive, tmp_path)
    ids = {await a_saved_session(archive, tmp_path / "work", f"prompt {number}") for number in range(5)}
    found: list[str] = []
    cursor, sizes = None, list[int]()
    while True:
        page = await catalogue.page(None, cursor)
        found += [info.id for info, _ in page.sessions]
        sizes.append(len(page.sessions))
        if page.next is None:
            break
        cursor = page.next
    assert sizes == [2, 2, 1] and set(found) == ids and len(found) == 5


@pytest.mark.parametrize("kind", KINDS)
async def test_a_page_has_the_sessions_of_one_directory(kind: str, tmp_path: Path) -> None:
    archive = an_archive(kind, tmp_path)
    here = await a_saved_session(archive, tmp_path / "here", "first")
    await a_saved_session(archive, tmp_path / "there", "second")
    page = await Catalogue(archive, tmp_path).page(f"{tmp_path}/there/../here")
    assert [(info.id, info.title()) for info, _ in page.sessions] == [(here, "first")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("cwd", "cursor"), [("work", None), ("/a\0b", None), (None, "?"), (None, "bm8=")])
async def test_malformed_pages_are_refused(kind: str, cwd: str | None, cursor: str | None, tmp_path: Path) -> None:
    with pytest.raises(BadCommand, match="cwd: expected" if cwd else "cursor: expected"):
        await Catalogue(an_archive(kind, tmp_path), tmp_path).page(cwd, cursor)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_session_is_found_opened_and_deleted_by_its_id(kind: str, tmp_path: Path) -> None:
    archive = an_archive(kind, tmp_path)
    catalogue = Catalogue(archive, tmp_path / "elsewhere")
    session_id = await a_saved_session(archive, tmp_path / "work", "remember me")
    assert await catalogue.find(session_id[:20]) is None
    name = await catalogue.find(session_id)
    assert name is not None and await catalogue.folder_of(name) == tmp_path / "work"
    conversation = opener(name)(conversations(archive, tmp_path / "elsewhere"))
    await conversation.open()
    assert conversation.count == 2
    with pytest.raises(SessionError, match="in use"):
        await catalogue.delete(session_id)
    conversation.close()
    await conversation.wait_closed()
    assert await catalogue.delete(session_id) and not await catalogue.delete(session_id)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_empty_session_is_listed_only_where_others_find_it(kind: str, tmp_path: Path) -> None:
    archive = an_archive(kind, tmp_path)
    conversation = conversations(archive, tmp_path / "work").begin()
    await conversation.open()
    conversation.keep_empty()
    await conversation.wait_written()
    assert not (await Catalogue(archive, tmp_path).page()).sessions
    listed = (await Catalogue(archive, tmp_path, lists_empty=True).page()).sessions
    assert len(listed) == (1 if kind == "store" else 0)
    conversation.close()
    await conversation.wait_closed()


def test_titles_leave_out_attached_files_and_controls_and_are_cut() -> None:
    assert title_of("  Plans  ", "unused") == "Plans"
    assert title_of(None, '<file name="a">x</file>\nExplain  this') == "Explain this"
    assert title_of(None, '<file name="a">x</file>') == '<file name="a">x</file>'
    assert title_of(None, "word " * 100, 20) == "word word word word…"
    assert "\x1b" not in title_of(None, "\x1b[31mred") and title_of(None, "") == ""


def test_the_folder_of_sessions_is_chosen_by_one_rule(tmp_path: Path) -> None:
    from fairlead.config.home import Home

    env = {"FAIRLEAD_HOME": str(tmp_path / "home"), "HOME": str(tmp_path / "me")}
    home = Home.find(env)

    def place(chosen: str | None, configured: str | None, extra: dict[str, str] | None = None, **how: bool) -> Path | None:
        return SessionFolders.of(home, tmp_path, {**env, **(extra or {})}, chosen, configured, **how).place(tmp_path)

    variable = {"PI_CODING_AGENT_SESSION_DIR": "from-env"}
    assert place("chosen", "configured", variable) == tmp_path / "chosen"
    assert place(None, "configured", variable) == tmp_path / "from-env"
    assert place(None, "~/kept") == tmp_path / "me" / "kept"
    usual = place(None, None)
    assert usual is not None and usual.parent == home.sessions_dir
    assert place(None, "configured", variable, isolated=True) is None
    assert place("chosen", None, isolated=True) == tmp_path / "chosen"
    assert place("chosen", "configured", variable, keeps=False) is None
    assert os.path.isabs(str(usual))  # noqa: PTH117
