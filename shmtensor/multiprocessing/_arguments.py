"""Frees the tensors in a spawned process's arguments when the process never reads them.

A spawned process gets its arguments through a pipe. Tensors and queues among them are sent as
handles, whose leases end when the process opens them. But it may be killed before that, or fail to
start. So the leases are tied to the pipe, like those of any message: when nobody can read from the
pipe any more, the manager ends them.
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable, Iterable
from multiprocessing import context, reduction
from typing import Any

from shmtensor import _C

__all__ = ["give_up", "track_arguments"]


class _Pickled(threading.local):
    """The arguments that this thread has pickled for the process that it is starting."""

    arguments: io.BytesIO | None = None


_pickled = _Pickled()


def _dump(obj: Any, file: io.BytesIO, protocol: int | None = None) -> None:
    """Pickle *obj* into *file*. If that fails, the leases of the tensors before the failure end."""
    # Before the handles are in it: whatever happens then, they are found.
    _pickled.arguments = file
    _C._call_tracked(reduction.ForkingPickler(file, protocol).dump, obj)


def _writing_end(popen: Any) -> int | None:
    """The end of the arguments' pipe that the parent keeps open, or None."""
    kept = getattr(popen.finalizer, "_args", ())
    descriptors = kept[0] if kept and isinstance(kept[0], list) else kept
    return next((fd for fd in descriptors if fd != popen.sentinel), None)


def give_up(messages: Iterable[Any]) -> None:
    """Tie the leases of unsent messages to a pipe without a reader: the manager ends them."""
    reader, writer = os.pipe()
    try:
        for message in messages:
            _C._bind_message(writer, message)
    finally:
        os.close(reader)
        os.close(writer)


def _tracked(start: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap *start*, which starts a process, so that the leases of the arguments are tied."""

    def start_tracked(process: Any) -> Any:
        _pickled.arguments = None
        try:
            popen = start(process)
        except BaseException:
            if _pickled.arguments is not None:
                give_up([_pickled.arguments.getbuffer()])
            raise
        finally:
            arguments, _pickled.arguments = _pickled.arguments, None
        fd = _writing_end(popen)
        if arguments is not None and fd is not None:
            _C._bind_message(fd, arguments.getbuffer())
        return popen

    return start_tracked


def track_arguments() -> None:
    """Track the arguments of all processes that are spawned from now on."""
    module: Any = reduction
    module.dump = _dump
    for kind in (context.SpawnProcess, context.ForkServerProcess):
        process: Any = kind
        process._Popen = staticmethod(_tracked(process._Popen))
