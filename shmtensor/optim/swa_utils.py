"""Averages of a model over its training: stochastic weight averaging and moving averages."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any, Literal

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.nn import Module
from shmtensor.nn.modules.batchnorm import _BatchNorm
from shmtensor.optim.lr_scheduler.base import LRScheduler, _one_for_each_group
from shmtensor.optim.optimizer import Optimizer

__all__ = [
    "AveragedModel",
    "update_bn",
    "SWALR",
    "get_ema_multi_avg_fn",
    "get_swa_multi_avg_fn",
    "get_ema_avg_fn",
    "get_swa_avg_fn",
]

PARAM_LIST = tuple[Tensor, ...] | list[Tensor]
_MultiAverage = Callable[[PARAM_LIST, PARAM_LIST, Tensor | int], None]
_Average = Callable[[Tensor, Tensor, Tensor | int], Tensor]


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


def _move(averages: PARAM_LIST, values: PARAM_LIST, share: float) -> None:
    """Move averages by *share* of the way towards the present values, in place."""
    with shmtensor.no_grad():
        for average, value in zip(averages, values, strict=True):
            if average.is_floating_point() or average.is_complex():
                average.lerp_(value.to(average.dtype), share)
            else:
                average.copy_(average + (value - average) * share)


# The functions below return parts of functions of this module: local ones could not be pickled,
# nor the models that have them.
def _ema_update_all(
    decay: float, averages: PARAM_LIST, values: PARAM_LIST, num_averaged: Tensor | int
) -> None:
    _move(averages, values, 1 - decay)


def _swa_update_all(averages: PARAM_LIST, values: PARAM_LIST, num_averaged: Tensor | int) -> None:
    _move(averages, values, 1 / (int(num_averaged) + 1))


def _ema_update(decay: float, average: Tensor, value: Tensor, num_averaged: Tensor | int) -> Tensor:
    with shmtensor.no_grad():
        return decay * average + (1 - decay) * value


def _swa_update(average: Tensor, value: Tensor, num_averaged: Tensor | int) -> Tensor:
    with shmtensor.no_grad():
        return average + (value - average) / (num_averaged + 1)


def get_ema_multi_avg_fn(decay: float = 0.999) -> _MultiAverage:
    """A function that moves averages by ``1 - decay`` towards the present values, in place.

    Args:
        decay: What is kept of the averages, from 0 to 1.

    Raises:
        ValueError: *decay* is out of its range.
    """
    _check_decay(decay)
    return functools.partial(_ema_update_all, decay)


def get_swa_multi_avg_fn() -> _MultiAverage:
    """A function that takes the present values into averages of equal weights, in place."""
    return _swa_update_all


def get_ema_avg_fn(decay: float = 0.999) -> _Average:
    """A function of an average and a value that gives the average moved towards the value.

    Args:
        decay: What is kept of the average, from 0 to 1.

    Raises:
        ValueError: *decay* is out of its range.
    """
    _check_decay(decay)
    return functools.partial(_ema_update, decay)


def get_swa_avg_fn() -> _Average:
    """A function of an average, a value and their number that gives the next average."""
    return _swa_update


class AveragedModel(Module):
    """A copy of a model; its parameters are averages over the updates so far.

    The first update copies the parameters; each further one averages them. ``n_averaged`` is
    the number of updates, and belongs to the state.

    Args:
        model: The model, which is copied.
        device: Where the copy goes; ``None``: it stays where the model is.
        avg_fn: Gives the next average from the average, the present value and the number of
            updates; ``None``: all values have the same weight.
        multi_avg_fn: Does the same to lists of tensors, in place.
        use_buffers: Average the buffers too, instead of copying them.

    Raises:
        AssertionError: Both functions are given.

    Source:
        torch.optim.swa_utils.AveragedModel; Izmailov et al., "Averaging weights leads to wider
        optima and better generalization", 2018.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: shmtensor.device | str | None = None,
        avg_fn: _Average | None = None,
        multi_avg_fn: _MultiAverage | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        count = shmtensor.tensor(0, dtype=shmtensor.long, device=device)
        self.register_buffer("n_averaged", count)
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the averaged model."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the present parameters of *model* into the averages.

        Args:
            model: A model like the one that was copied.
        """
        averages = [t.detach() for t in self._averaged(self.module)]
        present = [t.detach() for t in self._averaged(model)]
        present = [t.to(a.device) for t, a in zip(present, averages, strict=True)]
        if self.n_averaged == 0:
            for average, current in zip(averages, present, strict=True):
                average.copy_(current)
        elif self.multi_avg_fn is not None:
            for dtype in {average.dtype: None for average in averages}:
                chosen = [i for i, average in enumerate(averages) if average.dtype == dtype]
                self.multi_avg_fn(
                    [averages[i] for i in chosen], [present[i] for i in chosen], self.n_averaged
                )
        else:
            next_average = get_swa_avg_fn() if self.avg_fn is None else self.avg_fn
            for average, current in zip(averages, present, strict=True):
                average.copy_(next_average(average, current, self.n_averaged))
        if not self.use_buffers:
            for own, other in zip(self.module.buffers(), model.buffers(), strict=True):
                own.detach().copy_(other.detach().to(own.device))
        self.n_averaged += 1

    def _averaged(self, model: Module) -> Iterable[Tensor]:
        """The tensors of *model* that are averaged."""
        if self.use_buffers:
            return chain(model.parameters(), model.buffers())
        return model.parameters()


def update_bn(
    loader: Iterable[Any], model: Module, device: shmtensor.device | str | None = None
) -> None:
    """Compute the running statistics of batch normalization again, over all of *loader*.

    Args:
        loader: Gives batches: tensors, or lists or tuples that begin with one.
        model: Called with each batch, in training mode; its mode is kept.
        device: Where batches are moved to first.

    Source:
        torch.optim.swa_utils.update_bn.
    """
    layers = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # averages of equal weights
    was_training = model.training
    model.train()
    with shmtensor.no_grad():
        for batch in loader:
            if isinstance(batch, (list, tuple)):
                batch = batch[0]
            if device is not None:
                batch = batch.to(device)
            model(batch)
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """From the present rate to a fixed one, for the end of a training with averages.

    Args:
        optimizer: Whose rates are set.
        swa_lr: The rate at the end; a list has one for each group.
        anneal_epochs: Epochs until then.
        anneal_strategy: "cos" or "linear".
        last_epoch: The last step that was done, to continue a schedule.

    Raises:
        ValueError: An unknown strategy; *anneal_epochs* is not a whole number from 0 on; a list of
            another length.

    Source:
        torch.optim.swa_utils.SWALR.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        last_epoch: int = -1,
    ) -> None:
        for lr, group in zip(
            _one_for_each_group("swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True
        ):
            group["swa_lr"] = lr
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._set_anneal_func(anneal_strategy)
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _set_anneal_func(self, anneal_strategy: Literal["cos", "linear"]) -> None:
        self._anneal_strategy = anneal_strategy
        self.anneal_func = _cosine_share if anneal_strategy == "cos" else _linear_share

    def get_lr(self) -> list[Any]:
        """Compute the next rates from the present ones."""
        self._warn_unless_stepping()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, after = (
            self.anneal_func(max(0, min(1, t / max(1, self.anneal_epochs))))
            for t in (step - 1, step)
        )
        rates = []
        for group in self.optimizer.param_groups:
            last = group["swa_lr"]
            first = last if before == 1 else (group["lr"] - before * last) / (1 - before)
            rates.append(last * after + first * (1 - after))
        return rates

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        state = super().state_dict()
        del state["anneal_func"]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave, from this library or from torch."""
        super().load_state_dict(state_dict)
        self._set_anneal_func(self._anneal_strategy)


def _linear_share(t: float) -> float:
    return t


def _cosine_share(t: float) -> float:
    return (1 - math.cos(math.pi * t)) / 2
