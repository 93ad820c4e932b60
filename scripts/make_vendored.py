"""Write src/fairlead/extend/node/runtime/vendor: code of others that extensions of pi need, with its sources and licences.

    python scripts/make_vendored.py             write it from npm
    python scripts/make_vendored.py --check     fail if a file is not as recorded, or not recorded (no network)
    python scripts/make_vendored.py --compare   make it again from npm, and fail unless it is the same, byte for byte

`manifest.json` there records each package with its version, licence and hash on npm, how its files were made, their hashes,
and the packages that are bundled in them. A check also looks for code and assets of others elsewhere in src/.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from fairlead.extend.node.program import npm_command

SOURCES = Path(__file__).parents[1] / "src"
VENDOR = SOURCES / "fairlead" / "extend" / "node" / "runtime" / "vendor"
MANIFEST = "manifest.json"

#: Where a bundle names the packages that are in it.
_BUNDLED = re.compile(r"node_modules/\.pnpm/[^/\"]*?@(\d[^/\"_]*)[^/\"]*/node_modules/((?:@[^/\"]+/)?[^/\"]+)")
#: What is made from a source elsewhere, or never written by hand: fonts, pictures, programs, archives.
_FOREIGN = (
    ".woff",
    ".woff2",
    ".ttf",
    ".otf",
    ".eot",
    ".png",
    ".jpg",
    ".gif",
    ".ico",
    ".wasm",
    ".so",
    ".node",
    ".gz",
    ".zip",
    ".map",
)
#: The longest line of a script or style sheet that a person wrote.
_LONGEST_LINE = 1000


class Contained(msgspec.Struct, frozen=True):
    """A package that is bundled in a file of another."""

    name: str
    version: str
    licence: str
    integrity: str


class File(msgspec.Struct, frozen=True):
    sha256: str
    #: The file of the package that it is a copy of; empty for what was built or collected.
    copy_of: str = ""


class Vendored(msgspec.Struct, frozen=True):
    """A package, and the files that were made from it, by their path in the folder."""

    name: str
    version: str
    licence: str
    integrity: str
    how: str
    files: dict[str, File]
    contains: list[Contained] = []


class Recipe(msgspec.Struct, frozen=True):
    """How to make the files of a package."""

    name: str
    version: str
    #: The files that are copied, each with its source; its licence is always among them.
    copies: dict[str, str]
    #: A module that esbuild bundles, and the file that it makes.
    entry: str = ""
    bundle: str = ""
    #: Packages inside a copied file whose names the bundler has removed.
    hidden: tuple[tuple[str, str], ...] = ()


ESBUILD = ("esbuild", "0.28.2")
_ESBUILD_FLAGS = ("--bundle", "--format=cjs", "--minify", "--platform=node")

RECIPES = (
    Recipe(
        "jiti",
        "2.7.0",
        {"jiti.cjs": "dist/jiti.cjs", "babel.cjs": "dist/babel.cjs"},
        hidden=(("acorn", "8.16.0"), ("pathe", "2.0.3")),
    ),
    Recipe(
        "typebox",
        "1.3.27",
        {},
        entry="".join(
            f'export * as {name} from "typebox{path}";\n'
            for name, path in (("typebox", ""), ("value", "/value"), ("compile", "/compile"))
        ),
        bundle="typebox.cjs",
    ),
)


# Making


def make(work: Path) -> dict[str, bytes]:
    """Return all files of the folder by path, made from npm in an empty folder."""
    made: dict[str, bytes] = {}
    packages = [_make_package(recipe, work / recipe.name, made) for recipe in RECIPES]
    made["README.md"] = readme(packages).encode()
    made[MANIFEST] = msgspec.json.format(msgspec.json.encode(packages), indent=2) + b"\n"
    return made


def _make_package(recipe: Recipe, work: Path, made: dict[str, bytes]) -> Vendored:
    locked = _install(work, [(recipe.name, recipe.version), *([ESBUILD] if recipe.entry else [])])
    source = work / "node_modules" / recipe.name
    copies = {**recipe.copies, "LICENSE": _licence_file(source).name}
    files = {f"{recipe.name}/{target}": (source / origin).read_bytes() for target, origin in copies.items()}
    contained: list[Contained] = []
    how = "unchanged copies"
    if recipe.entry:
        files[f"{recipe.name}/{recipe.bundle}"] = _bundle(recipe, work)
        how = f"esbuild {ESBUILD[1]} {' '.join(_ESBUILD_FLAGS)}, of: {' '.join(recipe.entry.split())}"
    if bundled := sorted({*recipe.hidden, *bundled_packages(files.values())}):
        contained, files[f"{recipe.name}/LICENSES"] = _contents(bundled, work / "contents")
    made.update(files)
    return Vendored(
        recipe.name,
        recipe.version,
        _licence_of(source),
        locked[f"node_modules/{recipe.name}"]["integrity"],
        how,
        {
            path: File(hashlib.sha256(data).hexdigest(), copies.get(path.partition("/")[2], ""))
            for path, data in sorted(files.items())
        },
        contained,
    )


def bundled_packages(files: Any) -> Iterator[tuple[str, str]]:
    """Yield the names and versions of the packages that bundles name."""
    for data in files:
        for version, name in _BUNDLED.findall(data.decode("utf-8", "replace")):
            yield name, version


def _bundle(recipe: Recipe, work: Path) -> bytes:
    (work / "entry.mjs").write_text(recipe.entry)
    esbuild = next((work / "node_modules" / "@esbuild").glob("*/bin/esbuild"))
    subprocess.run([esbuild, "entry.mjs", *_ESBUILD_FLAGS, "--outfile=bundle.cjs", "--log-level=error"], cwd=work, check=True)
    return (work / "bundle.cjs").read_bytes()


def _contents(bundled: list[tuple[str, str]], work: Path) -> tuple[list[Contained], bytes]:
    """Return the packages in a bundle, and the text of all their licences."""
    locked = _install(work, bundled)
    contained: list[Contained] = []
    texts: dict[str, list[str]] = {}
    for name, version in bundled:
        folder = work / "node_modules" / name
        contained.append(Contained(name, version, _licence_of(folder), locked[f"node_modules/{name}"]["integrity"]))
        found = _licence_file(folder)
        text = found.read_text() if found.is_file() else f"Licence: {_licence_of(folder)} (the package has no text of it)"
        texts.setdefault("\n".join(line.rstrip() for line in text.strip().splitlines()), []).append(f"{name} {version}")
    parts = [f"{', '.join(names)}\n{'=' * 72}\n\n{text}\n" for text, names in texts.items()]
    return contained, "\n\n".join(
        ["The licences of the packages that are bundled in the files of this folder.\n", *parts]
    ).encode()


def _install(work: Path, packages: list[tuple[str, str]]) -> dict[str, Any]:
    """Install packages from npm without running their scripts. Returns what npm knows about each, by folder."""
    work.mkdir(parents=True)
    (work / "package.json").write_text('{"private": true}')
    specs = [f"{name}@{version}" for name, version in packages]
    flags = ["--ignore-scripts", "--legacy-peer-deps", "--no-audit", "--no-fund", "--save-exact", "--silent"]
    subprocess.run([*npm_command(os.environ, []), "install", *specs, "--prefix", str(work), *flags], cwd=work, check=True)
    return msgspec.json.decode((work / "package-lock.json").read_bytes())["packages"]


def _licence_of(folder: Path) -> str:
    return str(msgspec.json.decode((folder / "package.json").read_bytes()).get("license"))


def _licence_file(folder: Path) -> Path:
    return next((path for path in sorted(folder.iterdir()) if path.name.lower().startswith("licen")), folder / "LICENSE")


def readme(packages: list[Vendored]) -> str:
    """Return the README of the folder."""
    rows = [f"| `{each.name}/` | {each.name} {each.version} | {each.licence} | `{each.how}` |" for each in packages]
    inside = [
        f"The manifest names the {len(package.contains)} packages that are bundled in `{package.name}/`. "
        f"Their licences are in\n`{package.name}/LICENSES`."
        for package in packages
        if package.contains
    ]
    lines = [
        "Code of others that the runtime needs, as their authors published it on npm.",
        "`scripts/make_vendored.py` writes this folder; `manifest.json` has the hashes. Each folder has its",
        "licence.",
        "",
        "| folder | package | licence | how it was made |",
        "|---|---|---|---|",
        *rows,
        "",
        *inside,
    ]
    return "\n".join(lines) + "\n"


# Checking


def problems(vendor: Path, sources: Path) -> Iterator[str]:
    """Yield what is not as recorded in the folder, and what of others is elsewhere in the sources."""
    packages = msgspec.json.decode((vendor / MANIFEST).read_bytes(), type=list[Vendored])
    recorded = {path: file for package in packages for path, file in package.files.items()}
    present = {str(path.relative_to(vendor)) for path in vendor.rglob("*") if path.is_file() or path.is_symlink()}
    for path in sorted(present - set(recorded) - {MANIFEST, "README.md"}):
        yield f"{path} is not recorded."
    for path, file in sorted(recorded.items()):
        if path not in present:
            yield f"{path} is missing."
        elif hashlib.sha256((vendor / path).read_bytes()).hexdigest() != file.sha256:
            yield f"{path} is not the file that was recorded."
    for package in packages:
        yield from _gaps(package, vendor)
    for recipe in RECIPES:
        if not any((each.name, each.version) == (recipe.name, recipe.version) for each in packages):
            yield f"{recipe.name} {recipe.version} is not recorded."
    if (vendor / "README.md").read_text() != readme(packages):
        yield "README.md is not what the manifest says."
    for path in sorted(sources.rglob("*")):
        if path.is_file() and not path.is_relative_to(vendor) and _is_foreign(path):
            where = path.relative_to(sources)
            yield f"{where} looks like code or an asset of others. Record it here, or write it so that people can read it."


def _gaps(package: Vendored, vendor: Path) -> Iterator[str]:
    """Yield what the record of a package lacks."""
    name = package.name
    if not package.integrity.startswith("sha512-") or not package.licence or f"{name}/LICENSE" not in package.files:
        yield f"{name} has no hash, licence or text of it."
    if package.contains and f"{name}/LICENSES" not in package.files:
        yield f"{name}/LICENSES is not recorded."
    listed = {(each.name, each.version) for each in package.contains}
    texts = [(vendor / path).read_bytes() for path in package.files if (vendor / path).is_file()]
    for inside, version in sorted(set(bundled_packages(texts)) - listed):
        yield f"{name} contains {inside} {version}, which is not recorded."


def _is_foreign(path: Path) -> bool:
    """Whether a file is of a kind that no person writes: a font, a picture, a bundle."""
    if path.suffix in _FOREIGN:
        return True
    if path.suffix not in (".js", ".mjs", ".cjs", ".css", ".html", ".svg"):
        return False
    return any(len(line) > _LONGEST_LINE for line in path.read_text(errors="replace").splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--check", action="store_true", help="fail if a file is not as recorded")
    choice.add_argument("--compare", action="store_true", help="fail if npm gives something else")
    arguments = parser.parse_args()
    if not arguments.check:
        with TemporaryDirectory() as work:
            made = make(Path(work))
        for path, data in made.items():
            if arguments.compare:
                if not (VENDOR / path).is_file() or (VENDOR / path).read_bytes() != data:
                    sys.exit(f"{VENDOR / path} is not what npm and the recipe give. Run scripts/make_vendored.py.")
            else:
                (VENDOR / path).parent.mkdir(parents=True, exist_ok=True)
                (VENDOR / path).write_bytes(data)
    if found := list(problems(VENDOR, SOURCES)):
        sys.exit("\n".join([*found, "Run scripts/make_vendored.py, which needs npm, and look at what changes."]))


if __name__ == "__main__":
    main()
