"""Collectives with derivatives: the gradient takes the opposite way.

Every rank that took part in the forward call must take part in the backward pass.

Source:
    torch.distributed.nn.functional.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.autograd import Function
from shmtensor.distributed import _collectives as collectives
from shmtensor.distributed import _functional_collectives as values
from shmtensor.distributed._arguments import check_dtypes, check_shape
from shmtensor.distributed._group import get_global_rank, get_rank, get_world_size
from shmtensor.distributed._group import group as groups
from shmtensor.distributed._names import ReduceOp

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]


def _world(group: Any) -> Any:
    return groups.WORLD if group is None else group


def _global(rank: int, group: Any) -> int:
    return rank if group is None else get_global_rank(group, rank)


def _is_own(rank: int, group: Any) -> bool:
    """Whether a global rank is this process's."""
    return _global(get_rank(_world(group)), group) == rank


def _gathered(tensor: Tensor, dst: int, group: Any) -> tuple[Tensor, ...]:
    """Return all ranks' tensors on *dst*, and zeros elsewhere."""
    parts = [_C.zeros_like(tensor) for _ in range(get_world_size(group))]
    own = _is_own(dst, group)
    collectives.gather(tensor.contiguous(), parts if own else None, dst, group)
    return tuple(parts)


def _scattered(tensors: Sequence[Tensor], src: int, group: Any) -> Tensor:
    """Return what *src* has for this rank."""
    result = _C.empty_like(tensors[0])
    parts = [tensor.contiguous() for tensor in tensors]
    collectives.scatter(result, parts if _is_own(src, group) else None, src, group)
    return result


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, op: Any, group: Any) -> Tensor:
        ctx.op, ctx.group = op, group
        return values.all_reduce(tensor, op, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return values.all_reduce(grad.contiguous(), ctx.op, ctx.group), None, None


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, src: int, group: Any) -> Tensor:
        ctx.src, ctx.group = src, group
        return values.broadcast(tensor, src, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        total = values.all_reduce(grad.contiguous(), "sum", ctx.group)
        own = _is_own(ctx.src, ctx.group)
        return (total if own else _C.zeros_like(total)), None, None


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, dst: int, op: Any, group: Any) -> Tensor:
        ctx.dst, ctx.group = dst, group
        result = tensor.clone()
        collectives.reduce(result, dst, op, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return values.broadcast(grad.contiguous(), ctx.dst, ctx.group), None, None, None


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, group: Any) -> tuple[Tensor, ...]:
        ctx.group = group
        parts = [_C.empty_like(tensor) for _ in range(get_world_size(group))]
        collectives.all_gather(parts, tensor.contiguous(), group)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        result = _C.empty_like(grads[0])
        parts = [grad.contiguous() for grad in grads]
        collectives.reduce_scatter(result, parts, ReduceOp.SUM, ctx.group)
        return result, None


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, dst: int, group: Any) -> tuple[Tensor, ...]:
        ctx.dst, ctx.group = dst, group
        return _gathered(tensor, dst, group)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return _scattered(grads, ctx.dst, ctx.group), None, None


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, *tensors: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        return _scattered(tensors, src, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return (None, None, *_gathered(grad, ctx.src, ctx.group))


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, output: Tensor, *tensors: Tensor) -> Tensor:
        ctx.group = group
        result = _C.empty_like(output)
        collectives.reduce_scatter(result, [t.contiguous() for t in tensors], op, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        parts = [_C.empty_like(grad) for _ in range(get_world_size(ctx.group))]
        collectives.all_gather(parts, grad.contiguous(), ctx.group)
        return (None, None, None, *parts)


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, outputs: Sequence[Tensor], *tensors: Tensor) -> Any:
        ctx.group = group
        ctx.likes = [_C.empty_like(tensor) for tensor in tensors]
        results = [_C.empty_like(output) for output in outputs]
        collectives.all_to_all(results, [t.contiguous() for t in tensors], group)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        collectives.all_to_all(ctx.likes, [grad.contiguous() for grad in grads], ctx.group)
        return (None, None, *ctx.likes)


class _AllToAllSingle(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, outputs: Any, inputs: Any, group: Any) -> Tensor:
        ctx.outputs, ctx.inputs, ctx.group = outputs, inputs, group
        return values.all_to_all_single(tensor, outputs, inputs, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        back = values.all_to_all_single(grad.contiguous(), ctx.inputs, ctx.outputs, ctx.group)
        return back, None, None, None


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """Return rank *src*'s tensor; its gradient is the sum over all ranks.

    Args:
        tensor: What is sent; on the other ranks its shape and dtype count.
        src: Global rank that sends.
        group: Of whom; None: all.
    """
    result: Tensor = _Broadcast.apply(tensor, src, _world(group))
    return result


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Return the combination of all ranks' tensors on rank *dst*.

    What the other ranks get is undefined.

    Args:
        tensor: Of the same shape and dtype on all ranks.
        dst: Global rank that receives.
        op: How elements are combined; the derivative is that of a sum.
        group: Of whom; None: all.
    """
    result: Tensor = _Reduce.apply(tensor, dst, op, _world(group))
    return result


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Return the combination of all ranks' tensors; gradients are combined in the same way.

    Args:
        tensor: Of the same shape and dtype on all ranks.
        op: How elements are combined.
        group: Of whom; None: all.
    """
    result: Tensor = _AllReduce.apply(tensor, op, _world(group))
    return result


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """Return all ranks' tensors; the gradient of each goes to the rank that it came from.

    Args:
        tensor: Of the same shape and dtype on all ranks.
        group: Of whom; None: all.
    """
    result: tuple[Tensor, ...] = _AllGather.apply(tensor, _world(group))
    return result


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """Return all ranks' tensors on rank *dst*, and zeros elsewhere.

    Args:
        tensor: Of the same shape and dtype on all ranks.
        dst: Global rank that receives.
        group: Of whom; None: all.
    """
    result: tuple[Tensor, ...] = _Gather.apply(tensor, dst, _world(group))
    return result


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None
) -> Tensor:
    """Return this rank's part of the combination of the ranks' lists.

    Args:
        output: Its shape and dtype are the result's.
        input_list: A tensor for every rank.
        op: How elements are combined; the derivative is that of a sum.
        group: Of whom; None: all.
    """
    result: Tensor = _ReduceScatter.apply(op, _world(group), output, *input_list)
    return result


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """Return the tensor that rank *src* has for this rank in its list.

    Args:
        tensors: On *src* a tensor for every rank; elsewhere their shapes and dtypes count.
        src: Global rank that sends.
        group: Of whom; None: all.
    """
    check_dtypes(*tensors)
    check_shape("scatter", tensors, tensors[0], get_world_size(_world(group)))
    result: Tensor = _Scatter.apply(src, _world(group), *tensors)
    return result


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """Send a tensor to every rank, and return what they send; gradients go back.

    Args:
        output_tensor_list: Their shapes and dtypes are those of the results.
        input_tensor_list: A tensor for every rank.
        group: Of whom; None: all.
    """
    result: tuple[Tensor, ...] = _AllToAll.apply(
        _world(group), output_tensor_list, *input_tensor_list
    )
    return result


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: Any = None,
) -> Tensor:
    """Send a part of *input* to every rank, and return what they send; gradients go back.

    Args:
        output: Its rows are as many as those of the result.
        input: What is sent.
        output_split_sizes: Rows that come from each rank; None: equal parts.
        input_split_sizes: Rows for each rank; None: equal parts.
        group: Of whom; None: all.
    """
    if output_split_sizes is None and input_split_sizes is not None:
        share = output.size(0) // get_world_size(_world(group))
        output_split_sizes = [share] * get_world_size(_world(group))
    result: Tensor = _AllToAllSingle.apply(
        input, output_split_sizes, input_split_sizes, _world(group)
    )
    return result
