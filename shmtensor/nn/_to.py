"""The arguments of the methods ``to`` of modules and packed sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import shmtensor
from shmtensor._core._tensor import Tensor

__all__ = ["parse_to"]

_FORMS = (
    ("device", "dtype", "non_blocking", "copy"),
    ("dtype", "non_blocking", "copy"),
    ("tensor", "non_blocking", "copy"),
)
_OWN_FORMS = """\
 * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, \
bool copy = False, *, torch.memory_format memory_format = None)
 * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, \
torch.memory_format memory_format = None)
 * (Tensor tensor, bool non_blocking = False, bool copy = False, *, \
torch.memory_format memory_format = None)
"""


def _is_of(name: str, value: Any) -> bool:
    """Whether the argument *name* can have this value."""
    if name == "device":
        index = isinstance(value, int) and not isinstance(value, bool)
        return value is None or index or isinstance(value, (str, shmtensor.device))
    if name == "dtype":
        return value is None or isinstance(value, shmtensor.dtype)
    if name == "tensor":
        return isinstance(value, Tensor)
    if name == "memory_format":
        return value is None or isinstance(value, shmtensor.memory_format)
    return isinstance(value, bool)


def _bind(
    form: Sequence[str], args: Sequence[Any], kwargs: dict[str, Any]
) -> dict[str, Any] | None:
    """The values by name, or None when they do not have this form."""
    if len(args) > len(form):
        return None
    bound = dict(zip(form, args, strict=False))
    for name, value in kwargs.items():
        if name in bound or name not in (*form, "memory_format"):
            return None
        bound[name] = value
    is_first_given = form[0] == "device" or bound.get(form[0]) is not None
    is_whole = is_first_given and all(_is_of(name, value) for name, value in bound.items())
    return bound if is_whole else None


def parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
    """Read the arguments of ``to``.

    Returns:
        ``(device, dtype, memory_format)``, each None where it is to stay.

    Raises:
        TypeError: The arguments have none of the forms.
        RuntimeError: ``copy`` is given: what has this method is changed, or kept, as a whole.
    """
    found = (bound for form in _FORMS if (bound := _bind(form, args, kwargs)) is not None)
    bound = next(found, None)
    if bound is None:
        got = [_type_of(value) for value in args]
        got += [f"{name}={_type_of(value)}" for name, value in kwargs.items()]
        if not args:
            got.append("")
        raise TypeError(
            f"to() received an invalid combination of arguments - got ({', '.join(got)}), but "
            f"expected one of:\n{_OWN_FORMS}"
        )
    if "copy" in bound:
        raise RuntimeError(".to() does not accept copy argument")
    tensor = bound.get("tensor")
    if tensor is not None:
        return tensor.device, tensor.dtype, bound.get("memory_format")
    device = bound.get("device")
    device = None if device is None else shmtensor.device(device)
    return device, bound.get("dtype"), bound.get("memory_format")


def _type_of(value: Any) -> str:
    """How the message names the type of a value."""
    if isinstance(value, Tensor):
        return "Tensor"
    kind = type(value)
    is_ours = kind.__module__.partition(".")[0] in ("shmtensor", "torch")  # as_torch names them so
    return f"torch.{kind.__name__}" if is_ours else kind.__name__
