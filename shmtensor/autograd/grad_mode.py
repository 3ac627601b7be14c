"""Switching recording: ``no_grad``, ``enable_grad``, ``set_grad_enabled``, ``inference_mode``.

Each is a context manager and a decorator; the switch is the calling thread's own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar, cast

from shmtensor import _C

if TYPE_CHECKING:
    from typing_extensions import Self

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


class _Toggle(_Switch):
    """A switch to one value, without arguments: usable as ``@no_grad`` too."""

    _value = False

    # Of a function it makes a function; type checkers know ``@no_grad()`` only.
    def __new__(cls, function: Callable[..., Any] | None = None) -> Self:
        switch = super().__new__(cls)
        return switch if function is None else cast("Self", switch(function))

    def __enter__(self) -> None:
        self._before = _C._set_grad_enabled(self._value)

    def __exit__(self, *exc: object) -> None:
        _C._set_grad_enabled(self._before)


class no_grad(_Toggle):
    """Record nothing inside; results do not require grad.

    Source:
        torch.no_grad.
    """

    _value = False


class enable_grad(_Toggle):
    """Record inside, also where recording is off outside.

    Source:
        torch.enable_grad.
    """

    _value = True


class set_grad_enabled(_Switch):
    """Switch recording on or off, at once and until the end of the context when used as one.

    Args:
        mode: Whether to record.

    Source:
        torch.set_grad_enabled.
    """

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self._before = _C._set_grad_enabled(mode)

    def __call__(self, function: _F) -> _F:
        """Decorate *function*; outside it nothing changes."""
        _C._set_grad_enabled(self._before)
        return super().__call__(function)

    def __enter__(self) -> None:
        _C._set_grad_enabled(self.mode)

    def __exit__(self, *exc: object) -> None:
        _C._set_grad_enabled(self._before)

    def clone(self) -> set_grad_enabled:
        """Return another switch of the same setting."""
        return type(self)(self.mode)


class inference_mode(_Switch):
    """Record nothing inside, nor count versions and track views of what is made inside.

    So a tensor made inside cannot be saved for backward, made to require grad, or changed in place
    outside; a clone can. Views of other tensors made inside cannot be changed in place under
    recording.

    Args:
        mode: False leaves inference mode inside a context that is in it.

    Source:
        torch.inference_mode.
    """

    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        """Make a switch, or decorate a function at once."""
        switch = super().__new__(cls)
        if isinstance(mode, bool):
            return switch
        switch.mode = True
        return switch(mode)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        self._inference = _C._set_inference_mode(self.mode)
        self._grad = _C._set_grad_enabled(not self.mode)

    def __exit__(self, *exc: object) -> None:
        _C._set_inference_mode(self._inference)
        _C._set_grad_enabled(self._grad)

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
