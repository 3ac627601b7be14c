"""Modules and parameters in order."""

from __future__ import annotations

import operator
import warnings
from collections import OrderedDict
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, overload

from shmtensor._core._settings import typename
from shmtensor._core._tensor import Tensor
from shmtensor.nn.modules.module import Module, _addindent
from shmtensor.nn.parameter import Parameter

if TYPE_CHECKING:
    from typing_extensions import Self


def _position(index: Any, length: int) -> int:
    """A non-negative index into something of *length*."""
    i = operator.index(index)
    if not -length <= i < length:
        raise IndexError(f"index {i} is out of range")
    return i % length


class Container(Module):
    """A module whose children are given by name; `Module` itself has taken its place.

    Args:
        **kwargs: The children.
    """

    def __init__(self, **kwargs: Module) -> None:
        super().__init__()
        warnings.warn(
            "nn.Container is deprecated. All of it's functionality is now implemented in "
            "nn.Module. Subclass that instead.",
            FutureWarning,
            stacklevel=2,
        )
        for name, module in kwargs.items():
            self.add_module(name, module)


class _Numbered(Module):
    """A module whose children are named "0", "1", ...; None keeps a place."""

    def _values(self) -> list[Any]:
        return list(self._modules.values())

    def _renumber(self, modules: Iterable[Any]) -> None:
        """Replace all children."""
        self._modules.clear()
        for i, module in enumerate(modules):
            self.add_module(str(i), module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values())

    def __contains__(self, module: object) -> bool:
        return any(m is module for m in self._values())


class Sequential(_Numbered):
    """Calls its children one after the other, each with the result of the one before.

    Args:
        *args: Modules, or one ``OrderedDict`` from names to modules.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def forward(self, input: Any) -> Any:
        """Whatever the first child takes to whatever the last child gives."""
        for module in self._modules.values():
            input = module(input)
        return input

    def _key(self, index: Any) -> str:
        return list(self._modules)[_position(index, len(self))]

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._key(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._key(index), module)

    def __delitem__(self, index: int | slice) -> None:
        keys = list(self._modules)[index] if isinstance(index, slice) else [self._key(index)]
        for key in keys:
            del self._modules[key]
        self._renumber(self._values())

    def __add__(self, other: object) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(
                "add operator supports only objects of Sequential class, but "
                f"{type(other)!s} is given."
            )
        return Sequential(*self._values(), *other._values())

    def __iadd__(self, other: object) -> Self:
        if not isinstance(other, Sequential):
            raise ValueError(
                "add operator supports only objects of Sequential class, but "
                f"{type(other)!s} is given."
            )
        self.extend(other)
        return self

    def _times(self, factor: object) -> int:
        """How often the children are repeated."""
        if not isinstance(factor, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(factor)}")
        if factor <= 0:
            raise ValueError(f"Non-positive multiplication factor {factor} for {type(self)}")
        return factor

    def __mul__(self, other: int) -> Sequential:
        return Sequential(*self._values() * self._times(other))

    def __rmul__(self, other: int) -> Sequential:
        return self * other

    def __imul__(self, other: int) -> Self:
        self.extend(self._values() * (self._times(other) - 1))
        return self

    def append(self, module: Module) -> Sequential:
        """Add a child at the end; returns self."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, sequential: Iterable[Module]) -> Sequential:
        """Add several children at the end; returns self."""
        for module in list(sequential):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Sequential:
        """Add a child before *index*; returns self."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        n = len(self)
        if not -n <= index <= n:
            raise IndexError(f"Index out of range: {index}")
        modules = self._values()
        modules.insert(index if index >= 0 else index + n, module)
        self._renumber(modules)
        return self

    def pop(self, key: int) -> Module:
        """Remove and return a child."""
        module: Module = self[key]
        del self[key]
        return module


class ModuleList(_Numbered):
    """A list of modules that its owner knows, with their parameters; it has no ``forward``.

    Args:
        modules: The first modules.

    Example:
        >>> layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        >>> len(layers), len(list(layers.parameters()))
        (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(self._values()[index])
        return self._modules[str(_position(index, len(self)))]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, str(_position(index, len(self))), module)

    def __delitem__(self, index: int | slice) -> None:
        modules = self._values()
        if isinstance(index, slice):
            del modules[index]
        else:
            del modules[_position(index, len(modules))]
        self._renumber(modules)

    def __iadd__(self, other: Iterable[Module]) -> ModuleList:
        return self.extend(other)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def append(self, module: Module) -> ModuleList:
        """Add a module at the end; returns self."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Add several modules at the end; returns self."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleList.extend should be called with an iterable, but got "
                f"{type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> None:
        """Add a module before *index*."""
        modules = self._values()
        modules.insert(index, module)
        self._renumber(modules)

    def pop(self, key: int) -> Module:
        """Remove and return a module."""
        module: Module = self[key]
        del self[key]
        return module

    def __repr__(self) -> str:
        """Neighbours that print alike are printed once, with their range."""
        if not len(self):
            return f"{self._get_name()}()"
        groups: list[tuple[int, int, str]] = []
        for i, module in enumerate(self):
            text = repr(module)
            if groups and groups[-1][2] == text:
                groups[-1] = (groups[-1][0], i, text)
            else:
                groups.append((i, i, text))
        lines = []
        for first, last, text in groups:
            name = f"({first})" if first == last else f"({first}-{last})"
            times = "" if first == last else f"{last - first + 1} x "
            lines.append(f"{name}: {times}{_addindent(text)}")
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ParameterList(Module):
    """A list of parameters; plain tensors become parameters when they are added."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)([self[i] for i in range(*index.indices(len(self)))])
        return getattr(self, str(_position(index, len(self))))

    def __setitem__(self, index: int, value: Any) -> None:
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, str(_position(index, len(self))), value)

    def append(self, value: Any) -> ParameterList:
        """Add a value at the end; returns self."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add several values at the end; returns self."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                "ParameterList.extend should be called with an iterable, but got "
                f"{type(values).__name__}"
            )
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: a list computes nothing."""
        raise RuntimeError("ParameterList should not be called.")

    def extra_repr(self) -> str:
        """Return one line for each value, with its dtype."""
        return _listed(enumerate(self), lambda tensor: str(tensor.dtype))


def _listed(values: Iterable[tuple[Any, Any]], name_type: Callable[[Tensor], str]) -> str:
    """One line for each key and value; *name_type* says what a tensor holds."""
    lines = []
    for key, value in values:
        if isinstance(value, Tensor):
            kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
            size = "x".join(str(n) for n in value.shape)
            lines.append(f"  ({key}): {kind} containing: [{name_type(value)} of size {size}]")
        else:
            lines.append(f"  ({key}): Object of type: {type(value).__name__}")
    return "\n".join(lines)


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
    """A dictionary of modules that its owner knows, with their parameters, in order of insertion.

    Args:
        modules: A mapping from names to modules, or pairs of both.
    """

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
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove and return one."""
        module = self[key]
        del self[key]
        return module

    def keys(self) -> KeysView[str]:
        """The names of the modules, in the order in which they were added."""
        return self._modules.keys()

    def items(self) -> ItemsView[str, Any]:
        """The names and modules."""
        return self._modules.items()

    def values(self) -> ValuesView[Any]:
        """The modules, in the order in which they were added."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add or replace modules: a mapping, or pairs of name and module."""
        for key, module in _pairs("ModuleDict", "module", modules):
            self[key] = module


class ParameterDict(Module):
    """A dictionary of parameters; plain tensors become parameters when they are added.

    Args:
        parameters: A mapping from names to values, or pairs of both. Pairs, an ``OrderedDict`` and
            a `ParameterDict` are added in their order, other mappings by name: the order of
            ``parameters()`` decides to which parameter an optimizer's saved state belongs.
    """

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
        return ParameterDict(self.items())

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of *key*, which becomes *default* if it was absent."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all parameters."""
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
        """The names of the parameters, in the order in which they were added."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """The names and values."""
        return [(key, self[key]) for key in self._keys]

    def values(self) -> Iterable[Any]:
        """The parameters, in the order in which they were added."""
        return [self[key] for key in self._keys]

    def update(self, parameters: Any) -> None:
        """Add or replace values: a mapping, or pairs of name and value."""
        pairs = _pairs("ParameterDict", "parameter", parameters)
        in_order = (OrderedDict, ParameterDict)
        if isinstance(parameters, Mapping) and not isinstance(parameters, in_order):
            pairs.sort(key=lambda pair: pair[0])
        for key, value in pairs:
            self[key] = value

    def __or__(self, other: ParameterDict) -> ParameterDict:
        result = self.copy()
        result.update(other)
        return result

    def __ror__(self, other: Mapping[str, Any]) -> ParameterDict:
        result = ParameterDict(other.items())
        result.update(self)
        return result

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise: a dictionary is not a function."""
        raise RuntimeError("ParameterDict should not be called.")

    def extra_repr(self) -> str:
        """Return one line for each value, with its type of the old style."""
        return _listed(self.items(), typename)
