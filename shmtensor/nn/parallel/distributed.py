"""A module that a group of processes trains together.

Source:
    torch.nn.parallel.distributed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any, cast

from shmtensor import _C
from shmtensor._core._groups import algorithms, distributed
from shmtensor._core._tensor import Tensor
from shmtensor.nn.modules.batchnorm import SyncBatchNorm
from shmtensor.nn.modules.module import Module
from shmtensor.nn.modules.sparse import Embedding, EmbeddingBag
from shmtensor.nn.parallel._reducer import Reducer, find_tensors, used_parameters

if TYPE_CHECKING:
    from shmtensor.distributed.algorithms import Join, Joinable, JoinHook

__all__ = ["DistributedDataParallel"]

#: Libraries that prepare a backward themselves call it by torch's name.
_find_tensors = find_tensors


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
        static_graph: The same parameters are used in every iteration: the first forward shows
            which, and no other one is searched. A parameter in several checkpoints with
            ``use_reentrant=True`` raises in backward even so.
        delay_all_reduce_named_params: None.
        param_to_hook_all_reduce: None.
        mixed_precision: None.
        device_mesh: None.
        skip_all_reduce_unused_params: False.
        bucket_cap_mb_list: None.
        batched_grad_copy: Accepted.
        forward_sync_buffers: None.

    Copies (`copy.deepcopy`) reduce the gradients of their own parameters in the same group. In a
    pickle is no group: loading takes the default one, and a model of another group is refused. A
    communication hook stays behind in both. When the last reference to the model is gone, its
    ``module`` trains by itself.

    Raises:
        ValueError: There is no default group, or *device_ids* names devices.
        NotImplementedError: One of the arguments that can be None or False only is something else.
        RuntimeError: No parameter requires a gradient, or the ranks' modules differ in their
            parameters or buffers: then on all ranks.

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
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: list[int] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        super().__init__()
        for name, value in (
            ("delay_all_reduce_named_params", delay_all_reduce_named_params),
            ("param_to_hook_all_reduce", param_to_hook_all_reduce),
            ("mixed_precision", mixed_precision),
            ("device_mesh", device_mesh),
            ("skip_all_reduce_unused_params", skip_all_reduce_unused_params),
            ("bucket_cap_mb_list", bucket_cap_mb_list),
            ("forward_sync_buffers", forward_sync_buffers),
        ):
            if value is not None and value is not False:
                raise NotImplementedError(
                    f"DistributedDataParallel: {name} is not offered, got {value!r}"
                )
        groups = distributed()._group
        group = groups._known(process_group) if process_group else groups._default_group()
        if device_ids:
            raise ValueError(f"DistributedDataParallel: there are no devices {device_ids}")
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
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter "
                "that requires a gradient."
            )
        if init_sync:
            _take_state_of(0, list(module.parameters()) + list(module.buffers()), group)
        self._bucket_bytes = int((25 if bucket_cap_mb is None else bucket_cap_mb) * (1 << 20))
        self._make_reducer()

    def _make_reducer(self) -> None:
        self.reducer = Reducer(
            [p for p in self.module.parameters() if p.requires_grad],
            self.process_group,
            self._bucket_bytes,
            self.find_unused_parameters,
            self.static_graph,
            {
                id(each.weight)
                for each in self.module.modules()
                if isinstance(each, Embedding | EmbeddingBag) and each.sparse
            },
        )

    def __getstate__(self) -> dict[str, Any]:
        if self.process_group is not distributed()._group._default_group():
            raise RuntimeError(
                "DDP Pickling/Unpickling are only supported when using DDP with the default "
                "process group. That is, when you have called init_process_group and have not "
                "passed process_group argument to DDP constructor"
            )
        return self._own_state_without_group()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.process_group = state.pop("process_group", None)
        if self.process_group is None:
            self.process_group = distributed()._group._default_group()
        super().__setstate__(state)
        self._make_reducer()

    def __deepcopy__(self, memo: dict[int, Any]) -> DistributedDataParallel:
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        state = deepcopy(self._own_state_without_group(), memo)
        twin.__setstate__({**state, "process_group": self.process_group})
        return twin

    def _own_state_without_group(self) -> dict[str, Any]:
        absent = ("process_group", "reducer", "_join_config")
        return {
            **{name: value for name, value in self.__dict__.items() if name not in absent},
            "_join_config": None,
            "require_backward_grad_sync": True,
            "require_forward_param_sync": True,
        }

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module."""
        records = _C.is_grad_enabled()
        reduces = records and self.require_backward_grad_sync
        used = self.reducer.static_used
        searches = self.find_unused_parameters or self.static_graph
        if reduces and (not searches or used is not None):
            self.reducer.expect(used)
        source = 0
        if self._join_config is not None and self._join_config.enable:
            source = algorithms()._data_parallel_join.enter_iteration(self)
        if self._takes_buffers():
            self._take_buffers(source)
        output = self.module(*inputs, **kwargs)
        if reduces and searches and used is None:
            used = used_parameters(output)
            if self.static_graph:
                self.reducer.static_used = used
            self.reducer.expect(used)
        if records:
            self.require_forward_param_sync = self.require_backward_grad_sync
        return output

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Do not reduce the gradients of a forward inside: they add up on each rank.

        The first forward and backward outside reduce what has added up. A backward inside of a
        forward outside is reduced.

        Source:
            torch.nn.parallel.DistributedDataParallel.no_sync.
        """
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """Return facts about the module, the group and the buckets, as numbers and texts.

        Torch's times of forwards and backwards are missing.

        Source:
            torch.nn.parallel.DistributedDataParallel._get_ddp_logging_data.
        """
        parameters = [p for p in self.module.parameters() if p.requires_grad]
        dtypes = dict.fromkeys(str(p.dtype).rpartition(".")[2] for p in parameters)
        sizes = [
            sum(p.numel() * p.element_size() for p in bucket.parameters())
            for bucket in self.reducer.buckets
        ]
        return {
            "backend_name": distributed().get_backend(self.process_group),
            "bucket_sizes": ", ".join(map(str, sizes)),
            "device_ids": "",
            "dtypes": ", ".join(dtypes),
            "module_name": type(self.module).__name__,
            "broadcast_buffers": int(self.broadcast_buffers),
            "bucket_cap_bytes": self._bucket_bytes,
            "find_unused_parameters": int(self.find_unused_parameters),
            "gradient_as_bucket_view": 0,
            "has_sync_bn": int(any(isinstance(m, SyncBatchNorm) for m in self.module.modules())),
            "is_multi_device_module": 0,
            "iteration": self.reducer.n_finished,
            "num_parameter_tensors": len(parameters),
            "output_device": -1,
            "rank": self.process_group.rank(),
            "total_parameter_size_bytes": sum(sizes),
            "world_size": self.process_group.size(),
        }

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
    """Raise RuntimeError, on all ranks alike, unless the ranks' parameters and buffers agree.

    They agree when as many have equal shapes and dtypes, in their order, and want gradients.
    """
    own = [
        [(n, tuple(p.shape), str(p.dtype), p.requires_grad) for n, p in module.named_parameters()],
        [(n, tuple(b.shape), str(b.dtype), False) for n, b in module.named_buffers()],
    ]
    everybodys: list[Any] = [None] * group.size()
    distributed().all_gather_object(everybodys, own, group=group)
    for rank, of_rank in enumerate(everybodys):
        for kind, first, theirs in zip(("param", "buffer"), everybodys[0], of_rank, strict=True):
            if len(first) != len(theirs):
                raise RuntimeError(
                    f"DDP expects same model across all ranks, but Rank {rank} has {len(theirs)} "
                    f"{kind}s, while rank 0 has inconsistent {len(first)} {kind}s."
                )
            for (name, *facts), (_, *others) in zip(first, theirs, strict=True):
                if facts != others:
                    raise RuntimeError(
                        f"DDP expects same model across all ranks: the {kind} {name} has "
                        f"{_described(facts)} on rank 0, {_described(others)} on rank {rank}"
                    )


def _described(facts: list[Any]) -> str:
    shape, dtype, requires_grad = facts
    return f"shape {shape}, dtype {dtype} and requires_grad={requires_grad}"


def _take_state_of(source: int, tensors: list[Tensor], group: Any) -> None:
    for tensor in tensors:
        distributed().broadcast(tensor.detach(), group=group, group_src=source)
