"""Ranks that run out of batches go on taking part in the collectives of the others.

A rank that is still training calls `Join.notify_join_context` once an iteration: an all-reduce that
counts who is still there. A rank that has left the loop enters the end of `Join`, answers these
counts, and calls the hooks, which repeat the collectives of an iteration, until nobody is left.

Source:
    torch.distributed.algorithms.join.
"""

from __future__ import annotations

import abc
import warnings
from types import TracebackType
from typing import Any, NamedTuple

from shmtensor import _C
from shmtensor.distributed._collectives import all_reduce
from shmtensor.distributed._group import get_rank, get_world_size
from shmtensor.distributed._work import Work
from shmtensor.errors import ShmTensorWarning

__all__ = ["Join", "JoinHook", "Joinable"]

#: Iterations that a rank shadows before it is told that its batches are far fewer.
_WARN_AFTER = 1000


class JoinHook:
    """What a rank without batches does for one object. Both methods do nothing by themselves."""

    def main_hook(self) -> None:
        """Repeat the collectives of one iteration; called while others still train."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Finish, once all ranks have left their loops.

        Args:
            is_last_joiner: Whether this rank was among the last to leave.
        """


class _JoinConfig(NamedTuple):
    """What an object knows about the `Join` that it is in."""

    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool


class Joinable(abc.ABC):
    """An object with collectives in each iteration, that a `Join` can shadow."""

    @abc.abstractmethod
    def __init__(self) -> None:
        super().__init__()
        self._join_config = _JoinConfig(False, False, False)

    @abc.abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return the hook; *kwargs* are those of `Join`."""

    @property
    @abc.abstractmethod
    def join_device(self) -> Any:
        """The device of the collectives."""

    @property
    @abc.abstractmethod
    def join_process_group(self) -> Any:
        """The group of the collectives."""


class Join:
    """A context around a training loop that may have different numbers of iterations on the ranks.

    Args:
        joinables: Shadow the collectives of these objects, in the order of an iteration.
        enable: False: nothing is done.
        throw_on_early_termination: Raise on every rank as soon as one has no more batches.
        **kwargs: For the hooks.

    Raises:
        ValueError: There is no object, or they differ in their group.
        RuntimeError: With *throw_on_early_termination*, from within the loop.
    """

    def __init__(
        self,
        joinables: list[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        if len({id(joinable.join_process_group) for joinable in joinables}) > 1:
            raise ValueError("Using join context manager with multiple process groups")
        self._joinables = joinables
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        self._enable = enable
        self._throws = throw_on_early_termination
        self._group = joinables[0].join_process_group
        for i, joinable in enumerate(joinables):
            joinable._join_config = _JoinConfig(enable, self._throws, i == 0)

    def __enter__(self) -> None:
        """Do nothing: the work is at the end."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Shadow the ranks that still train, then finish."""
        try:
            if self._enable and kind is None:
                self._shadow_others()
        finally:
            for joinable in self._joinables:
                joinable._join_config = _JoinConfig(False, False, False)

    def _shadow_others(self) -> None:
        last, shadowed = True, 0
        while self._others() > 0:
            last = False
            if self._throws:
                raise RuntimeError(f"Rank {get_rank(self._group)} exhausted all inputs.")
            for hook in self._hooks:
                hook.main_hook()
            shadowed += 1
            if shadowed == _WARN_AFTER:
                warnings.warn(
                    f"Rank {get_rank(self._group)} has shadowed {shadowed} iterations of others; "
                    "it had that many fewer batches",
                    ShmTensorWarning,
                    stacklevel=2,
                )
        for hook in self._hooks:
            hook.post_hook(last)

    def _others(self) -> int:
        """How many ranks are still in their loops; they count themselves in the same all-reduce."""
        count = _C.zeros(1)
        all_reduce(count, group=self._group)
        return int(count.item())

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Work | None:
        """Say that this rank is still in its loop; an object does so before its collectives.

        Args:
            joinable: Only the first of a `Join` says so.

        Returns:
            The `Work` of the count; None outside of a `Join`.

        Raises:
            RuntimeError: Another rank has no more batches, and `Join` was told to raise then.
        """
        config = getattr(joinable, "_join_config", None)
        if config is None or not config.enable or not config.is_first_joinable:
            return None
        group = joinable.join_process_group
        count = _C.ones(1)
        work = all_reduce(count, group=group, async_op=True)
        if config.throw_on_early_termination and work is not None:
            work.wait()
            if int(count.item()) < get_world_size(group):
                raise RuntimeError("Detected at least one rank that exhausted inputs.")
        return work
