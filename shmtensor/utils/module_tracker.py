"""Which modules are being called, by their names.

Source:
    torch.utils.module_tracker.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from shmtensor._core._tensor import Tensor
from shmtensor.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from shmtensor.nn import Module

__all__ = ["ModuleTracker"]


def _recorded_tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor) and leaf.requires_grad]


class ModuleTracker:
    """A context; in it, ``parents`` has the names of the modules that are being called.

    That goes for the backward pass too: a module is in it from the gradients of its outputs until
    those of its inputs. ``"Global"`` is always there. A module that is called by itself has its
    class as name; those inside it have the names of ``named_modules`` behind that.

    Attributes:
        parents: The names.
        is_bw: Whether the backward pass of a module is under way.

    Source:
        torch.utils.module_tracker.ModuleTracker.
    """

    parents: set[str]

    def __init__(self) -> None:
        self.parents = {"Global"}
        self.is_bw = False
        self._names: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()
        self._handles: list[Any] = []

    def _name_of(self, module: Module) -> str:
        if module not in self._names:
            root = type(module).__name__
            for name, inner in module.named_modules():
                self._names[inner] = f"{root}.{name}" if name else root
        return self._names[module]

    def _hook(self, tensors: list[Tensor], change: Callable[[str], None], name: str) -> None:
        """Change the names when one of the tensors has its gradient."""

        def changed(gradient: Tensor) -> None:
            change(name)
            self.is_bw = len(self.parents) > 1

        self._handles += [tensor.register_hook(changed) for tensor in tensors]

    def _begin(self, module: Module, args: Any) -> None:
        name = self._name_of(module)
        self.parents.add(name)
        self._hook(_recorded_tensors(args), self.parents.discard, name)

    def _end(self, module: Module, args: Any, result: Any) -> None:
        name = self._name_of(module)
        self.parents.discard(name)
        self._hook(_recorded_tensors(result), self.parents.add, name)

    def __enter__(self) -> ModuleTracker:
        # nn stands above utils, and is loaded when modules are called.
        from shmtensor.nn import _global_hooks as all_modules

        self._handles = [
            all_modules.register_module_forward_pre_hook(self._begin),
            all_modules.register_module_forward_hook(self._end, always_call=True),
        ]
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self.parents.clear()
        self.parents.add("Global")
        self.is_bw = False
