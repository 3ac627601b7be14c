"""Classes that answer calls themselves: the ``__torch_function__`` protocol.

A class with a ``__torch_function__`` of its own is asked whenever one of its objects is an argument
of a function, a method, an operator or a property of tensors. Methods, operators and properties of
such a subclass of `Tensor` are wrapped when the class is made, so plain tensors pay nothing.

A `TorchFunctionMode` is asked about all calls of its thread. While there is a mode in the process,
`Tensor` itself is wrapped.

Source:
    torch.overrides.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any

from shmtensor import _C
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


def _answers(kind: type) -> bool:
    """Whether a class answers calls itself, modes apart."""
    found = getattr(kind, "__torch_function__", None)
    if found is None or found is _C._disabled_torch_function_impl or _C._change_overrides_off(0):
        return False
    return getattr(found, "__func__", found) is not _default_answer


def _answerers(arguments: Iterable[Any]) -> list[Any]:
    """One argument of each class that answers; subclasses before their bases."""
    found: list[Any] = []
    for argument in arguments:
        kind = type(argument)
        if any(type(f) is kind for f in found) or not _answers(kind):
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


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Ask the innermost mode, and the arguments that answer calls themselves.

    Args:
        public_api: The function that was called.
        relevant_args: The arguments that may answer.
        *args: All positional arguments of the call.
        **kwargs: All keyword arguments.

    Returns:
        The first answer that is not NotImplemented.

    Raises:
        TypeError: There is none.

    Source:
        torch.overrides.handle_torch_function.
    """
    asked = _answerers(relevant_args)
    types = tuple(type(argument) for argument in asked)
    if _C._function_mode_depth():
        with _innermost_mode_off() as mode:
            result = mode.__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    calls = _asking.__dict__.setdefault("calls", [])
    call = (id(public_api), *map(id, args), *map(id, kwargs.values()))
    if call not in calls:
        calls.append(call)
        try:
            for argument in asked:
                result = argument.__torch_function__(public_api, types, args, kwargs)
                if result is not NotImplemented:
                    return result
        finally:
            calls.pop()
    # Asked again as it was: tensors of another library call the function, and hold no answer.
    name = f"{public_api.__module__}.{public_api.__name__}"
    raise TypeError(
        f"no implementation found for '{name}' on types that implement __torch_function__: "
        f"{list(types)}"
    )


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
    owner = getattr(func, "__self__", None)
    if isinstance(owner, (GetSetDescriptorType, MemberDescriptorType, property)):
        return True
    return getattr(Tensor, getattr(func, "__name__", ""), None) is func


def resolve_name(f: Callable[..., Any]) -> str | None:
    """Return the qualified name of a function or method, or None.

    Source:
        torch.overrides.resolve_name.
    """
    owner = getattr(f, "__self__", None)
    if isinstance(owner, (GetSetDescriptorType, MemberDescriptorType)):
        return f"shmtensor.Tensor.{owner.__name__}.{f.__name__}"
    if isinstance(owner, property):
        return f"shmtensor.Tensor.{getattr(owner.fget, '__name__', '?')}.{f.__name__}"
    name = getattr(f, "__name__", None)
    if name is None:
        return None
    return f"shmtensor.Tensor.{name}" if is_tensor_method_or_property(f) else f"shmtensor.{name}"


# --- subclasses ------------------------------------------------------------------------------

# What an operator is called when a class is asked about it, as in torch.
_OPERATOR_NAMES = {
    "__add__": "add",
    "__radd__": "add",
    "__iadd__": "add_",
    "__sub__": "sub",
    "__isub__": "sub_",
    "__mul__": "mul",
    "__rmul__": "mul",
    "__imul__": "mul_",
    "__truediv__": "div",
    "__itruediv__": "div_",
    "__matmul__": "matmul",
    "__pow__": "pow",
    "__neg__": "neg",
    "__abs__": "abs",
    "__invert__": "bitwise_not",
    "__eq__": "eq",
    "__ne__": "ne",
    "__lt__": "lt",
    "__le__": "le",
    "__gt__": "gt",
    "__ge__": "ge",
}
_OPERATORS = (
    *_OPERATOR_NAMES,
    *"""
    __rsub__ __rtruediv__ __floordiv__ __rfloordiv__ __ifloordiv__ __mod__ __rmod__ __imod__
    __rpow__ __ipow__ __rmatmul__ __pos__ __and__ __rand__ __iand__ __or__ __ror__ __ior__
    __xor__ __rxor__ __ixor__ __lshift__ __rlshift__ __ilshift__ __rshift__ __rrshift__
    __irshift__ __getitem__ __setitem__ __len__ __contains__ __iter__ __bool__ __int__
    __float__ __complex__ __index__ __repr__ __format__ __deepcopy__ __reversed__ __array__
    __reduce_ex__ __dlpack__
    """.split(),
)
_PROPERTIES = ("_base", "_version", "_backward_hooks")
# These look at the class itself, or make objects of it.
_NEVER = {"as_subclass", "new", "has_names"}


def _ask(self: Tensor, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    return handle_torch_function(function, (self, *args, *kwargs.values()), self, *args, **kwargs)


def _caught_method(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    public = _OPERATOR_NAMES.get(name, name)

    @functools.wraps(plain)
    def caught(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if _C._has_override(self, *args):
            return _ask(self, getattr(Tensor, public), args, kwargs)
        return plain(self, *args, **kwargs)

    caught._is_caught = True  # type: ignore[attr-defined]
    return caught


def _caught_property(name: str, plain: Any) -> property:
    def get(self: Tensor) -> Any:
        if _C._has_override(self):
            return _ask(self, getattr(Tensor, name).__get__, (), {})
        return plain.__get__(self)

    def set_to(self: Tensor, value: Any) -> None:
        if _C._has_override(self):
            _ask(self, getattr(Tensor, name).__set__, (value,), {})
        else:
            plain.__set__(self, value)

    def delete(self: Tensor) -> None:
        if _C._has_override(self):
            _ask(self, getattr(Tensor, name).__delete__, (), {})
        else:
            plain.__delete__(self)

    get.__name__ = name
    return property(get, set_to, delete, getattr(plain, "__doc__", None))


@functools.cache
def _catchable() -> dict[str, Any]:
    """What tensors have that a class may answer for: name -> how it is caught."""
    caught: dict[str, Any] = {}
    names = [n for n in dir(Tensor) if not n.startswith("_")]
    for name in (*names, *_PROPERTIES, *_OPERATORS):
        plain = _found_in_tensor(name)
        if plain is None or name in _NEVER or isinstance(plain, (staticmethod, classmethod)):
            continue
        is_property = isinstance(plain, (GetSetDescriptorType, MemberDescriptorType, property))
        if is_property:
            caught[name] = _caught_property(name, plain)
        elif callable(plain):
            caught[name] = _caught_method(name, plain)
    return caught


def _found_in_tensor(name: str) -> Any:
    for base in (Tensor, _C._TensorBase):
        if name in base.__dict__:
            return base.__dict__[name]
    return None


def catch_everything(cls: type[Tensor]) -> None:
    """Let a new subclass with a ``__torch_function__`` of its own be asked about everything.

    Only what the class and its Python bases inherit from `Tensor` is wrapped; their own methods
    stay.
    """
    for name, caught in _catchable().items():
        owner = next(base for base in cls.__mro__ if name in base.__dict__)
        if owner in (Tensor, _C._TensorBase):
            setattr(cls, name, caught)


from shmtensor._core._function_modes import *  # noqa: E402,F403 - it asks this module
from shmtensor._core._function_modes import __all__ as _modes  # noqa: E402

__all__ += _modes

_C._set_torch_function(_default_answer, _C._disabled_torch_function_impl, (_C, _C._nn))
