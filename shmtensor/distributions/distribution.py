"""The class that all distributions derive from.

Note [Shapes]
A distribution has a batch shape, of parameters that are independent of each other, and an event
shape, of one draw. ``sample(s)`` has the shape ``s + batch_shape + event_shape``; ``log_prob``
takes whatever broadcasts with the last two and sums over the event. Parameters keep the batch shape
as views.

Source: torch.distributions.distribution.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import shmtensor
from shmtensor import Size
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions.utils import all_true, lazy_property

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Distribution"]

D = TypeVar("D", bound="Distribution")


class Distribution:
    """A probability distribution, or a batch of them.

    Args:
        batch_shape: Shape of the batch.
        event_shape: Shape of one draw.
        validate_args: Check parameters here, and values where they are given to ``log_prob`` and
        the
            like. None means what `set_default_validate_args` said last; that is True unless Python
            runs with ``-O``.

    Attributes:
        has_rsample: ``rsample`` exists: draws are differentiable in the parameters.
        has_enumerate_support: ``enumerate_support`` exists.

    Raises:
        ValueError: A parameter does not satisfy its constraint.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args: bool = __debug__

    _batch_shape: Size
    _event_shape: Size

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Say whether distributions made from now on check parameters and values.

        Raises:
            ValueError: *value* is not a bool.
        """
        if value not in (True, False):
            raise ValueError(f"validate_args must be True or False, got {value!r}")
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Sequence[int] = Size(),
        event_shape: Sequence[int] = Size(),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()

    def _validate_parameters(self) -> None:
        try:
            wanted = self.arg_constraints
        except NotImplementedError:
            wanted = {}
            warnings.warn(
                f"{self.__class__} does not define `arg_constraints`. Please set "
                "`arg_constraints = {}` or initialize the distribution with `validate_args=False` "
                "to turn off validation.",
                stacklevel=3,
            )
        for name, constraint in wanted.items():
            if constraints.is_dependent(constraint):
                continue  # on other parameters: not known here
            if name not in self.__dict__ and isinstance(
                getattr(type(self), name, None), lazy_property
            ):
                continue  # made from another parameter, which is checked
            value = getattr(self, name)
            if not all_true(constraint.check(value)):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        """Return the distribution with a larger batch shape; parameters become views.

        Args:
            batch_shape: What this batch shape can be expanded to.
            _instance: For subclasses with their own ``__init__``: the new object, without
                attributes, that ``expand`` of the base class shall complete and return.
        """
        raise NotImplementedError

    def _expanded(
        self,
        cls: type[Distribution],
        instance: Any,
        batch_shape: Sequence[int],
        parameters: dict[str, int],
        kept: Sequence[str] = (),
        made: Mapping[str, Any] | None = None,
    ) -> Any:
        """Make what ``cls.expand`` returns.

        All attributes are there before ``Distribution.__init__`` runs, which subclasses may extend
        to look at them.

        Args:
            cls: The class whose ``expand`` asks.
            instance: Its ``_instance``.
            batch_shape: The new shape.
            parameters: For each attribute that grows, if it is there, how many of its last
                dimensions belong to the event. Attributes may be distributions.
            kept: Attributes taken as they are.
            made: Further attributes.
        """
        new = self._get_checked_instance(cls, instance)
        batch_shape = Size(batch_shape)
        for name, event_dims in parameters.items():
            value = self.__dict__.get(name)
            if isinstance(value, Distribution):
                new.__dict__[name] = value.expand(batch_shape)
            elif value is not None:
                event = value.shape[value.dim() - event_dims :]
                new.__dict__[name] = value.expand(batch_shape + event)
        for name in kept:
            new.__dict__[name] = self.__dict__[name]
        for name, value in (made or {}).items():
            setattr(new, name, value)
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def batch_shape(self) -> Size:
        """Shape over which parameters are batched."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """Shape of one draw, without batch."""
        return self._event_shape

    if TYPE_CHECKING:
        arg_constraints: dict[str, constraints.Constraint]
        support: Any
    else:

        @property
        def arg_constraints(self) -> dict[str, constraints.Constraint]:
            """The constraint of each parameter, by name."""
            raise NotImplementedError

        @property
        def support(self) -> constraints.Constraint | None:
            """The constraint that draws satisfy."""
            raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """Expectation, of shape ``batch_shape + event_shape``; NaN or infinite if there is none."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """Where the density is highest, of shape ``batch_shape + event_shape``."""
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """Variance of each element, of shape ``batch_shape + event_shape``."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """Square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        """Draw, outside the graph.

        Args:
            sample_shape: Number of draws for each element of the batch, as a shape.

        Returns:
            ``sample_shape + batch_shape + event_shape``.
        """
        with shmtensor.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        """Draw so that the result can be differentiated by the parameters.

        Args:
            sample_shape: As for `sample`.

        Returns:
            ``sample_shape + batch_shape + event_shape``.

        Raises:
            NotImplementedError: `has_rsample` is False.
        """
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """Draw *n* times; the older form of ``sample((n,))``."""
        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.",
            FutureWarning,
            stacklevel=2,
        )
        return self.sample(Size((n,)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Logarithm of the density, or of the probability of a discrete value.

        Args:
            value: Broadcasts with ``batch_shape + event_shape``.

        Returns:
            The broadcast shape without the event's dimensions.

        Raises:
            ValueError: With `validate_args`: *value* is not a tensor, does not fit, or is outside
                the support.
        """
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of a draw up to *value*. Arguments and errors are those of `log_prob`."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """Undo `cdf`: what a draw stays below with the probability *value*."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution, along a new first dimension.

        Args:
            expand: Repeat them over the batch; otherwise batch dimensions are 1.

        Returns:
            ``(n,) + batch_shape + event_shape``, or with ones for the batch.
        """
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """Entropy in nats, of shape ``batch_shape``."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """Exponential of the entropy, of shape ``batch_shape``."""
        return shmtensor.exp(self.entropy())

    def _extended_shape(self, sample_shape: Sequence[int] = Size()) -> Size:
        """Shape of what a draw of *sample_shape* returns."""
        return Size(Size(sample_shape) + self._batch_shape + self._event_shape)

    def _validate_sample(self, value: Tensor) -> None:
        """Raise ValueError unless *value* may be a draw."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        n_event = len(self._event_shape)
        if value.shape[value.dim() - n_event :] != self._event_shape:
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{value.shape} vs {self._event_shape}."
            )
        full = self._batch_shape + self._event_shape
        for got, own in zip(reversed(value.shape), reversed(full), strict=False):
            if got != own and 1 not in (got, own):
                raise ValueError(
                    "Value is not broadcastable with batch_shape+event_shape: "
                    f"{value.shape} vs {full}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        if not all_true(support.check(value)):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) "
                f"to be within the support ({support!r}) of the distribution {self!r}, "
                f"but found invalid values:\n{value}"
            )

    def _get_checked_instance(self, cls: type[Distribution], _instance: Any = None) -> Any:
        """The object that ``cls.expand`` completes: *_instance*, or a new one of this type.

        Raises:
            NotImplementedError: A subclass of *cls* has its own ``__init__``, and so other
                attributes, but not its own ``expand``.
        """
        if _instance is not None:
            return _instance
        if type(self).__init__ != cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ "
                "method must also define a custom .expand() method."
            )
        return self.__new__(type(self))

    def __repr__(self) -> str:
        shown = []
        for name in self.arg_constraints:
            if name in self.__dict__:
                value = self.__dict__[name]
                shown.append(f"{name}: {value if value.numel() == 1 else value.size()}")
        return f"{self.__class__.__name__}({', '.join(shown)})"
