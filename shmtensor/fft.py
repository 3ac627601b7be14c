"""Discrete Fourier transforms of tensors, over one dimension or several.

Shapes, keywords and the three norms (``'backward'``, ``'ortho'``, ``'forward'``) are torch.fft's.
Real input is float32, float64 or integral (then of the default dtype), complex input complex64 or
complex128; every length works, those with small prime factors fastest.

Raises (all functions):
    RuntimeError: A length below 1, a norm of another name, dims that repeat, complex input where
        real is needed, 16-bit floats.
    IndexError: A dim out of range.

Source: torch.fft.
"""

from __future__ import annotations

import math
from typing import Any

import shmtensor
from shmtensor import _C
from shmtensor._core._arguments import checked
from shmtensor._core._tensor import Tensor

_nn = _C._nn

fft = _nn.fft_fft
fft2 = _nn.fft_fft2
fftn = _nn.fft_fftn
fftshift = _nn.fft_fftshift
hfft = _nn.fft_hfft
hfft2 = _nn.fft_hfft2
hfftn = _nn.fft_hfftn
ifft = _nn.fft_ifft
ifft2 = _nn.fft_ifft2
ifftn = _nn.fft_ifftn
ifftshift = _nn.fft_ifftshift
ihfft = _nn.fft_ihfft
ihfft2 = _nn.fft_ihfft2
ihfftn = _nn.fft_ihfftn
irfft = _nn.fft_irfft
irfft2 = _nn.fft_irfft2
irfftn = _nn.fft_irfftn
rfft = _nn.fft_rfft
rfft2 = _nn.fft_rfft2
rfftn = _nn.fft_rfftn

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]


def _frequencies(
    first: int, last: int, n: int, d: float, out: Tensor | None, options: dict[str, Any]
) -> Tensor:
    if options.get("dtype") is None:
        options["dtype"] = shmtensor.get_default_dtype() if out is None else out.dtype
    requires_grad = bool(options.pop("requires_grad", False))
    length = n * d
    step = 1.0 / length if length else math.copysign(math.inf, length)
    result = shmtensor.arange(first, last, **options) * step
    if out is not None:
        return out.resize_(result.shape).copy_(result)
    return result.requires_grad_() if requires_grad else result


@checked
def fftfreq(n: int, d: float = 1.0, *, out: Tensor | None = None, **options: Any) -> Tensor:
    """Give the frequency of each element of a transform.

    Args:
        n: Number of points of the transform.
        d: Distance of the samples.
        out: Receives the result.
        **options: ``dtype``, ``layout``, ``device``, ``requires_grad`` as of ``arange``.

    Returns:
        ``(n,)``: ``[0, 1, ..., (n - 1) // 2, -(n // 2), ..., -1] / (d * n)``.
    """
    positive = _frequencies(0, (n + 1) // 2, n, d, None, dict(options, requires_grad=False))
    negative = _frequencies(-(n // 2), 0, n, d, None, dict(options, requires_grad=False))
    result = shmtensor.cat([positive, negative])
    if out is not None:
        return out.resize_(result.shape).copy_(result)
    return result.requires_grad_() if options.get("requires_grad") else result


@checked
def rfftfreq(n: int, d: float = 1.0, *, out: Tensor | None = None, **options: Any) -> Tensor:
    """Give the frequency of each element of a transform of real numbers.

    Args:
        n: Number of points of the transform.
        d: Distance of the samples.
        out: Receives the result.
        **options: As of `fftfreq`.

    Returns:
        ``(n // 2 + 1,)``: ``[0, 1, ..., n // 2] / (d * n)``.
    """
    return _frequencies(0, n // 2 + 1, n, d, out, dict(options))
