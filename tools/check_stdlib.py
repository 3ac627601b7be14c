"""One module changes the standard library, and uses its private parts: ``_stdlib.py``.

It is in ``shmtensor/multiprocessing``. Elsewhere in ``shmtensor/`` this finds a private name of a
standard module or of what was imported from one; a change of anything of theirs, or of the
environment; a private name of a standard class in a class derived from it, on an object, or in a
`getattr`. Of an object only the name tells whose it is: names that the package gives to its own
objects are passed over, except those in the list of ``_stdlib.py``. Files in which something stays
are in a table with their reasons; what they use is in that list too.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tree import PACKAGE, main, python_files, rel

_HOME = PACKAGE / "multiprocessing" / "_stdlib.py"
#: Files in which something of the kind stays, and the reason.
ALLOWED = {
    "shmtensor/_boundary/sharing.py": "names the session in the environment, for children",
    "shmtensor/_cli/run.py": "prepares the environment of another program",
    "shmtensor/_core/_fork_locks.py": "stands below multiprocessing",
    "shmtensor/_core/_interrupts.py": "stands below multiprocessing",
    "shmtensor/autograd/profiler.py": "a decorator that makes a new range for each call",
    "shmtensor/distributed/_mpi_backend.py": "sets sys.excepthook, as programs may",
    "shmtensor/multiprocessing/_exec_with_parent.py": "prepares the environment of another program",
    "shmtensor/multiprocessing/_pool_workers.py": "completes the results of the standard pool",
    "shmtensor/multiprocessing/context.py": "extends the standard contexts",
    "shmtensor/multiprocessing/pool.py": "extends the standard pool",
    "shmtensor/serialization/_writing.py": "extends the pickler that is written in Python",
}
#: Documented for programs, in spite of an underscore or that they change something.
_DOCUMENTED = {"os._exit", "sys._getframe", "sys.modules[...]"}
#: Modules whose private names are looked for on all objects.
_LOOKED_FOR = """
    concurrent.futures._base concurrent.futures.process concurrent.futures.thread pickle queue
    threading multiprocessing.connection multiprocessing.context multiprocessing.forkserver
    multiprocessing.managers multiprocessing.pool multiprocessing.popen_fork
    multiprocessing.popen_forkserver multiprocessing.popen_spawn_posix multiprocessing.process
    multiprocessing.queues multiprocessing.reduction multiprocessing.resource_tracker
    multiprocessing.shared_memory multiprocessing.spawn multiprocessing.synchronize
    multiprocessing.util
""".split()
_BY_NAME = ("getattr", "setattr", "delattr", "hasattr", "vars")
_CHANGING = ("clear", "pop", "popitem", "setdefault", "update")


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _defined(tree: ast.Module) -> set[str]:
    """The private names that a module gives to its own classes, functions and objects."""
    names = set()
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            names |= {node.attr} if is_own else set()
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
            if node.id == "__slots__":
                slots = [n.value for n in ast.walk(parents[node]) if isinstance(n, ast.Constant)]
                names |= set(map(str, slots))
    return {name for name in names if _is_private(name)}


@functools.cache
def _names_of(module: str) -> frozenset[str]:
    """The private names in a standard module."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return frozenset()
    return frozenset(_defined(ast.parse(Path(spec.origin).read_text())))


def listed() -> set[str]:
    """The private names that ``_stdlib.py`` says it uses."""
    for node in ast.parse(_HOME.read_text()).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "USED":
            rows = node.value.elts if isinstance(node.value, ast.Tuple) else []
            names = [row.elts[1] for row in rows if isinstance(row, ast.Tuple)]
            return {n for name in names for n in ast.literal_eval(name).split()}
    raise SystemExit(f"{rel(_HOME)} has no USED")


@dataclass
class _File:
    """A module of the package, and what its names stand for."""

    tree: ast.Module
    #: Dotted names of what was imported from the standard library, and from this package.
    standard: dict[str, str] = field(default_factory=dict)
    ours: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.defined = _defined(self.tree)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    top = alias.name.partition(".")[0]
                    self._add(alias.asname or top, alias.name if alias.asname else top)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    base = "shmtensor" if node.level else node.module
                    self._add(alias.asname or alias.name, f"{base}.{alias.name}")
        for node in ast.walk(self.tree):  # names that were given to any of it
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                dotted = self.dotted(node.value)
                if isinstance(target, ast.Name) and dotted is not None:
                    self.standard.setdefault(target.id, dotted)

    def _add(self, name: str, dotted: str) -> None:
        if dotted.partition(".")[0] in sys.stdlib_module_names:
            self.standard[name] = dotted
        elif dotted.startswith("shmtensor"):
            self.ours.add(name)

    def dotted(self, node: ast.AST) -> str | None:
        """The dotted name of something of the standard library."""
        if isinstance(node, ast.Name):
            return self.standard.get(node.id)
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            return base and f"{base}.{node.attr}"
        return None

    def bases(self, node: ast.ClassDef) -> set[str]:
        """The standard modules from which a class takes a base."""
        dotted = {self.dotted(base) for base in node.bases}
        return {name.rpartition(".")[0] for name in dotted if name and "." in name}


def _is_own(node: ast.Attribute) -> bool:
    """Whether it is an attribute of the object whose method this is."""
    value = node.value.func if isinstance(node.value, ast.Call) else node.value
    return isinstance(value, ast.Name) and value.id in ("self", "cls", "super")


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _in_derived(file: _File) -> Iterator[tuple[int, str]]:
    """Private names of standard classes in classes that derive from them."""
    for kind in ast.walk(file.tree):
        if not isinstance(kind, ast.ClassDef):
            continue
        names = frozenset[str]().union(*map(_names_of, file.bases(kind)))
        for node in ast.walk(kind):
            if isinstance(node, ast.Attribute) and node.attr in names and _is_own(node):
                yield node.lineno, node.attr
            elif isinstance(node, ast.FunctionDef) and node.name in names:
                yield node.lineno, node.name


def _reached(file: _File, node: ast.AST, foreign: set[str]) -> Iterator[str]:
    """What a node uses or changes of the standard library that is not for others."""
    if isinstance(node, ast.ImportFrom) and not node.level:
        if str(node.module).partition(".")[0] in sys.stdlib_module_names:
            names = (alias.name for alias in node.names)
            yield from (f"{node.module}.{name}" for name in names if _is_private(name))
    elif isinstance(node, ast.Attribute):
        dotted = file.dotted(node)
        if dotted is None:
            if node.attr in foreign and not _is_own(node) and _root(node) not in file.ours:
                yield node.attr
        elif _is_private(node.attr) or not isinstance(node.ctx, ast.Load):
            yield dotted
    elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        if (dotted := file.dotted(node.value)) is not None:
            yield f"{dotted}[...]"
    elif isinstance(node, ast.Call):
        yield from _called(file, node, foreign)


def _called(file: _File, node: ast.Call, foreign: set[str]) -> Iterator[str]:
    func = node.func
    if isinstance(func, ast.Attribute):
        if file.dotted(func.value) == "os.environ" and func.attr in _CHANGING:
            yield f"os.environ.{func.attr}"
    elif isinstance(func, ast.Name) and func.id in _BY_NAME and node.args:
        dotted = file.dotted(node.args[0])
        name = ast.unparse(node.args[1]).strip("'") if len(node.args) > 1 else ""
        if dotted and func.id not in ("getattr", "hasattr"):
            yield f"{dotted}.{name}".rstrip(".")
        elif name in foreign:
            yield name


def _findings(file: _File, foreign: set[str]) -> list[tuple[int, str]]:
    found = set(_in_derived(file))
    for node in ast.walk(file.tree):
        for what in _reached(file, node, foreign):
            if what not in _DOCUMENTED:
                found.add((getattr(node, "lineno", 1), what))
    return sorted(found)


def _named(files: dict[Path, _File]) -> set[str]:
    """The private names that ``_stdlib.py`` and the files of the table use."""
    named: set[str] = set()
    for path, file in files.items():
        if path != _HOME and rel(path) not in ALLOWED:
            continue
        for node in ast.walk(file.tree):
            if isinstance(node, ast.Attribute):
                named.add(node.attr)
            elif isinstance(node, ast.FunctionDef):
                named.add(node.name)
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in _BY_NAME:
                named |= {str(a.value) for a in node.args if isinstance(a, ast.Constant)}
    return named


def check() -> list[str]:
    """All findings."""
    files = {p: _File(ast.parse(p.read_text(), rel(p))) for p in python_files("shmtensor")}
    names = listed()
    own = set().union(*(file.defined for path, file in files.items() if path != _HOME))
    known = frozenset[str]().union(*map(_names_of, _LOOKED_FOR))
    found = []
    unused = dict(ALLOWED)
    for path, file in files.items():
        if path == _HOME:
            continue
        foreign = (names - file.defined) | (known - own)
        for line, what in _findings(file, foreign):
            last = what.rpartition(".")[2]
            if rel(path) not in ALLOWED:
                found.append(f"{rel(path)}:{line}: {what}: only {rel(_HOME)} may use or change it")
            elif _is_private(last) and last not in names:
                found.append(f"{rel(path)}:{line}: {what}: is not in USED of {rel(_HOME)}")
            unused.pop(rel(path), None)
    found += [f"{rel(_HOME)}:1: nothing uses {name}" for name in sorted(names - _named(files))]
    return found + [f"tools/check_stdlib.py:1: nothing of the kind in {name}" for name in unused]


if __name__ == "__main__":
    main("check_stdlib", check)
