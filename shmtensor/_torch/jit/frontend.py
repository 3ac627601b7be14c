"""What a script cannot be made of, found in the code of functions.

`script` gives back what it is given. It refuses what TorchScript has no meaning for, so that a
program which would not compile elsewhere does not seem to here.

Source:
    torch.jit.frontend.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

from shmtensor.errors import ShmTensorError

__all__ = ["FrontendError", "NotSupportedError", "UnsupportedNodeError", "check_function"]


class FrontendError(ShmTensorError):
    """The code of a function cannot be scripted."""


class NotSupportedError(FrontendError):
    """A function has something that scripts do not have."""


class UnsupportedNodeError(NotSupportedError):
    """A function has a statement or expression that scripts do not have."""


_UNSUPPORTED: tuple[tuple[tuple[type[ast.AST], ...], str], ...] = (
    ((ast.FunctionDef, ast.AsyncFunctionDef), "function definitions"),
    ((ast.ClassDef,), "class definitions"),
    ((ast.Try,), "try blocks"),
    ((ast.Global,), "global variables"),
    ((ast.Nonlocal,), "nonlocal variables"),
    ((ast.Yield, ast.YieldFrom), "Yield"),
    ((ast.Await,), "Await"),
    ((ast.AsyncFor, ast.AsyncWith), "async statements"),
    ((ast.Import, ast.ImportFrom), "import statements"),
)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below one, without those that only run where nothing is scripted."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "is_scripting" in ast.unparse(child.test):
            continue
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _walk(child)


def _wrong_super(node: ast.AST) -> str | None:
    """What is wrong with looking something up in the parent class; None for other nodes."""
    if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call)):
        return None
    called = node.value.func
    if not (isinstance(called, ast.Name) and called.id == "super"):
        return None
    if node.value.args:
        return "Python type cannot be used as a value"
    return f"'Tensor' object has no attribute or method '{node.attr}'."


def check_function(function: Any) -> None:
    """Raise if a function has what scripts do not have.

    Raises:
        OSError: Its source is not to be found.
        RuntimeError: The source is not that of one function, or the function uses what ``super()``
            has.
        NotSupportedError: It takes any number of arguments.
        UnsupportedNodeError: It has a statement or expression of a kind that scripts lack.
    """
    try:
        lines, first = inspect.getsourcelines(function)
    except OSError as error:
        raise OSError(
            f"Can't get source for {function}. TorchScript requires source access in order to "
            "carry out compilation, make sure original .py files are available."
        ) from error
    place = f"{inspect.getsourcefile(function)}:{first}"
    try:
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except SyntaxError:
        raise RuntimeError(f"Expected a single top-level function: {place}") from None
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        raise RuntimeError(f"Expected a single top-level function: {place}")
    definition = tree.body[0]
    where = inspect.getsourcefile(function)
    given = definition.args
    if given.vararg or given.kwarg or any(default is not None for default in given.kw_defaults):
        raise NotSupportedError(
            "Compiled functions can't take variable number of arguments or use keyword-only "
            f'arguments with defaults:\n  File "{where}", line {first}, in {function.__name__}'
        )
    for node in _walk(ast.Module(definition.body, [])):
        line = first + getattr(node, "lineno", 1) - 1
        wrong = _wrong_super(node)
        if wrong is not None:
            raise RuntimeError(
                f'\n{wrong}:\n  File "{where}", line {line}, in {function.__name__}\n'
                f"    {ast.unparse(node)}"
            )
        for kinds, what in _UNSUPPORTED:
            if isinstance(node, kinds):
                raise UnsupportedNodeError(
                    f'{what} aren\'t supported:\n  File "{where}", line {line}, in '
                    f"{function.__name__}\n    {ast.unparse(node).splitlines()[0]}"
                )
