"""Python objects and classes that answer operators: ``__torch_dispatch__``.

A mode sees every operator call of its thread. A subclass of Tensor with a ``__torch_dispatch__`` is
asked about calls with one of its tensors: docs/subclasses.md says how one is written, ADR 0083 how
calls get there.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, NamedTuple

from shmtensor import _C
from shmtensor._core._dispatch_keys import DisableTorchDispatch
from shmtensor._core._ops import OpOverload
from shmtensor._core._tensor import Tensor

__all__ = [
    "AliasInfo",
    "SchemaInfo",
    "TorchDispatchMode",
    "get_alias_info",
    "is_in_torch_dispatch_mode",
    "is_traceable_wrapper_subclass",
    "is_traceable_wrapper_subclass_type",
    "return_and_correct_aliasing",
    "transform_subclass",
]


class TorchDispatchMode:
    """A context in which ``__torch_dispatch__`` gets every operator call of this thread.

    Subclasses override ``__torch_dispatch__(self, func, types, args, kwargs)`` and mostly end in
    ``return func(*args, **kwargs)``, which goes on to the next mode out, or to the kernels.
    ``NotImplemented`` leaves the answer to the classes of the arguments.

    Source:
        torch.utils._python_dispatch.TorchDispatchMode.
    """

    def __torch_dispatch__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """See a call, and answer it. Must be overridden.

        Args:
            func: The operator; calling it goes on.
            types: The classes of the arguments that answer operators, too.
            args: The positional arguments, without trailing ones that are defaults.
            kwargs: The keyword-only arguments that are not defaults.
        """
        raise NotImplementedError(f"{type(self).__name__} has no __torch_dispatch__")

    def __enter__(self) -> Any:
        _C._push_dispatch_mode(self)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _C._pop_dispatch_mode()


DispatchMode = TorchDispatchMode


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Return whether a mode of this thread sees calls.

    Args:
        include_infra_modes: Taken for torch's sake: there are no modes of other kinds.

    Source:
        torch.utils._python_dispatch.is_in_torch_dispatch_mode.
    """
    return bool(_C._dispatch_mode_depth())


def _take_modes() -> list[Any]:
    """Take all modes off this thread's stack; the outermost is first."""
    return [_C._pop_dispatch_mode() for _ in range(_C._dispatch_mode_depth())][::-1]


def _get_current_dispatch_mode_stack() -> list[Any]:
    """Return the modes of this thread, the outermost first."""
    modes = _take_modes()
    for mode in modes:
        _C._push_dispatch_mode(mode)
    return modes


def _get_current_dispatch_mode() -> Any:
    """Return the innermost mode of this thread, or None."""
    modes = _get_current_dispatch_mode_stack()
    return modes[-1] if modes else None


@contextlib.contextmanager
def _disable_current_modes() -> Iterator[list[Any]]:
    """A context in which no mode of this thread sees calls; gives those that did."""
    modes = _take_modes()
    try:
        yield modes
    finally:
        for mode in modes:
            _C._push_dispatch_mode(mode)


# --- wrappers that say what they are made of -----------------------------------------------------


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Return whether a class of tensors says how its tensors are taken apart and made again.

    Source:
        torch.utils._python_dispatch.is_traceable_wrapper_subclass_type.
    """
    return (
        issubclass(t, Tensor)
        and t is not Tensor
        and hasattr(t, "__tensor_flatten__")
        and hasattr(t, "__tensor_unflatten__")
    )


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Return whether an object is a tensor made of others, and says how to take it apart.

    Its class has ``__tensor_flatten__(self)``, which returns the names of the attributes with inner
    tensors and what else is needed, and a static ``__tensor_unflatten__(inner, context, size,
    stride)``.

    Source:
        torch.utils._python_dispatch.is_traceable_wrapper_subclass.
    """
    return (
        isinstance(t, Tensor)
        and type(t) is not Tensor
        and hasattr(t, "__tensor_flatten__")
        and hasattr(t, "__tensor_unflatten__")
    )


def transform_subclass(
    t: Any,
    callback: Callable[[str, Tensor], Tensor],
    outer_size: Any = None,
    outer_stride: Any = None,
) -> Any:
    """Return a tensor of the same class with other inner tensors.

    Args:
        t: A tensor for which `is_traceable_wrapper_subclass` holds.
        callback: Is called with the name of each attribute and the inner tensor; returns the new
            one.
        outer_size: The size of the result, that of *t* by default.
        outer_stride: Its strides, those of *t* by default.

    Raises:
        AssertionError: The class makes a tensor of another size or of other strides.

    Source:
        torch.utils._python_dispatch.transform_subclass.
    """
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    made = type(t).__tensor_unflatten__(inner, context, size, stride)
    for what, wanted, got in (("shape", size, made.shape), ("stride", stride, made.stride())):
        if tuple(got) != tuple(wanted):
            raise AssertionError(
                f"{type(t).__name__}.__tensor_unflatten__() made a tensor of {what} {tuple(got)}, "
                f"expected {tuple(wanted)}"
            )
    return made


# --- results over the memory of arguments --------------------------------------------------------


class AliasInfo(NamedTuple):
    """What a schema says of one argument or result.

    Attributes:
        alias_set: Those with the same letter share memory; empty when there is none.
        is_write: Whether the operator writes to it.
        name: Of the argument; None for a result.

    Source:
        torch.utils._python_dispatch.AliasInfo.
    """

    alias_set: frozenset[int]
    is_write: bool
    name: str | None


class SchemaInfo(NamedTuple):
    """The same of a whole schema.

    Attributes:
        args: The arguments, in order.
        outs: The results, in order.
        is_inplace_view_op: Whether the operator gives its argument another geometry in place.

    Source:
        torch.utils._python_dispatch.SchemaInfo.
    """

    args: list[AliasInfo]
    outs: list[AliasInfo]
    is_inplace_view_op: bool

    @property
    def views(self) -> list[tuple[int, int]]:
        """The numbers of arguments and results, where a result is a view of the argument."""
        return [
            (a, r)
            for a, arg in enumerate(self.args)
            for r, out in enumerate(self.outs)
            if arg.alias_set & out.alias_set and not arg.is_write
        ]

    def written_by(self, out: AliasInfo) -> int | None:
        """The number of the argument that a result is, or None."""
        if not out.is_write:
            return None
        return next(a for a, arg in enumerate(self.args) if arg.alias_set & out.alias_set)


#: Operators that give their argument another geometry in place.
_INPLACE_VIEWS = {
    *("as_strided_", "detach_", "resize_", "resize_as_", "squeeze_", "swapaxes_", "swapdims_"),
    *("t_", "transpose_", "unsqueeze_", "moveaxis_", "movedim_"),
}


def get_alias_info(func: OpOverload) -> SchemaInfo:
    """Return which arguments of an operator its results share memory with.

    Source:
        torch.utils._python_dispatch.get_alias_info.
    """
    return _alias_info(func)


@functools.cache
def _alias_info(func: OpOverload) -> SchemaInfo:
    arguments, results = _C._operator_aliases(func._handle)
    names = [name for name, *_ in _C._operator_arguments(func._handle)]

    def info(row: tuple[int, bool], name: str | None) -> AliasInfo:
        return AliasInfo(frozenset((row[0],) if row[0] else ()), row[1], name)

    return SchemaInfo(
        [info(row, name) for row, name in zip(arguments, names, strict=True)],
        [info(row, None) for row in results],
        func._plain in _INPLACE_VIEWS,
    )


def _argument(info: SchemaInfo, index: int, args: Any, kwargs: Any) -> Any:
    name = info.args[index].name
    return args[index] if index < len(args) else (kwargs or {})[name]


def _share_storage(func: OpOverload, arg: Tensor, out: Any) -> None:
    """Let *out*, which is one tensor or a list of views, show the storage of *arg*."""
    views = out if isinstance(out, (list, tuple)) else [out]
    for view in views:
        is_wrapped = is_traceable_wrapper_subclass_type(type(arg))
        if type(view) is not type(arg) and (
            is_wrapped or is_traceable_wrapper_subclass_type(type(view))
        ):
            raise AssertionError(
                f"{func} got a {type(arg).__name__} and returned a {type(view).__name__}, which "
                "cannot share its storage"
            )
        view._share_storage(arg)


def return_and_correct_aliasing(func: OpOverload, args: Any, kwargs: Any, out: Any) -> Any:
    """Return what a ``__torch_dispatch__`` has to, for *out* made of the inner tensors' results.

    A view shows the storage of its argument; of operators in place and with ``out=``, the result is
    the argument itself, whose geometry changes where the operator says so.

    Args:
        func: The operator, as given to ``__torch_dispatch__``.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        out: The wrapped result.

    Raises:
        AssertionError: A view of a wrapper is of another class.

    Source:
        torch.utils._python_dispatch.return_and_correct_aliasing.
    """
    info = get_alias_info(func)
    outs = out if isinstance(out, tuple) else (out,)
    for a, r in info.views:
        # a list of views is the one result of its operator
        share = out if len(info.outs) == 1 else outs[r]
        _share_storage(func, _argument(info, a, args, kwargs), share)
    if info.is_inplace_view_op:
        with DisableTorchDispatch():
            func(*args, **(kwargs or {}))
    written = [info.written_by(result) for result in info.outs]
    if not written or None in written:
        return out
    given = [_argument(info, index, args, kwargs) for index in written if index is not None]
    return given[0] if len(given) == 1 else type(out)(given)
