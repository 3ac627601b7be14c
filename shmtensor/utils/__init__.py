"""Tools around tensors: data loading, DLPack, hooks, modes, recomputation, safetensors files."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_SUBMODULES = (
    "_contextlib",
    "_python_dispatch",
    "_pytree",
    "benchmark",
    "checkpoint",
    "collect_env",
    "cpp_extension",
    "data",
    "deterministic",
    "dlpack",
    "flop_counter",
    "hooks",
    "model_zoo",
    "module_tracker",
    "safetensors",
    "weak",
)


def set_module(obj: Any, mod: str) -> None:
    """Let *obj* name *mod* as its module.

    Args:
        obj: A function or a class.
        mod: The module's name.

    Raises:
        TypeError: *mod* is not a string.
    """
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


def swap_tensors(t1: Any, t2: Any) -> None:
    """Exchange what two tensors are: values, gradients, attributes and class.

    Every reference to *t1* then sees what *t2* was, and the other way round.

    Args:
        t1: A tensor.
        t2: Another.

    Raises:
        RuntimeError: The graph of autograd refers to one of them.

    Source:
        torch.utils.swap_tensors.
    """
    for tensor in (t1, t2):
        if tensor.grad_fn is not None:
            raise RuntimeError("swap_tensors(): a tensor with a grad_fn cannot be exchanged")
    first, second = t1.data, t2.data
    grads, needs = (t1.grad, t2.grad), (t1.requires_grad, t2.requires_grad)
    for tensor, data, grad, need in (
        (t1, second, grads[1], needs[1]),
        (t2, first, grads[0], needs[0]),
    ):
        tensor.grad = None
        tensor.requires_grad_(False)
        tensor.data = data
        tensor.requires_grad_(need)
        tensor.grad = grad
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__


def __getattr__(name: str) -> object:
    if name in _SUBMODULES:  # each is loaded when it is first asked for
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES})
