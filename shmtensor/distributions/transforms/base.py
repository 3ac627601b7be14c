"""The class of all transforms, and transforms made of others."""

from __future__ import annotations

import functools
import operator
import weakref
from collections.abc import Sequence
from typing import Any

import shmtensor
from shmtensor import Size
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions.utils import _sum_rightmost, lazy_property


class Transform:
    """A differentiable map of tensors.

    Subclasses give `_call`, and where there is an inverse `_inverse`; what is bijective also gives
    `log_abs_det_jacobian`. One that is not bijective may have a right inverse only.

    Args:
        cache_size: 1 remembers the last pair of argument and image, 0 nothing.

    Attributes:
        domain: The constraint of arguments.
        codomain: The constraint of images.
        bijective: Every image has one argument.
        sign: 1 or -1 for rising and falling bijections of numbers, or a tensor of such.

    Raises:
        ValueError: *cache_size* is neither 0 nor 1.
    """

    bijective = False
    domain: constraints.Constraint
    codomain: constraints.Constraint

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._inv: Any = None  # the inverse, which refers to this one: weakly
        self._cached_x_y: tuple[Any, Any] = (None, None)
        super().__init__()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inv": None}

    @property
    def event_dim(self) -> int:
        """Dimensions of an event; ValueError when they change."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
        return self.domain.event_dim

    @property
    def inv(self) -> Transform:
        """The inverse transform, the same object for as long as somebody holds it."""
        inverse = self._inv() if self._inv is not None else None
        if inverse is None:
            inverse = _InverseTransform(self)
            self._inv = weakref.ref(inverse)
        return inverse  # type: ignore[no-any-return]

    @property
    def sign(self) -> Any:
        """1 where the map rises, -1 where it falls; NotImplementedError where that has no sense."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the transform with another size of its cache.

        Raises:
            NotImplementedError: A subclass with its own ``__init__`` does not say how.
        """
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __call__(self, x: Tensor) -> Tensor:
        """Return the image of *x*."""
        if self._cache_size == 0:
            return self._call(x)
        known, image = self._cached_x_y
        if x is known:
            return image  # type: ignore[no-any-return]
        image = self._call(x)
        self._cached_x_y = x, image
        return image

    def _inv_call(self, y: Tensor) -> Tensor:
        """Return what has the image *y*."""
        if self._cache_size == 0:
            return self._inverse(y)
        argument, known = self._cached_x_y
        if y is known:
            return argument  # type: ignore[no-any-return]
        argument = self._inverse(y)
        self._cached_x_y = argument, y
        return argument

    def _call(self, x: Tensor) -> Tensor:
        """Calculate the image."""
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        """Calculate what has the image."""
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Logarithm of the absolute determinant of dy/dx.

        Args:
            x: Arguments.
            y: Their images.

        Returns:
            One number for each event.
        """
        raise NotImplementedError

    def forward_shape(self, shape: Sequence[int]) -> Any:
        """Shape of the image of a tensor of *shape*."""
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        """Shape of a tensor whose image has *shape*."""
        return shape

    def __repr__(self) -> str:
        return self.__class__.__name__ + "()"


class _InverseTransform(Transform):
    """The inverse of a transform, with the transform's own cache."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv: Transform = transform

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        """The transform's codomain."""
        return self._inv.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        """The transform's domain."""
        return self._inv.domain

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__.copy()

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """That of the transform."""
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        """That of the transform."""
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        """The transform."""
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the inverse of the transform with that cache."""
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, x: Tensor) -> Tensor:
        """Return what has the image *x* under the transform."""
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self._inv!r})"


def _widened(constraint: constraints.Constraint, event_dim: int) -> constraints.Constraint:
    """The constraint for events of *event_dim* dimensions, which are as many or more."""
    more = event_dim - constraint.event_dim
    return constraints.independent(constraint, more) if more else constraint


class ComposeTransform(Transform):
    """Transforms one after the other, the first of the list first.

    Args:
        parts: The transforms. None of them: the identity.
        cache_size: Makes each part have that cache.
    """

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        if cache_size:
            parts = [part.with_cache(cache_size) for part in parts]
        super().__init__(cache_size=cache_size)
        self.parts = parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = None  # type: ignore[assignment]

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        """The first part's, for events that are large enough for all parts."""
        if not self.parts:
            return constraints.real
        event_dim = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            grown = event_dim + part.domain.event_dim - part.codomain.event_dim
            event_dim = max(grown, part.domain.event_dim)
        return _widened(self.parts[0].domain, event_dim)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        """The last part's, for events that are large enough for all parts."""
        if not self.parts:
            return constraints.real
        event_dim = self.parts[0].domain.event_dim
        for part in self.parts:
            grown = event_dim + part.codomain.event_dim - part.domain.event_dim
            event_dim = max(grown, part.codomain.event_dim)
        return _widened(self.parts[-1].codomain, event_dim)

    @lazy_property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all parts are."""
        return all(part.bijective for part in self.parts)

    @lazy_property
    def sign(self) -> Any:
        """The product of the parts'."""
        return functools.reduce(operator.mul, (part.sign for part in self.parts), 1)

    @property
    def inv(self) -> Transform:
        """The parts' inverses, the last first."""
        inverse = self._inv() if self._inv is not None else None
        if inverse is None:
            inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv = weakref.ref(inverse)
            inverse._inv = weakref.ref(self)
        return inverse  # type: ignore[no-any-return]

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        """Return the image of *x* under all parts."""
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return shmtensor.zeros_like(x)
        points = [x]
        for part in self.parts[:-1]:
            points.append(part(points[-1]))
        points.append(y)
        event_dim = self.domain.event_dim
        terms = []
        for part, before, after in zip(self.parts, points[:-1], points[1:], strict=True):
            change = part.log_abs_det_jacobian(before, after)
            terms.append(_sum_rightmost(change, event_dim - part.domain.event_dim))
            event_dim += part.codomain.event_dim - part.domain.event_dim
        return functools.reduce(operator.add, terms)

    def forward_shape(self, shape: Sequence[int]) -> Any:
        return functools.reduce(lambda now, part: part.forward_shape(now), self.parts, shape)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        parts = ",\n    ".join(repr(part) for part in self.parts)
        return f"{self.__class__.__name__}(\n    {parts}\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose events get more dimensions: Jacobians are summed over them.

    Args:
        base_transform: The transform.
        reinterpreted_batch_ndims: How many dimensions left of its events become part of them.
        cache_size: As of `Transform`.
    """

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(
            self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size
        )

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        """The transform's, for the larger events."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        """The transform's, for the larger events."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """That of the transform."""
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        """That of the transform."""
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        _check_dims(x.dim(), self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        _check_dims(y.dim(), self.codomain.event_dim)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        each = self.base_transform.log_abs_det_jacobian(x, y)
        return _sum_rightmost(each, self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Sequence[int]) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        name = self.__class__.__name__
        return f"{name}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


def _check_dims(n_dims: int, least: int) -> None:
    if n_dims < least:
        raise ValueError("Too few dimensions on input")


class ReshapeTransform(Transform):
    """Gives events another shape, with the elements in the same order.

    Args:
        in_shape: Shape of an argument's event.
        out_shape: Shape of an image's event.
        cache_size: As of `Transform`.

    Raises:
        ValueError: The shapes have different numbers of elements.
    """

    bijective = True

    def __init__(
        self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0
    ) -> None:
        self.in_shape = Size(in_shape)
        self.out_shape = Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property()
    def domain(self) -> Any:
        """Real events of as many dimensions as *in_shape*."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property()
    def codomain(self) -> Any:
        """Real events of as many dimensions as *out_shape*."""
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[: x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(y.shape[: y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Sequence[int]) -> Any:
        return _with_other_end(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        return _with_other_end(shape, self.out_shape, self.in_shape)


def _with_other_end(shape: Sequence[int], old: Size, new: Size) -> Any:
    _check_dims(len(shape), len(old))
    cut = len(shape) - len(old)
    if tuple(shape[cut:]) != tuple(old):
        raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {old}")
    return shape[:cut] + new  # type: ignore[operator]
