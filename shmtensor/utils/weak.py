"""Weak references to tensors, and mappings whose keys are held weakly and told apart by identity.

A tensor cannot be a key of `weakref.WeakKeyDictionary`: its ``==`` compares elements.

Source:
    torch.utils.weak.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from copy import deepcopy
from typing import Any

from shmtensor._core._tensor import Tensor

_Entries = dict[Any, Any]  # the name is an argument's below

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref):  # type: ignore[type-arg]
    """A weak reference that equals another one of the same object, and only that.

    Args:
        key: The object.
        callback: Called with the reference when the object is gone.
    """

    __slots__ = ["_id"]

    def __init__(self, key: Any, callback: Callable[[WeakIdRef], Any] | None = None) -> None:
        self._id = id(key)
        super().__init__(key, callback)  # type: ignore[call-arg]

    def __call__(self) -> Any:
        """Return the object, or None when it is gone."""
        return super().__call__()

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine, its = self(), other() if isinstance(other, weakref.ref) else None
        if mine is None or its is None:
            return self is other  # another object may live at the same address by now
        return mine is its

    def __ne__(self, other: object) -> bool:
        return not self == other  # that of the base class compares the objects


class TensorWeakRef:
    """A weak reference to a tensor; equal to another one while both have the same tensor.

    Args:
        tensor: The tensor.

    Raises:
        AssertionError: It is none.
    """

    ref: WeakIdRef

    def __init__(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise AssertionError(f"expected torch.Tensor, got {type(tensor)}.")
        self.ref = WeakIdRef(tensor)

    def __call__(self) -> Tensor | None:
        """Return the tensor, or None when it is gone."""
        found: Tensor | None = self.ref()
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorWeakRef) and self.ref == other.ref

    def __hash__(self) -> int:
        return hash(self.ref)


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A mapping that forgets a key when nothing else holds it; keys are told apart by identity.

    Args:
        dict: First entries.
        ref_type: The type of the references to the keys.
    """

    def __init__(
        self,
        dict: Mapping[Any, Any] | Iterable[tuple[Any, Any]] | None = None,
        ref_type: Callable[..., Any] = WeakIdRef,
    ) -> None:
        self.data: _Entries = {}
        self.ref_type = ref_type
        owner = weakref.ref(self)

        def forget(reference: Any) -> None:
            mapping = owner()
            if mapping is not None:
                mapping.data.pop(reference, None)

        self._forget = forget
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._forget)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # of what there are no weak references
            return False

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):  # entries may vanish meanwhile
            key = reference()
            if key is not None:
                yield key

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def keyrefs(self) -> list[Any]:
        """Return the references to the keys; some may be gone by the time they are asked."""
        return list(self.data)

    def copy(self) -> WeakIdKeyDictionary:
        """Return a mapping with the same keys and values."""
        return WeakIdKeyDictionary(self, self.ref_type)

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> WeakIdKeyDictionary:
        copied = type(self)(ref_type=self.ref_type)
        for key, value in self.items():
            copied[key] = deepcopy(value, memo)
        return copied

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        mine, its = ({id(k): v for k, v in each.items()} for each in (self, other))
        return mine == its

    def __or__(self, other: Any) -> WeakIdKeyDictionary:
        if not isinstance(other, Mapping):
            return NotImplemented
        joined = self.copy()
        joined.update(other)
        return joined

    def __ror__(self, other: Any) -> WeakIdKeyDictionary:
        if not isinstance(other, Mapping):
            return NotImplemented
        return type(self)(other, self.ref_type) | self

    def __ior__(self, other: Any) -> WeakIdKeyDictionary:
        self.update(other)
        return self


WeakTensorKeyDictionary = WeakIdKeyDictionary
