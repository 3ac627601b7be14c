"""Which inputs of a function a transform differentiates.

Source:
    torch._functorch.vmap and eager_transforms: ``argnums``.
"""

from __future__ import annotations

from typing import Any

__all__ = ["checked_argnums", "replace_args", "slice_argnums"]


def _checked_argnum(argnum: Any, count: int) -> int:
    if not isinstance(argnum, int):
        raise RuntimeError(f"argnum must be int, got: {type(argnum)}")
    if not -count <= argnum < count:
        raise RuntimeError(f"Got argnum={argnum}, but only {count} positional inputs")
    return argnum % count


def checked_argnums(argnums: Any, count: int) -> tuple[int, ...]:
    if isinstance(argnums, int):
        return (_checked_argnum(argnums, count),)
    if not isinstance(argnums, tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    if len(argnums) == 0:
        raise RuntimeError("argnums must be non-empty")
    found = tuple(_checked_argnum(argnum, count) for argnum in argnums)
    if len(set(found)) != len(found):
        raise RuntimeError(f"argnums elements must be unique, got {found}")
    return found


def slice_argnums(args: tuple[Any, ...], argnums: Any, as_tuple: bool = True) -> Any:
    numbers = checked_argnums(argnums, len(args))
    chosen = tuple(args[i] for i in numbers)
    return chosen if as_tuple or not isinstance(argnums, int) else chosen[0]


def replace_args(args: tuple[Any, ...], new: tuple[Any, ...], argnums: Any) -> tuple[Any, ...]:
    replaced = list(args)
    for i, value in zip(checked_argnums(argnums, len(args)), new, strict=True):
        replaced[i] = value
    return tuple(replaced)
