"""Blocks in which operators choose the dtype they compute in.

Products and convolutions run in a dtype of 16 bits, operators that need its range or its places run
in float32, and the others in whatever their arguments have (docs/namespaces.md lists them).

Source:
    torch.amp.autocast_mode.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from shmtensor import _C
from shmtensor._core._autocast import (
    DTYPES,
    autocast_decrement_nesting,
    autocast_increment_nesting,
    clear_autocast_cache,
    get_autocast_dtype,
    is_autocast_cache_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from shmtensor._core._tensor import Tensor

__all__ = ["autocast", "autocast_decorator", "custom_bwd", "custom_fwd", "is_autocast_available"]

_HALVES = (_C.bfloat16, _C.float16)
#: What else than halves a type of devices takes.
_MORE_DTYPES: dict[str, tuple[_C.dtype, ...]] = {"hpu": (_C.float32,), "xla": (_C.float32,)}


def is_autocast_available(device_type: str) -> bool:
    """Return whether there is autocast for a type of devices.

    Raises:
        RuntimeError: There are no such devices.
    """
    return _C.device(device_type).type in DTYPES


def autocast_decorator(autocast_instance: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """Return *func* with its calls inside a block."""

    @functools.wraps(func)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with autocast_instance:
            return func(*args, **kwargs)

    return decorated


def _checked_type(device_type: Any) -> str:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    return device_type


class autocast:
    """A block, or a decorator, in which operators choose the dtype they compute in.

    Blocks nest; the innermost counts. It holds for the thread that enters it.

    Args:
        device_type: ``"cpu"``; other types are accepted, and have no operators here.
        dtype: ``bfloat16`` or ``float16``; without it, what `get_autocast_dtype` says.
        enabled: False switches it off for the block.
        cache_enabled: Keep weights that were cast for their next use, until the outermost block
            ends; without it, as around.

    Raises:
        ValueError: *device_type* is not a string.
        RuntimeError: There is no such type, or it has no autocast.

    Examples:
        >>> with shmtensor.autocast("cpu", dtype=shmtensor.bfloat16):
        ...     loss = loss_function(model(inputs), targets)
        >>> loss.backward()

    Source:
        torch.amp.autocast.
    """

    def __init__(
        self,
        device_type: str,
        dtype: _C.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        self.device = _checked_type(device_type)
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = (
            is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        )
        if enabled and self.device == "cuda":
            warnings.warn("CUDA is not available. Disabling autocast.", stacklevel=2)
            enabled = False
        supported = (*_HALVES, *_MORE_DTYPES.get(self.device, ()))
        if enabled and self.fast_dtype not in supported:
            name = self.device.upper()
            listed = ", ".join(str(each) for each in supported)
            warnings.warn(
                f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{name} Autocast only supports dtypes of {listed} currently.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled

    def __enter__(self) -> Any:
        self.prev_cache_enabled = is_autocast_cache_enabled()
        self.prev = is_autocast_enabled(self.device)
        self.prev_fastdtype = get_autocast_dtype(self.device)
        set_autocast_enabled(self.device, self._enabled)
        set_autocast_dtype(self.device, self.fast_dtype)
        autocast_increment_nesting()
        set_autocast_cache_enabled(self._cache_enabled)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        if autocast_decrement_nesting() == 0:
            clear_autocast_cache()
        set_autocast_enabled(self.device, self.prev)
        set_autocast_dtype(self.device, self.prev_fastdtype)
        set_autocast_cache_enabled(self.prev_cache_enabled)

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Return *func* with its calls inside the block."""
        return autocast_decorator(self, func)


def _enter_autocast(*vals: Any) -> autocast:
    """Enter a block; returns it. The arguments are those of `autocast`."""
    mode = autocast(*vals)
    mode.__enter__()
    return mode


def _exit_autocast(mode: autocast | None) -> None:
    """Leave a block that `_enter_autocast` entered."""
    if mode is not None:
        mode.__exit__(None, None, None)


# --- functions with a derivative of their own ----------------------------------------------------


def _cast(value: Any, device_type: str, dtype: _C.dtype) -> Any:
    """Cast floating tensors, but for float64, in *value* and in the collections it is made of."""
    if isinstance(value, Tensor):
        eligible = (
            value.is_floating_point()
            and value.device.type == device_type
            and value.dtype is not _C.float64
        )
        return value.to(dtype) if eligible else value
    if isinstance(value, (str, bytes)):
        return value
    if isinstance(value, Mapping):
        return {
            _cast(key, device_type, dtype): _cast(item, device_type, dtype)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        items = [_cast(item, device_type, dtype) for item in value]
        if hasattr(value, "_fields"):
            return type(value)(*items)
        return type(value)(items)
    return value


def custom_fwd(
    fwd: Callable[..., Any] | None = None,
    *,
    device_type: str,
    cast_inputs: _C.dtype | None = None,
) -> Callable[..., Any]:
    """Decorate ``forward`` of an `autograd.Function` for use inside `autocast`.

    Args:
        fwd: The method; without it, this returns the decorator.
        device_type: Whose autocast, such as ``"cpu"``.
        cast_inputs: Where autocast is on, floating arguments are cast to this dtype and the method
            runs with autocast off. Without it, the method runs as it is called.

    Raises:
        ValueError: *device_type* is not a string.

    Source:
        torch.amp.custom_fwd.
    """
    _checked_type(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        context, is_on = args[0], is_autocast_enabled(device_type)
        context._dtype = get_autocast_dtype(device_type)
        context._fwd_used_autocast = is_on and cast_inputs is None
        if not is_on or cast_inputs is None:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(
                *_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs)
            )

    return decorated


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """Decorate ``backward`` of an `autograd.Function`: it runs with the autocast of its forward.

    Args:
        bwd: The method; without it, this returns the decorator.
        device_type: Whose autocast, such as ``"cpu"``.

    Raises:
        ValueError: *device_type* is not a string.

    Source:
        torch.amp.custom_bwd.
    """
    _checked_type(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        context = args[0]
        with autocast(device_type, enabled=context._fwd_used_autocast, dtype=context._dtype):
            return bwd(*args, **kwargs)

    return decorated
