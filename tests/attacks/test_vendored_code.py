"""Code of others in the sources: every byte of it is recorded, with where it comes from and its licence."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from scripts.make_vendored import SOURCES, VENDOR, problems


def test_the_checked_in_code_is_what_was_recorded() -> None:
    assert list(problems(VENDOR, SOURCES)) == []


def append(path: str, text: str) -> Callable[[Path], object]:
    def change(vendor: Path) -> None:
        with (vendor / path).open("a") as file:
            file.write(text)

    return change


def edit(old: str, new: str) -> Callable[[Path], object]:
    def change(vendor: Path) -> None:
        path = vendor / "manifest.json"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return change


CHANGES: list[tuple[Callable[[Path], object], str]] = [
    (append("typebox/typebox.cjs", ";evil()"), "typebox/typebox.cjs is not the file that was recorded."),
    (append("jiti/LICENSE", " "), "jiti/LICENSE is not the file that was recorded."),
    (append("README.md", " "), "README.md is not what the manifest says."),
    (append("extra.cjs", "evil()"), "extra.cjs is not recorded."),
    (lambda vendor: (vendor / "jiti/babel.cjs").unlink(), "jiti/babel.cjs is missing."),
    (lambda vendor: (vendor / "typebox/LICENSE").unlink(), "typebox/LICENSE is missing."),
    (lambda vendor: (vendor / "link.cjs").symlink_to("/nowhere"), "link.cjs is not recorded."),
    (edit('"name": "@babel/core"', '"name": "@babel/kern"'), "jiti contains @babel/core 7.29.0, which is not recorded."),
    (edit('"version": "1.3.27"', '"version": "1.3.28"'), "typebox 1.3.27 is not recorded."),
    (edit('"integrity": "sha512-', '"integrity": "'), "jiti has no hash, licence or text of it."),
]


@pytest.mark.parametrize(("change", "problem"), CHANGES, ids=[problem for _, problem in CHANGES])
def test_a_change_is_noticed(tmp_path: Path, change: Callable[[Path], object], problem: str) -> None:
    vendor = tmp_path / "vendor"
    shutil.copytree(VENDOR, vendor)
    change(vendor)
    assert problem in list(problems(vendor, tmp_path))


@pytest.mark.parametrize(
    ("name", "text"), [("a.woff2", "x"), ("a.png", "x"), ("page.mjs", "x" * 2000), ("style.css", "y" * 2000)]
)
def test_code_and_assets_of_others_elsewhere_are_noticed(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert [problem.split()[0] for problem in problems(VENDOR, tmp_path)] == [name]
