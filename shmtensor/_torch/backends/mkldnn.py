"""Intel's library for networks (oneDNN): not here, kernels of our own take its place.

Source:
    torch.backends.mkldnn.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ._flags import (
    Flag,
    FlagModule,
    Precision,
    PrecisionFlag,
    swapped,
    use_flags,
)

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


def is_available() -> bool:
    """Return whether the library is here: False."""
    return False


def is_acl_available() -> bool:
    """Return whether it can use Arm's library: False."""
    return False


class verbose:
    """A context in which the library would print what it does.

    Args:
        level: `VERBOSE_OFF`, `VERBOSE_ON` or `VERBOSE_ON_CREATION`.
    """

    def __init__(self, level: int) -> None:
        self.level = level

    def __enter__(self) -> verbose:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass


def set_flags(
    _enabled: bool | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str = "none",
) -> tuple[Any, ...]:
    """Set flags, and return all of them as they were; None leaves one as it is."""
    names = ("enabled", "deterministic", "allow_tf32", "fp32_precision")
    values = (_enabled, _deterministic, _allow_tf32, _fp32_precision)
    before = tuple(getattr(_module, name) for name in names)
    for name, value in zip(names, values, strict=True):
        if value is not None:
            setattr(_module, name, value)
    return before


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
