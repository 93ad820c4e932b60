"""Print figures about the shape of the source: `python scripts/shape.py [FOLDER]`.

They show whether the code grows crowded: how many files and lines there are, how much the session's facade offers, how many
classes depend on all of it, and how many modules are fragments of another.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
#: A module with fewer lines than this and a single importer is usually a fragment of its importer.
FRAGMENT = 60
#: No module should be longer than this.
LONG = 400


class Module:
    def __init__(self, path: Path, root: Path) -> None:
        self.path = path
        self.text = path.read_text()
        self.lines = self.text.count("\n")
        self.tree = ast.parse(self.text)
        parts = path.relative_to(root).with_suffix("").parts
        self.name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        self.is_package = parts[-1] == "__init__"

    def imported(self) -> Iterator[str]:
        """The names of modules, and of what is imported from them."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules(root: Path) -> list[Module]:
    return [Module(path, root) for path in sorted(root.rglob("*.py"))]


def session_members(found: list[Module]) -> list[str]:
    """The public methods, properties and attributes of the facade."""
    facade = next((each for each in found if each.name == "fairlead.session.session"), None)
    classes = [node for node in ast.walk(facade.tree) if isinstance(node, ast.ClassDef)] if facade else []
    session = next((node for node in classes if node.name == "Session"), None)
    if session is None:
        return []
    names = {node.name for node in session.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    for node in ast.walk(session):
        match node:
            case ast.Attribute(ast.Name("self"), attr=name, ctx=ast.Store()):
                names.add(name)
            case _:
                pass
    return sorted(name for name in names if not name.startswith("_"))


def takes_session(found: list[Module]) -> list[str]:
    """The classes with a method that takes a whole `Session`, the facade apart."""
    taking: list[str] = []
    for module in found:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and node.name != "Session" and any(map(_takes_session, ast.walk(node))):
                taking.append(f"{module.name}.{node.name}")
    return taking


def _takes_session(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return any(
        each.annotation is not None and ast.unparse(each.annotation) in ("Session", "Session | None") for each in arguments
    )


def importers(found: list[Module]) -> dict[str, set[str]]:
    names = {module.name for module in found}
    by_name: dict[str, set[str]] = {name: set() for name in names}
    for module in found:
        for name in module.imported():
            if name in names and name != module.name:
                by_name[name].add(module.name)
    return by_name


def late_imports(found: list[Module]) -> int:
    """Imports inside functions."""
    count = 0
    for module in found:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count += sum(isinstance(each, ast.Import | ast.ImportFrom) for each in ast.walk(node))
    return count


def main(root: Path) -> None:
    found = modules(root)
    by_name = importers(found)
    plain = [module for module in found if not module.is_package and module.name.count(".") > 1]
    single = [module for module in plain if len(by_name[module.name]) == 1]
    fragments = [module for module in single if module.lines < FRAGMENT]
    folders: dict[Path, int] = {}
    for module in plain:
        folders[module.path.parent] = folders.get(module.path.parent, 0) + 1
    fullest = max(folders.items(), key=lambda item: item[1])
    rows = [
        ("files", len(found)),
        ("lines", sum(module.lines for module in found)),
        (f"modules over {LONG} lines", sum(module.lines > LONG for module in found)),
        ("modules with one importer", len(single)),
        (f"of these under {FRAGMENT} lines", len(fragments)),
        ("modules in the fullest folder", f"{fullest[1]} ({fullest[0].relative_to(root)})"),
        ("public members of Session", len(session_members(found))),
        ("classes that take a Session", len(takes_session(found))),
        ("of these inside session/", sum(name.startswith("fairlead.session.") for name in takes_session(found))),
        ("imports inside functions", late_imports(found)),
    ]
    for name, value in rows:
        print(f"{name:32} {value}")
    for title, names in (
        ("Fragments", [f"{module.name} ({module.lines}, from {next(iter(by_name[module.name]))})" for module in fragments]),
        ("Classes that take a Session", takes_session(found)),
    ):
        print(f"\n{title}:", *(f"  {name}" for name in names), sep="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE)
