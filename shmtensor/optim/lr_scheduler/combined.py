"""Schedules made of schedules: one after the other, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from shmtensor.optim.lr_scheduler.base import LRScheduler, _set_value, _values
from shmtensor.optim.lr_scheduler.plateau import ReduceLROnPlateau
from shmtensor.optim.optimizer import Optimizer

__all__ = ["ChainedScheduler", "SequentialLR"]


class _CombinedLR(LRScheduler):
    """A schedule whose state holds the states of its schedules."""

    _schedulers: Sequence[LRScheduler]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, with the states of the schedules."""
        state = super().state_dict()
        state["_schedulers"] = [scheduler.state_dict() for scheduler in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave, from this library or from torch."""
        state = dict(state_dict)
        saved = state.pop("_schedulers")
        super().load_state_dict(state)
        for scheduler, part in zip(self._schedulers, saved, strict=True):
            scheduler.load_state_dict(part)


def _check_kind(name: str, i: int, scheduler: object) -> None:
    if isinstance(scheduler, ReduceLROnPlateau):
        raise ValueError(
            f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional "
            f"kwargs to be specified when calling `step`, but got one at index {i} in the given "
            "schedulers sequence."
        )


def _check_same_optimizer(name: str, i: int, scheduler: LRScheduler, optimizer: object) -> None:
    if scheduler.optimizer is not optimizer:
        raise ValueError(
            f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
            f"{type(scheduler).__name__} at index {i} has {scheduler.optimizer}, which is "
            f"different from {type(optimizer).__name__}."
        )


class SequentialLR(_CombinedLR):
    """One schedule after the other; each restarts at its milestone.

    Args:
        optimizer: Whose rates are set.
        schedulers: Schedules of this optimizer.
        milestones: The epochs at which the second and the following ones begin.
        last_epoch: The last step that was done, to continue a schedule.

    Raises:
        ValueError: No schedules, or one of another optimizer; not one milestone fewer than
            schedules; a schedule by metrics.
        TypeError: One is not a schedule.

    Source:
        torch.optim.lr_scheduler.SequentialLR.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError("SequentialLR expects at least one scheduler, but got no scheduler.")
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(
                    f"SequentialLR at index {i} should have `optimizer` as its attribute."
                )
            _check_kind("SequentialLR", i, scheduler)
            _check_same_optimizer("SequentialLR", i, scheduler, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than "
                f"the number of milestone points, but got number of schedulers {len(schedulers)} "
                f"and the number of milestones to be equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Each schedule has done its first step already: only the one that begins is to have done
        # so, which is a later one where milestones are at the very start.
        for group in optimizer.param_groups:
            _set_value(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: LRScheduler | None = None) -> None:
        """Put all schedules within before their first step."""
        schedule = self if sched is None else sched
        if isinstance(schedule, _CombinedLR):
            for part in schedule._schedulers:
                self.recursive_undo(part)
        else:
            schedule.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Set the rates of the next epoch."""
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_CombinedLR):
    """Several schedules at once: each changes the rates that the one before has left.

    Args:
        schedulers: Schedules of one optimizer.
        optimizer: That optimizer; ``None``: the first schedule's.

    Raises:
        ValueError: No schedules, or schedules of several optimizers; a schedule by metrics.

    Source:
        torch.optim.lr_scheduler.ChainedScheduler.
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError(
                "ChainedScheduler expects at least one scheduler to be chained, but got no "
                "scheduler."
            )
        optimizer = optimizer or schedulers[0].optimizer
        for i, scheduler in enumerate(schedulers):
            _check_kind("ChainedScheduler", i, scheduler)
            _check_same_optimizer("ChainedScheduler", i, scheduler, optimizer)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = _values(schedulers[-1].optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]
        """Set the rates of the next epoch."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = _values(self._schedulers[-1].optimizer, "lr")
