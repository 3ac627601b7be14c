"""What `compile` makes of a module.

Source:
    torch._dynamo.eval_frame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shmtensor.nn import Module

__all__ = ["OptimizedModule"]


class OptimizedModule(Module):
    """A module that calls another, as a backend compiles it.

    Parameters are below ``_orig_mod``, which is the module itself; its attributes are found here
    too, and assigning one assigns it there.

    Args:
        mod: The module.
        compiled: What is called.
    """

    _orig_mod: Module

    def __init__(self, mod: Module, compiled: Callable[..., Any] | None = None) -> None:
        super().__init__()
        self._modules["_orig_mod"] = mod
        self.__dict__["_compiled"] = compiled
        self.__dict__["training"] = mod.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call what was compiled."""
        compiled = self.__dict__.get("_compiled")
        return (compiled or self._orig_mod)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in type(self).__dict__ or name in self.__dict__ or "_modules" not in self.__dict__:
            super().__setattr__(name, value)
            if name == "training" and "_orig_mod" in self.__dict__.get("_modules", ()):
                self._orig_mod.training = value
        else:
            setattr(self._orig_mod, name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})
