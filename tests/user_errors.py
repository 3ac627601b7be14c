"""Messages and errors whose own code raises something when others look at them."""

from __future__ import annotations

from typing import Any, NoReturn


class Unprintable(Exception):
    """Has no text."""

    def __str__(self) -> str:
        raise SystemExit(0)

    __repr__ = __str__


def raise_(kind: type[BaseException]) -> NoReturn:
    raise kind("of the message")


class RaisesWhenOpened:
    """Cannot be unpickled."""

    def __init__(self, kind: type[BaseException]) -> None:
        self._kind = kind

    def __reduce__(self) -> tuple[Any, ...]:
        return raise_, (self._kind,)


class RaisesWhenSeen(dict[str, int]):
    """A dict that is a pickle between programs, and that nobody can print or write out."""

    def __init__(self, kind: type[BaseException]) -> None:
        super().__init__()
        self._kind = kind

    def items(self) -> NoReturn:
        raise_(self._kind)

    def __repr__(self) -> str:
        raise_(self._kind)

    def __reduce__(self) -> tuple[Any, ...]:
        return RaisesWhenSeen, (self._kind,)
