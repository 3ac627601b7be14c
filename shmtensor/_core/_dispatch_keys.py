"""Dispatch keys with torch's names, for registrations and for contexts without some of them.

Keys of devices and layouts that are not here are names only: a set may hold them, and nothing asks.

Source:
    torch._C.DispatchKey, torch._C.DispatchKeySet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any

from shmtensor import _C

__all__ = ["DisableTorchDispatch", "DispatchKey", "DispatchKeySet", "is_absent", "own_name"]

_OWN = """
    ADInplaceOrView Autograd AutogradSparse BackendSelect CPU CompositeExplicitAutograd
    CompositeImplicitAutograd Conjugate Meta Negative Python SparseCPU SparseCsrCPU
""".split()
_ALIASES = {
    "AutocastCPU": "Autocast",
    "AutogradCPU": "Autograd",
    "AutogradMeta": "Autograd",
    "CompositeExplicitAutogradNonFunctional": "CompositeExplicitAutograd",
}
_DEVICES = "CUDA HIP HPU IPU Lazy MAIA MPS MTIA PrivateUse1 PrivateUse2 PrivateUse3 VE XLA XPU"
_KINDS = ("", "Autocast", "Autograd", "NestedTensor", "Quantized", "Sparse", "SparseCsr")
_OTHERS = """
    AutogradFunctionality AutogradNestedTensor AutogradOther
    CompositeImplicitAutogradNestedTensor Dense FuncTorchBatched FuncTorchBatchedDecomposition
    FuncTorchDynamicLayerBackMode FuncTorchDynamicLayerFrontMode FuncTorchGradWrapper
    FuncTorchVmapMode Functionalize NestedTensor NestedTensorCPU NestedTensorMeta PreDispatch
    PythonDispatcher PythonTLSSnapshot Quantized QuantizedCPU QuantizedMeta Sparse SparseCsr
    SparseCsrMeta SparseMeta Undefined ZeroTensor
"""


def is_absent(name: str) -> bool:
    """Return whether torch has a key of this name for what is not here."""
    for kind in _KINDS:
        if name.startswith(kind) and name[len(kind) :] in _DEVICES.split():
            return True
    return name in _OTHERS.split()


def own_name(name: str) -> str:
    """Return what the key is called here."""
    return _ALIASES.get(name, name)


class _Keys(type):
    """Finds keys as attributes of `DispatchKey`."""

    def __getattr__(cls, name: str) -> Any:
        if name not in _OWN and name not in _ALIASES and not is_absent(name):
            raise AttributeError(f"type object 'DispatchKey' has no attribute {name!r}")
        key: Any = object.__new__(cls)  # type: ignore[arg-type]
        key.name = name
        setattr(cls, name, key)
        return key


class DispatchKey(metaclass=_Keys):
    """A dispatch key: ``DispatchKey.CPU`` and its like.

    Attributes:
        name: What it is called.
    """

    name: str

    def __init__(self) -> None:
        raise TypeError("DispatchKey: its keys are attributes of the class")

    def __repr__(self) -> str:
        return f"DispatchKey.{self.name}"


class DispatchKeySet:
    """A set of dispatch keys.

    Args:
        keys: One or several.
    """

    def __init__(self, keys: DispatchKey | Iterable[DispatchKey] = ()) -> None:
        several = [keys] if isinstance(keys, DispatchKey) else keys
        self._keys = frozenset(several)

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._keys | other._keys)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._keys & other._keys)

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._keys - other._keys)

    def __iter__(self) -> Iterator[DispatchKey]:
        return iter(self._keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self) -> int:
        return hash(self._keys)

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(sorted(key.name for key in self._keys))})"

    def has(self, key: DispatchKey) -> bool:
        """Return whether a key is in it."""
        return key in self._keys

    def add(self, key: DispatchKey) -> DispatchKeySet:
        """Return a set with the key."""
        return DispatchKeySet(self._keys | {key})

    def remove(self, key: DispatchKey) -> DispatchKeySet:
        """Return a set without the key."""
        return DispatchKeySet(self._keys - {key})


class _Guard:
    """A context with other keys of this thread."""

    _is_included = False

    def __init__(self, keys: DispatchKeySet) -> None:
        names = {own_name(key.name) for key in keys}
        self._names = [name for name in names if not is_absent(name)]
        self._before: dict[str, bool] = {}

    def __enter__(self) -> None:
        self._before = {
            name: _C._change_keys(self._is_included, name, True) for name in self._names
        }

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name, was in self._before.items():
            _C._change_keys(self._is_included, name, was)


class ExcludeDispatchKeyGuard(_Guard):
    """A context in which kernels of some keys are passed over."""


class IncludeDispatchKeyGuard(_Guard):
    """A context in which kernels of some keys are called for every tensor."""

    _is_included = True


class AutoDispatchBelowAutograd(ExcludeDispatchKeyGuard):
    """A context in which nothing is recorded, and versions of tensors are not counted."""

    def __init__(self) -> None:
        super().__init__(DispatchKeySet([DispatchKey.Autograd, DispatchKey.ADInplaceOrView]))


class DisableTorchDispatch:
    """While one exists, or is a context, no class and no mode is asked: kernels run at once.

    Most of them refuse a tensor without memory.

    Source:
        torch._C._DisableTorchDispatch.
    """

    def __init__(self) -> None:
        names = ("Python", "PythonBelowAutograd")
        self._before = [(name, _C._change_keys(False, name, True)) for name in names]

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__del__()

    def __del__(self) -> None:
        while self._before:
            name, was = self._before.pop()
            _C._change_keys(False, name, was)
