"""Modules around others: backward computes their values again, or finds them saved as copies.

State dicts and the names of parameters are those of the modules inside.

Source:
    torch.distributed.algorithms._checkpoint.checkpoint_wrapper.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from typing import Any

from shmtensor.autograd.graph import save_on_cpu
from shmtensor.distributed.fsdp.wrap import (
    CustomPolicy,
    _recursive_wrap,
    _wrap_by_policy,
    lambda_auto_wrap_policy,
)
from shmtensor.distributed.utils import _replace_by_prefix
from shmtensor.nn import Module, Parameter
from shmtensor.utils.checkpoint import checkpoint

__all__ = [
    "ActivationWrapper",
    "CheckpointImpl",
    "CheckpointWrapper",
    "OffloadWrapper",
    "apply_activation_checkpointing",
    "checkpoint_wrapper",
    "offload_wrapper",
]

_CHECKPOINT_WRAPPED_MODULE = "_checkpoint_wrapped_module"
_CHECKPOINT_PREFIX = _CHECKPOINT_WRAPPED_MODULE + "."


class CheckpointImpl(Enum):
    """Which way of `utils.checkpoint.checkpoint` computes again."""

    REENTRANT = 1
    NO_REENTRANT = 2


def _remove_prefix(module: Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    _replace_by_prefix(state_dict, prefix + _CHECKPOINT_PREFIX, prefix)


def _add_prefix(module: Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    _replace_by_prefix(state_dict, prefix, prefix + _CHECKPOINT_PREFIX)


class ActivationWrapper(Module, ABC):
    """The base of modules around another one, whose attributes they have too.

    Args:
        mod: The module inside.
    """

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(_remove_prefix)
        self.register_load_state_dict_pre_hook(_add_prefix)

    @abstractmethod
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module inside."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__(_CHECKPOINT_WRAPPED_MODULE), name)

    def __getitem__(self, key: Any) -> Any:
        return self._checkpoint_wrapped_module.__getitem__(key)  # type: ignore[operator]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Parameter]]:
        """Parameters by their names in the module inside; see `Module.named_parameters`."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_CHECKPOINT_PREFIX, ""), parameter


class OffloadWrapper(ActivationWrapper):
    """Its module saves copies of tensors for backward; see `autograd.graph.save_on_cpu`."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module inside."""
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """Its module saves nothing but its arguments; backward calls it again.

    Args:
        mod: The module inside.
        checkpoint_impl: Which way; without effect if there is a *checkpoint_fn*.
        checkpoint_fn: Called with the module and its arguments; None: `checkpoint`.
        checkpoint_fn_kwargs: More arguments for it.
    """

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None,
        **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            checkpoint_fn = partial(
                checkpoint, use_reentrant=checkpoint_impl is CheckpointImpl.REENTRANT
            )
        self.checkpoint_fn = partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module inside."""
        inside = self._checkpoint_wrapped_module
        if self.checkpoint_impl is not CheckpointImpl.REENTRANT or not kwargs:
            return self.checkpoint_fn(inside, *args, **kwargs)
        # That way takes arguments without names only.
        names = list(kwargs)

        def call(*values: Any) -> Any:
            n = len(values) - len(names)
            return inside(*values[:n], **dict(zip(names, values[n:], strict=True)))

        return self.checkpoint_fn(call, *args, *kwargs.values())


def offload_wrapper(module: Module) -> Module:
    """Return a module whose tensors for backward are saved as copies."""
    return OffloadWrapper(module)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> Module:
    """Return a module that saves nothing but its arguments; see `CheckpointWrapper`."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[..., Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Any = None,
) -> None:
    """Put `checkpoint_wrapper` around parts of a model, in place, but not around all of it.

    Args:
        model: The model.
        checkpoint_wrapper_fn: What is called for each part; what it returns replaces the part.
        check_fn: Whether a module is such a part.
        auto_wrap_policy: A policy of `distributed.fsdp.wrap`, in place of *check_fn*.

    Raises:
        ValueError: The policy is none.
    """
    policy = auto_wrap_policy or partial(lambda_auto_wrap_policy, lambda_fn=check_fn)
    if isinstance(policy, CustomPolicy):
        _wrap_by_policy(model, policy, checkpoint_wrapper_fn)
    elif callable(policy):
        _recursive_wrap(model, policy, checkpoint_wrapper_fn, set(), set(), True)
    else:
        raise ValueError(f"Expected {policy} to be callable or be a pre-defined wrap policy")
