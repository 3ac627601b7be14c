"""Modules whose parameters have memory and no values yet."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from shmtensor.nn.modules.module import Module

__all__ = ["skip_init"]

M = TypeVar("M", bound=Module)


def skip_init(module_cls: type[M], *args: Any, **kwargs: Any) -> M:
    """Make a module without drawing initial values.

    Args:
        module_cls: The class; its parameters are made with ``device=`` as it is told.
        *args: Arguments of the class.
        **kwargs: Named ones; ``device`` is where the parameters will be, the CPU when left out.

    Returns:
        The module; its parameters and buffers hold anything.

    Raises:
        RuntimeError: *module_cls* is not a class of modules, or takes no ``device``.

    Source:
        torch.nn.utils.skip_init.
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    made: M = module_cls(*args, **{**kwargs, "device": "meta"})
    return made.to_empty(device=device)
