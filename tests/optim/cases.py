"""Every optimizer with the options that change its result, for the tests that call them all."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

SHAPES = ((), (5,), (3, 4), (2, 3, 4))


class Case(NamedTuple):
    """An optimizer's name and its options."""

    name: str
    options: dict[str, Any]

    def __str__(self) -> str:
        return "-".join([self.name, *(f"{k}={v}" for k, v in self.options.items())])


def _product(
    name: str, options: dict[str, tuple[Any, ...]], valid: Callable[..., bool]
) -> Iterator[Case]:
    defaults = {key: values[0] for key, values in options.items()}
    for values in itertools.product(*options.values()):
        chosen = dict(zip(options, values, strict=True))
        if valid(**chosen):
            given = {k: v for k, v in chosen.items() if v != defaults[k] or k == "lr"}
            yield Case(name, given)


def _always(**_: Any) -> bool:
    return True


def _valid_sgd(momentum: float, dampening: float, nesterov: bool, **_: Any) -> bool:
    if momentum == 0:
        return not nesterov and dampening == 0
    return not (nesterov and dampening)


_DECAY = {"weight_decay": (0, 0.1), "maximize": (False, True)}
_OPTIONS: dict[str, tuple[dict[str, tuple[Any, ...]], Callable[..., bool]]] = {
    "SGD": (
        {
            "lr": (0.1,),
            "momentum": (0, 0.9),
            "dampening": (0, 0.3),
            "nesterov": (False, True),
            **_DECAY,
        },
        _valid_sgd,
    ),
    "Adam": (
        {
            "lr": (0.02,),
            "betas": ((0.9, 0.999), (0.4, 0.7)),
            "amsgrad": (False, True),
            "decoupled_weight_decay": (False, True),
            **_DECAY,
        },
        _always,
    ),
    "AdamW": ({"lr": (0.02,), "amsgrad": (False, True), "eps": (1e-8, 0.1), **_DECAY}, _always),
    "NAdam": (
        {
            "lr": (0.02,),
            "momentum_decay": (4e-3, 0.5),
            "decoupled_weight_decay": (False, True),
            **_DECAY,
        },
        _always,
    ),
    "RAdam": (
        {
            "lr": (0.02,),
            "betas": ((0.9, 0.999), (0.6, 0.8)),
            "decoupled_weight_decay": (False, True),
            **_DECAY,
        },
        _always,
    ),
    "Adamax": ({"lr": (0.02,), "eps": (1e-8, 0.1), **_DECAY}, _always),
    "Adagrad": (
        {"lr": (0.1,), "lr_decay": (0, 0.1), "initial_accumulator_value": (0, 0.5), **_DECAY},
        _always,
    ),
    "Adadelta": ({"lr": (1.0,), "rho": (0.9, 0.5), "eps": (1e-6, 0.1), **_DECAY}, _always),
    "RMSprop": (
        {
            "lr": (0.01,),
            "momentum": (0, 0.9),
            "centered": (False, True),
            "alpha": (0.99, 0.5),
            **_DECAY,
        },
        _always,
    ),
    "Rprop": (
        {
            "lr": (0.01,),
            "etas": ((0.5, 1.2), (0.3, 2.0)),
            "step_sizes": ((1e-6, 50), (5e-3, 0.02)),
            "maximize": (False, True),
        },
        _always,
    ),
    "ASGD": (
        {"lr": (0.05,), "lambd": (1e-4, 0.1), "t0": (1e6, 5), "alpha": (0.75, 0.5), **_DECAY},
        _always,
    ),
    "Adafactor": (
        {
            "lr": (0.05,),
            "beta2_decay": (-0.8, -0.3),
            "eps": ((None, 1e-3), (1e-3, 0.1)),
            "d": (1.0, 1.5),
            **_DECAY,
        },
        _always,
    ),
}

CASES = [
    case for name, (options, valid) in _OPTIONS.items() for case in _product(name, options, valid)
]
NAMES = list(_OPTIONS)
# The options of a case that is run where one of each optimizer will do.
ONE_OF_EACH = [
    Case("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}),
    Case("Adam", {"lr": 0.02, "amsgrad": True}),
    Case("AdamW", {"lr": 0.02}),
    Case("NAdam", {"lr": 0.02}),
    Case("RAdam", {"lr": 0.02, "betas": (0.6, 0.8)}),
    Case("Adamax", {"lr": 0.02}),
    Case("Adagrad", {"lr": 0.1, "lr_decay": 0.1}),
    Case("Adadelta", {"lr": 1.0}),
    Case("RMSprop", {"lr": 0.01, "momentum": 0.9, "centered": True}),
    Case("Rprop", {"lr": 0.01}),
    Case("ASGD", {"lr": 0.05, "t0": 3}),
    Case("Adafactor", {"lr": 0.05}),
]


def starts(
    dtype: str = "float64", shapes: tuple[tuple[int, ...], ...] = SHAPES
) -> list[np.ndarray]:
    """Where the parameters begin."""
    rng = np.random.default_rng(5)
    return [_random(rng, shape, dtype) for shape in shapes]


def gradients(
    n_steps: int, dtype: str = "float64", shapes: tuple[tuple[int, ...], ...] = SHAPES
) -> list[list[np.ndarray]]:
    """For each step, a gradient for each parameter, with signs that change now and then."""
    rng = np.random.default_rng(7)
    lasting = [_random(rng, shape, dtype) for shape in shapes]
    return [
        [0.5 * part + 0.3 * _random(rng, part.shape, dtype) for part in lasting]
        for _ in range(n_steps)
    ]


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    values = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.standard_normal(shape)
    return np.asarray(values, dtype=dtype)


def tensors(lib: Any, arrays: list[np.ndarray]) -> list[Any]:
    """The arrays as leaf tensors of *lib*."""
    return [lib.from_numpy(np.array(a)).requires_grad_() for a in arrays]


def run(
    lib: Any, case: Case, n_steps: int, dtype: str = "float64", **more: Any
) -> tuple[list[Any], Any]:
    """Do some steps from ``starts`` with ``gradients``.

    Returns:
        The parameters and the optimizer.
    """
    params = tensors(lib, starts(dtype))
    optimizer = getattr(lib.optim, case.name)(params, **case.options, **more)
    steps(lib, params, optimizer, gradients(n_steps, dtype))
    return params, optimizer


def steps(lib: Any, params: list[Any], optimizer: Any, grads: list[list[np.ndarray]]) -> None:
    """A step for each list of gradients, to which a part of the parameters is added."""
    for row in grads:
        for param, grad in zip(params, row, strict=True):
            param.grad = lib.from_numpy(np.array(grad)) + 0.3 * param.detach()
        optimizer.step()


def deviation(ours: list[Any], theirs: list[Any]) -> float:
    """The largest difference, over the largest number of the tensor."""
    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        x, y = np.asarray(a.detach().numpy()), np.asarray(b.detach().numpy())
        assert x.dtype == y.dtype
        known = np.isfinite(y)
        np.testing.assert_array_equal(x[~known], y[~known])
        x, y = x[known], y[known]
        if x.size == 0:
            continue
        worst = max(worst, float(np.max(np.abs(x - y)) / max(np.max(np.abs(y)), 1e-30)))
    return worst
