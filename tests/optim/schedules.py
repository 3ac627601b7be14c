"""Every schedule, made with any library, for the tests that call them all."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any


class Power:
    """A function with an attribute, which a schedule's state keeps."""

    def __init__(self, base: float) -> None:
        self.base = base

    def __call__(self, epoch: float) -> float:
        return self.base**epoch


def _sequence(o: Any, s: Any) -> Any:
    parts = [s.ConstantLR(o, factor=0.1, total_iters=4), s.ExponentialLR(o, 0.9), s.StepLR(o, 2)]
    return s.SequentialLR(o, parts, [5, 9])


def _warm_up(o: Any, s: Any) -> Any:
    parts = [
        s.LinearLR(o, total_iters=4),
        s.CosineAnnealingLR(o, 10),
        s.CosineAnnealingWarmRestarts(o, 4),
    ]
    return s.SequentialLR(o, parts, [5, 12])


def _chain(o: Any, s: Any) -> Any:
    return s.ChainedScheduler([s.ConstantLR(o, factor=0.1, total_iters=4), s.ExponentialLR(o, 0.9)])


# name -> (optimizer, lr_scheduler module) -> schedule
MAKERS: dict[str, Callable[[Any, Any], Any]] = {
    "lambda": lambda o, s: s.LambdaLR(o, lambda epoch: 0.9**epoch),
    "lambdas": lambda o, s: s.LambdaLR(o, [lambda epoch: 0.9**epoch, Power(0.8)]),
    "multiplicative": lambda o, s: s.MultiplicativeLR(o, lambda epoch: 1 - 1 / (epoch + 5)),
    "multiplicatives": lambda o, s: s.MultiplicativeLR(o, [lambda epoch: 0.9, Power(0.99)]),
    "step": lambda o, s: s.StepLR(o, 7, gamma=0.5),
    "multistep": lambda o, s: s.MultiStepLR(o, [2, 5, 5, 9, 100], gamma=0.3),
    "constant": lambda o, s: s.ConstantLR(o, factor=0.3, total_iters=4),
    "linear": lambda o, s: s.LinearLR(o, start_factor=0.2, end_factor=0.7, total_iters=30),
    "exponential": lambda o, s: s.ExponentialLR(o, 0.97),
    "polynomial": lambda o, s: s.PolynomialLR(o, total_iters=90, power=1.5),
    "cosine": lambda o, s: s.CosineAnnealingLR(o, 25, eta_min=0.01),
    "restarts": lambda o, s: s.CosineAnnealingWarmRestarts(o, 10),
    "longer restarts": lambda o, s: s.CosineAnnealingWarmRestarts(o, 3, 2, eta_min=0.01),
    "cyclic": lambda o, s: s.CyclicLR(o, 0.01, 0.1, step_size_up=4),
    "cyclic 2": lambda o, s: s.CyclicLR(
        o, [0.01, 0.02], [0.1, 0.2], 4, 2, mode="triangular2", base_momentum=0.5
    ),
    "cyclic exp": lambda o, s: s.CyclicLR(
        o, 0.01, 0.1, 3, mode="exp_range", gamma=0.99, cycle_momentum=False
    ),
    "cyclic of steps": lambda o, s: s.CyclicLR(
        o, 0.01, 0.1, 3, scale_fn=Power(0.97), scale_mode="iterations"
    ),
    "cyclic of cycles": lambda o, s: s.CyclicLR(o, 0.01, 0.1, 3, scale_fn=lambda x: 0.9**x),
    "one cycle": lambda o, s: s.OneCycleLR(o, 1.0, total_steps=210),
    "one cycle, three phases": lambda o, s: s.OneCycleLR(
        o, [1.0, 2.0], 210, three_phase=True, anneal_strategy="linear", base_momentum=0.7
    ),
    "one cycle of epochs": lambda o, s: s.OneCycleLR(
        o, 1.0, epochs=21, steps_per_epoch=10, cycle_momentum=False, pct_start=0.4, div_factor=10.0
    ),
    "chain": _chain,
    "sequence": _sequence,
    "warm up": _warm_up,
}


def optimizer_of(lib: Any, kind: str = "SGD", lr: Any = 0.1, **options: Any) -> Any:
    """An optimizer with two groups, the second of which has twice the rate."""
    if kind == "SGD":
        options = {"momentum": 0.9, **options}
    groups = [{"params": [lib.ones(2)], "lr": lr}, {"params": [lib.ones(3)], "lr": 2 * lr}]
    return getattr(lib.optim, kind)(groups, lr=lr, **options)


def rates(optimizer: Any) -> list[float]:
    return [float(group["lr"]) for group in optimizer.param_groups]


def curve(lib: Any, maker: Callable[[Any, Any], Any], n_steps: int, **options: Any) -> list[Any]:
    """The rates, and the momentum or betas of the first group, at each of some steps."""
    optimizer = optimizer_of(lib, **options)
    schedule = maker(optimizer, lib.optim.lr_scheduler)
    points: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(n_steps):
            group = optimizer.param_groups[0]
            points.append([*rates(optimizer), *group.get("betas", [group.get("momentum")])])
            optimizer.step()
            schedule.step()
    return points
