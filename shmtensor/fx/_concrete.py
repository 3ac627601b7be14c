"""Arguments of a traced function: proxies, and values for which the function is specialized.

Source:
    torch.fx.symbolic_trace, its ``concrete_args``.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor._core._checks import _assert
from shmtensor.utils import _pytree as pytree

from .graph import _PyTreeCodeGen, _PyTreeInfo
from .node import base_types

if TYPE_CHECKING:
    from ._symbolic_trace import Tracer

__all__ = ["PH", "PHBase", "PHWithMeta", "arguments_of"]


class PHBase:
    """Stands in ``concrete_args`` for what the graph takes as an argument."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """A `PH` whose attributes the argument's node gets.

    Args:
        ph_key: What it is known by.
    """

    def __init__(self, ph_key: str | None = None) -> None:
        super().__init__()
        self.ph_key = ph_key


def _assert_is_none(value: Any, msg: str) -> None:
    if value is not None:
        raise AssertionError(msg)


def arguments_of(
    tracer: Tracer, function: Callable[..., Any], is_module: bool, concrete: Any = None
) -> tuple[Callable[..., Any], list[Any]]:
    """Add the placeholders of a function's arguments.

    Args:
        tracer: Its graph gets them.
        function: A Python function.
        is_module: Whether its first argument is the module.
        concrete: Values of arguments: by name, or a tuple in their order.

    Returns:
        What to call, and with what: proxies, and those values.

    Raises:
        RuntimeError: The module itself would be one of ``*args``, or the tuple has another length.
    """
    plain: Any = inspect.unwrap(function)
    code = plain.__code__
    names = [*code.co_varnames]
    total = code.co_argcount + code.co_kwonlyargcount
    args: list[Any] = []
    taken: list[str] = []
    start = 0
    if is_module:
        if total == 0:
            raise RuntimeError("``self`` argument cannot be part of *args expansion!")
        start, args, taken = 1, [tracer.root], ["self"]
    if isinstance(concrete, tuple):
        if len(concrete) != total - start:
            raise RuntimeError(
                f"Tracing expected {total - start} arguments but got {len(concrete)} concrete "
                "arguments"
            )
        concrete = dict(zip(names[start:total], concrete, strict=True))
    signature = inspect.signature(plain)
    for name in names[start:total]:
        args.append(_argument(tracer, name, concrete or {}, signature))
        taken.append(name)
    has_rest = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    if code.co_kwonlyargcount or has_rest:
        rest = names[total:]
        if code.co_flags & inspect.CO_VARARGS:
            args.append(tracer._proxy_placeholder(f"*{rest.pop(0)}", {}, signature, plain))
        if code.co_flags & inspect.CO_VARKEYWORDS:
            args.append(tracer._proxy_placeholder(f"**{rest.pop(0)}", {}, signature, plain))
        function = _taking_all_by_position(plain, len(args))
    leaves, spec = pytree.tree_flatten(tuple(args))
    if all(child.is_leaf() for child in spec.children()):
        return function, args
    return _on_leaves(tracer, function, taken, spec), leaves


def _taking_all_by_position(function: Any, count: int) -> Callable[..., Any]:
    """The function with proxies for its ``*args`` and ``**kwargs`` themselves."""
    code = function.__code__
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    plain = code.replace(
        co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=flags
    )
    return FunctionType(
        plain, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )


def _on_leaves(
    tracer: Tracer, function: Callable[..., Any], names: list[str], spec: Any
) -> Callable[..., Any]:
    """A function of the leaves of all arguments that returns the leaves of its result."""
    in_spec = spec
    if names and names[0] == "self":  # the module is no argument of the code
        in_spec = pytree.treespec_tuple(spec.children()[1:])
    tracer.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(names, in_spec, None))

    def call(*leaves: Any) -> list[Any]:
        result = function(*pytree.tree_unflatten([*leaves], spec))
        given, out_spec = pytree.tree_flatten(result)
        codegen = tracer.graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
        return given

    return call


def _argument(
    tracer: Tracer, name: str, concrete: dict[str, Any], signature: inspect.Signature
) -> Any:
    """The proxy or value of one argument."""
    if name not in concrete:
        return tracer._proxy_placeholder(name, concrete, signature, None)
    count = 0

    def replace(value: Any) -> Any:
        nonlocal count
        count += 1
        proxy = tracer.create_proxy("placeholder", f"{name}_{count}", _default(name, signature), {})
        if isinstance(value, PHBase):
            if value is not PH:
                for key, note in vars(value).items():
                    if not hasattr(proxy.node, key):
                        setattr(proxy.node, key, note)
            return proxy
        _check_later(tracer, proxy, name, value)
        return value

    return pytree.tree_map(replace, concrete[name])


def _check_later(tracer: Tracer, proxy: Any, name: str, value: Any) -> None:
    """Let the graph check that an argument is what the function was specialized for."""
    msg = f"{name} has been specialized to have value {value} but got another value"
    is_tensor = isinstance(value, shmtensor.Tensor)
    if isinstance(value, bool) or (type(value) in base_types and not is_tensor):
        _assert(proxy == value, msg)
    elif value is None:
        tracer.create_proxy("call_function", _assert_is_none, (proxy, msg), {})
    else:
        warnings.warn(
            f"Was not able to add assertion to guarantee correct input {name} to specialized "
            "function. It is up to the user to make sure that your inputs match the inputs you "
            "specialized the function with.",
            stacklevel=2,
        )


def _default(name: str, signature: inspect.Signature) -> tuple[Any, ...]:
    """The default of an argument, as the arguments of its placeholder."""
    parameter = signature.parameters.get(name)
    if parameter is None or parameter.default is inspect.Parameter.empty:
        return ()
    return (parameter.default,)
