"""NumPy arrays and torch tensors in messages: they travel by handle, and stay what they are.

A queue or pool with ``adopt="torch"`` or ``"numpy"`` takes and gives values of these libraries. A
value that is in this package's shared memory already travels as a handle: arrays of `numpy_empty`,
tensors of `torch_empty`, whatever came out of such a queue, and all views of these. Anything else
is copied once, into shared memory, and the receiver's value shows that copy. Arrival copies
nothing. Dtypes that only torch has, such as float8, arrive unchanged.
"""

from __future__ import annotations

import importlib
import operator
import sys
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar, overload

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor._core._torch_memory import held_memory, memory_of, shown
from shmtensor.multiprocessing._stdlib import pickler_with
from shmtensor.multiprocessing.reductions import reduce_array
from shmtensor.utils.hooks import warn_if_has_hooks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import DTypeLike, NDArray

    _Scalar = TypeVar("_Scalar", bound=np.generic)

__all__ = [
    "AS_OURS",
    "NUMPY",
    "TORCH",
    "adopted",
    "dumps_with",
    "loaded",
    "numpy_empty",
    "rebuild_torch",
    "reduce_torch",
    "shared_below_torch",
    "torch_empty",
]

#: What a ring or a pool adopts, in bits.
NUMPY, TORCH = 1, 2
#: Not adopted: a ring sends arrays and tensors of all libraries as this package's tensors.
AS_OURS = 4
_LIBRARIES = {"numpy": NUMPY, "torch": TORCH}


def adopted(adopt: str | Iterable[str] | None) -> int:
    """Return the bits for a queue's or pool's argument *adopt*; load torch if it is named.

    Raises:
        ValueError: It names another library.
        ModuleNotFoundError: torch is not installed.
    """
    names = (adopt,) if isinstance(adopt, str) else tuple(adopt or ())
    bits = 0
    for name in names:
        if name not in _LIBRARIES:
            raise ValueError(
                f"adopt should name some of {sorted(_LIBRARIES)}, but got adopt={adopt!r}"
            )
        bits |= _LIBRARIES[name]
    if bits & TORCH:
        prepare_torch()
    return bits


def loaded(module: str, name: str) -> type:
    """Return a class of a library, for `isinstance`; the class of None if it is not loaded."""
    found: type = getattr(sys.modules.get(module), name, type(None))
    return found


def prepare_torch() -> None:
    """Load torch, and tell the rings of its tensors."""
    _C._set_torch_reduce(_torch().Tensor, reduce_torch)


def dumps_with(adopts: int) -> Callable[[object], memoryview]:
    """Return what pickles messages of the standard library's pipes, and adopts these libraries."""
    if not adopts:
        return ForkingPickler.dumps
    reducers: dict[type, Any] = {}
    if adopts & NUMPY:
        import numpy as np

        reducers[np.ndarray] = reduce_array
    if adopts & TORCH:
        reducers[_torch().Tensor] = reduce_torch
    return pickler_with(reducers).dumps


def _torch() -> Any:
    return importlib.import_module("torch")


def _goes_by_torch(tensor: Any) -> bool:
    """Whether torch's own reduction is to send it, or to refuse it."""
    torch = _torch()
    return bool(
        tensor.layout != torch.strided
        or tensor.device.type != "cpu"
        or tensor.is_quantized
        or tensor.numel() == 0
        or (tensor.requires_grad and not tensor.is_leaf)
    )


def reduce_torch(tensor: Any) -> Any:
    """Return what pickle writes for a torch tensor; its bytes are in shared memory afterwards.

    Raises:
        RuntimeError: It requires grad and is not a leaf.
        MemoryError: There is not enough shared memory.
    """
    if _goes_by_torch(tensor):
        return importlib.import_module("torch.multiprocessing.reductions").reduce_tensor(tensor)
    warn_if_has_hooks(tensor)
    memory, ours, dtype = _below(tensor)
    if memory is None:
        memory = _C.empty_like(ours, shared=True).copy_(ours)
    return rebuild_torch, (memory, tensor.requires_grad, dtype)


def _below(tensor: Any) -> tuple[Tensor | None, Tensor, str | None]:
    """Return its shared memory or None, any memory of its bytes, and what `memory_of` gives."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    ours, dtype = memory_of(plain)
    return held_memory(plain, ours), ours, dtype


def shared_below_torch(tensor: Any) -> tuple[Tensor, str | None] | None:
    """Return the shared memory below a torch tensor, and the name of its dtype as `memory_of`.

    None: it is not in shared memory of this package, or cannot be sent by handle.
    """
    if _goes_by_torch(tensor):
        return None
    memory, _, dtype = _below(tensor)
    return None if memory is None else (memory, dtype)


def rebuild_torch(memory: Tensor, requires_grad: bool, dtype: str | None = None) -> Any:
    """Return the torch tensor of a message, over the shared memory."""
    tensor = shown(memory, dtype)
    return tensor.requires_grad_() if requires_grad else tensor


def torch_empty(*size: int | Sequence[int], dtype: object = None) -> Any:
    """Return an uninitialised torch tensor in shared memory.

    Queues and pools made with ``adopt="torch"`` send it, and views of it, as handles.

    Args:
        *size: Its shape: numbers, or one sequence of them.
        dtype: A torch dtype; None: torch's default dtype.

    Raises:
        ModuleNotFoundError: torch is not installed.
        MemoryError: There is not enough shared memory.
    """
    torch = _torch()
    wanted = torch.get_default_dtype() if dtype is None else dtype
    ours, name = memory_of(torch.empty(1, dtype=wanted))
    return shown(_C.empty(*size, dtype=ours.dtype, shared=True), name)


@overload
def numpy_empty(
    shape: SupportsIndex | Sequence[SupportsIndex], dtype: type[float] = float
) -> NDArray[np.float64]: ...
@overload
def numpy_empty(
    shape: SupportsIndex | Sequence[SupportsIndex], dtype: type[_Scalar] | np.dtype[_Scalar]
) -> NDArray[_Scalar]: ...
@overload
def numpy_empty(
    shape: SupportsIndex | Sequence[SupportsIndex], dtype: DTypeLike
) -> NDArray[Any]: ...
def numpy_empty(
    shape: SupportsIndex | Sequence[SupportsIndex], dtype: DTypeLike = float
) -> NDArray[Any]:
    """Return an uninitialised array in shared memory.

    Queues and pools made with ``adopt="numpy"``, and all after `share_numpy`, send it and views of
    it as handles.

    Args:
        shape: A number or a sequence of numbers.
        dtype: Anything that ``numpy.dtype`` takes, except objects.

    Raises:
        TypeError: The dtype has objects.
        ValueError: A size is negative.
        MemoryError: There is not enough shared memory.
    """
    import numpy as np

    wanted = np.dtype(dtype)
    if wanted.hasobject:
        raise TypeError(f"numpy_empty(): objects cannot be in shared memory, got {wanted}")
    sizes = tuple(map(operator.index, shape if isinstance(shape, Sequence) else (shape,)))
    if any(size < 0 for size in sizes):
        raise ValueError(f"numpy_empty(): sizes must not be negative, got {sizes}")
    n_bytes = wanted.itemsize
    for size in sizes:
        n_bytes *= size
    if n_bytes >= 1 << 62:
        raise MemoryError(f"numpy_empty(): there are no {n_bytes} bytes, for sizes {sizes}")
    memory = _C.empty(n_bytes, dtype=_C.uint8, shared=True)
    array: NDArray[Any] = np.ndarray(sizes, wanted, memory.numpy())
    return array
