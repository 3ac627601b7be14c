"""State dicts of modules and optimizers of a group: whole tensors, as every rank has them here.

Source:
    torch.distributed.checkpoint.state_dict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
]


@dataclass
class StateDictOptions:
    """What is taken into a state dict; only *cpu_offload* and *strict* have a meaning here.

    Attributes:
        full_state_dict: Accepted: tensors are whole.
        cpu_offload: Accepted: tensors are on the CPU.
        ignore_frozen_params: Leave out parameters that need no gradient.
        strict: Whether keys must fit when a state is set.
        broadcast_from_rank0: Accepted.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    strict: bool = True
    broadcast_from_rank0: bool = False


def _inner(model: Any) -> Any:
    """The module that `DistributedDataParallel` wraps."""
    from shmtensor.nn.parallel import DistributedDataParallel  # it imports shmtensor.distributed

    return model.module if isinstance(model, DistributedDataParallel) else model


def get_model_state_dict(
    model: Any, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """Return ``model.state_dict()``, with the names of the module that a group wraps.

    Args:
        model: A module.
        submodules: Accepted.
        options: What is taken.
    """
    model = _inner(model)
    state: dict[str, Any] = model.state_dict()
    if options is not None and options.ignore_frozen_params:
        frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
        state = {name: value for name, value in state.items() if name not in frozen}
    return state


def set_model_state_dict(
    model: Any, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Load a state into *model*; returns the missing and unexpected keys."""
    strict = options is None or options.strict
    return _inner(model).load_state_dict(model_state_dict, strict=strict)


def _names(model: Any) -> dict[int, str]:
    return {id(p): name for name, p in _inner(model).named_parameters()}


def get_optimizer_state_dict(
    model: Any,
    optimizers: Any,
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """Return the state of optimizers by the names of the parameters.

    Args:
        model: The module of these parameters.
        optimizers: One, or several.
        submodules: Accepted.
        options: Accepted.

    Returns:
        ``{"state": {name: ...}, "param_groups": [...]}`` with names in place of numbers.
    """
    names = _names(model)
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for optimizer in optimizers if isinstance(optimizers, list | tuple) else [optimizers]:
        for group in optimizer.param_groups:
            groups.append({**group, "params": [names[id(p)] for p in group["params"]]})
            for p in group["params"]:
                if p in optimizer.state:
                    state[names[id(p)]] = dict(optimizer.state[p])
    return {"state": state, "param_groups": groups}


def set_optimizer_state_dict(
    model: Any,
    optimizers: Any,
    optim_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Load what `get_optimizer_state_dict` returned.

    Args:
        model: The module of these parameters.
        optimizers: One, or several.
        optim_state_dict: States by name.
        options: Accepted.

    Raises:
        KeyError: A parameter has no group in it.
    """
    names = _names(model)
    group_of = {name: g for g in optim_state_dict["param_groups"] for name in g["params"]}
    for optimizer in optimizers if isinstance(optimizers, list | tuple) else [optimizers]:
        numbers: dict[str, int] = {}
        groups = []
        for group in optimizer.param_groups:
            own = [names[id(p)] for p in group["params"]]
            first = len(numbers)
            numbers |= {name: first + i for i, name in enumerate(own)}
            given = group_of[own[0]] if own else group
            groups.append({**given, "params": [numbers[name] for name in own]})
        state = {
            numbers[name]: value
            for name, value in optim_state_dict["state"].items()
            if name in numbers
        }
        optimizer.load_state_dict({"state": state, "param_groups": groups})
