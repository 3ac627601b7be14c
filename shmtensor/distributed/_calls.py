"""What a rank says about its calls, so that all ranks of a group can compare theirs.

Note [Ranks compare their calls]
If a rank called something else than the others, it would wait forever, or misread their bytes. So
every collective begins with a step in which each rank, even one that gives or gets nothing, says
what it calls, and waits until all have said the same. Nobody reads another rank's bytes before
that. Messages give the dtype of their elements and their size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shmtensor import _C
from shmtensor.distributed._names import ReduceOp

if TYPE_CHECKING:
    from shmtensor._core._tensor import Tensor

__all__ = ["code_of", "describe", "difference", "say", "unequal"]

_KINDS = (
    "nothing",
    "all_reduce",
    "broadcast",
    "reduce",
    "all_gather",
    "gather",
    "scatter",
    "reduce_scatter",
    "all_to_all",
    "barrier",
    "monitored_barrier",
)
_DTYPES = (
    _C.float32,
    _C.float64,
    _C.float16,
    _C.bfloat16,
    _C.uint8,
    _C.int8,
    _C.int16,
    _C.int32,
    _C.int64,
    _C.bool,
    _C.complex32,
    _C.complex64,
    _C.complex128,
    _C.uint16,
    _C.uint32,
    _C.uint64,
)
_CODES = {dtype: code for code, dtype in enumerate(_DTYPES, 1)}
_NBYTES_BITS = 40
_ROOTED = ("broadcast", "reduce", "gather", "scatter")
_UNEQUAL = ("all_to_all",)  # its sizes are compared one by one


def code_of(tensor: Tensor) -> int:
    """Return the number of a dtype, never 0."""
    return _CODES.get(tensor.dtype, 63)


def _named(code: int) -> str:
    return str(_DTYPES[code - 1]) if 1 <= code <= len(_DTYPES) else "another dtype"


def difference(code: int, nbytes: int, tensor: Tensor) -> tuple[str, str] | None:
    """Describe how a message differs from the tensor that should receive it; None if it fits."""
    expected = tensor.numel() * tensor.element_size()
    if code != code_of(tensor):
        return f"{nbytes} bytes of {_named(code)}", f"{expected} of {tensor.dtype}"
    return None if nbytes == expected else (f"{nbytes} bytes", f"{expected}")


def describe(kind: str, tensor: Tensor | None = None, op: int = 0, root: int = 0) -> int:
    """Describe a collective in 64 bits, which all ranks must agree on; never 0."""
    what = _KINDS.index(kind) << 4 | op
    what = what << 8 | root
    if tensor is None:
        return what << (6 + _NBYTES_BITS)
    nbytes = 0 if kind in _UNEQUAL else tensor.numel() * tensor.element_size()
    return (what << 6 | code_of(tensor)) << _NBYTES_BITS | nbytes % (1 << _NBYTES_BITS)


def say(what: int) -> str:
    """Say a description in words."""
    nbytes = what % (1 << _NBYTES_BITS)
    what >>= _NBYTES_BITS
    code = what & 63
    what >>= 6
    root = what & 255
    op = what >> 8 & 15
    kind = what >> 12
    name = _KINDS[kind] if kind < len(_KINDS) else "something unknown"
    if code == 0:
        return name
    text = f"{name} of {_named(code)}"
    if name not in _UNEQUAL:
        text = f"{name} of {nbytes} bytes of {_named(code)}"
    if "reduce" in name and op < len(ReduceOp):
        text += f" with {ReduceOp(op).name}"
    if name in _ROOTED:
        text += f" with root {root}"
    return text


def unequal(table: list[list[int]]) -> tuple[int, str, int, str] | None:
    """Compare the sizes of an all-to-all.

    Args:
        table: For each rank, how many elements it gives to each rank, and then how many it takes.

    Returns:
        Two ranks that disagree, each with its call in words; None if all agree.
    """
    size = len(table)
    for i, giver in enumerate(table):
        for j, taker in enumerate(table):
            gives, takes = giver[j], taker[size + i]
            if gives != takes:
                return (
                    i,
                    f"all_to_all with {gives} elements for rank {j}",
                    j,
                    f"all_to_all with {takes} elements from rank {i}",
                )
    return None
