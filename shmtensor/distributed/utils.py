"""Small helpers of code that wraps modules.

Source:
    torch.distributed.utils.
"""

from __future__ import annotations

import dataclasses
import traceback
from collections import OrderedDict
from collections.abc import Callable, Container
from typing import Any

from shmtensor._core._tensor import Tensor
from shmtensor.distributed._collectives import broadcast
from shmtensor.nn import Module
from shmtensor.nn.utils.rnn import PackedSequence

__all__: list[str] = []


def _p_assert(cond: Any, s: str, raise_assertion_error: bool = True) -> None:
    """Print the text and the stack if a condition does not hold, for threads that lose errors.

    Raises:
        AssertionError: It does not hold, and *raise_assertion_error*.
    """
    if not cond:
        print(s)
        traceback.print_stack()
        if raise_assertion_error:
            raise AssertionError(s)


def _sync_module_states(
    module: Module,
    process_group: Any,
    broadcast_bucket_size: int,
    src: int,
    params_and_buffers_to_ignore: Container[str],
    broadcast_buffers: bool = True,
) -> None:
    """Give the module of every rank the parameters and buffers of one rank.

    Args:
        module: Of the same parameters and buffers on all ranks.
        process_group: The group.
        broadcast_bucket_size: Accepted; tensors are sent one by one.
        src: The rank in the group.
        params_and_buffers_to_ignore: Names that stay as they are.
        broadcast_buffers: Send the buffers, too.
    """
    named: dict[str, Tensor] = dict(module.named_parameters())
    if broadcast_buffers:
        named.update(module.named_buffers())
    states = [
        value.detach() for name, value in named.items() if name not in params_and_buffers_to_ignore
    ]
    _sync_params_and_buffers(process_group, states, broadcast_bucket_size, src)


def _sync_params_and_buffers(
    process_group: Any, module_states: list[Tensor], broadcast_bucket_size: int, src: int
) -> None:
    """Give the tensors of every rank the elements of those of one rank.

    Args:
        process_group: The group.
        module_states: Tensors of the same sizes on all ranks.
        broadcast_bucket_size: Accepted; tensors are sent one by one.
        src: The rank in the group.
    """
    for state in module_states:
        broadcast(state, group=process_group, group_src=src)


def _replace_by_prefix(state_dict: dict[str, Any], old_prefix: str, new_prefix: str) -> None:
    """Rename the keys of a dict that begin with a prefix, in place.

    Raises:
        ValueError: The prefixes are equal.
    """
    if old_prefix == new_prefix:
        raise ValueError("old_prefix and new_prefix must be distinct")
    for key in [key for key in state_dict if key.startswith(old_prefix)]:
        state_dict[new_prefix + key[len(old_prefix) :]] = state_dict.pop(key)


def _apply_to_tensors(fn: Callable[[Tensor], Any], container: Any) -> Any:
    """Return a container with the function's results in place of its tensors."""
    if isinstance(container, Tensor):
        return fn(container)
    if dataclasses.is_dataclass(container) and not isinstance(container, type):
        changed = {
            field.name: _apply_to_tensors(fn, getattr(container, field.name))
            for field in dataclasses.fields(container)
        }
        return dataclasses.replace(container, **changed)
    if isinstance(container, OrderedDict):
        return OrderedDict((key, _apply_to_tensors(fn, v)) for key, v in container.items())
    if isinstance(container, PackedSequence):
        _apply_to_tensors(fn, container.data)
        return container
    if isinstance(container, dict):
        return {key: _apply_to_tensors(fn, v) for key, v in container.items()}
    if isinstance(container, tuple) and hasattr(container, "_fields"):
        return type(container)(*(_apply_to_tensors(fn, v) for v in container))
    if isinstance(container, (list, tuple, set)):
        return type(container)(_apply_to_tensors(fn, v) for v in container)
    return container
