"""What the namespaces of devices that are not here have in common: ``cuda``, ``xpu`` and others.

Questions are answered ("no", "none", 0) without a sound, seeds have nothing to seed, and whatever
needs a device raises torch's error for a build without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, ClassVar, NoReturn

from shmtensor import _C
from shmtensor._core._utils import _get_device_index

__all__ = ["Device", "DeviceGuard", "StreamContext", "absent_class", "device_number", "refusals"]

Device = _C.device | str | int | None
Refusal = Callable[[str], Exception]


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
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
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


class DeviceGuard:
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

    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass


class StreamContext:
    """A context in which a stream is the current one; there are no streams, and it does nothing.

    Args:
        stream: None, mostly.
    """

    cur_stream: Any = None

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass
