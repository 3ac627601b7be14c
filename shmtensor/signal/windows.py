"""Window functions under the names of torch.signal.windows.

Every function takes the number of points and whether the window is symmetric or, for spectral
analysis, periodic: one point longer, without its last. A window of one point is 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from shmtensor import _C
from shmtensor._tensor import Tensor

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


class _Options:
    """Where and how a window is made, checked."""

    def __init__(
        self, name: str, M: int, dtype: Any, layout: Any, device: Any, requires_grad: bool
    ) -> None:
        self.dtype = _C.get_default_dtype() if dtype is None else dtype
        self.kwargs = {"layout": layout, "device": device, "requires_grad": requires_grad}
        if M < 0:
            raise ValueError(f"{name} requires non-negative window length, got M={M}")
        if layout not in (None, _C.strided):
            raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
        if self.dtype not in (_C.float32, _C.float64):
            raise ValueError(f"{name} expects float32 or float64 dtypes, got: {self.dtype}")

    def line(self, start: float, end: float, steps: int) -> Tensor:
        """Return evenly spaced numbers."""
        return _C.linspace(start, end, steps, dtype=self.dtype, **self.kwargs)

    def ones(self, steps: int) -> Tensor:
        """Return ones."""
        return _C.ones((steps,), dtype=self.dtype, **self.kwargs)


def _intervals(M: int, sym: bool) -> int:
    return M - 1 if sym else M


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return ``exp(-|n - center| / tau)``.

    Args:
        M: Number of points.
        center: Where the window is 1; the middle by default, and always when symmetric.
        tau: Decay in points, positive.
        sym: Symmetric, or periodic.
        dtype: float32 or float64.
        layout: strided.
        device: Where the result lies.
        requires_grad: Record operations on the result.

    Raises:
        ValueError: *M* is negative, *tau* not positive, *center* given for a symmetric window, or
            the dtype or layout is not supported.
    """
    options = _Options("exponential", M, dtype, layout, device, requires_grad)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    if center is None:
        center = _intervals(M, sym or M < 2) / 2
    return _C.exp(-_C.abs(options.line(-center / tau, (M - 1 - center) / tau, M)))


def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return ``sin(pi (n + 1/2) / M)``. See `exponential` for the arguments."""
    options = _Options("cosine", M, dtype, layout, device, requires_grad)
    step = math.pi / (M if sym or M < 2 else M + 1) if M else 0.0
    return _C.sin(options.line(0.5 * step, (M - 0.5) * step, M))


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a bell of *std* points' deviation, positive. See `exponential` for the rest."""
    options = _Options("gaussian", M, dtype, layout, device, requires_grad)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    start = -_intervals(M, sym or M < 2) / 2
    scale = 1 / (std * math.sqrt(2))
    k = options.line(start * scale, (start + M - 1) * scale, M)
    return _C.exp(-k * k)


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a Kaiser window of shape *beta*, not negative. See `exponential` for the rest."""
    options = _Options("kaiser", M, dtype, layout, device, requires_grad)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    if M < 2 or beta == 0:
        return options.ones(M)
    step = 2.0 * beta / _intervals(M, sym)
    k = options.line(-beta, min(beta, -beta + (M - 1) * step), M)
    top = _C.i0(_C.tensor(beta, dtype=options.dtype, device=k.device))
    return _C.i0(_C.sqrt(_C.clamp(beta * beta - k * k, min=0))) / top


def hamming(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return ``0.54 - 0.46 cos(t)``. See `exponential` for the arguments."""
    return general_hamming(
        M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def hann(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return ``(1 - cos(t)) / 2``. See `exponential` for the arguments."""
    return general_hamming(
        M,
        alpha=0.5,
        sym=sym,
        dtype=dtype,
        layout=layout,
        device=device,
        requires_grad=requires_grad,
    )


def blackman(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return ``0.42 - 0.5 cos(t) + 0.08 cos(2 t)``. See `exponential` for the arguments."""
    return general_cosine(
        M,
        a=(0.42, 0.5, 0.08),
        sym=sym,
        dtype=dtype,
        layout=layout,
        device=device,
        requires_grad=requires_grad,
    )


def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a triangle from 0 to 1 to 0. See `exponential` for the arguments."""
    options = _Options("bartlett", M, dtype, layout, device, requires_grad)
    if M < 2:
        return options.ones(M)
    step = 2 / _intervals(M, sym)
    return 1 - _C.abs(options.line(-1, -1 + (M - 1) * step, M))


def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return ``a[0] - a[1] cos(t) + a[2] cos(2 t) - ...`` for t from 0 to 2 pi.

    Args:
        M: Number of points.
        a: Weights, at least one.
        sym: See `exponential`, also for the rest.
        dtype: float32 or float64.
        layout: strided.
        device: Where the result lies.
        requires_grad: Record operations on the result.

    Raises:
        TypeError: *a* is not iterable.
        ValueError: *a* is empty, or as `exponential`.
    """
    options = _Options("general_cosine", M, dtype, layout, device, requires_grad)
    if M < 2:
        return options.ones(M)
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    weights = [weight if i % 2 == 0 else -weight for i, weight in enumerate(a)]
    if not weights:
        raise ValueError("Coefficients cannot be empty")
    t = options.line(0, (M - 1) * 2 * math.pi / _intervals(M, sym), M)
    column = _C.tensor(weights, dtype=options.dtype, device=t.device).unsqueeze(-1)
    order = _C.arange(len(weights), dtype=options.dtype, device=t.device).unsqueeze(-1)
    return (column * _C.cos(order * t)).sum(0)


def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return ``alpha - (1 - alpha) cos(t)``. See `exponential` for the rest."""
    return general_cosine(
        M,
        a=(alpha, 1.0 - alpha),
        sym=sym,
        dtype=dtype,
        layout=layout,
        device=device,
        requires_grad=requires_grad,
    )


def nuttall(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return the four-term window of least sidelobes. See `exponential` for the arguments.

    Source:
        A. H. Nuttall, "Some windows with very good sidelobe behavior", IEEE Transactions on
        Acoustics, Speech and Signal Processing 29, 1981.
    """
    return general_cosine(
        M,
        a=(0.3635819, 0.4891775, 0.1365995, 0.0106411),
        sym=sym,
        dtype=dtype,
        layout=layout,
        device=device,
        requires_grad=requires_grad,
    )
