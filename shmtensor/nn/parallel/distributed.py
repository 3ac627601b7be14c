"""A module that a group of processes trains together.

Source:
    torch.nn.parallel.distributed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from shmtensor import _C
from shmtensor._core._groups import algorithms, distributed
from shmtensor._core._tensor import Tensor
from shmtensor.nn.modules.module import Module
from shmtensor.nn.modules.sparse import Embedding, EmbeddingBag
from shmtensor.nn.parallel._reducer import Reducer, used_parameters

if TYPE_CHECKING:
    from shmtensor.distributed.algorithms import Join, Joinable, JoinHook

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """Averages the gradients of a module over the ranks of a group, in every backward.

    Each rank has a copy of the module and calls it with its own part of a batch. At the start, all
    ranks take the parameters and buffers of rank 0. When backward has ended, the gradients on all
    ranks are equal, bit by bit: the averages. So optimizers that begin alike stay alike. Gradients
    are reduced in buckets, while backward goes on.

    The names in its state begin with ``module.``, as torch's.

    Args:
        module: It; at least one parameter must require a gradient.
        device_ids: None; there are no such devices.
        output_device: Accepted.
        dim: Accepted.
        broadcast_buffers: Take the buffers of rank 0 before each forward in training; on unless
            said.
        init_sync: Compare shapes, and take the parameters and buffers of rank 0.
        process_group: The group; None: the default group.
        bucket_cap_mb: The size of a bucket in MB; 25 unless given.
        find_unused_parameters: Some parameters may have no gradient in some backwards. A parameter
            that no rank has used keeps its gradient as it is.
        check_reduction: Accepted.
        gradient_as_bucket_view: Ignored; each gradient stays its own tensor.
        static_graph: The same parameters are used each time: accepted.
        options: Further arguments of torch are accepted if they are None or False.

    Raises:
        ValueError: There is no default group, or *device_ids* names devices.
        RuntimeError: No parameter requires a gradient, or the ranks' modules differ.

    Source:
        torch.nn.parallel.DistributedDataParallel.
    """

    module: Module

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        for name, value in options.items():
            if value not in (None, False):
                raise NotImplementedError(f"DistributedDataParallel: {name} is not offered")
        groups = distributed()._group
        group = groups._known(process_group) if process_group else groups._default_group()
        if device_ids:
            raise ValueError(f"DistributedDataParallel: there are no devices {device_ids}")
        named = [(n, p) for n, p in module.named_parameters() if p.requires_grad]
        if not named:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter "
                "that requires a gradient."
            )
        if bucket_cap_mb is not None and bucket_cap_mb <= 0:
            raise ValueError(f"bucket_cap_mb must be above 0, got {bucket_cap_mb}")
        self.module = module
        self.device_ids = None
        self.output_device = None
        self.dim = dim
        self.process_group = group
        self.broadcast_buffers = True if broadcast_buffers is None else broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.static_graph = static_graph
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        self._join_config: Any = None  # set by Join
        self._divides_by_initial_world_size = True
        if init_sync:
            _check_modules_agree(module, group)
            _take_state_of(0, list(module.parameters()) + list(module.buffers()), group)
        self.reducer = Reducer(
            [p for _, p in named],
            group,
            int((25 if bucket_cap_mb is None else bucket_cap_mb) * (1 << 20)),
            find_unused_parameters,
            lambda: self.require_backward_grad_sync,
            {
                id(each.weight)
                for each in module.modules()
                if isinstance(each, Embedding | EmbeddingBag) and each.sparse
            },
        )

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module."""
        records = _C.is_grad_enabled()
        if records and self.require_backward_grad_sync and not self.find_unused_parameters:
            self.reducer.expect(None)
        source = 0
        if self._join_config is not None and self._join_config.enable:
            source = algorithms()._data_parallel_join.enter_iteration(self)
        if self._takes_buffers():
            self._take_buffers(source)
        output = self.module(*inputs, **kwargs)
        if records and self.require_backward_grad_sync and self.find_unused_parameters:
            self.reducer.expect(used_parameters(output))
        if records:
            self.require_forward_param_sync = self.require_backward_grad_sync
        return output

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Do not reduce gradients inside: they add up on each rank.

        The first forward and backward outside reduce what has added up.

        Source:
            torch.nn.parallel.DistributedDataParallel.no_sync.
        """
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: object, hook: Callable[..., Any]) -> None:
        """Let a function reduce the gradients.

        Args:
            state: Its first argument.
            hook: Called with *state* and a bucket (`buffer()`, `gradients()`, `parameters()`,
                `index()`, `is_last()`), whose gradients are not divided by the number of ranks;
                returns a future of the reduced buffer.

        Raises:
            TypeError: *hook* cannot be called.
            RuntimeError: There is one already.
        """
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        self.reducer.set_hook(state, hook)

    # --- unequal numbers of batches -------------------------------------------------------------

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:
        """Return a context for a loop in which ranks may have unequal numbers of batches.

        A rank that has left the loop goes on taking part in the collectives of the others, and at
        the end takes the parameters of a rank that trained to the end.

        Args:
            divide_by_initial_world_size: Divide sums of gradients by the number of all ranks, as
                if the missing batches had gradients of 0; False: by the number of those that still
                train.
            enable: False: the numbers are equal, nothing is done.
            throw_on_early_termination: Raise RuntimeError on every rank when one has no more.

        Source:
            torch.nn.parallel.DistributedDataParallel.join.
        """
        joined: Join = algorithms().Join(
            [cast("Joinable", self)],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )
        return joined

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return what shadows this model in a `Join`.

        Args:
            **kwargs: Of `Join`; ``divide_by_initial_world_size`` as in `join`.
        """
        divides = kwargs.get("divide_by_initial_world_size", True)
        hook: JoinHook = algorithms()._data_parallel_join.DataParallelJoinHook(self, divides)
        return hook

    @property
    def join_device(self) -> Any:
        """The device of the collectives."""
        return _C.device("cpu")

    @property
    def join_process_group(self) -> Any:
        """The group of the collectives."""
        return self.process_group

    def _takes_buffers(self) -> bool:
        """Whether the next forward begins with the buffers of another rank."""
        return (
            self.training
            and self.broadcast_buffers
            and self.require_forward_param_sync
            and next(self.module.buffers(), None) is not None
        )

    def _take_buffers(self, source: int) -> None:
        _take_state_of(source, list(self.module.buffers()), self.process_group)


def _check_modules_agree(module: Module, group: Any) -> None:
    """Raise RuntimeError unless the ranks' parameters have equal shapes and dtypes."""
    own = [(n, tuple(p.shape), str(p.dtype)) for n, p in module.named_parameters()]
    everybodys: list[Any] = [None] * group.size()
    distributed().all_gather_object(everybodys, own, group=group)
    if len(everybodys[0]) != len(own):
        raise RuntimeError(
            f"DDP expects same model across all ranks, but Rank {group.rank()} has {len(own)} "
            f"params, while rank 0 has inconsistent {len(everybodys[0])} params."
        )
    for (name, *facts), (_, *theirs) in zip(own, everybodys[0], strict=True):
        if facts != theirs:
            raise RuntimeError(
                f"DDP expects same model across all ranks: {name} has shape {facts[0]} and dtype "
                f"{facts[1]} on rank {group.rank()}, {theirs[0]} and {theirs[1]} on rank 0"
            )


def _take_state_of(source: int, tensors: list[Tensor], group: Any) -> None:
    for tensor in tensors:
        distributed().broadcast(tensor.detach(), group=group, group_src=source)
