"""Hooks that average gradients, as they are or in a narrower dtype.

Source:
    torch.distributed.algorithms.ddp_comm_hooks.default_hooks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.distributed._collectives import all_reduce
from shmtensor.distributed._group import ProcessGroup, get_world_size
from shmtensor.futures import Future
from shmtensor.nn.parallel._reducer import GradBucket

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]

Hook = Callable[[Any, GradBucket], Future[Tensor]]


def _average(group: ProcessGroup | None, tensor: Tensor) -> Future[Tensor]:
    """Begin to average a tensor in place; the future has it."""
    tensor.div_(get_world_size(group))
    work = all_reduce(tensor, group=group, async_op=True)
    if work is None:
        raise ValueError("Invalid process group specified: this rank is no member")
    return work.get_future().then(lambda future: future.value()[0])


def allreduce_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future[Tensor]:
    """Average the gradients, as without a hook.

    Args:
        process_group: The ranks; None: the default group.
        bucket: The gradients.

    Source:
        torch.distributed.algorithms.ddp_comm_hooks.default_hooks.allreduce_hook.
    """
    return _average(process_group, bucket.buffer())


def _compress(dtype: Any, group: ProcessGroup | None, bucket: GradBucket) -> Future[Tensor]:
    buffer = bucket.buffer()
    narrow = buffer.to(dtype)
    return _average(group, narrow).then(lambda future: buffer.copy_(future.value()))


def fp16_compress_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future[Tensor]:
    """Average the gradients as numbers of float16: half as many bytes, in its range.

    Args:
        process_group: The ranks; None: the default group.
        bucket: The gradients.

    Source:
        torch.distributed.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_hook.
    """
    return _compress(_C.float16, process_group, bucket)


def bf16_compress_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future[Tensor]:
    """Average the gradients as numbers of bfloat16.

    Args:
        process_group: The ranks; None: the default group.
        bucket: The gradients.

    Source:
        torch.distributed.algorithms.ddp_comm_hooks.default_hooks.bf16_compress_hook.
    """
    return _compress(_C.bfloat16, process_group, bucket)


def _wrapper(dtype: Any, hook: Hook) -> Hook:
    def compressed(state: Any, bucket: GradBucket) -> Future[Tensor]:
        buffer = bucket.buffer()
        bucket.set_buffer(buffer.to(dtype))
        return hook(state, bucket).then(lambda future: buffer.copy_(future.value()))

    return compressed


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """Return a hook that gives *hook* the gradients as float16, and takes its result from that.

    Source:
        torch.distributed.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_wrapper.
    """
    return _wrapper(_C.float16, hook)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """Return a hook that gives *hook* the gradients as bfloat16, and takes its result from that.

    Source:
        torch.distributed.algorithms.ddp_comm_hooks.default_hooks.bf16_compress_wrapper.
    """
    return _wrapper(_C.bfloat16, hook)
