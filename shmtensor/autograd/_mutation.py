"""Graphs whose saved tensors may be changed in place: the values are copied before a change."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from shmtensor import _C
from shmtensor._core import _ops as _ops  # operator objects need its class
from shmtensor._core._tensor import Tensor
from shmtensor.autograd.graph import saved_tensors_hooks

__all__ = ["allow_mutation_on_saved_tensors"]


class _Kept:
    """What a node saved: the tensor itself, or its values from before a change."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor: Tensor | None = tensor
        self.copied = False


class _Context:
    """The tensors saved inside one `allow_mutation_on_saved_tensors`."""

    def __init__(self) -> None:
        # By storage. A node that goes takes what it saved with it.
        self._kept: dict[int, weakref.WeakSet[_Kept]] = {}
        self._all: weakref.WeakSet[_Kept] = weakref.WeakSet()

    def pack(self, tensor: Tensor) -> _Kept:
        """Take over what a node saves."""
        kept = _Kept(tensor)
        self._all.add(kept)
        self._kept.setdefault(tensor._storage_cdata, weakref.WeakSet()).add(kept)
        return kept

    def unpack(self, kept: _Kept) -> Tensor:
        """Give it back for backward."""
        assert kept.tensor is not None, (
            "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context"
            "in which the graph was originally recorded."
        )
        return kept.tensor

    def before_change(self, tensor: Tensor) -> None:
        """Copy what was saved of the memory of *tensor*."""
        for kept in self._kept.pop(tensor._storage_cdata, ()):
            if kept.tensor is not None and not kept.copied:
                kept.tensor = kept.tensor.detach().clone()
                kept.copied = True

    def clear(self) -> None:
        """Forget everything that was saved: the graphs made inside cannot be run any more."""
        for kept in self._all:
            kept.tensor = None
        self._all.clear()
        self._kept.clear()


class _Watch:
    """Tells the context of every write before it happens: a dispatch mode."""

    def __init__(self, context: _Context) -> None:
        self.context = context

    def __torch_dispatch__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        rows = _C._operator_arguments(func._handle)
        for position, (name, _, written, _) in enumerate(rows):
            if written:
                value = args[position] if position < len(args) else kwargs.get(name)
                for tensor in value if isinstance(value, (list, tuple)) else (value,):
                    if isinstance(tensor, Tensor):
                        self.context.before_change(tensor)
        return func(*args, **kwargs)


class allow_mutation_on_saved_tensors:
    """Allow tensors that are saved for backward inside the context to be changed in place there.

    Their values are copied before the first change. Backward must run inside the context.

    Raises:
        RuntimeError: Contexts are nested.
        AssertionError: In backward: the context has ended.

    Source:
        torch.autograd.graph.allow_mutation_on_saved_tensors.
    """

    _thread = threading.local()

    def __enter__(self) -> _Context:
        if getattr(self._thread, "inside", False):
            raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
        self._context = _Context()
        self._hooks = saved_tensors_hooks(self._context.pack, self._context.unpack)
        self._hooks.__enter__()
        _C._push_dispatch_mode(_Watch(self._context))
        self._thread.inside = True
        return self._context

    def __exit__(self, *exc: Any) -> None:
        self._thread.inside = False
        _C._pop_dispatch_mode()
        self._hooks.__exit__(*exc)
        self._context.clear()
