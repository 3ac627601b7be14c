"""What `compile` makes of a module, and what there is to compile it.

Source:
    torch._dynamo.eval_frame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shmtensor.nn import Module

__all__ = ["OptimizedModule", "is_dynamo_supported", "is_inductor_supported"]


def is_dynamo_supported() -> bool:
    """Return whether functions are compiled from their bytecode: False."""
    return False


def is_inductor_supported() -> bool:
    """Return whether the compiler of the default backend is here: False."""
    return False


class OptimizedModule(Module):
    """A module that calls another, as a backend compiles it.

    Parameters are below ``_orig_mod``, which is the module itself; its attributes are found here
    too, and assigning or deleting one does so there. Another module assigned to ``_orig_mod`` gives
    parameters and attributes; what is called stays what was compiled.

    Args:
        mod: The module.
        compiled: What is called.
    """

    _orig_mod: Module

    def __init__(self, mod: Module, compiled: Callable[..., Any] | None = None) -> None:
        super().__init__()
        self._modules["_orig_mod"] = mod
        # Not by attribute: a module would become a child.
        self.__dict__["_compiled"] = compiled or mod

    @property
    def training(self) -> bool:  # type: ignore[override]
        """Whether the module is in training."""
        return self._orig_mod.training

    @training.setter
    def training(self, mode: bool) -> None:
        if "_modules" in self.__dict__:  # not the one that every module starts with
            self._orig_mod.training = mode

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call what was compiled."""
        return self.__dict__["_compiled"](*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_own(name):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if self._is_own(name):
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def _is_own(self, name: str) -> bool:
        own = self.__dict__
        return name == "_orig_mod" or name in type(self).__dict__ or name in own or not own

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})
