"""Where the tensors of a layer are made, from the arguments of its class."""

from __future__ import annotations

from typing import Any

__all__ = ["factory_kwargs"]

_SIMPLE = ("device", "dtype", "memory_format")


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """Return the arguments for a factory, such as `empty`, that were given to a layer.

    Args:
        kwargs: ``device``, ``dtype``, ``memory_format``, or a dict of them as ``factory_kwargs``.

    Raises:
        TypeError: Something else, or one of them twice.

    Source:
        torch.nn.factory_kwargs.
    """
    if kwargs is None:
        return {}
    unexpected = kwargs.keys() - {*_SIMPLE, "factory_kwargs"}
    if unexpected:
        raise TypeError(f"unexpected kwargs {unexpected}")
    found = dict(kwargs.get("factory_kwargs", {}))
    for name in _SIMPLE:
        if name in kwargs:
            if name in found:
                raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
            found[name] = kwargs[name]
    return found
