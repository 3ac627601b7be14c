"""From constraints to transforms that lead into them from unconstrained numbers.

``biject_to(constraint)`` is a bijection, with a Jacobian: for densities.
``transform_to(constraint)`` may be many to one where that is better to optimise along: for
parameters. Both take what a distribution names as support or in ``arg_constraints``::

    scale = transform_to(constraints.positive)(unconstrained)

Source: torch.distributions.constraint_registry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from shmtensor.distributions import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

F = TypeVar("F", bound=Callable[[Any], Any])


class ConstraintRegistry:
    """Makes transforms for constraints by the class of the constraint."""

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], transforms.Transform]] = {}

    def register(
        self, constraint: Any, factory: Callable[[Any], Any] | None = None
    ) -> Callable[[Any], Any]:
        """Say how the transforms of a class of constraints are made.

        Args:
            constraint: A subclass of `Constraint`, or an object whose class is meant.
            factory: Takes a constraint and returns a transform. When absent, a decorator is
                returned.

        Raises:
            TypeError: *constraint* is neither.
        """
        if factory is None:
            return lambda function: self.register(constraint, function)
        if isinstance(constraint, constraints.Constraint):
            constraint = type(constraint)
        if not isinstance(constraint, type) or not issubclass(constraint, constraints.Constraint):
            raise TypeError(
                "Expected constraint to be either a Constraint subclass or instance, "
                f"but got {constraint}"
            )
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint: Any) -> transforms.Transform:
        """Return a transform from unconstrained numbers into *constraint*.

        Raises:
            NotImplementedError: Nothing is registered for its class.
        """
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _in_both(*kinds: Any) -> Callable[[F], F]:
    """Register a function with both registries."""

    def register(function: F) -> F:
        for kind in kinds:
            biject_to.register(kind, function)
            transform_to.register(kind, function)
        return function

    return register


@_in_both(constraints.real)
def _to_real(constraint: Any) -> Any:
    return transforms.identity_transform


@_in_both(constraints.greater_than, constraints.greater_than_eq)
def _to_numbers_above(constraint: Any) -> Any:
    shift = transforms.AffineTransform(constraint.lower_bound, 1)
    return transforms.ComposeTransform([transforms.ExpTransform(), shift])


@_in_both(constraints.less_than)
def _to_numbers_below(constraint: Any) -> Any:
    mirror = transforms.AffineTransform(constraint.upper_bound, -1)
    return transforms.ComposeTransform([transforms.ExpTransform(), mirror])


@_in_both(constraints.interval, constraints.half_open_interval)
def _to_interval(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    sigmoid = transforms.SigmoidTransform()
    if isinstance(low, int | float) and isinstance(high, int | float) and (low, high) == (0, 1):
        return sigmoid
    return transforms.ComposeTransform([sigmoid, transforms.AffineTransform(low, high - low)])


@_in_both(constraints.corr_cholesky)
def _to_corr_cholesky(constraint: Any) -> Any:
    return transforms.CorrCholeskyTransform()


@biject_to.register(constraints.simplex)
def _onto_simplex(constraint: Any) -> Any:
    return transforms.StickBreakingTransform()


@transform_to.register(constraints.simplex)
def _to_simplex(constraint: Any) -> Any:
    return transforms.SoftmaxTransform()


@transform_to.register(constraints.lower_cholesky)
def _to_lower_cholesky(constraint: Any) -> Any:
    return transforms.LowerCholeskyTransform()


@transform_to.register(constraints.positive_definite)
@transform_to.register(constraints.positive_semidefinite)
def _to_positive_definite(constraint: Any) -> Any:
    return transforms.PositiveDefiniteTransform()


def _register_compound(registry: ConstraintRegistry) -> None:
    """Constraints made of others take the transforms of their parts from the same registry."""

    def independent(constraint: Any) -> Any:
        part = registry(constraint.base_constraint)
        return transforms.IndependentTransform(part, constraint.reinterpreted_batch_ndims)

    def cat(constraint: Any) -> Any:
        parts = [registry(c) for c in constraint.cseq]
        return transforms.CatTransform(parts, constraint.dim, constraint.lengths)

    def stack(constraint: Any) -> Any:
        return transforms.StackTransform([registry(c) for c in constraint.cseq], constraint.dim)

    registry.register(constraints.independent, independent)
    registry.register(constraints.cat, cat)
    registry.register(constraints.stack, stack)


_register_compound(biject_to)
_register_compound(transform_to)
