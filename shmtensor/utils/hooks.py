"""Handles that take a hook out of the dictionary it was put in; hooks and pickling."""

from __future__ import annotations

import copyreg
import itertools
import warnings
import weakref
from abc import ABCMeta
from collections import OrderedDict
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from shmtensor import _C

__all__ = ["RemovableHandle", "add_hook", "unserializable_hook", "warn_if_has_hooks"]

_ids = itertools.count()


class RemovableHandle(metaclass=ABCMeta):
    """What registering a hook returns: ``remove()``, or use it in ``with``.

    The dictionary is held weakly: a handle keeps no module alive. A handle can be copied and
    pickled, best together with what has the hook: its copy removes the copy's hook.

    Args:
        hooks_dict: Where the hook is going to be stored, under ``id``.
        extra_dict: Further dictionaries that hold an entry of the same id.
    """

    id: int

    def __init__(
        self,
        hooks_dict: OrderedDict[int, Any],
        *,
        extra_dict: list[OrderedDict[int, Any]] | None = None,
    ) -> None:
        dicts = (hooks_dict, *(extra_dict or ()))
        self.id = next(_ids)
        while any(self.id in hooks for hooks in dicts):  # from a file, or another process
            self.id = next(_ids)
        self._dicts = [weakref.ref(hooks) for hooks in dicts]

    def __getstate__(self) -> Any:
        first, *more = (reference() for reference in self._dicts)
        return first, self.id, tuple(more)

    def __setstate__(self, state: Any) -> None:
        first, self.id, *more = state
        dicts = (first, *(more[0] or () if more else ()))
        # What is gone, or was pickled for this handle alone, has no hook to remove.
        self._dicts = [weakref.ref(OrderedDict() if hooks is None else hooks) for hooks in dicts]

    def remove(self) -> None:
        """Forget the hook; a second call does nothing."""
        for reference in self._dicts:
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()


def _removed_handle() -> Any:
    return RemovableHandle(OrderedDict())


def _reduce_handle(_: Any) -> Any:
    return _removed_handle, ()


# What registering hooks of nodes and of updated gradients returns: the same for a program that
# asks. Such hooks are not sent and not copied, so the copy of a handle has nothing to remove.
RemovableHandle.register(_C._HookHandle)
copyreg.pickle(_C._HookHandle, _reduce_handle)


def add_hook(
    hooks: OrderedDict[int, Any],
    hook: Callable[..., Any],
    *,
    prepend: bool = False,
    flags: Iterable[tuple[OrderedDict[int, bool], bool]] = (),
) -> RemovableHandle:
    """Store *hook* in *hooks*, last or first, and return its handle.

    Args:
        hooks: Where the hook is stored.
        hook: It.
        prepend: Whether it comes first.
        flags: Dictionaries of the hooks that have a property, and whether this one has it.
    """
    marked = [of_flag for of_flag, is_set in flags if is_set]
    handle = RemovableHandle(hooks, extra_dict=marked)
    hooks[handle.id] = hook
    for of_flag in marked:
        of_flag[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def unserializable_hook(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a hook as one that may stay behind when its tensor is sent; returns it.

    Source:
        torch.utils.hooks.unserializable_hook.
    """
    hook.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return hook


def warn_if_has_hooks(tensor: Any) -> None:
    """Warn of each backward hook of *tensor* that it is not sent, unless it is marked.

    Source:
        torch.utils.hooks.warn_if_has_hooks.
    """
    for hook in (tensor._backward_hooks or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, "
                "you can decorate the function with @torch.utils.hooks.unserializable_hook to "
                "suppress this warning",
                stacklevel=3,
            )
