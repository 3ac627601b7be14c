"""Modules as functions of their parameters, in functorch's first form.

Source:
    torch._functorch.make_functional.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor._functorch.functional_call import functional_call
from shmtensor.nn.modules.module import Module

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "make_functional",
    "make_functional_with_buffers",
]


def _names_of(tensors: Any) -> dict[str, list[str]]:
    """Return the first name of each tensor, with all names that it has."""
    first: dict[int, str] = {}
    names: dict[str, list[str]] = {}
    for name, tensor in tensors:
        names.setdefault(first.setdefault(id(tensor), name), []).append(name)
    return names


class _Functional(Module):
    """A module without tensors of its own.

    Attributes:
        stateless_model: The module, with tensors that have no values.
        param_names: Names of the parameters, in the order in which they are given.
        buffer_names: Names of the buffers.
        all_names_map: Name -> all names that this tensor has in the module.
    """

    def __init__(self, model: Module) -> None:
        super().__init__()
        parameters = _names_of(model.named_parameters(remove_duplicate=False))
        buffers = _names_of(model.named_buffers(remove_duplicate=False))
        self.param_names = tuple(parameters)
        self.buffer_names = tuple(buffers)
        self.all_names_map = {**parameters, **buffers}
        self.stateless_model = copy.deepcopy(model).to("meta")

    @classmethod
    def _create_from(
        cls, model: Module, disable_autograd_tracking: bool = False
    ) -> tuple[Any, tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Return the function with copies of the module's parameters and buffers."""
        own = copy.deepcopy(model)
        parameters, buffers = tuple(own.parameters()), tuple(own.buffers())
        if disable_autograd_tracking:
            for parameter in parameters:
                parameter.requires_grad_(False)
        return cls(own), parameters, buffers

    def _call(self, tensors: Sequence[Tensor], args: Any, kwargs: Any) -> Any:
        names = (*self.param_names, *self.buffer_names)
        if len(tensors) != len(names):
            raise ValueError(f"expected {len(names)} tensors {names}, got {len(tensors)}")
        given = {
            name: tensor
            for first, tensor in zip(names, tensors, strict=True)
            for name in self.all_names_map[first]
        }
        return functional_call(self.stateless_model, given, args, kwargs, tie_weights=False)


class FunctionalModuleWithBuffers(_Functional):
    """A module that is called with parameters, buffers and arguments."""

    def forward(
        self, params: Sequence[Tensor], buffers: Sequence[Tensor], *args: Any, **kwargs: Any
    ) -> Any:
        """Call the module with these parameters and buffers.

        Raises:
            ValueError: There are more or fewer tensors than the module has.
        """
        return self._call((*params, *buffers), args, kwargs)


class FunctionalModule(_Functional):
    """A module without buffers, as a function of its parameters."""

    @property
    def names_map(self) -> dict[str, list[str]]:
        """Name -> all names that this parameter has in the module."""
        return self.all_names_map

    def forward(self, params: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        """Call the module with these parameters.

        Raises:
            ValueError: There are more or fewer tensors than the module has.
        """
        return self._call(tuple(params), args, kwargs)


def make_functional(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
    """Return a module as a function, and copies of its parameters.

    Args:
        model: It is not changed.
        disable_autograd_tracking: The copies do not require gradients.

    Raises:
        RuntimeError: The module has buffers.

    Source:
        functorch.make_functional.
    """
    if next(iter(model.buffers()), None) is not None:
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use "
            "make_functional_with_buffers(model) instead."
        )
    made, parameters, _ = FunctionalModule._create_from(model, disable_autograd_tracking)
    return made, parameters


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return a module as a function, and copies of its parameters and buffers.

    Args:
        model: It is not changed.
        disable_autograd_tracking: The copies do not require gradients.

    Source:
        functorch.make_functional_with_buffers.
    """
    return FunctionalModuleWithBuffers._create_from(model, disable_autograd_tracking)


def combine_state_for_ensemble(
    models: Sequence[Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return modules of one class as a function for `vmap`, with their states stacked.

    Raises:
        RuntimeError: There are none, or they differ in class or mode.

    Source:
        functorch.combine_state_for_ensemble.
    """
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if any(model.training != models[0].training for model in models):
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to have the same training/eval mode."
        )
    if any(type(model) is not type(models[0]) for model in models):
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to be of the same class."
        )
    made, parameters, buffers = zip(*map(make_functional_with_buffers, models), strict=True)
    stack = shmtensor.stack
    return (
        made[0],
        tuple(stack(each).detach() for each in zip(*parameters, strict=True)),
        tuple(stack(each).detach() for each in zip(*buffers, strict=True)),
    )
