"""Functions written in Python whose arguments may answer their calls, as those of operators may.

The object that `overridable` makes looks at the arguments in C
(csrc/python/overridable/functions.c), so that a call with plain tensors costs hardly more.
Everything else about it is the function's.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, overload

from shmtensor import _C

__all__ = ["Handed", "all_by_name", "beyond_torch", "overridable", "with_defaults"]

F = TypeVar("F", bound=Callable[..., Any])


@functools.cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def with_defaults(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Put what has no default into the positional arguments, all the rest into those by name.

    Raises:
        TypeError: The function does not take these arguments.
    """
    bound = _signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for parameter in bound.signature.parameters.values():
        value = bound.arguments[parameter.name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += value
        elif parameter.kind is parameter.VAR_KEYWORD:
            named.update(value)
        elif parameter.kind is not parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            positional.append(value)
        else:
            named[parameter.name] = value
    return tuple(positional), named


#: What a call hands over: the arguments that may answer, all by position, all by name.
Handed = tuple[Iterable[Any], tuple[Any, ...], dict[str, Any]]


def _as_given(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Handed:
    return (*args, *kwargs.values()), args, kwargs


@functools.cache
def _names_of_tensors(function: Callable[..., Any]) -> frozenset[str]:
    """The parameters that a tensor may be given for: flags and numbers answer for nobody."""
    return frozenset(
        parameter.name
        for parameter in _signature(function).parameters.values()
        if parameter.annotation is parameter.empty
        or any(word in str(parameter.annotation) for word in ("Tensor", "Any"))
    )


def _tensors(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments of a call that are, or hold, tensors."""
    names = _names_of_tensors(function)
    bound = _signature(function).bind(*args, **kwargs).arguments.items()
    return [value for name, value in bound if name in names]


def _defaults_by_name(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Handed:
    handed, named = with_defaults(function, args, kwargs)
    return _tensors(function, args, kwargs), handed, named


def beyond_torch(*names: str) -> Callable[[Any, tuple[Any, ...], dict[str, Any]], Handed]:
    """Return a ``hand_over`` that leaves out arguments that torch does not hand over.

    Args:
        *names: Parameters, left out while they are what they are by default.
    """

    def hand_over(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Handed:
        relevant, handed, named = _defaults_by_name(function, args, kwargs)
        parameters = _signature(function).parameters
        for name in names:
            if named[name] is parameters[name].default:
                del named[name]
        return relevant, handed, named

    return hand_over


def all_by_name(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Handed:
    """Hand everything over by name, as torch's initialisers do."""
    bound = _signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return _tensors(function, args, kwargs), (), dict(bound.arguments)


def _ask(
    hand_over: Callable[..., Handed],
    like_operators: bool,
    only_first: bool,
    function: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    from shmtensor.overrides import all_within, ask  # it imports the functions

    plain = function.__wrapped__
    try:
        relevant, handed, named = hand_over(plain, args, kwargs)
    except TypeError:
        return plain(*args, **kwargs)  # which says what it misses
    answering = handed[:1] if only_first else tuple(all_within(relevant))
    if not _C._has_override(*answering):
        return plain(*args, **kwargs)  # what answers is no argument of that kind
    return ask(function, answering, handed, named, with_tensors=not like_operators)


@overload
def overridable(function: F) -> F: ...


@overload
def overridable(
    *,
    straight: Callable[..., Any] | None = None,
    counts: tuple[int, int] = (1, 1),
    as_given: bool = False,
    only_first: bool = False,
    hand_over: Callable[..., Handed] | None = None,
) -> Callable[[F], F]: ...


def overridable(
    function: Any = None,
    *,
    straight: Callable[..., Any] | None = None,
    counts: tuple[int, int] = (1, 1),
    as_given: bool = False,
    only_first: bool = False,
    hand_over: Callable[..., Handed] | None = None,
) -> Any:
    """Decorate a function so that its arguments, and modes, may answer its calls.

    Whoever answers gets the decorated function. Arguments without a default come by position and
    all others by name, as torch's functions in Python hand them over.

    Args:
        function: The function.
        straight: The operator that a call with positional arguments alone is, when none is None;
            it is then called without the function.
        counts: How many arguments such a call has, at least and at most.
        as_given: Hand the arguments over as the caller wrote them, as torch's operators do.
        only_first: Only the first argument may answer, as for methods.
        hand_over: Takes the plain function, its positional arguments and those by name, and returns
            which may answer, and all as they are handed over; instead of the two rules above.
    """
    if function is None:
        return functools.partial(
            overridable,
            straight=straight,
            counts=counts,
            as_given=as_given,
            only_first=only_first,
            hand_over=hand_over,
        )
    if hand_over is None:
        hand_over = _as_given if as_given else _defaults_by_name
    ask = functools.partial(_ask, hand_over, as_given, only_first)
    return _C._Overridable(function, straight, counts, ask)
