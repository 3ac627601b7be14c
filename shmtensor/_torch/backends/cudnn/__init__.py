"""NVIDIA's library for networks: not here; its flags keep their values.

Source:
    torch.backends.cudnn.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from shmtensor import _C
from shmtensor._core._absent_devices import no as _no

from .._flags import (
    Flag,
    FlagModule,
    Precision,
    PrecisionFlag,
    swapped,
    use_flags,
)
from .._flags import changed as _changed
from . import rnn as rnn

if TYPE_CHECKING:
    enabled: bool
    deterministic: bool
    benchmark: bool
    benchmark_limit: int | None
    allow_tf32: bool
    fp32_precision: str
    depthwise_kernel: str

CUDNN_TENSOR_DTYPES = {_C.float16, _C.float32, _C.float64}
conv = Precision("tf32", "cuda")


class _Module(FlagModule):
    enabled = Flag(True, "set_enabled_cudnn")
    deterministic = Flag(False, "set_deterministic_cudnn")
    benchmark = Flag(False, "set_benchmark_cudnn")
    benchmark_limit = Flag(None)
    allow_tf32 = Flag(True, "set_allow_tf32_cublas")
    fp32_precision = PrecisionFlag(backend="cuda")
    depthwise_kernel = Flag("auto")


_module = use_flags(__name__, _Module)


def version() -> int | None:
    """Return the library's version: None."""
    return None


is_available = _no(__name__, "is_available", "the library is here")


def is_acceptable(tensor: Any) -> bool:
    """Return whether the library would work on this tensor: False."""
    return False


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str = "none",
    _depthwise_kernel: str | None = None,
) -> tuple[Any, ...]:
    """Set flags, and return all of them as they were; None leaves one as it is."""
    return _changed(
        _module,
        enabled=_enabled,
        benchmark=_benchmark,
        benchmark_limit=_benchmark_limit,
        deterministic=_deterministic,
        allow_tf32=_allow_tf32,
        fp32_precision=_fp32_precision,
        depthwise_kernel=_depthwise_kernel,
    )


def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
    depthwise_kernel: str = "auto",
) -> AbstractContextManager[None]:
    """Return a context with these flags."""
    return swapped(
        _module,
        enabled=enabled,
        benchmark=benchmark,
        benchmark_limit=benchmark_limit,
        deterministic=deterministic,
        allow_tf32=allow_tf32,
        fp32_precision=fp32_precision,
        depthwise_kernel=depthwise_kernel,
    )
