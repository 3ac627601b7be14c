"""Classes that answer calls themselves: the ``__torch_function__`` protocol.

A class with a ``__torch_function__`` of its own is asked whenever one of its objects is an argument
of a function, a method, an operator or a property of tensors. A `TorchFunctionMode` is asked about
all calls of its thread.

Every call looks at the classes of its arguments: operators in csrc/python/call/overrides.c, other
methods and properties in csrc/python/overridable/methods.c, functions in Python by `overridable`.
Who answers gets what the user called.

Source:
    torch.overrides.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from numbers import Number
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any

from shmtensor import _C
from shmtensor._core._overridable import with_defaults
from shmtensor._core._tensor import Tensor, _default_answer
from shmtensor._core._without_overrides import DisableTorchFunctionSubclass

__all__ = [
    "DisableTorchFunctionSubclass",
    "get_default_nowrap_functions",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]

has_torch_function_variadic = _C._has_override
has_torch_function_unary = _C._has_override


# --- the default answer ----------------------------------------------------------------------


@functools.cache
def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """Return the functions whose results the default ``__torch_function__`` leaves as they are.

    Source:
        torch.overrides.get_default_nowrap_functions.
    """
    return {Tensor._base.__get__, Tensor.grad.__get__}


def _as_class(result: Any, cls: type[Tensor]) -> Any:
    """The result with its tensors as instances of *cls*."""
    if isinstance(result, Tensor) and not isinstance(result, cls):
        return result.as_subclass(cls)
    if isinstance(result, (tuple, list)):
        items = [_as_class(item, cls) for item in result]
        is_named = hasattr(result, "_fields") or hasattr(result, "n_sequence_fields")
        if isinstance(result, tuple) and is_named and not hasattr(result, "_fields"):
            return type(result)(items)
        return type(result)(*items) if is_named else type(result)(items)
    return result


def answer_as(
    cls: type[Tensor],
    func: Callable[..., Any],
    types: Iterable[type],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Answer as `Tensor.__torch_function__` does: compute plainly, and keep the class."""
    if not all(issubclass(cls, each) for each in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = _C._disabled_torch_function_impl(func, types, args, kwargs)
        return result if func in get_default_nowrap_functions() else _as_class(result, cls)


# --- asking from Python ----------------------------------------------------------------------


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Return whether one of the arguments answers calls itself.

    Source:
        torch.overrides.has_torch_function.
    """
    return bool(_C._has_override(*relevant_args))


def _answers(kind: type, with_tensors: bool) -> bool:
    """Whether a class answers calls itself, modes apart; Tensor does by keeping the class."""
    found = getattr(kind, "__torch_function__", None)
    if found is None or found is _C._disabled_torch_function_impl or _C._change_overrides_off(0):
        return False
    return with_tensors or getattr(found, "__func__", found) is not _default_answer


def _answerers(arguments: Iterable[Any], with_tensors: bool) -> list[Any]:
    """One argument of each class that answers; subclasses before their bases."""
    found: list[Any] = []
    for argument in arguments:
        kind = type(argument)
        if any(type(f) is kind for f in found) or not _answers(kind, with_tensors):
            continue
        at = next((i for i, f in enumerate(found) if issubclass(kind, type(f))), len(found))
        found.insert(at, argument)
    return found


@contextlib.contextmanager
def _innermost_mode_off() -> Iterator[Any]:
    """The innermost mode of this thread, off the stack for a block."""
    mode = _C._pop_function_mode()
    try:
        yield mode
    finally:
        _C._push_function_mode(mode)


#: ``calls``: the calls of this thread that are being asked about, by the identity of their parts.
_asking = threading.local()


def ask(
    function: Callable[..., Any],
    relevant: Iterable[Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    with_tensors: bool,
    if_again: Any = None,
) -> Any:
    """Ask the innermost mode, and the arguments that answer calls themselves.

    Args:
        function: What was called.
        relevant: The arguments that may answer.
        args: All positional arguments of the call.
        kwargs: All keyword arguments.
        with_tensors: Whether plain tensors are among those who answer, as they are to functions
            that torch has in Python.
        if_again: Is returned, when it is not None, where the classes were asked and make the same
            call: tensors of another library do so, and hold no answer.

    Returns:
        The first answer that is not NotImplemented.

    Raises:
        TypeError: There is none.
    """
    asked = _answerers(relevant, with_tensors)
    types = tuple(type(argument) for argument in asked)
    refused = None
    if _C._function_mode_depth():
        with _innermost_mode_off() as refused:
            result = refused.__torch_function__(function, types, args, kwargs)
        if result is not NotImplemented:
            return result
    calls = _asking.__dict__.setdefault("calls", [])
    call = (id(function), *map(id, args), *map(id, kwargs.values()))
    if call not in calls:
        calls.append(call)
        try:
            for argument in asked:
                result = argument.__torch_function__(function, types, args, kwargs)
                if result is not NotImplemented:
                    return result
        finally:
            calls.pop()
    elif if_again is not None:
        return if_again
    raise TypeError(_nobody_answers(function, types, refused))


def _nobody_answers(function: Callable[..., Any], types: tuple[type, ...], mode: Any) -> str:
    name = _torch_name(function)
    if isinstance(function, FunctionType):
        text = (
            f"no implementation found for '{name}' on types that implement __torch_function__: "
            f"{list(types)}"
        )
        return text if mode is None else f"{text} nor in mode {mode}"
    lines = [f"  - tensor subclass {kind}" for kind in types]
    if mode is not None:
        lines.insert(0, f"  - mode object {mode}")
    return (
        f"Multiple dispatch failed for '{name}'; all __torch_function__ handlers returned "
        "NotImplemented:\n\n" + "\n".join(lines)
    )


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Ask the innermost mode, and the arguments that answer calls themselves.

    Args:
        public_api: The function that was called.
        relevant_args: The arguments that may answer; tensors do, by keeping their class.
        *args: All positional arguments of the call.
        **kwargs: All keyword arguments.

    Returns:
        The first answer that is not NotImplemented.

    Raises:
        TypeError: There is none.

    Source:
        torch.overrides.handle_torch_function.
    """
    return ask(public_api, relevant_args, args, kwargs, with_tensors=True)


# Methods of operators that torch has in Python, where plain tensors count as classes that answer.
_IN_PYTHON = set(
    """
    __floordiv__ __rfloordiv__ __rsub__ __rtruediv__ __rmod__ __rpow__ __rmatmul__ __rlshift__
    __rrshift__ __contains__ __pow__ __ipow__
""".split()
)
# Of these nobody else may answer.
_OF_ONE = {"__contains__", "__eq__"}


def _are_operands(name: str, values: tuple[Any, ...]) -> bool:
    """Whether an operator takes the values at all; else no class is asked."""
    kinds = (Tensor,) if name == "matmul" else (Tensor, Number)
    return all(isinstance(value, kinds) or _C._has_override(value) for value in values)


def _answer_operator(method: Callable[..., Any], *args: Any) -> Any:
    """Ask about an operator or an index. An operator that nobody answers is left to Python."""
    name = method.__name__
    if name in ("__getitem__", "__setitem__"):
        again = NotImplemented
        return ask(method, all_within(args), args, {}, with_tensors=False, if_again=again)
    if name == "__eq__" and not _C._has_override(args[0]):
        method = Tensor.eq
    relevant = args[:1] if method.__name__ in _OF_ONE else args
    with_tensors = name in _IN_PYTHON
    if not with_tensors and name not in _OF_ONE and not _are_operands(name, args):
        return NotImplemented
    try:
        return ask(method, relevant, args, {}, with_tensors=with_tensors)
    except TypeError:
        if len(args) == 1 or name == "__contains__":
            raise
        return NotImplemented


# Names of the same method; a class is asked about the latter.
_SAME = {"_grad": "grad", "_grad_fn": "grad_fn", "ndimension": "dim", "nelement": "numel"}


def _hand_backward_over(
    self: Tensor,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> Any:
    named = {"gradient": gradient, "retain_graph": retain_graph, "create_graph": create_graph}
    return (self,), {**named, "inputs": inputs}


def _hand_dlpack_over(
    self: Tensor,
    *,
    stream: Any = -1,
    max_version: Any = None,
    dl_device: Any = None,
    copy: bool | None = None,
) -> Any:
    named = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
    return (self,), named


def _hand_self_over(*args: Any) -> Any:
    return args, {}


# Methods that torch has in Python: only self answers, and gets what this makes of the arguments.
_OF_SELF: dict[str, Callable[..., Any]] = {
    "backward": _hand_backward_over,
    "__dlpack__": _hand_dlpack_over,
    "register_hook": _hand_self_over,
    "register_post_accumulate_grad_hook": _hand_self_over,
    "is_shared": _hand_self_over,
    "share_memory_": _hand_self_over,
}


def _answer_method(method: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
    """Ask about a method of C, or an access to a property."""
    name = method.__name__
    if name in ("__get__", "__set__", "__delete__"):
        public = _SAME.get(method.__self__.__name__)
        if public is not None:
            method = getattr(getattr(Tensor, public), name)
        return ask(method, args[:1], args, {}, with_tensors=False)
    if name in _SAME:
        method = getattr(Tensor, _SAME[name])
    if name in _OF_SELF:
        return ask(method, args[:1], *_OF_SELF[name](*args, **(kwargs or {})), with_tensors=True)
    relevant = all_within((*args, *(kwargs or {}).values()))
    return ask(method, relevant, args, kwargs or {}, with_tensors=False)


def _split(tensor: Any, split_size_or_sections: Any, dim: int = 0) -> None: ...


def _split_method(self: Any, split_size: Any, dim: int = 0) -> None: ...


def _pad(input: Any, pad: Any, mode: str = "constant", value: Any = None) -> None: ...


def _as_signature_says(
    signature: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a function in Python hands over; all as given if the names are not torch's."""
    try:
        return with_defaults(signature, args, kwargs)
    except TypeError:
        return args, kwargs


#: Operators that torch has in Python, and their signature there.
_RULES = {
    function: functools.partial(_as_signature_says, signature)
    for function, signature in [
        (_C.split, _split),
        (Tensor.split, _split_method),
        (_C._nn.pad, _pad),
    ]
}


def all_within(arguments: Iterable[Any], depth: int = 0) -> Iterator[Any]:
    """The arguments, and what lists and tuples among them hold."""
    for argument in arguments:
        if isinstance(argument, (tuple, list)) and depth < 8:  # a list may hold itself
            yield from all_within(argument, depth + 1)
        else:
            yield argument


def wrap_torch_function(
    dispatcher: Callable[..., Iterable[Any]],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function so that its arguments may answer its calls.

    Args:
        dispatcher: Takes the function's arguments and returns those that may answer.

    Source:
        torch.overrides.wrap_torch_function.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


# --- names -----------------------------------------------------------------------------------


def is_tensor_like(inp: Any) -> bool:
    """Return whether *inp* is a tensor or a class of objects that answer for tensors.

    Source:
        torch.overrides.is_tensor_like.
    """
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Return whether *func* is a method of `Tensor`, or ``__get__``/``__set__`` of a property.

    Source:
        torch.overrides.is_tensor_method_or_property.
    """
    if getattr(func, "__name__", "") in ("__get__", "__set__", "__delete__"):
        owner = getattr(func, "__self__", None)
        return isinstance(owner, (GetSetDescriptorType, MemberDescriptorType, property))
    return getattr(Tensor, getattr(func, "__name__", ""), None) is func


def resolve_name(f: Callable[..., Any]) -> str | None:
    """Return the qualified name of a function or method, or None when it cannot be overridden.

    Source:
        torch.overrides.resolve_name.
    """
    return names_of_functions().get(f) if isinstance(f, Hashable) else None


def _torch_name(function: Callable[..., Any]) -> str:
    """What messages call a function: its name in torch."""
    name = resolve_name(function)
    if name is None:
        return f"{getattr(function, '__module__', None)}.{getattr(function, '__name__', function)}"
    return name.replace("shmtensor", "torch", 1)


from shmtensor._core._function_modes import *  # noqa: E402,F403 - it asks this module
from shmtensor._core._function_modes import __all__ as _modes  # noqa: E402
from shmtensor._core._function_modes import names_of_functions  # noqa: E402

__all__ += _modes

_C._set_torch_function(
    _default_answer,
    _C._disabled_torch_function_impl,
    _answer_operator,
    _answer_method,
    (_C, _C._nn),
    _RULES,
)
