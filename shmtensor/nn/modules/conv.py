"""Convolutions and their transposes, in one to three dimensions."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.nn import functional as F
from shmtensor.nn import init
from shmtensor.nn.modules.lazy import LazyModuleMixin
from shmtensor.nn.modules.module import Module
from shmtensor.nn.modules.utils import _ntuple
from shmtensor.nn.parameter import Parameter, UninitializedParameter

_MODES = ("zeros", "reflect", "replicate", "circular")

Ints = int | Sequence[int]


def _tuple(value: Ints, n: int) -> tuple[int, ...]:
    return tuple(operator.index(v) for v in _ntuple(n)(value))


class _ConvNd(Module):
    """What all convolutions share: filters, a bias, and the options.

    Args:
        in_channels: Channels of the input.
        out_channels: Number of filters.
        kernel_size: Size of a filter.
        stride: Step.
        padding: Elements added on each side, or ``'valid'`` or ``'same'``.
        dilation: Distance of filter elements.
        groups: Number of independent groups of channels.
        bias: Whether every filter has an offset.
        padding_mode: What is added: ``'zeros'``, ``'reflect'``, ``'replicate'``, ``'circular'``.
        device: Where the parameters are.
        dtype: Their type.

    Attributes:
        weight: ``(out_channels, in_channels / groups, *kernel_size)``; the first two change
            places (and the groups divide the other) in transposed convolutions.
        bias: ``(out_channels,)`` or ``None``.
    """

    weight: Parameter
    bias: Parameter | None
    _n: int
    _function: Callable[..., Tensor]
    transposed = False
    output_padding: tuple[int, ...]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints = 1,
        padding: Ints | str = 0,
        dilation: Ints = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        n = self._n
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
            if padding == "same" and any(s != 1 for s in _tuple(stride, n)):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _MODES:
            choices = ", ".join(repr(m) for m in sorted(_MODES))
            raise ValueError(
                f"padding_mode must be one of {{{choices}}}, but got padding_mode={padding_mode!r}"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = _tuple(kernel_size, n)
        self.stride = _tuple(stride, n)
        self.padding = padding if isinstance(padding, str) else _tuple(padding, n)
        self.dilation = _tuple(dilation, n)
        self.output_padding = (0,) * n
        self.groups = groups
        self.padding_mode = padding_mode
        self.transposed = type(self).transposed  # in the state, as torch's readers want it
        self._reversed_padding_repeated_twice = (
            self._edges() if isinstance(padding, str) else tuple(self._edges())
        )
        if self.transposed:
            shape = (in_channels, out_channels // groups, *self.kernel_size)
        else:
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
        """``pad``'s argument for the modes that are no zeros: the last dimension first."""
        edges: list[int] = []
        for d in reversed(range(self._n)):
            if not isinstance(self.padding, str):
                low = high = self.padding[d if len(self.padding) == self._n else 0]
            elif self.padding == "valid":
                low = high = 0
            else:
                total = self.dilation[d] * (self.kernel_size[d] - 1)
                low, high = total // 2, total - total // 2
            edges += [low, high]
        return edges

    def forward(self, input: Tensor) -> Tensor:
        """``(N, C, *)`` or ``(C, *)`` to the same with ``out_channels``."""
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._edges(), mode=self.padding_mode)
            padding = 0
        return type(self)._function(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )

    def extra_repr(self) -> str:
        """Sizes, and the options that are not the default."""
        parts = [
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        ]
        if self.padding != (0,) * self._n:
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * self._n:
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * self._n:
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)


class Conv1d(_ConvNd):
    """Slide learned filters over signals: ``(N, C_in, L)`` to ``(N, C_out, ...)``, N optional.

    The size of a dimension becomes
    ``floor((size + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1``.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the result: the number of filters.
        kernel_size: Size of a filter, an int or one for each dimension.
        stride: Step of the filters.
        padding: Elements added on each side, or ``'valid'`` for none, ``'same'`` to keep the size.
        dilation: Distance of a filter's elements.
        groups: Groups of channels that do not see each other.
        bias: Whether each filter has an offset.
        padding_mode: What is added: ``'zeros'``, ``'reflect'``, ``'replicate'``, ``'circular'``.
        device: Where the parameters are.
        dtype: Their type.

    Attributes:
        weight: ``(out_channels, in_channels / groups, *kernel_size)``.
        bias: ``(out_channels,)``, or None.
    """

    _n = 1
    _function = staticmethod(F.conv1d)


class Conv2d(_ConvNd):
    """Slide learned filters over images: ``(N, C_in, H, W)`` to ``(N, C_out, ...)``, N optional.

    The size of a dimension becomes
    ``floor((size + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1``.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the result: the number of filters.
        kernel_size: Size of a filter, an int or one for each dimension.
        stride: Step of the filters.
        padding: Elements added on each side, or ``'valid'`` for none, ``'same'`` to keep the size.
        dilation: Distance of a filter's elements.
        groups: Groups of channels that do not see each other.
        bias: Whether each filter has an offset.
        padding_mode: What is added: ``'zeros'``, ``'reflect'``, ``'replicate'``, ``'circular'``.
        device: Where the parameters are.
        dtype: Their type.

    Attributes:
        weight: ``(out_channels, in_channels / groups, *kernel_size)``.
        bias: ``(out_channels,)``, or None.

    Example:
        >>> nn.Conv2d(3, 8, kernel_size=3, padding=1)(torch.zeros(1, 3, 32, 32)).shape
        torch.Size([1, 8, 32, 32])
    """

    _n = 2
    _function = staticmethod(F.conv2d)


class Conv3d(_ConvNd):
    """Slide learned filters over volumes ``(N, C_in, D, H, W)``; N is optional.

    The size of a dimension becomes
    ``floor((size + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1``.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the result: the number of filters.
        kernel_size: Size of a filter, an int or one for each dimension.
        stride: Step of the filters.
        padding: Elements added on each side, or ``'valid'`` for none, ``'same'`` to keep the size.
        dilation: Distance of a filter's elements.
        groups: Groups of channels that do not see each other.
        bias: Whether each filter has an offset.
        padding_mode: What is added: ``'zeros'``, ``'reflect'``, ``'replicate'``, ``'circular'``.
        device: Where the parameters are.
        dtype: Their type.

    Attributes:
        weight: ``(out_channels, in_channels / groups, *kernel_size)``.
        bias: ``(out_channels,)``, or None.
    """

    _n = 3
    _function = staticmethod(F.conv3d)


class _ConvTransposeNd(_ConvNd):
    """The transpose of a convolution; ``output_padding`` adds to one side of the output."""

    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints = 1,
        padding: Ints = 0,
        output_padding: Ints = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Ints = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )
        self.output_padding = _tuple(output_padding, self._n)

    def _output_padding(self, input: Tensor, output_size: Sequence[int]) -> list[int]:
        """What must be added for the wanted size."""
        n = self._n
        outer = input.dim() - n
        wanted = list(output_size)
        if len(wanted) == outer + n:
            wanted = wanted[outer:]
        if len(wanted) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or "
                f"{outer + n} elements (got {len(output_size)})"
            )
        result = []
        least, most = [], []
        for d in range(n):
            pad = self.padding[d]
            size = (input.size(d + outer) - 1) * self.stride[d] - 2 * int(pad)
            size += self.dilation[d] * (self.kernel_size[d] - 1) + 1
            least.append(size)
            most.append(size + self.stride[d] - 1)
        for d in range(n):
            if not least[d] <= wanted[d] <= most[d]:
                raise ValueError(
                    f"requested an output size of {wanted}, but valid sizes range from {least} "
                    f"to {most} (for an input of {input.size()[2:]})"
                )
            result.append(wanted[d] - least[d])
        return result

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """``(N, C, *)`` or ``(C, *)`` to the same with ``out_channels``.

        Args:
            input: Signals, images or volumes.
            output_size: The wanted spatial sizes; ``output_padding`` decides if absent.
        """
        extra: Sequence[int] = self.output_padding
        if output_size is not None:
            extra = self._output_padding(input, output_size)
        return type(self)._function(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            extra,
            self.groups,
            self.dilation,
        )


class ConvTranspose1d(_ConvTransposeNd):
    """Spread signals with learned filters: the transposed map of ``Conv1d``.

    The input is ``(N, C_in, L)``, N optional. The size of a dimension becomes
    ``(size - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1``.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the result.
        kernel_size: Size of a filter, an int or one for each dimension.
        stride: Distance at which the filters are laid down.
        padding: Elements taken off each side of the result.
        output_padding: Elements added on one side, where several sizes are possible.
        groups: Groups of channels that do not see each other.
        bias: Whether each channel of the result has an offset.
        dilation: Distance of a filter's elements.
        padding_mode: ``'zeros'``.
        device: Where the parameters are.
        dtype: Their type.

    Attributes:
        weight: ``(in_channels, out_channels / groups, *kernel_size)``.
        bias: ``(out_channels,)``, or None.
    """

    _n = 1
    _function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTransposeNd):
    """Spread images with learned filters: the transposed map of ``Conv2d``.

    The input is ``(N, C_in, H, W)``, N optional. The size of a dimension becomes
    ``(size - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1``.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the result.
        kernel_size: Size of a filter, an int or one for each dimension.
        stride: Distance at which the filters are laid down.
        padding: Elements taken off each side of the result.
        output_padding: Elements added on one side, where several sizes are possible.
        groups: Groups of channels that do not see each other.
        bias: Whether each channel of the result has an offset.
        dilation: Distance of a filter's elements.
        padding_mode: ``'zeros'``.
        device: Where the parameters are.
        dtype: Their type.

    Attributes:
        weight: ``(in_channels, out_channels / groups, *kernel_size)``.
        bias: ``(out_channels,)``, or None.
    """

    _n = 2
    _function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTransposeNd):
    """Spread volumes with learned filters: the transposed map of ``Conv3d``.

    The input is ``(N, C_in, D, H, W)``, N optional. The size of a dimension becomes
    ``(size - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1``.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the result.
        kernel_size: Size of a filter, an int or one for each dimension.
        stride: Distance at which the filters are laid down.
        padding: Elements taken off each side of the result.
        output_padding: Elements added on one side, where several sizes are possible.
        groups: Groups of channels that do not see each other.
        bias: Whether each channel of the result has an offset.
        dilation: Distance of a filter's elements.
        padding_mode: ``'zeros'``.
        device: Where the parameters are.
        dtype: Their type.

    Attributes:
        weight: ``(in_channels, out_channels / groups, *kernel_size)``.
        bias: ``(out_channels,)``, or None.
    """

    _n = 3
    _function = staticmethod(F.conv_transpose3d)


class _LazyConv(LazyModuleMixin, _ConvNd):
    """A convolution whose ``in_channels`` are those of the first input."""

    def _begin(
        self, out_channels: int, kernel_size: Any, bias: bool, device: Any, dtype: Any, **rest: Any
    ) -> None:
        """Make the convolution without parameters, and then these without sizes."""
        super().__init__(0, 0, kernel_size, bias=False, **rest)
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
                f"{type(self).__name__}, but got input of size: {input.shape}"
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


class _LazyForward(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self._begin(
            out_channels,
            kernel_size,
            bias,
            device,
            dtype,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            padding_mode=padding_mode,
        )


class _LazyTransposed(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self._begin(
            out_channels,
            kernel_size,
            bias,
            device,
            dtype,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
            groups=groups,
            dilation=dilation,
            padding_mode=padding_mode,
        )


class LazyConv1d(_LazyForward, Conv1d):
    """``Conv1d`` without *in_channels*."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyForward, Conv2d):
    """``Conv2d`` without *in_channels*."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyForward, Conv3d):
    """``Conv3d`` without *in_channels*."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyTransposed, ConvTranspose1d):
    """``ConvTranspose1d`` without *in_channels*."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposed, ConvTranspose2d):
    """``ConvTranspose2d`` without *in_channels*."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposed, ConvTranspose3d):
    """``ConvTranspose3d`` without *in_channels*."""

    cls_to_become = ConvTranspose3d
