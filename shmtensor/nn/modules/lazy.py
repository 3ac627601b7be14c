"""Layers that learn the sizes of their parameters from their first input.

A lazy layer has parameters without memory (``UninitializedParameter``). Before its first
``forward``, or when a state is loaded, they get their sizes; then the layer turns into the ordinary
class of the same kind.

Source: torch.nn.modules.lazy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.nn.modules.module import Module
from shmtensor.nn.parameter import is_lazy


class LazyModuleMixin(Module):
    """What lazy layers share: the hook before the first call, and loading.

    Attributes:
        cls_to_become: The class after the first input.
    """

    cls_to_become: ClassVar[type[Module] | None] = None

    def _become_lazy(self) -> None:
        """Wait for the first input; call at the end of ``__init__``."""
        # The number, not the handle: layers are pickled and copied.
        self._first_call = self.register_forward_pre_hook(_learn_sizes, with_kwargs=True).id

    def has_uninitialized_params(self) -> bool:
        """Whether any parameter or buffer has no size yet."""
        values = (*self._parameters.values(), *self._buffers.values())
        return any(is_lazy(value) for value in values)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give parameters their sizes, from the arguments of ``forward``."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Tensors without a size are given as they are."""
        for name, value in self._own_state():
            plain = keep_vars or is_lazy(value)
            destination[prefix + name] = value if plain else value.detach()

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Parameters without a size take that of what is loaded."""
        for name, value in (*self._parameters.items(), *self._buffers.items()):
            given = state_dict.get(prefix + name)
            if is_lazy(value) and isinstance(given, Tensor) and not is_lazy(given):
                with shmtensor.no_grad():
                    value.materialize(given.shape)  # type: ignore[union-attr]
        super()._load_from_state_dict(
            state_dict,
            prefix,
            local_metadata,
            strict,
            missing_keys,
            unexpected_keys,
            error_msgs,
        )


def _learn_sizes(module: Any, args: Any, kwargs: Any) -> None:
    """The hook before the first call."""
    module.initialize_parameters(*args, **kwargs)
    if module.has_uninitialized_params():
        raise RuntimeError(
            f"module {module._get_name()} has not been fully initialized: initialize_parameters "
            "left parameters without a size"
        )
    module._forward_pre_hooks.pop(module._first_call, None)
    module._forward_pre_hooks_with_kwargs.pop(module._first_call, None)
    del module._first_call
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become
