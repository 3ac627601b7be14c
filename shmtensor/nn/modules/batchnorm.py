"""Normalisation with running statistics. Source: torch.nn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.nn import functional as F
from shmtensor.nn import init
from shmtensor.nn.modules.lazy import LazyModuleMixin
from shmtensor.nn.modules.module import Module
from shmtensor.nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter


class _Norm(Module):
    """Weight, bias and running statistics for every channel."""

    weight: Parameter  # None when there is none; typed for those that have it
    bias: Parameter  # None when there is none; typed for those that have it
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    _version = 2  # since num_batches_tracked
    _dims: tuple[int, ...]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, there in (("weight", True), ("bias", bias)):
            made = None
            if affine and there:
                made = Parameter(shmtensor.empty((num_features,), device=device, dtype=dtype))
            self.register_parameter(name, made)
        tracked = track_running_stats
        statistics = {"device": device, "dtype": dtype}
        self.register_buffer(
            "running_mean", shmtensor.zeros(num_features, **statistics) if tracked else None
        )
        self.register_buffer(
            "running_var", shmtensor.ones(num_features, **statistics) if tracked else None
        )
        count = shmtensor.tensor(0, dtype=shmtensor.int64, device=device) if tracked else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget the statistics."""
        if self.running_mean is not None:
            self.running_mean.zero_()
        if self.running_var is not None:
            self.running_var.fill_(1)
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Forget the statistics; set the weight to 1 and the bias to 0."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in self._dims:
            words = " or ".join(f"{n}D" for n in self._dims)
            raise ValueError(f"expected {words} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        """The options."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )

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
        """Old checkpoints, and dictionaries without versions, may lack ``num_batches_tracked``."""
        key = prefix + "num_batches_tracked"
        version = local_metadata.get("version")
        is_old = version is None or version < 2
        if is_old and self.track_running_stats and key not in state_dict:
            known = self.num_batches_tracked
            if known is None or known.is_meta:
                known = shmtensor.tensor(0)
            state_dict = {**state_dict, key: known}
        super()._load_from_state_dict(
            state_dict,
            prefix,
            local_metadata,
            strict,
            missing_keys,
            unexpected_keys,
            error_msgs,
        )


class _BatchNorm(_Norm):
    """Normalises every channel over the batch."""

    def forward(self, input: Tensor) -> Tensor:
        """``(N, C, *)`` to the same shape."""
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the mean of all batches so far
                factor = 1.0 / float(self.num_batches_tracked)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        keep = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if keep else None,
            self.running_var if keep else None,
            self.weight,
            self.bias,
            by_batch,
            factor,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of ``(N, C)`` or ``(N, C, L)``.

    Args:
        num_features: C.
        eps: Added to the variance.
        momentum: Share of a batch in the running statistics; their mean if None.
        affine: Whether there are a weight and a bias for every channel.
        track_running_stats: Whether there are running statistics.
        device: Where parameters and statistics are.
        dtype: Their type.
        bias: Whether there is a bias besides the weight.
    """

    _dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of ``(N, C, H, W)``; arguments as ``BatchNorm1d``."""

    _dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of ``(N, C, D, H, W)``; arguments as ``BatchNorm1d``."""

    _dims = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation over all processes of a group; without one, over this process's batch.

    Args:
        num_features: C of ``(N, C, *)``.
        eps: Added to the variance.
        momentum: Share of a batch in the running statistics; their mean if None.
        affine: Whether there are a weight and a bias for every channel.
        track_running_stats: Whether there are running statistics.
        process_group: Accepted; there are no groups.
        device: Where parameters and statistics are.
        dtype: Their type.
        bias: Whether there is a bias besides the weight.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Return a module with this layer in the place of each batch normalisation.

        Args:
            module: It. It is changed, unless it is such a layer itself.
            process_group: As for the layer.
        """
        if isinstance(module, _BatchNorm) and not isinstance(module, cls):
            made = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            for name in ("weight", "bias"):
                if module.affine:
                    setattr(made, name, getattr(module, name))
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                setattr(made, name, getattr(module, name))
            made.training = module.training
            if hasattr(module, "qconfig"):
                made.qconfig = module.qconfig
            return made
        for name, child in module.named_children():
            module.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return module


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
            if bias:
                self.bias = UninitializedParameter(**options)
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
