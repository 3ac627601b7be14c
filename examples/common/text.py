"""Text that is installed with Python: the source of its standard library and the prose in it."""

from __future__ import annotations

import ast
import collections
import re
import sysconfig
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from common.data import DataError

__all__ = [
    "help_topics",
    "installed_packages",
    "prose",
    "python_files",
    "read_texts",
    "source",
    "standard_library",
    "standard_library_files",
    "text_files",
]

_TEXT = {".md", ".py", ".rst", ".txt"}

_NOT_OURS = {"test", "tests", "idle_test", "lib2to3", "site-packages", "dist-packages"}
_COMMENT = re.compile(r"^[ \t]*#[ \t]?(.*)$", re.MULTILINE)
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def standard_library() -> Path:
    """The folder of Python's own modules."""
    return Path(sysconfig.get_paths()["stdlib"])


def installed_packages() -> Path:
    """The folder of installed packages."""
    return Path(sysconfig.get_paths()["purelib"])


def python_files(folder: Path) -> list[Path]:
    """Python files under a folder, in the order of their names, without tests.

    Raises:
        DataError: There are none.
    """
    found = [
        path
        for path in sorted(folder.rglob("*.py"))
        if not _NOT_OURS.intersection(path.relative_to(folder).parts[:-1]) and path.is_file()
    ]
    if not found:
        raise DataError(f"{folder}: no Python files there")
    return found


def source(files: Iterable[Path]) -> Iterator[str]:
    """The text of each file that is UTF-8."""
    for path in files:
        try:
            yield path.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            continue


def prose(files: Iterable[Path]) -> Iterator[str]:
    """What people wrote for people: of each file its docstrings, then its comments."""
    for text in source(files):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of what the files do
                tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            continue
        for node in _statements(tree):
            if isinstance(node, _DOCUMENTED):
                found = ast.get_docstring(node, clean=False)
                if found:
                    yield found
        comments = "\n".join(_COMMENT.findall(text))
        if comments:
            yield comments


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """As `ast.walk`, without expressions: they are most of a tree, and define nothing."""
    found: collections.deque[ast.AST] = collections.deque([tree])
    while found:
        node = found.popleft()
        found.extend(n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.expr))
        yield node


def help_topics() -> Iterator[str]:
    """What ``help("TOPIC")`` says about the language; not all installations have it."""
    try:
        from pydoc_data.topics import topics
    except ImportError:
        return
    yield from topics.values()


def standard_library_files() -> list[Path]:
    """Python's own modules."""
    return python_files(standard_library())


def text_files(path: Path) -> list[Path]:
    """A file, or the plain text and Python files of a folder.

    Raises:
        DataError: There are none.
    """
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if path.is_file():
        return [path]
    files = sorted(p for p in path.rglob("*") if p.suffix in _TEXT and p.is_file())
    if not files:
        raise DataError(f"{path}: no {', '.join(sorted(_TEXT))} files there")
    return files


def read_texts(path: Path) -> Iterator[str]:
    """The texts of a file or a folder: of Python files their prose, and plain text as it is.

    Raises:
        DataError: There are none.
    """
    files = text_files(path)
    yield from source(file for file in files if file.suffix != ".py")
    yield from prose(file for file in files if file.suffix == ".py")
