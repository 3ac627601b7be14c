"""Parameters and buffers of a module by their names with dots."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shmtensor._core._tensor import Tensor
from shmtensor.nn.modules.module import Module

__all__ = ["NamedMemberAccessor", "swap_tensor"]

_ABSENT: Any = object()


def swap_tensor(module: Module, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """Put another tensor in the place of a parameter or buffer; returns the one before.

    Args:
        module: It.
        name: Of the parameter or buffer, without dots.
        tensor: The other one. What stands for "none was there" takes it away.
        allow_missing: There need be none.

    Raises:
        AttributeError: There is none.
        TypeError: *tensor* is neither a tensor nor None, or the attribute is neither.
    """
    if tensor is not None and tensor is not _ABSENT and not isinstance(tensor, Tensor):
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    for members in (module._parameters, module._buffers):
        if name in members:
            before = members[name]
            if tensor is _ABSENT:
                del members[name]
            else:
                members[name] = tensor
            return before
    if not hasattr(module, name) and not allow_missing:
        raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
    before = getattr(module, name, _ABSENT)
    if before is not None and before is not _ABSENT and not isinstance(before, Tensor):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor")
    if tensor is _ABSENT:
        if before is not _ABSENT:
            delattr(module, name)
    else:
        setattr(module, name, tensor)
    return before


class NamedMemberAccessor:
    """Finds and replaces parameters and buffers of a module by their names with dots.

    Args:
        module: It.
    """

    def __init__(self, module: Module) -> None:
        self.module = module

    def get_submodule(self, name: str) -> Module:
        """Return the module inside that has this name; the module itself for an empty one."""
        return self.module.get_submodule(name)

    def swap_tensor(self, path: str, value: Any, allow_missing: bool = False) -> Any:
        """Put another tensor in the place of one; returns the one before."""
        prefix, _, name = path.rpartition(".")
        return swap_tensor(self.get_submodule(prefix), name, value, allow_missing)

    def swap_tensors_dict(
        self, named_tensors: dict[str, Any], allow_missing: bool = False
    ) -> tuple[dict[str, Any], list[str]]:
        """Put other tensors in the places of some, all or none of them.

        Returns:
            Those before, by name, and names that there was nothing of.
        """
        before: dict[str, Any] = {}
        missing = []
        try:
            for path, value in named_tensors.items():
                before[path] = self.swap_tensor(path, value, allow_missing=True)
                if before[path] is _ABSENT:
                    missing.append(path)
            if missing and not allow_missing:
                raise RuntimeError(f"Missing key(s): {', '.join(map(repr, missing))}.")
        except Exception:
            for path, value in reversed(before.items()):
                self.swap_tensor(path, value, allow_missing=True)
            raise
        return before, missing

    def named_parameters(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Tensor]]:
        """Give the parameters with their names."""
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Tensor]]:
        """Give the parameters and buffers with their names."""
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def check_keys(self, keys: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return the names of the module that are not among *keys*, and the other way round."""
        given = set(keys)
        known = {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(known - given), sorted(given - known)
