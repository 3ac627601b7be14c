"""Modules and parameters by name. Source: torch.nn."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any

from shmtensor._tensor import Tensor
from shmtensor.nn.module import Module
from shmtensor.nn.parameter import Parameter


def _pairs(owner: str, what: str, given: Any) -> list[tuple[str, Any]]:
    """The (name, value) pairs of a mapping or of an iterable of pairs."""
    if not isinstance(given, Iterable):
        raise TypeError(
            f"{owner}.update should be called with an iterable of key/value pairs, but got "
            f"{type(given).__name__}"
        )
    if isinstance(given, (Mapping, ModuleDict, ParameterDict)):
        return list(given.items())
    pairs = []
    for k, item in enumerate(given):
        if not isinstance(item, Iterable):
            raise TypeError(
                f"{owner} update sequence element #{k} should be Iterable; is {type(item).__name__}"
            )
        pair = tuple(item)
        if len(pair) != 2:
            raise ValueError(
                f"{owner} update sequence element #{k} has length {len(pair)}; 2 is required"
            )
        pairs.append(pair)
    return pairs


class ModuleDict(Module):
    """A dictionary of modules whose parameters are found, in order of insertion."""

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove and return one."""
        module = self[key]
        del self[key]
        return module

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._modules.keys()

    def items(self) -> ItemsView[str, Any]:
        """The names and modules."""
        return self._modules.items()

    def values(self) -> ValuesView[Any]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add or replace modules: a mapping, or pairs of name and module."""
        for key, module in _pairs("ModuleDict", "module", modules):
            self[key] = module


class ParameterDict(Module):
    """A dictionary of parameters; plain tensors become parameters when they are added."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string (type "
                f"is '{type(key).__name__}')."
            )
        self._keys[key] = None
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, key, value)

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """A new dictionary of the same parameters."""
        return ParameterDict({key: self[key] for key in self._keys})

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of *key*, which becomes *default* if it was absent."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove and return one."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the last pair."""
        key = next(reversed(self))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of *key*, or *default*."""
        return getattr(self, key) if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new dictionary with one value for all *keys*."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """The names and values."""
        return [(key, self[key]) for key in self._keys]

    def values(self) -> Iterable[Any]:
        """The values."""
        return [self[key] for key in self._keys]

    def update(self, parameters: Any) -> None:
        """Add or replace values: a mapping, or pairs of name and value."""
        for key, value in _pairs("ParameterDict", "parameter", parameters):
            self[key] = value

    def __or__(self, other: ParameterDict) -> ParameterDict:
        result = self.copy()
        result.update(other)
        return result

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise: a dictionary is no function."""
        raise RuntimeError("ParameterDict should not be called.")

    def __repr__(self) -> str:
        lines = []
        for key, value in self.items():
            if isinstance(value, Tensor):
                kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
                size = "x".join(str(n) for n in value.shape)
                lines.append(f"  ({key}): {kind} containing: [{value.dtype} of size {size}]")
            else:
                lines.append(f"  ({key}): Object of type: {type(value).__name__}")
        return "ParameterDict(\n" + "\n".join(lines) + "\n)" if lines else "ParameterDict()"
