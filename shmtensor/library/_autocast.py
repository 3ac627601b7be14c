"""What autocast makes of the arguments of an operator of one's own."""

from __future__ import annotations

from typing import Any

from shmtensor import _C
from shmtensor._core._autocast import cast_floating
from shmtensor._core._dispatch_keys import DispatchKey, DispatchKeySet, ExcludeDispatchKeyGuard
from shmtensor._core._ops import OpOverload
from shmtensor.library._custom_ops import CustomOpDef, _find, _library_of
from shmtensor.library._registrations import Library

__all__ = ["register_autocast"]

_TYPES = ("cpu", "cuda", "xpu")


def register_autocast(
    op: str | OpOverload | CustomOpDef,
    device_type: str,
    cast_inputs: _C.dtype,
    /,
    *,
    lib: Library | None = None,
) -> None:
    """Let autocast cast the floating arguments of an operator, but for float64.

    Args:
        op: The operator or its name.
        device_type: ``"cpu"``; ``"cuda"`` and ``"xpu"`` are accepted, and are not here.
        cast_inputs: The dtype to cast to.
        lib: Holds the registration; without it, it stays.

    Raises:
        ValueError: *op* or *device_type* is something else.

    Source:
        torch.library.register_autocast.
    """
    if not isinstance(op, (str, OpOverload, CustomOpDef)):
        raise ValueError(f"register_autocast({op}): got unexpected type for op: {type(op)}")
    if device_type not in _TYPES:
        raise ValueError(f"Unknown device type: {device_type}")
    _, overload = _find(op)
    if device_type != "cpu":
        return

    def cast_and_call(*args: Any, **kwargs: Any) -> Any:
        with ExcludeDispatchKeyGuard(DispatchKeySet(DispatchKey.AutocastCPU)):
            named = {name: cast_floating(value, cast_inputs) for name, value in kwargs.items()}
            return overload(*cast_floating(args, cast_inputs), **named)

    _library_of(overload, lib).impl(overload, cast_and_call, "AutocastCPU")
