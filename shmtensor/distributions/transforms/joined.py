"""Transforms that take parts of a tensor to a transform each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions.transforms.base import Transform
from shmtensor.distributions.utils import _sum_rightmost


def _checked(tseq: Sequence[Any], cache_size: int) -> list[Transform]:
    if not all(isinstance(t, Transform) for t in tseq):
        raise AssertionError("All elements of tseq must be Transform instances")
    return [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)


def _check_dim(value: Tensor, dim: int) -> None:
    if not -value.dim() <= dim < value.dim():
        raise AssertionError(f"dim {dim} out of range for tensor with {value.dim()} dimensions")


class CatTransform(Transform):
    """Transforms for parts that lie one after the other along a dimension.

    Args:
        tseq: A transform for each part.
        dim: The dimension.
        lengths: The parts' sizes along it; 1 each when absent.
        cache_size: As of `Transform`.

    Raises:
        AssertionError: *tseq* has other things than transforms, *lengths* another number of
        elements,
            or later an argument another size.
    """

    transforms: list[Transform]

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        self.transforms = _checked(tseq, cache_size)
        super().__init__(cache_size=cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(
                f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})"
            )
        self.dim = dim

    @property
    def event_dim(self) -> int:
        """The largest of the parts."""
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """Size along the dimension."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, name: str, value: Tensor) -> list[Tensor]:
        _check_dim(value, self.dim)
        size = value.size(self.dim)
        if size != self.length:
            raise AssertionError(
                f"{name}.size({self.dim}) = {size} must equal length {self.length}"
            )
        return list(value.split(self.lengths, self.dim))

    def _call(self, x: Tensor) -> Tensor:
        parts = zip(self.transforms, self._parts("x", x), strict=True)
        return shmtensor.cat([t(part) for t, part in parts], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._parts("y", y), strict=True)
        return shmtensor.cat([t.inv(part) for t, part in parts], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        changes = []
        parts = zip(self.transforms, self._parts("x", x), self._parts("y", y), strict=True)
        for t, before, after in parts:
            change = t.log_abs_det_jacobian(before, after)
            changes.append(_sum_rightmost(change, self.event_dim - t.event_dim))
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        dim += self.event_dim
        if dim < 0:
            return shmtensor.cat(changes, dim)
        return shmtensor.stack(changes).sum(0)  # the dimension is part of the event

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all parts are."""
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property()
    def domain(self) -> Any:
        """The parts', joined."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property()
    def codomain(self) -> Any:
        """The parts', joined."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(Transform):
    """Transforms for the tensors that are stacked along a dimension.

    Args:
        tseq: A transform for each index.
        dim: The dimension.
        cache_size: As of `Transform`.

    Raises:
        AssertionError: *tseq* has other things than transforms, or an argument another size.
    """

    transforms: list[Transform]

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        self.transforms = _checked(tseq, cache_size)
        super().__init__(cache_size=cache_size)
        self.dim = dim

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    def _slice(self, z: Tensor) -> list[Tensor]:
        return list(z.unbind(self.dim))

    def _parts(self, name: str, value: Tensor) -> list[Tensor]:
        _check_dim(value, self.dim)
        size, wanted = value.size(self.dim), len(self.transforms)
        if size != wanted:
            raise AssertionError(
                f"{name}.size({self.dim}) = {size} must equal len(transforms) {wanted}"
            )
        return self._slice(value)

    def _call(self, x: Tensor) -> Tensor:
        parts = zip(self.transforms, self._parts("x", x), strict=True)
        return shmtensor.stack([t(part) for t, part in parts], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._parts("y", y), strict=True)
        return shmtensor.stack([t.inv(part) for t, part in parts], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._parts("x", x), self._parts("y", y), strict=True)
        changes = [t.log_abs_det_jacobian(before, after) for t, before, after in parts]
        if self.dim == -1 - max(t.event_dim for t in self.transforms):
            return shmtensor.stack(changes).sum(0)  # the dimension is part of the event
        return shmtensor.stack(changes, self.dim)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all parts are."""
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property()
    def domain(self) -> Any:
        """The parts', stacked."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property()
    def codomain(self) -> Any:
        """The parts', stacked."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
