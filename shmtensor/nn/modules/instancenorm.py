"""Normalisation of every sample by itself."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from shmtensor._core._tensor import Tensor
from shmtensor.nn import functional as F
from shmtensor.nn.modules.batchnorm import _LazyNorm, _Norm


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
        """Very old checkpoints have running statistics that nobody asked for."""
        if local_metadata.get("version") is None and not self.track_running_stats:
            keys = [prefix + name for name in ("running_mean", "running_var")]
            found = [key for key in keys if key in state_dict]
            if found:
                names = " and ".join(f'"{key}"' for key in found)
                kind = type(self).__name__
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {names} for {kind} with "
                    "track_running_stats=False. If state_dict is a checkpoint saved before 0.4.0, "
                    f"this may be expected because {kind} does not track running stats by default "
                    "since 0.4.0. Please remove these keys from state_dict. If the running stats "
                    f"are actually needed, instead set track_running_stats=True in {kind} to "
                    f"enable them. See the documentation of {kind} for details."
                )
                state_dict = {k: v for k, v in state_dict.items() if k not in found}
        super()._load_from_state_dict(
            state_dict,
            prefix,
            local_metadata,
            strict,
            missing_keys,
            unexpected_keys,
            error_msgs,
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


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """``InstanceNorm1d`` without *num_features*."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """``InstanceNorm2d`` without *num_features*."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """``InstanceNorm3d`` without *num_features*."""

    cls_to_become = InstanceNorm3d
