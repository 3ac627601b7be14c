"""Includes, calls and imports point down; families are mirrored; folders stay small.

C: a file may include headers of its own rank and below; the ranks are the folders of ``csrc``.
Generated headers carry no rank, except that what a generated header includes is the generator's
business. What the symbol tables of the build say of calls is in ``call_graph``, what they say of
headers in ``header_homes``, names in ``layer_names``; families and the sizes of folders are in
``families``. Python: every entry of ``shmtensor/`` is a room with a rank, and a module imports, at
its top or in a function, from its own room and from those below; the imports that point up are in
one table with their reasons. Every circle of rooms has one of those. Only ``shmtensor/_boundary``
may name ``ffi`` or ``lib`` of the extension.
"""

from __future__ import annotations

import ast
import re

import call_graph
import families
import header_homes
import layer_names
from tree import CSRC, GENERATED, PACKAGE, c_files, main, python_files, rel

C_RANKS = (
    "api base os shm storage ipc capi tensor iter kernels dispatch ops autograd python".split()
)

#: The rooms of the package, which are its entries, from the lowest to the highest. A room imports
#: from those above it in this list.
PYTHON_RANKS: tuple[str, ...] = tuple(
    """
    _C _generated errors _boundary dtypes storage random _core overrides functional special linalg
    fft memory shm types autograd profiler library futures monitor serialization hub multiprocessing
    utils sparse nn amp cpu masked signal _functorch func fx quasirandom files array_api
    distributions optim distributed inspect service bridge posix hogwild dashboard _torch as_torch
    _cli testing _later __init__ __main__
    """.split()
)
#: Entries that are no Python.
_OTHER_ENTRIES = {"bin", "include", "lib", "_libs", "py.typed", "__pycache__"}
#: Folders whose modules have names without them: Note [Names of inner folders].
_INNER = ("_core", "_torch")

#: The imports that point up, from the one room to the other, and why they stay.
UPWARD: dict[tuple[str, str], str] = {
    ("_core", "array_api"): "a tensor gives the standard's namespace, which few programs ask for",
    ("_core", "autograd"): "lobpcg says its derivative as a Function",
    ("_core", "overrides"): "calls of a class with __torch_function__ go there",
    ("_core", "serialization"): "functions that torch's files name, asked for by such a file",
    ("autograd", "_functorch"): "gradcheck checks derivatives under vmap",
    ("multiprocessing", "utils"): "warns of hooks that are not sent",
    ("nn", "func"): "gradients of single samples are those of a vmap",
    ("nn", "_torch"): "Module.compile takes the arguments of compile",
    ("optim", "service"): "a lock for steps in several processes, when there are some",
    ("serialization", "nn"): "classes that torch's files name",
    ("storage", "_core"): "pickles and warns; tensors are above it",
    ("storage", "serialization"): "torch's plain pickles name a function of storages that loads",
    ("utils", "nn"): "a tracker hooks all modules",
}
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def c_findings() -> list[str]:
    """Includes that point up or to nowhere."""
    found = []
    ranks = {name: i + 1 for i, name in enumerate(C_RANKS)}
    for path in c_files(".c", ".h"):
        folder = path.relative_to(CSRC).parts[0]
        if folder not in ranks:
            if folder not in ("codegen", "spec"):
                found.append(f"{rel(path)}:1: folder {folder!r} has no rank")
            continue
        for match in _INCLUDE.finditer(path.read_text()):
            name = match.group(1)
            line = path.read_text().count("\n", 0, match.start()) + 1
            where = f"{rel(path)}:{line}"
            top = name.split("/")[0]
            if top == "generated" or (GENERATED / name).exists():
                continue
            # The public headers are installed into one folder, and find each other there.
            if folder == "capi" and "/" not in name and (path.parent / name).exists():
                continue
            if top not in ranks:
                found.append(f'{where}: "{name}" is not written from csrc/')
            elif not (CSRC / name).exists() and GENERATED.exists():
                found.append(f'{where}: "{name}" does not exist')
            elif ranks[top] > ranks[folder]:
                found.append(
                    f"{where}: {folder} (rank {ranks[folder]}) includes {top} (rank {ranks[top]})"
                )
    return found


def _statements(tree: ast.Module) -> list[ast.AST]:
    """All nodes, except those in the bodies of ``if TYPE_CHECKING``."""
    nodes: list[ast.AST] = []
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        nodes.append(node)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            is_negated = isinstance(node.test, ast.UnaryOp)
            pending += node.body if is_negated else node.orelse
        else:
            pending += ast.iter_child_nodes(node)
    return nodes


def _imported(node: ast.AST) -> list[str]:
    """Dotted names of what the node imports from shmtensor; relative names stay in their room."""
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and not node.level:
        base = node.module or ""
        inside = "." not in base or base in [f"shmtensor.{folder}" for folder in _INNER]
        names = [f"{base}.{alias.name}" for alias in node.names] if inside else [base]
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
        first = node.args[0] if node.args else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            names = [first.value]
    return [n for n in names if n.startswith("shmtensor.")]


def _rooms() -> set[str]:
    """The entries of the package: those with Python files in them, and the extension."""
    entries = {p for p in PACKAGE.iterdir() if p.is_file() or any(p.rglob("*.py"))}
    return {p.name.split(".")[0] for p in entries if p.name not in _OTHER_ENTRIES}


def _inner_names() -> dict[str, str]:
    """The folder of each module in an inner folder."""
    return {
        path.stem: folder
        for folder in _INNER
        for path in (PACKAGE / folder).iterdir()
        if path.stem != "__init__"
    }


def _wrong_names(parts: tuple[str, ...], name: str, inner: dict[str, str]) -> list[str]:
    """What is wrong with how a module in *parts* names a module of an inner folder."""
    words = name.split(".")
    if words[1] in inner:
        return [f"{name} is in {inner[words[1]]}; write shmtensor.{inner[words[1]]}.{words[1]}"]
    if words[1] in _INNER and len(parts) > 2 and parts[:2] == tuple(words[1:3]):
        return [f"{name} is of the same package; use a relative name"]
    return []


def room_findings() -> list[str]:
    """Entries without a rank, imports that point up, and those that give a file no place."""
    found = [f"shmtensor/{name}: has no rank" for name in sorted(_rooms() - {*PYTHON_RANKS})]
    found += [
        f"tools/check_layers.py:1: no {name}" for name in PYTHON_RANKS if name not in _rooms()
    ]
    ranks = {name: i for i, name in enumerate(PYTHON_RANKS)}
    inner = _inner_names()
    seen = set()
    for path in python_files("shmtensor"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        own = parts[0]
        for node in _statements(ast.parse(path.read_text(), rel(path))):
            for name in _imported(node):
                other = name.split(".")[1]
                where = f"{rel(path)}:{node.lineno}"  # type: ignore[attr-defined]
                found += [f"{where}: {text}" for text in _wrong_names(parts, name, inner)]
                if ranks.get(other, -1) <= ranks.get(own, -1):
                    continue
                seen.add((own, other))
                if (own, other) not in UPWARD:
                    found.append(f"{where}: {own} imports {other}, which stands above it")
    return found + [
        f"tools/check_layers.py:1: no import of {above} in {own}"
        for own, above in UPWARD
        if (own, above) not in seen
    ]


def boundary_findings() -> list[str]:
    """Modules that go round the boundary."""
    found = []
    for path in python_files("shmtensor"):
        if path.relative_to(PACKAGE).parts[0] == "_boundary":
            continue
        for node in ast.walk(ast.parse(path.read_text(), rel(path))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("_C"):
                bad = {alias.name for alias in node.names} & {"ffi", "lib"}
            elif isinstance(node, ast.Attribute) and node.attr in ("ffi", "lib"):
                value = node.value
                is_extension = getattr(value, "id", getattr(value, "attr", "")) == "_C"
                bad = {node.attr} if is_extension else set()
            else:
                continue
            found += [f"{rel(path)}:{node.lineno}: only _boundary may use {b}" for b in sorted(bad)]
    return found


def check() -> list[str]:
    """All findings."""
    ranks = {name: i + 1 for i, name in enumerate(C_RANKS)}
    found = c_findings() + call_graph.findings(ranks) + room_findings() + boundary_findings()
    found += header_homes.findings() + layer_names.findings()
    return found + families.mirror_findings() + families.size_findings()


if __name__ == "__main__":
    main("check_layers", check)
