"""Parts of torch that this package does not offer: importable names that say so when they are used.

Libraries import such names at their top, to look up types and to register things; that works. What
would have to do something raises NotImplementedError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from shmtensor._core._absent_devices import refusals

__all__ = ["not_offered", "unavailable_class", "unavailable_names"]


def not_offered(what: str) -> NotImplementedError:
    """Return the exception of a name that is there and does nothing.

    Args:
        what: A sentence that says what is not offered, with what to do instead.
    """
    return NotImplementedError(what)


def unavailable_names(
    module: str, names: Iterable[str], what: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` of a module whose functions raise.

    Args:
        module: Its name.
        names: The functions.
        what: The text of the error.
    """
    return refusals(module, names, lambda name: not_offered(f"{name}(): {what}"))


def unavailable_class(name: str, module: str, what: str, bases: tuple[type, ...] = ()) -> Any:
    """Return a class for `isinstance` and as a base; making an object of it raises.

    Args:
        name: Of the class.
        module: Where it is found.
        what: The text of the error.
        bases: Its bases.
    """

    def refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
        raise not_offered(f"{type(self).__name__}: {what}")

    members = {"__module__": module, "__doc__": f"Has no instances: {what}.", "__init__": refuse}
    return type(name, bases, members)
