"""POSIX message queues: short messages of bytes, kept by the kernel."""

from __future__ import annotations

import errno
import queue
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from shmtensor.posix import _names

__all__ = ["Message", "MessageQueue"]

_CLOSED = -1


class Message(NamedTuple):
    """A message with its priority.

    Attributes:
        data: Its bytes.
        priority: 0 to 32767; messages of a higher priority are received first.
    """

    data: bytes
    priority: int


class MessageQueue:
    """A queue of bytes that any program opens by ``mq_open(name, ...)``.

    The kernel keeps the messages and wakes whoever waits. A killed process leaves the queue usable
    and its messages in it. The name stays until `unlink`, or until the machine stops.

    Args:
        name: A slash and 1 to 254 bytes, none of them a slash or 0.
        max_messages: How many messages a new queue holds. It is made if there is none of this
            name. None: it must exist. Linux allows users the number in
            ``/proc/sys/fs/mqueue/msg_max``, which is 10 unless somebody has changed it.
        max_message_bytes: The longest message of a new queue, in bytes; Linux allows what is in
            ``/proc/sys/fs/mqueue/msgsize_max``, 8192 unless somebody has changed it.
        mode: Permission bits of a new queue; those of the umask are taken off.
        read: Open it to receive.
        write: Open it to send.

    Raises:
        FileNotFoundError: There is none of this name, and no *max_messages*.
        PermissionError: This user may not read or write it as asked.
        ValueError: The name or a size is none; the queue that exists has other sizes; or neither
            *read* nor *write* was asked for.

    A ``with`` block closes it at its end. It is a descriptor that can be polled (`fileno`), so
    ``select``, ``epoll`` and ``asyncio`` wait for it among others.
    """

    def __init__(
        self,
        name: str,
        max_messages: int | None = None,
        max_message_bytes: int = 8192,
        *,
        mode: int = 0o600,
        read: bool = True,
        write: bool = True,
    ) -> None:
        self._queue: _names.Opened | None = None
        _names.check(name)
        if not (read or write):
            raise ValueError("MessageQueue(): read, write or both must be True")
        if max_messages is not None and (max_messages < 1 or max_message_bytes < 1):
            raise ValueError(
                f"a queue holds at least 1 message of 1 byte, got max_messages={max_messages}, "
                f"max_message_bytes={max_message_bytes}"
            )
        self.name = name
        self._queue = _names.Opened(
            self._opened(max_messages, max_message_bytes, mode, read, write)
        )
        if max_messages is not None and (self.max_messages, self.max_message_bytes) != (
            max_messages,
            max_message_bytes,
        ):
            has = f"{self.max_messages} messages of {self.max_message_bytes} bytes"
            self.close()
            raise ValueError(f"queue {name} holds {has}, not {max_messages} of {max_message_bytes}")

    def _opened(
        self, max_messages: int | None, max_bytes: int, mode: int, read: bool, write: bool
    ) -> Any:
        kind = _names.posix_ipc.MessageQueue
        with _names.errors_of("MessageQueue()", self.name):
            if max_messages is None:
                return kind(self.name, 0, read=read, write=write)
            try:
                return kind(
                    self.name,
                    _names.posix_ipc.O_CREAT,
                    mode,
                    max_messages,
                    max_bytes,
                    read,
                    write,
                )
            except ValueError:
                raise ValueError(
                    f"queue {self.name}: this user may not make one of {max_messages} messages of "
                    f"{max_bytes} bytes; the limits are {_limit('msg_max')} and "
                    f"{_limit('msgsize_max')} in /proc/sys/fs/mqueue"
                ) from None

    def _of_open(self) -> _names.Opened:
        if self._queue is None:
            raise ValueError(f"queue {self.name} is closed")
        return self._queue

    def send(self, data: bytes, priority: int = 0, timeout: float | None = None) -> None:
        """Put a message into the queue.

        Args:
            data: Its bytes; at most `max_message_bytes`.
            priority: 0 to 32767; higher ones are received first.
            timeout: Seconds to wait for room; None waits forever, 0 does not wait.

        Raises:
            queue.Full: There was no room in *timeout* seconds.
            ValueError: The message is too long, the priority is none, or the queue is closed, also
                meanwhile.
            OSError: The queue is not open to send.
        """
        opened = self._of_open()
        nbytes = memoryview(data).nbytes
        if nbytes > self.max_message_bytes:
            raise ValueError(
                f"queue {self.name} takes messages of up to {self.max_message_bytes} bytes, got "
                f"{nbytes}"
            )
        if not 0 <= priority <= 32767:
            raise ValueError(f"a priority is 0 to 32767, got {priority}")
        message = bytes(data)
        self._wait(lambda left: opened.of.send(message, left, priority), timeout, queue.Full)

    def receive(self, timeout: float | None = None) -> Message:
        """Take the oldest message of the highest priority.

        Args:
            timeout: Seconds to wait for one; None waits forever, 0 does not wait.

        Returns:
            Its bytes and its priority.

        Raises:
            queue.Empty: None came in *timeout* seconds.
            ValueError: The queue is closed, also meanwhile.
            OSError: The queue is not open to receive.
        """
        opened = self._of_open()
        return Message(*self._wait(lambda left: opened.of.receive(left), timeout, queue.Empty))

    def _wait(
        self, step: Callable[[float], Any], timeout: float | None, late: type[Exception]
    ) -> Any:
        try:
            return _names.wait(step, timeout, self._of_open)
        except _names.posix_ipc.BusyError:
            raise late(f"after {timeout} s") from None
        except _names.posix_ipc.PermissionsError:
            raise PermissionError(errno.EBADF, "the queue is not open for that") from None

    @property
    def max_messages(self) -> int:
        """How many messages it holds at most."""
        opened = self._of_open()
        return int(opened.of.max_messages)

    @property
    def max_message_bytes(self) -> int:
        """How long a message may be."""
        opened = self._of_open()
        return int(opened.of.max_message_size)

    def __len__(self) -> int:
        opened = self._of_open()
        return int(opened.of.current_messages)

    def fileno(self) -> int:
        """Return the descriptor, which is readable while there is a message and writable while
        there is room; -1: it is closed.

        It belongs to the queue: ``loop.add_reader(q.fileno(), ...)`` and then
        ``q.receive(timeout=0)``.
        """
        opened = self._queue
        return _CLOSED if opened is None else int(opened.of.mqd)

    def notify(self, callback: Callable[[MessageQueue], object] | None) -> None:
        """Call *callback* once when a message comes into the empty queue.

        It is called with the queue in a thread of its own. The kernel tells one process at a time,
        and once: ask again for the next message, *before* receiving those that are there. Nothing
        is told while another process waits in `receive`.

        Args:
            callback: None: tell nothing any more.

        Raises:
            RuntimeError: Another process is to be told already.
            ValueError: The queue is closed.
        """
        opened = self._of_open()
        try:
            opened.of.request_notification(None if callback is None else (callback, self))
        except _names.posix_ipc.BusyError:
            raise RuntimeError(
                f"queue {self.name}: a process is to be told of the next message already"
            ) from None

    def unlink(self, *, missing_ok: bool = False) -> None:
        """Remove the name; whoever has opened the queue keeps it and its messages.

        Args:
            missing_ok: Raise nothing if there is no such name.

        Raises:
            FileNotFoundError: There is no such name.
            PermissionError: It is another user's.
        """
        try:
            with _names.errors_of("unlink()", self.name):
                _names.posix_ipc.unlink_message_queue(self.name)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def close(self) -> None:
        """Close the descriptor; it may be done twice. Messages stay in the queue.

        Waits of other threads end with ValueError within a second.
        """
        self._queue = None

    def __enter__(self) -> MessageQueue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._queue is None else f"{len(self)} of {self.max_messages} messages"
        return f"<MessageQueue {self.name!r}, {state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a MessageQueue is opened by its name, it cannot be pickled")


def _limit(name: str) -> str:
    try:
        with open(f"/proc/sys/fs/mqueue/{name}") as file:
            return file.read().strip()
    except OSError:
        return "unknown"
