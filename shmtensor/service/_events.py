"""Events that unrelated processes find by name."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, NoReturn

from shmtensor import _C
from shmtensor.errors import WaitTimeoutError
from shmtensor.service._waiting import await_until

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from shmtensor.service._service import Service

__all__ = ["Event"]

_END_OF_IDS = 1 << 64


class Event:
    """A flag that any process of the service's user or group opens by its name.

    It is set or not, as a `threading.Event`, and it can be pulsed: a pulse wakes everybody who
    waits at that moment, with a number, and sets nothing. A process that is killed at any moment
    leaves an event that works, and no setter waits for another process. It lives as long as any
    process has it open; with *persist* until it is unpublished.

    Args:
        service: The service that has the name.
        name: 1 to 127 bytes.
        persist: Keep the event, set or not, when no process has it open.

    Raises:
        ValueError: The name stands for something else.
        HandleError: A process has written over the event.
        ManagerError: The service cannot be reached.
    """

    def __init__(self, service: Service, name: str, *, persist: bool = False) -> None:
        service._check_name(name)
        self._service, self._name = service, name
        self._open_event: Any = _C._named_event(service._handle.address, name, persist)

    @property
    def _event(self) -> Any:
        if self._open_event is None:
            raise ValueError(f"{self!r} is used after close()")
        return self._open_event

    def _waited_for(self) -> Any:
        """Return what `wait_any` waits for."""
        return self._event

    # --- setting ---

    def set(self) -> None:
        """Set it: everybody who waits returns, and so do all later calls until `clear`."""
        self._event.set()

    def clear(self) -> None:
        """Clear it: later waits wait again."""
        self._event.clear()

    def is_set(self) -> bool:
        """Whether it is set. This asks neither the kernel nor the service."""
        return bool(self._event.is_set())

    def pulse(self, id: int = 0) -> None:
        """Wake everybody who waits at this moment, each of them once, and set nothing.

        Args:
            id: What `wait_pulse` returns there: 0 to 2**64 - 1.

        Raises:
            ValueError: *id* is out of range, or the event is closed.
        """
        number = operator.index(id)
        if not 0 <= number < _END_OF_IDS:
            raise ValueError(f"id must be a number from 0 to 2**64 - 1, got {number}")
        self._event.pulse(number)

    # --- waiting ---

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, or a pulse comes.

        Whoever waits already misses no `set`, even if another process clears the event at once.

        Args:
            timeout: Seconds to wait; None waits forever, 0 does not wait.

        Returns:
            False if the time has passed.

        Raises:
            ValueError: The event is closed.
        """
        return bool(self._event.wait(timeout))

    def wait_pulse(self, timeout: float | None = None) -> int:
        """Wait for the next pulse, and return its id.

        Two pulses that come before this process runs again count as one here, the later one;
        `n_pulses` tells. What comes between two calls is not seen.

        Args:
            timeout: Seconds to wait; None waits forever.

        Raises:
            WaitTimeoutError: No pulse came in time.
            ValueError: The event is closed.
        """
        return self._pulse(self._event.wait_pulse(timeout))

    async def await_set(self, timeout: float | None = None) -> bool:
        """Wait as `wait` does, while other asyncio tasks run."""
        return bool(await await_until(self._event, lambda ready: ready or None, timeout))

    async def await_pulse(self, timeout: float | None = None) -> int:
        """Wait as `wait_pulse` does, while other asyncio tasks run."""
        event = self._event
        n = event.n_pulses
        id_ = await await_until(event, lambda _: event.pulse_since(n), timeout)
        return self._pulse(id_)

    def _pulse(self, id_: int | None) -> int:
        if id_ is None:
            raise WaitTimeoutError(f"no pulse of {self!r} came in time")
        return int(id_)

    # --- state ---

    @property
    def name(self) -> str:
        """Its name in the service."""
        return self._name

    @property
    def n_pulses(self) -> int:
        """How many pulses there were."""
        return int(self._event.n_pulses)

    def fileno(self) -> int:
        """Return a descriptor that is readable while the event is set. The event closes it."""
        return int(self._event.fileno())

    def close(self) -> None:
        """Stop using the event through this object."""
        self._open_event = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        event = getattr(self, "_open_event", None)
        state = "closed" if event is None else "set" if event.is_set() else "not set"
        return f"<Event {self._name!r} of {self._service!r}, {state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an Event is opened by its name, it cannot be pickled")
