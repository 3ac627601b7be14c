"""Schedules that a formula of the epoch gives: steps, powers, lines, cosines, functions."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from shmtensor.optim.lr_scheduler.base import LRScheduler, _saved_function
from shmtensor.optim.optimizer import Optimizer

__all__ = [
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "PolynomialLR",
    "StepLR",
]

_Factor = Callable[[int], float]


class _FunctionLR(LRScheduler):
    """A schedule with a function of the epoch for each group."""

    def __init__(
        self, optimizer: Optimizer, lr_lambda: _Factor | list[_Factor], last_epoch: int = -1
    ) -> None:
        self.optimizer = optimizer
        n_groups = len(optimizer.param_groups)
        self.lr_lambdas: list[_Factor]
        if isinstance(lr_lambda, (list, tuple)):
            if len(lr_lambda) != n_groups:
                raise ValueError(f"Expected {n_groups} lr_lambdas, but got {len(lr_lambda)}")
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * n_groups
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of the functions, only attributes of objects."""
        state = super().state_dict()
        del state["lr_lambdas"]
        state["lr_lambdas"] = [_saved_function(f) for f in self.lr_lambdas]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave; functions stay, their attributes change."""
        state = dict(state_dict)
        saved = state.pop("lr_lambdas")
        super().load_state_dict(state)
        for function, attributes in zip(self.lr_lambdas, saved, strict=True):
            if attributes is not None:
                function.__dict__.update(attributes)


class LambdaLR(_FunctionLR):
    """The first rate times a function of the epoch.

    Args:
        optimizer: Whose rates are set.
        lr_lambda: Gives the factor for an epoch; a list has one for each group.
        last_epoch: The last step that was done, to continue a schedule.

    Raises:
        ValueError: Another number of functions than of groups.

    Source:
        torch.optim.lr_scheduler.LambdaLR.
    """

    def get_lr(self) -> list[Any]:
        """Compute the next rates."""
        self._warn_unless_stepping()
        return [
            base * factor(self.last_epoch)
            for base, factor in zip(self.base_lrs, self.lr_lambdas, strict=True)
        ]


class MultiplicativeLR(_FunctionLR):
    """The present rate times a function of the epoch.

    Args:
        optimizer: Whose rates are set.
        lr_lambda: Gives the factor for an epoch; a list has one for each group.
        last_epoch: The last step that was done, to continue a schedule.

    Raises:
        ValueError: Another number of functions than of groups.

    Source:
        torch.optim.lr_scheduler.MultiplicativeLR.
    """

    def get_lr(self) -> list[Any]:
        """Compute the next rates."""
        self._warn_unless_stepping()
        if self._is_initial:
            return self._rates()
        groups = self.optimizer.param_groups
        return [
            group["lr"] * factor(self.last_epoch)
            for group, factor in zip(groups, self.lr_lambdas, strict=True)
        ]


class StepLR(LRScheduler):
    """The rate times *gamma* after every *step_size* epochs.

    Args:
        optimizer: Whose rates are set.
        step_size: Epochs with one rate.
        gamma: The factor.
        last_epoch: The last step that was done, to continue a schedule.

    Source:
        torch.optim.lr_scheduler.StepLR.
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Compute the next rates."""
        self._warn_unless_stepping()
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._rates()
        return self._rates(self.gamma)

    def _get_closed_form_lr(self) -> list[Any]:
        n_steps = self.last_epoch // self.step_size
        return [base * self.gamma**n_steps for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """The rate times *gamma* at each milestone.

    Args:
        optimizer: Whose rates are set.
        milestones: Epochs; one that occurs twice counts twice.
        gamma: The factor.
        last_epoch: The last step that was done, to continue a schedule.

    Source:
        torch.optim.lr_scheduler.MultiStepLR.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Compute the next rates."""
        self._warn_unless_stepping()
        if self.last_epoch not in self.milestones:
            return self._rates()
        return self._rates(self.gamma ** self.milestones[self.last_epoch])

    def _get_closed_form_lr(self) -> list[Any]:
        n_steps = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**n_steps for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """The rate times *factor* for the first epochs, then itself.

    Args:
        optimizer: Whose rates are set.
        factor: The factor, from 0 to 1.
        total_iters: Epochs with the factor.
        last_epoch: The last step that was done, to continue a schedule.

    Raises:
        ValueError: *factor* is out of its range.

    Source:
        torch.optim.lr_scheduler.ConstantLR.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Compute the next rates."""
        self._warn_unless_stepping()
        if self.last_epoch == 0:
            return self._rates(self.factor)
        if self.last_epoch != self.total_iters:
            return self._rates()
        return self._rates(1.0 / self.factor)

    def _get_closed_form_lr(self) -> list[Any]:
        factor = self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor)
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """The rate times a factor that goes from one value to another along a line.

    Args:
        optimizer: Whose rates are set.
        start_factor: The factor of the first epoch, above 0 and not above 1.
        end_factor: The factor after *total_iters* epochs and from then on, from 0 to 1.
        total_iters: Epochs until then.
        last_epoch: The last step that was done, to continue a schedule.

    Raises:
        ValueError: A factor is out of its range.

    Source:
        torch.optim.lr_scheduler.LinearLR.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal "
                "to 1."
            )
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Compute the next rates."""
        self._warn_unless_stepping()
        if self.last_epoch == 0:
            return self._rates(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates()
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return self._rates(1.0 + rise / before)

    def _get_closed_form_lr(self) -> list[Any]:
        rise = self.end_factor - self.start_factor
        factor = (
            self.start_factor + rise * min(self.total_iters, self.last_epoch) / self.total_iters
        )
        return [base * factor for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """The rate times *gamma* after every epoch.

    Args:
        optimizer: Whose rates are set.
        gamma: The factor.
        last_epoch: The last step that was done, to continue a schedule.

    Source:
        torch.optim.lr_scheduler.ExponentialLR.
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Compute the next rates."""
        self._warn_unless_stepping()
        return self._rates() if self._is_initial else self._rates(self.gamma)

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The first rate times a power of what is left of *total_iters* epochs; then zero.

    Args:
        optimizer: Whose rates are set.
        total_iters: Epochs until the rate is zero.
        power: The power.
        last_epoch: The last step that was done, to continue a schedule.

    Source:
        torch.optim.lr_scheduler.PolynomialLR.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        total_iters: int = 5,
        power: float = 1.0,
        last_epoch: int = -1,
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Compute the next rates."""
        self._warn_unless_stepping()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates()
        left = 1.0 - self.last_epoch / self.total_iters
        left_before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return self._rates((left / left_before) ** self.power)

    def _get_closed_form_lr(self) -> list[Any]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """From the first rate down to *eta_min* along half a cosine, and up again.

    Args:
        optimizer: Whose rates are set.
        T_max: Epochs of the way down.
        eta_min: The lowest rate.
        last_epoch: The last step that was done, to continue a schedule.

    Source:
        torch.optim.lr_scheduler.CosineAnnealingLR; Loshchilov, Hutter, "SGDR: stochastic gradient
        descent with warm restarts", 2017.
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Compute the next rates."""
        self._warn_unless_stepping()
        if self._is_initial:
            return self._rates()
        groups = self.optimizer.param_groups
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # Before this epoch the rate was the lowest, and says nothing of how high it began.
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [
                group["lr"] + (base - self.eta_min) * rise
                for base, group in zip(self.base_lrs, groups, strict=True)
            ]
        height = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        height_before = 1 + math.cos(math.pi * (self.last_epoch - 1) / self.T_max)
        return [
            height / height_before * (group["lr"] - self.eta_min) + self.eta_min for group in groups
        ]

    def _get_closed_form_lr(self) -> list[Any]:
        height = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """From the first rate down to *eta_min* along half a cosine, again and again.

    Args:
        optimizer: Whose rates are set.
        T_0: Epochs until the first restart.
        T_mult: The factor from one cycle's length to the next's.
        eta_min: The lowest rate.
        last_epoch: The last step that was done, to continue a schedule.

    Raises:
        ValueError: *T_0* or *T_mult* is not a whole number above zero; *eta_min* is not a number.

    Source:
        torch.optim.lr_scheduler.CosineAnnealingWarmRestarts; Loshchilov, Hutter, "SGDR:
        stochastic gradient descent with warm restarts", 2017.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(
                f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            )
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Compute the next rates."""
        self._warn_unless_stepping()
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Set the rates of the next epoch.

        Args:
            epoch: Which one, counted from 0; a fraction is a point within an epoch.

        Raises:
            ValueError: A negative *epoch*.
        """
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            self.T_cur, self.T_i = self._place(epoch)
        self.last_epoch = math.floor(epoch)
        with self._stepping():
            rates = self.get_lr()
        self._set_rates(rates)

    def _place(self, epoch: float) -> tuple[float, int]:
        """Where *epoch* is in its cycle, and how long that is."""
        if epoch < self.T_0:
            return epoch, self.T_0
        if self.T_mult == 1:
            return epoch % self.T_0, self.T_0
        n_cycles = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
        begin = self.T_0 * (self.T_mult**n_cycles - 1) / (self.T_mult - 1)
        return epoch - begin, self.T_0 * self.T_mult**n_cycles
