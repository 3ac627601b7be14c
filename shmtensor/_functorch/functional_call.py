"""Calls of modules with given parameters, and the parameters of several modules as one batch.

Source:
    torch._functorch.functional_call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.nn.modules.module import Module
from shmtensor.nn.utils.stateless import _functional_call

__all__ = ["construct_stacked_leaf", "functional_call", "stack_module_state"]


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other parameters and buffers than its own.

    Args:
        module: It is not changed.
        parameter_and_buffer_dicts: Tensors by name, or a sequence of such dicts with different
            names. Names that are missing mean the module's own tensors.
        args: One argument, or a tuple of them.
        kwargs: Named arguments.
        tie_weights: Names of one tensor of the module get one tensor.
        strict: All names must be given, and no others.

    Returns:
        What the module returns.

    Raises:
        ValueError: A dict is something else, or a name is in two of them.
        RuntimeError: *strict*, and names are missing or unknown.
        TypeError: A value of a dict is no tensor.

    Source:
        torch.func.functional_call.
    """
    if isinstance(parameter_and_buffer_dicts, dict):
        given = parameter_and_buffer_dicts
    elif isinstance(parameter_and_buffer_dicts, Sequence):
        if not all(isinstance(d, dict) for d in parameter_and_buffer_dicts):
            raise ValueError(
                "Expected all elements of parameter_and_buffer_dicts to be dictionaries"
            )
        names = [name for d in parameter_and_buffer_dicts for name in d]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(
                f"{repeated} appeared in multiple dictionaries; behavior of functional "
                "call is ambiguous"
            )
        given = {name: t for d in parameter_and_buffer_dicts for name, t in d.items()}
    else:
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(parameter_and_buffer_dicts)}"
        )
    return _functional_call(module, given, args, kwargs, tie_weights=tie_weights, strict=strict)


def construct_stacked_leaf(tensors: tuple[Tensor, ...] | list[Tensor], name: str) -> Tensor:
    """Return *tensors* stacked, as a leaf that requires grad when all of them do.

    Raises:
        RuntimeError: Some require grad and some do not; *name* says which parameter it is.
    """
    flags = [t.requires_grad for t in tensors]
    if any(flags) and not all(flags):
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    result: Tensor = shmtensor.stack(list(tensors)).detach()
    return result.requires_grad_(tensors[0].requires_grad)


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters and the buffers of modules of one kind, each name stacked.

    With `functional_call` and `vmap` all modules run as one.

    Args:
        models: Modules of the same class and mode, with tensors of the same names and shapes.

    Returns:
        The parameters, leaves that require grad as those of the modules do, and the buffers.

    Raises:
        RuntimeError: There is no module, or their classes, modes or ``requires_grad`` differ.

    Source:
        torch.func.stack_module_state.
    """
    if len(models) == 0:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or all(not m.training for m in models)):
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if not all(type(m) is type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    all_params = [dict(model.named_parameters()) for model in models]
    all_buffers = [dict(model.named_buffers()) for model in models]
    params = {
        name: construct_stacked_leaf(tuple(one[name] for one in all_params), name)
        for name in all_params[0]
    }
    buffers = {
        name: construct_stacked_leaf(tuple(one[name] for one in all_buffers), name)
        for name in all_buffers[0]
    }
    return params, buffers
