"""Every lock is one that a fork takes along: see Note [Mutexes across fork] in csrc/os/mutex.h.

C: mutexes, fork handlers and waits for the interpreter lock come from ``os/mutex.h`` and
``python/gil.h``; every rank is used. Python: locks come from ``shmtensor._core._fork_locks``, what
threads wait with from ``shmtensor._core._interrupts``.
"""

from __future__ import annotations

import ast
import re

from tree import CSRC, PACKAGE, c_files, main, python_files, rel

#: What only the named files may use, and the reason.
_C_RULES: dict[str, tuple[set[str], str]] = {
    r"pthread_mutex_\w+|PTHREAD_(?:\w+_)?MUTEX_INITIALIZER\w*|mtx_\w+": (
        {"os/mutex.h", "os/mutex.c"},
        "a mutex that no fork takes; use shmt__mutex",
    ),
    # The program's semaphores, in memory of its own; nothing here waits for one.
    r"pthread_(?:rwlock|spin|barrier)\w*|cnd_\w+|sem_\w+|atomic_flag\w*": (
        {"os/posix_names.c"},
        "a lock that no fork takes; use shmt__mutex",
    ),
    # The pool's hooks make its conditions anew in a child.
    r"pthread_cond_\w+": ({"iter/threads.c"}, "a condition that a child inherits with its waiters"),
    r"pthread_atfork": ({"os/mutex.c"}, "a fork handler beside the others; use SHMT_FORK_HOOKS"),
    r"PyGILState_Ensure|PyEval_RestoreThread|Py_(?:BEGIN|END)_ALLOW_THREADS": (
        {"python/gil.h"},
        "a wait for the interpreter lock that does not look for mutexes; use python/gil.h",
    ),
}
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)

_LOCKS = {"Barrier", "BoundedSemaphore", "Condition", "Event", "Lock", "RLock", "Semaphore"}
#: Of these, what blocks others when its method is interrupted: Note [Interrupted waits].
_WAITS = {"Barrier", "BoundedSemaphore", "Condition", "Event", "Semaphore"}
#: Files whose locks are as they are, and the reason.
_PYTHON_ALLOWED = {
    "shmtensor/_core/_fork_locks.py": "makes them",
    "shmtensor/_core/_interrupts.py": "makes what is given to free_in_child",
    "shmtensor/testing/_selftest/command.py": "an event of one call, in a program that never forks",
}


def _c_findings() -> list[str]:
    found = []
    sources = c_files(".c", ".h") + sorted((CSRC / "codegen").rglob("*.py"))
    for path in sources:
        name = path.relative_to(CSRC).as_posix()
        text = _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), path.read_text())
        for pattern, (allowed, says) in _C_RULES.items():
            if name in allowed:
                continue
            for match in re.finditer(rf"\b(?:{pattern})\b", text):
                line = text.count("\n", 0, match.start()) + 1
                found.append(f"{rel(path)}:{line}: {match.group()}: {says}")
    return found + _rank_findings()


def _rank_findings() -> list[str]:
    header = (CSRC / "os" / "mutex.h").read_text()
    ranks = re.findall(r"^  (SHMT_MUTEX_\w+),", header, re.M)
    users = "".join(p.read_text() for p in c_files(".c") if p.name != "mutex.c")
    return [
        f"csrc/os/mutex.h:1: no mutex is a {rank}"
        for rank in ranks
        if not re.search(rf"\b{rank}\b", users)
    ]


def _calls(node: ast.AST, module: str, names: set[str]) -> bool:
    func = node.func if isinstance(node, ast.Call) else None
    if not isinstance(func, ast.Attribute):
        return False
    return getattr(func.value, "id", "") == module and func.attr in names


def _makes_lock(node: ast.AST) -> bool:
    return _calls(node, "threading", _LOCKS) or _calls(node, "_thread", {"allocate_lock", "RLock"})


def _python_findings() -> list[str]:
    found = []
    for path in python_files("shmtensor"):
        if rel(path) in _PYTHON_ALLOWED:
            continue
        tree = ast.parse(path.read_text(), rel(path))
        given = {
            id(argument)
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "free_in_child"
            for part in node.args
            for argument in ast.walk(part)
        }
        found += [
            f"{rel(path)}:{node.lineno}: a lock that a forked child may find taken; use "
            "shmtensor._core._fork_locks"
            for node in ast.walk(tree)
            if (_makes_lock(node) and id(node) not in given)
            or (
                isinstance(node, ast.ImportFrom)
                and node.module in ("threading", "_thread")
                and {alias.name for alias in node.names} & (_LOCKS | {"allocate_lock"})
            )
        ]
        found += [
            f"{rel(path)}:{node.lineno}: a wait that an interrupt may leave blocked; use "
            "shmtensor._core._interrupts"
            for node in ast.walk(tree)
            if _calls(node, "threading", _WAITS)
        ]
    missing = [name for name in _PYTHON_ALLOWED if not (PACKAGE.parent / name).exists()]
    return found + [f"tools/check_locks.py:1: {name} does not exist" for name in missing]


def check() -> list[str]:
    """All findings."""
    return _c_findings() + _python_findings()


if __name__ == "__main__":
    main("check_locks", check)
