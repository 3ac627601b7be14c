"""Switching recording: ``no_grad``, ``enable_grad``, ``set_grad_enabled``, ``inference_mode``.

Each is a context manager and a decorator; the switch is the calling thread's own. What runs in each
``with`` is in C (csrc/python/autograd/switches.c): entering takes less than a call of Python does.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Generator
from typing import Any, TypeVar, cast

from shmtensor import _C

__all__ = [
    "enable_grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

is_grad_enabled = _C.is_grad_enabled
is_inference_mode_enabled = _C.is_inference_mode_enabled

_CO_GENERATOR = 0x20  # inspect.CO_GENERATOR
_F = TypeVar("_F", bound=Callable[..., Any])


def _is_generator_function(function: Callable[..., Any]) -> bool:
    """Whether a call makes a generator; `inspect` says so too, and takes long to import."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None)  # a bound method has it too
    return code is not None and bool(code.co_flags & _CO_GENERATOR)


def warn_of_class() -> None:
    """Say that who decorates a class gets a function that makes instances."""
    warnings.warn(
        "Decorating classes is deprecated and will be disabled in future versions. You should "
        "only decorate functions or methods. To preserve the current behavior of class "
        "decoration, you can directly decorate the `__init__` method and nothing else.",
        FutureWarning,
        stacklevel=3,
    )


class _Switch:
    """A context manager that can also decorate functions, generators and classes' methods."""

    def __enter__(self) -> None:
        raise TypeError(f"{type(self).__name__} has no meaning of its own")

    def __exit__(self, *exc: object) -> None:
        raise TypeError(f"{type(self).__name__} has no meaning of its own")

    def clone(self) -> _Switch:
        """Return another switch of the same setting."""
        return type(self)()

    def __call__(self, function: _F) -> _F:
        if isinstance(function, type):
            warn_of_class()
        if _is_generator_function(function):
            return cast(_F, self._wrap_generator(function))

        @functools.wraps(function)
        def switched(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return cast(_F, switched)

    def _wrap_generator(self, function: Callable[..., Generator[Any, Any, Any]]) -> Any:
        """Switch while the generator runs, not while it waits."""

        @functools.wraps(function)
        def switched(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            with self.clone():
                generator = function(*args, **kwargs)
            resume, value = generator.send, None
            while True:
                try:
                    with self.clone():
                        item = resume(value)
                except StopIteration as end:
                    return end.value
                try:
                    value = yield item
                    resume = generator.send
                except GeneratorExit:
                    with self.clone():
                        generator.close()
                    raise
                except BaseException as error:  # handed to the generator, which may handle it
                    value, resume = error, generator.throw

        return switched


class no_grad(_C._GradToggle, _Switch):
    """Record nothing inside; results do not require grad.

    Source:
        torch.no_grad.
    """

    _own_mode = False


class enable_grad(_C._GradToggle, _Switch):
    """Record inside, also where recording is off outside.

    Source:
        torch.enable_grad.
    """

    _own_mode = True


class set_grad_enabled(_C._GradSetter, _Switch):
    """Switch recording on or off, at once and until the end of the context when used as one.

    Args:
        mode: Whether to record.

    Source:
        torch.set_grad_enabled.
    """

    def __call__(self, function: _F) -> _F:
        """Decorate *function*; outside it nothing changes."""
        _C._set_grad_enabled(self._before)
        return super().__call__(function)

    def clone(self) -> set_grad_enabled:
        """Return another switch of the same setting."""
        return type(self)(self.mode)

    def __repr__(self) -> str:
        kind = type(self)
        return f"{kind.__module__}.{kind.__qualname__}(mode={self.mode})"


class inference_mode(_C._InferenceSwitch, _Switch):
    """Record nothing inside, nor count versions and track views of what is made inside.

    So a tensor made inside cannot be saved for backward, made to require grad, or changed in place
    outside; a clone can. Views of other tensors made inside cannot be changed in place under
    recording.

    Args:
        mode: False leaves inference mode inside a context that is in it.

    Source:
        torch.inference_mode.
    """

    def clone(self) -> inference_mode:
        """Return another switch of the same setting."""
        return type(self)(self.mode)


class set_multithreading_enabled(_Switch):
    """Accepted for compatibility: backward runs on the thread that calls it.

    Args:
        mode: Without effect.

    Source:
        torch.autograd.set_multithreading_enabled.
    """

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        return

    def __exit__(self, *exc: object) -> None:
        return

    def clone(self) -> set_multithreading_enabled:
        """Return another switch of the same setting."""
        return type(self)(self.mode)
