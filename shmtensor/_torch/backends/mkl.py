"""Intel's library for linear algebra: not here, OpenBLAS takes its place.

Source:
    torch.backends.mkl.
"""

from __future__ import annotations

from types import TracebackType

VERBOSE_OFF = 0
VERBOSE_ON = 1


def is_available() -> bool:
    """Return whether the library is here: False."""
    return False


class verbose:
    """A context in which the library would print what it does.

    Args:
        enable: `VERBOSE_OFF` or `VERBOSE_ON`.
    """

    def __init__(self, enable: int) -> None:
        self.enable = enable

    def __enter__(self) -> verbose:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass
