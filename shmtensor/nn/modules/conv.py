"""Convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import shmtensor
from shmtensor._tensor import Tensor
from shmtensor.nn import functional as F
from shmtensor.nn import init
from shmtensor.nn.module import Module
from shmtensor.nn.parameter import Parameter


def _pair(value: int | Sequence[int]) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    first, *rest = value
    return (int(first), int(rest[0])) if rest else (int(first), int(first))


_MODES = ("circular", "reflect", "replicate", "zeros")


class Conv2d(Module):
    """Cross-correlation of images with learned filters.

    Args:
        in_channels: Channels of the input.
        out_channels: Number of filters.
        kernel_size: Height and width of a filter.
        stride: Step.
        padding: Elements added on each side, or ``'valid'`` or ``'same'``.
        dilation: Distance of filter elements.
        groups: Number of independent groups of channels.
        bias: Whether every filter has an offset.
        padding_mode: What is added: ``'zeros'``, ``'reflect'``, ``'replicate'``, ``'circular'``.
        device: Where the parameters are.
        dtype: Their type.

    Attributes:
        weight: ``(out_channels, in_channels / groups, kH, kW)``.
        bias: ``(out_channels,)`` or ``None``.
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | str = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(
                    f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}"
                )
            if padding == "same" and any(s != 1 for s in _pair(stride)):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _MODES:
            choices = ", ".join(repr(m) for m in _MODES)
            raise ValueError(
                f"padding_mode must be one of {{{choices}}}, but got padding_mode={padding_mode!r}"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = _pair(kernel_size)
        self.stride = _pair(stride)
        self.padding = padding if isinstance(padding, str) else _pair(padding)
        self.dilation = _pair(dilation)
        self.groups = groups
        self.padding_mode = padding_mode
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Parameter(shmtensor.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(shmtensor.empty((out_channels,), device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = math.prod(self.weight.shape[1:])
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def _edges(self) -> list[int]:
        """``pad``'s argument for the modes that are no zeros."""
        if isinstance(self.padding, tuple):
            height, width = self.padding
            return [width, width, height, height]
        if self.padding == "valid":
            return [0, 0, 0, 0]
        total = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
        return [
            total[1] // 2,
            total[1] - total[1] // 2,
            total[0] // 2,
            total[0] - total[0] // 2,
        ]

    def forward(self, input: Tensor) -> Tensor:
        """``(N, C, H, W)`` or ``(C, H, W)`` to the same with ``out_channels``."""
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._edges(), mode=self.padding_mode)
            padding = 0
        return F.conv2d(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )

    def extra_repr(self) -> str:
        """Sizes, and the options that are not the default."""
        parts = [
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        ]
        if self.padding != (0, 0):
            parts.append(f"padding={self.padding}")
        if self.dilation != (1, 1):
            parts.append(f"dilation={self.dilation}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)
