"""What all schedules of learning rates share.

A schedule has a chainable form, ``get_lr``, which computes the next rates from the present ones,
so that several schedules can change the same rates; and perhaps a closed form,
``_get_closed_form_lr``, which computes them from the first ones and is used where a program names
the epoch.
"""

from __future__ import annotations

import functools
import types
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from shmtensor._core._tensor import Tensor
from shmtensor.optim._tools import _to_scalar
from shmtensor.optim.optimizer import Optimizer

__all__ = ["LRScheduler"]

_ADVICE = (
    "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
)

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler. During the deprecation, if "
    "epoch is different from None, the closed form is used instead of the new chainable form, "
    "where available."
)


class LRScheduler:
    """Base class of schedules; a subclass defines ``get_lr``.

    Making one sets ``initial_lr`` of the groups, where it is missing, and does the first step.

    Args:
        optimizer: Whose rates are set.
        last_epoch: The last step that was done, to continue a schedule; -1 begins one.

    Raises:
        TypeError: *optimizer* is none.
        KeyError: A schedule is continued, and a group has no ``initial_lr``.

    Source:
        torch.optim.lr_scheduler.LRScheduler.
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming "
                    "scheduler with last_epoch >= 0.\n"
                    "This typically happens when:\n"
                    "1. You're trying to resume training from a checkpoint but haven't properly "
                    "loaded the optimizer state\n"
                    "2. You're using last_epoch >= 0 for a fresh training run (not recommended)"
                )
        self.base_lrs: list[Any] = _values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _track_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        """Set the rates that the first epoch is to have."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; save its state as well."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave, from this library or from torch."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates that the last step has set, one a group."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """Compute the next rates, one a group."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Set the rates of the next epoch.

        Args:
            epoch: Which one, counted from 0. Deprecated.
        """
        if self._step_count == 1:
            self._warn_of_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _warn_of_order(self) -> None:
        """Warn if the optimizer has not done a step before the schedule's first."""
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
                "initialization. Please, make sure to call `optimizer.step()` before "
                f"`lr_scheduler.step()`. {_ADVICE}",
                UserWarning,
                stacklevel=3,
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch "
                "1.1.0 and later, you should call them in the opposite order: `optimizer.step()` "
                "before `lr_scheduler.step()`.  Failure to do this will result in PyTorch "
                f"skipping the first value of the learning rate schedule. {_ADVICE}",
                UserWarning,
                stacklevel=3,
            )

    def _warn_unless_stepping(self) -> None:
        """Warn of a call of ``get_lr`` that is not from within ``step``."""
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )

    @contextmanager
    def _stepping(self) -> Iterator[None]:
        self._get_lr_called_within_step = True
        try:
            yield
        finally:
            self._get_lr_called_within_step = False

    def _update_lr(self, epoch: int | None = None) -> None:
        """Set the rates of the next epoch, or of *epoch*, without counting the call."""
        with self._stepping():
            if epoch is None:
                self.last_epoch += 1
                rates = self.get_lr()
            else:
                self.last_epoch = epoch
                closed = getattr(self, "_get_closed_form_lr", None)
                rates = self.get_lr() if closed is None else closed()
        self._set_rates(rates)

    def _set_rates(self, rates: Sequence[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            _set_value(group, "lr", rate)
        self._last_lr: list[Any] = _values(self.optimizer, "lr")

    def _rates(self, factor: Any = 1) -> list[Any]:
        """The present rates times *factor*."""
        if factor == 1:
            return _values(self.optimizer, "lr")
        return [group["lr"] * factor for group in self.optimizer.param_groups]


class _LRScheduler(LRScheduler):
    """The name of ``LRScheduler`` in torch before 2.0."""


def _check_optimizer(optimizer: object) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def _values(optimizer: Optimizer, key: str) -> list[Any]:
    """An option of all groups; copies, where it is a tensor."""
    return [_copied(group[key]) for group in optimizer.param_groups]


def _set_value(group: dict[str, Any], key: str, value: Any) -> None:
    """Set an option; in place, where it is a tensor."""
    if isinstance(group[key], Tensor):
        group[key].fill_(_to_scalar(value))
    else:
        group[key] = value


def _one_for_each_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """A list with one value for each group; a single value is for all."""
    n_groups = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * n_groups
    if len(value) != n_groups:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has "
            f"{len(value)} values, param_groups has {n_groups}."
        )
    return list(value)


def _saved_function(function: Callable[..., Any] | None) -> dict[str, Any] | None:
    """What a state keeps of a callable: the attributes of an object, nothing of a function."""
    if function is None or isinstance(function, types.FunctionType):
        return None
    return function.__dict__.copy()


def _track_steps(optimizer: Optimizer) -> None:
    """Let *optimizer* remember that its ``step`` was called."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    function = optimizer.step.__func__  # type: ignore[attr-defined]
    owner = weakref.ref(optimizer)  # else the optimizer would hold itself

    @functools.wraps(function)
    def step(*args: Any, **kwargs: Any) -> Any:
        self = owner()
        assert self is not None
        self._opt_called = True  # type: ignore[attr-defined]
        return function(self, *args, **kwargs)

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = step  # type: ignore[method-assign]
