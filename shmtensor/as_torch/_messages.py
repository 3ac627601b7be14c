"""Messages between processes name this package, not torch: Note [Names under torch]."""

from __future__ import annotations

from types import BuiltinFunctionType, FunctionType
from typing import Any

from shmtensor import _C
from shmtensor._core._pickling import find_named
from shmtensor.as_torch._names import OURS, THEIRS
from shmtensor.multiprocessing.queues import _MessagePickler

__all__ = ["name_own_in_messages"]

_NAMED: tuple[type, ...] = (type, FunctionType, BuiltinFunctionType)
#: Their objects are found by name.
_CONSTANTS: tuple[type, ...] = (_C.dtype, _C.layout, _C.memory_format)


def _reduce(obj: Any) -> Any:
    """Return how an object goes into a message."""
    named: Any = obj
    if isinstance(obj, _NAMED):
        module, name = named.__module__, named.__qualname__
    elif isinstance(obj, _CONSTANTS):
        module, name = THEIRS, str(obj).rpartition(".")[2]
    else:
        return _C._reduce_for_message(obj)
    if not isinstance(module, str) or module.partition(".")[0] != THEIRS or "<" in name:
        return _C._reduce_for_message(obj)
    return find_named, (OURS + module.removeprefix(THEIRS), name)


def name_own_in_messages() -> None:
    """Let what queues, topics and calls send be read by programs in which there is no torch."""
    _MessagePickler.reducer_override = staticmethod(_reduce)  # type: ignore[assignment]
