"""Regions of tensors for the parameters and draws of distributions.

A constraint has ``check(value)``, which says for each event of a tensor whether it lies in the
region. Those without options are objects, such as ``constraints.positive``; others are made, such
as ``constraints.greater_than(2)``.

Source: torch.distributions.constraints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.distributions.utils import all_true

__all__ = [
    "Constraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "MixtureSameFamilyConstraint",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A region of the space of events.

    Attributes:
        is_discrete: The region has no interior: no gradient can move in it.
        event_dim: How many of a tensor's last dimensions one event has.
    """

    is_discrete: bool = False
    event_dim: int = 0

    def check(self, value: Tensor) -> Tensor:
        """Whether each event of *value* lies in the region.

        Returns:
            Bools, in the shape of *value* without its last `event_dim` dimensions.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.__class__.__name__[1:] + "()"


class _Bounded(Constraint):
    """A constraint that shows its bounds; classes of two bounds have both."""

    # Numbers or tensors; comparisons with either give tensors.
    lower_bound: Tensor
    upper_bound: Tensor

    def __repr__(self) -> str:
        bounds = [
            f"{name}={getattr(self, name)}"
            for name in ("lower_bound", "upper_bound")
            if hasattr(self, name)
        ]
        return f"{self.__class__.__name__[1:]}({', '.join(bounds)})"


class _Lower(_Bounded):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound


class _Upper(_Bounded):
    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound


class _Between(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound


# --- regions that depend on other parameters ---------------------------------------------------


def _dependent_attribute(name: str) -> Any:
    def read(self: Any) -> Any:
        value = getattr(self, "_" + name)
        if value is NotImplemented:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return value

    return property(read)


class _Dependent(Constraint):
    """A region that other values decide about, so that nothing can be checked against it.

    Args:
        is_discrete: As of `Constraint`; NotImplemented when that depends too.
        event_dim: The same.
    """

    is_discrete = _dependent_attribute("is_discrete")
    event_dim = _dependent_attribute("event_dim")

    def __init__(
        self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> None:
        self._is_discrete = is_discrete
        self._event_dim = event_dim
        super().__init__()

    def __call__(
        self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> _Dependent:
        """Say more about the region: what is not given stays."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, x: Tensor) -> Tensor:
        """Raise ValueError: an object of the class that has the constraint must be asked."""
        raise ValueError("Cannot determine validity of dependent constraint")


class _DependentProperty(property, _Dependent):
    """A property that gives a constraint; read on the class it is a dependent constraint.

    Used as ``@dependent_property`` or ``@dependent_property(is_discrete=..., event_dim=...)``.
    """

    def __init__(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        is_discrete: bool | None = NotImplemented,
        event_dim: int | None = NotImplemented,
    ) -> None:
        super().__init__(fn)
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    def __call__(self, fn: Callable[..., Any]) -> _DependentProperty:  # type: ignore[override]
        """Decorate *fn* with what has been said about the region."""
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def is_dependent(constraint: Any) -> bool:
    """Whether *constraint* says nothing without an object that has it."""
    return isinstance(constraint, _Dependent)


# --- events of several elements ----------------------------------------------------------------


class _IndependentConstraint(Constraint):
    """Events of a constraint, taken together along some batch dimensions.

    Args:
        base_constraint: The constraint of the parts.
        reinterpreted_batch_ndims: How many dimensions become part of the event.

    Raises:
        AssertionError: The arguments are neither constraints nor a number from 0.
    """

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        if not isinstance(base_constraint, Constraint):
            got = type(base_constraint).__name__
            raise AssertionError(f"base_constraint must be a Constraint, got {got}")
        if not isinstance(reinterpreted_batch_ndims, int):
            got = type(reinterpreted_batch_ndims).__name__
            raise AssertionError(f"reinterpreted_batch_ndims must be an int, got {got}")
        if reinterpreted_batch_ndims < 0:
            raise AssertionError(
                f"reinterpreted_batch_ndims must be >= 0, got {reinterpreted_batch_ndims}"
            )
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        """That of the parts."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """The parts' own dimensions and those taken together."""
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        """Whether all parts lie in the region; ValueError when dimensions are missing."""
        result = self.base_constraint.check(value)
        together = self.reinterpreted_batch_ndims
        if result.dim() < together:
            expected = self.base_constraint.event_dim + together
            raise ValueError(f"Expected value.dim() >= {expected} but got {value.dim()}")
        for _ in range(together):
            result = result.all(-1)
        return result

    def __repr__(self) -> str:
        name = self.__class__.__name__[1:]
        return f"{name}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """Where a mixture's draws lie: in the region of its components, which have one more dimension.

    Args:
        base_constraint: The components' support.
    """

    def __init__(self, base_constraint: Constraint) -> None:
        if not isinstance(base_constraint, Constraint):
            got = type(base_constraint).__name__
            raise AssertionError(f"base_constraint must be a Constraint, got {got}")
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        """That of the components."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """That of the components."""
        return self.base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        """Whether each event lies in the region of all components."""
        n_event = self.event_dim
        each = self.base_constraint.check(value.unsqueeze(-1 - n_event))
        while each.dim() > max(value.dim() - n_event, 0):
            each = each.all(-1)
        return each

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.base_constraint!r})"


def _check_all(kind: str, constraints: Sequence[Any]) -> list[Constraint]:
    if not all(isinstance(c, Constraint) for c in constraints):
        raise AssertionError(f"All elements of {kind} must be Constraint instances")
    return list(constraints)


def _place(dim: int, value: Tensor) -> int:
    """A dimension, counted from the end: -1 is the last one."""
    if not -value.dim() <= dim < value.dim():
        raise AssertionError(f"dim {dim} out of range for value with {value.dim()} dimensions")
    return dim - value.dim() if dim >= 0 else dim


class _Cat(Constraint):
    """Constraints for parts that are joined along a dimension.

    Args:
        cseq: A constraint for each part.
        dim: The dimension.
        lengths: The parts' sizes along it; 1 each when absent.
    """

    def __init__(
        self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        self.cseq = _check_all("cseq", cseq)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(
                f"lengths ({len(self.lengths)}) must match cseq ({len(self.cseq)})"
            )
        self.dim = dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        """Whether a part is."""
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """The largest of the parts."""
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        """The parts' answers, joined, unless they are parts of one event."""
        place = _place(self.dim, value) + max(c.event_dim for c in self.cseq)
        answers, start = [], 0
        for constraint, length in zip(self.cseq, self.lengths, strict=True):
            answers.append(constraint.check(value.narrow(self.dim, start, length)))
            start += length
        if place >= 0:
            return shmtensor.stack(answers).all(0)
        return shmtensor.cat(answers, place)


class _Stack(Constraint):
    """Constraints for tensors that are stacked along a new dimension.

    Args:
        cseq: A constraint for each tensor.
        dim: The new dimension.
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq = _check_all("cseq", cseq)
        self.dim = dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        """Whether a part is."""
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """The largest of the parts, and one more for a dimension within the event."""
        largest = max(c.event_dim for c in self.cseq)
        return largest + 1 if self.dim + largest < 0 else largest

    def check(self, value: Tensor) -> Tensor:
        """The tensors' answers, stacked, unless they are parts of one event."""
        place = _place(self.dim, value)
        parts = [value.select(self.dim, i) for i in range(value.size(self.dim))]
        answers = [c.check(part) for part, c in zip(parts, self.cseq, strict=False)]
        largest = max(c.event_dim for c in self.cseq)
        if self.event_dim > largest or place >= -largest:
            return shmtensor.stack(answers).all(0)
        return shmtensor.stack(answers, place + largest)


# --- discrete regions --------------------------------------------------------------------------


class _Boolean(Constraint):
    """0 or 1."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    """A vector of zeros with a single 1."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


def _is_whole(value: Tensor) -> Tensor:
    return value % 1 == 0


class _IntegerInterval(_Between):
    """Whole numbers from *lower_bound* to *upper_bound*."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return _is_whole(value) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerLessThan(_Upper):
    """Whole numbers up to *upper_bound*."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return _is_whole(value) & (value <= self.upper_bound)


class _IntegerGreaterThan(_Lower):
    """Whole numbers from *lower_bound* on."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return _is_whole(value) & (value >= self.lower_bound)


class _Multinomial(_Upper):
    """Counts that sum to *upper_bound* or less."""

    is_discrete = True
    event_dim = 1
    __repr__ = Constraint.__repr__

    def check(self, x: Tensor) -> Tensor:
        return (x >= 0).all(-1) & (x.sum(-1) <= self.upper_bound)


# --- the real line and intervals ---------------------------------------------------------------


class _Real(Constraint):
    """All numbers; not NaN."""

    def check(self, value: Tensor) -> Tensor:
        return value == value


class _GreaterThan(_Lower):
    """Numbers above *lower_bound*."""

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound < value


class _GreaterThanEq(_Lower):
    """Numbers from *lower_bound* on."""

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound <= value


class _LessThan(_Upper):
    """Numbers below *upper_bound*."""

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class _Interval(_Between):
    """Numbers from *lower_bound* to *upper_bound*."""

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    """Numbers from *lower_bound* to below *upper_bound*."""

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _Simplex(Constraint):
    """Vectors of numbers from 0 on that sum to 1, to within 1e-6."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


# --- matrices ----------------------------------------------------------------------------------


class _LowerTriangular(Constraint):
    """Square matrices with zeros above the diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).all(-1).all(-1)


class _LowerCholesky(Constraint):
    """Lower triangular matrices with a positive diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        triangular = _LowerTriangular().check(value)
        return triangular & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(Constraint):
    """Cholesky factors of correlation matrices: rows of length 1, a positive diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        # The length's rounding grows with the number of elements.
        tolerance = shmtensor.finfo(value.dtype).eps * value.size(-1) * 10
        lengths = shmtensor.linalg.norm(value.detach(), dim=-1)
        unit: Tensor = ((lengths - 1).abs() <= tolerance).all(-1)
        return _LowerCholesky().check(value) & unit


class _Square(Constraint):
    """Square matrices."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        is_square = value.shape[-2] == value.shape[-1]
        return shmtensor.full(
            value.shape[:-2], is_square, dtype=shmtensor.bool, device=value.device
        )


class _Symmetric(_Square):
    """Symmetric matrices, to within 1e-6."""

    def check(self, value: Tensor) -> Tensor:
        square = super().check(value)
        if not all_true(square):
            return square
        return shmtensor.isclose(value, value.mT, atol=1e-6).all(-1).all(-1)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not all_true(symmetric):
            return symmetric
        return (shmtensor.linalg.eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices that have a Cholesky factor."""

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not all_true(symmetric):
            return symmetric
        return shmtensor.linalg.cholesky_ex(value).info == 0


dependent = _Dependent()
if TYPE_CHECKING:

    def dependent_property(  # noqa: D103
        *, is_discrete: bool = ..., event_dim: int = ...
    ) -> Callable[[Callable[..., Any]], Any]: ...

else:
    dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
