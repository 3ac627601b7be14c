"""How a rank without batches shadows the iterations of `DistributedDataParallel` on the others.

In an iteration, a rank that trains counts itself (`Join.notify_join_context`), says what it is
about to do (`agree`), takes buffers, and reduces gradients. The hook repeats these collectives in
their order.

Source:
    torch.nn.parallel.DistributedDataParallel.join.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from shmtensor import _C
from shmtensor.distributed._collectives import all_reduce, broadcast
from shmtensor.distributed._names import ReduceOp
from shmtensor.distributed.algorithms.join import Join, Joinable, JoinHook

if TYPE_CHECKING:
    from shmtensor.nn.parallel import DistributedDataParallel

__all__ = ["Agreement", "DataParallelJoinHook", "agree", "enter_iteration"]


class Agreement(NamedTuple):
    """What the ranks that still train do in an iteration."""

    source: int  # the rank whose buffers count; -1: nobody trains
    takes_buffers: bool
    reduces_gradients: bool


def agree(model: DistributedDataParallel, is_training: bool) -> Agreement:
    """Learn what those who train do; a collective of all ranks."""
    own = [-1, 0, 0]
    if is_training:
        own[0] = model.process_group.rank()
        own[1] = model._takes_buffers()
        own[2] = model.require_backward_grad_sync and _C.is_grad_enabled()
    facts = _C.tensor(own, dtype=_C.int32)
    all_reduce(facts, ReduceOp.MAX, group=model.process_group)
    source, takes_buffers, reduces_gradients = facts.tolist()
    return Agreement(source, bool(takes_buffers), bool(reduces_gradients))


def enter_iteration(model: DistributedDataParallel) -> int:
    """Begin a forward of a rank that trains; returns the rank whose buffers count."""
    work = Join.notify_join_context(cast("Joinable", model))
    if work is not None:
        work.wait()
        if not model._divides_by_initial_world_size:
            model.reducer.divisor = int(work.result()[0].item())
    return agree(model, is_training=True).source


class DataParallelJoinHook(JoinHook):
    """Shadows one model.

    Args:
        model: It.
        divide_by_initial_world_size: Divide sums of gradients by the number of all ranks; if not,
            by the number of those that still train.
    """

    def __init__(self, model: DistributedDataParallel, divide_by_initial_world_size: bool) -> None:
        model._divides_by_initial_world_size = divide_by_initial_world_size
        self._model = model

    def main_hook(self) -> None:
        """Take part in an iteration with gradients of 0."""
        agreement = agree(self._model, is_training=False)
        if agreement.takes_buffers:
            self._model._take_buffers(agreement.source)
        if agreement.reduces_gradients:
            self._model.reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Take the parameters and buffers of a rank that trained to the end."""
        model = self._model
        group = model.process_group
        source = _C.tensor([group.rank() if is_last_joiner else -1], dtype=_C.int32)
        all_reduce(source, ReduceOp.MAX, group=group)
        for tensor in (*model.module.parameters(), *model.module.buffers()):
            broadcast(tensor.detach(), group=group, group_src=int(source.item()))
        model.reducer.divisor = group.size()
