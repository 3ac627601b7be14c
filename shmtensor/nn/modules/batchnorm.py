"""Normalisation with running statistics. Source: torch.nn."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import shmtensor
from shmtensor._tensor import Tensor
from shmtensor.nn import functional as F
from shmtensor.nn import init
from shmtensor.nn.module import Module
from shmtensor.nn.parameter import Parameter


class _Norm(Module):
    """Weight, bias and running statistics for every channel."""

    weight: Parameter | None
    bias: Parameter | None
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
        """Old checkpoints have no ``num_batches_tracked``."""
        key = prefix + "num_batches_tracked"
        version = local_metadata.get("version")
        known = self.num_batches_tracked
        old = version is not None and version < 2
        if old and known is not None and key not in state_dict:
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


class _InstanceNorm(_Norm):
    """Normalises every channel of every sample."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def forward(self, input: Tensor) -> Tensor:
        """``(N, C, *)`` or ``(C, *)`` to the same shape."""
        self._check_input_dim(input)
        batched = input.dim() == self._dims[1]
        channels = input.size(1 if batched else 0)
        if channels != self.num_features:
            place = f"input's size at dim={1 if batched else 0}"
            if self.affine:
                raise ValueError(
                    f"expected {place} to match num_features ({self.num_features}), but got: "
                    f"{channels}."
                )
            warnings.warn(
                f"{place} does not match num_features. You can silence this warning by not passing "
                "in num_features, which is not used because affine=False",
                stacklevel=2,
            )
        result = F.instance_norm(
            input if batched else input.unsqueeze(0),
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return result if batched else result.squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of ``(N, C, L)`` or ``(C, L)``.

    Args:
        num_features: C.
        eps: Added to the variance.
        momentum: Share of a batch in the running statistics.
        affine: Whether there are a weight and a bias for every channel.
        track_running_stats: Whether there are running statistics.
        device: Where parameters and statistics are.
        dtype: Their type.
        bias: Whether there is a bias besides the weight.
    """

    _dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of ``(N, C, H, W)`` or ``(C, H, W)``; as ``InstanceNorm1d``."""

    _dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of ``(N, C, D, H, W)`` or without N; as ``InstanceNorm1d``."""

    _dims = (4, 5)
