"""Weights recomputed before every call by a hook: `parametrizations` do the same without one.

Source: torch.nn.utils.weight_norm.
"""

from __future__ import annotations

import warnings
from typing import Any, TypeVar

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.nn.modules.module import Module
from shmtensor.nn.parameter import Parameter, UninitializedParameter
from shmtensor.utils.hooks import RemovableHandle

__all__ = ["remove_weight_norm", "weight_norm"]

M = TypeVar("M", bound=Module)


class _Recomputed:
    """A hook that makes the attribute *name* of its module again."""

    kind: str

    def __init__(self, name: str, dim: int) -> None:
        self.name = name
        self.dim = dim
        self.handles: list[RemovableHandle] = []

    def compute_weight(self, module: Module) -> Tensor:
        """The weight to use."""
        raise NotImplementedError

    def start(self, module: Module, weight: Parameter) -> None:
        """Replace the parameter by what the weight is computed of."""
        raise NotImplementedError

    def stored(self) -> list[str]:
        """The names of that."""
        raise NotImplementedError

    def watch_state(self, module: Module) -> None:
        """Take part in saving and loading the state of *module*, by hooks kept in `handles`."""

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def _apply(module: Module, hook: _Recomputed) -> None:
    for other in module._forward_pre_hooks.values():
        if isinstance(other, type(hook)) and other.name == hook.name:
            raise RuntimeError(
                f"Cannot register two {hook.kind} hooks on the same parameter {hook.name}"
            )
    weight = module._parameters[hook.name]
    name = type(hook).__name__
    if weight is None:
        raise ValueError(f"`{name}` cannot be applied as parameter `{hook.name}` is None")
    if isinstance(weight, UninitializedParameter):
        kind = {"weight_norm": "weight", "spectral_norm": "spectral"}[hook.kind]
        raise ValueError(
            f"The module passed to `{name}` can't have uninitialized parameters. Make sure to run "
            f"the dummy forward before applying {kind} normalization"
        )
    delattr(module, hook.name)
    hook.start(module, weight)
    module.register_forward_pre_hook(hook)
    hook.watch_state(module)


def _remove(module: Module, kind: type[_Recomputed], name: str) -> None:
    for key, hook in module._forward_pre_hooks.items():
        if not isinstance(hook, kind) or hook.name != name:
            continue
        with shmtensor.no_grad():
            weight = hook.compute_weight(module)
        for attribute in (name, *hook.stored()):
            delattr(module, attribute)
        module.register_parameter(name, Parameter(weight.detach()))
        del module._forward_pre_hooks[key]
        for handle in hook.handles:
            handle.remove()
        return
    raise ValueError(f"{kind.kind} of '{name}' not found in {module}")


# --- weight_norm ---------------------------------------------------------------------------------


class WeightNorm(_Recomputed):
    """The hook of `weight_norm`."""

    kind = "weight_norm"

    def compute_weight(self, module: Module) -> Tensor:
        """The directions, of the lengths."""
        g: Tensor = getattr(module, f"{self.name}_g")
        v: Tensor = getattr(module, f"{self.name}_v")
        return v * (g / shmtensor.norm_except_dim(v, 2, self.dim))

    def start(self, module: Module, weight: Parameter) -> None:
        """Lengths and directions are the parameters."""
        lengths = shmtensor.norm_except_dim(weight, 2, self.dim).detach()
        module.register_parameter(f"{self.name}_g", Parameter(lengths))
        module.register_parameter(f"{self.name}_v", Parameter(weight.detach()))
        self(module, None)

    def stored(self) -> list[str]:
        """The two parameters."""
        return [f"{self.name}_g", f"{self.name}_v"]


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Train lengths and directions of slices apart; parametrizations.weight_norm is newer.

    Args:
        module: Whose weight. Its parameters are then ``name_g`` and ``name_v``.
        name: Of the weight.
        dim: Slices along this dimension have lengths; None: the whole has one.

    Raises:
        RuntimeError: The weight has such a hook.

    Source:
        torch.nn.utils.weight_norm.
    """
    warnings.warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of "
        "`torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=2,
    )
    getattr(module, name)  # AttributeError, where spectral_norm raises KeyError
    _apply(module, WeightNorm(name, -1 if dim is None else dim))
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Make the weight a parameter again.

    Raises:
        ValueError: `weight_norm` was not applied.
    """
    _remove(module, WeightNorm, name)
    return module
