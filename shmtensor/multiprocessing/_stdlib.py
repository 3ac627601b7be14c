"""What this package changes in the standard library, and which private parts of it it uses.

It is all here, and `install` makes the changes. ``make lint`` finds any other place, and
``tools/check_stdlib.py`` lists the few that stay, each with its reason. The list for readers is
``docs/standard-library.md``; a test compares it with what differs in a process.

Another version of Python may lack such a part. If this package cannot do without it, the import
fails and names it. Otherwise a warning says what does not work there, and the rest does.
"""

from __future__ import annotations

import importlib
import io
import os
import threading
import warnings
from collections import ChainMap
from collections.abc import Callable, Iterator, MutableMapping
from multiprocessing import context, process, reduction, util
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any, ClassVar, NamedTuple, TypeVar

from shmtensor import _C
from shmtensor._boundary.sharing import give_up
from shmtensor.errors import ShmTensorWarning

__all__ = [
    "call_in_spawned",
    "configuration",
    "default_context",
    "forget_child",
    "forget_children",
    "install",
    "interpreter_flags",
    "pickler_with",
    "popen_of",
    "raising_task",
    "reducers",
    "require",
    "target_of",
]


# --- what is used -----------------------------------------------------------------------------

_KEPT = "the memory of tensors in the arguments of a process that never reads them is not freed"

#: Where; the names there; what does not work without them. None: nothing does.
USED: tuple[tuple[str, str, str | None], ...] = (
    (
        "contextlib.ContextDecorator",
        "_recreate_cm",
        "a function under `record_function` that calls itself is not shown well by the profiler",
    ),
    ("multiprocessing.context", "_default_context", None),
    (
        "multiprocessing.context.DefaultContext",
        "_actual_context _default_context",
        "programs that look for the start method in a context do not find it there",
    ),
    ("multiprocessing.process", "_children", None),
    ("multiprocessing.process.BaseProcess", "_config _popen", None),
    (
        "multiprocessing.process.BaseProcess",
        "_target",
        "tools show the class of a child process and not the function that it runs",
    ),
    ("multiprocessing.reduction.ForkingPickler", "_extra_reducers", None),
    (
        "multiprocessing.util",
        "_args_from_interpreter_flags",
        "`shmtensor run` and the self-test start Python without the flags of this one, such as -W",
    ),
    ("multiprocessing.util.Finalize", "_args", _KEPT),
    ("pickle", "_Pickler", None),
    ("_thread.LockType", "_at_fork_reinit", None),
    ("_thread.RLock", "_at_fork_reinit _is_owned", None),
    ("multiprocessing.pool", "_helper_reraises_exception", None),
    (
        "multiprocessing.pool.Pool",
        "_cache _check_running _ctx _initargs _initializer _map_async "
        "_maxtasksperchild _pool _processes _repopulate_pool _state _taskqueue _terminate "
        "_wrap_exception",
        None,
    ),
    ("multiprocessing.pool.ApplyResult", "_event _pool _set _success _value", None),
    ("multiprocessing.pool.IMapIterator", "_cond _index _items _length _pool _set", None),
)


def _owner(where: str) -> Any:
    """Return the module or class of that name."""
    module, _, last = where.rpartition(".")
    if last[0].isupper():
        return getattr(importlib.import_module(module), last, None)
    return importlib.import_module(where)


def _has(owner: Any, name: str) -> bool:
    """Whether a module or class has the name, or the class's methods name it, as of its objects."""
    if hasattr(owner, name) or not isinstance(owner, type):
        return hasattr(owner, name)
    codes = (getattr(method, "__code__", None) for method in vars(owner).values())
    return any(code is not None and name in code.co_names for code in codes)


def _missing(module: str) -> Iterator[tuple[str, str | None]]:
    """The parts of a module that are used and not there, with what does not work without them."""
    for where, names, loss in USED:
        if where == module or where.rpartition(".")[0] == module:
            owner = _owner(where)
            yield from ((f"{where}.{n}", loss) for n in names.split() if not _has(owner, n))


def require(module: str) -> None:
    """Check that a module of the standard library has the parts of it that are used.

    Raises:
        ImportError: One is missing that this package cannot do without.

    Warns:
        ShmTensorWarning: Another one is missing.
    """
    for part, loss in _missing(module):
        if loss is None:
            raise ImportError(
                f"shmtensor needs {part}, which this Python does not have; use a Python from 3.10 "
                "to 3.14, or a newer shmtensor"
            )
        _warn(part, loss)


def _warn(part: str, loss: str) -> None:
    warnings.warn(f"this Python has no {part}, so {loss}", ShmTensorWarning, stacklevel=3)


# Before another module of this package has done anything.
for _module in ("context", "process", "reduction", "util"):
    require(f"multiprocessing.{_module}")
for _module in ("_thread", "contextlib", "pickle"):
    require(_module)


def default_context() -> context.DefaultContext:
    """Return the standard context whose methods are the functions of `multiprocessing`."""
    return context._default_context


def popen_of(started: Any) -> Any:
    """Return what watches a process, whose ``method`` is the start method; None: not started."""
    return started._popen


def target_of(current: Any) -> Any:
    """Return the function that a process object runs, or None."""
    return getattr(current, "_target", None)


def configuration() -> dict[str, Any]:
    """Return what processes that this one starts get of it, pickled in those not forked."""
    current: Any = process.current_process()
    kept: dict[str, Any] = current._config
    return kept


def forget_child(started: Any) -> None:
    """Have `multiprocessing` not join a process at the exit of this one."""
    process._children.discard(started)  # type: ignore[attr-defined]


def forget_children() -> None:
    """Have `multiprocessing` not end and join the processes that are its children so far."""
    process._children.clear()  # type: ignore[attr-defined]


def reducers() -> MutableMapping[type, Any]:
    """Return the table of classes that `ForkingPickler.register` fills."""
    table: MutableMapping[type, Any] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
    return table


def pickler_with(more: dict[type, Any]) -> type[ForkingPickler]:
    """Return a class of picklers that reduce some classes otherwise than the standard one."""

    class Pickler(ForkingPickler):
        _extra_reducers: ClassVar = ChainMap(more, reducers())

    return Pickler


def interpreter_flags() -> list[str]:
    """Return the command line flags of this interpreter, for another that is to run like it."""
    make: Callable[[], list[str]] = getattr(util, "_args_from_interpreter_flags", list)
    return make()


def raising_task() -> Any:
    """Return the task that the standard pool makes of an error, which an iterator has raised."""
    pool: Any = importlib.import_module("multiprocessing.pool")
    return pool._helper_reraises_exception


# --- what is changed --------------------------------------------------------------------------


_Make = TypeVar("_Make", bound=Callable[[Any], Any])


class _Change(NamedTuple):
    """A part that is changed: it is given what it was, and returns what it is to be."""

    make: Callable[[Any], Any]
    #: What does not work without it.
    loss: str


#: All changes by the names of the parts.
CHANGES: dict[str, _Change] = {}
_is_installed = False


def install() -> None:
    """Make the changes. Only the first call does anything.

    Warns:
        ShmTensorWarning: A part is missing, and its change left out.
    """
    global _is_installed
    if _is_installed:
        return
    for part, change in CHANGES.items():
        where, _, name = part.rpartition(".")
        owner = _owner(where)
        if hasattr(owner, name):
            setattr(owner, name, change.make(getattr(owner, name)))
        else:
            _warn(part, change.loss)
    _is_installed = True


def _changes(part: str, loss: str) -> Callable[[_Make], _Make]:
    def add(make: _Make) -> _Make:
        CHANGES[part] = _Change(make, loss)
        return make

    return add


# Messages of the standard queues and pipes.


@_changes(
    "multiprocessing.reduction.ForkingPickler.dumps",
    "messages with tensors are pickled more slowly, and the memory of those in a message that "
    "cannot be pickled is not freed",
)
def _dumps(standard: Any) -> Any:
    dumps_any = standard.__func__

    def dumps(cls: type[ForkingPickler], obj: Any, protocol: int | None = None) -> Any:
        """Pickle a message; a message of plain objects and plain tensors is pickled in one step.

        The standard pickler reduces one tensor after the other. In one step, they become one list
        (csrc/python/ipc/pipes/dumps.h).
        """
        if cls is ForkingPickler and protocol is None:
            plain = _C._dumps_message(obj)
            if plain is not None:
                return memoryview(plain)
        # Something after the tensors may fail to pickle: then their leases end.
        return _C._call_tracked(dumps_any, cls, obj, protocol)

    return classmethod(dumps)


@_changes(
    "multiprocessing.reduction.ForkingPickler.dump",
    "two tensors over one storage that a message has to copy become two copies",
)
def _dump(standard: Any) -> Any:
    def dump(self: ForkingPickler, obj: Any) -> None:
        """Pickle an object. Two tensors over one storage that is copied get one copy."""
        _C._begin_copies()
        try:
            standard(self, obj)
        finally:
            _C._end_copies()

    return dump


@_changes(
    "multiprocessing.connection.Connection._send_bytes",
    "the memory of tensors in a pipe that nobody reads any more is not freed",
)
def _send_bytes(standard: Any) -> Any:
    def _send_bytes(self: Connection, buf: Any) -> None:
        """Write a message, after its tensors' leases were tied to the end where it will be read.

        When nobody has that end open any more, or this process dies before it has written the
        message, the manager frees the memory of the tensors.
        """
        if not _C._begin_send(self, buf):
            standard(self, buf)
            return
        try:
            standard(self, buf)
        finally:  # also after an exception: in doubt the message was written
            _C._end_send(buf)

    return _send_bytes


@_changes(
    "multiprocessing.connection.Connection.send",
    "the memory of tensors in a message whose sending a signal interrupts is not freed",
)
def _send(standard: Any) -> Any:
    def send(self: Connection, obj: Any) -> None:
        """Send a picklable object.

        One call of C pickles and writes it: an exception that a signal's handler raises before the
        first byte was written ends the leases of its tensors.
        """
        if self.closed:
            raise OSError("handle is closed")
        if not self.writable:
            raise OSError("connection is read-only")
        _C._send_message(self, obj, ForkingPickler.dumps, os.write)

    return send


# Arguments of processes that are not forked. Such a process gets them through a pipe, tensors and
# queues among them as handles, whose leases end when it opens them. But it may be killed before
# that, or fail to start. So the leases are tied to the pipe, like those of any message: when nobody
# can read from it any more, the manager ends them.


class _Pickled(threading.local):
    """The arguments that this thread has pickled for the process that it is starting."""

    arguments: io.BytesIO | None = None


_pickled = _Pickled()


@_changes("multiprocessing.reduction.dump", _KEPT)
def _dump_arguments(_: Any) -> Any:
    def dump(obj: Any, file: io.BytesIO, protocol: int | None = None) -> None:
        """Pickle *obj* into *file*. If that fails, the leases of its tensors end."""
        # Before the handles are in it: whatever happens then, they are found.
        _pickled.arguments = file
        _C._call_tracked(reduction.ForkingPickler(file, protocol).dump, obj)

    return dump


def _writing_end(popen: Any) -> int | None:
    """The end of the arguments' pipe that the parent keeps open, or None."""
    kept = getattr(popen.finalizer, "_args", ())
    descriptors = kept[0] if kept and isinstance(kept[0], list) else kept
    return next((fd for fd in descriptors if fd != popen.sentinel), None)


@_changes("multiprocessing.context.SpawnProcess._Popen", _KEPT)
@_changes("multiprocessing.context.ForkServerProcess._Popen", _KEPT)
def _start(standard: Any) -> Any:
    def start(started: Any) -> Any:
        """Start a process, and tie the leases of its arguments."""
        _pickled.arguments = None
        try:
            popen = standard(started)
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

    return staticmethod(start)


# The start of a spawned process.

_in_spawned: list[Callable[[], object]] = []


def call_in_spawned(function: Callable[[], object]) -> None:
    """Call a function in spawned processes before they run theirs.

    They do not run the functions of `multiprocessing.util.register_after_fork`, as others do.
    """
    _in_spawned.append(function)


@_changes(
    "multiprocessing.context.SpawnProcess._after_fork",
    "tools show spawned processes by their command lines",
)
def _after_fork(standard: Any) -> Any:
    def begin() -> None:
        standard()
        for function in _in_spawned:
            function()

    return staticmethod(begin)
