"""Intel's library for networks (oneDNN): not here, kernels of our own take its place.

Source:
    torch.backends.mkldnn.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from shmtensor._core._absent_devices import Unchanging as _Unchanging
from shmtensor._core._absent_devices import no as _no

from ._flags import (
    Flag,
    FlagModule,
    Precision,
    PrecisionFlag,
    swapped,
    use_flags,
)
from ._flags import changed as _changed

if TYPE_CHECKING:
    enabled: bool
    deterministic: bool
    allow_tf32: bool | None
    fp32_precision: str

VERBOSE_OFF = 0
VERBOSE_ON = 1
VERBOSE_ON_CREATION = 2

matmul = Precision()
conv = Precision()
rnn = Precision()


class _Module(FlagModule):
    enabled = Flag(True, "set_enabled_mkldnn")
    deterministic = Flag(False, "set_deterministic_mkldnn")
    allow_tf32 = Flag(False, "_set_onednn_allow_tf32")
    fp32_precision = PrecisionFlag()


_module = use_flags(__name__, _Module)


is_available = _no(__name__, "is_available", "the library is here")


is_acl_available = _no(__name__, "is_acl_available", "it can use Arm's library")


class verbose(_Unchanging):
    """A context in which the library would print what it does.

    Args:
        level: `VERBOSE_OFF`, `VERBOSE_ON` or `VERBOSE_ON_CREATION`.
    """

    def __init__(self, level: int) -> None:
        self.level = level

    def __enter__(self) -> verbose:
        return self


def set_flags(
    _enabled: bool | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str = "none",
) -> tuple[Any, ...]:
    """Set flags, and return all of them as they were; None leaves one as it is."""
    return _changed(
        _module,
        enabled=_enabled,
        deterministic=_deterministic,
        allow_tf32=_allow_tf32,
        fp32_precision=_fp32_precision,
    )


def flags(
    enabled: bool = False,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> AbstractContextManager[None]:
    """Return a context with these flags."""
    return swapped(
        _module,
        enabled=enabled,
        deterministic=deterministic,
        allow_tf32=allow_tf32,
        fp32_precision=fp32_precision,
    )
