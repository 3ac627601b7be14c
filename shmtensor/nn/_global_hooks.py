"""Hooks of all modules: for profilers and debuggers, which look at whole programs.

They run before a module's own hooks of the same kind.

Source:
    torch.nn.modules.module.register_module_forward_hook and its like.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from shmtensor.utils.hooks import RemovableHandle, add_hook

__all__ = [
    "_global_parameter_registration_hooks",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

Hooks = OrderedDict[int, Callable[..., Any]]

forward_pre: Hooks = OrderedDict()
forward: Hooks = OrderedDict()
forward_with_kwargs: OrderedDict[int, bool] = OrderedDict()
forward_always_called: OrderedDict[int, bool] = OrderedDict()
backward_pre: Hooks = OrderedDict()
backward: Hooks = OrderedDict()
backward_at_last_node: Hooks = OrderedDict()
parameter_registration: Hooks = OrderedDict()
buffer_registration: Hooks = OrderedDict()
module_registration: Hooks = OrderedDict()

#: Those of calls.
of_calls = (forward_pre, forward, backward_pre, backward, backward_at_last_node)
#: Libraries look into this one by torch's name.
_global_parameter_registration_hooks = parameter_registration


def are_any() -> bool:
    """Return whether there is a hook of calls."""
    return any(of_calls)


def registered(hooks: Hooks, module: Any, name: str, value: Any) -> Any:
    """Call the hooks of a registration; returns what to register."""
    for hook in [*hooks.values()]:
        changed = hook(module, name, value)
        if changed is not None:
            value = changed
    return value


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, args)`` before every ``forward`` of any module.

    What the hook returns, unless ``None``, replaces the arguments.
    """
    return add_hook(forward_pre, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args[, kwargs], output)`` after every ``forward`` of any module.

    Args:
        hook: What it returns, unless ``None``, replaces the output.
        with_kwargs: Give it the arguments by name too.
        always_call: Call it when ``forward`` has raised too.
    """
    return add_hook(
        forward,
        hook,
        flags=((forward_with_kwargs, with_kwargs), (forward_always_called, always_call)),
    )


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` when the gradients of any module's output are there."""
    return add_hook(backward_pre, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` when the gradients of any module's inputs are
    there.

    Raises:
        RuntimeError: There are hooks of `register_module_backward_hook`.
    """
    _refuse_both(backward_at_last_node)
    return add_hook(backward, hook)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` at the last node of any module's call.

    Deprecated: use `register_module_full_backward_hook`.

    Raises:
        RuntimeError: There are hooks of `register_module_full_backward_hook`.
    """
    _refuse_both(backward)
    return add_hook(backward_at_last_node, hook)


def _refuse_both(others: Hooks) -> None:
    if others:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module "
            "hook. Please use only one of them."
        )


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, parameter)`` when any module registers a parameter.

    What the hook returns, unless ``None``, is registered in its place.
    """
    return add_hook(parameter_registration, hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` when any module registers a buffer.

    What the hook returns, unless ``None``, is registered in its place.
    """
    return add_hook(buffer_registration, hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, child)`` when any module registers a child.

    What the hook returns, unless ``None``, is registered in its place.
    """
    return add_hook(module_registration, hook)
