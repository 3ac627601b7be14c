"""The extension for discrete Fourier transforms.

*norm* says where the factor 1/n is: ``"backward"`` in the inverse, ``"forward"`` in the transform,
``"ortho"`` its root in both.

Source: the array API standard, version 2024.12, and shmtensor.fft.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shmtensor import fft as _fft
from shmtensor._core._tensor import Tensor
from shmtensor.array_api._array import as_array
from shmtensor.array_api._dtypes import Dtype

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]


def fft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """Return the transform along an axis.

    Args:
        x: A floating-point array.
        n: The length; *x* is cut or padded with zeros to it.
        axis: The axis.
        norm: Where the factor 1/n is.
    """
    return _fft.fft(x, n, axis, norm)


def ifft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """Return the inverse of `fft`."""
    return _fft.ifft(x, n, axis, norm)


def fftn(
    x: Tensor,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Tensor:
    """Return the transform along several axes.

    Args:
        x: A floating-point array.
        s: The length for each axis; *x* is cut or padded with zeros to it.
        axes: The axes; by default all, or the last ones that *s* has lengths for.
        norm: Where the factor 1/n is.
    """
    return _fft.fftn(x, s, axes, norm)


def ifftn(
    x: Tensor,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Tensor:
    """Return the inverse of `fftn`."""
    return _fft.ifftn(x, s, axes, norm)


def rfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """Return the first half of the transform of real numbers; the rest is its mirror image."""
    return _fft.rfft(x, n, axis, norm)


def irfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """Return the inverse of `rfft`; *n* is the length of the result, even by default."""
    return _fft.irfft(x, n, axis, norm)


def rfftn(
    x: Tensor,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Tensor:
    """Return `rfft` along the last of several axes and `fft` along the others."""
    return _fft.rfftn(x, s, axes, norm)


def irfftn(
    x: Tensor,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Tensor:
    """Return the inverse of `rfftn`; the last length of *s* is even by default."""
    return _fft.irfftn(x, s, axes, norm)


def hfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """Return the real transform of numbers whose second half mirrors the first."""
    return _fft.hfft(x, n, axis, norm)


def ihfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """Return the inverse of `hfft`."""
    return _fft.ihfft(x, n, axis, norm)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """Return the frequencies of `fft` for *n* samples at a distance of *d*."""
    return as_array(_fft.fftfreq(n, d, dtype=dtype, device=device))


def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: Dtype | None = None, device: Any = None
) -> Tensor:
    """Return the frequencies of `rfft` for *n* samples at a distance of *d*."""
    return as_array(_fft.rfftfreq(n, d, dtype=dtype, device=device))


def fftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """Return *x* with frequency 0 moved to the middle of *axes*, or of all."""
    return _fft.fftshift(x, axes)


def ifftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """Return the inverse of `fftshift`."""
    return _fft.ifftshift(x, axes)
