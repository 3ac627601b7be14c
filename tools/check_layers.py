"""Includes, calls and imports point down; families are mirrored; folders stay small.

C: a file may include headers of its own rank and below; the ranks are the folders of ``csrc``.
Generated headers carry no rank, except that what a generated header includes is the generator's
business. What the symbol tables of the build say of calls is in ``call_graph``, what they say of
headers in ``header_homes``, names in ``layer_names``; families and the sizes of folders are in
``families``. Python: a module may import modules of its own rank and below at module level; only
``shmtensor/_boundary`` may name ``ffi`` or ``lib`` of the extension.
"""

from __future__ import annotations

import ast
import re

import call_graph
import families
import header_homes
import layer_names
from tree import CSRC, GENERATED, PACKAGE, c_files, main, python_files, rel

C_RANKS = "api base os shm storage ipc tensor iter kernels dispatch ops autograd python".split()

# Modules that are not listed have the rank of "core".
PYTHON_RANKS: dict[str, int] = {
    "_C": 0,
    "_generated": 0,
    "_version": 0,
    "_types": 0,
    "errors": 1,
    "_warnings": 1,
    "_boundary": 1,
    "_dtypes": 2,
    "dtypes": 2,
    "storage": 3,
    "core": 4,
    "autograd": 5,
    "_lobpcg": 5,
    "library": 5,
    "profiler": 6,
    "random": 5,
    "serialization": 5,
    "multiprocessing": 6,
    "utils": 6,
    "nn": 7,
    "_custom_ops": 6,
    "hub": 6,
    "amp": 6,
    "cpu": 7,
    "cuda": 7,
    "_dynamo": 8,
    "_higher_order_ops": 7,
    "fx": 8,
    "array_api": 8,
    "files": 8,
    "distributed": 8,
    "ao": 8,
    "quantization": 8,
    "jit": 8,
    "_functorch": 8,
    "distributions": 8,
    "func": 8,
    "optim": 8,
    "hogwild": 9,
    "as_torch": 9,
    "testing": 9,
    "_later": 9,
    "service": 9,
    "_cli": 9,
    "__main__": 10,
    "__init__": 10,
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
            if top not in ranks:
                found.append(f'{where}: "{name}" is not written from csrc/')
            elif not (CSRC / name).exists() and GENERATED.exists():
                found.append(f'{where}: "{name}" does not exist')
            elif ranks[top] > ranks[folder]:
                found.append(
                    f"{where}: {folder} (rank {ranks[folder]}) includes {top} (rank {ranks[top]})"
                )
    return found


def _module_level(tree: ast.Module) -> list[ast.stmt]:
    """Statements that run on import; ``if TYPE_CHECKING`` bodies do not."""
    statements: list[ast.stmt] = []
    pending: list[ast.stmt] = list(tree.body)
    while pending:
        node = pending.pop()
        statements.append(node)
        if isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.dump(node.test):
            pending += node.body + node.orelse
        elif isinstance(node, ast.Try):
            pending += node.body + node.orelse + node.finalbody
            pending += [s for handler in node.handlers for s in handler.body]
        elif isinstance(node, ast.ClassDef):
            pending += node.body
    return statements


def _imported(node: ast.stmt, package: str) -> list[str]:
    """Dotted names of what the statement imports from shmtensor."""
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            parts = package.split(".")
            parts = parts[: len(parts) - node.level + 1]
            base = ".".join([*parts, base] if base else parts)
        if base == "shmtensor":
            names = [f"shmtensor.{alias.name}" for alias in node.names]
        else:
            names = [base]
    return [n for n in names if n.startswith("shmtensor.")]


def _rank(part: str) -> int:
    return PYTHON_RANKS.get(part, PYTHON_RANKS["core"])


def python_findings() -> list[str]:
    """Imports that point up, and modules that go round the boundary."""
    found = []
    for path in python_files("shmtensor"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        own = parts[0]
        package = ".".join(("shmtensor", *parts[:-1]))
        tree = ast.parse(path.read_text(), rel(path))
        for node in _module_level(tree):
            for name in _imported(node, package):
                other = name.split(".")[1]
                known = (PACKAGE / other).is_dir() or (PACKAGE / f"{other}.py").exists()
                if known and other != own and _rank(other) > _rank(own):
                    found.append(
                        f"{rel(path)}:{node.lineno}: {own} (rank {_rank(own)}) imports "
                        f"{other} (rank {_rank(other)})"
                    )
        if own == "_boundary":
            continue
        for inner in ast.walk(tree):
            if isinstance(inner, ast.ImportFrom) and (inner.module or "").endswith("_C"):
                bad = {alias.name for alias in inner.names} & {"ffi", "lib"}
            elif isinstance(inner, ast.Attribute) and inner.attr in ("ffi", "lib"):
                value = inner.value
                bad = (
                    {inner.attr}
                    if getattr(value, "id", getattr(value, "attr", "")) == "_C"
                    else set()
                )
            else:
                continue
            found += [
                f"{rel(path)}:{inner.lineno}: only _boundary may use {b}" for b in sorted(bad)
            ]
    return found


def check() -> list[str]:
    """All findings."""
    ranks = {name: i + 1 for i, name in enumerate(C_RANKS)}
    found = c_findings() + call_graph.findings(ranks) + python_findings()
    found += header_homes.findings() + layer_names.findings()
    return found + families.mirror_findings() + families.size_findings()


if __name__ == "__main__":
    main("check_layers", check)
