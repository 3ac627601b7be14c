"""Marks that TorchScript's compiler reads; there is none here, and functions run as they are.

Source:
    torch._jit_internal.
"""

from __future__ import annotations

import builtins
import contextlib
import threading
import typing
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from shmtensor.futures import Future

__all__ = [
    "BroadcastingList1",
    "BroadcastingList2",
    "BroadcastingList3",
    "Final",
    "FunctionModifiers",
    "Future",
    "boolean_dispatch",
    "export",
    "ignore",
    "is_scripting",
    "is_tracing",
    "unused",
]

F = TypeVar("F")


def is_scripting() -> bool:
    """Return whether this code was compiled by TorchScript: False."""
    return False


class TracingState:
    """A trace that is being recorded: programs ask only whether there is one."""


class _Traces(threading.local):
    """The traces that one thread records, one inside another."""

    def __init__(self) -> None:
        self.states: list[TracingState] = []


_traces = _Traces()


def tracing_state() -> TracingState | None:
    """Return the innermost trace that this thread records, in `jit.trace`; None: none."""
    return _traces.states[-1] if _traces.states else None


def is_tracing() -> bool:
    """Return whether this thread records a trace, in `jit.trace`."""
    return tracing_state() is not None


@contextlib.contextmanager
def tracing() -> Iterator[None]:
    """Let `is_tracing` be True in a block."""
    _traces.states.append(TracingState())
    try:
        yield
    finally:
        _traces.states.pop()


# --- marks of functions --------------------------------------------------------------------------


class FunctionModifiers:
    """What a mark says of a function."""

    UNUSED = "unused (ignored and replaced with raising of an exception)"
    IGNORE = "ignore (leave as a call to Python, cannot be torch.jit.save'd)"
    EXPORT = "export (compile this function even if nothing calls it)"
    DEFAULT = "default (compile if called from a exported function / forward)"
    COPY_TO_SCRIPT_WRAPPER = (
        "if this method is not scripted, copy the python method onto the scripted model"
    )
    _DROP = "_drop (function is fully ignored, declaration can be unscriptable)"


def _mark(fn: Any, modifier: str) -> Any:
    target: Any = fn.fget if isinstance(fn, property) else fn
    target._torchscript_modifier = modifier
    return fn


def export(fn: F) -> F:
    """Mark a method as one to compile; returns it."""
    marked: F = _mark(fn, FunctionModifiers.EXPORT)
    return marked


def unused(fn: F) -> F:
    """Mark a method or property as one that compiled code does not call; returns it."""
    marked: F = _mark(fn, FunctionModifiers.UNUSED)
    return marked


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Mark a function as one that is not compiled; returns it, or a decorator.

    Args:
        drop: The function, or whether compiled code may not even call it.
        **kwargs: Accepted.

    Raises:
        RuntimeError: *drop* is neither.
    """
    if callable(drop):
        return _mark(drop, FunctionModifiers.IGNORE)
    if not isinstance(drop, bool):
        raise RuntimeError(
            f"Argument to @torch.jit.ignore must be a bool or a function but got {drop}"
        )
    modifier = FunctionModifiers.UNUSED if drop else FunctionModifiers.IGNORE
    return lambda function: _mark(function, modifier)


def _drop(fn: F) -> F:
    marked: F = _mark(fn, FunctionModifiers._DROP)
    return marked


def _copy_to_script_wrapper(fn: F) -> F:
    marked: F = _mark(fn, FunctionModifiers.COPY_TO_SCRIPT_WRAPPER)
    return marked


def get_torchscript_modifier(fn: Any) -> str:
    """Return what a mark says of a function."""
    fn = getattr(fn, "__func__", fn)
    return str(getattr(fn, "_torchscript_modifier", FunctionModifiers.DEFAULT))


def is_ignored_fn(fn: Any) -> bool:
    """Return whether a function is marked as one that is not compiled."""
    skipped = (FunctionModifiers.UNUSED, FunctionModifiers.IGNORE, FunctionModifiers._DROP)
    return get_torchscript_modifier(fn) in skipped


def _overload(func: F) -> F:
    """Mark a declaration of one of several signatures; returns it."""
    return func


def _overload_method(func: F) -> F:
    """Mark a declaration of one of several signatures of a method; returns it."""
    return func


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable[..., Any],
    if_false: Callable[..., Any],
    module_name: str | None = None,
    func_name: str | None = None,
) -> Callable[..., Any]:
    """Return a function that calls one of two, as an argument says.

    Args:
        arg_name: The argument.
        arg_index: Its position.
        default: What it is when it is left out.
        if_true: Is called where it is True.
        if_false: Is called where it is False.
        module_name: Where the function says that it is from.
        func_name: What it says that it is called.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        flag = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return (if_true if flag else if_false)(*args, **kwargs)

    call.__doc__ = if_true.__doc__ or if_false.__doc__
    if module_name is not None:
        call.__module__ = module_name
    if func_name is not None:
        call.__name__ = func_name
    return call


# --- types ---------------------------------------------------------------------------------------


class BroadcastingListCls:
    """For annotations of a number or a list of them: ``BroadcastingList2[int]``."""

    def __getitem__(self, types: Any) -> None:
        return None


BroadcastingList1 = BroadcastingListCls()
BroadcastingList2 = BroadcastingListCls()
BroadcastingList3 = BroadcastingListCls()
BroadcastingList4 = BroadcastingListCls()
BroadcastingList5 = BroadcastingListCls()
BroadcastingList6 = BroadcastingListCls()


def is_tuple(ann: Any) -> bool:
    """Return whether an annotation is of a tuple."""
    return typing.get_origin(ann) is tuple or ann is tuple


def is_list(ann: Any) -> bool:
    """Return whether an annotation is of a list."""
    return typing.get_origin(ann) is list or ann is list


def is_dict(ann: Any) -> bool:
    """Return whether an annotation is of a dict."""
    return typing.get_origin(ann) is dict or ann is dict


def is_union(ann: Any) -> bool:
    """Return whether an annotation is of one of several types."""
    from types import UnionType

    return typing.get_origin(ann) in (typing.Union, UnionType)


def is_optional(ann: Any) -> bool:
    """Return whether an annotation allows None beside one other type."""
    return is_union(ann) and len(ann.__args__) == 2 and type(None) in ann.__args__


def is_future(ann: Any) -> bool:
    """Return whether an annotation is of a `futures.Future`."""
    return typing.get_origin(ann) is Future or ann is Future


def is_final(ann: Any) -> bool:
    """Return whether an annotation is of something that stays as it is."""
    return typing.get_origin(ann) is Final or ann is Final


def _isinstance(obj: Any, target_type: Any) -> bool:
    """Return whether an object is of a type, and what it holds of the types inside that.

    Args:
        obj: Any object.
        target_type: A type, a tuple of types, or an annotation such as ``list[int]``.

    Raises:
        RuntimeError: A container's type does not say what it holds.

    Source:
        torch.jit.isinstance.
    """
    if isinstance(target_type, tuple):
        return any(_isinstance(obj, each) for each in target_type)
    if target_type is Any:
        return True
    origin, inner = typing.get_origin(target_type), typing.get_args(target_type)
    if origin is None:
        if target_type in (list, dict, tuple, typing.List, typing.Dict, typing.Tuple):  # noqa: UP006
            name = getattr(target_type, "__name__", str(target_type)).capitalize()
            raise RuntimeError(
                f"Attempted to use {name} without a contained type. Please add a contained type, "
                f"e.g. {name}[int]"
            )
        return isinstance(obj, type(None) if target_type is None else target_type)
    if is_union(target_type):
        return any(_isinstance(obj, each) for each in inner)
    if not isinstance(obj, origin):
        return False
    if origin is list:
        return all(_isinstance(each, inner[0]) for each in obj)
    if origin is dict:
        return all(_isinstance(k, inner[0]) and _isinstance(v, inner[1]) for k, v in obj.items())
    if origin is tuple:
        pairs = builtins.list(zip(obj, inner, strict=False))
        return len(obj) == len(inner) and all(_isinstance(each, kind) for each, kind in pairs)
    return True


def _qualified_name(obj: Any, mangle_name: bool = True) -> str:
    """Return the name of a class or function with that of its module."""
    return f"{obj.__module__}.{obj.__qualname__}"
