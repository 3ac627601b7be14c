"""A hook for ranks that average gradients at first, and later only now and then their parameters.

Sources:
    torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook; Lin et al., "Don't use large
    mini-batches, use local SGD", 2020.
"""

from __future__ import annotations

from typing import Any

from shmtensor._core._tensor import Tensor
from shmtensor.distributed._subgroups import new_subgroups
from shmtensor.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from shmtensor.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from shmtensor.futures import Future
from shmtensor.nn.parallel._reducer import GradBucket

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """What `post_localSGD_hook` knows.

    Args:
        process_group: The ranks that average gradients at first; None: the default group.
        subgroup: Those that do so later; None: the ranks of one machine.
        start_localSGD_iter: After how many backward passes later begins.
        post_local_gradient_allreduce: False: gradients are not averaged at all later.

    Attributes:
        iter: How many backward passes there were, as long as all ranks average.

    Source:
        torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook.PostLocalSGDState.
    """

    def __init__(
        self,
        process_group: Any,
        subgroup: Any,
        start_localSGD_iter: int,
        post_local_gradient_allreduce: bool = True,
    ) -> None:
        self.process_group = process_group
        self.subgroup = subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count a backward pass at its last bucket."""
        if bucket.is_last():
            self.iter += 1


def post_localSGD_hook(state: PostLocalSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Average gradients among all ranks at first, and among those of *state*'s subgroup later.

    What else the ranks are to have in common, a `PeriodicModelAverager` averages after the steps.

    Args:
        state: The groups, and when later begins.
        bucket: The gradients.

    Source:
        torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook.post_localSGD_hook.
    """
    if state.iter < state.start_localSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    if not state.post_local_gradient_allreduce:
        return noop_hook(None, bucket)
    if state.subgroup is None:
        state.subgroup, _ = new_subgroups()
    return allreduce_hook(state.subgroup, bucket)
