"""What several distributions need: common shapes, probabilities and log-odds, lazy attributes.

Source: torch.distributions.utils.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, overload

import shmtensor
from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor._functorch._levels import innermost_value
from shmtensor.nn import functional as F
from shmtensor.overrides import is_tensor_like

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

T = TypeVar("T", contravariant=True)
R = TypeVar("R", covariant=True)

euler_constant: float = 0.57721566490153286  # Euler and Mascheroni's


def broadcast_all(*values: Tensor | float) -> tuple[Tensor, ...]:
    """Give numbers and tensors one shape.

    Args:
        *values: Numbers become tensors of the first tensor's dtype and device, or of the default
            dtype when there is no tensor.

    Returns:
        Views of one shape, one for each value. A tensor that has the shape is returned itself, so
        that a parameter of a distribution may be the leaf that collects the gradient.

    Raises:
        ValueError: A value is neither a number nor like a tensor.
        RuntimeError: The shapes do not fit together.
    """
    if not all(is_tensor_like(value) or isinstance(value, int | float) for value in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects "
            "implementing __torch_function__."
        )
    options: dict[str, Any] = {"dtype": shmtensor.get_default_dtype()}
    for value in values:
        if isinstance(value, Tensor):
            options = {"dtype": value.dtype, "device": value.device}
            break
    tensors: list[Any] = [
        value if is_tensor_like(value) else shmtensor.tensor(value, **options) for value in values
    ]
    views = shmtensor.broadcast_tensors(*tensors)
    return tuple(
        given if given.shape == view.shape else view
        for given, view in zip(tensors, views, strict=True)
    )


def all_true(answer: Tensor) -> bool:
    """Whether all elements are true: under ``vmap`` those of all examples, so they decide."""
    return bool(innermost_value(answer).all())


def _standard_normal(shape: Sequence[int], dtype: Any, device: Any) -> Tensor:
    """Draw from the normal distribution of mean 0 and variance 1."""
    zeros = shmtensor.zeros(shape, dtype=dtype, device=device)
    return shmtensor.normal(zeros, shmtensor.ones_like(zeros))


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """Sum the last *dim* dimensions."""
    return value.sum(tuple(range(-dim, 0))) if dim else value


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Turn log-odds, or with several classes unnormalised log-probabilities, into probabilities.

    Args:
        logits: Any shape; classes are along the last dimension unless *is_binary*.
        is_binary: Each element is the log-odds of one event.

    Returns:
        The same shape, from 0 to 1.
    """
    return shmtensor.sigmoid(logits) if is_binary else F.softmax(logits, dim=-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Keep probabilities away from 0 and 1 by the epsilon of their dtype."""
    eps = shmtensor.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Undo `logits_to_probs`, for probabilities that `clamp_probs` has moved inwards.

    Args:
        probs: From 0 to 1, any shape.
        is_binary: Return log-odds; otherwise logarithms.

    Returns:
        The same shape, finite.
    """
    inner = clamp_probs(probs)
    return inner.log() - (-inner).log1p() if is_binary else inner.log()


class lazy_property(Generic[T, R]):
    """An attribute that is computed at its first use and then stays.

    Setting the attribute before replaces the calculation. It is differentiable even when the first
    access happens without gradients.
    """

    def __init__(self, wrapped: Callable[[T], R]) -> None:
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)  # type: ignore[arg-type]

    @overload
    def __get__(
        self, instance: None, obj_type: Any = None
    ) -> _lazy_property_and_property[T, R]: ...

    @overload
    def __get__(self, instance: T, obj_type: Any = None) -> R: ...

    def __get__(self, instance: T | None, obj_type: Any = None) -> Any:
        if instance is None:
            return _lazy_property_and_property(self.wrapped)
        with shmtensor.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _lazy_property_and_property(lazy_property[T, R], property):
    """What a lazy attribute is on the class: documentation tools look for properties."""

    def __init__(self, wrapped: Callable[[T], R]) -> None:
        property.__init__(self, wrapped)  # type: ignore[arg-type]


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Lay out lower triangles row after row.

    Args:
        mat: ``(..., D, D)``.
        diag: The last diagonal that belongs to the triangle, 0 for the main one, negative below.

    Returns:
        ``(..., n)``, n the number of elements of the triangle.

    Raises:
        ValueError: *diag* is not from -D to D - 1.
    """
    size = mat.shape[-1]
    if not -size <= diag < size:
        raise ValueError(f"diag ({diag}) provided is outside [{-size}, {size - 1}].")
    rows, columns = _C.tril_indices(size, size, diag, device=mat.device)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Undo `tril_matrix_to_vec`: fill lower triangles row after row, zeros elsewhere.

    Args:
        vec: ``(..., n)``.
        diag: The last diagonal that is filled.

    Returns:
        ``(..., D, D)``.

    Raises:
        ValueError: No square matrix has n elements there.
    """
    # With d for diag, n is (D + d)(D + d + 1) / 2 for d <= 0, and D^2 - (D - d)(D - d - 1) / 2
    # above.
    n = vec.shape[-1]
    below, above = 8 * n + 1, 8 * (n + diag * (diag + 1)) + 1
    root = math.isqrt(below if diag <= 0 else above)
    size = (root - 2 * diag - 1) // 2
    if size < 0 or _triangle_size(size, diag) != n:
        raise ValueError(
            f"The size of last dimension is {n} which cannot be expressed as the lower triangular "
            "part of a square D x D matrix."
        )
    mat = shmtensor.zeros((*vec.shape[:-1], size, size), dtype=vec.dtype, device=vec.device)
    rows, columns = _C.tril_indices(size, size, diag, device=vec.device)
    mat[..., rows, columns] = vec
    return mat


def _triangle_size(size: int, diag: int) -> int:
    """Number of elements on and below a diagonal of a square matrix."""
    return sum(min(max(row + diag + 1, 0), size) for row in range(size))
