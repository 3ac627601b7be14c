"""An optimizer that keeps its state in parts on the ranks of a group.

Each parameter has one owner. The owner alone keeps its state and takes its step; then all ranks
take the new value from the owner.

Sources:
    torch.distributed.optim.ZeroRedundancyOptimizer; Rajbhandari et al., "ZeRO: memory optimizations
    toward training trillion parameter models", 2020.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.distributed._collectives import broadcast
from shmtensor.distributed._group import _default_group, _known
from shmtensor.distributed._objects import all_gather_object, gather_object
from shmtensor.distributed.algorithms.join import Join, Joinable, JoinHook
from shmtensor.optim.optimizer import Optimizer

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Divides the state and the step of an optimizer among the ranks.

    All ranks call `step` together, with equal gradients: `DistributedDataParallel` makes them so.

    Args:
        params: The parameters or the groups, in one order on all ranks.
        optimizer_class: Makes the optimizer of a rank's own parameters.
        process_group: The ranks; None: the default group.
        parameters_as_bucket_view: Ignored; each parameter stays its own tensor.
        overlap_with_ddp: Not offered: steps begin when backward has ended.
        **defaults: Options of *optimizer_class*.

    Raises:
        TypeError: *params* are not tensors or groups.
        ValueError: There are none, or the ranks' parameters differ in number, shape or dtype.
        NotImplementedError: *overlap_with_ddp* is given.

    Example:
        >>> optimizer = ZeroRedundancyOptimizer(model.parameters(), optim.Adam, lr=0.01)

    Source:
        torch.distributed.optim.ZeroRedundancyOptimizer.
    """

    optim: Optimizer

    def __init__(
        self,
        params: Any,
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise NotImplementedError("ZeroRedundancyOptimizer: overlap_with_ddp is not offered")
        group = _default_group() if process_group is None else _known(process_group)
        self.process_group = group
        self.world_size: int = group.size()
        self.rank: int = group.rank()
        self._owned_bytes = [0] * self.world_size
        self._owners: dict[Tensor, int] = {}
        make_local: Callable[..., Optimizer] = functools.partial(optimizer_class, **defaults)
        self._all_states: list[Any] = []
        Joinable.__init__(self)
        Optimizer.__init__(self, params, {})
        _check_ranks_agree(self.param_groups, group)
        self.optim = make_local([self._own_part(g) for g in self.param_groups])
        self._take_up_options()

    # --- owners ---------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with their own options, on all ranks together."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        self._give_owners(group["params"])
        if "optim" in self.__dict__:
            self.optim.add_param_group(self._own_part(group))
            self._take_up_options()

    def _give_owners(self, params: list[Tensor]) -> None:
        """Give each parameter, the largest first, to the rank that owns the fewest bytes."""
        for param in sorted(params, key=_nbytes, reverse=True):
            owner = self._owned_bytes.index(min(self._owned_bytes))
            self._owners[param] = owner
            self._owned_bytes[owner] += _nbytes(param)

    def _own_part(self, group: dict[str, Any]) -> dict[str, Any]:
        """The options of a group with the parameters that this rank owns; they lose their names."""
        own = [param for param in group["params"] if self._owners[param] == self.rank]
        return {**_options(group), "params": own}

    def _parameters(self) -> Iterator[Tensor]:
        for group in self.param_groups:
            yield from group["params"]

    # --- stepping -------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Take the step of this rank's parameters, then all parameters from their owners.

        Args:
            closure: Computes the loss again and its gradients; called first.
            **kwargs: Go to the optimizer's own `step`.

        Returns:
            What *closure* returned, or None.
        """
        Join.notify_join_context(self)
        return self._step_together(closure, **kwargs)

    def _step_together(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        self._hand_down_options()
        loss = self.optim.step(closure, **kwargs)
        self._take_up_options()
        works = [
            broadcast(
                param.detach(),
                group=self.process_group,
                group_src=self._owners[param],
                async_op=True,
            )
            for param in self._parameters()
        ]
        for work in works:
            if work is not None:
                work.wait()
        return loss

    def _hand_down_options(self) -> None:
        """Give the options that a program or a schedule has changed to the rank's optimizer."""
        for own, everybodys in zip(self.optim.param_groups, self.param_groups, strict=True):
            own.update(_options(everybodys))

    def _take_up_options(self) -> None:
        """Take the options that the rank's optimizer has changed."""
        for own, everybodys in zip(self.optim.param_groups, self.param_groups, strict=True):
            everybodys.update(_options(own))

    # --- saving ---------------------------------------------------------------------------------

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Gather the whole state on one rank; all ranks call this, before it calls `state_dict`.

        Args:
            to: The rank.
        """
        places = {param: i for i, param in enumerate(self._parameters())}
        own = {places[param]: entry for param, entry in self.optim.state.items()}
        parts: list[Any] = [None] * self.world_size if self.rank == to else []
        gather_object(own, parts or None, group=self.process_group, group_dst=to)
        self._all_states = parts

    def state_dict(self) -> dict[str, Any]:
        """Return the state that the last `consolidate_state_dict` gathered on this rank.

        It is the state that *optimizer_class* has in one process.

        Raises:
            RuntimeError: It was not gathered here.
        """
        if not self._all_states:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call "
                f"`consolidate_state_dict(to={self.rank})` on all ranks beforehand if you meant "
                "to save the global state."
            )
        state = super().state_dict()
        entries = {place: entry for part in self._all_states for place, entry in part.items()}
        return {**state, "state": dict(sorted(entries.items()))}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a whole state, of this class or of *optimizer_class*; each rank keeps its part.

        Raises:
            ValueError: Groups or parameters differ in number.
        """
        theirs = [len(group["params"]) for group in state_dict["param_groups"]]
        ours = [len(group["params"]) for group in self.param_groups]
        if theirs != ours:
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                f"optimizer's group: its groups have {theirs} parameters, the optimizer's {ours}"
            )
        groups = []
        for group, given in zip(self.param_groups, state_dict["param_groups"], strict=True):
            pairs = zip(group["params"], given["params"], strict=True)
            own = [place for param, place in pairs if self._owners[param] == self.rank]
            groups.append({**_options(given), "params": own})
        kept = {place for group in groups for place in group["params"]}
        state = {place: entry for place, entry in state_dict["state"].items() if place in kept}
        self.optim.load_state_dict({"state": state, "param_groups": groups})
        self._take_up_options()

    # --- unequal numbers of batches -------------------------------------------------------------

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return what takes this rank's part in the steps of others, in a `Join`."""
        return _StepHook(self)

    @property
    def join_device(self) -> Any:
        """The device of the collectives."""
        return _C.device("cpu")

    @property
    def join_process_group(self) -> Any:
        """The group of the collectives."""
        return self.process_group


class _StepHook(JoinHook):
    """A rank without batches still owns parameters; it needs the gradients of the others."""

    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self._optimizer = optimizer

    def main_hook(self) -> None:
        """Take the step of this rank's parameters."""
        self._optimizer._step_together()


def _nbytes(param: Tensor) -> int:
    return param.numel() * param.element_size()


def _options(group: dict[str, Any]) -> dict[str, Any]:
    """What a group says besides its parameters."""
    return {k: v for k, v in group.items() if k not in ("params", "param_names")}


def _check_ranks_agree(groups: list[dict[str, Any]], process_group: Any) -> None:
    """Raise ValueError unless the ranks' parameters have equal shapes and dtypes."""
    own = [[(tuple(p.shape), str(p.dtype)) for p in group["params"]] for group in groups]
    everybodys: list[Any] = [None] * process_group.size()
    all_gather_object(everybodys, own, group=process_group)
    if own != everybodys[0]:
        raise ValueError(
            f"ZeroRedundancyOptimizer: rank {process_group.rank()} has the parameters {own}, "
            f"rank 0 has {everybodys[0]}"
        )
