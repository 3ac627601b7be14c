"""Topics: one message for everybody who subscribes."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import AsyncIterator, Iterator
from queue import Empty, Full
from typing import TYPE_CHECKING, Any, Generic, NoReturn

from shmtensor import _C
from shmtensor._boundary.service import MODES
from shmtensor._core._deadlines import deadline_of, left_until
from shmtensor.multiprocessing.queues import _readable, is_of_message
from shmtensor.service import _libraries
from shmtensor.service._libraries import Library
from shmtensor.service._messages import AS_OURS, received, show_as

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from typing_extensions import Self, TypeVar

    from shmtensor.service._service import Service

    _T = TypeVar("_T", default=Any)
else:
    from typing import TypeVar

    _T = TypeVar("_T")

__all__ = ["OVERFLOWS", "Loan", "Subscription", "Topic"]

#: What happens when a subscriber has no room; the position is the C code.
OVERFLOWS = ("drop_oldest", "block", "drop_newest")
_MOST = 65536
#: How long `apublish` lets others run before it looks for room again; `publish` looks as often.
_SHORT_PAUSE_S, _LONG_PAUSE_S = 0.001, 0.01


class Topic(Generic[_T]):
    """A topic that any process of the service's user or group opens by its name.

    Everybody who subscribes gets every message that is published from then on. The payload is in
    memory once, however many subscribers there are: tensors in the service's memory (from `loan`,
    `Service.empty`, attached with ``"rw"``, or received) go as they are, and all others are copied
    there once. All subscribers see the messages in one order. Each message arrives at most once: a
    publisher that is killed in the middle of `publish` has reached some of them and not the others.

    The first process that asks for the name makes the topic. It lives as long as any process has it
    open; with *persist* until it is unpublished. Whoever says *history*, *depth*, *overflow* or
    *persist* first settles it for everybody: a history and an overflow from the next message on, a
    depth for subscriptions from then on. Subscribers may come, go, be stopped or be killed at any
    time.

    Between processes of one user, values that are no tensors, arrays or plain values are pickled.
    In a service of a group or of another user they are refused.

    Args:
        service: The service that has the name.
        name: 1 to 127 bytes.
        history: So many of the last messages are kept, and a subscriber gets them first. At most
            65 536; None leaves it open: none are kept until somebody says how many.
        depth: So many messages wait for each subscriber. At most 65 536; None leaves it open: 16
            until somebody says it.
        overflow: What happens when *depth* messages wait for a subscriber: ``"drop_oldest"``
            there, ``"drop_newest"`` there, or ``"block"``: `publish` waits until every subscriber
            has room. None leaves it open: ``"drop_oldest"`` until somebody says it.
        persist: Keep the topic, with its history, when no process has it open.

    Raises:
        ValueError: The name stands for something else, or another *history*, *depth* or *overflow*
            was said before.
        HandleError: A process has written over the topic.
        ManagerError: The service cannot be reached.
    """

    def __init__(
        self,
        service: Service,
        name: str,
        *,
        history: int | None = None,
        depth: int | None = None,
        overflow: str | None = None,
        persist: bool = False,
    ) -> None:
        service._check_name(name)
        _check_count("history", history, 0)
        _check_count("depth", depth, 1)
        if overflow is not None and overflow not in OVERFLOWS:
            raise ValueError(f"overflow must be one of {OVERFLOWS}, got {overflow!r}")
        self._service, self._name = service, name
        self._is_closed = False
        self._topic = _C._named_topic(
            service._handle.address,
            name,
            -1 if depth is None else depth,
            -1 if history is None else history,
            -1 if overflow is None else OVERFLOWS.index(overflow),
            persist,
        )
        self._topic.adopts = AS_OURS

    # --- publishing ---

    def publish(self, value: _T, timeout: float | None = None) -> None:
        """Publish a value for all subscribers.

        Args:
            value: A tensor, a NumPy array, a tensor of torch, what another library offers by
                DLPack, numbers, strings, bytes, None, or lists, tuples and dicts of these; or a
                `Loan` of this topic. Between processes of one user, anything that can be pickled.
            timeout: Seconds to wait where the topic's *overflow* is ``"block"``, or while another
                process publishes; None waits forever.

        Raises:
            queue.Full: A subscriber had no room; nobody has got the value.
            TypeError: The value cannot be sent.
            RuntimeError: A tensor requires grad and is not a leaf; the loan was published before.
            MemoryError: There is not enough room.
            ValueError: The topic is closed, or the loan is another topic's.
        """
        self._check_open()
        if isinstance(value, Loan):
            value._publish_to(self, timeout)
        else:
            self._topic.publish(value, timeout, False)

    async def apublish(self, value: _T, timeout: float | None = None) -> None:
        """Publish as `publish` does; other asyncio tasks run while a subscriber has no room.

        The value is packed once, before other tasks run. Arguments and errors are those of
        `publish`. When the task is cancelled while it waits, nobody has got the value.
        """
        self._check_open()
        if isinstance(value, Loan):
            await value._publish_to_async(self, timeout)
        else:
            await self._publish_async(value, timeout)

    async def _publish_async(self, value: object, timeout: float | None) -> None:
        import asyncio  # programs that await have imported it; others need not load it

        deadline = deadline_of(timeout)
        packed = self._topic.pack(value)
        pause = _SHORT_PAUSE_S
        while True:
            self._check_open()
            left = left_until(deadline)
            try:
                self._topic.publish(packed, 0.0, False)
                return
            except Full:  # or others publish at this moment
                if left == 0.0:
                    raise
            await asyncio.sleep(pause if left is None else min(pause, left))
            pause = min(2 * pause, _LONG_PAUSE_S)

    def _publish_forwarded(self, value: object, timeout: float | None) -> None:
        """Publish what comes from another machine; see `_subscribe_to_local`."""
        self._check_open()
        self._topic.publish(value, timeout, True)

    def loan(
        self,
        *shape: int | Sequence[int],
        dtype: object = None,
        as_: Library = "shmtensor",
        timeout: float | None = 0.0,
    ) -> Loan:
        """Return memory of the service to write a message in, which `publish` need not copy.

        Args:
            *shape: The sizes: numbers, or one sequence of them.
            dtype: As for `Service.empty`.
            as_: What to write in: a tensor (``"shmtensor"``), an array (``"numpy"``), or a tensor
                of torch (``"torch"``).
            timeout: Seconds to wait for room if a memory limit is reached; None waits forever.

        Raises:
            TypeError: The library has no such dtype.
            MemoryError: There is not enough room.
            ValueError: The topic is closed.
        """
        self._check_open()
        value = self._service.empty(*shape, dtype=dtype, timeout=timeout, as_=as_)
        return Loan(self, value)

    # --- subscribing ---

    def subscribe(self, *, mode: str = "ro", as_: Library = "shmtensor") -> Subscription[_T]:
        """Begin to receive what is published, after the history.

        Args:
            mode: How the tensors that arrive may be used, as in `Service.attach`: ``"ro"``, or
                ``"rw"``, where all subscribers see what one writes, or ``"cow"``.
            as_: Whose tensors arrive: ``"shmtensor"``, ``"numpy"`` or ``"torch"``.

        Raises:
            RuntimeError: The topic has all of its 1 020 subscribers.
            MemoryError: There is not enough room.
            ValueError: The topic is closed.
        """
        self._check_open()
        _libraries.check_library(as_)
        ring = self._topic.subscribe(None, _mode_code(mode), False)
        show_as(ring, as_)
        return Subscription(self, ring)

    def _subscribe_to_local(self) -> Subscription[_T]:
        """Receive, as they are, what is published on this machine: nothing that was forwarded.

        Note [Forwarded messages] in csrc/ipc/topic/topic_layout.h.
        """
        self._check_open()
        return Subscription(self, self._topic.subscribe(None, _mode_code("ro"), True))

    def latest(self, *, mode: str = "ro", as_: Library = "shmtensor") -> _T:
        """Return the newest value of the history; arguments as in `subscribe`.

        Raises:
            queue.Empty: Nothing was published yet.
            ValueError: The topic keeps no history, or is closed.
        """
        self._check_open()
        _libraries.check_library(as_)
        if self.history == 0:
            raise ValueError(f"the topic {self._name!r} keeps no history; open it with history=1")
        value = self._topic.latest(None, _mode_code(mode))
        return received(value, as_)  # type: ignore[no-any-return]

    # --- state ---

    @property
    def name(self) -> str:
        """Its name in the service."""
        return self._name

    @property
    def history(self) -> int:
        """How many of the last messages are kept."""
        return int(self._topic.history)

    @property
    def depth(self) -> int:
        """How many messages wait for each subscriber that comes now."""
        return int(self._topic.depth)

    @property
    def overflow(self) -> str:
        """What happens when a subscriber has no room."""
        return OVERFLOWS[self._topic.overflow]

    def _said(self) -> list[Any]:
        """Return depth, history and overflow; None for what nobody has said."""
        depth, history, overflow = self._topic.said
        return [depth, history, None if overflow is None else OVERFLOWS[overflow]]

    @property
    def n_subscribers(self) -> int:
        """How many subscriptions there are; those of processes killed just now may count."""
        return int(self._topic.n_subscribers)

    @property
    def n_published(self) -> int:
        """How many messages were ever published."""
        return int(self._topic.n_published)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ValueError(f"{self!r} is used after close()")

    def close(self) -> None:
        """Stop using the topic through this object. Its subscriptions go on."""
        self._is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        closed = ", closed" if self._is_closed else ""
        return f"<Topic {self._name!r} of {self._service!r}{closed}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Topic is opened by its name, it cannot be pickled")


class Loan:
    """Memory of the service in which a message is written.

    A ``with`` block gives the memory, and publishes it when it ends without an exception::

        with topic.loan(480, 640, 3, dtype="uint8", as_="numpy") as frame:
            camera.read_into(frame)

    ``async with`` does the same, and other asyncio tasks run while a subscriber has no room.

    Attributes:
        value: The tensor or array. Once it is published, subscribers see what is written there.
    """

    def __init__(self, topic: Topic[Any], value: Any) -> None:
        self._topic = topic
        self.value = value
        self._is_published = False

    def publish(self, timeout: float | None = None) -> None:
        """Publish the memory, once; otherwise like `Topic.publish`."""
        self._topic.publish(self, timeout)

    async def apublish(self, timeout: float | None = None) -> None:
        """Publish the memory, once; otherwise like `Topic.apublish`."""
        await self._topic.apublish(self, timeout)

    def _publish_to(self, topic: Topic[Any], timeout: float | None) -> None:
        with self._publishing(topic):
            topic._topic.publish(self.value, timeout, False)

    async def _publish_to_async(self, topic: Topic[Any], timeout: float | None) -> None:
        with self._publishing(topic):
            await topic._publish_async(self.value, timeout)

    @contextlib.contextmanager
    def _publishing(self, topic: Topic[Any]) -> Iterator[None]:
        """Count as published, unless the block raises."""
        if topic is not self._topic:
            raise ValueError(f"a loan of {self._topic!r} is published there, not in {topic!r}")
        if self._is_published:
            raise RuntimeError(f"a loan of {topic!r} was published before; take another one")
        self._is_published = True  # from now on, so that no other task publishes it meanwhile
        try:
            yield
        except BaseException:
            self._is_published = False
            raise

    def __enter__(self) -> Any:
        return self.value

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None and not self._is_published:
            self.publish()

    async def __aenter__(self) -> Any:
        return self.value

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None and not self._is_published:
            await self.apublish()

    def __repr__(self) -> str:
        state = "published" if self._is_published else "not published yet"
        return f"<Loan of {self._topic!r}, {state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Loan is published once, it cannot be copied or pickled")


class Subscription(Generic[_T]):
    """What arrives from a topic in this process: `Topic.subscribe` makes it.

    A ``with`` block ends it. Iteration, also with ``async for``, waits for one value after another,
    and ends when the subscription is closed.
    """

    def __init__(self, topic: Topic[_T], ring: Any) -> None:
        self._topic, self._ring = topic, ring
        self._end = weakref.finalize(self, topic._topic.unsubscribe, ring)

    # --- taking ---

    def get(self, timeout: float | None = None) -> _T:
        """Return the next value.

        Args:
            timeout: Seconds to wait; None waits forever, 0 does not wait.

        Raises:
            queue.Empty: Nothing came in time.
            TypeError: The library that this was subscribed with has no such dtype.
            ValueError: The subscription is closed.
        """
        self._check_open()
        try:
            return self._ring[timeout]  # type: ignore[no-any-return]
        except (EOFError, OSError):  # another thread has closed it
            self._check_open()
            raise

    def get_many(self, max_n: int, timeout: float | None = None) -> list[_T]:
        """Wait for one value, then return it and others that are there: at most *max_n* in all.

        Raises:
            queue.Empty: Nothing came in time.
            ValueError: *max_n* is less than 1, or the subscription is closed.
            TypeError: The library has no such dtype. The next call returns the other values.
        """
        self._check_open()
        taken: list[_T] = []
        try:
            self._ring.get_many(max_n, timeout, taken)
            return taken
        except BaseException as error:
            self._ring.give_back(taken)
            if isinstance(error, EOFError):  # another thread has closed it
                self._check_open()
            raise

    async def aget(self) -> _T:
        """Return the next value; other asyncio tasks run until there is one."""
        while True:
            self._check_open()
            try:
                return self._ring[0.0]  # type: ignore[no-any-return]
            except Empty as error:  # `contextlib.suppress` would be called after a value is taken
                if is_of_message(error, __name__):
                    raise
            except (EOFError, OSError):  # another thread has closed it
                self._check_open()
                raise
            await _readable(self.fileno())

    def latest(self, timeout: float | None = None) -> _T:
        """Wait for a value, and return the newest one; the older ones are skipped.

        Raises:
            queue.Empty: Nothing came in time.
            TypeError: The library that this was subscribed with has no such dtype.
            ValueError: The subscription is closed.
        """
        self._check_open()
        try:
            value = self._ring[timeout]
        except (EOFError, OSError):  # another thread has closed it
            self._check_open()
            raise
        try:
            try:
                for _ in range(self.qsize()):
                    value = self._ring[0.0]
            except Empty as error:  # another thread has taken one
                if is_of_message(error, __name__):
                    raise
        except BaseException as error:
            self._ring.give_back([value])
            if isinstance(error, (EOFError, OSError)):  # another thread has closed it
                self._check_open()
            raise
        return value  # type: ignore[no-any-return]

    def poll(self, timeout: float | None = 0.0) -> bool:
        """Whether a value arrives within *timeout* seconds (None: wait forever)."""
        self._check_open()
        is_there = bool(self._ring.poll(timeout))
        self._check_open()
        return is_there

    def __iter__(self) -> Iterator[_T]:
        while self._end.alive:
            try:
                value = self.get()
            except ValueError:
                if not self._end.alive:
                    return
                raise
            yield value

    async def __aiter__(self) -> AsyncIterator[_T]:
        while self._end.alive:
            try:
                value = await self.aget()
            except ValueError:
                if not self._end.alive:
                    return
                raise
            yield value

    # --- state ---

    @property
    def lost(self) -> int:
        """How many messages did not reach this subscriber, because it had no room."""
        return int(self._ring.n_lost)

    def qsize(self) -> int:
        """Return how many values wait."""
        return int(self._ring.n_messages())

    def fileno(self) -> int:
        """Return a descriptor that is readable while a value waits. The subscription closes it."""
        self._check_open()
        return int(self._ring.fileno(True))

    def _check_open(self) -> None:
        if not self._end.alive:
            raise ValueError(f"{self!r} is used after close()")

    def close(self) -> None:
        """Receive nothing any more. Values that were received stay usable."""
        # Not by the finalizer, which runs once: an interrupted call can be made again.
        self._topic._topic.unsubscribe(self._ring)
        self._end.detach()
        self._ring.end(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = f"{self.qsize()} messages, {self.lost} lost" if self._end.alive else "closed"
        return f"<Subscription to {self._topic._name!r}, {state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Subscription is of one process, it cannot be pickled")


def _check_count(what: str, n: int | None, least: int) -> None:
    if n is not None and not least <= n <= _MOST:
        raise ValueError(f"{what} must be a number from {least} to {_MOST}, got {n!r}")


def _mode_code(mode: str) -> int:
    if mode not in MODES:
        raise ValueError(f"mode must be one of {MODES}, got {mode!r}")
    return MODES.index(mode)
