"""What every call of a group checks, and the plain tensors that a backend gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.distributed._backend import Collectives, as_real
from shmtensor.distributed._group import ProcessGroup, get_rank
from shmtensor.distributed._names import ReduceOp

__all__ = [
    "Buffers",
    "check_dtypes",
    "check_op",
    "check_shape",
    "check_tensor",
    "check_tensors",
    "member_of",
    "root_of",
]

_BITWISE = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


def check_tensor(value: Any, name: str) -> None:
    """Raise TypeError unless *value* is a tensor; ValueError unless it is dense."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n"
            f"             but got {type(value)} instead."
        )
    if value.layout != _C.strided:
        raise ValueError(f"`{name}` must be a dense tensor, got the layout {value.layout}")
    if value.device.type != "cpu":
        raise ValueError(f"`{name}` must be on the CPU, got {value.device}")


def check_tensors(values: Any, name: str) -> None:
    """Raise TypeError unless *values* is a list of tensors."""
    if not isinstance(values, list | tuple) or not all(isinstance(v, Tensor) for v in values):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
            f"             but got {type(values)} instead."
        )
    for value in values:
        check_tensor(value, name)


def check_dtypes(*tensors: Tensor) -> None:
    """Raise ValueError unless all dtypes are equal."""
    for tensor in tensors[1:]:
        if tensor.dtype != tensors[0].dtype:
            raise ValueError(
                f"Invalid usage of tensors with different dtypesFound {tensors[0].dtype} and  "
                f"{tensor.dtype}"
            )


def check_shape(what: str, tensors: Sequence[Tensor], like: Tensor, size: int) -> None:
    """Raise RuntimeError unless there are *size* tensors, all of the shape of *like*."""
    if len(tensors) != size:
        raise RuntimeError(
            f"{what}: invalid output tensor list at index 0 (expected length {size}, got "
            f"{len(tensors)})"
        )
    for i, tensor in enumerate(tensors):
        if tensor.shape != like.shape:
            raise RuntimeError(
                f"{what}: invalid tensor size at index {i} (expected {_shape(like)}, got "
                f"{_shape(tensor)})"
            )


def _shape(tensor: Tensor) -> str:
    return f"({', '.join(map(str, tensor.shape))})"


def check_op(what: str, op: Any, tensor: Tensor) -> ReduceOp:
    """Return the operation; raise unless tensors of this dtype can be combined so."""
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{what}(): op must be a ReduceOp, got {op!r}")
    if op == ReduceOp.PREMUL_SUM:
        raise NotImplementedError(f"{what}(): PREMUL_SUM is not offered")
    if tensor.is_complex() and op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise ValueError(f"{what} does not support {op} on complex tensors")
    if op in _BITWISE and (tensor.is_floating_point() or tensor.is_complex()):
        raise RuntimeError(f"Cannot use ReduceOp.{op.name} with non-integral dtype")
    if op == ReduceOp.AVG and tensor.dtype == _C.bool:
        raise RuntimeError("Cannot use ReduceOp.AVG with bool")
    return op


def root_of(group: ProcessGroup, rank: int | None, group_rank: int | None, what: str) -> int:
    """Return a number inside the group from a number in the default group or in the group."""
    if group_rank is not None:
        if rank is not None:
            raise ValueError("Can't specify both group_rank and global_rank")
        if not 0 <= group_rank < group.size():
            raise RuntimeError(f"{what}: invalid root rank: {group_rank}")
        return group_rank
    if rank is None:
        raise ValueError("Must specify global_rank or group_rank")
    if rank not in group._ranks:
        if len(group._ranks) < get_world_size_of_default():
            raise ValueError(f"Global rank {rank} is not part of group {group}")
        raise RuntimeError(f"{what}: invalid root rank: {rank}")
    return group._ranks.index(rank)


def get_world_size_of_default() -> int:
    """Return the size of the default group."""
    from shmtensor.distributed._group import get_world_size

    return get_world_size()


def member_of(group: Any, what: str) -> ProcessGroup | None:
    """Return the group of a call, or None after a warning: this process is not in it."""
    from shmtensor.distributed._group import _member_group

    return _member_group(group, what)


def my_rank() -> int:
    """Return this process's number in the default group."""
    return get_rank()


class Buffers:
    """Contiguous, detached stand-ins for the tensors of a call.

    Args:
        reduced_by: A backend that reduces them, and may want complex ones as real ones.
    """

    def __init__(self, reduced_by: Collectives | None = None) -> None:
        self._as_real = reduced_by is not None and not reduced_by.reduces_complex
        self._copies: list[tuple[Tensor, Tensor]] = []

    def input(self, tensor: Tensor) -> Tensor:
        """Return a tensor with the values of *tensor*, which is only read."""
        plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
        return as_real(plain) if self._as_real else plain

    def output(self, tensor: Tensor) -> Tensor:
        """Return a tensor to write instead of *tensor*; it has its values."""
        plain = tensor.detach()
        if not plain.is_contiguous() or plain.is_conj() or plain.is_neg():
            original, plain = plain, plain.resolve_conj().resolve_neg().contiguous().clone()
            self._copies.append((original, plain))
        return as_real(plain) if self._as_real else plain

    def write_back(self) -> None:
        """Copy into tensors that have a stand-in."""
        for original, plain in self._copies:
            original.copy_(plain)
