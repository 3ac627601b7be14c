"""Makers of the names of devices and libraries that are not here: ``cuda``, ``mkldnn`` and others.

Questions are answered ("no", "none", 0) without a sound, seeds have nothing to seed, and whatever
needs a device raises torch's error for a build without it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, ClassVar, NoReturn

from shmtensor import _C
from shmtensor._core._utils import _get_device_index

__all__ = [
    "Device",
    "DeviceGuard",
    "StreamContext",
    "Unchanging",
    "absent_class",
    "device_number",
    "dummy_class",
    "dummy_refusal",
    "no",
    "refusal_of",
    "refusals",
]

Device = _C.device | str | int | None
Refusal = Callable[[str], Exception]


def no(module: str, name: str, what: str) -> Callable[[], bool]:
    """Return a function that answers False.

    Args:
        module: Where it is found.
        name: Its name.
        what: What it tells whether it is so.
    """

    def answer() -> bool:
        return False

    answer.__name__ = answer.__qualname__ = name
    answer.__module__ = module
    answer.__doc__ = f"Return whether {what}: False."
    return answer


def refusal_of(title: str, module: str) -> Callable[..., AssertionError]:
    """Return what makes the exception of a build without the device called *title*."""

    def refusal(name: str = "") -> AssertionError:
        return AssertionError(f"Torch not compiled with {title} enabled")

    refusal.__qualname__ = "refusal"
    refusal.__module__ = module
    refusal.__doc__ = f"Return the exception of a build without {title}."
    return refusal


def dummy_refusal(name: str) -> RuntimeError:
    """Return the exception for what torch has as a class without a body, in such a build."""
    return RuntimeError(f"Tried to instantiate dummy base class {name}")


def refusals(
    module: str, names: Iterable[str], refusal: Refusal
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and the ``__dir__`` of a module whose functions cannot work.

    Args:
        module: Its name.
        names: The functions.
        refusal: Makes the exception that the function of the given name raises.
    """
    made: dict[str, Callable[..., NoReturn]] = {}

    def make(name: str) -> Callable[..., NoReturn]:
        def refuse(*args: object, **kwargs: object) -> NoReturn:
            raise refusal(name)

        refuse.__name__ = refuse.__qualname__ = name
        refuse.__module__ = module
        refuse.__doc__ = f"Raise {type(refusal(name)).__name__}: there is no such device."
        return refuse

    known = frozenset(names)

    def find(name: str) -> Any:
        if name not in known:
            called = sys.modules[module].__name__  # as_torch may have named it
            raise AttributeError(f"module {called!r} has no attribute {name!r}")
        if name not in made:
            made[name] = make(name)
        return made[name]

    def listed() -> list[str]:
        import sys

        return sorted({*vars(sys.modules[module]), *known})

    return find, listed


def absent_class(name: str, module: str, refusal: Refusal, **members: Any) -> Any:
    """Return a class without instances: `isinstance` is False, and a call raises.

    Args:
        name: Of the class.
        module: Where it is found.
        refusal: Makes the exception of a call.
        **members: Attributes of the class.
    """

    def refuse(cls: type, *args: object, **kwargs: object) -> NoReturn:
        raise refusal(name)

    doc = f"Has no instances: there is no {module.rpartition('.')[2]} device."
    return type(name, (), {"__module__": module, "__doc__": doc, "__new__": refuse, **members})


def dummy_class(name: str, module: str) -> Any:
    """Return a class without instances that torch has as one without a body."""
    return absent_class(name, module, dummy_refusal)


def device_number(device: Device, kind: str, optional: bool = False) -> int:
    """Return the number in *device*; without one, -1, which stands for the current device.

    Args:
        device: A number, a device or its name, or None.
        kind: The type that the device must have.
        optional: Take None, and devices without a number.

    Raises:
        ValueError: A device of another type, or none where one is needed.
    """
    if isinstance(device, (str, _C.device)):
        device = _C.device(device)
        if device.type != kind:
            raise ValueError(f"Expected a {kind} device, but got: {device}")
    number = _get_device_index(device, optional=optional)
    return -1 if number is None else number


class Unchanging:
    """A context at whose end there is nothing to be done."""

    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass


class DeviceGuard(Unchanging):
    """A context in which another device is the current one: none can be, but "as it is" may.

    A subclass says the type of its device and, as ``_absence``, the exception on entering with a
    number from 0 on.

    Args:
        device: A number, or a device or its name. A negative number, a device without one and None
            change nothing.

    Raises:
        ValueError: A device of another type.
    """

    _kind: ClassVar[str]
    _absence: ClassVar[Exception]

    def __init__(self, device: Any) -> None:
        self.idx = device_number(device, self._kind, optional=True)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            raise type(self._absence)(*self._absence.args)


class StreamContext(Unchanging):
    """A context in which a stream is the current one; there are no streams, and it does nothing.

    Args:
        stream: None, mostly.
    """

    cur_stream: Any = None

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        pass
