"""Contexts in which tensor classes and modes do not answer calls.

Source:
    torch._C.DisableTorchFunction, torch._C.DisableTorchFunctionSubclass.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from shmtensor import _C

__all__ = ["DisableTorchFunction", "DisableTorchFunctionSubclass"]


class DisableTorchFunctionSubclass:
    """A context in which subclasses count as plain tensors on this thread.

    Source:
        torch._C.DisableTorchFunctionSubclass.
    """

    def __enter__(self) -> None:
        _C._change_overrides_off(1)

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _C._change_overrides_off(-1)


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """A context in which neither modes nor classes answer calls on this thread.

    Source:
        torch._C.DisableTorchFunction.
    """

    def __enter__(self) -> None:
        super().__enter__()
        self._modes: list[Any] = []
        for _ in range(_C._function_mode_depth()):
            self._modes.append(_C._pop_function_mode())

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for mode in reversed(self._modes):
            _C._push_function_mode(mode)
        super().__exit__(exc_type, exc, trace)
