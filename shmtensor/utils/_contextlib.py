"""Contexts that are decorators as well.

Source:
    torch.utils._contextlib.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from shmtensor.autograd.grad_mode import warn_of_class

__all__ = ["context_decorator"]

_F = TypeVar("_F", bound=Callable[..., Any])


def context_decorator(ctx: Any, func: _F) -> _F:
    """Return *func* as a function that runs inside of a context.

    Args:
        ctx: A context manager, or a function that makes a new one for every call.
        func: A function; a generator function is inside only while it runs, not where it waits.

    Raises:
        RuntimeError: *func* is a class.
    """
    if isinstance(func, type):
        raise RuntimeError(
            f"Cannot decorate classes; {func.__name__} is one: decorate its methods, or functions "
            "that make instances"
        )
    make = ctx if callable(ctx) and not hasattr(ctx, "__enter__") else lambda: ctx
    if inspect.isgeneratorfunction(func):

        @functools.wraps(func)
        def generate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            inner = func(*args, **kwargs)
            step: Callable[[], Any] = functools.partial(next, inner)
            while True:
                try:
                    with make():
                        value = step()
                except StopIteration as end:
                    return end.value
                try:
                    sent = yield value
                    step = functools.partial(inner.send, sent)
                except GeneratorExit:
                    with make():
                        inner.close()
                    raise
                except BaseException as error:
                    step = functools.partial(inner.throw, error)

        return generate  # type: ignore[return-value]

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        with make():
            return func(*args, **kwargs)

    return call  # type: ignore[return-value]


class _DecoratorContextManager:
    """A base of context managers that may decorate functions; `clone` gives one for each call."""

    def __call__(self, orig_func: _F) -> _F:
        """Return *orig_func* as a function that runs inside of the context."""
        if not isinstance(orig_func, type):
            return context_decorator(self.clone, orig_func)
        warn_of_class()
        make: Any = orig_func
        return context_decorator(self.clone, lambda *args, **kwargs: make(*args, **kwargs))  # type: ignore[return-value]

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> Any:
        raise NotImplementedError

    def clone(self) -> Any:
        """Return another context with the same options; subclasses with options override it."""
        return self.__class__()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """The same for contexts without options: ``@context`` works without parentheses."""

    def __new__(cls, orig_func: Any = None) -> Any:
        """Make a context, or decorate *orig_func*."""
        if orig_func is None:
            return super().__new__(cls)
        return cls()(orig_func)
