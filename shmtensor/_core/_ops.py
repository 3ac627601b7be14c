"""Operators as objects: ``shmtensor.ops.<namespace>.<name>.<overload>``."""

from __future__ import annotations

import importlib
import os
from typing import Any, ClassVar

from shmtensor import _C

__all__ = ["HigherOrderOperator", "OpOverload", "OpOverloadPacket", "ops"]

#: Folder and name of a compiled library -> the module that defines the same operators.
_STAND_INS = {
    ("torchvision", "_C"): "as_torch.torchvision_operators",
    ("torchvision", "_C_stable"): "as_torch.torchvision_operators",
    ("torchvision", "image"): "as_torch.torchvision_images",
}


def _answering(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any] | None:
    """The arguments, with what is in lists, if one of them or a mode answers calls itself."""
    found: list[Any] = []
    for each in (*args, *kwargs.values()):
        found += each if isinstance(each, list | tuple) else [each]
    return found if _C._has_override(*found) else None


def _let_answer(
    operator: Any, answering: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    from shmtensor.overrides import handle_torch_function  # it imports this package's tensors

    return handle_torch_function(operator, answering, *args, **kwargs)


class OpOverload:
    """One operator: a name, an overload and a schema. Calling it dispatches as any call does."""

    def __init__(self, handle: Any, name: str, overload: str, schema: str) -> None:
        self._handle = handle
        self._name = name
        self._overload = overload
        self._schema_text = schema
        self.namespace, _, self._plain = name.rpartition("::")
        self.namespace = self.namespace or "aten"
        self.__name__ = f"{self._plain}.{overload or 'default'}"
        self.__qualname__ = self.__name__
        from shmtensor._core._tensor import Tensor  # under as_torch it says torch

        self.__module__ = f"{Tensor.__module__}._ops.{self.namespace}"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if (answering := _answering(args, kwargs)) is not None:
            return _let_answer(self, answering, args, kwargs)
        return _C._call_operator(self._handle, *args, **kwargs)

    def name(self) -> str:
        """Return the qualified name, ``namespace::name.overload``."""
        tail = f".{self._overload}" if self._overload else ""
        return f"{self.namespace}::{self._plain}{tail}"

    @property
    def _schema(self) -> str:
        return self._schema_text

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """All overloads of this name."""
        return OpOverloadPacket(self._name)

    def has_kernel_for_dispatch_key(self, key: str) -> bool:
        """Return whether a kernel was registered for exactly this key."""
        return bool(_C._operator_has_kernel(self._handle, key))

    def __repr__(self) -> str:
        overload = self._overload or "default"
        return f"<OpOverload(op='{self.namespace}.{self._plain}', overload='{overload}')>"

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __hash__(self) -> int:
        return hash((self._name, self._overload))

    def __eq__(self, other: object) -> bool:
        return self is other

    def __deepcopy__(self, memo: dict[int, Any]) -> OpOverload:
        return self


class OpOverloadPacket:
    """All overloads of one name. Calling it takes the first overload the arguments fit."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._overloads: list[OpOverload] = _C._operator_overloads(name)
        if not self._overloads:
            raise AttributeError(f"there is no operator '{name}'")
        self.__name__ = name.rpartition("::")[2]

    def overloads(self) -> list[str]:
        """Return the names of the overloads; ``"default"`` for the one without."""
        return [o._overload or "default" for o in self._overloads]

    def __getattr__(self, overload: str) -> OpOverload:
        if overload.startswith("__"):
            raise AttributeError(overload)
        wanted = "" if overload == "default" else overload
        for each in self._overloads:
            if each._overload == wanted:
                return each
        known = ", ".join(self.overloads())
        raise AttributeError(
            f"The underlying op of '{self._name}' has no overload name '{overload}' "
            f"(known: {known})"
        )

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if (answering := _answering(args, kwargs)) is not None:
            return _let_answer(self, answering, args, kwargs)
        if len(self._overloads) == 1:
            return self._overloads[0](*args, **kwargs)
        problems = []
        for each in self._overloads:
            try:
                return each(*args, **kwargs)
            except TypeError as error:
                problems.append(f"{each}: {error}")
        raise TypeError(f"no overload of '{self._name}' fits:\n" + "\n".join(problems))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpOverloadPacket) and self._name == other._name

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self._name.replace('::', '.')}')>"


class HigherOrderOperator:
    """An operator that takes functions, as a base. Without tracing, calling one is not offered.

    Args:
        name: Its name.
        cacheable: Accepted.

    Raises:
        RuntimeError: It is this class itself.

    Source:
        torch._ops.HigherOrderOperator.
    """

    def __init__(self, name: str, *, cacheable: bool = False) -> None:
        if type(self) is HigherOrderOperator:
            raise RuntimeError(
                "Direct instantiation of HigherOrderOperator is not allowed. Please subclass it."
            )
        self._name = name
        self.__name__ = name
        self.namespace = "higher_order"

    def name(self) -> str:
        """Return the name."""
        return self._name

    def py_impl(self, k: Any) -> Any:
        """Return a decorator that returns its function: no call is dispatched to it."""
        return lambda function: function

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Raise NotImplementedError, unless the class says what a call does."""
        raise NotImplementedError(
            f"{self._name}: operators that take functions are not dispatched here"
        )

    def __str__(self) -> str:
        return self._name


class _Namespace:
    """The operators of one namespace."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> OpOverloadPacket:
        builtin = self._name in ("aten", "shmtensor")
        full = name if builtin else f"{self._name}::{name}"
        try:
            return OpOverloadPacket(full)
        except AttributeError:
            raise AttributeError(
                f"'_OpNamespace' '{self._name}' object has no attribute '{name}'"
            ) from None

    def __repr__(self) -> str:
        return f"<_OpNamespace '{self._name}'>"


class _Ops:
    """``shmtensor.ops``: namespaces of operators; ``aten`` is the built-in one."""

    #: Files that `load_library` has loaded.
    loaded_libraries: ClassVar[set[str]] = set()

    def load_library(self, path: Any) -> None:
        """Load operators that were compiled for torch.

        The operators of torchvision are taken from `shmtensor.as_torch.torchvision_operators`.

        Raises:
            OSError: They need torch's own C++ library; `library` adds operators from Python.
        """
        folder, file = os.path.split(os.fspath(path))
        stand_in = _STAND_INS.get((os.path.basename(folder), file.partition(".")[0]))
        if stand_in is not None:
            importlib.import_module(f"{__package__}.{stand_in}")
            return
        raise OSError(
            f"Could not load this library: {path}: it is compiled for torch's own C++ library, "
            "which is not here"
        )

    def __getattr__(self, namespace: str) -> _Namespace:
        if namespace.startswith("__"):
            raise AttributeError(namespace)
        found = _Namespace(namespace)
        setattr(self, namespace, found)
        return found


_C._set_overload_class(OpOverload)
ops = _Ops()
