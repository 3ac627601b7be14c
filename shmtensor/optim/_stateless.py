"""An optimizer that works on other parameters and other state for a while."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shmtensor._core._tensor import Tensor
from shmtensor.optim.optimizer import Optimizer

__all__ = ["swap_in_optimizer_params_and_state"]

_NAME = "swap_in_optimizer_params_and_state"


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer,
    swapin_parameters: dict[str, Tensor],
    swapin_optim_state: dict[str, Any],
) -> Iterator[None]:
    """Let *optimizer* have other parameters, state and options inside the ``with``.

    Steps change *swapin_parameters* and the tensors of *swapin_optim_state* in place. What is
    assigned meanwhile is forgotten at the end, when the optimizer gets its own back.

    Args:
        optimizer: One that has made its state.
        swapin_parameters: Tensors in the order of the optimizer's parameters.
        swapin_optim_state: What ``optimizer.state_dict()`` gives; its options hold inside.

    Raises:
        RuntimeError: The optimizer has no state; the state is not laid out as ``state_dict()``
            lays it out, or does not match the optimizer's groups.

    Source:
        torch.optim.swap_in_optimizer_params_and_state.
    """
    if not optimizer.state:
        raise RuntimeError(f"{_NAME} requires initialized optimizer state.")
    state, groups = _prepared(optimizer, swapin_parameters, swapin_optim_state)
    own = optimizer.state, optimizer.param_groups
    optimizer.state, optimizer.param_groups = state, groups
    try:
        yield
    finally:
        optimizer.state, optimizer.param_groups = own


def _prepared(
    optimizer: Optimizer, parameters: dict[str, Tensor], saved: Any
) -> tuple[defaultdict[Any, Any], list[dict[str, Any]]]:
    """The state and the groups to swap in, checked."""
    if not isinstance(saved, dict):
        raise RuntimeError(f"{_NAME} requires a DCP-style optimizer state_dict.")
    entries, groups = saved.get("state"), saved.get("param_groups")
    if not isinstance(entries, dict):
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['state'] to be a dict mapping packed parameter "
            f"ids to per-param state dicts, got {type(entries).__name__}."
        )
    if not isinstance(groups, list):
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['param_groups'] to be a list of param-group "
            f"dicts, got {type(groups).__name__}."
        )
    if len(groups) != len(optimizer.param_groups):
        raise RuntimeError(
            "swapin_optim_state has a different number of parameter groups than the live optimizer."
        )
    left = iter(parameters.values())
    state: defaultdict[Any, Any] = defaultdict(dict)
    new_groups: list[dict[str, Any]] = []
    known: set[int] = set()
    for i, (live, group) in enumerate(zip(optimizer.param_groups, groups, strict=True)):
        numbers = _checked_numbers(i, live, group)
        known.update(numbers)
        params: list[Tensor] = []
        for number in numbers:
            param = next(left, None)
            if param is None:
                raise RuntimeError(
                    f"{_NAME} requires the explicit parameter state to match "
                    "optimizer.param_groups ordering."
                )
            params.append(param)
            if number in entries:
                if not isinstance(entries[number], dict):
                    raise RuntimeError(
                        f"{_NAME} requires per-parameter optimizer state entries to be "
                        "dictionaries."
                    )
                state[param] = dict(entries[number])
        new_groups.append({**group, "params": params})
    extra = [key for key in entries if key not in known]
    if extra:
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['state'] to be keyed only by packed parameter "
            f"ids from param_groups[*]['params']; got extra keys {extra}."
        )
    return state, new_groups


def _checked_numbers(i: int, live: dict[str, Any], group: Any) -> list[int]:
    """The numbers of the parameters of the saved group *i*, which must be like the live one."""
    if not isinstance(group, dict):
        raise RuntimeError(f"{_NAME} requires each optimizer param group to be a dictionary.")
    numbers = group.get("params")
    if not isinstance(numbers, list) or not all(isinstance(n, int) for n in numbers):
        raise RuntimeError(
            f"{_NAME} requires optimizer.state_dict()-style param_groups[*]['params'] entries "
            "keyed by packed parameter ids."
        )
    if len(numbers) != len(live["params"]):
        raise RuntimeError(
            f"swapin_optim_state param group {i} has a different number of params than the live "
            "optimizer param group."
        )
    if group.keys() != live.keys():
        raise RuntimeError(
            f"{_NAME} requires optimizer.state_dict()-style param group keys to exactly match "
            f"the live optimizer group keys for group {i}. Keys only in swap-in: "
            f"{[k for k in group if k not in live]}. Keys only in live: "
            f"{[k for k in live if k not in group]}."
        )
    return numbers
