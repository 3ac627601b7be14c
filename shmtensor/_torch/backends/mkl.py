"""Intel's library for linear algebra: not here, OpenBLAS takes its place.

Source:
    torch.backends.mkl.
"""

from __future__ import annotations

from shmtensor._core._absent_devices import Unchanging as _Unchanging
from shmtensor._core._absent_devices import no as _no

VERBOSE_OFF = 0
VERBOSE_ON = 1


is_available = _no(__name__, "is_available", "the library is here")


class verbose(_Unchanging):
    """A context in which the library would print what it does.

    Args:
        enable: `VERBOSE_OFF` or `VERBOSE_ON`.
    """

    def __init__(self, enable: int) -> None:
        self.enable = enable

    def __enter__(self) -> verbose:
        return self
