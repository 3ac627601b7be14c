"""Window functions under the names of torch.signal.windows.

Every window takes, besides what its own description names:

    M: Number of points. A window of one point is 1.
    sym: Symmetric, or for spectral analysis periodic: one point longer, without its last.
    dtype: float32 or float64; the default dtype if absent.
    layout: strided.
    device: Where the result lies.
    requires_grad: Record operations on the result.

and raises ValueError when *M* is negative or the dtype or layout is not supported.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor

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


class _Points:
    """The points of a window: how many, and what tensors along them are made of."""

    def __init__(
        self, name: str, M: int, dtype: Any, layout: Any, device: Any, requires_grad: bool
    ) -> None:
        self.M = M
        self.dtype = _C.get_default_dtype() if dtype is None else dtype
        self.kwargs = {"layout": layout, "device": device, "requires_grad": requires_grad}
        if M < 0:
            raise ValueError(f"{name} requires non-negative window length, got M={M}")
        if layout not in (None, _C.strided):
            raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
        if self.dtype not in (_C.float32, _C.float64):
            raise ValueError(f"{name} expects float32 or float64 dtypes, got: {self.dtype}")

    def line(self, start: float, end: float) -> Tensor:
        """Return evenly spaced numbers."""
        return _C.linspace(start, end, self.M, dtype=self.dtype, **self.kwargs)

    def ones(self) -> Tensor:
        """Return ones."""
        # A window of one point takes any number of one, as torch's do; more points need an int.
        size = int(self.M) if self.M in (0, 1) else self.M
        return _C.ones((size,), dtype=self.dtype, **self.kwargs)

    def intervals(self, sym: bool) -> int:
        """Return how many steps a whole period has."""
        return self.M - 1 if sym else self.M


_COMMON = """*M* is the number of points. With *sym* both ends are alike, as filters want it;
without, it is one period, as spectra want it. *dtype* (float32 or float64), *layout*, *device* and
*requires_grad* are those of the result. A negative *M* and other dtypes raise ValueError."""


def _window(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Turn *make*, of points, ``sym`` and own options, into a function with every argument."""

    @functools.wraps(make)
    def window(
        M: int,
        *,
        sym: bool = True,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        **own: Any,
    ) -> Tensor:
        points = _Points(make.__name__, M, dtype, layout, device, requires_grad)
        return make(points, sym, **own)

    window.__doc__ = f"{inspect.cleandoc(make.__doc__ or '')}\n\n{_COMMON}"
    del window.__wrapped__  # type: ignore[attr-defined]
    common = list(inspect.signature(window).parameters.values())
    options = list(inspect.signature(make).parameters.values())[2:]
    window.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [common[0], *options, *common[1:-1]], return_annotation=Tensor
    )
    return window


@_window
def exponential(
    points: _Points, sym: bool, *, center: float | None = None, tau: float = 1.0
) -> Tensor:
    """Return ``exp(-|n - center| / tau)``.

    *center* is where the window is 1, the middle by default and always when symmetric; *tau* is
    the decay in points, positive.

    Raises:
        ValueError: *tau* is not positive, or *center* given for a symmetric window.
    """
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    if center is None:
        center = points.intervals(sym or points.M < 2) / 2
    return _C.exp(-_C.abs(points.line(-center / tau, (points.M - 1 - center) / tau)))


@_window
def cosine(points: _Points, sym: bool) -> Tensor:
    """Return ``sin(pi (n + 1/2) / M)``."""
    M = points.M
    step = math.pi / (M if sym or M < 2 else M + 1) if M else 0.0
    return _C.sin(points.line(0.5 * step, (M - 0.5) * step))


@_window
def gaussian(points: _Points, sym: bool, *, std: float = 1.0) -> Tensor:
    """Return a bell of *std* points' deviation, positive."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    start = -points.intervals(sym or points.M < 2) / 2
    scale = 1 / (std * math.sqrt(2))
    k = points.line(start * scale, (start + points.M - 1) * scale)
    return _C.exp(-k * k)


@_window
def kaiser(points: _Points, sym: bool, *, beta: float = 12.0) -> Tensor:
    """Return a Kaiser window of shape *beta*, not negative."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    if points.M < 2 or beta == 0:
        return points.ones()
    step = 2.0 * beta / points.intervals(sym)
    k = points.line(-beta, min(beta, -beta + (points.M - 1) * step))
    top = _C._nn.special_i0e(_C.tensor(beta, dtype=points.dtype, device=k.device))
    x = _C.sqrt(_C.clamp(beta * beta - k * k, min=0))
    # The exponential of a large beta is not a float: only that of the difference is taken.
    return _C._nn.special_i0e(x) / top * _C.exp(x - beta)


@_window
def bartlett(points: _Points, sym: bool) -> Tensor:
    """Return a triangle from 0 to 1 to 0."""
    if points.M < 2:
        return points.ones()
    step = 2 / points.intervals(sym)
    return 1 - _C.abs(points.line(-1, -1 + (points.M - 1) * step))


def _cosines(points: _Points, sym: bool, a: Iterable[float]) -> Tensor:
    if points.M < 2:
        return points.ones()
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    weights = [weight if i % 2 == 0 else -weight for i, weight in enumerate(a)]
    if not weights:
        raise ValueError("Coefficients cannot be empty")
    t = points.line(0, (points.M - 1) * 2 * math.pi / points.intervals(sym))
    column = _C.tensor(weights, dtype=points.dtype, device=t.device).unsqueeze(-1)
    order = _C.arange(len(weights), dtype=points.dtype, device=t.device).unsqueeze(-1)
    return (column * _C.cos(order * t)).sum(0)


@_window
def general_cosine(points: _Points, sym: bool, *, a: Iterable[float]) -> Tensor:
    """Return ``a[0] - a[1] cos(t) + a[2] cos(2 t) - ...`` for t from 0 to 2 pi; *a* not empty.

    Raises:
        TypeError: *a* is not iterable.
        ValueError: *a* is empty.
    """
    return _cosines(points, sym, a)


@_window
def general_hamming(points: _Points, sym: bool, *, alpha: float = 0.54) -> Tensor:
    """Return ``alpha - (1 - alpha) cos(t)``."""
    return _cosines(points, sym, (alpha, 1.0 - alpha))


@_window
def hamming(points: _Points, sym: bool) -> Tensor:
    """Return ``0.54 - 0.46 cos(t)``."""
    return _cosines(points, sym, (0.54, 0.46))


@_window
def hann(points: _Points, sym: bool) -> Tensor:
    """Return ``(1 - cos(t)) / 2``."""
    return _cosines(points, sym, (0.5, 0.5))


@_window
def blackman(points: _Points, sym: bool) -> Tensor:
    """Return ``0.42 - 0.5 cos(t) + 0.08 cos(2 t)``."""
    return _cosines(points, sym, (0.42, 0.5, 0.08))


@_window
def nuttall(points: _Points, sym: bool) -> Tensor:
    """Return the four-term window of least sidelobes.

    Source:
        A. H. Nuttall, "Some windows with very good sidelobe behavior", IEEE Transactions on
        Acoustics, Speech and Signal Processing 29, 1981.
    """
    return _cosines(points, sym, (0.3635819, 0.4891775, 0.1365995, 0.0106411))
