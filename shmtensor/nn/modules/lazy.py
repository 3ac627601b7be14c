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
from shmtensor._tensor import Tensor
from shmtensor.nn.module import Module
from shmtensor.nn.modules.batchnorm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    _Norm,
)
from shmtensor.nn.modules.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    _ConvNd,
)
from shmtensor.nn.modules.linear import Linear
from shmtensor.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy


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


class LazyLinear(LazyModuleMixin, Linear):
    """``Linear`` whose ``in_features`` is the last size of the first input."""

    cls_to_become = Linear

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        options = {"device": device, "dtype": dtype}
        self.weight = UninitializedParameter(**options)
        self.bias = UninitializedParameter(**options) if bias else None
        self._become_lazy()

    def reset_parameters(self) -> None:
        """Draw new initial values, once there are sizes."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        """Learn ``in_features``."""
        if not self.has_uninitialized_params():
            self.in_features = self.weight.shape[-1]
            return
        self.in_features = input.shape[-1]
        with shmtensor.no_grad():
            if isinstance(self.weight, UninitializedParameter):
                self.weight.materialize((self.out_features, self.in_features))
            if isinstance(self.bias, UninitializedParameter):
                self.bias.materialize((self.out_features,))
        self.reset_parameters()


class _LazyConv(LazyModuleMixin, _ConvNd):
    """A convolution whose ``in_channels`` are those of the first input."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        *args: Any,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(0, 0, kernel_size, *args, **{**kwargs, "bias": False})
        self.out_channels = out_channels
        options = {"device": device, "dtype": dtype}
        self.weight = UninitializedParameter(**options)
        self.bias = UninitializedParameter(**options) if bias else None
        self._become_lazy()

    def reset_parameters(self) -> None:
        """Draw new initial values, once there are sizes."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Learn ``in_channels``."""
        axis = 0 if self.transposed else 1
        if not self.has_uninitialized_params():
            self.in_channels = self.weight.shape[axis] * (1 if self.transposed else self.groups)
            return
        if input.dim() not in (self._n + 1, self._n + 2):
            raise RuntimeError(
                f"Expected {self._n + 1}D (unbatched) or {self._n + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {tuple(input.shape)}"
            )
        self.in_channels = input.shape[-self._n - 1]
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        outer, inner = self.out_channels, self.in_channels
        if self.transposed:
            outer, inner = inner, outer
        with shmtensor.no_grad():
            if isinstance(self.weight, UninitializedParameter):
                self.weight.materialize((outer, inner // self.groups, *self.kernel_size))
            if isinstance(self.bias, UninitializedParameter):
                self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class LazyConv1d(_LazyConv, Conv1d):
    """``Conv1d`` without *in_channels*."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """``Conv2d`` without *in_channels*."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """``Conv3d`` without *in_channels*."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConv, ConvTranspose1d):
    """``ConvTranspose1d`` without *in_channels*."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConv, ConvTranspose2d):
    """``ConvTranspose2d`` without *in_channels*."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConv, ConvTranspose3d):
    """``ConvTranspose3d`` without *in_channels*."""

    cls_to_become = ConvTranspose3d


class _LazyNorm(LazyModuleMixin, _Norm):
    """A normalisation whose ``num_features`` are the channels of the first input."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        options = {"device": device, "dtype": dtype}
        if affine:
            self.weight = UninitializedParameter(**options)
            self.bias = UninitializedParameter(**options) if bias else None
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**options)
            self.running_var = UninitializedBuffer(**options)
            self.num_batches_tracked = shmtensor.tensor(0, dtype=shmtensor.int64, device=device)
        self._become_lazy()

    def reset_parameters(self) -> None:
        """Set the first values, once there are sizes."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        """Learn ``num_features``."""
        self.num_features = input.shape[1]
        if not self.has_uninitialized_params():
            return
        values = (self.weight, self.bias, self.running_mean, self.running_var)
        with shmtensor.no_grad():
            for value in values:
                if isinstance(value, (UninitializedParameter, UninitializedBuffer)):
                    value.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """``BatchNorm1d`` without *num_features*."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """``BatchNorm2d`` without *num_features*."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """``BatchNorm3d`` without *num_features*."""

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """``InstanceNorm1d`` without *num_features*."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """``InstanceNorm2d`` without *num_features*."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """``InstanceNorm3d`` without *num_features*."""

    cls_to_become = InstanceNorm3d
