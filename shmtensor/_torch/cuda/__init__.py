"""The namespace of CUDA devices; there are none here.

``is_available()`` is False and ``device_count()`` 0; seeds do nothing; what needs a device raises
AssertionError, as torch does where it was built without CUDA.

Source:
    torch.cuda.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shmtensor import _C
from shmtensor._core._absent_devices import (
    Device,
    absent_class,
    device_number,
    refusals,
)
from shmtensor._core._absent_devices import StreamContext as StreamContext
from shmtensor._core._absent_devices.answers import *  # noqa: F403
from shmtensor._core._absent_devices.guards import guards_of as _guards_of
from shmtensor.errors import AcceleratorError as AcceleratorError
from shmtensor.errors import OutOfMemoryError as OutOfMemoryError
from shmtensor.errors import ShmTensorError

from . import amp as amp
from . import (
    comm as comm,
)
from . import (
    graphs as graphs,
)
from . import (
    jiterator as jiterator,
)
from . import (
    memory as memory,
)
from . import (
    nccl as nccl,
)
from . import (
    nvtx as nvtx,
)
from . import (
    profiler as profiler,
)
from . import (
    random as random,
)
from . import (
    streams as streams,
)
from . import (
    tunable as tunable,
)
from ._refusal import refusal
from .graphs import *  # noqa: F403
from .memory import *  # noqa: F403
from .random import *  # noqa: F403
from .streams import (
    Event as Event,
)
from .streams import (
    ExternalStream as ExternalStream,
)
from .streams import (
    Stream as Stream,
)

_REFUSED = """
    can_device_access_peer check_error clock_rate cudart current_blas_handle current_device
    current_solver_handle current_stream default_stream device_memory_used get_device_capability
    get_device_name get_device_properties get_stream_from_external get_sync_debug_mode init
    ipc_collect memory_usage power_draw set_sync_debug_mode synchronize temperature utilization
""".split()

if TYPE_CHECKING:  # programs call these where is_available() says so
    can_device_access_peer: Callable[..., Any]
    check_error: Callable[..., Any]
    clock_rate: Callable[..., Any]
    cudart: Callable[..., Any]
    current_blas_handle: Callable[..., Any]
    current_device: Callable[..., Any]
    current_solver_handle: Callable[..., Any]
    current_stream: Callable[..., Any]
    default_stream: Callable[..., Any]
    device_memory_used: Callable[..., Any]
    get_device_capability: Callable[..., Any]
    get_device_name: Callable[..., Any]
    get_device_properties: Callable[..., Any]
    get_stream_from_external: Callable[..., Any]
    get_sync_debug_mode: Callable[..., Any]
    init: Callable[..., Any]
    ipc_collect: Callable[..., Any]
    memory_usage: Callable[..., Any]
    power_draw: Callable[..., Any]
    set_sync_debug_mode: Callable[..., Any]
    synchronize: Callable[..., Any]
    temperature: Callable[..., Any]
    utilization: Callable[..., Any]

__getattr__, __dir__ = refusals(__name__, _REFUSED, refusal)

has_half = True
has_magma = False
default_generators: tuple[_C.Generator, ...] = ()
_initialized = False


class DeferredCudaCallError(ShmTensorError):
    """A call that waited for the first use of CUDA has failed. Nothing raises it here."""


class CudaError(ShmTensorError, RuntimeError):
    """A call of CUDA's own library has failed. Nothing raises it here.

    Args:
        code: The number that the library returned.
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"CUDA error ({code})")


class cudaStatus:
    """Numbers that calls of CUDA's own library return."""

    SUCCESS = 0
    ERROR_NOT_READY = 34


device, device_of, stream, _lazy_init = _guards_of(
    __name__, "cuda", RuntimeError("PyTorch was compiled without CUDA support"), refusal
)


def set_device(device: Device) -> None:
    """Make another device the current one; a negative number changes nothing.

    Raises:
        ValueError: A device of another type, or one without a number.
        AssertionError: There is no such device.
    """
    if device_number(device, "cuda") >= 0:
        raise refusal()


def set_stream(stream: Any) -> None:
    """Make a stream the current one; None changes nothing.

    Raises:
        AssertionError: Anything else; there are no streams.
    """
    if stream is not None:
        raise refusal()


# --- old-style classes ---------------------------------------------------------------------------


def _no_tensors(name: str) -> TypeError:
    return TypeError(f"type torch.cuda.{name} not available. Torch not compiled with CUDA enabled.")


def _old(name: str, dtype: _C.dtype, refuse: Callable[[str], Exception]) -> Any:
    return absent_class(name, "torch.cuda", refuse, dtype=dtype)


ByteTensor = _old("ByteTensor", _C.uint8, _no_tensors)
CharTensor = _old("CharTensor", _C.int8, _no_tensors)
ShortTensor = _old("ShortTensor", _C.int16, _no_tensors)
IntTensor = _old("IntTensor", _C.int32, _no_tensors)
LongTensor = _old("LongTensor", _C.int64, _no_tensors)
HalfTensor = _old("HalfTensor", _C.float16, _no_tensors)
BFloat16Tensor = _old("BFloat16Tensor", _C.bfloat16, _no_tensors)
FloatTensor = _old("FloatTensor", _C.float32, _no_tensors)
DoubleTensor = _old("DoubleTensor", _C.float64, _no_tensors)
BoolTensor = _old("BoolTensor", _C.bool, _no_tensors)
ByteStorage = _old("ByteStorage", _C.uint8, refusal)
CharStorage = _old("CharStorage", _C.int8, refusal)
ShortStorage = _old("ShortStorage", _C.int16, refusal)
IntStorage = _old("IntStorage", _C.int32, refusal)
LongStorage = _old("LongStorage", _C.int64, refusal)
HalfStorage = _old("HalfStorage", _C.float16, refusal)
BFloat16Storage = _old("BFloat16Storage", _C.bfloat16, refusal)
FloatStorage = _old("FloatStorage", _C.float32, refusal)
DoubleStorage = _old("DoubleStorage", _C.float64, refusal)
BoolStorage = _old("BoolStorage", _C.bool, refusal)
ComplexFloatStorage = _old("ComplexFloatStorage", _C.complex64, refusal)
ComplexDoubleStorage = _old("ComplexDoubleStorage", _C.complex128, refusal)
