"""Contexts in which another device, or another stream, is the current one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from . import DeviceGuard, StreamContext

__all__ = ["device_guard", "guards_of"]

_DEVICE_OF = """\
A context in which a tensor's device is the current one; of a tensor elsewhere, no change.

    Args:
        obj: A tensor or a storage.
    """


def device_guard(module: str, kind: str, absence: Exception) -> type[DeviceGuard]:
    """Return the class ``device`` of a namespace.

    Args:
        module: Where it is found.
        kind: The type of the device.
        absence: What is raised on entering, where there would have to be a device.
    """
    doc = f"""A context in which another {kind.upper()} device is the current one.

    Raises:
        ValueError: A device of another type.
        {type(absence).__name__}: On entering with a number from 0 on; there is no such device.
    """
    members = {"__module__": module, "__doc__": doc, "_kind": kind, "_absence": absence}
    return type("device", (DeviceGuard,), members)


class Guards(NamedTuple):
    """The contexts of a namespace, and what would begin to use its devices."""

    device: type[DeviceGuard]
    device_of: type[DeviceGuard]
    stream: Callable[[Any], StreamContext]
    lazy_init: Callable[[], None]


def guards_of(
    module: str, kind: str, absence: Exception, refusal: Callable[[], Exception]
) -> Guards:
    """Return the contexts of a namespace.

    Args:
        module: Where they are found.
        kind: The type of the device.
        absence: What ``device`` raises on entering.
        refusal: Makes the exception of everything else that needs a device.
    """
    device = device_guard(module, kind, absence)

    def __init__(self: Any, obj: Any) -> None:
        device.__init__(self, obj.get_device() if getattr(obj, f"is_{kind}") else -1)

    __init__.__module__, __init__.__qualname__ = module, "device_of.__init__"
    members = {"__module__": module, "__doc__": _DEVICE_OF, "__init__": __init__}
    device_of = type("device_of", (device,), members)

    def stream(stream: Any) -> StreamContext:
        """Return a context for a stream; None changes nothing, and there are no others."""
        return StreamContext(stream)

    def _lazy_init() -> None:
        """Raise AssertionError, as everything that needs a device does."""
        raise refusal()

    made = Guards(device, device_of, stream, _lazy_init)
    for each in (stream, _lazy_init):
        each.__module__, each.__qualname__ = module, each.__name__
    return made
