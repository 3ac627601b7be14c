"""Which function calculates the divergence of a pair of classes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from shmtensor._core._tensor import Tensor
from shmtensor.distributions.distribution import Distribution

_Pair = tuple[type, type]
F = TypeVar("F", bound=Callable[..., Any])

_KL_REGISTRY: dict[_Pair, Callable[..., Any]] = {}
_KL_MEMOIZE: dict[_Pair, Any] = {}  # what was found for pairs asked for, until one is registered


def register_kl(type_p: type, type_q: type) -> Callable[[F], F]:
    """Decorate the function that calculates the divergence of two classes and their subclasses.

    The most specific pair is called: the one whose first class is nearest to that of *p*, and among
    those the one whose second class is nearest to that of *q*. Where looking at *q* first would
    choose another one, a RuntimeWarning asks for a pair that decides::

        @register_kl(Normal, Normal)
        def kl_normal_normal(p, q):
            ...

    Args:
        type_p: A class of distributions, or another one that they derive from.
        type_q: The same.

    Raises:
        TypeError: One of them is not a class.
    """
    for kind in (type_p, type_q):
        if not isinstance(kind, type):
            raise TypeError("issubclass() arg 1 must be a class")

    def register(function: F) -> F:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return register


def _distance(kind: type, above: type) -> int:
    """How far up a base class is; one that a class is only registered with is farthest."""
    bases = kind.__mro__
    return bases.index(above) if above in bases else len(bases)


def _dispatch_kl(type_p: type, type_q: type) -> Any:
    """The function for a pair of classes, NotImplemented if there is none."""
    matches = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not matches:
        return NotImplemented
    by_p = min(matches, key=lambda m: (_distance(type_p, m[0]), _distance(type_q, m[1])))
    by_q = min(matches, key=lambda m: (_distance(type_q, m[1]), _distance(type_p, m[0])))
    if _KL_REGISTRY[by_p] is not _KL_REGISTRY[by_q]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). "
            f"Please register_kl({by_p[0].__name__}, {by_q[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _KL_REGISTRY[by_p]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The Kullback-Leibler divergence of *q* from *p*: the mean of ``log p(x) - log q(x)`` under p.

    Args:
        p: Where x is drawn from.
        q: What it is compared with. Batch shapes broadcast.

    Returns:
        The batch shape; infinite where p draws what q never does.

    Raises:
        NotImplementedError: There is no formula for the two classes, or for these parameters.
    """
    pair = type(p), type(q)
    function = _KL_MEMOIZE.get(pair)
    if function is None:
        function = _KL_MEMOIZE[pair] = _dispatch_kl(*pair)
    if function is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {pair[0].__name__} and "
            f"q type {pair[1].__name__}"
        )
    return function(p, q)  # type: ignore[no-any-return]
