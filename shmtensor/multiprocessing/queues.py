"""Queues that keep their messages in a ring in shared memory.

They behave like those of `multiprocessing.queues`, with these differences:

- ``put`` writes a message where the receiver reads it. Tensors travel as handles, all tensors of a
  message together.
- ``put`` pickles in the calling thread, so an object that cannot be sent raises there. (`Queue`
  prints errors of an object's own ``__reduce__``, as in the standard package.)
- ``put`` writes the message into the ring itself. A feeder thread runs only while the ring is full.
- If a process is killed, at any moment, the queue stays usable and loses no message of another
  process.
- ``get`` with a timeout never takes longer than the timeout.
- If a signal handler raises an exception during ``get`` or ``put``, the queue's counts stay right,
  and no message is lost: the next ``get`` of this process returns what the interrupted one took.
- There are batch methods, methods to ``await``, and ``fileno``.

A process gets a queue by inheritance, or as an argument when it is spawned.
"""

from __future__ import annotations

import contextlib
import copyreg
import functools
import itertools
import os
import pickle
import threading
from collections.abc import Iterable
from multiprocessing import context
from multiprocessing.synchronize import SEM_VALUE_MAX  # type: ignore[attr-defined]
from multiprocessing.util import Finalize, debug, register_after_fork
from queue import Empty, Full
from typing import TYPE_CHECKING, Any, Generic

from shmtensor import _C
from shmtensor._boundary.descriptors import Descriptor
from shmtensor._core._deadlines import deadline_of, left_until
from shmtensor._core._fork_locks import free_in_child
from shmtensor._core._own_code import is_own_code
from shmtensor._core._signal_handlers import came_from_handler, raise_of_handler
from shmtensor.multiprocessing import reductions
from shmtensor.multiprocessing._stdlib import reducers
from shmtensor.multiprocessing._user_errors import print_error
from shmtensor.multiprocessing.adoption import TORCH, adopted, prepare_torch

if TYPE_CHECKING:
    from typing_extensions import Self, TypeVar

    from shmtensor.multiprocessing.context import BaseContext

    _T = TypeVar("_T", default=Any)  # a queue that does not say of what it is takes anything
else:
    from typing import TypeVar

    _T = TypeVar("_T")

__all__ = ["Empty", "Full", "JoinableQueue", "Queue", "SimpleQueue"]


_NO_GET, _NO_PUT = 1, 2
_BATCH = 64


class _MessagePickler(pickle.Pickler):
    """A `ForkingPickler` that collects the tensors and storages of a message in a list."""

    reducer_override = staticmethod(_C._reduce_for_message)
    dispatch_table = copyreg.dispatch_table


_C._set_messages(
    _MessagePickler,
    reducers(),
    pickle.loads,
    Empty,
    Full,
    frozenset(
        {reductions.reduce_storage, reductions.reduce_typed_storage, reductions.reduce_array}
    ),
    came_from_handler,
)
_C._set_array_reduce(reductions.reduce_array)


#: Rings for which messages of this process wait for room.
_fed_rings: set[Any] = set()


def _join_feeders() -> None:
    """Wait until no message of this process waits for room, except where that was cancelled."""
    debug("joining queue threads")
    for ring in list(_fed_rings):
        ring.join_feeder()


def _join_feeders_at_exit(fed_rings: set[Any]) -> None:
    fed_rings.clear()  # in a forked child they are the parent's
    Finalize(None, _join_feeders, exitpriority=-5)


_C._set_fed_rings(_fed_rings)
_join_feeders_at_exit(_fed_rings)
register_after_fork(_fed_rings, _join_feeders_at_exit)

# Methods that take a message do it by an operator, ``ring[timeout]``, and call nothing between that
# and their end: Note [Interrupted calls] in csrc/python/ipc/ring_object.h.


class _End:
    """One end of a `SimpleQueue`, with the methods of a connection that other code uses."""

    def __init__(self, ring: Any, bit: int) -> None:
        self._ring = ring
        self._bit = bit
        self._closed = False
        register_after_fork(self, _End._after_fork)

    def _after_fork(self) -> None:
        if self._closed:
            self._ring.end(self._bit)

    def _check(self) -> None:
        if self._closed:
            raise OSError("handle is closed")

    @property
    def closed(self) -> bool:
        """Whether this process has closed it."""
        return self._closed

    def close(self) -> None:
        """Stop using this end. Once no process has it any more, the other end finds out."""
        if not self._closed:
            self._ring.end(self._bit)
            self._closed = True


class _Reader(_End):
    readable = True
    writable = False

    def fileno(self) -> int:
        """Return a descriptor that is readable while there is a message."""
        self._check()
        return int(self._ring.fileno(True))

    def recv(self) -> Any:
        """Return the next object.

        Raises:
            EOFError: No process is left that could put one.
        """
        return self._ring[None]  # type: ignore[no-any-return]

    def poll(self, timeout: float | None = 0.0) -> bool:
        """Whether a message arrives within *timeout* seconds (None: wait forever)."""
        self._check()
        return bool(self._ring.poll(timeout))


class _Writer(_End):
    readable = False
    writable = True

    def fileno(self) -> int:
        """Return a descriptor that is readable while there is room for a message."""
        self._check()
        return int(self._ring.fileno(False))

    def send(self, obj: object) -> None:
        """Put an object.

        Raises:
            BrokenPipeError: There is no room, and no process is left that could make some.
        """
        self._ring.put(obj, None, False)


def _described(queue: Any, bound: str, is_closed: bool) -> str:
    """Return what ``repr`` shows of a queue, also of one whose making has failed."""
    ring = getattr(queue, "_ring", None)
    n = 0 if ring is None else ring.size()
    state = "not open" if ring is None else f"{n} message{'' if n == 1 else 's'}{bound}"
    closed = ", closed" if is_closed else ""
    return f"<{type(queue).__name__} at {id(queue):#x}, {state}{closed}>"


def _is_of_fork(ctx: BaseContext) -> bool:
    return bool(ctx.get_start_method() == "fork")


def _check_may_travel(queue: Any) -> None:
    """Refuse to pickle a queue when the standard package refuses its own.

    Raises:
        RuntimeError: No process is being started, or the queue is of the fork context.
    """
    context.assert_spawning(queue)
    if queue._is_of_fork:
        # The beginning is what programs look for.
        raise RuntimeError(
            "A SemLock created in a fork context, or a queue like this one, is not shared with a "
            f"process that is not forked. Make the {type(queue).__name__} with the context that "
            "starts the process"
        )


def _adopting(ring: Any, adopts: int) -> Any:
    """Return *ring*, which takes arrays and tensors of other libraries from now on."""
    if adopts & TORCH:
        prepare_torch()
    ring.adopts = adopts
    return ring


class SimpleQueue(Generic[_T]):
    """A queue without a limit: ``put`` waits only while the ring is full.

    Args:
        ctx: The context of the processes that share it.
        adopt: As for `Queue`.
    """

    _is_of_fork = False  # in processes that got it as an argument

    def __init__(self, *, ctx: BaseContext, adopt: str | Iterable[str] | None = None) -> None:
        bits = adopted(adopt)
        self._is_of_fork = _is_of_fork(ctx)
        self._open(_C._new_ring(0), bits)

    def _open(self, ring: Any, adopts: int) -> None:
        self._ring = _adopting(ring, adopts)
        self._reader = _Reader(ring, _NO_GET)
        self._writer = _Writer(ring, _NO_PUT)
        # Nothing here needs it, but programs that read from `_reader` themselves acquire it.
        self._rlock = free_in_child(threading.Lock())

    def __getstate__(self) -> Any:
        _check_may_travel(self)
        return self._ring.handle(), self._ring.adopts

    def __setstate__(self, state: Any) -> None:
        handle, adopts = state
        self._open(_C._open_ring(handle), adopts)

    def put(self, obj: _T) -> None:
        """Put an object; wait while there is no room.

        Raises:
            OSError: The queue is closed.
            BrokenPipeError: There is no room, and no process is left that could make some.
        """
        self._ring.put(obj, None, False)

    def get(self) -> _T:
        """Return the next object; wait while there is none.

        Raises:
            OSError: The queue is closed.
            EOFError: There is none, and no process is left that could put one.
        """
        return self._ring[None]  # type: ignore[no-any-return]

    def empty(self) -> bool:
        """Whether there is no message."""
        self._reader._check()
        return not self._ring.n_messages()

    def close(self) -> None:
        """Stop using the queue in this process."""
        self._reader.close()
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        reader = getattr(self, "_reader", None)
        return _described(self, "", reader is not None and reader.closed)

    def fileno(self) -> int:
        """Return a descriptor that is readable while there is a message."""
        return self._reader.fileno()


def _is_of_the_object(error: Exception) -> bool:
    """Whether an object's own ``__reduce__`` or the like raised *error*, and not the pickler.

    The standard queue prints such errors and continues, and programs rely on that.
    """
    step = error.__traceback__
    while step is not None and step.tb_frame.f_globals.get("__name__") == __name__:
        step = step.tb_next
    if step is None:
        return False
    names = step.tb_frame.f_globals
    is_standard = str(names.get("__name__")).partition(".")[0] == "multiprocessing"
    is_reduction = step.tb_frame.f_code.co_name in ("__reduce__", "__reduce_ex__", "__getstate__")
    return is_reduction and not is_standard and not is_own_code(names)


def is_of_message(error: BaseException, *takers: str) -> bool:
    """Whether what `get` raised is a message's, or a signal handler's, and not the queue's own.

    A message may raise `Empty` and EOFError too, when it is unpickled. *takers* are the names of
    modules that may have taken it from the ring; this one, if there are none.
    """
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    if step is None:
        return False
    return step.tb_frame.f_globals.get("__name__") not in (takers or (__name__,))


class Queue(Generic[_T]):
    """A queue with or without a bound.

    Args:
        maxsize: ``put`` waits while the queue has this many messages; 0 or less: no bound.
        ctx: The context of the processes that share it.
        adopt: "numpy", "torch", or both in a sequence: arrays and tensors of these libraries move
            into shared memory and arrive there; without it, the message has a copy of an array, and
            torch sends its tensors. See `shmtensor.multiprocessing.adoption`.

    Raises:
        ValueError: *adopt* names another library.
        ModuleNotFoundError: It names torch, which is not installed.
    """

    _is_of_fork = False  # in processes that got it as an argument

    def __init__(
        self, maxsize: int = 0, *, ctx: BaseContext, adopt: str | Iterable[str] | None = None
    ) -> None:
        bits = adopted(adopt)
        self._ignore_epipe = False
        self._is_of_fork = _is_of_fork(ctx)
        self._open(_C._new_ring(max(maxsize, 0)), bits)

    def _open(self, ring: Any, adopts: int) -> None:
        self._ring = _adopting(ring, adopts)
        self._reader = _Reader(ring, _NO_GET)
        self._writer = _Writer(ring, _NO_PUT)
        self._reset()
        register_after_fork(self, Queue._reset)

    def _reset(self) -> None:
        # Also runs in a forked child.
        self._closed = False

    def __getstate__(self) -> Any:
        _check_may_travel(self)
        return self._ignore_epipe, self._ring.handle(), self._ring.adopts

    def __setstate__(self, state: Any) -> None:
        self._ignore_epipe, handle, adopts = state
        self._open(_C._open_ring(handle), adopts)

    def _check(self) -> None:
        if self._closed:
            raise ValueError(f"Queue {self!r} is closed")

    # --- putting ---

    def put(self, obj: _T, block: bool = True, timeout: float | None = None) -> None:
        """Put an object; it is pickled before this returns.

        Args:
            obj: What to put.
            block: Wait while the queue is full.
            timeout: Seconds to wait; None waits forever.

        Raises:
            Full: The queue stayed full.
            ValueError: The queue is closed.
            Exception: What pickling *obj* raises. It goes to ``_on_queue_feeder_error`` instead
                when a subclass defines that, or when the object's own ``__reduce__`` raised it.
        """
        if self._closed:
            self._check()
        try:
            self._ring.put(obj, timeout if block else 0.0, True)
        except Full:
            raise
        except Exception as error:
            raise_of_handler(error)
            is_own = type(self)._on_queue_feeder_error is Queue._on_queue_feeder_error
            if is_own and not _is_of_the_object(error):
                raise
            self._on_queue_feeder_error(error, obj)

    def put_nowait(self, obj: _T) -> None:
        """Put an object, or raise `Full` at once."""
        self.put(obj, False)

    def put_many(
        self, objects: Iterable[_T], block: bool = True, timeout: float | None = None
    ) -> None:
        """Put objects in order. The timeout applies to all of them together.

        What a signal handler raises, as for Ctrl-C, and what is no `Exception`, ends the wait for
        room: the objects before it that had room are in the queue.

        Raises:
            Full: The queue was full. The objects before the first that had no room are in it.
            ValueError: The queue is closed, or *timeout* is no number of seconds.
            Exception: What *objects*, or pickling one of them, raises. The objects before it are in
                the queue.
        """
        self._check()
        deadline = deadline_of(timeout if block else 0.0)
        source = iter(objects)
        while True:
            packed: list[Any] = []
            try:
                for obj in itertools.islice(source, _BATCH):
                    packed.append(self._ring.pack(obj))
            except BaseException as error:
                self._put_before(error, packed, deadline)
                raise
            self._put_packed(packed, deadline)
            if not packed:
                return

    def _put_before(self, error: BaseException, packed: list[Any], deadline: float | None) -> None:
        """Put the objects before one that raised; after an interrupt, those that have room now."""
        if isinstance(error, Exception) and not came_from_handler(error):
            self._put_packed(packed, deadline)
            return
        with contextlib.suppress(Full):
            self._put_packed(packed, deadline_of(0.0))

    def _put_packed(self, packed: list[Any], deadline: float | None) -> None:
        for message in packed[self._ring.put_packed_many(packed) :]:
            self._ring.put_packed(message, left_until(deadline))

    async def aput(self, obj: _T) -> None:
        """Put an object; other asyncio tasks run while the queue is full.

        It is pickled once, before other tasks run. Errors are those of `put`.
        """
        self._check()
        try:
            packed = self._ring.pack(obj)
        except Exception as error:
            raise_of_handler(error)
            is_own = type(self)._on_queue_feeder_error is Queue._on_queue_feeder_error
            if is_own and not _is_of_the_object(error):
                raise
            self._on_queue_feeder_error(error, obj)
            return
        while True:
            self._check()
            try:
                self._put_packed([packed], 0.0)
            except Full:
                await _readable(self._writer.fileno())
            else:
                return

    # --- getting ---

    def get(self, block: bool = True, timeout: float | None = None) -> _T:
        """Return the next object.

        Args:
            block: Wait for one.
            timeout: Seconds that the call may take; None waits forever.

        Raises:
            Empty: No message came in time.
            ValueError: The queue is closed.
        """
        if self._closed:
            self._check()
        return self._ring[timeout if block else 0.0]  # type: ignore[no-any-return]

    def get_nowait(self) -> _T:
        """Return the next object, or raise `Empty` at once."""
        self._check()
        return self._ring[0.0]  # type: ignore[no-any-return]

    def get_many(self, max_n: int, timeout: float | None = None) -> list[_T]:
        """Wait for one object, then return it and others that are there: at most *max_n* in all.

        If a message cannot be unpickled and there are others to return, its error goes to
        `sys.unraisablehook`.

        Raises:
            Empty: No message came within *timeout* seconds.
            ValueError: *max_n* is less than 1, or the queue is closed.
        """
        self._check()
        taken: list[_T] = []
        try:
            self._ring.get_many(max_n, timeout, taken)
            return taken
        except BaseException:
            self._ring.give_back(taken)
            raise

    async def aget(self) -> _T:
        """Return the next object; other asyncio tasks run until there is one."""
        while True:
            self._check()
            try:
                return self._ring[0.0]  # type: ignore[no-any-return]
            except Empty as error:  # `contextlib.suppress` would be called after a message is taken
                if is_of_message(error):
                    raise
            await _readable(self._reader.fileno())

    # --- state ---

    def qsize(self) -> int:
        """Return how many messages were put and not yet taken."""
        return int(self._ring.size())

    def empty(self) -> bool:
        """Whether there is no message to get at this moment.

        Raises:
            OSError: The queue is closed and has a message.
        """
        n = self._ring.n_messages()
        if n and self._closed:
            raise OSError("handle is closed")
        return not n

    @property
    def _maxsize(self) -> int:
        return int(self._ring.max_messages) or SEM_VALUE_MAX

    def full(self) -> bool:
        """Whether ``put`` would wait."""
        return int(self._ring.size()) >= self._maxsize

    def fileno(self) -> int:
        """Return a descriptor that is readable while there is a message. The queue closes it."""
        return self._reader.fileno()

    # --- the end ---

    def close(self) -> None:
        """Stop using the queue in this process. Messages that wait for room are still put."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        maxsize = getattr(self, "_maxsize", SEM_VALUE_MAX)
        bound = "" if maxsize == SEM_VALUE_MAX else f" of at most {maxsize}"
        return _described(self, bound, getattr(self, "_closed", False))

    def join_thread(self) -> None:
        """Wait until everything this process put is in the queue.

        Raises:
            AssertionError: The queue is not closed.
        """
        debug("Queue.join_thread()")
        if not self._closed:
            raise AssertionError(f"Queue {self!r} not closed")
        self._ring.join_feeder()

    def cancel_join_thread(self) -> None:
        """Let the process end without waiting until everything it put is in the queue."""
        debug("Queue.cancel_join_thread()")
        self._ring.cancel_join()

    @staticmethod
    def _on_queue_feeder_error(e: Exception, obj: object) -> None:
        """Print the error of an object that could not be put; subclasses may do more."""
        print_error(e)


class JoinableQueue(Queue[_T]):
    """A queue that counts which messages its consumers have finished."""

    def task_done(self) -> None:
        """Report that the work on one object is finished.

        Raises:
            ValueError: There were more calls than objects.
        """
        if not self._ring.task_done():
            raise ValueError("task_done() called too many times")

    def join(self) -> None:
        """Wait until the work on every object that was put is finished."""
        self._ring.join(None)


#: How long a task waits without a look whether another one has closed what it waits for.
_SLICE_S = 0.25


async def _readable(fd: int, timeout: float = _SLICE_S) -> None:
    """Wait until *fd* is readable, or for so many seconds."""
    import asyncio  # programs that await have imported it; others need not load it

    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    # A loop has one reader for each descriptor, and several tasks may wait for this one.
    own = Descriptor(os.dup(fd), high=False)
    number = own.fileno()
    end = functools.partial(_finish, ready)
    loop.add_reader(number, end)
    timer = loop.call_later(timeout, end)
    try:
        await ready
    finally:
        timer.cancel()
        if own.fileno() >= 0:
            loop.remove_reader(number)
        own.close()


def _finish(ready: Any) -> None:
    if not ready.done():
        ready.set_result(None)
