"""Print figures about the shape of the source: `python scripts/shape.py [--check] [FOLDER]`.

They show whether the code grows crowded: how many files and lines there are, how much the session's facade offers, how many
classes depend on all of it, and how many modules are fragments of another. `--check` compares those that have a limit, which no
change may raise again.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
#: A module with fewer lines than this and a single importer is usually a fragment of its importer.
FRAGMENT = 60
#: A constructor with more parameters than this should take a struct of what belongs together.
MANY = 10
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

    def list_imports(self) -> Iterator[str]:
        """The names of modules, and of what is imported from them."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)

    def find_needed(self, names: set[str]) -> set[str]:
        """Those of the modules `names` that this one imports when it runs: without what only type checkers import."""
        found: set[str] = set()
        pending: list[ast.AST] = [self.tree]
        while pending:
            node = pending.pop()
            match node:
                case ast.Import() | ast.ImportFrom():
                    found.update(next((name for name in ways if name in names), self.name) for ways in _ways(node))
                case ast.If(test=ast.Name("TYPE_CHECKING")):
                    pending += node.orelse
                case _:
                    pending += ast.iter_child_nodes(node)
        return found - {self.name}


def _ways(node: ast.Import | ast.ImportFrom) -> list[tuple[str, ...]]:
    """For each name that is imported, the modules that it may be in: what it names itself, if that is a module, comes first."""
    if isinstance(node, ast.Import):
        return [(alias.name,) for alias in node.names]
    return [(f"{node.module}.{alias.name}", str(node.module)) for alias in node.names]


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
        for name in module.list_imports():
            if name in names and name != module.name:
                by_name[name].add(module.name)
    return by_name


def cycles(found: list[Module]) -> list[list[str]]:
    """The groups of modules that import each other when they run, at the top or in functions."""
    names = {module.name for module in found}
    remaining = {module.name: module.find_needed(names) for module in found}
    while (free := {name for name, needed in remaining.items() if not needed}) or (
        free := remaining.keys() - set[str]().union(*remaining.values())
    ):
        remaining = {name: needed - free for name, needed in remaining.items() if name not in free}
    groups: list[set[str]] = []
    for name, needed in remaining.items():
        joined = [group for group in groups if group & (needed | {name})]
        groups = [group for group in groups if group not in joined] + [set[str]({name} | needed).union(*joined)]
    return [sorted(group) for group in groups]


def late_imports(found: list[Module]) -> int:
    """Imports inside functions, each counted once, however deep the function is."""
    return sum(_late_imports(module.tree, inside=False) for module in found)


def _late_imports(node: ast.AST, *, inside: bool) -> int:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return int(inside)
    inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return sum(_late_imports(child, inside=inside) for child in ast.iter_child_nodes(node))


def saved_sessions(found: list[Module]) -> list[str]:
    """The protocols outside the stores that list and delete saved sessions."""
    names: list[str] = []
    for module in found:
        for node in ast.walk(module.tree) if not module.name.startswith("fairlead.stores.") else ():
            if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "Protocol" for base in node.bases):
                methods = {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
                if "delete" in methods and methods & {"page", "find", "has", "listed", "summaries"}:
                    names.append(f"{module.name}.{node.name}")
    return names


#: A question that a null object or a method should answer.
_STORE_IS_NONE = re.compile(r"\b_?store is (?:not )?None\b")


def asks_for_store(found: list[Module]) -> int:
    """Tests for whether there is a session store."""
    return sum(len(_STORE_IS_NONE.findall(module.text)) for module in found)


def shared_base_names(found: list[Module]) -> dict[str, list[str]]:
    """The base names that several modules have: a reader cannot tell two open editors apart by them."""
    named: dict[str, list[str]] = {}
    for module in found:
        if not module.is_package:
            named.setdefault(module.path.stem, []).append(module.name)
    return {name: modules for name, modules in sorted(named.items(), key=lambda item: -len(item[1])) if len(modules) > 1}


def shared_class_names(found: list[Module]) -> list[str]:
    """The names of classes that are declared in several modules. Declarations of protocols and their clients are not counted:
    their names are those on the wire."""
    named: dict[str, set[str]] = {}
    for module in found:
        if not module.name.startswith(("fairlead.protocol.", "fairlead.client.")):
            for node in module.tree.body:
                if isinstance(node, ast.ClassDef):
                    named.setdefault(node.name, set()).add(module.name)
    return sorted(name for name, modules in named.items() if len(modules) > 1)


def constructors(found: list[Module]) -> dict[str, list[str]]:
    """The parameters of the constructor of each class that has one."""
    made: dict[str, list[str]] = {}
    for module in found:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                init = next((each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
                if init is not None:
                    arguments = [*init.args.posonlyargs, *init.args.args, *init.args.kwonlyargs]
                    made[f"{module.name}.{node.name}"] = [each.arg for each in arguments][1:]
    return made


#: The class whose constructor has the options of `Agent`, and its other parameters.
_OPTIONS = "fairlead.agent.keywords.AgentKeywords"
_NO_OPTIONS = ("options", "shared")

#: The most that `--check` allows of a figure.
LIMITS = {
    "base names of several modules": 24,
    "modules that share a base name": 53,
    "classes with the same name": 55,
    "files": 534,
    "imports inside functions": 89,
    "cycles of imports": 0,
    "protocols of saved sessions": 1,
    "tests for `store is None`": 0,
    "public options of Agent": 35,
    "most parameters of a constructor": 11,
}


def main(root: Path, *, check: bool) -> None:
    found = modules(root)
    by_name = importers(found)
    made = constructors(found)
    plain = [module for module in found if not module.is_package and module.name.count(".") > 1]
    single = [module for module in plain if len(by_name[module.name]) == 1]
    fragments = [module for module in single if module.lines < FRAGMENT]
    folders: dict[Path, int] = {}
    for module in plain:
        folders[module.path.parent] = folders.get(module.path.parent, 0) + 1
    fullest = max(folders.items(), key=lambda item: item[1])
    base_names = shared_base_names(found)
    rows: list[tuple[str, int | str]] = [
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
        ("cycles of imports", len(cycles(found))),
        ("protocols of saved sessions", len(saved_sessions(found))),
        ("tests for `store is None`", asks_for_store(found)),
        ("public options of Agent", sum(name not in _NO_OPTIONS for name in made.pop(_OPTIONS, ()))),
        ("base names of several modules", len(base_names)),
        ("modules that share a base name", sum(map(len, base_names.values()))),
        ("classes with the same name", len(shared_class_names(found))),
        ("most parameters of a constructor", max(map(len, made.values()), default=0)),
    ]
    if check:
        risen = [
            f"{name}: {value}, and at most {LIMITS[name]}"
            for name, value in rows
            if isinstance(value, int) and value > LIMITS.get(name, value)
        ]
        if risen:
            sys.exit("The source has grown more crowded. " + "; ".join(risen))
        return
    for name, value in rows:
        print(f"{name:32} {value}")
    for title, names in (
        ("Fragments", [f"{module.name} ({module.lines}, from {next(iter(by_name[module.name]))})" for module in fragments]),
        ("Classes that take a Session", takes_session(found)),
        (f"Constructors with over {MANY} parameters", [f"{n} ({len(each)})" for n, each in made.items() if len(each) > MANY]),
        ("Base names of several modules", [f"{name}: {', '.join(modules)}" for name, modules in base_names.items()]),
        ("Cycles of imports", [", ".join(group) for group in cycles(found)]),
    ):
        print(f"\n{title}:", *(f"  {name}" for name in names), sep="\n")


if __name__ == "__main__":
    folders = [Path(word) for word in sys.argv[1:] if word != "--check"]
    main(folders[0] if folders else SOURCE, check="--check" in sys.argv)
