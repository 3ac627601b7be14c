"""Names of dimensions: ``names``, ``rename``, ``refine_names``, ``align_to``, ``align_as``.

Names belong to one tensor object. They say what a dimension means where tensors are brought into
line; operators do not look at them, and their results have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from shmtensor._core._tensor import Tensor

Names: TypeAlias = tuple[str | None, ...]


def names_of(tensor: Tensor) -> Names:
    """Return the name of each dimension, None for one without."""
    kept: Names | None = tensor.__dict__.get("_dimension_names")
    return kept if kept is not None and len(kept) == tensor.dim() else (None,) * tensor.dim()


def _check(names: Names, n_dims: int) -> None:
    if len(names) != n_dims:
        raise RuntimeError(
            f"Number of names ({len(names)}) and number of dimensions in tensor ({n_dims}) do not "
            f"match. Attempted to create a tensor with names {list(names)}"
        )
    for name in names:
        if name is not None and not (isinstance(name, str) and name.isidentifier()):
            raise RuntimeError(
                "Invalid name: a valid identifier contains only digits, alphabetical characters, "
                f"and/or underscore and starts with a non-digit. got: '{name}'."
            )
    given = [name for name in names if name is not None]
    if len(set(given)) < len(given):
        raise RuntimeError(
            f"Cannot construct a tensor with duplicate names. Got names: {list(names)}."
        )


def set_names(tensor: Tensor, names: Any) -> Tensor:
    """Name the dimensions of this object; None takes all names away. Returns it."""
    if names is None:
        tensor.__dict__.pop("_dimension_names", None)
        return tensor
    wanted = tuple(names)
    _check(wanted, tensor.dim())
    tensor.__dict__["_dimension_names"] = wanted
    return tensor


def _expand(names: tuple[Any, ...], before: Names, what: str) -> Names:
    """Put what *before* has there in the place of ``...``."""
    dots = [i for i, name in enumerate(names) if name in ("...", Ellipsis)]
    if not dots:
        return names
    if len(dots) > 1:
        raise RuntimeError(f"{what}: More than one Ellipsis ('...') found in names ({list(names)})")
    at = dots[0]
    n = len(before) - (len(names) - 1)
    if n < 0:
        raise RuntimeError(f"{what}: {list(names)} names more than the {len(before)} dimensions")
    return (*names[:at], *before[at : at + n], *names[at + 1 :])


def _renamed(tensor: Tensor, names: tuple[Any, ...], changes: dict[str, str | None]) -> Any:
    before = names_of(tensor)
    if names and changes:
        raise RuntimeError(
            "rename: expected either positional names or keyword arguments, got both: "
            f"{names} and {changes}"
        )
    if changes:
        for name in changes:
            if name not in before:
                raise RuntimeError(
                    f"rename: Tried to rename dim '{name}' to '{changes[name]}' in "
                    f"Tensor{list(before)} but dim '{name}' does not exist"
                )
        return tuple(changes.get(n, n) if n is not None else None for n in before)
    if names == (None,):
        return None
    return _expand(names, before, "rename")


def rename(tensor: Tensor, names: tuple[Any, ...], changes: dict[str, str | None]) -> Tensor:
    """Return a view with other names."""
    wanted = _renamed(tensor, names, changes)
    return set_names(tensor.view_as(tensor), wanted)


def rename_in_place(
    tensor: Tensor, names: tuple[Any, ...], changes: dict[str, str | None]
) -> Tensor:
    """Give this object other names."""
    return set_names(tensor, _renamed(tensor, names, changes))


def refine(tensor: Tensor, names: tuple[Any, ...]) -> Tensor:
    """Return a view that names dimensions without a name; the others must fit."""
    before = names_of(tensor)
    wanted = _expand(names, before, "refine_names")
    _check(wanted, tensor.dim())
    for i, (old, new) in enumerate(zip(before, wanted, strict=True)):
        if old is not None and old != new:
            raise RuntimeError(
                f"refine_names: cannot coerce Tensor{list(before)} to Tensor{list(wanted)} because "
                f"'{old}' is different from '{new}' at index {i}"
            )
    return set_names(tensor.view_as(tensor), wanted)


def align_to(tensor: Tensor, names: tuple[Any, ...]) -> Tensor:
    """Return a view with the dimensions in this order; new names get dimensions of size 1."""
    before = names_of(tensor)
    if None in before:
        raise RuntimeError(
            "align_to: All input dims must be named. Found unnamed dim at index "
            f"{before.index(None)} of Tensor{list(before)}"
        )
    wanted = names
    if "..." in names or Ellipsis in names:
        rest = tuple(name for name in before if name not in names)
        at = next(i for i, name in enumerate(names) if name in ("...", Ellipsis))
        wanted = (*names[:at], *rest, *names[at + 1 :])
    _check(wanted, len(wanted))
    missing = [name for name in before if name not in wanted]
    if missing:
        raise RuntimeError(
            f"align_to: Cannot find dim '{missing[0]}' of Tensor{list(before)} in the target "
            f"Tensor{list(wanted)}"
        )
    there = [before.index(name) for name in wanted if name in before]
    moved = tensor.permute(there)
    for i, name in enumerate(wanted):
        if name not in before:
            moved = moved.unsqueeze(i)
    return set_names(moved, wanted)
