"""The workers of a pool, and the thread that supervises them.

    user ──put──> TaskQueue ──feeder thread──> ready ──┐ the thread that finds a task
            └──────── a task alone ────────────────────┼─ and an idle worker sends it
    user <──results── supervisor thread <── channels <─┘

Every worker has its own connection and one task at a time. So it is known what a worker was doing
when it ended, and no worker can leave a lock behind. Its task fails with `WorkerLostError`, a new
worker is started, and everything else continues. The supervisor waits for all channels and workers
at once, and never for the rest of a message. So a worker that is stopped or killed in the middle of
a message blocks nobody.

Note [User code on the pool's threads]
Both threads run code of the user: iterators, pickling, unpickling, callbacks. Whatever that raises,
also SystemExit, is the result of its own task, or is printed. The threads and other tasks go on.

When one worker after the other ends before it is ready for work (for instance because the
initializer fails), the group breaks and all tasks fail. Otherwise it would start workers forever.
"""

from __future__ import annotations

import collections
import contextlib
import os
import queue
import selectors
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from multiprocessing import pool as _standard
from multiprocessing import util
from typing import Any, NamedTuple

from shmtensor import _C
from shmtensor._boundary.descriptors import Flag
from shmtensor._boundary.sharing import give_up
from shmtensor._core._fork_locks import free_in_child
from shmtensor._core._interrupts import Condition
from shmtensor._core._signal_handlers import came_from_handler
from shmtensor.errors import ShmTensorError
from shmtensor.multiprocessing import _worker
from shmtensor.multiprocessing._channel import Channel
from shmtensor.multiprocessing._children import Child, child_of, end_all
from shmtensor.multiprocessing._exit_status import in_words, signal_name
from shmtensor.multiprocessing._user_errors import as_error, print_error
from shmtensor.multiprocessing.adoption import dumps_with

__all__ = ["BrokenPoolError", "TaskQueue", "PoolWorkers", "WorkerLostError"]

_ApplyResult: Any = _standard.ApplyResult
_IMapIterator: Any = _standard.IMapIterator

#: How many tasks are taken from the user's iterators in advance.
_N_READY = 16
#: Nor more, while as many bytes of tasks wait for workers.
_MOST_READY_BYTES = 1 << 26
#: Seconds that `terminate` leaves between SIGTERM and SIGKILL.
_TERMINATE_GRACE_S = 5.0

#: Seconds without an event after which the supervisor checks that its descriptors are there.
_SLICE_S = 1.0

#: Seconds to wait for the feeder thread, which may be running an iterator of the user.
_FEEDER_GRACE_S = 1.0


class BrokenPoolError(ShmTensorError, RuntimeError):
    """A pool cannot run tasks: it was terminated, or its workers do not start."""


class WorkerLostError(BrokenPoolError):
    """The worker that ran a task ended before it had a result.

    Args:
        pid: Its process id.
        exitcode: Its exit status; negative for the signal that killed it; None if nobody knows it.
    """

    def __init__(self, pid: int | None, exitcode: int | None) -> None:
        super().__init__(pid, exitcode)
        self.pid = pid
        self.exitcode = exitcode

    @property
    def signal_name(self) -> str | None:
        """Name of the signal that killed the worker, if one did."""
        return signal_name(self.exitcode)

    def __str__(self) -> str:
        how = in_words(self.exitcode, ended="exited with code")
        return f"the worker process {self.pid} of the pool {how} while it ran this task"


class _Worker:
    """A worker process as the supervisor sees it."""

    def __init__(self, child: Child, channel: Channel) -> None:
        self.child = child
        self.channel = channel
        self.is_ready = False
        self.n_done = 0
        self._events: int | None = None  # that the selector waits for; None: not registered
        self._sentinel = -1  # as it is registered

    def _wanted_events(self) -> int:
        wanted = selectors.EVENT_WRITE if self.channel.sender.has_unsent else 0
        is_read = not self.channel.is_at_end and not self.channel.is_unreadable
        return wanted | selectors.EVENT_READ if is_read else wanted

    def needs_watch(self) -> bool:
        """Whether the selector must be updated by `watch`."""
        return self._events != self._wanted_events()

    def watch(self, selector: selectors.BaseSelector) -> None:
        """Register with the selector the events to wait for."""
        wanted = self._wanted_events()
        if self._events is None:
            self._sentinel = self.child.sentinel
            selector.register(self._sentinel, selectors.EVENT_READ, self)
        elif self._events:
            selector.unregister(self.channel)
        if wanted:
            selector.register(self.channel, wanted, self)
        self._events = wanted

    def close(self, selector: selectors.BaseSelector) -> None:
        """Close its descriptors."""
        if self._events is not None:
            selector.unregister(self._sentinel)
            if self._events:
                selector.unregister(self.channel)
        self.channel.close()
        self.child.close()


def _without_stop(result: tuple[bool, Any]) -> tuple[bool, Any]:
    """Return the result of a task of ``imap``, whose iterator no StopIteration of a task may end.

    The iterator raises RuntimeError, as a generator does: the results after it would be missing
    without a word.
    """
    is_success, value = result
    if is_success or not isinstance(value, StopIteration):
        return result
    error = RuntimeError("a task of the pool raised StopIteration")
    error.__cause__ = value
    return False, error


class _Pickled(NamedTuple):
    """A task as workers get it."""

    key: tuple[int, int]
    """Job, and index in it."""
    message: Any


class TaskQueue:
    """The queue into which the standard pool's methods put iterators of tasks.

    A list of one task goes to an idle worker at once: the feeder thread would cost a switch.
    An interrupted `put` has put its item, or has not; see Note [A task is given in one call] in
    csrc/python/ipc/pipes/task_sender.h.
    """

    def __init__(self) -> None:
        self._items: collections.deque[Any] = collections.deque()  # the first one is being fed
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.send_now: Callable[[tuple[Any, ...]], bool] = lambda _: False
        self.was_put: Callable[[], None] = lambda: None

    def put(self, item: Any) -> None:
        """Add an item: tasks, and a function that is told their number; None is the end."""
        if not self._items and item and isinstance(item[0], list) and len(item[0]) == 1:
            tasks, set_length = item
            if set_length is None and self.send_now(tasks[0]):
                return
        self.append(item)

    def append(self, item: Any) -> None:
        """Add an item for the feeder thread."""
        self._items.append(item)
        self.ring()
        self.was_put()

    def ring(self) -> None:
        """Have the feeder thread look for items: an interrupted `put` may not have told it."""
        self._bell.put(None)

    def get(self) -> Any:
        """Wait for the first item. The caller says with `was_fed` that it has no more tasks."""
        while not self._items:
            self._bell.get()
        return self._items[0]

    def was_fed(self) -> None:
        """Remove the first item, whose tasks are ready for workers or sent."""
        self._items.popleft()

    def is_empty(self) -> bool:
        """Whether all tasks that were put are ready for workers or sent."""
        return not self._items


class PoolWorkers:
    """Workers, their tasks, and the threads that serve them. Holds no reference to the pool.

    Args:
        make_process: Makes a process from ``(target=, args=)`` without starting it.
        n_workers: Number of workers.
        worker_args: Initializer, its arguments, tasks per worker, whether to wrap exceptions, and
            what tasks and results adopt.
        processes: The pool's list of processes, which is kept up to date.
        cache: Pending results by job number, as in the standard pool.
        taskqueue: The queue into which the pool's methods put iterators of tasks.
    """

    def __init__(
        self,
        make_process: Callable[..., Any],
        n_workers: int,
        worker_args: tuple[Any, ...],
        processes: list[Any],
        cache: dict[int, Any],
        taskqueue: TaskQueue,
    ) -> None:
        self._make_process = make_process
        self._n_workers = n_workers
        self._max_ready = max(_N_READY, 4 * n_workers)
        self._worker_args = worker_args
        self._processes = processes
        self._cache = cache
        self._max_tasks: int | None = worker_args[2]
        self._dumps = dumps_with(worker_args[4])
        self._taskqueue = taskqueue
        self._wakeup = Flag()
        self._selector = selectors.PollSelector()  # which keeps no descriptor of its own
        self._selector.register(self._wakeup, selectors.EVENT_READ)
        # Set without the lock: signal handlers and finalizers close and terminate.
        self._is_closing = False
        self._is_stopping = False
        self._is_idle = False  # nothing happened in the last slice
        # Guards the lists of workers and ready tasks. Nothing is pickled, and no process started,
        # while a thread has it: that may take long, and wait for results that need it.
        self._lock = free_in_child(threading.RLock())
        self._has_room = free_in_child(Condition(self._lock))
        self._workers: list[_Worker] = []
        # Perhaps with some that have a task, or twice: an interrupt came before they were removed.
        self._idle: collections.deque[_Worker] = collections.deque()
        # Only the two threads of the group change it, in which no signal handler runs.
        self._ready: collections.deque[_Pickled] = collections.deque()
        self._n_ready_bytes = 0
        self._starting = free_in_child(threading.RLock())
        self._n_false_starts = 0
        self.breakage: BrokenPoolError | None = None
        self._has_ended = False
        self._pid = os.getpid()
        self._feeder: threading.Thread | None = None
        self._supervisor: threading.Thread | None = None

    def is_here(self) -> bool:
        """Whether this process has the threads of the group, and is no forked copy."""
        return self._pid == os.getpid()

    def check_is_here(self) -> None:
        """Raise unless this process has the threads of the group.

        Raises:
            ValueError: It is a forked copy of the process that has them.
        """
        if not self.is_here():
            raise ValueError(
                f"Pool not running: it is process {self._pid}'s, and this process, {os.getpid()}, "
                "was forked from that. Make a pool here"
            )

    # --- workers ------------------------------------------------------------------------------

    def repopulate(self) -> None:
        """Start workers until there are enough."""
        with self._starting:
            while len(self._workers) < self._n_workers:
                self._add_worker()
        self.wake()

    def _add_worker(self) -> None:
        channel = Channel()
        try:
            process = self._make_process(
                target=_worker.work, args=(channel.worker_end, *self._worker_args)
            )
            process.name = process.name.replace("Process", "PoolWorker")
            process.daemon = True
            worker = _Worker(child_of(process), channel)
            worker.child.start()
        except BaseException:
            channel.close()
            raise
        channel.close_worker_end()
        with self._lock:
            self._processes.append(process)
            self._workers.append(worker)
        util.debug("added worker")

    def abandon(self) -> None:
        """Undo a start that failed half-way."""
        self._kill_all()
        self._close()

    def _close(self) -> None:
        for worker in self._workers:
            worker.close(self._selector)
        self._workers.clear()
        self._idle.clear()
        self._selector.close()
        self._wakeup.close()

    def _reap(self, worker: _Worker) -> None:
        """Remove a worker whose process has ended, and fail the task that it had."""
        process, status = worker.child.process, worker.child.status()
        with self._lock:
            self._workers.remove(worker)
            self._processes.remove(process)
            self._idle = collections.deque(w for w in self._idle if w is not worker)
            task: tuple[int, int] | None = worker.channel.sender.end()
            if not worker.is_ready:
                self._n_false_starts += 1
        worker.close(self._selector)
        util.debug("cleaned up worker %s", process.pid)
        if task is not None:
            self._finish(*task, (False, WorkerLostError(process.pid, status)))
        if self._n_false_starts > max(2 * self._n_workers, 4):
            self._break(
                f"{self._n_false_starts} worker processes in a row ended before they were ready; "
                f"the last one, {process.pid}, {in_words(status)}"
            )

    def _break(self, reason: str) -> None:
        self.breakage = BrokenPoolError(f"the pool is broken: {reason}")
        self._is_stopping = True

    # --- tasks --------------------------------------------------------------------------------

    def _feed(self) -> None:
        """Take tasks from the queue and give them to workers. The feeder thread runs this."""
        for tasks, set_length in iter(self._taskqueue.get, None):
            self._feed_all(tasks, set_length)
            tasks = set_length = None
            self._taskqueue.was_fed()

    def _feed_all(self, tasks: Iterable[Any], set_length: Any) -> None:
        task = None
        try:
            for task in tasks:
                if not self._offer(task):
                    return
        except BaseException as error:  # of the user's iterator; an Exception has become a task
            if set_length is None:
                raise
            n = task[1] + 1 if task else 0
            failure = as_error(error, "the iterator of the pool's tasks")
            self._finish(set_length.__self__._job, n, (False, failure))
            set_length(n + 1)
        else:
            if set_length:
                set_length(task[1] + 1 if task else 0)

    def _send_now(self, task: tuple[Any, ...]) -> bool:
        """Send a task if a worker is idle and no task waits. False: the feeder is to do it."""
        if self._ready or not self._idle or self._is_stopping:
            return False
        _C._call_sending(self._pickle_and_give, task)
        return True

    def _pickle_and_give(self, task: tuple[Any, ...]) -> None:
        pickled = self._pickled(task)
        if pickled is None:
            return
        with self._lock:
            is_given = not self._ready and not self._is_stopping and self._give(pickled)
        if not is_given:
            self._taskqueue.append(([pickled], None))

    def _offer(self, task: tuple[Any, ...]) -> bool:
        """Give a task to an idle worker, or keep it for later. False: the group stops."""
        pickled = self._pickled(task)
        if pickled is None:
            return True
        with self._lock:
            while self._is_full() and not self._is_stopping:
                self._has_room.wait()
            if not self._is_stopping:
                self._n_ready_bytes += len(pickled.message)
                self._ready.append(pickled)
                self._dispatch()
                return True
        give_up([pickled.message])
        return False

    def _pickled(self, task: tuple[Any, ...]) -> _Pickled | None:
        """Pickle a task, if it is not. None: it cannot be pickled, and that is its result."""
        if isinstance(task, _Pickled):
            return task
        try:
            return _Pickled((task[0], task[1]), self._dumps(task))
        except BaseException as error:
            is_error = isinstance(error, Exception) and not came_from_handler(error)
            if not is_error and not self._is_on_own_thread():
                # The caller hears of it, and never gets the result.
                with contextlib.suppress(KeyError):
                    del self._cache[task[0]]
                raise
            self._finish(task[0], task[1], (False, as_error(error, "pickling a task of the pool")))
            return None

    def _is_on_own_thread(self) -> bool:
        """Whether no signal handler runs here: Note [User code on the pool's threads]."""
        return threading.current_thread() in (self._feeder, self._supervisor)

    def _is_full(self) -> bool:
        return len(self._ready) >= self._max_ready or self._n_ready_bytes >= _MOST_READY_BYTES

    def _dispatch(self) -> None:
        """Send tasks while there are tasks and idle workers. The caller holds the lock."""
        while self._ready and not self._is_stopping and self._give(self._ready[0]):
            was_full = self._n_ready_bytes >= _MOST_READY_BYTES
            self._n_ready_bytes -= len(self._ready.popleft().message)
            # Not for each task: it costs a switch.
            if was_full or 2 * len(self._ready) <= self._max_ready:
                self._has_room.notify()

    def _give(self, task: _Pickled) -> bool:
        """Give a task to an idle worker. False: none is idle. The caller holds the lock."""
        while self._idle:
            try:
                worker = self._idle[0]
            except IndexError:  # a signal handler has given it a task just now
                return False
            sender = worker.channel.sender
            is_given = sender.begin(task.key, task.message)
            with contextlib.suppress(ValueError):
                self._idle.remove(worker)
            if is_given:
                if sender.has_unsent:
                    self.wake()  # the supervisor sends the rest
                return True
        return False

    def _finish(self, job: int, index: int, result: tuple[bool, Any]) -> None:
        """Deliver a result. Callbacks of the user run here."""
        pending = self._cache.get(job)
        if pending is None:
            return
        if isinstance(pending, _IMapIterator):
            result = _without_stop(result)
        if type(pending) is _ApplyResult:
            # It is complete: it shall not keep the pool alive until this thread runs again.
            pending._pool = None
        try:
            pending._set(index, result)
        except BaseException as error:
            # A callback failed. No thread may wait forever because of that.
            if not isinstance(error, Exception) and not self._is_on_own_thread():
                raise
            print_error(error)
            self._cache.pop(job, None)
            event = getattr(pending, "_event", None)
            if event is not None:
                event.set()

    # --- the supervisor -----------------------------------------------------------------------

    def start(self) -> None:
        """Start both threads."""
        self._feeder = threading.Thread(
            target=self._feed, name="shmtensor-pool-feeder", daemon=True
        )
        self._supervisor = threading.Thread(
            target=self._supervise, name="shmtensor-pool-supervisor", daemon=True
        )
        self._feeder.start()
        self._supervisor.start()
        self._taskqueue.send_now = self._send_now
        self._taskqueue.was_put = self._fail_if_ended

    def wake(self) -> None:
        """Make the supervisor check its state again."""
        self._wakeup.set()

    def all_have_results(self) -> None:
        """Say that the cache is empty, for which a closed group waits."""
        if self._is_closing:
            self.wake()

    def _supervise(self) -> None:
        try:
            while not self._is_done():
                self._step()
            self._dismiss()
        except BaseException as error:
            # No process can be started, or the interpreter is ending.
            self._break(f"{type(error).__name__}: {error}")
            if not sys.is_finalizing():
                print_error(error)
            self._kill_all()
        finally:
            with self._lock:
                self._is_stopping = True
                unsent = [task.message for task in self._ready]
                self._ready.clear()
                self._has_room.notify_all()
                self._close()
            if unsent:
                give_up(unsent)
            self._has_ended = True
            self._taskqueue.append(None)  # which fails all that is left

    def _is_done(self) -> bool:
        if self._is_stopping or not self._is_closing:
            return self._is_stopping
        # What stays in the cache without a task comes from an interrupted call, and nobody has it.
        return (not self._cache or self._is_idle) and not self._has_tasks()

    def _has_tasks(self) -> bool:
        is_fed = self._taskqueue.is_empty() and not self._ready
        return not is_fed or any(worker.channel.sender.is_busy for worker in self._workers)

    def _step(self) -> None:
        """Wait for an event and handle it."""
        if self._wakeup.fileno() < 0:
            raise OSError("the program has closed the descriptors of the pool")
        if len(self._workers) < self._n_workers:
            self.repopulate()
        self._watch_workers()
        found = self._selector.select(_SLICE_S)
        self._is_idle = not found
        for key, events in found:
            worker: _Worker | None = key.data
            if worker is None:
                self._wakeup.clear()
                continue
            if key.fileobj is not worker.channel:
                self._take_messages(worker)  # those that it sent before it ended
                self._reap(worker)
                continue
            if events & selectors.EVENT_WRITE:
                with self._lock:
                    worker.channel.sender.flush()
            if events & selectors.EVENT_READ:
                self._take_messages(worker)

    def _watch_workers(self) -> None:
        """Update the selector for workers whose events have changed."""
        for worker in [w for w in self._workers if w.needs_watch()]:
            worker.watch(self._selector)

    def _take_messages(self, worker: _Worker) -> None:
        for message in worker.channel.receive():
            with self._lock:
                task: tuple[int, int] | None = worker.channel.sender.end()
                worker.n_done += task is not None
                worker.is_ready = True
                self._n_false_starts = 0
                if self._max_tasks is None or worker.n_done < self._max_tasks:
                    self._idle.append(worker)
                    self._dispatch()
            if task is not None:
                self._finish(*task, _worker.read_result(message))
        if worker.channel.is_unreadable:
            # It would wait for ever to be read. Its task fails when it has ended.
            worker.child.send_signal(signal.SIGKILL)

    # --- the end ------------------------------------------------------------------------------

    def close(self) -> None:
        """End when all results have arrived."""
        self._is_closing = True
        self._taskqueue.ring()
        self.wake()

    def terminate(self) -> None:
        """End all workers at once, and wait for that."""
        self._is_stopping = True
        self.wake()
        self.join()

    def join(self) -> None:
        """Wait for both threads, except for the calling one."""
        for thread, timeout in ((self._supervisor, None), (self._feeder, _FEEDER_GRACE_S)):
            if thread is not None and thread is not threading.current_thread():
                thread.join(timeout)

    def _dismiss(self) -> None:
        if self._is_stopping:
            self._kill_all()
            return
        for worker in self._workers:
            worker.channel.sender.begin(None, b"")
        for worker in self._workers:
            # It was asked to end, and may take as long as its exit handlers need.
            while not worker.channel.sender.flush() and not worker.child.wait(0.05):
                pass
            while not self._is_stopping and not worker.child.wait(0.1):
                pass
        if self._is_stopping:
            self._kill_all()

    def _kill_all(self) -> None:
        end_all([worker.child for worker in self._workers], _TERMINATE_GRACE_S)

    def _fail_if_ended(self) -> None:
        """Fail all pending results, if there will be none. Callbacks are not called."""
        if not self._has_ended:
            return
        error = self.breakage or BrokenPoolError("the pool was terminated")
        for job, pending in list(self._cache.items()):
            self._cache.pop(job, None)
            event = getattr(pending, "_event", None)
            if event is not None:
                pending._success, pending._value = False, error
                pending._pool = None
                event.set()
                continue
            with pending._cond:
                pending._items.append((False, error))
                pending._index += 1
                pending._length = pending._index
                pending._pool = None
                pending._cond.notify_all()
