"""Which parts of a module would be sharded by themselves; nothing is sharded here.

Policies can be made and asked; what would shard raises.

Source:
    torch.distributed.fsdp.wrap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from shmtensor._core._not_offered import unavailable_names
from shmtensor.distributed.fsdp._what import WHAT
from shmtensor.nn import Module, ModuleDict, ModuleList, MultiheadAttention

_REFUSED = ["enable_wrap", "wrap"]

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
    *_REFUSED,
]

__getattr__, __dir__ = unavailable_names(__name__, _REFUSED, WHAT)


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Return True: every module would be by itself."""
    return True


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """Return whether to look below *module*: True, or else whether it would be by itself.

    Args:
        module: A module.
        recurse: Whether the question is to look below it.
        nonwrapped_numel: How many elements of it are in no other part; not looked at.
        lambda_fn: Says of a module whether it would be by itself.

    Source:
        torch.distributed.fsdp.wrap.lambda_auto_wrap_policy.
    """
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    transformer_layer_cls: Iterable[type[Module]],
) -> bool:
    """Do `lambda_auto_wrap_policy` with the modules of some classes.

    Source:
        torch.distributed.fsdp.wrap.transformer_auto_wrap_policy.
    """
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = 100_000_000,
    force_leaf_modules: set[type[Module]] | None = None,
    exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:
    """Return whether to look below a large module, or else whether it would be by itself.

    Args:
        module: A module.
        recurse: Whether the question is to look below it.
        nonwrapped_numel: How many elements of it are in no other part.
        min_num_params: From how many on it is large.
        force_leaf_modules: Classes not to look below; None: `MultiheadAttention`.
        exclude_wrap_modules: Classes never by themselves; None: `ModuleList` and `ModuleDict`.

    Source:
        torch.distributed.fsdp.wrap.size_based_auto_wrap_policy.
    """
    policy: Any = size_based_auto_wrap_policy
    if recurse:
        without = force_leaf_modules
        if without is None:
            without = policy.FORCE_LEAF_MODULES
    else:
        without = exclude_wrap_modules
        if without is None:
            without = policy.EXCLUDE_WRAP_MODULES
    return nonwrapped_numel >= min_num_params and not isinstance(module, tuple(without))


vars(size_based_auto_wrap_policy).update(
    FORCE_LEAF_MODULES={MultiheadAttention}, EXCLUDE_WRAP_MODULES={ModuleList, ModuleDict}
)


class ModuleWrapPolicy:
    """The modules of some classes would be by themselves.

    Args:
        module_classes: They.

    Source:
        torch.distributed.fsdp.wrap.ModuleWrapPolicy.
    """

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._module_classes = set(module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        """Return whether to look below *module*: True, or else whether it would be by itself."""
        return transformer_auto_wrap_policy(module, recurse, -1, self._module_classes)

    def __repr__(self) -> str:
        return f"{super().__repr__()}({self._module_classes})"


class CustomPolicy:
    """The modules that a function names would be by themselves.

    Args:
        lambda_fn: Returns False, True, or the settings of a module.

    Source:
        torch.distributed.fsdp.wrap.CustomPolicy.
    """

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn
