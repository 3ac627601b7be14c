"""The arguments of processes that are spawned: a process that never reads them keeps no memory.

A spawned process gets its arguments through a pipe, and the tensors and queues among them as
handles, whose leases end when it opens them. It may be killed before that, or not start at all. So
the leases are tied to the pipe, as those of a message are: when nobody can read from it any more,
the manager ends them.
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable
from multiprocessing import context, reduction
from typing import Any

from shmtensor import _C

__all__ = ["track_arguments"]


class _Pickled(threading.local):
    """What this thread has pickled for the process that it is starting."""

    arguments: io.BytesIO | None = None


_pickled = _Pickled()


def _dump(obj: Any, file: io.BytesIO, protocol: int | None = None) -> None:
    """Pickle *obj* into *file*; if that fails, the leases of what came before end."""
    mark = _C._begin_message()
    is_complete = False
    try:
        reduction.ForkingPickler(file, protocol).dump(obj)
        is_complete = True
    finally:
        _C._end_message(mark, is_complete)
    _pickled.arguments = file


def _writing_end(popen: Any) -> int | None:
    """The descriptor through which a process got its arguments; its parent keeps it open."""
    kept = getattr(popen.finalizer, "_args", ())
    descriptors = kept[0] if kept and isinstance(kept[0], list) else kept
    return next((fd for fd in descriptors if fd != popen.sentinel), None)


def _give_up(arguments: io.BytesIO) -> None:
    """Tie the leases of *arguments* to a pipe that nobody reads from."""
    reader, writer = os.pipe()
    try:
        _C._bind_message(writer, arguments.getbuffer())
    finally:
        os.close(reader)
        os.close(writer)


def _tracked(start: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return *start*, which starts a process object, with the leases of its arguments tied."""

    def start_tracked(process: Any) -> Any:
        _pickled.arguments = None
        try:
            popen = start(process)
        except BaseException:
            if _pickled.arguments is not None:
                _give_up(_pickled.arguments)
            raise
        finally:
            arguments, _pickled.arguments = _pickled.arguments, None
        fd = _writing_end(popen)
        if arguments is not None and fd is not None:
            _C._bind_message(fd, arguments.getbuffer())
        return popen

    return start_tracked


def track_arguments() -> None:
    """Do so for all processes that are spawned from now on."""
    module: Any = reduction
    module.dump = _dump
    for kind in (context.SpawnProcess, context.ForkServerProcess):
        process: Any = kind
        process._Popen = staticmethod(_tracked(process._Popen))
