"""Forward mode: derivatives that are computed together with the values.

Inside a `dual_level`, `make_dual` gives a tensor a tangent. Every operator gives its results the
tangents that follow from those of its arguments: the product of its Jacobian with them. When the
level ends, its tangents are gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from shmtensor import _C
from shmtensor.autograd.grad_mode import _Switch

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]

_current_level = -1  # 0 while there is one: dual_level does not nest
_number = -1  # of the current level, in the C core


def enter_dual_level() -> int:
    """Begin a level of forward mode.

    Prefer `dual_level`, which also ends it.

    Returns:
        The number of the level, 0.

    Raises:
        RuntimeError: A level has begun already, in this thread or another; or this thread is inside
            of ``func.jvp``.

    Source:
        torch.autograd.forward_ad.enter_dual_level.
    """
    global _current_level, _number  # the level is the process's, as in torch
    _number = _C._enter_dual_level()
    _current_level = 0
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End a level. Tensors keep their values and lose the tangents of that level.

    Args:
        level: Its number; by default the one that has begun last.

    Raises:
        RuntimeError: No level has begun, or *level* is not the last one.

    Source:
        torch.autograd.forward_ad.exit_dual_level.
    """
    global _current_level, _number  # as above
    if level is None:
        level = _current_level
    if level < 0:
        raise RuntimeError("Dual level must be a positive number.")
    _C._exit_dual_level(_number_of(level))
    _current_level = _number = -1


def in_dual_level() -> bool:
    """Return whether a level has begun and not ended, in any thread."""
    return _current_level >= 0


def _number_of(level: int) -> int:
    """What the C core calls a level; -1 when it has not begun."""
    return _number if level == _current_level else -1


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """Make a dual tensor: *tensor* with a tangent.

    Args:
        tensor: Floating point or complex.
        tangent: Floating point or complex, of the shape of *tensor*. It is used as it is where its
            strides are those of *tensor*, and copied otherwise.
        level: Of forward mode; by default the current one.

    Returns:
        A view of *tensor*, which itself stays without a tangent. Gradients flow through both.

    Raises:
        RuntimeError: No level has begun, the shapes differ, or either tensor has a tangent already.
        ValueError: Either is neither floating point nor complex.

    Source:
        torch.autograd.forward_ad.make_dual.
    """
    if level is None:
        level = _current_level
    if level < 0:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    for name, value in (("primal", tensor), ("tangent", tangent)):
        if not (value.is_floating_point() or value.is_complex()):
            raise ValueError(
                f"Expected {name} to be floating point or complex, but got: {value.dtype}"
            )
    return _C._make_dual(tensor, tangent, _number_of(level))


class UnpackedDualTensor(NamedTuple):
    """A dual tensor taken apart, as `unpack_dual` returns it.

    Attributes:
        primal: A view of the tensor without the tangent.
        tangent: The tangent, or None.
    """

    primal: Any
    tangent: Any | None


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """Take a dual tensor apart.

    Args:
        tensor: Any tensor; one without a tangent has the tangent None.
        level: Of forward mode; by default the current one.

    Returns:
        A view of its values without tangent, and the tangent.

    Source:
        torch.autograd.forward_ad.unpack_dual.
    """
    if level is None:
        level = _current_level
    if level < 0:
        return UnpackedDualTensor(tensor, None)
    primal, tangent = _C._unpack_dual(tensor, _number_of(level))
    return UnpackedDualTensor(primal, tangent)


class dual_level(_Switch):
    """Forward mode inside: a context manager and a decorator.

    Levels do not nest. Tangents end with the level; take out with `unpack_dual` what is to stay.

    Source:
        torch.autograd.forward_ad.dual_level.
    """

    def __enter__(self) -> int:  # type: ignore[override]
        return enter_dual_level()

    def __exit__(self, *exc: object) -> None:
        exit_dual_level()


class _set_fwd_grad_enabled(_Switch):
    """Follow tangents, or not: at once, and until the end of the context when used as one."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self.prev = _C._set_fwd_grad_enabled(mode)

    def __call__(self, function: Callable[..., Any]) -> Any:
        _C._set_fwd_grad_enabled(self.prev)
        return super().__call__(function)

    def clone(self) -> _set_fwd_grad_enabled:
        """Return another switch to the same mode."""
        return type(self)(self.mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _C._set_fwd_grad_enabled(self.prev)


def _is_fwd_grad_enabled() -> bool:
    return bool(_C._is_fwd_grad_enabled())
