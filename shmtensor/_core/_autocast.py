"""The state of autocast: for each type of devices whether it is on, and in which dtype.

It belongs to a thread. The C core is told of the CPU's, whose operators then cast their arguments;
for other types of devices there are no operators, and the state is kept for who asks.

Source:
    torch.is_autocast_enabled and its like.
"""

from __future__ import annotations

import builtins
import functools
import threading
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar

from shmtensor import _C
from shmtensor._core._tensor import Tensor

__all__ = [
    "autocast_decrement_nesting",
    "autocast_increment_nesting",
    "clear_autocast_cache",
    "get_autocast_cpu_dtype",
    "get_autocast_dtype",
    "get_autocast_gpu_dtype",
    "get_autocast_ipu_dtype",
    "get_autocast_xla_dtype",
    "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled",
    "is_autocast_enabled",
    "is_autocast_ipu_enabled",
    "is_autocast_xla_enabled",
    "set_autocast_cache_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_autocast_gpu_dtype",
    "set_autocast_ipu_dtype",
    "set_autocast_ipu_enabled",
    "set_autocast_xla_dtype",
    "set_autocast_xla_enabled",
]

#: The types of devices that have autocast, and the dtype that each begins with.
DTYPES = {
    "cpu": _C.bfloat16,
    "cuda": _C.float16,
    "xpu": _C.float16,
    "mps": _C.float16,
    "mtia": _C.float16,
    "ipu": _C.float16,
    "hpu": _C.bfloat16,
    "xla": _C.bfloat16,
    "maia": _C.bfloat16,
    "privateuseone": _C.float16,
}


class _State(threading.local):
    def __init__(self) -> None:
        self.dtypes = dict(DTYPES)
        self.enabled: set[str] = set()
        self.cache = True
        self.nesting = 0


_state = _State()


def _kind(device_type: Any, unknown: str) -> str:
    """The type of devices, checked.

    Raises:
        RuntimeError: There are no such devices, or they have no autocast.
    """
    kind = str(_C.device(device_type).type)
    if kind not in DTYPES:
        raise RuntimeError(unknown)
    return kind


def _tell_core() -> None:
    _C._set_autocast("cpu" in _state.enabled, _state.dtypes["cpu"], _state.cache)


# --- questions and settings ----------------------------------------------------------------------


def is_autocast_enabled(device_type: str = "cuda") -> builtins.bool:
    """Return whether operators of a type of devices cast their arguments, on this thread.

    Args:
        device_type: Such as ``"cpu"``; without it, CUDA, as in torch.

    Raises:
        TypeError: *device_type* is not a string.
        RuntimeError: There are no such devices, or they have no autocast.
    """
    if not isinstance(device_type, str):
        raise TypeError(
            "is_autocast_enabled(): argument 'device_type' (position 1) must be str, not "
            f"{type(device_type).__name__}"
        )
    what = "unknown device type for autocast in get_autocast_dispatch_key_from_device_type"
    return _kind(device_type, what) in _state.enabled


def set_autocast_enabled(device_type: Any, enabled: Any = None) -> None:
    """Let operators of a type of devices cast their arguments, on this thread, or not.

    Args:
        device_type: Such as ``"cpu"``; when it is left out, CUDA.
        enabled: Whether they do.

    Raises:
        TypeError: *enabled* is not a bool.
    """
    position = 2
    if enabled is None:
        device_type, enabled, position = "cuda", device_type, 1
    if not isinstance(enabled, builtins.bool):
        raise TypeError(
            f"set_autocast_enabled(): argument 'enabled' (position {position}) must be bool, not "
            f"{type(enabled).__name__}"
        )
    kind = _kind(device_type, "unknown device type for autocast")
    if enabled:
        _state.enabled.add(kind)
    else:
        _state.enabled.discard(kind)
    if kind == "cpu":
        _tell_core()


def get_autocast_dtype(device_type: str) -> _C.dtype:
    """Return the dtype that operators of a type of devices compute in where autocast is on.

    Raises:
        RuntimeError: There are no such devices, or they have no autocast.
    """
    return _state.dtypes[_kind(device_type, "unsupported scalarType")]


def set_autocast_dtype(device_type: str, dtype: _C.dtype) -> None:
    """Set that dtype, for this thread.

    Raises:
        TypeError: *dtype* is none.
    """
    if not isinstance(dtype, _C.dtype):
        raise TypeError(
            "set_autocast_dtype(): argument 'dtype' (position 2) must be torch.dtype, not "
            f"{type(dtype).__name__}"
        )
    kind = _kind(device_type, "unsupported scalarType")
    _state.dtypes[kind] = dtype
    if kind == "cpu":
        _tell_core()


def is_autocast_cache_enabled() -> builtins.bool:
    """Return whether a weight that was cast is kept for its next use in the same block."""
    return _state.cache


def set_autocast_cache_enabled(enabled: builtins.bool) -> None:
    """Keep weights that were cast, or not."""
    _state.cache = builtins.bool(enabled)
    _tell_core()


def autocast_increment_nesting() -> int:
    """Enter a block; returns how many there are now, one in another."""
    _state.nesting += 1
    return _state.nesting


def autocast_decrement_nesting() -> int:
    """Leave a block; returns how many are left."""
    _state.nesting -= 1
    return _state.nesting


def clear_autocast_cache() -> None:
    """Drop the weights that were cast."""
    _C._clear_autocast_cache()


# --- functions that are composed here, and are operators in torch ---------------------------------

P = ParamSpec("P")
R = TypeVar("R")


def is_on() -> builtins.bool:
    """Return whether the CPU's operators cast their arguments, on this thread."""
    return "cpu" in _state.enabled


def cast_floating(value: Any, dtype: _C.dtype) -> Any:
    """Return tensors, in tuples and lists too, cast where they are floating and not float64."""
    if isinstance(value, (tuple, list)):
        return type(value)(cast_floating(each, dtype) for each in value)
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return value
    return value if value.dtype is _C.float64 or not value.is_cpu else value.to(dtype)


def in_lower_precision(value: Any) -> Any:
    """Return what autocast makes of an argument: floating tensors in the 16-bit dtype."""
    return cast_floating(value, _state.dtypes["cpu"]) if is_on() else value


def in_float32(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that autocast lets compute in float32."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not is_on():
            return function(*args, **kwargs)
        set_autocast_enabled("cpu", False)
        try:
            named = {name: cast_floating(value, _C.float32) for name, value in kwargs.items()}
            return function(*cast_floating(args, _C.float32), **named)  # type: ignore[arg-type]
        finally:
            set_autocast_enabled("cpu", True)

    return call


# --- old names -----------------------------------------------------------------------------------


class _OldNames(NamedTuple):
    is_enabled: Callable[[], builtins.bool]
    set_enabled: Callable[[builtins.bool], None]
    get_dtype: Callable[[], _C.dtype]
    set_dtype: Callable[[_C.dtype], None]


def _old_names(word: str, kind: str) -> _OldNames:
    """Return the functions of one type of devices from before the type was an argument.

    Args:
        word: What their names call the devices.
        kind: The type.
    """

    def warn(old: str, new: str) -> None:
        warnings.warn(
            f"torch.{old} is deprecated. Please use torch.{new} instead.",
            DeprecationWarning,
            stacklevel=3,
        )

    def is_enabled() -> builtins.bool:
        warn(f"is_autocast_{word}_enabled()", f"is_autocast_enabled('{kind}')")
        return is_autocast_enabled(kind)

    def set_enabled(enabled: builtins.bool) -> None:
        warn(f"set_autocast_{word}_enabled(enabled)", f"set_autocast_enabled('{kind}', enabled)")
        set_autocast_enabled(kind, enabled)

    def get_dtype() -> _C.dtype:
        warn(f"get_autocast_{word}_dtype()", f"get_autocast_dtype('{kind}')")
        return get_autocast_dtype(kind)

    def set_dtype(dtype: _C.dtype) -> None:
        warn(f"set_autocast_{word}_dtype(dtype)", f"set_autocast_dtype('{kind}', dtype)")
        set_autocast_dtype(kind, dtype)

    names = _OldNames(is_enabled, set_enabled, get_dtype, set_dtype)
    for function, name in zip(
        names,
        (
            f"is_autocast_{word}_enabled",
            f"set_autocast_{word}_enabled",
            f"get_autocast_{word}_dtype",
            f"set_autocast_{word}_dtype",
        ),
        strict=True,
    ):
        function.__name__ = function.__qualname__ = name
        new = name.replace(f"_{word}", "")
        function.__doc__ = f'Call ``{new}`` for ``"{kind}"``; this is an old name.'
    return names


(
    is_autocast_cpu_enabled,
    set_autocast_cpu_enabled,
    get_autocast_cpu_dtype,
    set_autocast_cpu_dtype,
) = _old_names("cpu", "cpu")
_gpu = _old_names("gpu", "cuda")
get_autocast_gpu_dtype, set_autocast_gpu_dtype = _gpu.get_dtype, _gpu.set_dtype
(
    is_autocast_ipu_enabled,
    set_autocast_ipu_enabled,
    get_autocast_ipu_dtype,
    set_autocast_ipu_dtype,
) = _old_names("ipu", "ipu")
(
    is_autocast_xla_enabled,
    set_autocast_xla_enabled,
    get_autocast_xla_dtype,
    set_autocast_xla_dtype,
) = _old_names("xla", "xla")
