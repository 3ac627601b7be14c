"""Convolutions, and affine maps of one and two inputs. Source: torch.nn.functional."""

from __future__ import annotations

import shmtensor
from shmtensor import _C
from shmtensor._core._arguments import checked
from shmtensor._core._overridable import overridable
from shmtensor._core._tensor import Tensor

__all__ = [
    "bilinear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "conv_tbc",
    "linear",
]

_NARROW = (_C.float16, _C.bfloat16)

conv1d = _C.conv1d
conv2d = _C.conv2d
conv3d = _C.conv3d
conv_transpose1d = _C.conv_transpose1d
conv_transpose2d = _C.conv_transpose2d
conv_transpose3d = _C.conv_transpose3d
linear = _C._nn.linear


@overridable(as_given=True)
@checked
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Convolution of sequences whose channels are last.

    Args:
        input: ``(T, N, C)``.
        weight: ``(K, C, O)``.
        bias: ``(O,)``.
        pad: Zeros on each side of the time.

    Returns:
        ``(T', N, O)``.
    """
    result = conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return result.permute(2, 0, 1)


#: Products of two inputs' elements that exist at a time.
_BILINEAR_PRODUCTS = 1 << 14


def _bilinear(rows1: Tensor, rows2: Tensor, weight: Tensor) -> Tensor:
    outputs, width1, width2 = weight.shape
    half = shmtensor.matmul(rows1, weight.permute(1, 0, 2).reshape(width1, outputs * width2))
    return (half.view(rows1.size(0), outputs, width2) * rows2.unsqueeze(1)).sum(
        -1, dtype=half.dtype
    )


@overridable(as_given=True)
@checked
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x1^T W x2 + b, for every output.

    Args:
        input1: ``(*, H1)``.
        input2: ``(*, H2)`` with the same ``*``.
        weight: ``(O, H1, H2)``.
        bias: ``(O,)``.

    Returns:
        ``(*, O)``.

    Raises:
        RuntimeError: The shapes or dtypes do not fit together.
    """
    dtypes = [t.dtype for t in (input1, input2, weight, bias) if t is not None]
    if len(set(dtypes)) > 1:
        raise RuntimeError(f"bilinear(): all tensors must have the same dtype, got {dtypes}")
    if input1.dim() != input2.dim():
        raise RuntimeError(
            f"bilinear(): input dimensions do not match: got {input1.dim()} and {input2.dim()}"
        )
    if input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(
            f"bilinear(): input batch dimensions do not match: got {list(input1.shape)} and "
            f"{list(input2.shape)}"
        )
    if weight.dim() != 3:
        raise RuntimeError(f"bilinear(): weight must be 3-D, got {weight.dim()} dimensions")
    for k, (input, width) in enumerate(zip((input1, input2), weight.shape[1:], strict=True)):
        if input.size(-1) != width:
            raise RuntimeError(
                f"bilinear(): input{k + 1} size does not match weight size: got "
                f"{input.size(-1)} but expected {width}"
            )
    if bias is not None and tuple(bias.shape) != (weight.size(0),):
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias.size(0)} but expected "
            f"{weight.size(0)}"
        )
    outputs, width1, width2 = weight.shape
    dtype = input1.dtype
    if dtype in _NARROW and dtype is input2.dtype is weight.dtype:  # rounded once, at the end
        input1, input2, weight = input1.float(), input2.float(), weight.float()
    rows1, rows2 = input1.reshape(-1, width1), input2.reshape(-1, width2)
    # As many outputs at a time as keep what is multiplied and summed small.
    step = max(1, _BILINEAR_PRODUCTS // max(1, rows2.numel()))
    parts = [_bilinear(rows1, rows2, some) for some in weight.split(step)]
    result = parts[0] if len(parts) == 1 else shmtensor.cat(parts, 1)
    if bias is not None:
        result = result + bias
    return result.reshape([*input1.shape[:-1], outputs]).to(dtype)
